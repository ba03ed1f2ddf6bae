#include "core/api/service/exit_files.h"

#include "core/api/dumps/auto_dump.h"
#include "core/api/dumps/dump.h"
#include "core/api/dumps/dump_names.h"
#include "core/api/dumps/profile_kinds.h"
#include "core/api/sampling/sampling.h"
#include "core/api/service/mapped_text.h"
#include "core/api/service/report.h"
#include "core/api/settings/runtime_options.h"
#include "core/base/check.h"
#include "core/base/options.h"
#include "core/base/text.h"

namespace seemalloc {

using options::Id;

namespace {

using Print = void (*)();
constinit const Print kPrintJemallocStatistics = print_jemalloc_statistics;

int write_statistics(const char* pattern, Text& path) {
  if (!dump_name_from(pattern, path)) return kDumpNameTooLong;
  MappedText memory(kJsonBytes);
  if (memory.memory() == nullptr) return kDumpNoMemory;
  Text text(memory.memory(), memory.bytes());
  write_json(text, true);
  return write_file(path.c_str(), text.c_str(), text.size());
}

void dump_to(const char* pattern) {
  FixedText<kDumpPathBytes> path;
  int result = dump_profile(*find_profile_kind("heap"), pattern, &path);
  warn_of_failed_dump("heap profile", path.c_str(), result);
}

// Appends the file's name to `path`, or leaves it empty.
void dump_final_profile(Text& path) {
  if (options::get(Id::dump_final) == 0) return;
  int result = dump_by_prefix(DumpReason::kExit, path);
  warn_of_failed_dump("heap profile", path.c_str(), result);
  if (result != 0) path.clear();
}

void write_statistics_to(const char* pattern) {
  FixedText<kDumpPathBytes> path;
  int result = count_dump(write_statistics(pattern, path));
  warn_of_failed_dump("statistics", path.c_str(), result);
}

// Reports the bytes in use, as estimated from samples.
void print_leak_summary(const char* profile) {
  SamplingReport r = sampling_report();
  FixedText<kDumpPathBytes + 256> line;
  line << "still in use at exit: about " << r.estimate_bytes << " bytes (standard error "
       << r.estimate_stderr_bytes << "), estimated from " << r.live_samples << " samples";
  if (*profile != 0) line << "; `seemalloc top " << profile << "` shows the call stacks";
  warn(line.c_str());
}

}  // namespace

bool dumps_at_exit() {
  bool to_files =
      *options::get_text(Id::dump_at_exit) != 0 || *options::get_text(Id::stats_at_exit) != 0;
  return to_files || options::get(Id::dump_final) != 0 || options::get(Id::leak_summary) != 0 ||
         options::get(Id::stats_print) != 0;
}

void dump_at_exit() {
  finish_dumps_at_exit();
  FixedText<options::kMaxTextBytes> pattern;
  copy_text_option(Id::dump_at_exit, pattern);
  if (pattern.size() != 0) dump_to(pattern.c_str());
  FixedText<kDumpPathBytes> path;
  dump_final_profile(path);
  if (options::get(Id::leak_summary) != 0) print_leak_summary(path.c_str());
  pattern.clear();
  copy_text_option(Id::stats_at_exit, pattern);
  if (pattern.size() != 0) write_statistics_to(pattern.c_str());
  if (options::get(Id::stats_print) != 0)
    kPrintJemallocStatistics != nullptr ? kPrintJemallocStatistics() : print_statistics();
}

}  // namespace seemalloc
