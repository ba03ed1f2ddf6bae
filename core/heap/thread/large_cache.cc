#include "core/heap/thread/large_cache.h"

#include "core/base/check.h"
#include "core/base/options.h"
#include "core/heap/thread/helper_link.h"
#include "core/os/kernel/wait.h"
#include "core/pages/page_heap/page_heap.h"
#include "core/pages/policy/purge_policy.h"

namespace seemalloc::heap {

std::atomic<size_t> large_cache_limit_bytes{0};
std::atomic<uint32_t> large_cache_epoch{0};

namespace {

// One thread's share of the budget, of which half is for large spans. Few threads get more than a
// fair share.
constexpr size_t kMaxBytesPerThread = 4 * MiB;

}  // namespace

void set_large_cache_limits(unsigned threads) {
  size_t share = thread_cache_budget() / (2 * (threads + 3));
  if (share > kMaxBytesPerThread) share = kMaxBytesPerThread;
  large_cache_limit_bytes.store(pages::purge_mode() == options::Purge::kEager ? 0 : share,
                                std::memory_order_relaxed);
}

size_t LargeCache::next_filled(size_t pages) {
  DCHECK(pages <= kLists);
  for (size_t word = pages / 64; word < sizeof(filled_) / sizeof(filled_[0]); word++) {
    uint64_t bits = filled_[word];
    if (word == pages / 64) bits &= ~uint64_t{0} << (pages % 64);
    for (; bits != 0; bits &= bits - 1) {
      size_t found = word * 64 + static_cast<size_t>(__builtin_ctzll(bits));
      if (lists_[found] != nullptr) return found;
      filled_[word] &= ~(bits & -bits);
    }
  }
  return kLists;
}

Span* LargeCache::take_larger(size_t page_count) {
  if (!lock_.try_lock_owner()) return nullptr;
  push_last_on_list();
  size_t pages = next_filled(page_count);
  Span* span =
      pages <= page_count + page_count / 8 && pages != kLists ? take_first(pages) : nullptr;
  lock_.unlock_owner();
  return span;
}

bool LargeCache::put_evicting(Span* span) {
  size_t limit = large_cache_limit_bytes.load(std::memory_order_relaxed);
  if (span->bytes > limit || !lock_.try_lock_owner()) return false;
  evict(span->bytes, limit);
  push(span, bytes_ + span->bytes);
  lock_.unlock_owner();
  note_slow_free();
  return true;
}

// Lists take turns, so that sizes no longer requested make space for those that are.
void LargeCache::evict(size_t bytes, size_t limit) {
  push_last_on_list();
  while (bytes_ + bytes > limit) {
    size_t pages = next_filled(victim_);
    if (pages == kLists) pages = next_filled(0);
    if (pages == kLists) return;
    pages::release(take_first(pages));
    victim_ = static_cast<uint16_t>(pages + 1);
  }
}

// The span freed last is in front, so the older ones are at the end of the list.
void LargeCache::release_before(size_t pages, uint32_t epoch) {
  Span* kept = nullptr;
  Span* span = lists_[pages];
  for (; span != nullptr && static_cast<int32_t>(epoch - span->cached_epoch) <= 0;
       span = span->next)
    kept = span;
  if (kept != nullptr) {
    __atomic_store_n(&kept->next, nullptr, __ATOMIC_RELEASE);
  } else {
    set_list(pages, nullptr);
  }
  while (span != nullptr) {
    Span* next = span->next;
    DCHECK(span->kind == pages::SpanKind::kCachedLarge && bytes_ >= span->bytes);
    set_bytes(bytes_ - span->bytes);
    pages::release(span);
    span = next;
  }
}

void LargeCache::flush_before(uint32_t epoch) {
  push_last_on_list();
  for (size_t pages = next_filled(0); pages != kLists; pages = next_filled(pages + 1))
    release_before(pages, epoch);
}

void LargeCache::flush() {
  while (!lock_.try_lock_owner()) os::pause(50 * kMicrosecondNs);
  flush_before(large_cache_epoch.load(std::memory_order_relaxed) + 1);
  lock_.unlock_owner();
}

// Writes only wrong values: the pages of an idle heap are shared with the parent, or not resident.
void LargeCache::reset() {
  lock_.reset();
  // A span that was being moved from last_ to its list is in both.
  if (last_ != nullptr && lists_[last_->bytes >> kPageShift] == last_) set_last(nullptr);
  size_t bytes = last_ != nullptr ? last_->bytes : 0;
  for (size_t pages = 0; pages < kLists; pages++) {
    uint64_t bit = uint64_t{1} << (pages % 64);
    if (lists_[pages] != nullptr && (filled_[pages / 64] & bit) == 0) filled_[pages / 64] |= bit;
    for (Span* span = lists_[pages]; span != nullptr; span = span->next) bytes += span->bytes;
  }
  if (bytes_ != bytes) bytes_ = bytes;
}

void LargeCache::flush_idle(uint32_t epoch) {
  if (bytes() == 0 || !lock_.try_lock_other()) return;
  flush_before(epoch);
  lock_.unlock_other();
}

}  // namespace seemalloc::heap
