// The heap map against a walk over all spans, for blocks at known positions, and while threads
// work.
#include "core/api/service/heap_map_json.h"
#include "core/heap/maintenance/purge_all.h"
#include "core/heap/spans/span_holes.h"

#include <gtest/gtest.h>
#include <seemalloc/seemalloc.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "core/api/helper/without_helper_for_test.h"  // the heap must not change between two calls
#include "core/api/malloc/test_api.h"
#include "core/api/service/report.h"
#include "core/base/seed_for_test.h"
#include "core/base/units.h"
#include "core/heap/maintenance/holes.h"
#include "core/heap/reports/heap_map.h"
#include "core/heap/reports/statistics.h"
#include "core/os/kernel/fault.h"
#include "core/pages/huge/huge.h"
#include "core/pages/page_heap/page_heap.h"
#include "core/pages/span/page_map.h"

namespace seemalloc {
namespace {

// ---- a reader of the lines: objects of numbers, strings, and arrays of the same ----

struct Object {
  std::map<std::string, std::string> values;
  std::vector<Object> parts;
  std::vector<std::string> frames;

  bool has(const std::string& key) const { return values.count(key) != 0; }
  std::string word(const std::string& key) const { return values.count(key) ? values.at(key) : ""; }
  uint64_t number(const std::string& key) const {
    return has(key) ? std::stoull(values.at(key), nullptr, 0) : 0;
  }
};

class Reader {
 public:
  explicit Reader(const std::string& text) : text_(text) {}
  bool object(Object* out) {
    if (!take('{')) return false;
    while (!take('}')) {
      std::string key;
      if (!quoted(&key) || !take(':')) return false;
      if (key == "memory") {
        out->parts.emplace_back();
        if (!object(&out->parts.back())) return false;
        out->values[key] = "";
      } else if (key == "parts") {
        if (!take('[')) return false;
        while (!take(']')) {
          out->parts.emplace_back();
          if (!object(&out->parts.back())) return false;
          take(',');
        }
      } else if (key == "frames") {
        if (!take('[')) return false;
        while (!take(']')) {
          out->frames.emplace_back();
          if (!quoted(&out->frames.back())) return false;
          take(',');
        }
      } else if (!value(&out->values[key])) {
        return false;
      }
      take(',');
    }
    return true;
  }
  bool at_end() const { return at_ == text_.size(); }

 private:
  bool take(char c) { return at_ < text_.size() && text_[at_] == c ? ++at_ : false; }
  bool quoted(std::string* out) {
    if (!take('"')) return false;
    while (at_ < text_.size() && text_[at_] != '"') *out += text_[at_++];
    return take('"');
  }
  bool value(std::string* out) {
    if (text_[at_] == '"') return quoted(out);
    while (at_ < text_.size() && isdigit(text_[at_])) *out += text_[at_++];
    return !out->empty();
  }

  const std::string& text_;
  size_t at_ = 0;
};

struct Map {
  std::vector<Object> regions, blocks, kept;
  std::map<std::string, std::vector<std::string>> stacks;
  Object memory;  // the breakdown of RSS
  Object end;
};

// Reads an answer, and checks the invariants of every answer.
Map parse(const Text& text) {
  EXPECT_FALSE(text.truncated());
  Map map;
  std::istringstream in(std::string(text.c_str(), text.size()));
  for (std::string line; std::getline(in, line);) {
    Object o;
    Reader reader(line);
    EXPECT_TRUE(reader.object(&o) && reader.at_end()) << line;
    EXPECT_FALSE(map.end.has("end")) << "behind the end: " << line;
    if (o.has("region")) {
      EXPECT_EQ(o.number("used") + o.number("taken") + o.number("dirty") + o.number("lazy") +
                    o.number("purged") + o.number("clean"),
                kPagesPerRegion);
      uint64_t next = 0;
      for (const Object& part : o.parts) {
        EXPECT_EQ(part.number("page"), next) << line;
        EXPECT_NE(part.number("pages"), 0u);
        EXPECT_LE(part.number("live"), part.number("blocks"));
        next += part.number("pages");
      }
      if (!o.parts.empty()) EXPECT_EQ(next, kPagesPerRegion) << line;
      map.regions.push_back(o);
    } else if (o.has("memory")) {
      map.memory = o.parts[0];
    } else if (o.has("block")) {
      map.blocks.push_back(o);
    } else if (o.has("kept")) {
      map.kept.push_back(o);
    } else if (o.has("frames") || o.has("stack")) {
      map.stacks[o.word("stack")] = o.frames;
    } else {
      EXPECT_TRUE(o.has("end")) << line;
      map.end = o;
    }
  }
  EXPECT_TRUE(map.end.has("end"));
  return map;
}

Map take(const HeapMapRequest& request) {
  HeapMapJson json(request);
  EXPECT_TRUE(json.write());
  return parse(json.text());
}
Map take_sums() { return take({}); }
Map take_parts() { return take({.from = 0, .to = UINT64_MAX, .with_parts = true}); }

// The part that contains an address.
const Object* part_of(const Map& map, const void* p) {
  uintptr_t address = reinterpret_cast<uintptr_t>(p), region = address & ~(kRegionBytes - 1);
  for (const Object& o : map.regions) {
    if (o.number("region") != region) continue;
    for (const Object& part : o.parts) {
      if ((address - region) / kPageBytes < part.number("page") + part.number("pages"))
        return &part;
    }
  }
  return nullptr;
}

class HeapMap : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(seemalloc_profile_start(0), 0); }
};

