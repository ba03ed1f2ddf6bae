// The helper thread: serves the control socket and returns free memory while the program is idle.
//
// Started when the heap has grown, from a slow path that holds none of our locks. The C library
// does not know of this thread: the code that it runs keeps the rules of
// core/os/runtime/bare_thread.h.
// Without it (option `helper` off, or thread refused) slow paths purge, and there is no socket.
// After fork the child starts its own.
#pragma once

#include <cstdint>

#include "core/api/malloc/services.h"  // starts, wakes and ends it

namespace seemalloc {

// stop_helper_before_filter: called before a seccomp filter for all threads is installed. The
// helper thread ends, and no other starts. restart_helper_without_filter: called after the kernel
// has refused the filter. A helper thread may start again.
void stop_helper_before_filter();
void restart_helper_without_filter();
// Whether the helper thread and the calling thread are the only threads of the process.
bool helper_is_only_other_thread();
// stop_helper_temporarily: called before a call that requires the process to have one thread, or
// that changes credentials that the helper thread would keep. The helper thread ends, and none
// starts until restart_helper(), which must follow if this returns true. restart_helper starts a
// helper thread if one has ended; it has the credentials and namespaces of the calling thread. It
// starts after `pause_ns` at the earliest, and later if such calls are very frequent.
bool stop_helper_temporarily();
void restart_helper(uint64_t pause_ns = 0);

}  // namespace seemalloc
