// The options, one row each: OPTION(name, kind, default, min, max, when, help).
//
// This is the only list of options: the parser, `seemalloc set`, the public API and docs/options.md are made from it.
// kind:
//   - kBytes: with suffixes K M G T
//   - kMilliseconds, kCount
//   - kAutoMilliseconds: the same as kMilliseconds, or the word auto, which is the default: adapted at run time,
//     starting with the row's default
//   - kSwitch: 0/1, on/off, true/false
//   - kText: default, min and max are 0 (empty text)
//   - kChoice: one of the words in options.cc; max is the index of the last one
// when: kStart (read once from SEEMALLOC_CONF) or kAny (may also be set while the program runs).
OPTION(sample, kBytes, 512 * KiB, 0, TiB, kAny,
       "mean number of allocated bytes between two heap samples; 1 records every allocation, 0 turns sampling off")
OPTION(sample_limit, kCount, 10000, 0, 1000000000, kAny,
       "samples that a thread takes in a second of its CPU time at most, by a longer interval (each sample knows its own); without a limit "
       "while the heap grows, and where it is larger than 200 MiB; 0: no limit at all. Not for sample:1")
OPTION(stack_depth, kCount, 64, 4, 128, kAny, "frames kept of each sampled stack; deeper stacks are cut and counted")
OPTION(free_stacks, kChoice, 1, 0, 2, kAny,
       "of which sampled blocks the stack that frees them is recorded, for profiles of the kind deaths: off, sampled (not where "
       "sample:1 records everything), all")
OPTION(python_frames, kSwitch, 0, 0, 1, kAny,
       "show the functions of Python programs (CPython 3.11 to 3.13) in place of the interpreter's frames, in profiles of heap and CPU: "
       "a few microseconds more for each sample of a Python thread")
OPTION(baseline_after, kMilliseconds, 0, 0, 3600000, kStart,
       "set the baseline of profiles of the kind since so long after the start (in a child of fork: after the fork), when the program has warmed up; 0: it is set by "
       "`seemalloc baseline` or the API only. Needs the helper")
OPTION(purge, kChoice, 0, 0, 2, kAny,
       "when free memory goes back to the system by itself: balanced (purge_delay after it was freed), eager (at once), never; on "
       "and off are balanced and never")
OPTION(purge_delay, kAutoMilliseconds, 1000, 0, 3600000, kAny,
       "how long a free page stays with the process before it is given back to the system; 0 gives back at once; auto: 1000 at first, "
       "then by how much of what went is wanted again. Short name: delay")
OPTION(free_ratio, kCount, 0, 0, 1000000000, kAny,
       "free memory that has not gone back yet is at most what is in use divided by this (2 MiB are always allowed): what is more goes "
       "at once; 0: as purge sees fit. Not with purge:never")
OPTION(purge_free, kSwitch, 0, 0, 1, kAny,
       "leave free pages to the kernel, which takes them when memory is short (MADV_FREE), instead of giving them back: fewer page "
       "faults, but RSS does not fall until then")
OPTION(huge_pages, kSwitch, 1, 0, 1, kAny,
       "let a heap of more than 64 MiB grow by huge pages (2 MiB) while the kernel gives them quickly, and move what stays dense "
       "to them; smaller heaps have small pages; off: as the system is set")
OPTION(thread_cache, kBytes, 32 * MiB, 64 * KiB, TiB, kAny,
       "bytes of free blocks that threads together aim to keep for themselves at most; not strict: a thread gives up what is beyond it "
       "when it comes to look, a sleeping one never does, and the list and the span that each has in use of each size class are not counted")
OPTION(pressure, kSwitch, 1, 0, 1, kAny,
       "give free memory back early while the cgroup's memory limit is near or the kernel reports that memory is short; not with "
       "purge:never")
OPTION(heap_soft_limit, kBytes, 0, 0, 1024 * TiB, kAny,
       "while the heap has more bytes than this from the system, all that is free is given back before it grows; 0: no limit")
OPTION(heap_limit, kBytes, 0, 0, 1024 * TiB, kAny,
       "most bytes that the heap may have from the system; what does not fit once all that is free has been given back is "
       "refused, see heap_limit_action; 0: no limit")
OPTION(heap_limit_action, kChoice, 0, 0, 1, kAny,
       "what is done about an allocation beyond heap_limit: fail (null and ENOMEM; operator new throws), abort (a line on "
       "stderr, a heap profile named after dump_prefix, SIGABRT)")
OPTION(foreign, kChoice, 0, 0, 2, kAny,
       "free and its family with a pointer that is not from this heap: pass (a block of the C library's malloc, or of an allocator loaded "
       "behind this one, goes back to it; any other pointer ends the program, with a line that says where it leads), report (like pass, but "
       "the program goes on), fatal (a block of another allocator ends the program, too)")