struct Counted {
  const Map* map;
  size_t spans = 0;
};

TEST_F(HeapMap, MatchesAWalkOverAllSpans) {
  std::mt19937 random(seed_for_test());
  std::vector<void*> blocks;
  for (int i = 0; i < 40000; i++) blocks.push_back(sm_malloc(random() % 3000));
  for (int i = 0; i < 30; i++) blocks.push_back(sm_malloc(40000 + random() % 900000));
  for (size_t i = 0; i < blocks.size(); i++) {
    if (random() % 3 != 0) sm_free(blocks[i]), blocks[i] = nullptr;
  }
  Map map = take_parts();
  Counted counted{&map};
  pages::for_each_span(
      [](void* context, pages::Span* span) {
        Counted& c = *static_cast<Counted*>(context);
        c.spans++;
        const Object* part = part_of(*c.map, reinterpret_cast<void*>(span->start));
        ASSERT_NE(part, nullptr);
        EXPECT_EQ(part->number("pages") * kPageBytes, span->bytes);
        EXPECT_EQ(part->number("size"), span->block_bytes);
        if (span->kind == pages::SpanKind::kLarge) EXPECT_EQ(part->word("is"), "large");
        if (span->kind == pages::SpanKind::kCachedLarge) EXPECT_EQ(part->word("is"), "kept");
        if (span->kind != pages::SpanKind::kSmall) return;
        EXPECT_EQ(part->word("is"), "small");
        EXPECT_EQ(part->number("live"), span->live() - span->hole_blocks());
        EXPECT_EQ(part->number("cut"), span->carved);
        EXPECT_EQ(part->number("holes"), span->holes);
      },
      &counted);
  size_t spans = 0, dirty = 0, used = 0, live = 0, free = 0, holes = 0;
  for (const Object& region : map.regions) {
    spans += region.number("spans");
    dirty += region.number("dirty") * kPageBytes;
    used += region.number("used") * kPageBytes;
    live += region.number("live_bytes");
    free += region.number("free_bytes");
    holes += region.number("hole_bytes");
  }
  pages::PageStatistics pages = pages::page_statistics();
  EXPECT_EQ(spans, counted.spans);
  EXPECT_EQ(map.regions.size(), pages.regions);
  EXPECT_EQ(map.end.number("regions"), pages.regions);
  EXPECT_EQ(dirty, pages.dirty_bytes);
  EXPECT_EQ(used, pages.used_bytes);
  EXPECT_EQ(live + free + holes, used);
  // Each block is where the map shows blocks of its size.
  for (void* block : blocks) {
    if (block == nullptr) continue;
    const Object* part = part_of(map, block);
    if (part == nullptr) continue;  // huge
    size_t size =
        part->number("size") == 0 ? part->number("pages") * kPageBytes : part->number("size");
    if (part->word("is") == "sampled") {  // neighbouring classes share these
      EXPECT_GE(size, sm_malloc_usable_size(block));
    } else {
      EXPECT_EQ(size, sm_malloc_usable_size(block));
    }
    EXPECT_NE(part->word("is") == "large" ? 1 : part->number("live"), 0u);
    sm_free(block);
  }
}

