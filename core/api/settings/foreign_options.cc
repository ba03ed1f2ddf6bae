#include "core/api/settings/foreign_options.h"

#include <unistd.h>

#include "core/api/settings/jemalloc_conf.h"
#include "core/base/check.h"
#include "core/base/options.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/os/kernel/ids.h"
#include "core/os/kernel/memory.h"

namespace seemalloc {

using options::Id;

namespace {

void (*report_line)(const char* line);
constexpr unsigned kMaxIgnoredSettings = 16;
const char* ignored_settings[kMaxIgnoredSettings];
unsigned ignored_setting_count = 0;
bool heap_is_profiled = false;
constinit JemallocSettings jemalloc_settings_{};
// "NAME_USE_PID=1" for the variables that children must recognise.
constexpr unsigned kMaxMarks = 2;
char marks[kMaxMarks][40];
unsigned mark_count = 0;

void set_option_value(Id id, const char* value) {
  FixedText<256> problem;
  if (options::set(id, value, text_length(value), problem)) return;
  FixedText<500> line;
  line << "bad value \"" << value << "\" for " << options::row(id).name << " ignored; expected "
       << problem.c_str();
  report_line(line.c_str());
}

// Sets the nearest value that the option accepts.
void set_option_value(Id id, uint64_t value) {
  const options::Row& row = options::row(id);
  FixedText<24> text;
  text << (value < row.min ? row.min : value > row.max ? row.max : value);
  set_option_value(id, text.c_str());
}

void warn_bad_value(const char* name, const char* value, const char* expected) {
  FixedText<500> line;
  line << name << ": bad value \"" << value << "\" ignored; expected " << expected;
  report_line(line.c_str());
}

void note_ignored_setting(const char* name) {
  if (ignored_setting_count < kMaxIgnoredSettings) ignored_settings[ignored_setting_count] = name;
  ignored_setting_count++;
}

// ---- gperftools: numbers are decimal; a switch is on if its value begins with t, y or 1, or is
// empty ----

bool parse_number(const char* value, uint64_t* number) {
  uint64_t n = 0;
  const char* at = value;
  for (; *at >= '0' && *at <= '9'; at++) {
    if (__builtin_mul_overflow(n, uint64_t{10}, &n) ||
        __builtin_add_overflow(n, static_cast<uint64_t>(*at - '0'), &n))
      return false;
  }
  *number = n;
  return at != value && *at == 0;
}

bool is_true(const char* value) {
  char first = *value;
  return first == 't' || first == 'T' || first == 'y' || first == 'Y' || first == '1' || first == 0;
}

// "2", "0.5": in thousandths. Further digits are ignored.
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
  kHeapProfile,
  kAllocationInterval,
  kInuseInterval,
  kTimeInterval,
  kProfileSignal,
  kHeapCheck,
  kSampleParameter,
  kAggressiveDecommit,
  kReleaseRate,
  kHeapLimitMb,
  kThreadCacheBytes,
  kDisableRelease,
  kVerbose,
  kMallocConf,
  // gperftools variables without a counterpart here.
  kDeallocationInterval,
  kProfileMmap,
  kProfileOnlyMmap,
  kProfileMmapLog,
  kProfileCleanup,
  kSkipMmap,
  kSkipSbrk,
  kLargeReport,
  kPageSize,
  kMemfsPath,
  kProfileBuffer,
  kPerThreadTimers,
  kTimerSignal,
  kVariables
};

constexpr const char* kNames[kVariables] = {"HEAPPROFILE",
                                            "HEAP_PROFILE_ALLOCATION_INTERVAL",
                                            "HEAP_PROFILE_INUSE_INTERVAL",
                                            "HEAP_PROFILE_TIME_INTERVAL",
                                            "HEAPPROFILESIGNAL",
                                            "HEAPCHECK",
                                            "TCMALLOC_SAMPLE_PARAMETER",
                                            "TCMALLOC_AGGRESSIVE_DECOMMIT",
                                            "TCMALLOC_RELEASE_RATE",
                                            "TCMALLOC_HEAP_LIMIT_MB",
                                            "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES",
                                            "TCMALLOC_DISABLE_MEMORY_RELEASE",
                                            "PERFTOOLS_VERBOSE",
                                            "MALLOC_CONF",
                                            "HEAP_PROFILE_DEALLOCATION_INTERVAL",
                                            "HEAP_PROFILE_MMAP",
                                            "HEAP_PROFILE_ONLY_MMAP",
                                            "HEAP_PROFILE_MMAP_LOG",
                                            "HEAP_PROFILE_CLEANUP",
                                            "TCMALLOC_SKIP_MMAP",
                                            "TCMALLOC_SKIP_SBRK",
                                            "TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD",
                                            "TCMALLOC_OVERRIDE_PAGESIZE",
                                            "TCMALLOC_MEMFS_MALLOC_PATH",
                                            "HEAP_PROFILE_BUFFER_SIZE",
                                            "CPUPROFILE_PER_THREAD_TIMERS",
                                            "CPUPROFILE_TIMER_SIGNAL"};

// Null: not set.
using Values = const char* [kVariables];

bool may_be_pool_sample(char first) {
  return first == 'C' || first == 'H' || first == 'T' || first == 'P' || first == 'M';
}

void find_variables(char** environment, Values& values) {
  for (char** variable = environment; *variable != nullptr; variable++) {
    const char* name = *variable;
    if (!may_be_pool_sample(*name)) continue;
    size_t length = 0;
    while (name[length] != 0 && name[length] != '=') length++;
    if (name[length] == 0) continue;
    for (unsigned i = 0; i < kVariables; i++) {
      if (values[i] == nullptr && text_equal(name, length, kNames[i]))
        values[i] = name + length + 1;
    }
  }
}

// Reads a variable as a number of units; false if it is not set or invalid.
bool read_number(const Values& values, Variable variable, const char* expected, uint64_t unit,
                 uint64_t most, uint64_t* out) {
  const char* value = values[variable];
  if (value == nullptr) return false;
  uint64_t number;
  bool good = parse_number(value, &number) && !__builtin_mul_overflow(number, unit, &number) &&
              number <= most;
  if (!good) return warn_bad_value(kNames[variable], value, expected), false;
  *out = number;
  return true;
}

// Sets an option to the number of a variable, if that is set and valid.
void choose_number(const Values& values, Variable variable, Id id, const char* expected,
                   uint64_t unit = 1, uint64_t most = UINT64_MAX) {
  uint64_t number;
  if (read_number(values, variable, expected, unit, most, &number)) set_option_value(id, number);
}

HeapProfileIntervals read_intervals(const Values& values) {
  HeapProfileIntervals intervals{GiB, 100 * MiB, 0};
  read_number(values, kAllocationInterval, "bytes (0 is never)", 1, UINT64_MAX,
              &intervals.allocated);
  read_number(values, kInuseInterval, "bytes (0 is never)", 1, UINT64_MAX, &intervals.in_use);
  read_number(values, kTimeInterval, "seconds (0 is never)", 1, UINT64_MAX, &intervals.seconds);
  return intervals;
}

void read_heap_profile(char** environment, const Values& values) {
  GperftoolsPath prefix;
  heap_is_profiled = prefix.read(environment, kNames[kHeapProfile]);
  if (!heap_is_profiled) return;
  if (!prefix.is_child()) register_child_mark(kNames[kHeapProfile]);
  FixedText<2 * options::kMaxTextBytes> text;
  prefix.append_to(text);
  if (prefix.is_child()) text << '_' << os::process_id();
  set_option_value(Id::dump_prefix, text.c_str());
  set_option_value(Id::dump_names, "gperftools");
  set_option_value(Id::dump_final, 1);
  set_option_value(Id::sample, 1);  // it records each allocation
  HeapProfileIntervals intervals = read_intervals(values);
  set_option_value(Id::dump_alloc_interval, intervals.allocated);
  set_option_value(Id::dump_inuse_interval, intervals.in_use);
  set_option_value(Id::dump_time_interval, intervals.seconds);
  // An invalid signal number is rejected, not clamped to a neighbour.
  choose_number(values, kProfileSignal, Id::dump_signal, "the number of a signal", 1,
                options::row(Id::dump_signal).max);
}

void read_release_rate(const char* value) {
  uint64_t thousandths;
  if (value == nullptr) return;
  if (!parse_thousandths(value, &thousandths))
    return warn_bad_value(kNames[kReleaseRate], value, "a number such as 0.5 (0 is never)");
  if (thousandths == 0) return set_option_value(Id::purge, "never");
  if (thousandths == 1000) return;  // the default of both allocators
  set_option_value(Id::purge_delay,
                   options::row(Id::purge_delay).default_value * 1000 / thousandths);
}

void read_heap_check(const char* value) {
  if (value == nullptr || *value == 0) return;
  report_line(
      "HEAPCHECK: there is no leak checker here yet; what is still in use is reported at exit instead");
  set_option_value(Id::leak_summary, 1);
  set_option_value(Id::sample, 1);
}

bool is_set(const char* value) { return value != nullptr && *value != 0; }

void read_gperftools(char** environment, const Values& values) {
  read_heap_profile(environment, values);
  read_heap_check(values[kHeapCheck]);
  // The other two variables record each allocation, whatever the sampling interval.
  if (!is_set(values[kHeapProfile]) && !is_set(values[kHeapCheck])) {
    choose_number(values, kSampleParameter, Id::sample, "bytes (0 is never)");
  }
  choose_number(values, kHeapLimitMb, Id::heap_limit, "a number of MiB (0 is no limit)", MiB);
  choose_number(values, kThreadCacheBytes, Id::thread_cache, "bytes");
  read_release_rate(values[kReleaseRate]);
  if (values[kAggressiveDecommit] != nullptr && is_true(values[kAggressiveDecommit]))
    set_option_value(Id::purge, "eager");
  if (values[kDisableRelease] != nullptr && is_true(values[kDisableRelease]))
    set_option_value(Id::purge, "never");
  if (values[kVerbose] != nullptr && *values[kVerbose] > '0') set_option_value(Id::verbose, 1);
  for (unsigned i = kDeallocationInterval; i < kVariables; i++) {
    if (values[i] != nullptr) note_ignored_setting(kNames[i]);
  }
}

// ---- jemalloc ----

void set_option_value_if(const JemallocConf& conf, JemallocName name, Id id) {
  if (conf.given(name)) set_option_value(id, static_cast<uint64_t>(conf.number(name)));
}

// 2^n, limited to the option's maximum.
void choose_power(Id id, int64_t log2) {
  set_option_value(id, log2 < 63 ? uint64_t{1} << log2 : UINT64_MAX);
}

void remember_settings(const JemallocConf& conf) {
  jemalloc_settings_.abort_conf = conf.is_on(JemallocName::abort_conf);
  jemalloc_settings_.confirm_conf = conf.is_on(JemallocName::confirm_conf);
  jemalloc_settings_.prof_leak_error = conf.is_on(JemallocName::prof_leak_error);
  jemalloc_settings_.prof_leak =
      conf.is_on(JemallocName::prof_leak) || jemalloc_settings_.prof_leak_error;
  jemalloc_settings_.prof_off = conf.given(JemallocName::prof) && !conf.is_on(JemallocName::prof) &&
                                !jemalloc_settings_.prof_leak;
  jemalloc_settings_.muzzy_decay_ms = conf.number(JemallocName::muzzy_decay_ms);
}

void choose_profiling(const JemallocConf& conf) {
  // Without prof the other settings have no effect, except prof_leak, which enables it.
  bool leak = jemalloc_settings_.prof_leak;
  if (!conf.is_on(JemallocName::prof) && !leak) return;
  if (conf.given(JemallocName::lg_prof_sample))
    choose_power(Id::sample, conf.number(JemallocName::lg_prof_sample));
  if (conf.given(JemallocName::prof_active) && !conf.is_on(JemallocName::prof_active))
    set_option_value(Id::sample, uint64_t{0});
  set_option_value(Id::dump_names, "jemalloc");
  if (conf.given(JemallocName::prof_prefix)) set_option_value(Id::dump_prefix, conf.prefix());
  // No automatic dumps.
  if (conf.given(JemallocName::prof_prefix) && *conf.prefix() == 0) return;
  if (conf.is_on(JemallocName::prof_final)) {
    set_option_value(Id::dump_final, 1);
    if (leak) set_option_value(Id::leak_summary, 1);
  }
  if (!conf.is_on(JemallocName::prof)) return;
  int64_t interval =
      conf.given(JemallocName::lg_prof_interval) ? conf.number(JemallocName::lg_prof_interval) : -1;
  if (interval >= 0) choose_power(Id::dump_alloc_interval, interval);
  if (conf.is_on(JemallocName::prof_gdump))
    set_option_value(Id::dump_growth_interval, kRegionBytes);
}

void choose_decay(const JemallocConf& conf) {
  if (conf.given(JemallocName::dirty_decay_ms)) {
    int64_t ms = conf.number(JemallocName::dirty_decay_ms);
    if (ms < 0) {
      set_option_value(Id::purge, "never");
    } else {
      set_option_value(Id::purge_delay, static_cast<uint64_t>(ms));
    }
  }
  if (conf.given(JemallocName::muzzy_decay_ms))
    set_option_value(Id::purge_free, conf.number(JemallocName::muzzy_decay_ms) < 0 ? 1 : 0);
  if (!conf.given(JemallocName::lg_dirty_mult)) return;
  if (conf.number(JemallocName::lg_dirty_mult) < 0) {
    set_option_value(Id::purge, "never");
  } else {
    choose_power(Id::free_ratio, conf.number(JemallocName::lg_dirty_mult));
  }
}

void read_jemalloc(const char* text) {
  JemallocConf conf;
  bool good = conf.parse(text, report_line, note_ignored_setting);
  remember_settings(conf);
  choose_profiling(conf);
  choose_decay(conf);
  set_option_value_if(conf, JemallocName::background_thread, Id::helper);
  if (conf.is_on(JemallocName::stats_print)) set_option_value(Id::stats_print, 1);
  if (conf.is_on(JemallocName::confirm_conf)) set_option_value(Id::verbose, 1);
  if (!good && conf.is_on(JemallocName::abort_conf))
    fatal_text("MALLOC_CONF: aborted because of the errors above (abort_conf:true)");
}

}  // namespace

