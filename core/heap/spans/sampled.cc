#include "core/heap/spans/sampled.h"

#include <array>
#include <atomic>

#include "core/base/check.h"
#include "core/heap/spans/small_span.h"
#include "core/heap/thread/size_class.h"
#include "core/os/runtime/arena.h"
#include "core/os/runtime/lock.h"
#include "core/pages/page_heap/page_heap.h"

namespace seemalloc::heap {

using pages::SpanKind;
using pages::SpanList;
using pages::SpanState;

namespace {

// A free table for the sample ids of the blocks of a span (table_bytes). All sampled spans of a
// class have the same size, so the table fits the next span exactly.
struct IdTable {
  IdTable* next;
};

struct alignas(kCacheLineBytes) SampledClass {
  // OwnerLock: if all allocations of one thread are samples, an atomic exchange at each unlock
  // would be noticeable.
  OwnerLock lock;
  SpanList available;
  SpanList full;
  IdTable* free_tables;
};
// Live blocks by the class that they were allocated as. In each part, all blocks of a class are in
// spans of one SampledClass, under its lock.
constinit uint32_t live_blocks[kSampledShards][kClassCount];

// Counts a block that is being allocated (`blocks` = 1) or freed (-1).
SEEMALLOC_ALWAYS_INLINE void count_block_locked(Span* span, unsigned size_class, int blocks) {
  uint32_t& live = live_blocks[span->sampled_shard][size_class];
  DCHECK(blocks > 0 || (live != 0 && span->sampled_bytes() >= kClasses[size_class].bytes));
  __atomic_store_n(&live, live + static_cast<uint32_t>(blocks), __ATOMIC_RELAXED);
  span->set_sampled_bytes(span->sampled_bytes() +
                          static_cast<uint32_t>(blocks) * kClasses[size_class].bytes);
}

constinit SampledClass sampled[kSampledShards][kClassCount] = {};
// Grows under the first lock, sampled[0][0].lock. fork holds that lock, so it need not take the
// locks of parts that are not in use.
constinit std::atomic<unsigned> shards_in_use{1};

// Returns the part to use. Returns part 0 in the thread that forks: other fork handlers may
// allocate there, while locks have no effect.
SEEMALLOC_COLD unsigned add_shard(unsigned part) {
  if (fork_holds_every_lock) return 0;
  LockGuard guard(sampled[0][0].lock);
  if (part >= shards_in_use.load(std::memory_order_relaxed))
    shards_in_use.store(part + 1, std::memory_order_release);
  return part;
}

SampledClass& class_of_span(const Span* span) {
  return sampled[span->sampled_shard][span->size_class];
}

template <typename F>
void for_each_class(F f) {
  for (unsigned part = 0; part < shards_in_use.load(std::memory_order_acquire); part++) {
    for (SampledClass& each : sampled[part]) f(each);
  }
}

// The id of a block that is not live. All sample ids are smaller.
constexpr uint32_t kNotLive = UINT32_MAX;

// A table has the sample ids of all blocks of a span, then their homes, then their size classes.
size_t table_bytes(const Span* span) {
  size_t bytes = span->capacity * (sizeof(uint32_t) + sizeof(HomeId) + sizeof(uint8_t));
  return round_up(bytes < sizeof(IdTable) ? sizeof(IdTable) : bytes, 8);
}
HomeId* block_homes(const Span* span) { return span->sample_ids + span->capacity; }
uint8_t* block_classes(const Span* span) {
  return reinterpret_cast<uint8_t*>(block_homes(span) + span->capacity);
}

// Two sizes per doubling (16, 32, 48, 64, 96, 128, 192 …). Samples are few and of many classes, and
// a span for each class would cost a small program more than all of its samples.
constexpr size_t shared_block_bytes(size_t bytes) {
  size_t doubled = 16;
  while (doubled < bytes) doubled *= 2;
  return doubled >= 64 && bytes <= doubled / 4 * 3 ? doubled / 4 * 3 : doubled;
}
constexpr std::array<uint8_t, kClassCount> make_shared_classes() {
  std::array<uint8_t, kClassCount> shared{};
  for (unsigned c = 0; c < kClassCount; c++) {
    size_t bytes = shared_block_bytes(kClasses[c].bytes);
    shared[c] = static_cast<uint8_t>(class_of(bytes));
  }
  return shared;
}
// The class of the sampled span that holds a class's samples.
constexpr auto kSharedClass = make_shared_classes();

constexpr bool shared_classes_fit() {
  for (unsigned c = 0; c < kClassCount; c++) {
    size_t bytes = kClasses[c].bytes, shared = kClasses[kSharedClass[c]].bytes;
    // allocate_aligned() may have chosen the class for the power of two that divides its size.
    if (shared < bytes || (bytes >= 16 && shared % (bytes & (0 - bytes)) != 0)) return false;
  }
  return true;
}
static_assert(shared_classes_fit());

Span* new_span_locked(SampledClass& list, unsigned part, unsigned size_class) {
  DCHECK(list.lock.is_held() && part < kSampledShards);
  Span* span = new_small_span(0, size_class, 0, SpanKind::kSampled);
  if (span == nullptr) return nullptr;
  IdTable* table = list.free_tables;
  if (table != nullptr) {
    list.free_tables = table->next;
  } else {
    table = static_cast<IdTable*>(os::arena_allocate(table_bytes(span), 8));
    if (table == nullptr) {
      pages::publish(span);  // release() expects a published span
      pages::release(span);
      return nullptr;
    }
  }
  DCHECK(span->kind == SpanKind::kSampled &&
         reinterpret_cast<uintptr_t>(span->owner()) == Span::kNoOwner);
  span->sampled_shard = static_cast<uint8_t>(part);
  span->sample_ids = reinterpret_cast<uint32_t*>(table);
  for (uint32_t i = 0; i < span->capacity; i++) span->sample_ids[i] = kNotLive;
  pages::publish(span);
  list.available.push_front(span);
  span->state = SpanState::kAvailable;
  return span;
}

// Index of the block in its span; capacity or more if the address is not the start of a block.
uint32_t index_of(const Span* span, const void* block) {
  if (!span->is_block_start(block)) return UINT32_MAX;
  // reciprocal is 2^64 / block_bytes rounded up: exact for multiples of block_bytes below 2^32.
  __extension__ using Wide = unsigned __int128;
  size_t offset = reinterpret_cast<uintptr_t>(block) - span->start;
  return static_cast<uint32_t>(static_cast<Wide>(offset) * span->reciprocal >> 64);
}

void* allocate_from_locked(SampledClass& list, Span* span, unsigned size_class, HomeId home,
                           uint32_t** id) {
  DCHECK(list.lock.is_held());
  DCHECK(span->state == SpanState::kAvailable && span->live() < span->capacity);
  DCHECK(kClasses[size_class].bytes <= span->block_bytes);
  Block* block = span->local_free;
  if (block != nullptr) {
    if (!span->contains(block) || !span->is_block_start(block)) fatal("corrupted free list", block);
    span->local_free = block->next;
  } else {
    block = span->block_at(span->carved++);
  }
  span->set_live(span->live() + 1);
  uint32_t index = index_of(span, block);
  DCHECK(index < span->carved && span->sample_ids[index] == kNotLive);
  block_classes(span)[index] = static_cast<uint8_t>(size_class);
  count_block_locked(span, size_class, 1);
  *id = &span->sample_ids[index];
  **id = 0;
  block_homes(span)[index] = home;
  if (span->live() == span->capacity) {
    list.available.remove(span);
    list.full.push_front(span);
    span->state = SpanState::kFull;
  }
  return block;
}

}  // namespace

void* allocate_sampled(unsigned part, unsigned size_class, HomeId home, uint32_t** id) {
  DCHECK(part < kSampledShards && size_class < kClassCount);
  unsigned shared = kSharedClass[size_class];
  if (SEEMALLOC_UNLIKELY(part >= shards_in_use.load(std::memory_order_relaxed)))
    part = add_shard(part);
  SampledClass& list = sampled[part][shared];
  void* block = nullptr;
  {
    LockGuard guard(list.lock);
    Span* span = list.available.front();
    if (span == nullptr) span = new_span_locked(list, part, shared);
    if (span != nullptr) block = allocate_from_locked(list, span, size_class, home, id);
  }
  if (block == nullptr) leave_home(home);
  return block;
}

size_t sampled_block_bytes(const Span* span, const void* block) {
  uint32_t index = index_of(span, block);
  if (index >= span->capacity) fatal("invalid pointer", const_cast<void*>(block));
  return kClasses[block_classes(span)[index]].bytes;
}

uint32_t sampled_blocks(unsigned size_class) {
  uint32_t blocks = 0;
  for (unsigned part = 0; part < shards_in_use.load(std::memory_order_acquire); part++) {
    blocks += __atomic_load_n(&live_blocks[part][size_class], __ATOMIC_RELAXED);
  }
  return blocks;
}

uint32_t sample_id(const Span* span, const void* block) {
  LockGuard guard(class_of_span(span).lock);
  uint32_t index = index_of(span, block);
  uint32_t id = index < span->carved ? span->sample_ids[index] : kNotLive;
  return id == kNotLive ? 0 : id;
}

uint32_t free_sampled(Span* span, void* p, bool* valid) {
  SampledClass& list = class_of_span(span);
  bool empty = false;
  uint32_t id = 0;
  HomeId home = 0;
  {
    LockGuard guard(list.lock);
    uint32_t index = index_of(span, p);
    *valid = index < span->carved && span->sample_ids[index] != kNotLive;
    if (!*valid) return 0;
    id = span->sample_ids[index];
    home = block_homes(span)[index];
    span->sample_ids[index] = kNotLive;
    DCHECK(span->live() != 0 && span->state != SpanState::kDetached);
    count_block_locked(span, block_classes(span)[index], -1);
    Block* block = static_cast<Block*>(p);
    block->next = span->local_free;
    span->local_free = block;
    span->set_live(span->live() - 1);
    if (span->state == SpanState::kFull) {
      span->state = SpanState::kAvailable;
      list.full.remove(span);
      list.available.push_front(span);
    }
    empty = span->live() == 0 && list.available.size() > 1;
    if (empty) {
      list.available.remove(span);
      DCHECK(span->sampled_bytes() == 0 && span->state == SpanState::kAvailable);
      IdTable* table = reinterpret_cast<IdTable*>(span->sample_ids);
      table->next = list.free_tables;
      list.free_tables = table;
    }
  }
  if (empty) pages::release(span);
  leave_home(home);
  return id;
}

namespace {
void visit_span(const Span* span, void (*f)(void* context, const SampledBlock& block),
                void* context) {
  if (span->live() == 0) return;
  DCHECK(span->live() <= span->carved);
  double share = static_cast<double>(span->free_blocks()) * span->block_bytes / span->live();
  for (uint32_t i = 0; i < span->carved; i++) {
    uint32_t id = __atomic_load_n(&span->sample_ids[i], __ATOMIC_ACQUIRE);
    if (id != kNotLive) f(context, {span->block_at(i), id, block_homes(span)[i], share});
  }
}

// Rotates the list: visits the span in front and moves it to the back, until it has visited as many
// as the list had.
void visit_list(SampledClass& owner, SpanList& list,
                void (*f)(void* context, const SampledBlock& block), void* context) {
  uint32_t count = 0;
  for (uint32_t seen = 0;; seen++) {
    LockGuard guard(owner.lock);
    if (seen == 0) count = list.size();
    Span* span = list.front();
    if (seen == count || span == nullptr) return;
    list.remove(span);
    list.push_back(span);
    visit_span(span, f, context);
  }
}
}  // namespace

void for_each_sampled_block(void (*f)(void* context, const SampledBlock& block), void* context) {
  for_each_class([&](SampledClass& each) {
    visit_list(each, each.full, f, context);
    visit_list(each, each.available, f, context);
  });
}

#ifdef SEEMALLOC_DEBUG
namespace {
using VerifySpan = const char* (*)(const Span& span);

const char* verify_sampled_span(const SampledClass& owner, const Span& span, SpanState state,
                                VerifySpan verify_span) {
  if (span.kind != SpanKind::kSampled || &class_of_span(&span) != &owner || span.state != state) {
    return "invariant sampled.1: a sampled span is on the list of its class, part and state";
  }
  if (span.remote.load(std::memory_order_relaxed) != 0 || span.hole_blocks() != 0) {
    return "invariant sampled.1: a sampled span has neither remote blocks nor holes";
  }
  if ((span.live() == span.capacity) != (state == SpanState::kFull))
    return "invariant sampled.2: a full span is on the list of full ones";
  uint32_t live = 0, bytes = 0;
  for (uint32_t i = 0; i < span.carved; i++) {
    if (__atomic_load_n(&span.sample_ids[i], __ATOMIC_RELAXED) == kNotLive) continue;
    live++;
    bytes += kClasses[block_classes(&span)[i]].bytes;
  }
  if (live != span.live() || bytes != span.sampled_bytes())
    return "invariant sampled.3: live blocks have a handle, and are counted with their bytes";
  return verify_span(span);
}

const char* verify_sampled_list(const SampledClass& owner, const SpanList& list, SpanState state,
                                VerifySpan verify_span) {
  if (const char* broken = list.verify()) return broken;
  for (const Span* span = list.front(); span != nullptr; span = span->next) {
    if (const char* broken = verify_sampled_span(owner, *span, state, verify_span)) return broken;
  }
  return nullptr;
}
}  // namespace

const char* verify_sampled(VerifySpan verify_span) {
  const char* broken = nullptr;
  for_each_class([&broken, verify_span](SampledClass& each) {
    LockGuard guard(each.lock);
    if (broken == nullptr)
      broken = verify_sampled_list(each, each.available, SpanState::kAvailable, verify_span);
    if (broken == nullptr)
      broken = verify_sampled_list(each, each.full, SpanState::kFull, verify_span);
  });
  return broken;
}
#endif

void lock_sampled_for_fork() {
  for_each_class([](SampledClass& each) { each.lock.lock_for_fork(); });
  lock_homes_for_fork();
}

void unlock_sampled_after_fork() {
  unlock_homes_after_fork();
  for_each_class([](SampledClass& each) { each.lock.unlock_after_fork(); });
}

}  // namespace seemalloc::heap
