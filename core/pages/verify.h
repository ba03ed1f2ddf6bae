// Walks over the page heap's structures that check the numbered invariants of their headers.
//
// For debug, test and sanitizer builds: libseemalloc.so does not have them. Each returns the first broken invariant as
// text ("invariant shard.3: …"), or null. Callers: heap/verify.h and tests. Threads: any, without a lock held: a walk
// takes the lock of what it checks, so other threads may work meanwhile. Cost: a few microseconds for each region.
#pragma once

#include "core/pages/span.h"

namespace seemalloc::pages {

struct Region;
struct Shard;

// The regions, lists and sums of one shard, and the page map's entries of its regions.
const char* verify_shard(Shard& shard);
// One region. Requires: the lock of its shard.
const char* verify_region(const Region& region);
// The links and the size of a list. Requires: the lock of the list.
const char* verify_list(const SpanList& list);
// Huge blocks, the cache of huge memory (huge.cc) and its address space (huge_space.cc).
const char* verify_huge();
const char* verify_huge_space();
// The records of spans (span_pool.cc).
const char* verify_span_pool();
// All of these.
const char* verify_pages();

}  // namespace seemalloc::pages
