// The seam between heap and profiler: what the slow paths ask when a sample is due. Two implementations: profiled, and
// minimal (the library without a profiler, in which no sample ever is).
#pragma once

#include <cstddef>
#include <cstdint>

namespace seemalloc {

namespace heap {
struct ThreadHeap;
}

// Installs the drawing of sample points; before this nothing is sampled. Called once.
void start_sampling();

// The calling thread has got this heap.
void adopt_sampling(heap::ThreadHeap& mine);

// Set while the thread allocates in place of a block that realloc has to copy: such samples are marked.
extern constinit thread_local bool moving_block __attribute__((tls_model("initial-exec")));

// Records an allocation made by the calling thread, with its stack. 0 when it could not be recorded (counted). `site`
// is an address in a caller, best the program's: by it, places that allocate at one stack pointer are told apart.
uint32_t record_sample(heap::ThreadHeap& mine, size_t requested_bytes, size_t allocated_bytes, const void* site);
// `mine` is null in a thread that has no heap.
void forget_sample(heap::ThreadHeap* mine, uint32_t id);
void resize_sample(uint32_t id, size_t requested_bytes, size_t allocated_bytes);

struct SamplingReport {
  bool available;  // false: this is the library without a profiler
  uint64_t samples, live_samples, dropped, truncated, broken, stacks;
  uint64_t stretched;  // samples taken at a longer interval than asked for (option sample_limit)
  uint64_t estimate_bytes, estimate_stderr_bytes;  // in use, by the samples
};
SamplingReport sampling_report();

// The heap profile in an anonymous mapping that the caller gives back with os::unmap(data, mapped_bytes, os::Reason::kReport).
struct ProfileBytes {
  char* data;
  size_t bytes;
  size_t mapped_bytes;
};
bool heap_profile(ProfileBytes* out);
// The same of sampled blocks that another thread than the one that allocated them has freed.
bool remote_free_profile(ProfileBytes* out);

// The calling thread's stack, innermost first, without our own frames: at most `most` return addresses. Takes no lock and
// makes no memory. Returns their number; 0 in the library without a profiler.
unsigned call_stack(uintptr_t* frames, unsigned most);

void lock_sampling_for_fork();
void unlock_sampling_after_fork(bool in_child);

}  // namespace seemalloc
