#include "core/heap/spans/remote_batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "core/base/seed_for_test.h"

namespace seemalloc::heap {
namespace {

// A span of the class over memory of its own.
struct Fixture {
  explicit Fixture(size_t block_bytes, size_t pages = kMaxSpanPages)
      : memory(pages * kPageBytes / sizeof(uint64_t)) {
    span.start = reinterpret_cast<uintptr_t>(memory.data());
    span.bytes = pages * kPageBytes;
    span.set_block_bytes(static_cast<uint32_t>(block_bytes));
  }
  // `count` different blocks in random order.
  std::vector<Block*> some(uint32_t count) {
    std::vector<Block*> blocks;
    for (uint32_t i = 0; i < span.capacity; i++) blocks.push_back(span.block_at(i));
    std::shuffle(blocks.begin(), blocks.end(), random);
    blocks.resize(count);
    return blocks;
  }
  std::mt19937 random{seed_for_test()};
  std::vector<uint64_t> memory;
  Span span{};
};

std::vector<Block*> blocks_of(BlockList list) {
  std::vector<Block*> blocks;
  for (Block* block = list.first; block != nullptr; block = block->next) blocks.push_back(block);
  EXPECT_EQ(blocks.back(), list.last);
  return blocks;
}

TEST(RemoteBatch, WrittenBatchIsReadBack) {
  for (const SizeClass& c : kClasses) {
    Fixture f(c.bytes);
    for (uint32_t count : {1u, 2u, 3u, 7u, 16u, 31u, 32u, 200u}) {
      if (count > f.span.capacity) continue;
      std::vector<Block*> blocks = f.some(count);
      Block* last = write_batches(&f.span, blocks.data(), count);
      set_next_batch(&f.span, last, nullptr);
      std::vector<Block*> read = blocks_of(unpack_batches(&f.span, blocks[0], count));
      EXPECT_EQ(std::set<Block*>(read.begin(), read.end()),
                std::set<Block*>(blocks.begin(), blocks.end()))
          << c.bytes;
      EXPECT_EQ(read.size(), count);
    }
  }
}

TEST(RemoteBatch, ChainsOfSeveralThreadsAreOneList) {
  Fixture f(48);
  std::vector<Block*> blocks = f.some(100);
  set_next_batch(&f.span, write_batches(&f.span, blocks.data(), 60), nullptr);
  set_next_batch(&f.span, write_batches(&f.span, blocks.data() + 60, 40), blocks[0]);
  std::vector<Block*> read = blocks_of(unpack_batches(&f.span, blocks[60], 100));
  EXPECT_EQ(std::set<Block*>(read.begin(), read.end()),
            std::set<Block*>(blocks.begin(), blocks.end()));
}

TEST(RemoteBatch, TouchesOneLineOfOneBlock) {
  Fixture f(512);
  std::vector<Block*> blocks = f.some(kMaxBatchBlocks);
  std::fill(f.memory.begin(), f.memory.end(), 0x5555555555555555u);
  set_next_batch(&f.span, write_batches(&f.span, blocks.data(), kMaxBatchBlocks), nullptr);
  size_t touched = std::count_if(f.memory.begin(), f.memory.end(),
                                 [](uint64_t word) { return word != 0x5555555555555555u; });
  EXPECT_LE(touched, kCacheLineBytes / sizeof(uint64_t));
}

TEST(RemoteBatch, OverwrittenBatchIsFatal) {
  for (size_t bytes : {8, 16, 48, 512}) {
    Fixture f(bytes);
    std::vector<Block*> blocks = f.some(30);
    set_next_batch(&f.span, write_batches(&f.span, blocks.data(), 30), nullptr);
    memset(static_cast<void*>(blocks[0]), 'A', 8);
    EXPECT_DEATH(unpack_batches(&f.span, blocks[0], 30), "corrupted free list") << bytes;
    memset(static_cast<void*>(blocks[0]), 0, 8);
    EXPECT_DEATH(unpack_batches(&f.span, blocks[0], 30), "corrupted free list") << bytes;
  }
}

TEST(RemoteBatch, DuplicateBlockIsFatal) {
  Fixture f(64);
  std::vector<Block*> blocks = f.some(20);
  blocks[13] = blocks[5];
  set_next_batch(&f.span, write_batches(&f.span, blocks.data(), 20), nullptr);
  EXPECT_DEATH(unpack_batches(&f.span, blocks[0], 20), "double free");
  EXPECT_DEATH(link_blocks(blocks.data(), 20), "double free");
}

TEST(RemoteBatch, LinkedInOrder) {
  Fixture f(64);
  std::vector<Block*> blocks = f.some(20);
  EXPECT_EQ(blocks_of(link_blocks(blocks.data(), 20)), blocks);
}

}  // namespace
}  // namespace seemalloc::heap
