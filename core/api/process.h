// The process's life: first use, thread ends, exit.
//
// Everything is constant-initialised; start_process() only reads options and installs what needs libc. Constructors and
// destructors of this library add the fork handlers and the exit work.
#pragma once

namespace seemalloc {

namespace heap {
struct ThreadCache;
}

// Called when the options have been read. Null but in libseemalloc_compat, whose names for them tell of the start. Constructors of other
// libraries run before ours, and may change some.
__attribute__((weak, visibility("hidden"))) void options_were_read();

// Reads the options and starts sampling; once, at the first allocation. Any thread; cheap afterwards.
void start_process();
// Arranges that the calling thread's heap is given back when it ends.
void end_with_thread(heap::ThreadCache* cache);
// Gives our key back, for a program that needs one more. False when we have none. Requires: the caller holds no lock of this library.
bool give_thread_key_back();
// Called in the child of fork, where the other threads that used the key are gone.
void forget_key_users_in_child();
// Constructors have run: the C library may be asked for threads.
bool process_started();

}  // namespace seemalloc
