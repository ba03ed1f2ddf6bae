#include "core/profile/cpu/cpu_store.h"

namespace seemalloc::profile {

bool CpuSample::matches(uint64_t stack_hash, const Stack& stack, uint32_t of_thread) const {
  if (interrupts == 0 || hash != stack_hash || thread != of_thread || depth != stack.depth)
    return false;
  if (truncated != stack.truncated || broken != stack.broken) return false;
  for (uint32_t i = 0; i < depth; i++) {
    if (pcs[i] != stack.pcs[i]) return false;
  }
  return true;
}

void CpuSample::begin(uint64_t stack_hash, const Stack& stack, uint32_t of_thread) {
  hash = stack_hash;
  thread = of_thread;
  interrupts = ticks = 0;
  depth = stack.depth;
  truncated = stack.truncated;
  broken = stack.broken;
  for (uint32_t i = 0; i < depth; i++) pcs[i] = stack.pcs[i];
}

void CpuSample::copy_from(const CpuSample& other) {
  hash = other.hash;
  interrupts = other.interrupts;
  ticks = other.ticks;
  thread = other.thread;
  depth = other.depth;
  truncated = other.truncated;
  broken = other.broken;
  for (uint32_t i = 0; i < depth; i++) pcs[i] = other.pcs[i];
}

// Returns the sample's own entry, otherwise a free one, otherwise the one with the fewest
// interrupts.
CpuSample& CpuSampleStore::Set::entry_for(uint64_t hash, const Stack& stack, uint32_t thread) {
  CpuSample* least = &ways[0];
  for (CpuSample& way : ways) {
    if (way.matches(hash, stack, thread)) return way;
    if (way.interrupts < least->interrupts) least = &way;
  }
  return *least;
}

void CpuSampleStore::count_lost(uint64_t interrupts, uint64_t ticks) {
  lost_.fetch_add(interrupts, std::memory_order_relaxed);
  lost_ticks_.fetch_add(ticks, std::memory_order_relaxed);
}

void CpuSampleStore::add(const Stack& stack, uint32_t thread, uint64_t ticks) {
  uint64_t hash = hash_stack(stack);
  size_t index = mix(hash, thread) % kSets;
  if (sets_[index].try_lock()) {
    add_locked(index, hash, stack, thread, ticks);
    sets_[index].unlock();
    return;
  }
  bool done = ring_.put([&](CpuSample& sample) {
    sample.begin(hash, stack, thread);
    sample.interrupts = 1;
    sample.ticks = ticks;
  });
  if (!done) count_lost(1, ticks);
}

// Requires: the set is locked.
void CpuSampleStore::add_locked(size_t index, uint64_t hash, const Stack& stack, uint32_t thread,
                                uint64_t ticks) {
  CpuSample& place = sets_[index].entry_for(hash, stack, thread);
  if (!place.matches(hash, stack, thread)) {
    if (place.interrupts != 0) {
      // The evicted entry has been sampled more often than the new stack. If only one of them can
      // be kept, it stays.
      if (!ring_.put([&](CpuSample& sample) { sample.copy_from(place); }))
        return count_lost(1, ticks);
      evictions_.fetch_add(1, std::memory_order_relaxed);
    }
    place.begin(hash, stack, thread);
  }
  place.interrupts++;
  place.ticks += ticks;
  used_[index / 64].fetch_or(uint64_t{1} << index % 64, std::memory_order_release);
}

}  // namespace seemalloc::profile
