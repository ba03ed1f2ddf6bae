/* seemalloc: what a program may ask of its allocator, beyond malloc.
 *
 * All functions may be called from any thread at any time but from signal handlers and between fork and exec in the
 * child of a vfork. None of them throws. Bytes are bytes, never KiB.
 */
#ifndef SEEMALLOC_SEEMALLOC_H
#define SEEMALLOC_SEEMALLOC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The library's version, "major.minor.patch". A program that wants to know whether it runs on seemalloc declares this
 * function weak and tests its address. */
const char* seemalloc_version(void);

/* Starts sampling with this mean distance in allocated bytes between two samples (1: every allocation; 0: the default,
 * 512 KiB). Blocks already sampled stay recorded. Returns 0, or -1 with errno EINVAL above 1 TiB, ENOTSUP in the
 * library without a profiler. */
int seemalloc_profile_start(size_t interval_bytes);

/* Stops sampling; what was recorded stays. Returns 0, or -1 with errno ENOTSUP. */
int seemalloc_profile_stop(void);

/* Writes the heap profile (profile.proto, as pprof reads it) to a file, replacing it at once when it is complete.
 * %p in the path stands for the process id, %n for a count, %t for the seconds since 1970. Returns 0, or -1 with errno of the failing call. */
int seemalloc_profile_dump(const char* path);

/* The same for another kind of profile: "heap", "remote" and those that docs/profiles.md lists. Returns 0, or -1 with
 * errno EINVAL (no such kind) or that of the failing call. */
int seemalloc_profile_dump_kind(const char* kind, const char* path);

/* Sets the baseline of profiles of the kind "since": they show what has been allocated, and what more or less is in use, from
 * now on. Returns 0, or -1 with errno ENOTSUP in the library without a profiler. */
int seemalloc_profile_baseline(void);

/* Starts profiling the CPU time of all threads: each is interrupted by SIGPROF this many times in a second that it runs
 * (0: option cpu_frequency, which is 100 by default). What the last profile saw is forgotten. Returns 0, or -1 with errno
 * EINVAL (above 4000), EALREADY (one is running), EBUSY (the program uses SIGPROF or ITIMER_PROF itself), EAGAIN (the
 * kernel refuses timers), ENOMEM, or ENOTSUP in the library without a profiler. */
int seemalloc_cpu_start(unsigned frequency);

/* Stops it; what was seen is kept until the next start. Returns 0, or -1 with errno ESRCH when none was running. */
int seemalloc_cpu_stop(void);

/* Writes what the CPU profile has seen so far, or the last one has (profile.proto: samples/count, cpu/nanoseconds), as
 * seemalloc_profile_dump does; seemalloc_profile_dump_kind("cpu", path) is the same. */
int seemalloc_cpu_dump(const char* path);

/* 1 while a CPU profile is running, else 0. *interrupts, unless null: how many samples it, or the last one, has taken. */
int seemalloc_cpu_running(size_t* interrupts);

/* Memory as the allocator accounts for it; all fields in bytes. */
typedef struct seemalloc_statistics_t {
  size_t live;           /* handed out to the program, by allocated size; exact while no other thread allocates */
  size_t cached;         /* free blocks kept ready for threads */
  size_t free_in_spans;  /* free blocks in spans that also hold live ones: fragmentation */
  size_t dirty;          /* free pages not yet given back to the system */
  size_t mapped;         /* address space taken from the system */
  size_t metadata;       /* records of the allocator and the sampler */
} seemalloc_statistics_t;

/* Fills *out. `size` is sizeof *out; a library that knows more fields leaves those out, unknown ones become 0.
 * Returns 0, or -1 with errno EINVAL when out is null. */
int seemalloc_statistics(seemalloc_statistics_t* out, size_t size);

/* Sets an option of docs/options.md that may change at run time. Returns 0, or -1 with errno ENOENT (no such option),
 * EINVAL (bad value) or EPERM (read at start only). */
int seemalloc_option_set(const char* name, const char* value);

/* Copies an option's value, NUL-terminated and cut to `size`, to `out`; returns its full length, or -1 with errno
 * ENOENT. */
long seemalloc_option_get(const char* name, char* out, size_t size);

/* Gives all free pages back to the system now. Returns the bytes given back. */
size_t seemalloc_purge(void);

/* ---- memory pools ----
 *
 * A program with an arena, a slab or a pool of its own takes large blocks from malloc and hands out small ones itself: the heap
 * profile shows who made the pool grow, not who uses it. Such a program reports its blocks here; a sample of them, drawn
 * as malloc's are (option sample), appears with its stacks in the profile of the kind `pools`, labelled with the pool's name.
 * A block that is no sample costs a few nanoseconds.
 *
 * A null pool is allowed everywhere and stands for none: that is what seemalloc_pool_create gives when memory is refused, and
 * always in the library without a profiler. To run without seemalloc too, declare the functions weak and ask one:
 *
 *   #pragma weak seemalloc_pool_create
 *   #pragma weak seemalloc_pool_alloc
 *   ...
 *   seemalloc_pool_t* pool = seemalloc_pool_create ? seemalloc_pool_create("texts") : NULL;
 *   ...
 *   if (pool) seemalloc_pool_alloc(pool, block, bytes);
 */
typedef struct seemalloc_pool_t seemalloc_pool_t;

/* A pool of this name, of which the first 47 bytes count. Pools of one name are shown together. */
seemalloc_pool_t* seemalloc_pool_create(const char* name);

/* The pool has handed out this block. One that it hands out again without a seemalloc_pool_free has been freed in between. */
void seemalloc_pool_alloc(seemalloc_pool_t* pool, const void* block, size_t bytes);

/* The pool has taken this block back. */
void seemalloc_pool_free(seemalloc_pool_t* pool, const void* block);

/* The pool has taken all of its blocks back: an arena that begins anew. */
void seemalloc_pool_reset(seemalloc_pool_t* pool);

/* The pool and all of its blocks are gone. No other thread may use it meanwhile, and nobody afterwards. */
void seemalloc_pool_destroy(seemalloc_pool_t* pool);

/* For tests: calls f(context, block, allocated_bytes) for each live block. No other thread may allocate or free
 * meanwhile, nor f. Returns 0, or -1 when the heap's records contradict each other. */
int seemalloc_for_each_block(void (*f)(void* context, void* block, size_t allocated_bytes), void* context);

#ifdef __cplusplus
}
#endif

#endif
