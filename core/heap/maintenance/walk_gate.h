// WalkGate: keeps threads that change other threads' lists (workers) and threads that walk all
// lists (walkers) apart. Constant-initialised.
//
// Any number of workers may change lists at once, each under the locks that its change needs. A
// walk follows links without locks. Protocol:
// 1. A worker announces itself (workers_), then reads walkers_. If there is a walker it skips the
//    change.
// 2. A walker announces itself (walkers_), then waits until there are no workers (workers_ is 0).
// Each side writes before it reads, in one total order (seq_cst), so at least one of them sees the
// other. The decrements have release order: a walk sees the changes of the workers that it waited
// for, and a worker sees everything before the end of a walk.
//
// A walk does not wait for ever: a thread that ended in the middle of its work (orphaned_heaps.h)
// never decrements the counter. In the child of a clone system call that ran no fork handlers, the
// parent's workers never do either. (After a thread is lost in the middle of a walk, workers skip
// all changes from then on.)
// Checked by walk_gate_model_test.cc, which runs this code in every interleaving, and
// walk_gate_test.cc (threads, forks; under TSan).
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/check.h"
#include "core/base/units.h"
#include "core/os/kernel/real_machine.h"

namespace seemalloc::heap {

template <typename Machine>
class BasicWalkGate {
 public:
  // Returns false while any thread walks, this one included: then the caller may change nothing.
  // After true, enter() may be called again before leave().
  bool enter() {
    workers_.fetch_add(1, std::memory_order_seq_cst);
    if (own_state.works == 0 && walkers_.load(std::memory_order_seq_cst) != 0) {
      workers_.fetch_sub(1, std::memory_order_release);
      return false;
    }
    own_state.works++;
    return true;
  }
  void leave() {
    DCHECK(own_state.works != 0);
    own_state.works--;
    workers_.fetch_sub(1, std::memory_order_release);
  }

  bool entered_by_this_thread() const { return own_state.works != 0; }

  // Returns false if there were workers for the whole of `most_ns`: lists may be changing.
  // end_walk() must follow in both cases. Requires: this thread is not between enter() and leave().
  bool begin_walk(uint64_t most_ns = 10 * kSecondNs) {
    walkers_.fetch_add(1, std::memory_order_seq_cst);
    own_state.walks++;
    uint64_t begin = Machine::monotonic_ns();
    while (workers_.load(std::memory_order_seq_cst) != 0) {
      if (Machine::monotonic_ns() - begin >= most_ns) return false;
      Machine::pause(50 * kMicrosecondNs);
    }
    return true;
  }
  void end_walk() {
    DCHECK(own_state.walks != 0);
    own_state.walks--;
    walkers_.fetch_sub(1, std::memory_order_release);
  }

  // Of the parent's threads, the child has only this one.
  void reset_in_child() {
    workers_.store(own_state.works, std::memory_order_relaxed);
    walkers_.store(own_state.walks, std::memory_order_relaxed);
  }

 protected:
  struct ThreadState {
    unsigned works, walks;
  };
  // A process has only one gate.
  static inline constinit thread_local ThreadState own_state
      __attribute__((tls_model("initial-exec"))) = {};

  typename Machine::template Atomic<unsigned> workers_{0}, walkers_{0};
};

using WalkGate = BasicWalkGate<os::RealMachine>;
extern constinit WalkGate walk_gate;

}  // namespace seemalloc::heap
