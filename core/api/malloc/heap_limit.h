// An allocation that heap_limit still does not allow after all free memory has been returned: it
// fails, or ends the process with a heap profile, as heap_limit_action selects.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/pages/span/memory_account.h"

namespace seemalloc {

// Records how often heap_limit has refused memory, before an attempt.
class LimitAttempt {
 public:
  LimitAttempt() : refusals_(pages::memory_account.refusals()) {}
  // True if it has refused memory since then: to this thread, unless another thread was at the
  // limit, too.
  bool limit_refused() const;
  // True if the limit can never allow this many bytes, however much is returned.
  bool cannot_succeed(size_t bytes) const;
  // Called when the last attempt has failed. Returns if the OS refused the memory, or the action is
  // `fail`. Requires: no lock held.
  void handle_failure(size_t bytes) const;

 private:
  uint64_t refusals_;
};

// While alive, a failing allocation of this thread does not end the process: the thread can do
// without it.
class NonFatalScope {
 public:
  NonFatalScope();
  ~NonFatalScope();
  NonFatalScope(const NonFatalScope&) = delete;
  NonFatalScope& operator=(const NonFatalScope&) = delete;

 private:
  bool before_;
};

}  // namespace seemalloc
