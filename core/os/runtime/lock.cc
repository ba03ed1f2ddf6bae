#include "core/os/runtime/lock.h"

#include "core/os/runtime/lock_slow.h"

namespace seemalloc {

constinit thread_local bool fork_holds_every_lock __attribute__((tls_model("initial-exec"))) =
    false;
constinit thread_local bool fork_interrupted_critical_section
    __attribute__((tls_model("initial-exec"))) = false;
constinit thread_local unsigned locks_held __attribute__((tls_model("initial-exec"))) = 0;

constinit WaitCounters shared_waits, owner_waits;

LockWaits shared_lock_waits() { return shared_waits.read(); }
LockWaits owner_lock_waits() { return owner_waits.read(); }
void reset_lock_waits_in_child() {
  shared_waits.forget();
  owner_waits.forget();
}

template class BasicLockWord<os::RealMachine>;
template class BasicLock<os::RealMachine>;
template class BasicOwnerLock<os::RealMachine>;

}  // namespace seemalloc
