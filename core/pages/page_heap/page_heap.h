// Page heap: allocates and frees spans (runs of pages). purge.h decides which free pages are
// returned to the OS, and when.
//
// Runs up to 1 MiB come from regions. Each CPU-numbered shard files its regions by their longest
// free run, and a request takes the tightest bucket that fits, so full regions fill up first.
// Larger runs have mappings of their own (huge.h). Caller: core/heap, off the fast path. Cost: a
// lock and a few words of bitmap, whatever the heap's size. The regions of a large heap that grows
// by dense spans get a huge page each, while that is worth its cost (huge_page_pacing.h).
// Threads: any; one lock per shard, never held across a purge, munmap or a page fault; held across
// the mmap of a new region and the madvise that chooses its page size.
// Invariants:
//  1. a page is in `used` or in a free run; a free run never straddles regions; joining is implied
//     by the bitmap.
//  2. only pages freed since the last purge are ever purged: exact ranges, each once per free
//     (never a merged neighbour); with OS pages larger than ours, their whole OS pages.
//  3. a region may take a huge page only between expecting one and its arrival: the kernel never
//     puts one over purged pages. Pages of a huge page that are not allocated are free and dirty:
//     at most 1/32 of the regions' memory, plus the free pages of dense regions, which keep theirs.
//     Dense regions with small pages get a huge page later (collapse.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/pages/span/span.h"

namespace seemalloc::pages {

// The largest run inside a region; larger ones are huge.
inline constexpr size_t kMaxRegionRunPages = kPagesPerRegion / 2;

// Allocates a span of `page_count` ≤ kMaxRegionRunPages pages, start aligned to `alignment_pages`
// (a power of two). Its fields are reset, its kind is `kind`, known_zero reports whether the memory
// is clean, and it has no owner. Null when the OS refuses memory. The page map does not point at it
// yet: the caller fills it in and then calls publish(). `dense`: nearly all of its OS pages will be
// written soon and the heap is large, so it may be on huge pages.
Span* allocate_run(unsigned shard, size_t page_count, size_t alignment_pages, SpanKind kind,
                   bool dense = false);
void publish(Span* span);

// Frees a span. Requires: no block of it is live and no other thread can reach it except by misuse.
void release(Span* span);

// Grows a kLarge span in place into the free pages behind it. Returns false when they are in use.
bool try_extend(Span* span, size_t page_count);
// Frees the pages of a kLarge span behind the first `page_count`.
void shrink(Span* span, size_t page_count);

// Unmaps regions without spans and retained addresses of huge blocks. Call it only when memory is
// refused, since each unmapped range may split a mapping.
// Requires: no lock held. Returns the bytes unmapped.
size_t unmap_empty_regions();

// After the OS has refused this many bytes: whether it might grant them if all free memory were
// returned first. Costs up to two system calls; returns no memory. Not for limits of our own.
bool purging_may_help(size_t bytes);

// For purging parts of a span. The first function returns whether the span's region is on a huge
// page, or may be, because it is being moved. Call the second before the first part is purged: it
// returns true when os::split_huge_page() is due, which is once per huge page, and always during a
// move.
bool is_on_huge_page(const Span* span);
bool begin_huge_page_split(const Span* span);

// The shard for a new thread heap, round robin over the CPUs.
unsigned next_shard();

// Bytes in spans, huge blocks included. One load per shard and no lock: the value is approximate
// while others allocate.
size_t bytes_in_spans();
// True if the heap has hardly more than one region's memory, huge blocks included: too little for a
// helper thread, ticks or pressure checks.
bool heap_is_tiny();

struct PageStatistics {
  size_t regions;
  size_t mapped_bytes;  // address space in regions
  size_t used_bytes;    // in spans
  size_t dirty_bytes;   // free, still backed by memory
  size_t lazy_bytes;    // free, left to the kernel, which may have taken it (purge_free)
  size_t huge_pages;    // regions that are on one
};
PageStatistics page_statistics();

// Calls f(context, span) for each span inside regions, under the lock of its shard, which is
// released after each region. f must not allocate or free pages. Spans that are allocated or freed
// meanwhile may be missed.
void for_each_span(void (*f)(void* context, Span* span), void* context);

void lock_for_fork();
// In the child, pages that an interrupted purge had detached become free again.
void unlock_after_fork(bool in_child);

}  // namespace seemalloc::pages
