// The interface between heap and profiler: the functions that slow paths call when a sample is due.
// Two implementations: profiled, and minimal (the library without a profiler, in which no sample is
// ever due).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/compiler.h"

namespace seemalloc {

class Text;

namespace heap {
struct ThreadHeap;
}

// Installs the function that draws sample points; before this nothing is sampled. Called once.
void start_sampling();

// The calling thread has got this heap.
void attach_recorder(heap::ThreadHeap& mine);
// The calling thread is about to end, and gets no heap again. `mine` may be null.
void end_sampling_of_thread(heap::ThreadHeap* mine);

// Set while the thread allocates a block that replaces one in realloc: such samples are marked.
extern constinit thread_local bool reallocating __attribute__((tls_model("initial-exec")));

// Defined above, by dumps (auto_dump.cc). While dumps_armed is true, check_dump_due() is called for
// each recorded sample, with the allocated bytes that it stands for (0: a block has been resized).
// It requests due dumps, and writes them if there is no helper thread.
extern std::atomic<bool> dumps_armed SEEMALLOC_HIDDEN;
void check_dump_due(uint64_t bytes);

// Records an allocation made by the calling thread, with its stack. 0 when it could not be recorded
// (counted). `site` is an address in a caller, preferably the program's: it distinguishes call
// sites with the same stack pointer.
uint32_t record_sample(heap::ThreadHeap& mine, size_t requested_bytes, size_t allocated_bytes,
                       const void* site);
// Counts a sample dropped because its block could not be allocated.
void count_dropped_sample();
// The bytes in use, estimated from samples, as far as threads have reported: the error of each
// thread is at most 1/1024 of the maximum so far, and 4 KiB. 0 in the library without a profiler.
uint64_t estimated_live_bytes();
// `mine` is null in a thread that has no heap.
void record_sampled_free(heap::ThreadHeap* mine, uint32_t id);
void resize_sample(uint32_t id, size_t requested_bytes, size_t allocated_bytes);
// The bytes that the calling thread has freed since it began, estimated from samples: constant
// while there are none. The word belongs to the thread, which writes it. Null in the library
// without a profiler.
const uint64_t* thread_freed_bytes_estimate();
// The maximum of the bytes allocated by the calling thread's heap (ThreadHeap::allocated_bytes)
// minus the bytes it has freed, since it began or since the reset, which makes the current
// difference the zero point. Costs a sampled free one comparison.
uint64_t thread_peak_bytes(const heap::ThreadHeap& mine);
void reset_thread_peak(const heap::ThreadHeap& mine);

struct SamplingReport {
  bool available;  // false: this is the library without a profiler
  uint64_t samples, live_samples, dropped, truncated, broken, stacks;
  // Samples taken at a longer interval than requested (option sample_limit).
  uint64_t backed_off;
  // Bytes in use by allocated size, estimated from samples.
  uint64_t estimate_bytes, estimate_stderr_bytes;
  uint64_t requested_bytes, requested_stderr_bytes;  // the same by requested size
};
SamplingReport sampling_report();

// The heap profile in an anonymous mapping that the caller releases with os::unmap_report(data,
// mapped_bytes).
struct ProfileBytes {
  char* data;
  size_t bytes;
  size_t mapped_bytes;
};
bool heap_profile(ProfileBytes* out);
// Profiles of other kinds, in the same form (profile_kinds.cc).
bool remote_free_profile(ProfileBytes* out);
bool allocs_profile(ProfileBytes* out);
bool peak_profile(ProfileBytes* out);
bool since_profile(ProfileBytes* out);
bool churn_profile(ProfileBytes* out);
bool lifetime_profile(ProfileBytes* out);
bool deaths_profile(ProfileBytes* out);
bool threads_profile(ProfileBytes* out);
// since_profile() counts from here on. False in the library without a profiler.
bool set_profile_baseline();

// Called once, by the library's constructor, with the value of the variable PYTHONMALLOC; null: it
// is not set.
void sampling_loaded(const char* python_allocator);
// The option python_frames or stack_depth was read or set. One caller at a time, in no signal
// handler.
void python_option_changed();
// Called with the address of code that creates a thread-specific key. Returns true if it belongs to
// a CPython that is not known yet (core/profile/python/python.h).
bool note_loaded_python(uintptr_t pc);
// Memory used by the names of Python functions. It is not part of an arena.
size_t python_name_bytes();

// The heap has grown since this thread's last report (core/pages/span/growth.h): records the stack.
// Requires: no lock held.
void record_growth();
// The kinds of profiles for the callers that made the heap grow, the users of the memory pools that
// the program reports, and the blocks that pin half-empty spans.
bool growth_profile(ProfileBytes* out);
bool pool_profile(ProfileBytes* out);
bool fragmentation_profile(ProfileBytes* out);

// The calling thread's stack, innermost first, without our own frames: at most `most` return
// addresses. Takes no lock and allocates nothing. Returns their number; 0 in the library without a
// profiler.
unsigned call_stack(uintptr_t* frames, unsigned most);
// The same for the code interrupted by a signal, from the third argument of its handler; frames[0]
// is the interrupted code itself.
unsigned interrupted_call_stack(const void* ucontext, uintptr_t* frames, unsigned most);

// A sample that is live or has just been freed.
struct SampleView {
  const uintptr_t* return_addresses;  // innermost first; they are never freed
  unsigned depth;
  uint64_t stack;    // the same for samples with the same stack
  uint64_t born_ns;  // CLOCK_MONOTONIC
  uint32_t thread_id;
};
// False if there is none. An id that is freed meanwhile may already belong to another sample. Takes
// no lock except that of the threads' names.
bool view_sample(uint32_t id, SampleView* out);

// The samples of one stack and one size.
struct SampleRow {
  const uintptr_t* return_addresses;  // innermost first
  unsigned depth;
  size_t bytes;             // of each block
  uint64_t interval_bytes;  // the interval with which they were drawn
  uint64_t samples, live_samples;
  double objects, live_objects;  // estimated
};
// The Python function and line that a word among the return addresses stands for; false when it is
// an address.
struct PythonLocation {
  const char *function, *file;  // not terminated
  size_t function_bytes, file_bytes;
  unsigned line;
};
bool python_location(uintptr_t return_address, PythonLocation* out);
// Code of an unloaded module, at the addresses that the return addresses of its stacks have now.
struct UnloadedCodeRange {
  uintptr_t start, limit;
  uint64_t file_offset;
  const char* path;  // not terminated
  size_t path_bytes;
};
void for_each_unloaded_code_range(void (*f)(void* context, const UnloadedCodeRange& range),
                                  void* context);
// Calls f for each row; f may allocate. A sample drawn at another interval would count as 1 /
// chance_of_sample() blocks.
void for_each_sample_row(void (*f)(void* context, const SampleRow& row), void* context);
// The same for samples since reset_samples(), which returns false if memory was refused. f must
// not iterate over rows itself.
void for_each_sample_row_since(void (*f)(void* context, const SampleRow& row), void* context);
bool reset_samples();
// The time of the last reset_samples(), on CLOCK_MONOTONIC; 0: never.
uint64_t samples_reset_ns();
double chance_of_sample(size_t bytes, uint64_t interval_bytes);

// The growth profile. f may allocate.
struct GrowthStack {
  const uintptr_t* return_addresses;
  unsigned depth;  // 0: without a stack
  uint64_t count, bytes;
};
void for_each_growth_stack(void (*f)(void* context, const GrowthStack& row), void* context);

// The comment lines of these profiles: their coverage, the data they lack, estimates beside exact
// totals.
void for_each_heap_note(uint64_t interval_bytes, void (*line)(void* context, const Text& text),
                        void* context);
void for_each_growth_note(void (*line)(void* context, const Text& text), void* context);

void lock_sampling_for_fork();
void unlock_sampling_after_fork(bool in_child);

}  // namespace seemalloc
