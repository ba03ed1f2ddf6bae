#include "core/heap/spans/remote_batch.h"

#include <arch_words.h>

#include "core/base/check.h"

namespace seemalloc::heap {

namespace {

// The content of the block that holds a batch. Slots count 8-byte words of the span, from 1 on.
struct RemoteBatch {
  uint16_t next;   // 0: none
  uint16_t count;  // of `others`
  uint16_t others[kMaxBatchBlocks - 1];
};
static_assert(sizeof(RemoteBatch) == kCacheLineBytes);
static_assert(kMaxSpanPages * kPageBytes / sizeof(Block) <= UINT16_MAX);

RemoteBatch* batch_in(Block* block) { return reinterpret_cast<RemoteBatch*>(block); }
const RemoteBatch* batch_in(const Block* block) {
  return reinterpret_cast<const RemoteBatch*>(block);
}

uint16_t slot_of(const Span* span, const Block* block) {
  DCHECK(span->contains(block) && span->is_block_start(block));
  return static_cast<uint16_t>((reinterpret_cast<uintptr_t>(block) - span->start) / sizeof(Block) +
                               1);
}

// Returns null if no block starts at this slot.
Block* block_at_slot(const Span* span, uint16_t place) {
  Block* block = reinterpret_cast<Block*>(span->start + (size_t{place} - 1) * sizeof(Block));
  return span->contains(block) && span->is_block_start(block) ? block : nullptr;
}

// The most blocks that a batch of this span can hold.
uint32_t max_batch_blocks(const Span* span) {
  uint32_t halves = span->block_bytes / sizeof(uint16_t);
  DCHECK(halves >= 4);
  return halves - 1 < kMaxBatchBlocks ? halves - 1 : kMaxBatchBlocks;
}

void check_list(BlockList list, uint32_t count) {
  const Block* last = list.first;
  for (uint32_t i = 1; i < count && last != nullptr; i++) last = last->next;
  if (last != list.last) fatal("double free", list.first);
}

}  // namespace

Block* write_batches(const Span* span, Block* const* blocks, uint32_t count) {
  DCHECK(count != 0);
  uint32_t most = max_batch_blocks(span);
  for (;;) {
    RemoteBatch* batch = batch_in(blocks[0]);
    uint32_t here = count < most ? count : most;
    for (uint32_t i = 1; i < here; i++) batch->others[i - 1] = slot_of(span, blocks[i]);
    DCHECK(here != 0 && here <= kMaxBatchBlocks);
    batch->count = static_cast<uint16_t>(here - 1);
    if (here == count) return blocks[0];
    batch->next = slot_of(span, blocks[here]);
    blocks += here;
    count -= here;
  }
}

void set_next_batch(const Span* span, Block* batch, const Block* next) {
  batch_in(batch)->next = next == nullptr ? 0 : slot_of(span, next);
}

uint32_t read_batch(const Span* span, const Block* batch, Block** blocks, Block** next) {
  const RemoteBatch* from = batch_in(batch);
  uint32_t others = from->count;
  if (others >= max_batch_blocks(span)) return 0;
  blocks[0] = const_cast<Block*>(batch);
  for (uint32_t i = 0; i < others; i++) {
    Block* block = block_at_slot(span, from->others[i]);
    if (block == nullptr) return 0;
    blocks[i + 1] = block;
    prefetch_for_write(block);
  }
  *next = nullptr;
  if (from->next == 0) return others + 1;
  *next = block_at_slot(span, from->next);
  return *next == nullptr ? 0 : others + 1;
}

BlockList unpack_batches(const Span* span, Block* batch, uint32_t count) {
  BlockList list{nullptr, nullptr};
  DCHECK(count != 0);
  uint32_t left = count;
  while (batch != nullptr) {
    Block* blocks[kMaxBatchBlocks];
    Block* next = nullptr;
    uint32_t here = read_batch(span, batch, blocks, &next);
    if (here == 0 || here > left) fatal("corrupted free list", batch);
    left -= here;
    if (list.last == nullptr) list.last = blocks[0];
    for (uint32_t i = 0; i < here; i++) {
      blocks[i]->next = list.first;
      list.first = blocks[i];
    }
    batch = next;
  }
  if (left != 0) fatal("corrupted free list", list.first);
  check_list(list, count);
  return list;
}

BlockList link_blocks(Block* const* blocks, uint32_t count) {
  DCHECK(count != 0);
  for (uint32_t i = 1; i < count; i++) blocks[i - 1]->next = blocks[i];
  BlockList list{blocks[0], blocks[count - 1]};
  list.last->next = nullptr;
  check_list(list, count);
  return list;
}

}  // namespace seemalloc::heap
