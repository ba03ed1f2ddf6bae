// Operating system interface of the allocator: memory, time, identity, files. Only this directory makes system calls.
//
// No function here touches errno, allocates or locks. Functions that can fail return null, false or -errno; callers
// degrade.
// Threads: all functions may be called from any thread at any time, signal handlers included.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/os/calls.h"

namespace seemalloc::os {

// ---- memory: each call is counted under its reason (calls.h) -------------------------------------------------------

// Bytes of an OS page: 4 KiB, 16 KiB or 64 KiB; read from the auxiliary vector once.
size_t page_bytes();

// Maps fresh zeroed private memory, readable and writable, not yet backed. `bytes` is a multiple of page_bytes().
// Returns null when refused.
void* map(size_t bytes, Reason reason);
// The same, aligned to `alignment` (a power of two ≥ page_bytes()).
void* map_aligned(size_t bytes, size_t alignment, Reason reason);
// The same at exactly this address. Returns false when refused, also when something is mapped there.
bool map_at(uintptr_t start, size_t bytes, Reason reason);
// The same. If the kernel refuses another mapping (vm.max_map_count), the mapping that ends at `start` grows instead.
bool map_behind(uintptr_t start, size_t bytes, Reason reason);
// Unmaps the whole range. Returns false when refused (the number of mappings is limited): the range is still mapped.
bool unmap(void* start, size_t bytes, Reason reason);
// Returns the range's memory to the OS; it reads as zero afterwards. Returns false when refused.
bool purge(void* start, size_t bytes, Reason reason);
// Leaves the memory to the kernel, which takes it when memory is short (MADV_FREE, Linux 4.5): until it is written
// again its contents are unknown. Returns false when refused.
bool purge_lazily(void* start, size_t bytes, Reason reason);
// Grows or shrinks a mapping in place, or moves it onto the mapping at `target` (of new_bytes) when that is not null.
// Returns the start, or null when refused; nothing has changed then.
void* remap(void* start, size_t old_bytes, size_t new_bytes, void* target, Reason reason);
// Whether the range is part of one mapping, which the program's own calls may have split. True if the kernel does not
// report it.
bool is_one_mapping(void* start, size_t bytes, Reason reason);
enum class Moved { kYes, kRefused, kRefusedTargetLost };
// Moves the pages of one mapping to `target`, with fresh memory behind them up to `new_bytes`. Replaces all mappings
// there. If refused, nothing has moved, but the target may be unmapped. Requires: new_bytes > bytes.
Moved move_pages(void* start, size_t bytes, void* target, size_t new_bytes, Reason reason);
// Sets whether a fault in the range may take a huge page, whatever the system's default (unless that is `never`).
// Returns false when refused.
bool set_huge_pages(void* start, size_t bytes, bool on);
// Call before a part of a huge page is purged. Makes the kernel split the huge page, which it otherwise does only when
// memory is short; until then the whole page would stay allocated. The range's contents are lost. If refused, nothing
// has changed.
void split_huge_page(void* start, size_t bytes);
// Moves the range's contents onto huge pages now. Pages without memory get some, and concurrent reads and writes are
// not affected (MADV_COLLAPSE, Linux 6.1). set_huge_pages() must allow huge pages in the range; the system's setting is
// ignored (see huge_page_setting.h). Returns 0 or -errno: -ENOMEM, -EBUSY and -EAGAIN may be temporary.
int collapse_into_huge_pages(void* start, size_t bytes);
enum class Told { kYes, kNothingThere, kRefused };
// Reports which OS pages of the range are resident: the low bit of one byte per page. kNothingThere: a part of the
// range is not mapped.
Told ask_resident_pages(const void* start, size_t bytes, Reason reason, unsigned char* there);
// Resident bytes of the range, counted by OS page; 0 if the kernel refuses to report any part of it.
size_t resident_bytes(const void* start, size_t bytes, Reason reason = Reason::kReport);
// The same, but by sampling if the range is larger than 4,096 OS pages, so that it takes at most four calls.
size_t estimate_resident_bytes(const void* start, size_t bytes, Reason reason);
// Like resident_bytes(), but returns false when refused.
bool ask_resident_bytes(const void* start, size_t bytes, Reason reason, size_t* out);

// The same calls, summed over their reasons.
struct Counters {
  uint64_t map_calls, map_bytes;      // bytes: including those added by remapping
  uint64_t unmap_calls, unmap_bytes;  // bytes: including those removed by remapping
  uint64_t purge_calls, purge_bytes;
  uint64_t remap_calls;
  uint64_t huge_page_calls;  // calls that enable huge pages
  uint64_t refused_calls;  // any of the above that the kernel refused
};
Counters counters();
// In a forked child: resets the counters, so that the parent's calls are not counted twice, and forgets the ids.
void forget_counters_in_child();

// ---- time, identity -----------------------------------------------------------------------------------------------

uint64_t monotonic_ns();         // CLOCK_MONOTONIC
uint64_t coarse_monotonic_ns();  // CLOCK_MONOTONIC_COARSE, a few ns per call, resolution 1–4 ms
uint64_t realtime_ns();          // CLOCK_REALTIME
uint64_t thread_cpu_ns();        // CLOCK_THREAD_CPUTIME_ID: a system call
uint64_t process_cpu_ns();       // CLOCK_PROCESS_CPUTIME_ID, all threads: a system call
// Not cached: right after fork and raw clone; if the call is forbidden, the last known id.
int process_id();
int thread_id();                 // if the call is forbidden, a number that no other living thread has
// The number of CPUs that this process may use: its affinity mask, or fewer if its cgroup grants less time. At least 1.
// Reads files.
unsigned cpu_count();
// Random bits from getrandom, or else from the clock and addresses.
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
// Writes all bytes, retrying on EINTR and short writes. Returns 0 or -errno.
int write_all(int fd, const void* data, size_t bytes);
// Writes to standard error.
void write_stderr(const char* text, size_t bytes);
int rename_file(const char* from, const char* to);
int remove_file(const char* path);

// Copies `bytes` from our own address space without faulting on unmapped pages. Returns false when any byte is missing.
bool read_memory(const void* from, void* to, size_t bytes);
// The same for several places with one system call, if the kernel allows it.
struct MemoryPiece {
  uintptr_t from;
  void* to;
  size_t bytes;
};
inline constexpr unsigned kMostMemoryPieces = 4;
bool read_memory(const MemoryPiece* pieces, unsigned count);

// Makes every running thread of this process execute a full memory fence (membarrier). Returns false when the kernel
// cannot.
bool fence_all_threads();

// Waits while *word == expected; returns at the latest after `timeout_ns` (0: no limit). Returns false when the kernel
// refuses to wait.
bool futex_wait(const void* word, uint32_t expected, uint64_t timeout_ns = 0);
void futex_wake(const void* word, int count);
// Sleeps for about this time, using the first of several calls that is allowed.
void pause(uint64_t ns);
// False after pause() has found no allowed call: a thread that would wait in a loop must end.
bool can_pause();

}  // namespace seemalloc::os
