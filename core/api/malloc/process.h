// The process's life: first use, thread ends, exit.
//
// Everything is constant-initialised; start_process() only reads options and installs parts that
// need libc. Constructors and destructors of this library add the fork handlers and the exit work.
#pragma once

#include <cstdint>

namespace seemalloc {

namespace heap {
struct ThreadCache;
}

// Called when the options have been read. Null except in libseemalloc_compat, whose option names
// report the values at the start. Constructors of other libraries run before ours, and may change
// some.
__attribute__((weak, visibility("hidden"))) void options_were_read();

// Reads the options and starts sampling; once, at the first allocation. Any thread; cheap
// afterwards.
void start_process();
// Arranges that the calling thread's heap is released when it ends.
void register_thread_exit(heap::ThreadCache* cache);
// Deletes our key, for a program that needs one more. False when we have none. Requires: the caller
// holds no lock of this library.
bool release_thread_key();
// Called in the child of fork: the other threads that used the key are gone, and its uptime begins.
void forget_process_in_child();
// Time since the library was loaded, or since the fork.
uint64_t uptime_ns();
// True once constructors have run: the C library may then create threads.
bool process_started();

}  // namespace seemalloc
