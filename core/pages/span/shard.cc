#include "core/pages/span/shard.h"

namespace seemalloc::pages {

constinit Shard shards[kMaxShards] = {};
std::atomic<size_t> spare_pages{0};

namespace {
std::atomic<unsigned> shard_count{1};
}  // namespace

unsigned shards_in_use() { return shard_count.load(std::memory_order_relaxed); }

void set_shards_in_use(unsigned count) {
  DCHECK(count >= 1 && count <= kMaxShards);
  shard_count.store(count, std::memory_order_relaxed);
}

}  // namespace seemalloc::pages
