// The process's life: first use, thread ends, fork, exit.
//
// Everything is constant-initialised; start_process() only reads options and installs what needs libc. Constructors and
// destructors of this library add the fork handlers and the exit work.
#pragma once

namespace seemalloc {

namespace heap {
struct ThreadCache;
}

// Reads the options and starts sampling; once, at the first allocation. Any thread; cheap afterwards.
void start_process();
// Arranges that the calling thread's heap is given back when it ends.
void end_with_thread(heap::ThreadCache* cache);
// Constructors have run: the C library may be asked for threads.
bool process_started();

}  // namespace seemalloc
