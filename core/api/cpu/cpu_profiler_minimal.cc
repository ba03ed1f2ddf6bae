#include "core/api/cpu/cpu_profiler.h"

namespace seemalloc {

CpuRequest requested_cpu_profile() { return {}; }
CpuStart start_cpu_profile(const CpuRequest&, uint64_t*) { return CpuStart::kUnavailable; }
const char* text_of(CpuStart) { return "this is the library without a profiler (minimal)"; }
bool stop_cpu_profile() { return false; }
CpuTake take_cpu_profile(uint64_t, bool, CpuTaken*) { return CpuTake::kReplaced; }
bool cpu_profile(ProfileBytes*) { return false; }
CpuReport cpu_report() { return {}; }
void cpu_profiler_meets_thread() {}
void cpu_profiler_loses_thread() {}
uint64_t tick_cpu_profiler() { return UINT64_MAX; }
bool forget_cpu_profile_in_child() { return false; }

}  // namespace seemalloc