OPTION(helper, kSwitch, 1, 0, 1, kStart, "start a helper thread (control socket, timed purge) once the heap is worth it. 0: free memory goes back only while the "
       "program allocates or frees, so a process that rests keeps it; purge:eager gives it back when it is freed")
OPTION(sandbox, kChoice, 0, 0, 2, kStart,
       "which system calls the library makes: auto: all, until the process is under a seccomp filter of its own or was started under one "
       "with no_new_privs outside of a container; on: no others than malloc's (mmap, munmap, mremap, madvise, futex; mprotect while the "
       "process starts); off: all, whatever filters there are")
OPTION(socket, kSwitch, 1, 0, 1, kStart, "serve the control socket")
OPTION(at_start, kSwitch, 0, 0, 1, kStart, "start the helper thread when the program starts instead of when the heap grows")
OPTION(socket_dir, kText, 0, 0, 0, kStart,
       "folder of the control socket, tried before /tmp/seemalloc-UID, $XDG_RUNTIME_DIR/seemalloc-UID and /dev/shm/seemalloc-UID; it must belong "
       "to this user and be closed to others (0700)")
OPTION(dump_at_exit, kText, 0, 0, 0, kAny,
       "write a heap profile to this file at exit; %p is the process id, %n a count, %t the time in seconds since 1970")
OPTION(stats_at_exit, kText, 0, 0, 0, kAny,
       "write the statistics (JSON) to this file at exit; %p, %n and %t as in dump_at_exit")
OPTION(dump_signal, kCount, 0, 0, 64, kStart, "on this signal number write a heap profile to dump_prefix; 0 is off")
OPTION(dump_prefix, kText, 0, 0, 0, kAny,
       "start of the names of profiles that are not given a name (default: seemalloc); %p is the process id, %n a count, %t the "
       "time in seconds since 1970")
OPTION(dump_names, kChoice, 0, 0, 2, kAny,
       "how names go on behind dump_prefix: seemalloc (PREFIX.PID.N.heap.pb), gperftools (PREFIX.0001.heap), jemalloc "
       "(PREFIX.PID.N.i0.heap); the last two take % as it is")
OPTION(dump_alloc_interval, kBytes, 0, 0, 1024 * TiB, kAny,
       "write a heap profile to dump_prefix each time so many bytes have been allocated (by the samples); 0 is off")
OPTION(dump_inuse_interval, kBytes, 0, 0, 1024 * TiB, kAny,
       "write a heap profile to dump_prefix each time so many bytes more are in use than ever at such a dump (by the samples: exactly "
       "with sample:1); 0 is off")
OPTION(dump_growth_interval, kBytes, 0, 0, 1024 * TiB, kAny,
       "write a heap profile to dump_prefix each time the heap has so many bytes more from the system than ever at such a dump; "
       "0 is off")
OPTION(dump_time_interval, kCount, 0, 0, 31536000, kAny,
       "write a heap profile to dump_prefix every so many seconds, also while the process is idle; 0 is off")
OPTION(dump_on_failure, kSwitch, 0, 0, 1, kAny,
       "write a heap profile to dump_prefix when an allocation fails for want of memory or at heap_limit, every 10 s at most")
OPTION(dump_keep, kCount, 0, 0, 1000, kAny,
       "so many of the profiles written by themselves (dump_*_interval, dump_on_failure) are kept, older ones removed; 0 keeps all")
OPTION(dump_final, kSwitch, 0, 0, 1, kAny, "write a heap profile to dump_prefix at exit")
OPTION(leak_summary, kSwitch, 0, 0, 1, kAny, "at exit say on standard error how much is still in use")
OPTION(stats_print, kSwitch, 0, 0, 1, kAny, "at exit print the statistics of malloc_stats() on standard error; libseemalloc_compat: jemalloc's")
OPTION(verbose, kSwitch, 0, 0, 1, kAny,
       "say on standard error which profiles are written, and which settings of other allocators have no effect")
OPTION(cpu_profile, kText, 0, 0, 0, kStart,
       "profile the CPU time of the whole run and write the profile to this file at exit; %p is the process id, %n a count; without %p "
       "a forked child's file has _PID behind the name")
OPTION(cpu_frequency, kCount, 100, 1, 4000, kAny, "times that each thread is interrupted in a second of its CPU time while that is profiled")
OPTION(cpu_clock, kChoice, 0, 0, 1, kAny,
       "the time that a CPU profile counts: cpu (that threads run), wall (that passes; interrupts sleeping threads, too)")
OPTION(cpu_signal, kCount, 0, 0, 64, kStart,
       "on this signal number a CPU profile begins, on the next one it ends and is written to cpu_profile or, named after dump_prefix, "
       "PREFIX.PID.N.cpu.pb; 0 is off")
