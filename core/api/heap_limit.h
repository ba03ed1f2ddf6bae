// What becomes of an allocation that heap_limit does not allow, though everything free has been given back: null, or the end of the
// process with a heap profile, as heap_limit_action says.
#pragma once

#include <cstddef>
#include <cstdint>

namespace seemalloc {

// Notes how often heap_limit had refused memory, before the last try.
class LastTry {
 public:
  LastTry();
  // It has failed as well. Returns where the system is to blame, or the action is `fail`. Requires: no lock held.
  void failed(size_t bytes) const;

 private:
  uint64_t refusals_;
};

}  // namespace seemalloc
