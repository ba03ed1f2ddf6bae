// Memory of the operating system: mappings, purging, huge pages, residency. Each call is counted
// under its reason (calls.h).
//
// No function here touches errno, allocates or locks. Functions that can fail return null, false or
// -errno; callers degrade.
// Threads: any, at any time, including signal handlers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/os/kernel/calls.h"

namespace seemalloc::os {

// Bytes of an OS page: 4 KiB, 16 KiB or 64 KiB; read from the auxiliary vector once.
size_t page_bytes();

// Maps fresh zeroed private memory, readable and writable, not yet backed. `bytes` is a multiple of
// page_bytes(). Returns null when refused.
void* map(size_t bytes, Reason reason);
// The same, aligned to `alignment` (a power of two ≥ page_bytes()).
void* map_aligned(size_t bytes, size_t alignment, Reason reason);
// The same at exactly this address. Returns false when refused, also when something is mapped
// there.
bool map_at(uintptr_t start, size_t bytes, Reason reason);
// The same. If the kernel refuses another mapping (vm.max_map_count), the mapping that ends at
// `start` grows instead.
bool map_after(uintptr_t start, size_t bytes, Reason reason);
// Unmaps the whole range. Returns false when refused (the number of mappings is limited): the range
// is still mapped.
bool unmap(void* start, size_t bytes, Reason reason);
// Returns the range's memory to the OS; it reads as zero afterwards. Returns false when refused.
bool purge(void* start, size_t bytes, Reason reason);
// Leaves the memory to the kernel, which takes it when memory is short (MADV_FREE, Linux 4.5):
// until it is written again its contents are unknown. Returns false when refused.
bool purge_lazily(void* start, size_t bytes, Reason reason);
// Grows or shrinks a mapping in place, or moves it onto the mapping at `target` (of new_bytes) when
// that is not null. Returns the start, or null when refused; nothing has changed then.
void* remap(void* start, size_t old_bytes, size_t new_bytes, void* target, Reason reason);
// Whether the range is part of one mapping, which the program's own calls may have split. True if
// the kernel does not report it.
bool is_one_mapping(void* start, size_t bytes, Reason reason);
enum class Moved { kYes, kRefused, kRefusedTargetLost };
// Moves the pages of one mapping to `target`, with fresh memory behind them up to `new_bytes`.
// Replaces all mappings there. If refused, nothing has moved, but the target may be unmapped.
// Requires: new_bytes > bytes.
Moved move_pages(void* start, size_t bytes, void* target, size_t new_bytes, Reason reason);
// Sets whether a fault in the range may take a huge page, whatever the system's default (unless
// that is `never`). Returns false when refused.
bool set_huge_pages(void* start, size_t bytes, bool on);
// Call before a part of a huge page is purged. Makes the kernel split the huge page, which it
// otherwise does only when memory is short; until then the whole page would stay allocated. The
// range's contents are lost. If refused, nothing has changed.
void split_huge_page(void* start, size_t bytes);
// Moves the range's contents onto huge pages now. Pages without memory get some, and concurrent
// reads and writes are not affected (MADV_COLLAPSE, Linux 6.1). set_huge_pages() must allow huge
// pages in the range; the system's setting is ignored (see huge_page_setting.h). Returns 0 or
// -errno: -ENOMEM, -EBUSY and -EAGAIN may be temporary.
int collapse_into_huge_pages(void* start, size_t bytes);
enum class ResidencyResult { kYes, kNotMapped, kRefused };
// Reports which OS pages of the range are resident: the low bit of one byte per page.
// kNotMapped: a part of the range is not mapped.
ResidencyResult query_resident_pages(const void* start, size_t bytes, Reason reason,
                                     unsigned char* there);
// Resident bytes of the range, counted by OS page; 0 if the kernel refuses to report any part of
// it.
size_t resident_bytes(const void* start, size_t bytes, Reason reason = Reason::kReport);
// The same, but by sampling if the range is larger than 4,096 OS pages, so that it takes at most
// four calls.
size_t estimate_resident_bytes(const void* start, size_t bytes, Reason reason);
// Like resident_bytes(), but returns false when refused.
bool query_resident_bytes(const void* start, size_t bytes, Reason reason, size_t* out);

// The same calls, summed over their reasons.
struct Counters {
  uint64_t map_calls, map_bytes;      // bytes: including those added by remapping
  uint64_t unmap_calls, unmap_bytes;  // bytes: including those removed by remapping
  uint64_t purge_calls, purge_bytes;
  uint64_t remap_calls;
  uint64_t huge_page_calls;  // calls that enable huge pages
  uint64_t refused_calls;    // any of the above that the kernel refused
};
Counters counters();
// In a forked child: resets the counters, so that the parent's calls are not counted twice.
void reset_counters_in_child();

}  // namespace seemalloc::os
