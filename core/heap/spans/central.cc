#include "core/heap/spans/central.h"

#include <arch_words.h>

#include <atomic>

#include "core/base/check.h"
#include "core/heap/spans/remote_batch.h"
#include "core/heap/spans/remote_protocol.h"
#include "core/heap/spans/small_span.h"
#include "core/heap/spans/span_holes.h"
#include "core/heap/thread/size_class.h"
#include "core/heap/thread/thread_heap.h"
#include "core/os/runtime/lock.h"
#include "core/pages/page_heap/page_heap.h"

namespace seemalloc::heap {

using pages::SpanKind;
using pages::SpanList;
using pages::SpanState;

namespace {

constexpr uint32_t kMaxLists = 64;
// In all classes together.
constexpr size_t kMaxListedBytes = 4 * MiB;
std::atomic<size_t> batch_bytes{0};

struct alignas(kCacheLineBytes) CentralClass {
  // Invariants (verify.h): 1. a span is in the care of the central list while its remote is
  // kUnowned; it has no owner then. 2. a span on a list is available, has free blocks, and is on
  // the list that list_of() says. 3. `any` is set while a list has spans.
  // 4. a batch has 1 to kMaxGatheredBlocks blocks.
  Lock lock;
  std::atomic<bool> any;  // a span is available: a hint that may be read without the lock
  SpanList available;
  SpanList scanned;  // available too, but taken last: spans that have been scanned for holes
  SpanList blocks_are_shared;
  bool shared_taken_since_trim;  // a thread has taken shared blocks since the last trim
  std::atomic<uint32_t> list_count;
  uint32_t list_low_water;  // fewest lists since the last publish_central_lists

