#include "core/api/sampling.h"

namespace seemalloc {

void start_sampling() {}
void adopt_sampling(heap::ThreadHeap&) {}
uint32_t record_sample(heap::ThreadHeap&, size_t, size_t, const void*) { return 0; }
void forget_sample(heap::ThreadHeap*, uint32_t) {}
void resize_sample(uint32_t, size_t, size_t) {}
SamplingReport sampling_report() { return {}; }
bool heap_profile(ProfileBytes*) { return false; }
bool remote_free_profile(ProfileBytes*) { return false; }
unsigned call_stack(uintptr_t*, unsigned) { return 0; }
void lock_sampling_for_fork() {}
void unlock_sampling_after_fork(bool) {}

}  // namespace seemalloc
