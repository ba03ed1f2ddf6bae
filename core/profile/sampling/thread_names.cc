#include "core/profile/sampling/thread_names.h"

#include "core/base/check.h"
#include "core/os/kernel/clock.h"

namespace seemalloc::profile {

void ThreadNames::rename_locked(uint32_t index, const char* name) {
  size_t length = 0;
  for (; length < os::kThreadNameBytes - 1 && name[length] != 0; length++)
    names_[index][length] = name[length];
  names_[index][length] = 0;
}

uint32_t ThreadNames::add(uint32_t id, const char* name) {
  DCHECK(id != 0 && id < 1u << 30);
  LockGuard guard(lock_);
  uint32_t place = take_free_locked();
  if (place == 0) return 0;
  fresh_.store(fresh_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  // If a live slot has this id, its thread exited without calling end(): the library's code for
  // thread exit may not have run.
  uint16_t& last = last_[id % kMost];
  if (last != 0 && state(last - 1u) == kLives && this->id(last - 1u) == id)
    set(last - 1u, kEnded, id);
  last = static_cast<uint16_t>(place);
  set(place - 1, kLives, id);
  rename_locked(place - 1, name);
  return number(place - 1);
}

// Returns 0 if there is none.
uint32_t ThreadNames::take_free_locked() {
  if (free_ == 0) return used_ < kMost ? ++used_ : 0;
  uint32_t place = free_;
  free_ = id(place - 1);
  return place;
}

void ThreadNames::end(uint32_t number) {
  char name[os::kThreadNameBytes] = {};
  bool named = os::own_thread_name(name);
  uint32_t index = place_of(number) - 1;
  LockGuard guard(lock_);
  if (!is_known(number)) return;
  if (named) rename_locked(index, name);
  set(index, kEnded, id(index));
}

void ThreadNames::note_end(uint32_t number) {
  uint32_t index = place_of(number) - 1;
  LockGuard guard(lock_);
  if (is_known(number) && state(index) == kLives) set(index, kEnded, id(index));
}

// add() may have marked one of the two as ended, taking it for a thread that has exited.
void ThreadNames::keep_first(uint32_t first, uint32_t second) {
  LockGuard guard(lock_);
  uint32_t index = place_of(first) - 1, id = this->id(index);
  if (second != 0) set(place_of(second) - 1, kEnded, id);
  set(index, kLives, id);
  last_[id % kMost] = static_cast<uint16_t>(index + 1);
}

void ThreadNames::refresh() {
  for (uint32_t i = 0; i < kMost; i++) {
    uint32_t before = 0;
    {
      LockGuard guard(lock_);
      if (i >= used_) return;
      if (state(i) == kLives) before = words_[i];
    }
    if (before == 0) continue;
    char name[os::kThreadNameBytes] = {};
    if (!os::read_thread_name(static_cast<int>(before & ((1u << 30) - 1)), name)) continue;
    LockGuard guard(lock_);
    if (words_[i] == before) rename_locked(i, name);
  }
}

ThreadNames::Thread ThreadNames::get(uint32_t number) {
  Thread thread;
  uint32_t index = place_of(number) - 1;
  LockGuard guard(lock_);
  if (!is_known(number) || state(index) == kFree) return thread;
  thread.id = id(index);
  for (size_t i = 0; i < os::kThreadNameBytes; i++) thread.name[i] = names_[index][i];
  return thread;
}

// Takes no lock: fork may have failed to take it. Then its holder does not exist in the child, or
// is this thread, interrupted by a signal handler.
void ThreadNames::keep_only(uint32_t number, uint32_t id) {
  lock_.reset();
  recycling_ = false;
  for (uint32_t i = 0; i < used_; i++) {
    if (number != 0 && this->number(i) == number) {
      set(i, kLives, id);
    } else if (state(i) != kFree) {
      set(i, kEnded, this->id(i));
    }
  }
}

bool ThreadNames::begin_recycling(When when) {
  uint64_t now = os::coarse_monotonic_ns();
  {
    LockGuard guard(lock_);
    uint64_t& not_before_ns = not_before_ns_[static_cast<unsigned>(when)];
    if (recycling_ || now < not_before_ns) return false;
    recycling_ = true;
    not_before_ns = now + kPause_ns;
  }
  for (uint32_t i = 0; i < kMost; i++) {
    uint32_t before;
    {
      LockGuard guard(lock_);
      before = words_[i];
      if (state(i) == kEnded) set(i, kCandidate, id(i));
    }
    if (before >> 30 != kLives || os::is_thread(static_cast<int>(before & ((1u << 30) - 1))))
      continue;
    LockGuard guard(lock_);
    if (words_[i] == before) set(i, kCandidate, id(i));
  }
  return true;
}

void ThreadNames::recycle(const Marks& in_use) {
  LockGuard guard(lock_);
  uint32_t recycled = 0;
  // From high to low, so that the lowest slot is reassigned first: it may have records that can be
  // reused (thread_lives.h).
  for (uint32_t i = used_; i-- > 0;) {
    if (state(i) != kCandidate) continue;
    if (in_use.has(i + 1)) {
      set(i, kEnded, id(i));
      continue;
    }
    before_[i]++;
    set(i, kFree, free_);
    free_ = i + 1;
    recycled++;
  }
  if (recycled >= kWorthIt) not_before_ns_[0] = not_before_ns_[1] = 0;
  fresh_.store(0, std::memory_order_relaxed);
  recycling_ = false;
}

}  // namespace seemalloc::profile
