// Page heap: hands out spans (runs of pages) and takes them back. What goes back to the system and when: purge.h.
//
// Runs up to 1 MiB come from regions. Each CPU-numbered shard has its regions filed by their longest free run, and a
// request takes the tightest bucket that fits, so full regions fill up first. Larger runs have mappings of their own
// (huge.h). Who calls: core/heap, off the fast path. Cost: a lock and a few words of bitmap, whatever the heap's size.
// The regions of a large heap that grows by dense spans get a huge page each, while that pays (huge_page_pacing.h).
// Threads: any; one lock per shard, never held across a purge, munmap or a fault; held across the mmap of a new region and
// the madvise that says which pages it gets.
// Invariants:
//  1. a page is in `used` or in a free run; a free run never straddles regions; joining is implied by the bitmap.
//  2. only pages freed since the last purge are ever purged: exact ranges, each once per free (never a merged
//     neighbour); with OS pages larger than ours, their whole OS pages.
//  3. no region may take huge pages but from when one is expected until it has come: the kernel never puts one where
//     something was purged. What it brought and nobody has yet is free and dirty: at most 1/32 of the regions, and what is
//     free of dense ones, which keep theirs. Dense regions that have small pages get one later (collapse.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/pages/span.h"

namespace seemalloc::pages {

inline constexpr unsigned kMaxShards = 8;
// Largest run inside a region; larger ones are huge.
inline constexpr size_t kMaxRegionRunPages = kPagesPerRegion / 2;

// A span of `page_count` ≤ kMaxRegionRunPages pages, start aligned to `alignment_pages` (a power of two). Its fields are
// reset, kind is `kind`, known_zero tells whether the memory is clean; nobody owns it. Null when the OS refuses memory.
// The page map does not point at it yet: publish() does, once the caller has filled it in. `dense`: nearly all of its OS
// pages will be written soon, and the heap is large: it may lie on huge pages.
Span* allocate_run(unsigned shard, size_t page_count, size_t alignment_pages, SpanKind kind, bool dense = false);
void publish(Span* span);

// Gives a span back. Requires: no block of it is live and nobody else can reach it but by misuse.
void release(Span* span);

// Grows a kLarge span in place by taking the free pages behind it; false when they are in use.
bool try_extend(Span* span, size_t page_count);
// Gives back the pages of a kLarge span behind the first `page_count`.
void shrink(Span* span, size_t page_count);

// Gives the address space of regions without spans back, and that of freed huge blocks: only when memory is refused, since each costs a mapping's split.
// Requires: no lock held. Returns bytes given back.
size_t unmap_empty_regions();

// The system has refused so many bytes. Whether it might grant them if all that is free were given back first; costs up to two system
// calls and gives nothing back. Not of a limit of our own.
bool room_may_help(size_t bytes);

// For what purges parts of a span. Whether its region lies on a huge page, or may by now, since it is being moved; and, before
// the first part of that goes: true when os::split_huge_page() is due, which is said once, or at any time during a move.
bool lies_on_huge_page(const Span* span);
bool take_huge_page_apart(const Span* span);

// A shard for a new thread heap, round robin over the CPUs.
unsigned next_shard();

// Regions so far: one relaxed load.
unsigned region_count();
// The most there have been at once.
unsigned most_region_count();
// Bytes in spans, huge blocks included. A load for each shard and no lock: while others allocate, as of about now.
size_t bytes_in_spans();
// Hardly more than a region's worth, huge blocks included: not worth a helper, nor looking after.
bool heap_is_tiny();

struct PageStatistics {
  size_t regions;
  size_t mapped_bytes;    // address space in regions
  size_t used_bytes;      // in spans
  size_t dirty_bytes;     // free, still backed by memory
  size_t lazy_bytes;      // free, left to the kernel, which may have taken it (purge_free)
  size_t huge_pages;      // regions that lie on one
};
PageStatistics page_statistics();

// Calls f(context, span) for each span inside regions, under the lock of its shard, which is let go after each region: f must not
// allocate or free pages, and what comes or goes meanwhile may be missed.
void for_each_span(void (*f)(void* context, Span* span), void* context);

void lock_for_fork();
// In the child, what a purge under way had detached is put back.
void unlock_after_fork(bool in_child);

}  // namespace seemalloc::pages
