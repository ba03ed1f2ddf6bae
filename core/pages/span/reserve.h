// Address space for regions. They are mapped in the window, one after the other. Where the window
// has no room or a mapping in it is refused, they come from growing chunks outside, so that there
// are few mappings.
//
// Threads: any; one lock, held across mmap (a region is requested once per 2 MiB of heap growth).
#pragma once

#include <cstddef>
#include <cstdint>

namespace seemalloc::pages {

// Returns the base of a fresh region: zeroed, readable and writable, aligned to its size; 0 when
// the OS refuses.
uintptr_t reserve_region();
// Returns an untouched region that could not be used.
void unreserve_region(uintptr_t base);
// Unmaps a region without live pointers into it. If the kernel refuses, its memory is purged;
// outside the window its address space is then lost.
void unmap_region(uintptr_t base);

// Unmaps the part of the reserve that was never used. Returns the bytes unmapped.
size_t unmap_reserve();
// The bytes that unmap_reserve() could unmap.
size_t reserve_bytes();

void lock_reserve_for_fork();
void unlock_reserve_after_fork();

}  // namespace seemalloc::pages
