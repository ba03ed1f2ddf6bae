#include "core/profile/thread_names.h"

#include "core/base/check.h"
#include "core/os/os.h"

namespace seemalloc::profile {

void ThreadNames::rename_locked(uint32_t index, const char* name) {
  size_t length = 0;
  for (; length < os::kThreadNameBytes - 1 && name[length] != 0; length++) names_[index][length] = name[length];
  names_[index][length] = 0;
}

uint32_t ThreadNames::add(uint32_t id, const char* name) {
  DCHECK(id != 0 && id < 1u << 30);
  LockGuard guard(lock_);
  uint32_t number = take_free_locked();
  if (number == 0) return 0;
  // Who had this id has ended without a word: the library's part in the end of a thread may not have run.
  uint16_t& last = last_[id % kMost];
  if (last != 0 && state(last - 1u) == kLives && this->id(last - 1u) == id) set(last - 1u, kEnded, id);
  last = static_cast<uint16_t>(number);
  set(number - 1, kLives, id);
  rename_locked(number - 1, name);
  return number;
}

// 0: there is none.
uint32_t ThreadNames::take_free_locked() {
  if (free_ == 0) return used_ < kMost ? ++used_ : 0;
  uint32_t number = free_;
  free_ = id(number - 1);
  return number;
}

void ThreadNames::end(uint32_t number) {
  char name[os::kThreadNameBytes] = {};
  bool named = os::own_thread_name(name);
  LockGuard guard(lock_);
  if (named) rename_locked(number - 1, name);
  set(number - 1, kEnded, id(number - 1));
}

void ThreadNames::note_end(uint32_t number) {
  LockGuard guard(lock_);
  if (state(number - 1) == kLives) set(number - 1, kEnded, id(number - 1));
}

// add() may have taken one of the two for that of a thread which is gone.
void ThreadNames::keep_first(uint32_t first, uint32_t second) {
  LockGuard guard(lock_);
  uint32_t id = this->id(first - 1);
  if (second != 0) set(second - 1, kEnded, id);
  set(first - 1, kLives, id);
  last_[id % kMost] = static_cast<uint16_t>(first);
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
  LockGuard guard(lock_);
  if (state(number - 1) == kFree) return thread;
  thread.id = id(number - 1);
  for (size_t i = 0; i < os::kThreadNameBytes; i++) thread.name[i] = names_[number - 1][i];
  return thread;
}

// Takes no lock: fork may not have got it, and who holds it then is gone, or is this thread, interrupted by a signal handler.
void ThreadNames::keep_only(uint32_t number, uint32_t id) {
  lock_.reset();
  recycling_ = false;
  for (uint32_t i = 0; i < used_; i++) {
    if (i + 1 == number) {
      set(i, kLives, id);
    } else if (state(i) != kFree) {
      set(i, kEnded, this->id(i));
    }
  }
}

bool ThreadNames::begin_recycling() {
  uint64_t now = os::coarse_monotonic_ns();
  {
    LockGuard guard(lock_);
    if (recycling_ || now < not_before_ns_) return false;
    recycling_ = true;
    not_before_ns_ = now + kPause_ns;
  }
  for (uint32_t i = 0; i < kMost; i++) {
    uint32_t before;
    {
      LockGuard guard(lock_);
      before = words_[i];
      if (state(i) == kEnded) set(i, kCandidate, id(i));
    }
    if (before >> 30 != kLives || os::is_thread(static_cast<int>(before & ((1u << 30) - 1)))) continue;
    LockGuard guard(lock_);
    if (words_[i] == before) set(i, kCandidate, id(i));
  }
  return true;
}

void ThreadNames::recycle(const Marks& in_use) {
  LockGuard guard(lock_);
  uint32_t recycled = 0;
  for (uint32_t i = 0; i < used_; i++) {
    if (state(i) != kCandidate) continue;
    if (in_use.has(i + 1)) {
      set(i, kEnded, id(i));
      continue;
    }
    set(i, kFree, free_);
    free_ = i + 1;
    recycled++;
  }
  if (recycled >= kMost / 16) not_before_ns_ = 0;
  recycling_ = false;
}

}  // namespace seemalloc::profile