void read_foreign_options(char** environment, void (*report)(const char* line)) {
  report_line = report;
  ignored_setting_count = 0;
  jemalloc_settings_ = {};
  Values values = {};
  find_variables(environment, values);
  read_gperftools(environment, values);
  if (values[kMallocConf] != nullptr) read_jemalloc(values[kMallocConf]);
}

void report_ignored_settings(void (*report)(const char* line)) {
  if (ignored_setting_count == 0 || options::get(Id::verbose) == 0) return;
  FixedText<500> line;
  line << "settings without effect: ";
  for (unsigned i = 0; i < ignored_setting_count && i < kMaxIgnoredSettings; i++)
    line << (i != 0 ? ", " : "") << ignored_settings[i];
  if (ignored_setting_count > kMaxIgnoredSettings) line << " and others";
  report(line.c_str());
}

HeapProfileIntervals heap_profile_intervals(char** environment, void (*report)(const char* line)) {
  report_line = report;
  Values values = {};
  if (environment != nullptr) find_variables(environment, values);
  return read_intervals(values);
}

const JemallocSettings& jemalloc_settings() { return jemalloc_settings_; }

bool heap_is_profiled_by_variable() { return heap_is_profiled; }

// ---- children ----

const char* environment_value(char** environment, const char* name) {
  size_t length = text_length(name);
  for (char** variable = environment; variable != nullptr && *variable != nullptr; variable++) {
    if (text_equal(*variable, length, name) && (*variable)[length] == '=')
      return *variable + length + 1;
  }
  return nullptr;
}

