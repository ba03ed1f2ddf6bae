#include "core/api/cpu/cpu_profiler.h"

namespace seemalloc {

CpuRequest requested_cpu_profile() { return {}; }
CpuStartResult start_cpu_profile(const CpuRequest&, uint64_t*) {
  return CpuStartResult::kUnavailable;
}
const char* describe(CpuStartResult) { return "this is the library without a profiler (minimal)"; }
bool stop_cpu_profile() { return false; }
CpuCollectResult collect_cpu_profile(uint64_t, bool, CollectedCpuProfile*) {
  return CpuCollectResult::kReplaced;
}
bool cpu_profile(ProfileBytes*) { return false; }
CpuReport cpu_report() { return {}; }
void cpu_profiler_thread_started() {}
void cpu_profiler_thread_exiting() {}
uint64_t tick_cpu_profiler() { return UINT64_MAX; }
bool reset_cpu_profile_in_child() { return false; }

}  // namespace seemalloc