// The other lines are based on the heap's metadata, which does not know that freed blocks on hardly
// written pages are not resident.
TEST_F(HeapMap, ResidentBytesMatchStatistics) {
  heap::purge_all();  // the blocks' memory is fresh
  std::vector<void*> blocks;
  for (int i = 0; i < 2000; i++) blocks.push_back(sm_malloc(20000));
  for (size_t i = 0; i < blocks.size(); i++) {
    if (i % 8 != 0) sm_free(blocks[i]);
  }
  size_t free_bytes = 0;
  Map map = take_sums();
  for (const Object& region : map.regions) free_bytes += region.number("free_bytes");
  MemoryReport memory = memory_report(heap::statistics(), true);
  EXPECT_GT(memory.fragmentation, 1 * MiB);
  EXPECT_LT(memory.fragmentation, free_bytes / 2);
  EXPECT_EQ(map.memory.number("live"), memory.live);
  EXPECT_EQ(map.memory.number("cached"), memory.cached);
  EXPECT_EQ(map.memory.number("fragmentation"), memory.fragmentation);
  EXPECT_EQ(map.memory.number("uncertain"), memory.uncertain);
  EXPECT_FALSE(take_parts().memory.has("rss")) << "parts are asked for piece by piece";
  for (size_t i = 0; i < blocks.size(); i += 8) sm_free(blocks[i]);
}

TEST_F(HeapMap, ShowsEmptyPurgedAndCached) {
  constexpr size_t kHuge = 3 * MiB;
  std::vector<void*> blocks;
  for (int i = 0; i < 20000; i++) blocks.push_back(sm_malloc(1000));
  void* on_huge_page = sm_malloc(kHuge);
  for (size_t i = 0; i < blocks.size(); i++) {
    if (i % 200 != 0) sm_free(blocks[i]);
  }
  Map full = take_parts();
  const Object* block = nullptr;
  for (const Object& o : full.blocks) {
    if (o.number("block") == reinterpret_cast<uintptr_t>(on_huge_page)) block = &o;
  }
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(block->number("bytes"), kHuge);
  auto sum = [](const Map& map, const char* what) {
    uint64_t total = 0;
    for (const Object& region : map.regions) total += region.number(what);
    return total;
  };
  EXPECT_GT(sum(full, "free_bytes"), 10 * MiB);
  heap::purge_all();
  Map purged = take_parts();
  EXPECT_EQ(sum(purged, "dirty"), 0u);
  EXPECT_LT(sum(purged, "free_bytes") + 5 * MiB, sum(full, "free_bytes"));
  EXPECT_GT(sum(purged, "hole_bytes") + sum(purged, "purged") * kPageBytes, 5 * MiB);
  const Object* part = part_of(purged, blocks[200 * 40]);
  ASSERT_NE(part, nullptr);
  EXPECT_EQ(part->number("size"), sm_malloc_usable_size(blocks[0]));
  EXPECT_LT(part->number("live"), 5u) << "of 8 and more";
  sm_free(on_huge_page);
  size_t kept = 0;
  for (const Object& o : take_sums().kept) {
    if (o.number("kept") == reinterpret_cast<uintptr_t>(on_huge_page)) kept = o.number("bytes");
  }
  EXPECT_EQ(kept, kHuge);
  for (size_t i = 0; i < blocks.size(); i += 200) sm_free(blocks[i]);
}

TEST_F(HeapMap, SumsAreThoseOfTheParts) {
  std::vector<void*> blocks;
  for (int i = 0; i < 30000; i++) blocks.push_back(sm_malloc(i % 2 ? 500 : 24));
  Map sums = take_sums(), parts = take_parts();
  ASSERT_EQ(sums.regions.size(), parts.regions.size());
  for (size_t i = 0; i < sums.regions.size(); i++) {
    EXPECT_EQ(sums.regions[i].values, parts.regions[i].values);
    EXPECT_TRUE(sums.regions[i].parts.empty());
    EXPECT_FALSE(parts.regions[i].parts.empty());
  }
  // A range contains the regions that begin in it.
  uint64_t first = parts.regions[0].number("region");
  Map one = take({.from = first, .to = first + kRegionBytes, .with_parts = true});
  ASSERT_EQ(one.regions.size(), 1u);
  EXPECT_EQ(one.regions[0].values, parts.regions[0].values);
  for (void* block : blocks) sm_free(block);
}

