#include "core/heap/spans/parcel.h"

#include <arch_words.h>

#include "core/base/check.h"

namespace seemalloc::heap {

namespace {

// The content of the block that holds a batch. Slots count 8-byte words of the span, from 1 on.
struct Parcel {
  uint16_t next;   // 0: none
  uint16_t count;  // of `others`
  uint16_t others[kMaxParcelBlocks - 1];
};
static_assert(sizeof(Parcel) == kCacheLineBytes);
static_assert(kMaxSpanPages * kPageBytes / sizeof(Block) <= UINT16_MAX);

Parcel* parcel_in(Block* block) { return reinterpret_cast<Parcel*>(block); }
const Parcel* parcel_in(const Block* block) { return reinterpret_cast<const Parcel*>(block); }

uint16_t place_of(const Span* span, const Block* block) {
  DCHECK(span->contains(block) && span->is_block_start(block));
  return static_cast<uint16_t>((reinterpret_cast<uintptr_t>(block) - span->start) / sizeof(Block) +
                               1);
}

// Returns null if no block starts at this slot.
Block* block_in(const Span* span, uint16_t place) {
  Block* block = reinterpret_cast<Block*>(span->start + (size_t{place} - 1) * sizeof(Block));
  return span->contains(block) && span->is_block_start(block) ? block : nullptr;
}

// The most blocks that a batch of this span can hold.
uint32_t room(const Span* span) {
  uint32_t halves = span->block_bytes / sizeof(uint16_t);
  DCHECK(halves >= 4);
  return halves - 1 < kMaxParcelBlocks ? halves - 1 : kMaxParcelBlocks;
}

void check_list(BlockList list, uint32_t count) {
  const Block* last = list.first;
  for (uint32_t i = 1; i < count && last != nullptr; i++) last = last->next;
  if (last != list.last) fatal("double free", list.first);
}

}  // namespace

Block* write_parcels(const Span* span, Block* const* blocks, uint32_t count) {
  DCHECK(count != 0);
  uint32_t most = room(span);
  for (;;) {
    Parcel* parcel = parcel_in(blocks[0]);
    uint32_t here = count < most ? count : most;
    for (uint32_t i = 1; i < here; i++) parcel->others[i - 1] = place_of(span, blocks[i]);
    DCHECK(here != 0 && here <= kMaxParcelBlocks);
    parcel->count = static_cast<uint16_t>(here - 1);
    if (here == count) return blocks[0];
    parcel->next = place_of(span, blocks[here]);
    blocks += here;
    count -= here;
  }
}

void set_next_parcel(const Span* span, Block* parcel, const Block* next) {
  parcel_in(parcel)->next = next == nullptr ? 0 : place_of(span, next);
}

uint32_t read_parcel(const Span* span, const Block* parcel, Block** blocks, Block** next) {
  const Parcel* from = parcel_in(parcel);
  uint32_t others = from->count;
  if (others >= room(span)) return 0;
  blocks[0] = const_cast<Block*>(parcel);
  for (uint32_t i = 0; i < others; i++) {
    Block* block = block_in(span, from->others[i]);
    if (block == nullptr) return 0;
    blocks[i + 1] = block;
    prefetch_for_write(block);
  }
  *next = nullptr;
  if (from->next == 0) return others + 1;
  *next = block_in(span, from->next);
  return *next == nullptr ? 0 : others + 1;
}

BlockList open_parcels(const Span* span, Block* parcel, uint32_t count) {
  BlockList list{nullptr, nullptr};
  DCHECK(count != 0);
  uint32_t left = count;
  while (parcel != nullptr) {
    Block* blocks[kMaxParcelBlocks];
    Block* next = nullptr;
    uint32_t here = read_parcel(span, parcel, blocks, &next);
    if (here == 0 || here > left) fatal("corrupted free list", parcel);
    left -= here;
    if (list.last == nullptr) list.last = blocks[0];
    for (uint32_t i = 0; i < here; i++) {
      blocks[i]->next = list.first;
      list.first = blocks[i];
    }
    parcel = next;
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
