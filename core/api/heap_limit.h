// What becomes of an allocation that heap_limit does not allow, though everything free has been given back: null, or the end of the
// process with a heap profile, as heap_limit_action says.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/pages/backing.h"

namespace seemalloc {

// Notes how often heap_limit had refused memory, before a try.
class Attempt {
 public:
  Attempt() : refusals_(pages::backing.refusals()) {}
  // Since then it has refused some: to this thread, unless another one was at the limit, too.
  bool limit_refused() const;
  // It never has room for so much, whatever is given back.
  bool is_hopeless(size_t bytes) const;
  // It was the last. Returns where the system is to blame, or the action is `fail`. Requires: no lock held.
  void failed(size_t bytes) const;

 private:
  uint64_t refusals_;
};

// While alive, an allocation of this thread that fails does not end the process: it can do without.
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
