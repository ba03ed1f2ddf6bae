#include "core/api/foreign_options.h"

#include <unistd.h>

#include "core/api/jemalloc_conf.h"
#include "core/base/check.h"
#include "core/base/options.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/os/os.h"

namespace seemalloc {

using options::Id;

namespace {

void (*report_line)(const char* line);
constexpr unsigned kMostWithoutEffect = 16;
const char* without_effect[kMostWithoutEffect];
unsigned without_effect_count = 0;
bool children_to_mark = false;

void choose(Id id, const char* value) {
  FixedText<256> problem;
  if (options::set(id, value, text_length(value), problem)) return;
  FixedText<500> line;
  line << "bad value \"" << value << "\" for " << options::row(id).name << " ignored; expected " << problem.c_str();
  report_line(line.c_str());
}

// The nearest that the option takes.
void choose(Id id, uint64_t value) {
  const options::Row& row = options::row(id);
  FixedText<24> text;
  text << (value < row.min ? row.min : value > row.max ? row.max : value);
  choose(id, text.c_str());
}

void complain(const char* name, const char* value, const char* expected) {
  FixedText<500> line;
  line << name << ": bad value \"" << value << "\" ignored; expected " << expected;
  report_line(line.c_str());
}

void note_without_effect(const char* name) {
  if (without_effect_count < kMostWithoutEffect) without_effect[without_effect_count] = name;
  without_effect_count++;
}

// ---- gperftools: numbers are decimal, switches what begins with t, y or 1, or is empty ----

bool parse_number(const char* value, uint64_t* number) {
  uint64_t n = 0;
  const char* at = value;
  for (; *at >= '0' && *at <= '9'; at++) {
    if (__builtin_mul_overflow(n, uint64_t{10}, &n) || __builtin_add_overflow(n, static_cast<uint64_t>(*at - '0'), &n)) return false;
  }
  *number = n;
  return at != value && *at == 0;
}

bool is_true(const char* value) {
  char first = *value;
  return first == 't' || first == 'T' || first == 'y' || first == 'Y' || first == '1' || first == 0;
}

// "2", "0.5": in thousandths. More digits are left out.
bool parse_thousandths(const char* value, uint64_t* number) {
  uint64_t n = 0, unit = 1000;
  bool fraction = false;
  const char* at = value;
  for (; *at != 0; at++) {
    if (*at == '.' && !fraction) {
      fraction = true;
      continue;
    }
    if (*at < '0' || *at > '9' || n > UINT64_MAX / 100) return false;
    if (fraction && unit == 1) continue;
    if (fraction) unit /= 10;
    n = n * 10 + static_cast<uint64_t>(*at - '0');
  }
  *number = n * unit;
  return at != value;
}

enum Variable : unsigned {
  kHeapProfile, kHeapProfileUsePid, kAllocationInterval, kInuseInterval, kTimeInterval, kProfileSignal, kHeapCheck, kSampleParameter,
  kAggressiveDecommit, kReleaseRate, kHeapLimitMb, kThreadCacheBytes, kDisableRelease, kVerbose, kMallocConf,
  // Of gperftools, and nothing that we have.
  kDeallocationInterval, kProfileMmap, kProfileOnlyMmap, kProfileMmapLog, kProfileCleanup, kSkipMmap, kSkipSbrk, kLargeReport,
  kPageSize, kMemfsPath, kVariables
};

constexpr const char* kNames[kVariables] = {
    "HEAPPROFILE", "HEAPPROFILE_USE_PID", "HEAP_PROFILE_ALLOCATION_INTERVAL", "HEAP_PROFILE_INUSE_INTERVAL",
    "HEAP_PROFILE_TIME_INTERVAL", "HEAPPROFILESIGNAL", "HEAPCHECK", "TCMALLOC_SAMPLE_PARAMETER",
    "TCMALLOC_AGGRESSIVE_DECOMMIT", "TCMALLOC_RELEASE_RATE", "TCMALLOC_HEAP_LIMIT_MB", "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES",
    "TCMALLOC_DISABLE_MEMORY_RELEASE", "PERFTOOLS_VERBOSE", "MALLOC_CONF",
    "HEAP_PROFILE_DEALLOCATION_INTERVAL", "HEAP_PROFILE_MMAP", "HEAP_PROFILE_ONLY_MMAP", "HEAP_PROFILE_MMAP_LOG",
    "HEAP_PROFILE_CLEANUP", "TCMALLOC_SKIP_MMAP", "TCMALLOC_SKIP_SBRK", "TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD",
    "TCMALLOC_OVERRIDE_PAGESIZE", "TCMALLOC_MEMFS_MALLOC_PATH"};

// Null: not set.
using Values = const char* [kVariables];

bool may_be_one(char first) { return first == 'H' || first == 'T' || first == 'P' || first == 'M'; }

void find_variables(char** environment, Values& values) {
  for (char** variable = environment; *variable != nullptr; variable++) {
    const char* name = *variable;
    if (!may_be_one(*name)) continue;
    size_t length = 0;
    while (name[length] != 0 && name[length] != '=') length++;
    if (name[length] == 0) continue;
    for (unsigned i = 0; i < kVariables; i++) {
      if (values[i] == nullptr && text_equal(name, length, kNames[i])) values[i] = name + length + 1;
    }
  }
}

// Sets an option to a variable's number of units, if it is there.
void choose_number(const Values& values, Variable variable, Id id, const char* expected, uint64_t unit = 1) {
  const char* value = values[variable];
  if (value == nullptr) return;
  uint64_t number;
  bool good = parse_number(value, &number) && !__builtin_mul_overflow(number, unit, &number);
  if (good && id == Id::dump_signal) good = number <= options::row(id).max;  // no other signal is near to it
  if (!good) return complain(kNames[variable], value, expected);
  choose(id, number);
}

void choose_prefix(const char* prefix, bool with_process) {
  FixedText<2 * options::kMaxTextBytes> text;
  text << prefix;
  if (with_process) text << '_' << os::process_id();
  choose(Id::dump_prefix, text.c_str());
}

void read_heap_profile(const Values& values) {
  const char* prefix = values[kHeapProfile];
  if (prefix == nullptr || *prefix == 0) return;
  bool is_child = values[kHeapProfileUsePid] != nullptr && is_true(values[kHeapProfileUsePid]);
  children_to_mark = !is_child;
  choose_prefix(prefix, is_child);
  choose(Id::dump_names, "gperftools");
  choose(Id::dump_final, 1);
  choose(Id::sample, 1);  // it records each allocation
  choose(Id::dump_alloc_interval, GiB);
  choose(Id::dump_growth_interval, 100 * MiB);
  choose_number(values, kAllocationInterval, Id::dump_alloc_interval, "bytes (0 is never)");
  choose_number(values, kInuseInterval, Id::dump_growth_interval, "bytes (0 is never)");
  choose_number(values, kTimeInterval, Id::dump_time_interval, "seconds (0 is never)");
  choose_number(values, kProfileSignal, Id::dump_signal, "the number of a signal");
}

void read_release_rate(const char* value) {
  uint64_t thousandths;
  if (value == nullptr) return;
  if (!parse_thousandths(value, &thousandths)) return complain(kNames[kReleaseRate], value, "a number such as 0.5 (0 is never)");
  if (thousandths == 0) return choose(Id::purge, "never");
  choose(Id::purge_delay, options::row(Id::purge_delay).fallback * 1000 / thousandths);
}

void read_heap_check(const char* value) {
  if (value == nullptr || *value == 0) return;
  report_line("HEAPCHECK: there is no leak checker here yet; what is still in use is reported at exit instead");
  choose(Id::leak_summary, 1);
  choose(Id::sample, 1);
}

void read_gperftools(const Values& values) {
  read_heap_profile(values);
  read_heap_check(values[kHeapCheck]);
  choose_number(values, kSampleParameter, Id::sample, "bytes (0 is never)");
  choose_number(values, kHeapLimitMb, Id::heap_limit, "a number of MiB (0 is no limit)", MiB);
  choose_number(values, kThreadCacheBytes, Id::thread_cache, "bytes");
  read_release_rate(values[kReleaseRate]);
  if (values[kAggressiveDecommit] != nullptr && is_true(values[kAggressiveDecommit])) choose(Id::purge, "eager");
  if (values[kDisableRelease] != nullptr && is_true(values[kDisableRelease])) choose(Id::purge, "never");
  if (values[kVerbose] != nullptr && *values[kVerbose] > '0') choose(Id::verbose, 1);
  for (unsigned i = kDeallocationInterval; i < kVariables; i++) {
    if (values[i] != nullptr) note_without_effect(kNames[i]);
  }
}

// ---- jemalloc ----

void choose_if(const JemallocConf& conf, JemallocName name, Id id) {
  if (conf.given(name)) choose(id, static_cast<uint64_t>(conf.number(name)));
}

// 2^n, at most what the option takes.
void choose_power(Id id, int64_t log2) { choose(id, log2 < 63 ? uint64_t{1} << log2 : UINT64_MAX); }

void choose_profiling(const JemallocConf& conf) {
  // Without prof the rest has no effect, but for prof_leak, which turns it on.
  bool leak = conf.is_on(JemallocName::prof_leak) || conf.is_on(JemallocName::prof_leak_error);
  if (!conf.is_on(JemallocName::prof) && !leak) return;
  if (conf.given(JemallocName::lg_prof_sample)) choose_power(Id::sample, conf.number(JemallocName::lg_prof_sample));
  if (conf.given(JemallocName::prof_active) && !conf.is_on(JemallocName::prof_active)) choose(Id::sample, uint64_t{0});
  choose(Id::dump_names, "jemalloc");
  if (conf.given(JemallocName::prof_prefix)) choose(Id::dump_prefix, conf.prefix());
  if (conf.given(JemallocName::prof_prefix) && *conf.prefix() == 0) return;  // no dumps by themselves
  if (conf.is_on(JemallocName::prof_final)) {
    choose(Id::dump_final, 1);
    if (leak) choose(Id::leak_summary, 1);
  }
  if (!conf.is_on(JemallocName::prof)) return;
  int64_t interval = conf.given(JemallocName::lg_prof_interval) ? conf.number(JemallocName::lg_prof_interval) : -1;
  if (interval >= 0) choose_power(Id::dump_alloc_interval, interval);
  if (conf.is_on(JemallocName::prof_gdump)) choose(Id::dump_growth_interval, kRegionBytes);
}

void choose_decay(const JemallocConf& conf) {
  if (conf.given(JemallocName::dirty_decay_ms)) {
    int64_t ms = conf.number(JemallocName::dirty_decay_ms);
    if (ms < 0) {
      choose(Id::purge, "never");
    } else {
      choose(Id::purge_delay, static_cast<uint64_t>(ms));
    }
  }
  if (conf.given(JemallocName::muzzy_decay_ms)) choose(Id::purge_free, conf.number(JemallocName::muzzy_decay_ms) < 0 ? 1 : 0);
  if (!conf.given(JemallocName::lg_dirty_mult)) return;
  if (conf.number(JemallocName::lg_dirty_mult) < 0) {
    choose(Id::purge, "never");
  } else {
    note_without_effect("lg_dirty_mult");
  }
}

void read_jemalloc(const char* text) {
  JemallocConf conf;
  bool good = conf.parse(text, report_line, note_without_effect);
  choose_profiling(conf);
  choose_decay(conf);
  choose_if(conf, JemallocName::background_thread, Id::helper);
  if (conf.is_on(JemallocName::stats_print)) choose(Id::stats_print, 1);
  if (conf.is_on(JemallocName::confirm_conf)) choose(Id::verbose, 1);
  if (!good && conf.is_on(JemallocName::abort_conf)) fatal_text("MALLOC_CONF: abort_conf:true, and not all of it was understood");
}

}  // namespace

void read_foreign_options(char** environment, void (*report)(const char* line)) {
  report_line = report;
  without_effect_count = 0;
  Values values = {};
  find_variables(environment, values);
  read_gperftools(values);
  if (values[kMallocConf] != nullptr) read_jemalloc(values[kMallocConf]);
}

void report_options_without_effect(void (*report)(const char* line)) {
  if (without_effect_count == 0 || options::get(Id::verbose) == 0) return;
  FixedText<500> line;
  line << "without effect here: ";
  for (unsigned i = 0; i < without_effect_count && i < kMostWithoutEffect; i++) line << (i != 0 ? ", " : "") << without_effect[i];
  if (without_effect_count > kMostWithoutEffect) line << " and others";
  report(line.c_str());
}

void mark_children_of_foreign_options() {
  if (!children_to_mark || environ == nullptr) return;
  static char mark[] = "HEAPPROFILE_USE_PID=1";
  size_t count = 0;
  while (environ[count] != nullptr) count++;
  size_t bytes = round_up((count + 2) * sizeof(char*), os::page_bytes());
  char** longer = static_cast<char**>(os::map(bytes, os::Reason::kRecords));
  if (longer == nullptr) return;
  for (size_t i = 0; i < count; i++) longer[i] = environ[i];
  longer[count] = mark;
  environ = longer;
}

}  // namespace seemalloc
