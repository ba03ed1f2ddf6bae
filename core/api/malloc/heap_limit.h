// An allocation that heap_limit still does not allow after all free memory has been returned: it
// fails, or ends the process with a heap profile, as heap_limit_action selects.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/pages/span/backing.h"

namespace seemalloc {

// Records how often heap_limit has refused memory, before an attempt.
class Attempt {
 public:
  Attempt() : refusals_(pages::backing.refusals()) {}
  // True if it has refused memory since then: to this thread, unless another thread was at the
  // limit, too.
  bool limit_refused() const;
  // True if the limit can never allow this many bytes, however much is returned.
  bool is_hopeless(size_t bytes) const;
  // Called when the last attempt has failed. Returns if the OS refused the memory, or the action is
  // `fail`. Requires: no lock held.
  void failed(size_t bytes) const;

 private:
  uint64_t refusals_;
};

// While alive, a failing allocation of this thread does not end the process: the thread can do
// without it.
class MayFail {
 public:
  MayFail();
  ~MayFail();
  MayFail(const MayFail&) = delete;
  MayFail& operator=(const MayFail&) = delete;

 private:
  bool before_;
};

}  // namespace seemalloc
