// The files and lines that the options request at exit: the last heap profiles, statistics, a
// summary of leaks. Threads: the one that ends the process. No lock of ours is held.
#pragma once

namespace seemalloc {

// jemalloc's statistics, for the option stats_print. Null except in libseemalloc_compat: those of
// malloc_stats() are printed.
__attribute__((weak, visibility("hidden"))) void print_jemalloc_statistics();

// Writes the files that the options request at exit.
void dump_at_exit();
// Whether the options request output at exit. Takes no lock.
bool dumps_at_exit();

}  // namespace seemalloc
