#include "core/heap/maintenance/heap_fork.h"

#include "core/heap/maintenance/holes.h"
#include "core/heap/maintenance/registry.h"
#include "core/heap/maintenance/walk_gate.h"
#include "core/heap/spans/central.h"
#include "core/heap/thread/thread_heap.h"
#include "core/os/runtime/lock.h"

namespace seemalloc::heap {

void lock_for_fork() {
  registry_lock().lock_for_fork();
  for (ThreadHeap* heap = all_heaps(); heap != nullptr; heap = heap->next_all)
    heap->slow_lock.lock_for_fork();
  lock_central_for_fork();
}

void unlock_after_fork_parent() {
  unlock_central_after_fork();
  for (ThreadHeap* heap = all_heaps(); heap != nullptr; heap = heap->next_all)
    heap->slow_lock.unlock_after_fork();
  registry_lock().unlock_after_fork();
}

void unlock_after_fork_child() {
  unlock_after_fork_parent();
  // A signal handler that has interrupted one of our critical sections may fork. The locks of that
  // section stay held until this thread continues it, so this function takes no lock then, and the
  // process never recovers the other threads' heaps.
  bool may_lock = !fork_interrupted_critical_section;
  walk_gate.reset_in_child();
  reset_purger_in_child(may_lock);
  recover_heaps_in_child(may_lock);
}

}  // namespace seemalloc::heap