namespace {
constexpr unsigned char kHighestBit = 0x80;

// A path that begins with a multi-byte UTF-8 character has the bit, too, but its second byte is
// 0x80 to 0xBF.
bool has_child_mark(const char* path) {
  auto byte = [path](unsigned i) { return static_cast<unsigned char>(path[i]); };
  return (byte(0) & kHighestBit) != 0 && (byte(1) & 0xC0) != 0x80;
}
}  // namespace

bool GperftoolsPath::read(char** environment, const char* name) {
  value_ = environment_value(environment, name);
  if (value_ == nullptr || *value_ == 0) return false;
  FixedText<sizeof(marks[0])> mark;
  mark << name << "_USE_PID";
  const char* use_pid = environment_value(environment, mark.c_str());
  is_child_ = (use_pid != nullptr && is_true(use_pid)) || has_child_mark(value_);
  return true;
}

void GperftoolsPath::append_to(Text& out) const {
  char first = has_child_mark(value_)
                   ? static_cast<char>(static_cast<unsigned char>(*value_) & ~kHighestBit)
                   : *value_;
  out << first << value_ + 1;
}

void register_child_mark(const char* name) {
  FixedText<sizeof(marks[0])> mark;
  mark << name << "_USE_PID=1";
  for (unsigned i = 0; i < mark_count; i++) {
    if (text_equal(marks[i], mark.c_str())) return;
  }
  if (mark_count != kMaxMarks) Text(marks[mark_count++], sizeof(marks[0])) << mark.c_str();
}

void mark_child_environment() {
  if (mark_count == 0 || environ == nullptr) return;
  size_t count = 0;
  while (environ[count] != nullptr) count++;
  size_t bytes = round_up((count + mark_count + 1) * sizeof(char*), os::page_bytes());
  char** longer = static_cast<char**>(os::map(bytes, os::Reason::kRecords));
  if (longer == nullptr) return;
  for (size_t i = 0; i < count; i++) longer[i] = environ[i];
  for (unsigned i = 0; i < mark_count; i++) longer[count + i] = marks[i];
  environ = longer;
  mark_count = 0;
}

}  // namespace seemalloc
