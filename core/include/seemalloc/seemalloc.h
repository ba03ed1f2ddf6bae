/* seemalloc: the functions that the allocator offers to a program, beyond the malloc family.
 *
 * You may call them from any thread at any time, except in signal handlers and in the child of a
 * vfork before its exec. None of them throws. All sizes are in bytes.
 */
#ifndef SEEMALLOC_SEEMALLOC_H
#define SEEMALLOC_SEEMALLOC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the library's version, "major.minor.patch". To find out whether your program runs on
 * seemalloc, declare this function weak and test its address. */
const char* seemalloc_version(void);

/* Starts sampling. `interval_bytes` is the mean number of allocated bytes between two samples (1:
 * every allocation; 0: the default, 512 KiB). Blocks already sampled stay recorded. Returns 0, or
 * -1 with errno EINVAL (above 1 TiB) or ENOTSUP (the library without a profiler). */
int seemalloc_profile_start(size_t interval_bytes);

/* Stops sampling; the recorded samples stay. Returns 0, or -1 with errno ENOTSUP. */
int seemalloc_profile_stop(void);

/* Writes the heap profile (profile.proto, the format of pprof) to a file. An existing file is
 * replaced atomically once the profile is complete. In the path %p is replaced by the process id,
 * %n by a count, %t by the seconds since 1970. Returns 0, or -1 with errno of the failing call. */
int seemalloc_profile_dump(const char* path);

/* Does the same for a profile of the given kind: "heap", "remote" or another one listed in
 * docs/profiles.md. Returns 0, or -1 with errno EINVAL (no such kind) or that of the failing call.
 */
int seemalloc_profile_dump_kind(const char* kind, const char* path);

/* Sets the baseline of profiles of the kind "since": they show the allocations after this call, and
 * the change of live memory since then. Returns 0, or -1 with errno ENOTSUP in the library without
 * a profiler. */
int seemalloc_profile_baseline(void);

/* Starts profiling the CPU time of all threads: SIGPROF interrupts each thread `frequency` times
 * per second of its CPU time (0: the option cpu_frequency, 100 by default). Discards the samples of
 * the last profile. Returns 0, or -1 with errno EINVAL (above 4000), EALREADY (a CPU profile is
 * running), EBUSY (the program uses SIGPROF or ITIMER_PROF itself), EAGAIN (the kernel refuses
 * timers), ENOMEM, or ENOTSUP (the library without a profiler). */
int seemalloc_cpu_start(unsigned frequency);

/* Stops the CPU profile; its samples are kept until the next start. Returns 0, or -1 with errno
 * ESRCH (none was running). */
int seemalloc_cpu_stop(void);

/* Writes the samples so far of the running CPU profile, or those of the last one (profile.proto:
 * samples/count, cpu/nanoseconds), to a file, as seemalloc_profile_dump does.
 * seemalloc_profile_dump_kind("cpu", path) does the same. */
int seemalloc_cpu_dump(const char* path);

/* Returns 1 while a CPU profile is running, else 0. Unless `interrupts` is null, *interrupts
 * becomes the number of samples that this profile, or the last one, has taken. */
int seemalloc_cpu_running(size_t* interrupts);

/* The allocator's memory statistics; all fields are in bytes. */
typedef struct seemalloc_statistics_t {
  size_t live;          /* live blocks, by allocated size; exact while no other thread allocates */
  size_t cached;        /* free blocks kept ready for threads */
  size_t free_in_spans; /* free blocks in spans that also hold live ones: fragmentation */
  size_t dirty;         /* free pages not yet returned to the OS */
  size_t mapped;        /* address space mapped from the OS */
  size_t metadata;      /* records of the allocator and the sampler */
} seemalloc_statistics_t;

/* Fills *out. `size` is sizeof *out: a newer library leaves out fields beyond it, and an older
 * library sets fields that it does not know to 0. Returns 0, or -1 with errno EINVAL (`out` is
 * null). */
int seemalloc_statistics(seemalloc_statistics_t* out, size_t size);

/* Sets an option of docs/options.md that may change at run time. Returns 0, or -1 with errno ENOENT
 * (no such option), EINVAL (bad value) or EPERM (read at start only). */
int seemalloc_option_set(const char* name, const char* value);

/* Copies an option's value to `out`, NUL-terminated and truncated to `size` bytes. Returns its full
 * length, or -1 with errno ENOENT. */
long seemalloc_option_get(const char* name, char* out, size_t size);

/* Returns all free pages to the OS now. Returns the number of bytes returned. */
size_t seemalloc_purge(void);

/* ---- memory pools ----
 *
 * A program with an arena, a slab or a pool of its own takes large blocks from malloc and divides
 * them into small ones itself. The heap profile then shows the stacks that made the pool grow, not
 * the stacks that use it. Report the pool's blocks with these functions. A sample of them, drawn as
 * malloc's samples are (option sample), appears with its stacks in the profile of the kind `pools`,
 * labelled with the pool's name. A block that is not sampled costs a few nanoseconds.
 *
 * A null pool is allowed everywhere, and then the functions do nothing. seemalloc_pool_create
 * returns null if memory is refused, and always in the library without a profiler. To run without
 * seemalloc too, declare the functions weak and test one of them:
 *
 *   #pragma weak seemalloc_pool_create
 *   #pragma weak seemalloc_pool_alloc
 *   ...
 *   seemalloc_pool_t* pool = seemalloc_pool_create ? seemalloc_pool_create("texts") : NULL;
 *   ...
 *   if (pool) seemalloc_pool_alloc(pool, block, bytes);
 */
typedef struct seemalloc_pool_t seemalloc_pool_t;

/* Creates a pool with this name, of which the first 47 bytes are used. Pools with the same name are
 * shown together. */
seemalloc_pool_t* seemalloc_pool_create(const char* name);

/* Reports that the pool has allocated this block. A block that is reported again without a
 * seemalloc_pool_free counts as freed in between. */
void seemalloc_pool_alloc(seemalloc_pool_t* pool, const void* block, size_t bytes);

/* Reports that the block has been freed to the pool. */
void seemalloc_pool_free(seemalloc_pool_t* pool, const void* block);

/* Reports that all blocks of the pool have been freed, as when an arena is reset. */
void seemalloc_pool_reset(seemalloc_pool_t* pool);

/* Destroys the pool, with all of its blocks. No other thread may use the pool during the call, and
 * no thread after it. */
void seemalloc_pool_destroy(seemalloc_pool_t* pool);

/* For tests: calls f(context, block, allocated_bytes) for each live block. During the call no other
 * thread may allocate or free, and neither may f. Returns 0, or -1 if the heap's metadata is
 * inconsistent. */
int seemalloc_for_each_block(void (*f)(void* context, void* block, size_t allocated_bytes),
                             void* context);

#ifdef __cplusplus
}
#endif

#endif
