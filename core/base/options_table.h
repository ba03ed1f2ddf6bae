// The options, one row each: OPTION(name, kind, default, min, max, when, help).
//
// This is the only list of options: the parser, `seemalloc set`, the public API and docs/options.md
// are made from it.
// kind:
//   - kBytes: with suffixes K M G T
//   - kMilliseconds, kCount
//   - kAutoMilliseconds: the same as kMilliseconds, or the word auto, which is the default: adapted
//     at run time, starting with the row's default
//   - kSwitch: 0/1, on/off, true/false
//   - kText: default, min and max are 0 (empty text)
//   - kChoice: one of the words in options.cc; max is the index of the last one
// when: kStart (read once from SEEMALLOC_CONF) or kAny (may also be set while the program runs).
OPTION(sample, kBytes, 512 * KiB, 0, TiB, kAny,
       "mean number of allocated bytes between two heap samples; 1 records every allocation, 0 "
       "turns sampling off")
OPTION(sample_limit, kCount, 10000, 0, 1000000000, kAny,
       "maximum samples per second of a thread's CPU time; a thread above it gets a longer "
       "sampling interval, which each sample records. Not enforced while the heap grows or exceeds "
       "200 MiB. 0: no limit. No effect with sample:1")
OPTION(
    stack_depth, kCount, 64, 4, 128, kAny,
    "maximum number of frames recorded per sampled stack; deeper stacks are truncated and counted. "
    "Unless it is set, 128 in a program whose Python functions are shown")
OPTION(free_stacks, kChoice, 1, 0, 2, kAny,
       "for which sampled blocks the call stack that frees them is recorded (profiles of the kind "
       "deaths): off (none), sampled (all, but none with sample:1, which records every "
       "allocation), all")
OPTION(
    python_frames, kSwitch, 1, 0, 1, kAny,
    "show Python functions (CPython 3.11 to 3.13) instead of the interpreter's frames in heap "
    "and CPU profiles; costs some microseconds per sample. Set to 1, it reports other versions of "
    "CPython on standard error")
OPTION(baseline_after, kMilliseconds, 0, 0, 3600000, kStart,
       "time from program start (in a forked child: from the fork) to the automatic baseline of "
       "profiles of the kind since; 0: only `seemalloc baseline` or the API sets it. Requires the "
       "helper thread")
OPTION(purge, kChoice, 0, 0, 2, kAny,
       "when free memory is returned to the OS automatically: balanced (purge_delay after it was "
       "freed), eager (ranges of 64 KiB and more at once, smaller ones after about 0.1 s), never; "
       "on means balanced, off means never")
OPTION(purge_delay, kAutoMilliseconds, 1000, 0, 3600000, kAny,
       "how long a free page is kept before it is returned to the OS; 0 means purge:eager; auto "
       "starts at 1000 and adapts between 250 and 30000 to how much of it is soon reused. Short "
       "name: delay")
OPTION(free_ratio, kCount, 0, 0, 1000000000, kAny,
       "cap resident free memory at the memory in use divided by this number (4: a quarter of it), "
       "but not below 2 MiB; the excess is returned without waiting for purge_delay. 0: no cap. No "
       "effect with purge:never")
OPTION(purge_free, kSwitch, 0, 0, 1, kAny,
       "mark free pages for the kernel (MADV_FREE) instead of returning them: fewer page faults, "
       "but RSS does not fall until the kernel is short of memory and takes them. Explicit purges "
       "and purges under memory pressure still return them")
OPTION(huge_pages, kSwitch, 1, 0, 1, kAny,
       "let a heap of more than 64 MiB grow by huge pages (2 MiB) while the kernel provides them "
       "quickly, and move dense regions onto huge pages; smaller heaps use small pages. off: leave "
       "huge pages to the system's setting")
OPTION(thread_cache, kBytes, 32 * MiB, 64 * KiB, TiB, kAny,
       "soft limit on the free blocks that all threads together cache. A thread enforces it while "
       "it allocates, so a sleeping thread keeps its blocks; the free list and the current span of "
       "each size class are not counted")
OPTION(pressure, kSwitch, 1, 0, 1, kAny,
       "return free memory early while the cgroup's memory limit is near or the kernel reports "
       "memory pressure; no effect with purge:never")
OPTION(heap_soft_limit, kBytes, 0, 0, 1024 * TiB, kAny,
       "while the heap holds more than this many bytes from the OS, return all free memory before "
       "the heap grows; 0: no limit")
OPTION(heap_limit, kBytes, 0, 0, 1024 * TiB, kAny,
       "maximum number of bytes that the heap may take from the OS; an allocation that does not "
       "fit after all free memory has been returned fails, see heap_limit_action. 0: no limit")
OPTION(heap_limit_action, kChoice, 0, 0, 1, kAny,
       "what happens to an allocation that would exceed heap_limit: fail (it returns null with "
       "ENOMEM; operator new throws), abort (one line on stderr, a heap profile named after "
       "dump_prefix, SIGABRT)")
OPTION(foreign, kChoice, 0, 0, 2, kAny,
       "what free and its family do with a pointer that is not from this heap: pass (another "
       "allocator frees its own block; any other pointer ends the program), report (like pass, but "
       "the program continues), fatal (either ends the program)")
