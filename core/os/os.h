// The operating system as the allocator sees it: memory, time, identity, files. The only folder with system calls.
//
// Nothing here touches errno, allocates or locks. Functions that can fail return null, false or -errno; callers degrade.
// Threads: all functions may be called from any thread at any time, signal handlers included.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/os/calls.h"

namespace seemalloc::os {

// ---- memory: each call is counted under its reason (calls.h) -------------------------------------------------------

// Bytes of an OS page: 4 KiB, 16 KiB or 64 KiB; read from the auxiliary vector once.
size_t page_bytes();

// Fresh zeroed private memory, readable and writable, not yet backed. `bytes` is a multiple of page_bytes().
// Returns null when refused.
void* map(size_t bytes, Reason reason);
// The same, aligned to `alignment` (a power of two ≥ page_bytes()).
void* map_aligned(size_t bytes, size_t alignment, Reason reason);
// The same at exactly this address. False when refused, also because something is there already.
bool map_at(uintptr_t start, size_t bytes, Reason reason);
// The same. Where the kernel refuses a mapping more (vm.max_map_count) the one that ends at `start` grows instead.
bool map_behind(uintptr_t start, size_t bytes, Reason reason);
// Gives the range back whole. False when refused (the number of mappings is limited): the range is still there.
bool unmap(void* start, size_t bytes, Reason reason);
// Gives the backing of the range back; it reads as zero afterwards. False when refused.
bool purge(void* start, size_t bytes, Reason reason);
// Leaves the backing to the kernel, which takes it when memory is short (MADV_FREE, Linux 4.5): until it is written again
// nobody knows what it reads as. False when refused.
bool purge_lazily(void* start, size_t bytes, Reason reason);
// Grows or shrinks a mapping in place, or moves it onto the mapping at `target` (of new_bytes) when that is not null.
// Returns the start, or null when refused: nothing has changed.
void* remap(void* start, size_t old_bytes, size_t new_bytes, void* target, Reason reason);
// Whether the range is part of one mapping, which the program's own calls may have split. True where the kernel does not tell.
bool is_one_mapping(void* start, size_t bytes, Reason reason);
enum class Moved { kYes, kRefused, kRefusedTargetLost };
// Moves the pages of one mapping to `target`, with fresh memory behind them up to `new_bytes`; what was mapped there is gone.
// Refused: nothing has moved, but there may be nothing at the target any more. Requires: new_bytes > bytes.
Moved move_pages(void* start, size_t bytes, void* target, size_t new_bytes, Reason reason);
// Whether a fault in the range may take a huge page, whatever the system's default (unless that is `never`). False when refused.
bool set_huge_pages(void* start, size_t bytes, bool on);
// Before part of a huge page is purged: has the kernel split it, which by itself it does only when memory is short; until
// then all of it would stay taken. The range's contents are lost. Refused: nothing has changed.
void split_huge_page(void* start, size_t bytes);
// Moves what the range holds onto huge pages now; what had no memory gets some, and nothing changes for who reads or writes
// meanwhile (MADV_COLLAPSE, Linux 6.1). The range has to be one in which set_huge_pages() allows them; the system's setting
// does not count (huge_page_setting.h). 0 or -errno: -ENOMEM, -EBUSY and -EAGAIN may pass.
int collapse_into_huge_pages(void* start, size_t bytes);
enum class Told { kYes, kNothingThere, kRefused };
// Which OS pages of the range are resident: the low bit of a byte for each. kNothingThere: some of the range is not mapped.
Told ask_resident_pages(const void* start, size_t bytes, Reason reason, unsigned char* there);
// Resident bytes of the range, counted by OS page; 0 where the kernel refuses to tell of any of it.
size_t resident_bytes(const void* start, size_t bytes, Reason reason = Reason::kReport);
// The same; by samples where the range is larger than 4,096 OS pages, so that it takes at most four calls.
size_t estimate_resident_bytes(const void* start, size_t bytes, Reason reason);
// The same as the first, false where it refuses.
bool ask_resident_bytes(const void* start, size_t bytes, Reason reason, size_t* out);

// The same calls summed up over their reasons.
struct Counters {
  uint64_t map_calls, map_bytes;      // bytes: also what remapping has added
  uint64_t unmap_calls, unmap_bytes;  // bytes: also what it has taken away
  uint64_t purge_calls, purge_bytes;
  uint64_t remap_calls;
  uint64_t huge_page_calls;  // to turn huge pages on
  uint64_t refused_calls;  // any of the above that the kernel refused
};
Counters counters();
// In a child of fork: its own calls are to be counted, not its parent's once more, and its ids are others.
void forget_counters_in_child();

// ---- time, identity -----------------------------------------------------------------------------------------------

uint64_t monotonic_ns();         // CLOCK_MONOTONIC
uint64_t coarse_monotonic_ns();  // CLOCK_MONOTONIC_COARSE, a few ns per call, resolution 1–4 ms
uint64_t realtime_ns();          // CLOCK_REALTIME
uint64_t thread_cpu_ns();        // CLOCK_THREAD_CPUTIME_ID: a system call
uint64_t process_cpu_ns();       // CLOCK_PROCESS_CPUTIME_ID, all threads: a system call
int process_id();                // not cached: right after fork and raw clone; where the call is not allowed, the last known
int thread_id();                 // where it may not be asked, a number that no other living thread has
// CPUs this process may use: those it may run on (affinity mask), or fewer where its cgroup grants less time. At least 1. Reads
// files.
unsigned cpu_count();
// Random bits; from getrandom, else from the clock and addresses.
uint64_t random_bits();
// True when the process is setuid/setgid or has raised capabilities (AT_SECURE).
bool is_privileged();

// ---- files --------------------------------------------------------------------------------------------------------

// Like open(2) with O_CLOEXEC added; returns a descriptor or -errno.
int open_file(const char* path, int flags, unsigned mode = 0600);
void close_file(int fd);
// Reads up to `bytes`, retrying on EINTR. Returns bytes read (0 at the end) or -errno.
long read_some(int fd, void* buffer, size_t bytes);
// The same from `offset` of the file.
long read_at(int fd, void* buffer, size_t bytes, uint64_t offset);
// Writes all of it, retrying on EINTR and short writes. 0 or -errno.
int write_all(int fd, const void* data, size_t bytes);
// Writes to standard error.
void write_stderr(const char* text, size_t bytes);
int rename_file(const char* from, const char* to);
int remove_file(const char* path);

// Copies `bytes` from our own address space without faulting where nothing is mapped. False when any byte is missing.
bool read_memory(const void* from, void* to, size_t bytes);
// The same of several places by one system call, where the kernel lets us.
struct MemoryPiece {
  uintptr_t from;
  void* to;
  size_t bytes;
};
inline constexpr unsigned kMostMemoryPieces = 4;
bool read_memory(const MemoryPiece* pieces, unsigned count);

// Has every running thread of this process execute a full memory fence (membarrier). False when the kernel cannot.
bool fence_all_threads();

// Waits while *word == expected; wakes up at the latest after `timeout_ns` (0: no limit). False when the kernel refuses to wait.
bool futex_wait(const void* word, uint32_t expected, uint64_t timeout_ns = 0);
void futex_wake(const void* word, int count);
// Sleeps for about this time, by the first of several calls that is allowed.
void pause(uint64_t ns);
// False once pause() has found none: a thread that would wait in a loop has to end.
bool can_pause();

}  // namespace seemalloc::os