__attribute__((noinline)) void* allocate_here(size_t bytes) {
  void* p = sm_malloc(bytes);
  asm volatile("" : "+r"(p));
  return p;
}

bool has_frame_here(const std::vector<std::string>& frames) {
  uintptr_t start = reinterpret_cast<uintptr_t>(allocate_here);
  for (const std::string& frame : frames) {
    uintptr_t pc = std::stoull(frame, nullptr, 16);
    if (pc > start && pc < start + 100) return true;
  }
  return false;
}

// The thread with a sampled block in a span, or whose home it is, is reported, with the age of the
// block.
TEST_F(HeapMap, ReportsPinningSamples) {
  ASSERT_EQ(seemalloc_profile_start(16 * 1024), 0);
  std::vector<void*> blocks;
  for (int i = 0; i < 20000; i++) blocks.push_back(allocate_here(700));
  void* large = nullptr;
  std::vector<void*> more;
  for (int i = 0; i < 20; i++) more.push_back(large = allocate_here(500000));
  Map map = take_parts();
  size_t small = 0, sampled = 0, pinned = 0;
  for (const Object& region : map.regions) {
    for (const Object& part : region.parts) {
      if (part.number("size") != 768 && part.number("size") != 704) continue;
      (part.word("is") == "sampled" ? sampled : small)++;
      if (!part.has("stack")) continue;
      ASSERT_TRUE(map.stacks.count(part.word("stack")));
      pinned += part.word("is") == "small" && has_frame_here(map.stacks[part.word("stack")]);
      EXPECT_LT(part.number("age_ms"), 600'000u);
      EXPECT_EQ(part.number("thread"), static_cast<uint64_t>(gettid()));
      EXPECT_GE(part.number("samples"), 1u);
    }
  }
  EXPECT_GT(sampled, 5u);
  EXPECT_GT(small, 100u);
  EXPECT_GT(pinned, small / 2) << "of " << small << " spans of 64 KiB at one sample per 16 KiB";
  const Object* part = part_of(map, large);
  ASSERT_NE(part, nullptr);
  ASSERT_TRUE(part->has("stack")) << "a block of 500,000 bytes is sampled for certain";
  EXPECT_TRUE(has_frame_here(map.stacks[part->word("stack")]));
  for (void* block : blocks) sm_free(block);
  for (void* block : more) sm_free(block);
  seemalloc_profile_start(0);
  // No sample pins them any more.
  for (const Object& region : take_parts().regions) {
    for (const Object& each : region.parts)
      EXPECT_FALSE(each.has("stack") && has_frame_here(map.stacks[each.word("stack")]));
  }
}

// Its records have the thread id of the thread in the parent.
TEST_F(HeapMap, AForkedChildsThreadHasItsOwnNumber) {
  ASSERT_EQ(seemalloc_profile_start(1), 0);
  void* before = sm_malloc(500000);
  auto in_child = [&] {
    void* own = sm_malloc(500000);
    Map map = take_parts();
    for (void* block : {before, own}) {
      const Object* part = part_of(map, block);
      if (part == nullptr || !part->has("thread")) _exit(1);
      if (part->number("thread") != static_cast<uint64_t>(gettid())) _exit(2);
    }
    _exit(0);
  };
  EXPECT_EXIT(in_child(), testing::ExitedWithCode(0), "");
  Map map = take_parts();
  EXPECT_EQ(part_of(map, before)->number("thread"), static_cast<uint64_t>(gettid()));
  sm_free(before);
}

// In a grandchild forked by another thread of the child, each block has the last id of its thread.
TEST_F(HeapMap, AGrandchildsThreadHasItsOwnNumberToo) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the sanitizer allows no threads after a fork";
#endif
  ASSERT_EQ(seemalloc_profile_start(1), 0);
  void* before = sm_malloc(500000);
  auto in_child = [&] {
    auto child = static_cast<uint64_t>(gettid());
    int status = 1;
    std::thread([&] {
      void* own = sm_malloc(500000);
      pid_t grandchild = fork();
      if (grandchild == 0) {
        Map map = take_parts();
        const Object *of_child = part_of(map, before), *of_thread = part_of(map, own);
        if (of_child == nullptr || of_thread == nullptr) _exit(2);
        if (of_thread->number("thread") != static_cast<uint64_t>(gettid())) _exit(3);
        _exit(of_child->number("thread") == child ? 0 : 4);
      }
      waitpid(grandchild, &status, 0);
    }).join();
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 5);
  };
  EXPECT_EXIT(in_child(), testing::ExitedWithCode(0), "");
  sm_free(before);
}

