#include <atomic>

#include "core/api/sampling.h"
#include "core/base/options.h"
#include "core/heap/thread_heap.h"
#include "core/profile/heap_profile.h"
#include "core/profile/module_table.h"
#include "core/profile/recorder.h"
#include "core/profile/sampler.h"
#include "core/profile/stack.h"

namespace seemalloc {

namespace {

std::atomic<uint64_t> stretched_samples{0};

profile::Recorder* recorder_of(const heap::ThreadHeap& heap) { return static_cast<profile::Recorder*>(heap.recorder); }

// log2 of how much longer the next interval is than the option says (docs/decisions/0009).
uint8_t next_stretch(heap::ThreadHeap& heap, uint64_t base, heap::Draw reason) {
  uint64_t limit = options::get(options::Id::sample_limit);
  if (base <= 1 || limit == 0 || heap.recorder == nullptr) return 0;
  profile::SamplePace& pace = recorder_of(heap)->pace;
  if (reason == heap::Draw::kSampled) {
    pace.count(limit);
  } else {
    pace.relax(limit);
  }
  if (pace.stretch() != 0) heap::sample_distances_stretched.store(true, std::memory_order_relaxed);
  return static_cast<uint8_t>(pace.stretch());
}

void draw(heap::ThreadHeap& heap, heap::Draw reason) {
  if (reason == heap::Draw::kNewInterval) heap.sample_base = options::get(options::Id::sample);
  heap.sample_stretch = next_stretch(heap, heap.sample_base, reason);
  profile::Random random{heap.random_state};
  heap.sample_distance = profile::draw_distance_bytes(random, heap.sample_base << heap.sample_stretch);
  heap.random_state = random.state;
}

}  // namespace

void start_sampling() { heap::draw_sample_distance = draw; }

void adopt_sampling(heap::ThreadHeap& mine) {
  if (mine.recorder != nullptr) profile::adopt_recorder(*recorder_of(mine));
}

SEEMALLOC_NOINLINE uint32_t record_sample(heap::ThreadHeap& mine, size_t requested_bytes, size_t allocated_bytes,
                                          const void* site) {
  if (SEEMALLOC_UNLIKELY(mine.recorder == nullptr)) mine.recorder = profile::make_recorder();
  if (mine.due_interval != mine.sample_base) stretched_samples.fetch_add(1, std::memory_order_relaxed);
  return profile::record_alloc(recorder_of(mine), {requested_bytes, allocated_bytes, mine.due_interval, moving_block},
                               reinterpret_cast<uintptr_t>(site), options::get(options::Id::stack_depth));
}

void forget_sample(heap::ThreadHeap* mine, uint32_t id) {
  profile::record_free(mine != nullptr ? recorder_of(*mine) : nullptr, id);
}

void resize_sample(uint32_t id, size_t requested_bytes, size_t allocated_bytes) {
  profile::record_resize(id, requested_bytes, allocated_bytes);
}

SamplingReport sampling_report() {
  profile::SampleTotals totals = profile::sample_totals();
  profile::UnwindCounters unwinding = profile::unwind_counters();
  return {.available = true,
          .samples = totals.samples,
          .live_samples = totals.live_samples,
          .dropped = totals.dropped,
          .truncated = unwinding.truncated,
          .broken = unwinding.broken,
          .stacks = totals.stacks,
          .stretched = stretched_samples.load(std::memory_order_relaxed),
          .estimate_bytes = static_cast<uint64_t>(totals.inuse_bytes),
          .estimate_stderr_bytes = static_cast<uint64_t>(totals.inuse_bytes_stderr)};
}

namespace {
bool profile_of(profile::Kind kind, ProfileBytes* out) {
  profile::Buffer buffer{};
  if (!profile::heap_profile_to_buffer(&buffer, options::get(options::Id::sample), kind)) return false;
  *out = {buffer.data, buffer.bytes, buffer.mapped_bytes};
  return true;
}
}  // namespace

bool heap_profile(ProfileBytes* out) { return profile_of(profile::Kind::kHeap, out); }
bool remote_free_profile(ProfileBytes* out) { return profile_of(profile::Kind::kRemoteFrees, out); }

unsigned call_stack(uintptr_t* frames, unsigned most) {
  profile::Stack stack;
  profile::capture_stack(&stack, profile::kMaxStackDepth);  // in full: cut ones would be counted as such
  unsigned depth = stack.depth < most ? stack.depth : most;
  for (unsigned i = 0; i < depth; i++) frames[i] = stack.pcs[i];
  return depth;
}

void lock_sampling_for_fork() { profile::lock_for_fork(); }
void unlock_sampling_after_fork(bool in_child) {
  profile::unlock_after_fork();
  if (in_child) profile::reset_module_table();  // its refresh may have been under way in a thread that is gone
}

}  // namespace seemalloc