  void add(Span* span) {
    DCHECK(lock.is_held());
    DCHECK(span->remote.load(std::memory_order_relaxed) == kUnowned);
    DCHECK(reinterpret_cast<uintptr_t>(span->owner()) == Span::kNoOwner);
    span->state = SpanState::kAvailable;
    span->hole_scan.since = hole_epoch.load(std::memory_order_relaxed);
    if (worth_rescan(span)) span->hole_scan.min_free_blocks = 0;
    list_of(span).push_front(span);
    note_any();
  }
  void remove(Span* span) {
    DCHECK(lock.is_held());
    DCHECK(span->state == SpanState::kAvailable);
    list_of(span).remove(span);
    note_any();
  }
  SpanList& list_of(const Span* span) {
    return span->blocks_are_shared()              ? blocks_are_shared
           : span->hole_scan.min_free_blocks == 0 ? available
                                                  : scanned;
  }
  // Returns a shared span of which few blocks are live. From any other one its owner would get only
  // a few blocks, and the frees of the others would be remote ones.
  Span* least_shared_span() const {
    Span* span = blocks_are_shared.front();
    return span != nullptr && span->live() <= span->capacity / 2 ? span : nullptr;
  }
  void note_any() {
    any.store(available.size() + scanned.size() + blocks_are_shared.size() != 0,
              std::memory_order_relaxed);
  }
};
constinit CentralClass central[kClassCount] = {};

// Kept apart from the classes: a program in which no thread gives blocks to the central list never
// touches these pages.
struct RemoteBatch {
  uint32_t count;
  Block* blocks[kMaxGatheredBlocks];
};
constexpr uint32_t kFirstBatches = 4;
// A few lists of many classes are on few pages.
RemoteBatch first_batches[kFirstBatches][kClassCount];
RemoteBatch more_batches[kClassCount][kMaxLists - kFirstBatches];

RemoteBatch& list_at(unsigned size_class, uint32_t i) {
  return i < kFirstBatches ? first_batches[i][size_class]
                           : more_batches[size_class][i - kFirstBatches];
}

bool has_free(const Span* span) {
  return span->free_blocks() != 0 || span->carved < span->capacity || span->holes != 0;
}

void file_locked(CentralClass& list, Span* span) {
  DCHECK(list.lock.is_held());
  DCHECK(span->prev == nullptr && span->next == nullptr);
  if (has_free(span)) {
    list.add(span);
  } else {
    span->state = SpanState::kFull;
  }
}

}  // namespace

bool central_put(Span* span) {
  DCHECK(span->kind == SpanKind::kSmall && !span->blocks_are_shared());
  DCHECK(span->state == SpanState::kAvailable || span->state == SpanState::kFull);
  CentralClass& list = central[span->size_class];
  LockGuard guard(list.lock);
  if (!leave_owner(span)) return false;
  span->set_live(span->live());
  file_locked(list, span);
  return true;
}

Span* central_take(unsigned size_class, const void* owner) {
  CentralClass& list = central[size_class];
  if (!list.any.load(std::memory_order_relaxed)) return nullptr;  // a miss costs a new span
  LockGuard guard(list.lock);
  Span* span = list.available.front();
  if (span == nullptr) span = list.scanned.front();
  if (span == nullptr) span = list.least_shared_span();
  if (span == nullptr) return nullptr;
  list.remove(span);
  DCHECK(span->remote.load(std::memory_order_relaxed) == kUnowned &&
         span->size_class == size_class);
  DCHECK(has_free(span));
  span->set_blocks_are_shared(false);
  get_owner(span, owner);
  return span;
}

bool central_claim(Span* span, const void* owner) {
  CentralClass& list = central[span->size_class];
  LockGuard guard(list.lock);
  if (span->remote.load(std::memory_order_relaxed) != kUnowned ||
      span->state == SpanState::kDetached)
    return false;
  DCHECK(span->state == SpanState::kAvailable || span->state == SpanState::kFull);
  if (span->state == SpanState::kAvailable) list.remove(span);
  get_owner(span, owner);
  return true;
}

bool central_free(Span* span, Block* first, Block* last, uint32_t count) {
  DCHECK(count != 0 && span->contains(first) && span->contains(last));
  CentralClass& list = central[span->size_class];
  list.lock.lock();
  if (span->remote.load(std::memory_order_relaxed) != kUnowned) {
    list.lock.unlock();
    return false;
  }
  const Block* same = span->blocks_are_shared() ? span->local_free : nullptr;
  for (unsigned scanned = 16; same != nullptr && scanned != 0; scanned--, same = same->next) {
    if (same == first) fatal("double free", first);
  }
  DCHECK(span->live() - span->hole_blocks() >= count);
  last->next = span->local_free;
  span->local_free = first;
  span->set_live(span->live() - count);
  if (span->state == SpanState::kFull) file_locked(list, span);
  if (span->state == SpanState::kAvailable && span->hole_scan.min_free_blocks != 0 &&
      worth_rescan(span)) {
    list.remove(span);
    list.add(span);
  }
  // One small shared span stays: otherwise threads that come and go would each make a new one.
  bool stays =
      span->blocks_are_shared() && list.blocks_are_shared.size() == 1 && span->bytes <= kPageBytes;
  bool empty = span->is_empty() && !stays && span->state != SpanState::kDetached;
  if (empty) {
    list.remove(span);
    span->remote.store(0, std::memory_order_relaxed);
  }
  list.lock.unlock();
  if (empty) release_empty_span(span);
  return true;
}

uint32_t central_take_shared_blocks(unsigned size_class, uint32_t count, Block** first) {
  DCHECK(size_class < kClassCount && count != 0);
  CentralClass& list = central[size_class];
  LockGuard guard(list.lock);
  list.shared_taken_since_trim = true;
  Span* span = list.blocks_are_shared.front();
  if (span == nullptr) {
    span = new_small_span(0, size_class, 0, SpanKind::kSmall);
    if (span == nullptr) return 0;
    span->set_blocks_are_shared(true);
    span->remote.store(kUnowned, std::memory_order_release);
    pages::publish(span);
    list.add(span);
  }
  // Carves one block at a time from the untouched end: blocks that are not given out are not
  // touched.
  uint32_t shared_taken_since_trim = 0;
  DCHECK(span->blocks_are_shared() && span->state == SpanState::kAvailable);
  Block** link = first;
  for (; shared_taken_since_trim < count &&
         (span->local_free != nullptr || span->carved < span->capacity);
       shared_taken_since_trim++) {
    Block* block = span->local_free;
    if (block != nullptr) {
      span->local_free = block->next;
    } else {
      block = span->block_at(span->carved++);
    }
    *link = block;
    link = &block->next;
  }
  *link = nullptr;
  span->set_live(span->live() + shared_taken_since_trim);
  if (!has_free(span)) {
    list.remove(span);
    span->state = SpanState::kFull;
  }
  return shared_taken_since_trim;
}

bool central_put_batch(unsigned size_class, Block* const* blocks, uint32_t count) {
  DCHECK(count != 0 && count <= kMaxGatheredBlocks);
  CentralClass& list = central[size_class];
  if (batch_bytes.load(std::memory_order_relaxed) >= kMaxListedBytes) return false;
  LockGuard guard(list.lock);
  if (list.list_count == kMaxLists) return false;
  RemoteBatch& last = list_at(size_class, list.list_count++);
  last.count = count;
  for (uint32_t i = 0; i < count; i++) last.blocks[i] = blocks[i];
  batch_bytes.fetch_add(size_t{count} * kClasses[size_class].bytes, std::memory_order_relaxed);
  return true;
}

namespace {
uint32_t take_blocks_locked(CentralClass& list, unsigned size_class, Block** blocks) {
  DCHECK(list.lock.is_held());
  DCHECK(list.list_count != 0 && list.list_count <= kMaxLists);
  const RemoteBatch& last = list_at(size_class, --list.list_count);
  DCHECK(last.count != 0 && last.count <= kMaxGatheredBlocks);
  for (uint32_t i = 0; i < last.count; i++) {
    prefetch_for_write(last.blocks[i]);
    blocks[i] = last.blocks[i];
  }
  batch_bytes.fetch_sub(size_t{last.count} * kClasses[size_class].bytes, std::memory_order_relaxed);
  return last.count;
}
}  // namespace

uint32_t central_take_batch(unsigned size_class, Block** blocks) {
  CentralClass& list = central[size_class];
  if (list.list_count.load(std::memory_order_relaxed) == 0) return 0;  // a miss costs a new span
  LockGuard guard(list.lock);
  if (list.list_count == 0) return 0;
  uint32_t count = take_blocks_locked(list, size_class, blocks);
  if (list.list_count < list.list_low_water) list.list_low_water = list.list_count;
  return count;
}

size_t central_batch_blocks(unsigned size_class) {
  CentralClass& list = central[size_class];
  LockGuard guard(list.lock);
  size_t blocks = 0;
  for (uint32_t i = 0; i < list.list_count; i++) blocks += list_at(size_class, i).count;
  return blocks;
}

uint32_t central_take_unneeded(unsigned size_class, bool all, Block** blocks) {
  CentralClass& list = central[size_class];
  LockGuard guard(list.lock);
  if (list.list_count == 0 || (!all && list.list_low_water == 0)) {
    list.list_low_water = list.list_count;
    return 0;
  }
  if (list.list_low_water != 0) list.list_low_water--;
  return take_blocks_locked(list, size_class, blocks);
}

Span* central_detach(unsigned size_class, uint32_t least_periods, bool* more) {
  CentralClass& list = central[size_class];
  *more = false;
  if (!list.any.load(std::memory_order_relaxed)) return nullptr;
  LockGuard guard(list.lock);
  for (unsigned i = 0; i < kMaxSpansPerScan; i++) {
    Span* span = list.available.back();  // the span that has been there longest
    if (span == nullptr || !has_waited(span, least_periods)) return nullptr;
    list.remove(span);
    if (may_have_holes(span)) {
      DCHECK(!span->blocks_are_shared());
      note_detached(span);
      return span;
    }
    note_scanned(span);
    list.add(span);
  }
  *more = true;
  return nullptr;
}

Lock& central_lock(unsigned size_class) { return central[size_class].lock; }

void central_reattach(Span* span) {
  CentralClass& list = central[span->size_class];
  bool empty;
  {
    LockGuard guard(list.lock);
    DCHECK(span->state == SpanState::kDetached &&
           span->remote.load(std::memory_order_relaxed) == kUnowned);
    empty = span->is_empty();
    forget_detached();
    if (empty) {
      span->state = SpanState::kFull;  // a child of fork must not put it on a list
      span->remote.store(0, std::memory_order_relaxed);
    } else {
      note_scanned(span);
      list.add(span);
    }
  }
  if (empty) release_empty_span(span);
}

void central_release_empty_shared() {
  for (CentralClass& list : central) {
    Span* span;
    {
      LockGuard guard(list.lock);
      span = list.blocks_are_shared.front();
      bool drop = span != nullptr && span->live() == 0 && !list.shared_taken_since_trim;
      list.shared_taken_since_trim = false;
      if (!drop) continue;
      list.remove(span);
      span->remote.store(0, std::memory_order_relaxed);
    }
    release_empty_span(span);
  }
}

#ifdef SEEMALLOC_DEBUG
namespace {
const char* verify_central_list(const CentralClass& list, const SpanList& spans,
                                unsigned size_class, bool blocks_are_shared, bool scanned,
                                VerifySpan verify_span) {
  if (const char* broken = spans.verify()) return broken;
  for (const Span* span = spans.front(); span != nullptr; span = span->next) {
    if (span->remote.load(std::memory_order_relaxed) != kUnowned)
      return "invariant central.1: a span in the central list's care is kUnowned";
    if (reinterpret_cast<uintptr_t>(span->owner()) != Span::kNoOwner)
      return "invariant central.1: a span in the central list's care has no owner";
    if (span->size_class != size_class || span->state != SpanState::kAvailable || !has_free(span)) {
      return "invariant central.2: a span on a list has its class, is available and has free blocks";
    }
    if (span->blocks_are_shared() != blocks_are_shared ||
        (!blocks_are_shared && (span->hole_scan.min_free_blocks != 0) != scanned)) {
      return "invariant central.2: a span is on the list that it says";
    }
    if (const char* broken = verify_span(*span)) return broken;
  }
  bool any = list.any.load(std::memory_order_relaxed);
  return spans.size() == 0 || any ? nullptr
                                  : "invariant central.3: `any` is set while a list has spans";
}
}  // namespace

const char* verify_central(unsigned size_class, VerifySpan verify_span) {
  CentralClass& list = central[size_class];
  LockGuard guard(list.lock);
  if (const char* broken =
          verify_central_list(list, list.available, size_class, false, false, verify_span))
    return broken;
  if (const char* broken =
          verify_central_list(list, list.scanned, size_class, false, true, verify_span))
    return broken;
  if (const char* broken =
          verify_central_list(list, list.blocks_are_shared, size_class, true, false, verify_span))
    return broken;
  uint32_t lists = list.list_count.load(std::memory_order_relaxed);
  if (lists > kMaxLists || list.list_low_water > lists)
    return "invariant central.4: batches are counted";
  for (uint32_t i = 0; i < lists; i++) {
    uint32_t count = list_at(size_class, i).count;
    if (count == 0 || count > kMaxGatheredBlocks)
      return "invariant central.4: a batch has blocks, and at most kMaxGatheredBlocks";
  }
  return nullptr;
}
#endif

void lock_central_for_fork() {
  for (CentralClass& list : central) list.lock.lock_for_fork();
}

void unlock_central_after_fork() {
  for (CentralClass& list : central) list.lock.unlock_after_fork();
}

}  // namespace seemalloc::heap