// A thread's own spans are timed anew at each pass for holes: the map shows no age for them.
TEST_F(HeapMap, OnlyUnownedSpansReportTheirAge) {
  auto sparse = [] {
    std::vector<void*> all, kept;
    for (int i = 0; i < 20000; i++) all.push_back(sm_malloc(640));
    for (size_t i = 0; i < all.size(); i++) i % 20 == 0 ? kept.push_back(all[i]) : sm_free(all[i]);
    return kept;
  };
  // In this order: otherwise the spans left by the ended thread would be used first.
  std::vector<void*> own = sparse(), left;
  std::thread([&] { left = sparse(); }).join();
  heap::purge_all_holes();
  ASSERT_GT(heap::hole_epoch.load(), 1u);
  os::advance_test_clock(30 * kMillisecondNs);
  EXPECT_GE(heap::ns_since_hole_epoch(1), 20 * kMillisecondNs)
      << "the first period began before the second";
  size_t available = 0, central = 0;
  for (const Object& region : take_parts().regions) {
    for (const Object& part : region.parts) {
      if (part.word("state") == "available") available++;
      if (part.word("state") == "central") central++;
      EXPECT_EQ(part.has("idle_ms"), part.word("state") == "central");
    }
  }
  EXPECT_GT(available, 0u);
  EXPECT_GT(central, 0u);
  for (void* block : left) sm_free(block);
  for (void* block : own) sm_free(block);
}

TEST_F(HeapMap, ReportsTruncation) {
  std::vector<void*> blocks;
  for (int i = 0; i < 20; i++) blocks.push_back(sm_malloc(1000000));
  for (size_t room : {size_t{2} * KiB, size_t{5} * KiB, size_t{64} * KiB}) {
    for (bool with_parts : {false, true}) {
      HeapMapJson json({.from = 0, .to = UINT64_MAX, .with_parts = with_parts}, room);
      ASSERT_TRUE(json.write());
      Map map = parse(json.text());
      size_t there = pages::page_statistics().regions + pages::huge_statistics().spans;
      EXPECT_GE(map.regions.size() + map.blocks.size() + map.end.number("left_out"), there);
      if (room == 2 * KiB) EXPECT_GT(map.end.number("left_out"), 0u);
    }
  }
  for (void* block : blocks) sm_free(block);
}

TEST_F(HeapMap, RefusedMemoryIsReported) {
  for (unsigned skip = 0; skip < 4; skip++) {
    HeapMapRequest request{.from = 0, .to = UINT64_MAX, .with_parts = true};
    os::FailCalls refuse(SYS_mmap, ENOMEM, 1, skip);
    HeapMapJson json(request);
    EXPECT_FALSE(json.write()) << skip;
  }
  HeapMapJson json({});
  EXPECT_TRUE(json.write());
}

TEST_F(HeapMap, IsCompleteWhileThreadsWork) {
  ASSERT_EQ(seemalloc_profile_start(32 * 1024), 0);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 3; seed++) {
    threads.emplace_back([&stop, seed] {
      std::mt19937 random(seed_for_test() + seed);
      std::vector<void*> mine(3000);
      while (!stop.load()) {
        for (int i = 0; i < 300; i++) {
          void*& slot = mine[random() % mine.size()];
          sm_free(slot);
          unsigned kind = random() % 100;
          slot = sm_malloc(kind < 94   ? random() % 2000
                           : kind < 99 ? random() % 300000
                                       : size_t{1} << 21);
        }
        if (random() % 50 == 0) pages::unmap_empty_regions();
        if (random() % 50 == 0) heap::purge_all();
      }
      for (void* p : mine) sm_free(p);
    });
  }
  for (int i = 0; i < 60; i++) {
    Map map = i % 2 ? take_parts() : take_sums();
    EXPECT_EQ(map.end.number("left_out"), 0u);
    EXPECT_NE(map.regions.size(), 0u);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  seemalloc_profile_start(0);
}

}  // namespace
}  // namespace seemalloc
