#include "core/api/control.h"

#include <atomic>

#include "core/api/cpu_profiler.h"
#include "core/api/dump.h"
#include "core/api/dump_names.h"
#include "core/api/heap_map_json.h"
#include "core/api/mapped_text.h"
#include "core/api/profile_kinds.h"
#include "core/api/report.h"
#include "core/api/runtime_options.h"
#include "core/api/sampling.h"
#include "core/api/trace.h"
#include "core/base/options.h"
#include "core/heap/housekeeping.h"
#include "core/os/os.h"
#include "core/os/process.h"
#include "core/os/socket.h"

namespace seemalloc {

namespace {

// For one whole answer; the helper has other work.
constexpr uint64_t kAnswerTime_ns = 5 * kSecond_ns;
constexpr uint64_t kSendTimeout_ns = kSecond_ns;
// After a failed accept (no descriptor to be had) the waiting client would wake us at once, and again.
constexpr uint64_t kAcceptPause_ns = kSecond_ns;
constexpr long kWouldBlock = -11;  // -EAGAIN

// The process that made the socket file; 0: none. A forked child must not remove its parent's.
std::atomic<int> socket_process{0};
char socket_path[options::kMaxTextBytes + 64];

// Each answer says whether the client took it; one that did not is let go.
bool answer(int fd, const void* data, size_t bytes) {
  uint64_t deadline = os::monotonic_ns() + kAnswerTime_ns;
  FixedText<64> header;
  header << "ok " << uint64_t{bytes} << "\n";
  return os::send_all(fd, header.c_str(), header.size(), deadline) == 0 && os::send_all(fd, data, bytes, deadline) == 0;
}

bool answer(int fd, const Text& text) { return answer(fd, text.c_str(), text.size()); }
bool answer(int fd, const char* text) { return answer(fd, text, text_length(text)); }

// Gives the profile's memory back.
bool answer(int fd, const ProfileBytes& profile) {
  bool taken = answer(fd, profile.data, profile.bytes);
  give_back(profile);
  return taken;
}

bool answer_error(int fd, const char* what, const char* detail = "") {
  FixedText<512> line;
  line << "error " << what << detail;
  line.end_line();
  return os::send_all(fd, line.c_str(), line.size(), os::monotonic_ns() + kAnswerTime_ns) == 0;
}

// ---- commands: each gets its arguments, NUL-terminated ----

bool do_ping(int fd, const char*) { return answer(fd, "pong"); }
bool do_version(int fd, const char*) { return answer(fd, SEEMALLOC_VERSION); }

bool do_profile(int fd, const char* name) {
  const ProfileKind* kind = find_profile_kind(name);
  if (kind == nullptr) {
    FixedText<400> problem;
    problem << "no profile is called \"" << name << "\", expected one of ";
    list_profile_kinds(problem);
    return answer_error(fd, problem.c_str());
  }
  if (!sampling_report().available) return answer_error(fd, "this is the library without a profiler (minimal)");
  ProfileBytes profile{};
  if (!kind->take(&profile)) return answer_error(fd, "no memory for the profile");
  return answer(fd, profile);
}

bool do_baseline(int fd, const char*) {
  if (!set_profile_baseline()) return answer_error(fd, "this is the library without a profiler (minimal)");
  return answer(fd, "");
}

// With a pattern for its name, or without; answers with the name.
bool do_dump(int fd, const char* pattern) {
  FixedText<kDumpPathBytes> path;
  int result = *pattern != 0 ? dump_profile(*find_profile_kind("heap"), pattern, &path) : dump_by_prefix(DumpReason::kAsked, path);
  if (result == 0) return answer(fd, path);
  FixedText<kDumpPathBytes + 64> problem;
  problem << path.c_str() << " could not be written (errno " << -result << ")";
  return answer_error(fd, problem.c_str());
}

bool do_stats(int fd, const char* how) {
  bool brief = text_equal(how, "brief");
  if (!brief && *how != 0) return answer_error(fd, "unknown kind of statistics, expected brief or nothing: ", how);
  MappedText memory(kJsonBytes);
  if (memory.memory() == nullptr) return answer_error(fd, "no memory for the statistics");
  Text text(memory.memory(), memory.bytes());
  write_json(text, !brief);
  return answer(fd, text);
}

bool do_threads(int fd, const char*) {
  MappedText memory(threads_json_bytes());
  if (memory.memory() == nullptr) return answer_error(fd, "no memory for the threads");
  Text text(memory.memory(), memory.bytes());
  write_threads_json(text, memory.bytes());
  return answer(fd, text);
}

bool do_options(int fd, const char*) {
  MappedText memory(64 * KiB);
  if (memory.memory() == nullptr) return answer_error(fd, "no memory for the options");
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
  return answer(fd, text);
}

bool do_get(int fd, const char* name) {
  options::Id id;
  if (!options::find(name, text_length(name), &id)) return answer_error(fd, "no such option: ", name);
  FixedText<options::kMaxTextBytes> value;
  print_option(id, value);
  return answer(fd, value);
}

size_t first_word_length(const char* line) {
  size_t length = 0;
  while (line[length] != 0 && line[length] != ' ') length++;
  return length;
}

bool do_set(int fd, const char* arguments) {
  size_t name_length = first_word_length(arguments);
  const char* value = arguments + name_length;
  if (*value == ' ') value++;
  FixedText<400> problem;
  if (set_option(arguments, name_length, value, problem) != SetOption::kDone) return answer_error(fd, problem.c_str());
  return answer(fd, "");
}

bool do_purge(int fd, const char*) {
  FixedText<32> bytes;
  bytes << uint64_t{heap::purge_all()};
  return answer(fd, bytes);
}

bool answer_start(int fd) {
  unsigned reader = 0;
  switch (start_trace(&reader)) {
    case TraceStart::kNoMemory: return answer_error(fd, "no memory for the trace");
    case TraceStart::kTooManyReaders: return answer_error(fd, "too many are tracing it already");
    case TraceStart::kStarted: break;
  }
  FixedText<32> name;
  name << reader;
  return answer(fd, name);
}

bool answer_read(int fd, unsigned reader) {
  MappedText memory(kTraceTextBytes);
  if (memory.memory() == nullptr) return answer_error(fd, "no memory for the events");
  Text text(memory.memory(), memory.bytes());
  if (!read_trace(reader, text)) return answer_error(fd, "this trace has ended: it was not read for 5 s");
  return answer(fd, text);
}

// 0: there is none.
unsigned number_at(const char* text) {
  while (*text == ' ') text++;
  unsigned number = 0;
  for (; *text >= '0' && *text <= '9'; text++) number = number * 10 + static_cast<unsigned>(*text - '0');
  return number;
}

bool do_trace(int fd, const char* arguments) {
  size_t length = first_word_length(arguments);
  unsigned reader = number_at(arguments + length);
  if (text_equal(arguments, length, "start")) return answer_start(fd);
  if (text_equal(arguments, length, "read")) return answer_read(fd, reader);
  if (text_equal(arguments, length, "stop")) return stop_trace(reader) ? answer(fd, "") : answer_error(fd, "no such trace");
  return answer_error(fd, "expected trace start, read N or stop N: ", arguments);
}

// A number of at most nine digits, behind it a space or the end; false where there is none. *at: what comes next.
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
bool answer_cpu_start(int fd, const char* arguments) {
  CpuRequest request = requested_cpu_profile();
  const char* at = arguments;
  uint64_t frequency = request.frequency, ms = 0;
  bool good = (*at == 0 || take_number(&at, &frequency)) && (*at == 0 || take_number(&at, &ms)) && *at == 0;
  if (!good || frequency < 1 || frequency > kMaxCpuFrequency) {
    return answer_error(fd, "expected a frequency from 1 to 4000 and a time in ms: ", arguments);
  }
  request.frequency = static_cast<unsigned>(frequency);
  request.most_ns = ms * kMillisecond_ns;
  uint64_t number = 0;
  CpuStart started = start_cpu_profile(request, &number);
  if (started != CpuStart::kStarted) return answer_error(fd, text_of(started));
  FixedText<32> name;
  name << number;
  return answer(fd, name);
}

// "": whichever runs. "NUMBER": that one, if it still runs, and what it saw is the answer, unless another has begun since.
bool answer_cpu_stop(int fd, const char* argument) {
  if (*argument == 0) return stop_cpu_profile() ? answer(fd, "") : answer_error(fd, "no CPU profile is running");
  uint64_t number = 0;
  const char* at = argument;
  if (!take_number(&at, &number) || *at != 0) return answer_error(fd, "expected the number that cpu start has answered: ", argument);
  CpuTaken taken{};
  switch (take_cpu_profile(number, true, &taken)) {
    case CpuTake::kReplaced: return answer_error(fd, "there is no such CPU profile any more: another has begun since");
    case CpuTake::kNoMemory: return answer_error(fd, "no memory for the profile");
    case CpuTake::kTaken: break;
  }
  return answer(fd, taken.profile);
}

bool do_cpu(int fd, const char* arguments) {
  size_t length = first_word_length(arguments);
  const char* rest = arguments + length + (arguments[length] == ' ' ? 1 : 0);
  if (text_equal(arguments, length, "start")) return answer_cpu_start(fd, rest);
  if (text_equal(arguments, length, "stop")) return answer_cpu_stop(fd, rest);
  return answer_error(fd, "expected cpu start [HZ [MILLISECONDS]] or cpu stop [NUMBER]: ", arguments);
}

// The number that an argument spells in full, in hexadecimal; false where it spells none.
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
bool do_map(int fd, const char* arguments) {
  HeapMapRequest request;
  if (*arguments != 0) {
    const char* rest = arguments;
    bool read = read_hex(rest, &request.from) && *rest++ == ' ' && read_hex(rest, &request.to) && *rest == 0;
    if (!read || request.from >= request.to) return answer_error(fd, "expected map or map 0xFROM 0xTO: ", arguments);
    request.with_parts = true;
  }
  HeapMapJson map(request);
  if (!map.write()) return answer_error(fd, "no memory for the map");
  return answer(fd, map.text());
}

struct Command {
  const char* name;
  bool (*run)(int fd, const char* arguments);
};
constexpr Command kCommands[] = {
    {"ping", do_ping}, {"version", do_version}, {"profile", do_profile}, {"stats", do_stats},
    {"options", do_options}, {"get", do_get}, {"set", do_set}, {"purge", do_purge},
    {"trace", do_trace}, {"threads", do_threads}, {"baseline", do_baseline}, {"cpu", do_cpu},
    {"dump", do_dump}, {"map", do_map},
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

bool run_line(int fd, char* line) {
  char* arguments = line + first_word_length(line);
  if (*arguments == ' ') *arguments++ = 0;
  for (const Command& command : kCommands) {
    if (text_equal(line, command.name)) return command.run(fd, arguments);
  }
  return answer_error(fd, "unknown command: ", line);
}

bool find_folder(Text& folder) {
  const char* chosen = options::get_text(options::Id::socket_dir);
  if (*chosen != 0) {
    folder << chosen;
  } else {
    folder << "/tmp/seemalloc-" << os::effective_user();
  }
  return os::make_private_folder(folder.c_str());
}

}  // namespace

void Control::keep_open() {
  bool new_user = user_ != os::effective_user();
  if (listener_.fd >= 0) {
    if (!new_user && listener_.is_ours()) return;
    listener_.close();
    remove_socket();
  }
  if (new_user) given_up_ = false;
  if (given_up_ || options::get(options::Id::socket) == 0 || os::is_privileged()) return;
  user_ = os::effective_user();
  given_up_ = true;
  FixedText<options::kMaxTextBytes> folder;
  if (!find_folder(folder)) return;
  int process = os::process_id();
  Text(socket_path, sizeof(socket_path)) << folder.c_str() << "/" << process << ".sock";
  int fd = os::listen_unix(socket_path);
  if (fd < 0) return;
  given_up_ = false;
  listener_.set(fd);
  socket_process.store(process, std::memory_order_release);
}

void Control::accept_client() {
  unsigned peer = 0;
  int fd = os::accept_unix(listener_.fd, kSendTimeout_ns, &peer);
  if (fd < 0) {
    accept_again_ns_ = os::monotonic_ns() + kAcceptPause_ns;
    return;
  }
  const char* refusal = peer != os::effective_user() && peer != 0 ? "permission denied: not the same user" : "too many connections";
  if (peer == os::effective_user() || peer == 0) {
    for (Client& client : clients_) {
      if (client.descriptor.fd >= 0) continue;
      client.descriptor.set(fd);
      client.length = 0;
      return;
    }
  }
  answer_error(fd, refusal);
  os::close_file(fd);
}

bool Control::read_client(Client& client) {
  int fd = client.descriptor.fd;
  if (!client.descriptor.is_ours()) return false;
  long received = os::receive_now(fd, client.line + client.length, kMaxLine - 1 - client.length);
  if (received == kWouldBlock) return true;
  if (received <= 0) return false;
  client.length += static_cast<unsigned>(received);
  unsigned start = 0;
  for (unsigned i = 0; i < client.length; i++) {
    if (client.line[i] != '\n') continue;
    client.line[i] = 0;
    if (!client.descriptor.is_ours() || !run_line(fd, client.line + start)) return false;
    start = i + 1;
  }
  for (unsigned i = start; i < client.length; i++) client.line[i - start] = client.line[i];
  client.length -= start;
  return client.length < kMaxLine - 1;  // a longer line is no command of ours
}

void Control::wait(StallWatch& stalls, WakeUp& wake_up, uint64_t timeout_ns) {
  constexpr unsigned kPolls = kMaxClients + 3;
  os::Poll polls[kPolls];
  for (unsigned i = 0; i < kMaxClients; i++) polls[i] = {clients_[i].descriptor.fd, false};
  bool accepting = os::monotonic_ns() >= accept_again_ns_;
  polls[kMaxClients] = {accepting ? listener_.fd : -1, false};  // negative descriptors are passed over
  polls[kMaxClients + 1] = stalls.wanted();
  polls[kMaxClients + 2] = wake_up.wanted();
  os::poll_readable(polls, kPolls, timeout_ns);
  stalls.note(polls[kMaxClients + 1]);
  wake_up.note(polls[kMaxClients + 2]);
  for (unsigned i = 0; i < kMaxClients; i++) clients_[i].ready = polls[i].readable;
  listener_ready_ = polls[kMaxClients].readable;
}

void Control::interrupt() const {
  os::Descriptor listener = listener_;
  if (listener.is_ours()) os::stop_listening(listener.fd);
}

void Control::serve() {
  for (Client& client : clients_) {
    if (client.descriptor.fd >= 0 && client.ready && !read_client(client)) client.descriptor.close();
  }
  if (listener_ready_ && listener_.is_ours()) accept_client();
}

void Control::forget() {
  // Closed, not only forgotten: an inherited connection would keep the parent's client waiting.
  listener_.close();
  for (Client& client : clients_) client.descriptor.close();
  given_up_ = false;
}

void remove_socket() {
  int process = socket_process.load(std::memory_order_acquire);
  if (process == 0 || process != os::process_id()) return;
  socket_process.store(0, std::memory_order_relaxed);
  os::remove_file(socket_path);
}

}  // namespace seemalloc
