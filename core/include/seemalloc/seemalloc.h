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
 * %p in the path stands for the process id, %n for a count. Returns 0, or -1 with errno of the failing call. */
int seemalloc_profile_dump(const char* path);

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

/* For tests: calls f(context, block, allocated_bytes) for each live block. No other thread may allocate or free
 * meanwhile, nor f. Returns 0, or -1 when the heap's records contradict each other. */
int seemalloc_for_each_block(void (*f)(void* context, void* block, size_t allocated_bytes), void* context);

#ifdef __cplusplus
}
#endif

#endif
