// Who changes the lists of other threads, and who walks all of them: never at once. Constant-initialised.
//
// Any number of threads change lists, each under the locks that its change needs; a walk follows links without any. So:
// 1. Who is about to change says so (workers_), then looks for walks (walkers_): where there is one it does without.
// 2. Who is about to walk says so (walkers_), then waits until nobody is changing (workers_).
// Each of the two writes before it reads, in one order that all agree on (seq_cst): one of them sees the other. What was changed is seen by
// the walk that waited for it, and the other way round (the decrements release).
//
// A walk does not wait for ever: a thread that was lost in the midst of its work, or that a child of a bare clone does not have, never ends
// it. (One that is lost in the midst of a walk has nothing handed on any more.)
// Checked by walk_gate_model_test.cc (every interleaving) and walk_gate_test.cc (threads, forks; under TSan).
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/units.h"
#include "core/os/os.h"

namespace seemalloc::heap {

class WalkGate {
 public:
  // False while somebody walks, this thread included: nothing may be changed. True may be followed by another enter() before leave().
  bool enter() {
    workers_.fetch_add(1, std::memory_order_seq_cst);
    if (mine.works == 0 && walkers_.load(std::memory_order_seq_cst) != 0) {
      workers_.fetch_sub(1, std::memory_order_release);
      return false;
    }
    mine.works++;
    return true;
  }
  void leave() {
    mine.works--;
    workers_.fetch_sub(1, std::memory_order_release);
  }

  bool entered_by_this_thread() const { return mine.works != 0; }

  // Requires: between no enter() and leave(). False when somebody has not ceased to work for so long: lists may be changing.
  bool begin_walk(uint64_t most_ns = 10 * kSecond_ns) {
    walkers_.fetch_add(1, std::memory_order_seq_cst);
    mine.walks++;
    uint64_t begin = os::monotonic_ns();
    while (workers_.load(std::memory_order_seq_cst) != 0) {
      if (os::monotonic_ns() - begin >= most_ns) return false;
      os::pause(50 * kMicrosecond_ns);
    }
    return true;
  }
  void end_walk() {
    mine.walks--;
    walkers_.fetch_sub(1, std::memory_order_release);
  }

  // Of its parent's threads only this one is there.
  void forget_others_in_child() {
    workers_.store(mine.works, std::memory_order_relaxed);
    walkers_.store(mine.walks, std::memory_order_relaxed);
  }

 private:
  struct Mine {
    unsigned works, walks;
  };
  // There is one gate in a process.
  static inline constinit thread_local Mine mine __attribute__((tls_model("initial-exec"))) = {};

  std::atomic<unsigned> workers_{0}, walkers_{0};
};

}  // namespace seemalloc::heap
