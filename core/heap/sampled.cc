#include "core/heap/sampled.h"

#include "core/base/check.h"
#include "core/heap/size_class.h"
#include "core/heap/thread_heap.h"
#include "core/os/arena.h"
#include "core/os/lock.h"
#include "core/pages/page_heap.h"

namespace seemalloc::heap {

using pages::SpanKind;
using pages::SpanList;
using pages::SpanState;

namespace {

// Tables of handles by capacity; spans of one class and size use the same, so they are recycled exactly.
struct IdTable {
  IdTable* next;
};

struct alignas(kCacheLineBytes) SampledClass {
  OwnerLock lock;  // hardly ever contended, even while every allocation is a sample: it is held for a few instructions
  SpanList available;
  IdTable* free_tables;
};
constinit SampledClass sampled[kClassCount];

// Marks a block that is not handed out; sampler handles are below it.
constexpr uint32_t kNotLive = UINT32_MAX;

size_t table_bytes(const Span* span) {
  return round_up(span->capacity * sizeof(uint32_t) < sizeof(IdTable) ? sizeof(IdTable) : span->capacity * sizeof(uint32_t), 8);
}

Span* new_span_locked(SampledClass& list, unsigned size_class) {
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
  span->sample_ids = reinterpret_cast<uint32_t*>(table);
  for (uint32_t i = 0; i < span->capacity; i++) span->sample_ids[i] = kNotLive;
  pages::publish(span);
  list.available.push_front(span);
  span->state = SpanState::kAvailable;
  return span;
}

// Index of the block in its span; capacity or more when the address is not a block's start.
uint32_t index_of(const Span* span, const void* block) {
  if (!span->is_block_start(block)) return UINT32_MAX;
  // reciprocal is 2^64 / block_bytes rounded up: exact for multiples of block_bytes below 2^32.
  __extension__ using Wide = unsigned __int128;
  size_t offset = reinterpret_cast<uintptr_t>(block) - span->start;
  return static_cast<uint32_t>(static_cast<Wide>(offset) * span->reciprocal >> 64);
}

}  // namespace

void* allocate_sampled(unsigned size_class, uint32_t** id) {
  SampledClass& list = sampled[size_class];
  LockGuard guard(list.lock);
  Span* span = list.available.front();
  if (span == nullptr) span = new_span_locked(list, size_class);
  if (span == nullptr) return nullptr;
  Block* block = span->free_list;
  if (block != nullptr) {
    if (!span->contains(block) || !span->is_block_start(block)) fatal("corrupted free list", block);
    span->free_list = block->next;
  } else {
    block = span->block_at(span->carved++);
  }
  span->set_live(span->live() + 1);
  *id = &span->sample_ids[index_of(span, block)];
  **id = 0;
  if (span->live() == span->capacity) {
    list.available.remove(span);
    span->state = SpanState::kFull;
  }
  return block;
}

uint32_t sample_id(const Span* span, const void* block) {
  LockGuard guard(sampled[span->size_class].lock);
  uint32_t index = index_of(span, block);
  uint32_t id = index < span->carved ? span->sample_ids[index] : kNotLive;
  return id == kNotLive ? 0 : id;
}

uint32_t free_sampled(Span* span, void* p, bool* valid) {
  SampledClass& list = sampled[span->size_class];
  bool empty = false;
  uint32_t id = 0;
  {
    LockGuard guard(list.lock);
    uint32_t index = index_of(span, p);
    *valid = index < span->carved && span->sample_ids[index] != kNotLive;
    if (!*valid) return 0;
    id = span->sample_ids[index];
    span->sample_ids[index] = kNotLive;
    Block* block = static_cast<Block*>(p);
    block->next = span->free_list;
    span->free_list = block;
    span->set_live(span->live() - 1);
    if (span->state == SpanState::kFull) {
      span->state = SpanState::kAvailable;
      list.available.push_front(span);
    }
    empty = span->live() == 0 && list.available.size() > 1;
    if (empty) {
      list.available.remove(span);
      IdTable* table = reinterpret_cast<IdTable*>(span->sample_ids);
      table->next = list.free_tables;
      list.free_tables = table;
    }
  }
  if (empty) pages::release(span);
  return id;
}

void lock_sampled_for_fork() {
  for (SampledClass& list : sampled) list.lock.lock_for_fork();
}

void unlock_sampled_after_fork() {
  for (SampledClass& list : sampled) list.lock.unlock_after_fork();
}

}  // namespace seemalloc::heap
