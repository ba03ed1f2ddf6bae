#include "core/api/service/commands.h"

#include <errno.h>

#include "core/api/cpu/cpu_profiler.h"
#include "core/api/dumps/dump.h"
#include "core/api/dumps/dump_names.h"
#include "core/api/dumps/profile_kinds.h"
#include "core/api/sampling/sampling.h"
#include "core/api/service/heap_map_json.h"
#include "core/api/service/mapped_text.h"
#include "core/api/service/report.h"
#include "core/api/service/trace.h"
#include "core/api/settings/runtime_options.h"
#include "core/base/options.h"
#include "core/heap/maintenance/purge_all.h"
#include "core/os/process/mapping_count.h"

namespace seemalloc {

namespace {

// Appends the cause if the process has used up its mappings.
void describe_used_up_mappings(Text& out) {
  os::MappingCount mappings = os::count_mappings();
  if (!mappings.is_used_up()) return;
  out << ": the process has " << mappings.count << " mappings of at most " << mappings.limit
      << " (vm.max_map_count)";
}

void refuse_for_memory(Reply& reply, const char* purpose) {
  FixedText<200> problem;
  problem << "no memory for " << purpose;
  describe_used_up_mappings(problem);
  return reply.error(problem.c_str());
}

// ---- commands: each gets its arguments, NUL-terminated ----

void do_ping(Reply& reply, const char*) { return reply.text("pong"); }
void do_version(Reply& reply, const char*) { return reply.text(SEEMALLOC_VERSION); }

void do_profile(Reply& reply, const char* name) {
  const ProfileKind* kind = find_profile_kind(name);
  if (kind == nullptr) {
    FixedText<400> problem;
    problem << "unknown kind of profile \"" << name << "\", expected one of ";
    list_profile_kinds(problem);
    return reply.error(problem.c_str());
  }
  if (!sampling_report().available)
    return reply.error("this is the library without a profiler (minimal)");
  ProfileBytes profile{};
  if (!kind->collect(&profile)) return refuse_for_memory(reply, "the profile");
  reply.profile(profile);
}

void do_baseline(Reply& reply, const char*) {
  if (!set_profile_baseline())
    return reply.error("this is the library without a profiler (minimal)");
  return reply.text("");
}

// Writes a profile to the file that the program's own options name, and answers with the name. A
// client cannot choose a path: the tool fetches the profile and writes it itself.
void do_dump(Reply& reply, const char* arguments) {
  if (*arguments != 0)
    return reply.error("expected dump without arguments: clients cannot choose the path");
  FixedText<kDumpPathBytes> path;
  int result = dump_by_prefix(DumpReason::kRequested, path);
  if (result == 0) return reply.text(path);
  FixedText<kDumpPathBytes + 200> problem;
  problem << path.c_str() << " could not be written (errno " << -result << ")";
  if (result == -ENOMEM) describe_used_up_mappings(problem);
  return reply.error(problem.c_str());
}

void do_stats(Reply& reply, const char* how) {
  bool brief = text_equal(how, "brief");
  if (!brief && *how != 0)
    return reply.error("unknown kind of statistics, expected brief or nothing: ", how);
  MappedText memory(kJsonBytes);
  if (memory.memory() == nullptr) return refuse_for_memory(reply, "the statistics");
  Text text(memory.memory(), memory.bytes());
  write_json(text, !brief);
  reply.memory(memory, text.size());
}

void do_threads(Reply& reply, const char*) {
  MappedText memory(threads_json_bytes());
  if (memory.memory() == nullptr) return refuse_for_memory(reply, "the threads");
  Text text(memory.memory(), memory.bytes());
  write_threads_json(text, memory.bytes());
  reply.memory(memory, text.size());
}

void do_options(Reply& reply, const char*) {
  MappedText memory(64 * KiB);
  if (memory.memory() == nullptr) return refuse_for_memory(reply, "the options");
  Text text(memory.memory(), memory.bytes());
  for (size_t i = 0; i < options::kCount; i++) {
    options::Id id = static_cast<options::Id>(i);
    const options::Row& row = options::row(id);
    text << row.name << '\t';
    print_option(id, text);
    text << '\t';
    options::print_default(id, text);
    text << '\t' << (row.when == options::When::kAny ? "any" : "start") << '\t';
    options::print_expected(id, text);
    text << '\t' << row.help << '\n';
  }
  reply.memory(memory, text.size());
}

void do_get(Reply& reply, const char* name) {
  options::Id id;
  if (!options::find(name, text_length(name), &id)) return reply.error("no such option: ", name);
  FixedText<options::kMaxTextBytes> value;
  print_option(id, value);
  return reply.text(value);
}

size_t first_word_length(const char* line) {
  size_t length = 0;
  while (line[length] != 0 && line[length] != ' ') length++;
  return length;
}

void do_set(Reply& reply, const char* arguments) {
  size_t name_length = first_word_length(arguments);
  const char* value = arguments + name_length;
  if (*value == ' ') value++;
  options::Id id;
  if (options::find(arguments, name_length, &id) && options::row(id).kind == options::Kind::kText &&
      options::row(id).when == options::When::kAny) {
    return reply.error(
        "only the program itself can set file names, in SEEMALLOC_CONF or by its own calls: ",
        options::row(id).name);
  }
  FixedText<400> problem;
  if (set_option(arguments, name_length, value, problem) != SetOption::kDone)
    return reply.error(problem.c_str());
  return reply.text("");
}

void do_purge(Reply& reply, const char*) {
  FixedText<32> bytes;
  bytes << uint64_t{heap::purge_all()};
  return reply.text(bytes);
}

void answer_start(Reply& reply) {
  unsigned reader = 0;
  switch (start_trace(&reader)) {
    case TraceStart::kNoMemory: return refuse_for_memory(reply, "the trace");
    case TraceStart::kTooManyReaders: return reply.error("too many traces are running already");
    case TraceStart::kStarted: break;
  }
  FixedText<32> name;
  name << reader;
  return reply.text(name);
}

void answer_read(Reply& reply, unsigned reader) {
  MappedText memory(kTraceTextBytes);
  if (memory.memory() == nullptr) return refuse_for_memory(reply, "the events");
  Text text(memory.memory(), memory.bytes());
  if (!read_trace(reader, text))
    return reply.error("this trace has ended: it was not read for 5 s");
  reply.memory(memory, text.size());
}

// The number at `text`, after spaces; 0 if there is none.
unsigned number_at(const char* text) {
  while (*text == ' ') text++;
  unsigned number = 0;
  for (; *text >= '0' && *text <= '9'; text++)
    number = number * 10 + static_cast<unsigned>(*text - '0');
  return number;
}

void do_trace(Reply& reply, const char* arguments) {
  size_t length = first_word_length(arguments);
  unsigned reader = number_at(arguments + length);
  if (text_equal(arguments, length, "start")) return answer_start(reply);
  if (text_equal(arguments, length, "read")) return answer_read(reply, reader);
  if (text_equal(arguments, length, "stop"))
    return stop_trace(reader) ? reply.text("") : reply.error("no such trace");
  return reply.error("expected trace start, read N or stop N: ", arguments);
}

// Reads a number of at most nine digits, followed by a space or the end. False if there is none.
// *at: the text after it.
bool take_number(const char** at, uint64_t* number) {
  const char* s = *at;
  uint64_t n = 0;
  for (; *s >= '0' && *s <= '9' && n < 100000000; s++) n = n * 10 + static_cast<uint64_t>(*s - '0');
  if (s == *at || (*s != ' ' && *s != 0)) return false;
  *at = *s == ' ' ? s + 1 : s;
  *number = n;
  return true;
}

// "[HZ [MILLISECONDS]]"; answers with the profile's number (cpu_profiler.h).
void answer_cpu_start(Reply& reply, const char* arguments) {
  CpuRequest request = requested_cpu_profile();
  const char* at = arguments;
  uint64_t frequency = request.frequency, ms = 0;
  bool good =
      (*at == 0 || take_number(&at, &frequency)) && (*at == 0 || take_number(&at, &ms)) && *at == 0;
  if (!good || frequency < 1 || frequency > kMaxCpuFrequency) {
    return reply.error("expected a frequency from 1 to 4000 and a time in ms: ", arguments);
  }
  request.frequency = static_cast<unsigned>(frequency);
  request.max_duration_ns = ms * kMillisecondNs;
  uint64_t number = 0;
  CpuStartResult started = start_cpu_profile(request, &number);
  if (started == CpuStartResult::kNoMemory) return refuse_for_memory(reply, "the profile");
  if (started != CpuStartResult::kStarted) return reply.error(describe(started));
  FixedText<32> name;
  name << number;
  return reply.text(name);
}

// "": stops the running profile. "NUMBER": stops that profile if it is still running. The answer is
// its profile, unless another one has started since.
void answer_cpu_stop(Reply& reply, const char* argument) {
  if (*argument == 0)
    return stop_cpu_profile() ? reply.text("") : reply.error("no CPU profile is running");
  uint64_t number = 0;
  const char* at = argument;
  if (!take_number(&at, &number) || *at != 0)
    return reply.error("expected the number returned by cpu start: ", argument);
  CollectedCpuProfile taken{};
  switch (collect_cpu_profile(number, true, &taken)) {
    case CpuCollectResult::kReplaced:
      return reply.error("no such CPU profile: another one has started since");
    case CpuCollectResult::kNoMemory: return refuse_for_memory(reply, "the profile");
    case CpuCollectResult::kCollected: break;
  }
  reply.profile(taken.profile);
}

void do_cpu(Reply& reply, const char* arguments) {
  size_t length = first_word_length(arguments);
  const char* rest = arguments + length + (arguments[length] == ' ' ? 1 : 0);
  if (text_equal(arguments, length, "start")) return answer_cpu_start(reply, rest);
  if (text_equal(arguments, length, "stop")) return answer_cpu_stop(reply, rest);
  return reply.error("expected cpu start [HZ [MILLISECONDS]] or cpu stop [NUMBER]: ", arguments);
}

// Reads a hexadecimal number ("0x…") and advances `text`; false if there is none.
bool read_hex(const char*& text, uint64_t* out) {
  if (text[0] != '0' || text[1] != 'x') return false;
  text += 2;
  uint64_t number = 0;
  unsigned digits = 0;
  for (;; text++, digits++) {
    unsigned c = static_cast<unsigned char>(*text);
    unsigned digit = c - '0' < 10 ? c - '0' : (c | 32) - 'a' < 6 ? (c | 32) - 'a' + 10 : 16;
    if (digit == 16) break;
    number = number << 4 | digit;
  }
  *out = number;
  return digits != 0 && digits <= 16;
}

// "[FROM TO]"
void do_map(Reply& reply, const char* arguments) {
  HeapMapRequest request;
  if (*arguments != 0) {
    const char* rest = arguments;
    bool read = read_hex(rest, &request.from) && *rest++ == ' ' && read_hex(rest, &request.to) &&
                *rest == 0;
    if (!read || request.from >= request.to)
      return reply.error("expected map or map 0xFROM 0xTO: ", arguments);
    request.with_parts = true;
  }
  HeapMapJson map(request);
  if (!map.write()) return refuse_for_memory(reply, "the map");
  reply.memory(map.memory(), map.text().size());
}

struct Command {
  const char* name;
  void (*run)(Reply& reply, const char* arguments);
};
constexpr Command kCommands[] = {
    {"ping", do_ping},       {"version", do_version},   {"profile", do_profile},
    {"stats", do_stats},     {"options", do_options},   {"get", do_get},
    {"set", do_set},         {"purge", do_purge},       {"trace", do_trace},
    {"threads", do_threads}, {"baseline", do_baseline}, {"cpu", do_cpu},
    {"dump", do_dump},       {"map", do_map},
};
constexpr bool each_is_there_once() {
  for (const Command& a : kCommands) {
    for (const Command& b : kCommands) {
      if (&a != &b && __builtin_strcmp(a.name, b.name) == 0) return false;
    }
  }
  return true;
}
static_assert(each_is_there_once());

}  // namespace

void run_command(Reply& reply, char* line) {
  char* arguments = line + first_word_length(line);
  if (*arguments == ' ') *arguments++ = 0;
  for (const Command& command : kCommands) {
    if (text_equal(line, command.name)) return command.run(reply, arguments);
  }
  return reply.error("unknown command: ", line);
}

}  // namespace seemalloc
