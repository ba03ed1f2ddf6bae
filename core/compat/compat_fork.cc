#include "core/compat/compat_fork.h"

#include <pthread.h>

#include "core/compat/stats_snapshot.h"

namespace seemalloc::compat {

namespace {

void after_fork_in_child() {
  reset_snapshot_in_child();
  reset_profilers_in_child();
}

__attribute__((constructor(102))) void install() {
  pthread_atfork(nullptr, nullptr, after_fork_in_child);
}

}  // namespace

}  // namespace seemalloc::compat
