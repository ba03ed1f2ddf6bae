// Address space for regions: in the window, one after the other; outside of it, where the window has no place or is refused,
// in growing chunks so that mappings stay few.
//
// Threads: any; one lock, held across mmap (a region is asked for once per 2 MiB of heap growth).
#pragma once

#include <cstddef>
#include <cstdint>

namespace seemalloc::pages {

// The base of a fresh region: zeroed, readable and writable, aligned to its size; 0 when the OS refuses.
uintptr_t reserve_region();
// A region that could not be used after all comes back untouched.
void return_region(uintptr_t base);
// Unmaps a region nothing points into. Refused: its address space is lost, as small as it is; its memory goes.
void unmap_region(uintptr_t base);

// Gives the part of the reserve that was never used back to the system. Returns bytes given back.
size_t unmap_reserve();
// So much that is.
size_t reserve_bytes();

void lock_reserve_for_fork();
void unlock_reserve_after_fork();

}  // namespace seemalloc::pages
