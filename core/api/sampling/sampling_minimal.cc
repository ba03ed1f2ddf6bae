#include "core/api/sampling/sampling.h"
#include "core/heap/thread/thread_heap.h"
#include "core/pages/span/growth.h"

namespace seemalloc {

void start_sampling() {}
void attach_recorder(heap::ThreadHeap&) {}
void end_sampling_of_thread(heap::ThreadHeap*) {}
uint32_t record_sample(heap::ThreadHeap&, size_t, size_t, const void*) { return 0; }
uint64_t estimated_live_bytes() { return 0; }
void count_dropped_sample() {}
void record_sampled_free(heap::ThreadHeap*, uint32_t) {}
void resize_sample(uint32_t, size_t, size_t) {}
SamplingReport sampling_report() { return {}; }
bool heap_profile(ProfileBytes*) { return false; }
bool remote_free_profile(ProfileBytes*) { return false; }
bool allocs_profile(ProfileBytes*) { return false; }
bool peak_profile(ProfileBytes*) { return false; }
bool since_profile(ProfileBytes*) { return false; }
bool churn_profile(ProfileBytes*) { return false; }
bool lifetime_profile(ProfileBytes*) { return false; }
bool deaths_profile(ProfileBytes*) { return false; }
bool threads_profile(ProfileBytes*) { return false; }
void sampling_loaded(const char*) {}
void python_option_changed() {}
bool note_loaded_python(uintptr_t) { return false; }
size_t python_name_bytes() { return 0; }
bool set_profile_baseline() { return false; }
void record_growth() { pages::take_and_reset_growth(); }
bool growth_profile(ProfileBytes*) { return false; }
bool pool_profile(ProfileBytes*) { return false; }
bool fragmentation_profile(ProfileBytes*) { return false; }
unsigned call_stack(uintptr_t*, unsigned) { return 0; }
unsigned interrupted_call_stack(const void*, uintptr_t*, unsigned) { return 0; }
const uint64_t* thread_freed_bytes_estimate() { return nullptr; }
uint64_t thread_peak_bytes(const heap::ThreadHeap&) { return 0; }
void reset_thread_peak(const heap::ThreadHeap&) {}
void for_each_sample_row(void (*)(void* context, const SampleRow& row), void*) {}
void for_each_sample_row_since(void (*)(void* context, const SampleRow& row), void*) {}
bool reset_samples() { return false; }
uint64_t samples_reset_ns() { return 0; }
void for_each_heap_note(uint64_t, void (*)(void* context, const Text& text), void*) {}
void for_each_growth_note(void (*)(void* context, const Text& text), void*) {}
void for_each_growth_stack(void (*)(void* context, const GrowthStack& row), void*) {}
double chance_of_sample(size_t, uint64_t) { return 1; }
void for_each_unloaded_code_range(void (*)(void*, const UnloadedCodeRange&), void*) {}
bool python_location(uintptr_t, PythonLocation*) { return false; }
bool view_sample(uint32_t, SampleView*) { return false; }
void lock_sampling_for_fork() {}
void unlock_sampling_after_fork(bool) {}

}  // namespace seemalloc
