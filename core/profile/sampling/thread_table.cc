#include "core/profile/sampling/thread_table.h"

#include "core/base/check.h"
#include "core/os/kernel/clock.h"

namespace seemalloc::profile {

void ThreadTable::rename_locked(uint32_t index, const char* name) {
  size_t length = 0;
  for (; length < os::kThreadNameBytes - 1 && name[length] != 0; length++)
    names_[index][length] = name[length];
  names_[index][length] = 0;
}

uint32_t ThreadTable::add(uint32_t id, const char* name) {
  DCHECK(id != 0 && id < 1u << 30);
  LockGuard guard(lock_);
  uint32_t place = take_free_locked();
  if (place == 0) return 0;
  added_since_recycling_.store(added_since_recycling_.load(std::memory_order_relaxed) + 1,
                               std::memory_order_relaxed);
  // If a live slot has this id, its thread exited without calling thread_exits(): the library's
  // code for thread exit may not have run.
  uint16_t& last = slot_by_id_[id % kMaxThreads];
  if (last != 0 && state(last - 1u) == kRunning && this->id(last - 1u) == id)
    set(last - 1u, kExited, id);
  last = static_cast<uint16_t>(place);
  set(place - 1, kRunning, id);
  rename_locked(place - 1, name);
  return number(place - 1);
}

// Returns 0 if there is none.
uint32_t ThreadTable::take_free_locked() {
  if (free_ == 0) return slots_used_ < kMaxThreads ? ++slots_used_ : 0;
  uint32_t place = free_;
  free_ = id(place - 1);
  return place;
}

void ThreadTable::thread_exits(uint32_t number) {
  char name[os::kThreadNameBytes] = {};
  bool named = os::own_thread_name(name);
  uint32_t index = slot_of(number) - 1;
  LockGuard guard(lock_);
  if (!is_known(number)) return;
  if (named) rename_locked(index, name);
  set(index, kExited, id(index));
}

void ThreadTable::mark_exited(uint32_t number) {
  uint32_t index = slot_of(number) - 1;
  LockGuard guard(lock_);
  if (is_known(number) && state(index) == kRunning) set(index, kExited, id(index));
}

// add() may have marked one of the two as ended, taking it for a thread that has exited.
void ThreadTable::keep_first_number(uint32_t first, uint32_t second) {
  LockGuard guard(lock_);
  uint32_t index = slot_of(first) - 1, id = this->id(index);
  if (second != 0) set(slot_of(second) - 1, kExited, id);
  set(index, kRunning, id);
  slot_by_id_[id % kMaxThreads] = static_cast<uint16_t>(index + 1);
}

void ThreadTable::refresh() {
  for (uint32_t i = 0; i < kMaxThreads; i++) {
    uint32_t before = 0;
    {
      LockGuard guard(lock_);
      if (i >= slots_used_) return;
      if (state(i) == kRunning) before = states_and_ids_[i];
    }
    if (before == 0) continue;
    char name[os::kThreadNameBytes] = {};
    if (!os::read_thread_name(static_cast<int>(before & ((1u << 30) - 1)), name)) continue;
    LockGuard guard(lock_);
    if (states_and_ids_[i] == before) rename_locked(i, name);
  }
}

ThreadTable::Thread ThreadTable::get(uint32_t number) {
  Thread thread;
  uint32_t index = slot_of(number) - 1;
  LockGuard guard(lock_);
  if (!is_known(number) || state(index) == kFree) return thread;
  thread.id = id(index);
  for (size_t i = 0; i < os::kThreadNameBytes; i++) thread.name[i] = names_[index][i];
  return thread;
}

// Takes no lock: fork may have failed to take it. Then its holder does not exist in the child, or
// is this thread, interrupted by a signal handler.
void ThreadTable::reset_in_child(uint32_t number, uint32_t id) {
  lock_.reset();
  recycling_ = false;
  for (uint32_t i = 0; i < slots_used_; i++) {
    if (number != 0 && this->number(i) == number) {
      set(i, kRunning, id);
    } else if (state(i) != kFree) {
      set(i, kExited, this->id(i));
    }
  }
}

bool ThreadTable::begin_recycling(When when) {
  uint64_t now = os::coarse_monotonic_ns();
  {
    LockGuard guard(lock_);
    uint64_t& not_before_ns = not_before_ns_[static_cast<unsigned>(when)];
    if (recycling_ || now < not_before_ns) return false;
    recycling_ = true;
    not_before_ns = now + kPauseNs;
  }
  for (uint32_t i = 0; i < kMaxThreads; i++) {
    uint32_t before;
    {
      LockGuard guard(lock_);
      before = states_and_ids_[i];
      if (state(i) == kExited) set(i, kCandidate, id(i));
    }
    if (before >> 30 != kRunning || os::is_thread(static_cast<int>(before & ((1u << 30) - 1))))
      continue;
    LockGuard guard(lock_);
    if (states_and_ids_[i] == before) set(i, kCandidate, id(i));
  }
  return true;
}

void ThreadTable::recycle(const SlotSet& in_use) {
  LockGuard guard(lock_);
  uint32_t recycled = 0;
  // From high to low, so that the lowest slot is reassigned first: it may have records that can be
  // reused (thread_lifetimes.h).
  for (uint32_t i = slots_used_; i-- > 0;) {
    if (state(i) != kCandidate) continue;
    if (in_use.has(i + 1)) {
      set(i, kExited, id(i));
      continue;
    }
    reuse_counts_[i]++;
    set(i, kFree, free_);
    free_ = i + 1;
    recycled++;
  }
  if (recycled >= kMinRecycled) not_before_ns_[0] = not_before_ns_[1] = 0;
  added_since_recycling_.store(0, std::memory_order_relaxed);
  recycling_ = false;
}

}  // namespace seemalloc::profile
