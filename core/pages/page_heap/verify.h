// Walks over the page heap's structures that check the numbered invariants of their headers.
//
// For debug, test and sanitizer builds: libseemalloc.so does not have them. Each returns the first
// broken invariant as text ("invariant shard.3: …"), or null. Callers: heap/reports/verify.h and
// tests. Threads: any, without a lock held: a walk takes the lock of what it checks, so other
// threads may work meanwhile. Cost: a few microseconds for each region.
#pragma once

namespace seemalloc::pages {

struct Region;
struct Shard;

// The regions, lists and sums of one shard, and the page map's entries of its regions.
const char* verify_shard(Shard& shard);
// One region. Requires: the lock of its shard.
const char* verify_region(const Region& region);
// All shards, huge memory (huge.h, huge_space.h) and the records of spans (span_pool.h).
const char* verify_pages();

}  // namespace seemalloc::pages