OPTION(helper, kSwitch, 1, 0, 1, kStart,
       "start a helper thread (control socket, timed purge) once the heap outgrows its first 2 "
       "MiB. 0: memory is returned only while the program allocates or frees, so an idle process "
       "keeps its free memory")
OPTION(sandbox, kChoice, 0, 0, 2, kStart,
       "which system calls the library makes: off (all, regardless of seccomp filters), on (only "
       "those that malloc needs), auto (on once the process installs a seccomp filter, or if it "
       "started under one with no_new_privs outside a container)")
OPTION(socket, kSwitch, 1, 0, 1, kStart, "serve the control socket")
OPTION(at_start, kSwitch, 0, 0, 1, kStart,
       "start the helper thread at program start instead of when the heap grows")
OPTION(socket_dir, kText, 0, 0, 0, kStart,
       "directory of the control socket, tried before /tmp/seemalloc-UID, "
       "$XDG_RUNTIME_DIR/seemalloc-UID and /dev/shm/seemalloc-UID; it must belong to this user and "
       "be closed to others (mode 0700)")
OPTION(dump_at_exit, kText, 0, 0, 0, kAny,
       "write a heap profile to this file at exit; %p is the process id, %n a sequence number, %t "
       "the time in seconds since 1970")
OPTION(stats_at_exit, kText, 0, 0, 0, kAny,
       "write the statistics (JSON) to this file at exit; %p, %n and %t as in dump_at_exit")
OPTION(dump_signal, kCount, 0, 0, 64, kStart,
       "number of the signal on which a heap profile named after dump_prefix is written; 0: off")
OPTION(dump_prefix, kText, 0, 0, 0, kAny,
       "prefix of the names of profiles that have no file name of their own (default: seemalloc; "
       "with dump_names:jemalloc, jeprof); %p is the process id, %n a sequence number, %t the time "
       "in seconds since 1970")
OPTION(dump_names, kChoice, 0, 0, 2, kAny,
       "form of the names that follow dump_prefix: seemalloc (PREFIX.PID.N.heap.pb), gperftools "
       "(PREFIX.0001.heap), jemalloc (PREFIX.PID.N.i0.heap); the last two do not expand %")
OPTION(dump_alloc_interval, kBytes, 0, 0, 1024 * TiB, kAny,
       "write a heap profile named after dump_prefix each time this many more bytes have been "
       "allocated (estimated from samples); 0: off")
OPTION(
    dump_inuse_interval, kBytes, 0, 0, 1024 * TiB, kAny,
    "write a heap profile named after dump_prefix each time bytes in use exceed those at all "
    "earlier dumps of this kind by this many (estimated from samples, exact with sample:1); 0: off")
OPTION(dump_growth_interval, kBytes, 0, 0, 1024 * TiB, kAny,
       "write a heap profile named after dump_prefix each time the heap holds this many bytes more "
       "from the OS than at all earlier dumps of this kind; 0: off")
OPTION(dump_time_interval, kCount, 0, 0, 31536000, kAny,
       "write a heap profile named after dump_prefix every N seconds, also while the process is "
       "idle; 0: off")
OPTION(dump_on_failure, kSwitch, 0, 0, 1, kAny,
       "write a heap profile named after dump_prefix when an allocation fails because memory is "
       "exhausted or heap_limit is reached, at most once every 10 s")
OPTION(dump_keep, kCount, 0, 0, 1000, kAny,
       "number of automatically written profiles (dump_*_interval, dump_on_failure) to keep; older "
       "ones are removed. 0: keep all")
OPTION(dump_final, kSwitch, 0, 0, 1, kAny, "write a heap profile named after dump_prefix at exit")
OPTION(leak_summary, kSwitch, 0, 0, 1, kAny,
       "at exit, report on standard error how much memory is still in use")
OPTION(stats_print, kSwitch, 0, 0, 1, kAny,
       "at exit, print the statistics of malloc_stats() on standard error; libseemalloc_compat "
       "prints them in jemalloc's form")
OPTION(verbose, kSwitch, 0, 0, 1, kAny,
       "report on standard error which profiles are written, and which settings of other "
       "allocators have no effect")
OPTION(cpu_profile, kText, 0, 0, 0, kStart,
       "profile the CPU time of the whole run and write the profile to this file at exit; %p is "
       "the process id, %n a sequence number; without %p, _PID is appended to the name of a forked "
       "child's file")
OPTION(cpu_frequency, kCount, 100, 1, 4000, kAny,
       "interrupts of each thread per second of its CPU time (with cpu_clock:wall, per second) "
       "during a CPU profile")
OPTION(cpu_clock, kChoice, 0, 0, 1, kAny,
       "what a CPU profile measures: cpu (CPU time of threads), wall (elapsed time; interrupts "
       "sleeping threads, too)")
OPTION(
    cpu_signal, kCount, 0, 0, 64, kStart,
    "number of the signal that starts a CPU profile; the next such signal ends it and writes it to "
    "cpu_profile or, if that is not set, to PREFIX.PID.N.cpu.pb named after dump_prefix. 0: off")
