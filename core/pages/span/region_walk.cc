#include "core/pages/span/region_walk.h"

#include "core/base/check.h"
#include "core/os/runtime/lock.h"
#include "core/pages/span/shard.h"

namespace seemalloc::pages {

bool RegionWalk::next(void (*f)(void* context, const Region& region), void* context) {
  for (; shard_ < shards_in_use(); shard_++) {
    Shard& shard = shards[shard_];
    LockGuard guard(shard.lock);
    if (!inside_) {
      cursor_.at = shard.all;
      shard.begin_walk(&cursor_);
      inside_ = true;
    }
    if (const Region* region = cursor_.at) {
      DCHECK(region->shard == shard_);
      cursor_.at = region->next_all;
      f(context, *region);
      return true;
    }
    shard.end_walk(&cursor_);
    inside_ = false;
  }
  return false;
}

RegionWalk::~RegionWalk() {
  if (!inside_) return;
  DCHECK(shard_ < shards_in_use());
  LockGuard guard(shards[shard_].lock);
  shards[shard_].end_walk(&cursor_);
}

}  // namespace seemalloc::pages
