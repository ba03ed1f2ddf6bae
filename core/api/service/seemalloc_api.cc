// The functions of <seemalloc/seemalloc.h>.
#include <errno.h>
#include <seemalloc/seemalloc.h>
#include <string.h>

#include "core/api/cpu/cpu_profiler.h"
#include "core/api/dumps/dump.h"
#include "core/api/dumps/profile_kinds.h"
#include "core/api/malloc/services.h"
#include "core/api/sampling/sampling.h"
#include "core/api/service/report.h"
#include "core/api/settings/runtime_options.h"
#include "core/base/compiler.h"
#include "core/base/options.h"
#include "core/heap/maintenance/purge_all.h"

using namespace seemalloc;

namespace {

int fail(int error) {
  errno = error;
  return -1;
}

int set_interval(uint64_t bytes) {
  if (!sampling_report().available) return fail(ENOTSUP);
  FixedText<32> value;
  value << bytes;
  FixedText<256> problem;
  return set_option("sample", 6, value.c_str(), problem) == SetOption::kDone ? 0 : fail(EINVAL);
}

}  // namespace

SEEMALLOC_EXPORT const char* seemalloc_version(void) { return SEEMALLOC_VERSION; }

SEEMALLOC_EXPORT int seemalloc_profile_start(size_t interval_bytes) {
  return set_interval(interval_bytes != 0 ? interval_bytes
                                          : options::row(options::Id::sample).default_value);
}

SEEMALLOC_EXPORT int seemalloc_profile_stop(void) { return set_interval(0); }

SEEMALLOC_EXPORT int seemalloc_profile_dump(const char* path) {
  if (path == nullptr) return fail(EINVAL);
  int result = dump_heap_profile(path);
  return result == 0 ? 0 : fail(-result);
}

SEEMALLOC_EXPORT int seemalloc_profile_dump_kind(const char* kind, const char* path) {
  const ProfileKind* known = kind != nullptr ? find_profile_kind(kind) : nullptr;
  if (known == nullptr || path == nullptr) return fail(EINVAL);
  int result = dump_profile(*known, path);
  return result == 0 ? 0 : fail(-result);
}

SEEMALLOC_EXPORT int seemalloc_profile_baseline(void) {
  return set_profile_baseline() ? 0 : fail(ENOTSUP);
}

namespace {
int error_of(CpuStartResult result) {
  switch (result) {
    case CpuStartResult::kStarted: return 0;
    case CpuStartResult::kUnavailable: return ENOTSUP;
    case CpuStartResult::kRunning: return EALREADY;
    case CpuStartResult::kSignalInUse:
    case CpuStartResult::kTimerInUse: return EBUSY;
    case CpuStartResult::kNoMemory: return ENOMEM;
    case CpuStartResult::kNoTimers: return EAGAIN;
  }
  return EINVAL;
}
}  // namespace

SEEMALLOC_EXPORT int seemalloc_cpu_start(unsigned frequency) {
  if (frequency > kMaxCpuFrequency) return fail(EINVAL);
  CpuRequest request = requested_cpu_profile();
  if (frequency != 0) request.frequency = frequency;
  int error = error_of(start_cpu_profile(request));
  if (error != 0) return fail(error);
  start_helper_for_work();  // it finds new threads,
  wake_helper();            // from now on
  return 0;
}

SEEMALLOC_EXPORT int seemalloc_cpu_stop(void) { return stop_cpu_profile() ? 0 : fail(ESRCH); }

SEEMALLOC_EXPORT int seemalloc_cpu_dump(const char* path) {
  return seemalloc_profile_dump_kind("cpu", path);
}

SEEMALLOC_EXPORT int seemalloc_cpu_running(size_t* interrupts) {
  CpuReport report = cpu_report();
  if (interrupts != nullptr) *interrupts = report.interrupts;
  return report.running ? 1 : 0;
}

SEEMALLOC_EXPORT int seemalloc_statistics(seemalloc_statistics_t* out, size_t size) {
  if (out == nullptr) return fail(EINVAL);
  heap::Statistics s = heap::statistics();
  MemoryReport r = memory_report(s, false);
  seemalloc_statistics_t all{.live = s.live_bytes,
                             .cached = s.cached_bytes,
                             .free_in_spans = s.free_bytes,
                             .dirty = r.dirty,
                             .mapped = r.mapped,
                             .metadata = r.metadata};
  memset(out, 0, size);
  memcpy(out, &all, size < sizeof(all) ? size : sizeof(all));
  return 0;
}

SEEMALLOC_EXPORT int seemalloc_option_set(const char* name, const char* value) {
  if (name == nullptr || value == nullptr) return fail(EINVAL);
  FixedText<512> problem;
  switch (set_option(name, text_length(name), value, problem)) {
    case SetOption::kDone: return 0;
    case SetOption::kUnknown: return fail(ENOENT);
    case SetOption::kBadValue: return fail(EINVAL);
    case SetOption::kOnlyAtStart: return fail(EPERM);
  }
  return fail(EINVAL);
}

SEEMALLOC_EXPORT long seemalloc_option_get(const char* name, char* out, size_t size) {
  options::Id id;
  if (name == nullptr || !options::find(name, text_length(name), &id)) return fail(ENOENT);
  FixedText<options::kMaxTextBytes> value;
  print_option(id, value);
  if (size != 0) {
    size_t length = value.size() < size ? value.size() : size - 1;
    memcpy(out, value.c_str(), length);
    out[length] = 0;
  }
  return static_cast<long>(value.size());
}

SEEMALLOC_EXPORT size_t seemalloc_purge(void) { return heap::purge_all(); }

SEEMALLOC_EXPORT int seemalloc_for_each_block(void (*f)(void* context, void* block,
                                                        size_t allocated_bytes),
                                              void* context) {
  return heap::for_each_live_block(f, context) ? 0 : -1;
}
