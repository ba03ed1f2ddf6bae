#include "core/pages/span/span_pool.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "core/base/seed_for_test.h"
#include "core/os/kernel/calls.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/memory.h"
#include "core/os/runtime/arena.h"
#include "core/pages/page_heap/page_heap.h"

namespace seemalloc::pages {
namespace {

constexpr size_t kMany = 5000;

std::vector<Span*> take(size_t count) {
  std::vector<Span*> spans;
  for (size_t i = 0; i < count; i++) spans.push_back(allocate_span_record(SpanKind::kSmall));
  return spans;
}
void give(std::vector<Span*>& spans) {
  for (Span* span : spans) free_span_record(span);
  spans.clear();
}
void purge_unconditionally() {
  for (int i = 0; i < 3; i++) purge_span_records();
}

// Against a set of the live records: each is allocated once, reset; purging pages and reusing them
// changes nothing.
TEST(SpanPool, AnyUse) {
  unsigned seed = seed_for_test();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  std::vector<Span*> out;
  std::set<Span*> known;
  for (int i = 0; i < 60000; i++) {
    bool grows = random() % 10000 < (i / 10000 % 2 == 0 ? 6000u : 3500u);
    if (grows || out.empty()) {
      Span* span = allocate_span_record(SpanKind::kSmall);
      ASSERT_NE(span, nullptr);
      ASSERT_TRUE(known.insert(span).second) << "allocated twice";
      ASSERT_EQ(span->kind, SpanKind::kSmall);
      ASSERT_EQ(span->live(), 0u);
      ASSERT_EQ(span->owner(), reinterpret_cast<void*>(Span::kNoOwner));
      ASSERT_EQ(span->local_free, nullptr);
      ASSERT_EQ(span->remote.load(), 0u);
      span->start = reinterpret_cast<uintptr_t>(span);
      out.push_back(span);
    } else {
      std::swap(out[random() % out.size()], out.back());
      Span* span = out.back();
      ASSERT_EQ(span->start, reinterpret_cast<uintptr_t>(span)) << "it was written to";
      known.erase(span);
      free_span_record(span);
      out.pop_back();
    }
    if (random() % 500 == 0)
      random() % 2 == 0 ? purge_span_records() : purge_old_span_records(SIZE_MAX);
  }
  give(out);
}

TEST(SpanPool, FreeRecordsArePurgedAndReused) {
  purge_unconditionally();
  size_t before = purged_span_record_bytes();
  std::vector<Span*> spans = take(kMany);
  Span* kept = spans.back();
  size_t used = os::arena_used_bytes();
  give(spans);
  EXPECT_GE(purge_span_records(), kMany * sizeof(Span) * 9 / 10);
  EXPECT_GE(purged_span_record_bytes(), before);
  EXPECT_EQ(os::resident_bytes(kept, sizeof(Span)), 0u);
  EXPECT_EQ(kept->kind, SpanKind::kForeign) << "it reads as nothing";
  EXPECT_LE(reinterpret_cast<uintptr_t>(kept->owner()), Span::kNoOwner);
  spans = take(kMany);
  EXPECT_EQ(os::arena_used_bytes(), used) << "no new ones";
  give(spans);
}

TEST(SpanPool, PageIsPurgedAfterATickEmpty) {
  purge_unconditionally();
  std::vector<Span*> spans = take(1000);
  purge_old_span_records(SIZE_MAX);
  give(spans);
  EXPECT_EQ(purge_old_span_records(SIZE_MAX), 0u) << "they have been used since the last one";
  EXPECT_GT(purge_old_span_records(SIZE_MAX), 900 * sizeof(Span));
}

TEST(SpanPool, ATickGivesNoMoreThanItMay) {
  purge_unconditionally();
  std::vector<Span*> spans = take(kMany);
  purge_old_span_records(SIZE_MAX);
  give(spans);
  purge_old_span_records(SIZE_MAX);
  size_t gone = 0, ticks = 0;
  for (; ticks < 100; ticks++) {
    size_t bytes = purge_old_span_records(64);
    if (bytes == 0) break;
    EXPECT_LE(bytes, 64 * os::page_bytes());
    gone += bytes;
  }
  EXPECT_GE(ticks, 2u);
  EXPECT_GE(gone, kMany * sizeof(Span) * 9 / 10);
}

TEST(SpanPool, NeighboursGoInOneCall) {
  purge_unconditionally();
  std::vector<Span*> spans = take(kMany);
  give(spans);
  uint64_t before = os::call_count(os::Call::kDontNeed, os::Reason::kRecords).calls;
  size_t bytes = purge_span_records();
  uint64_t calls = os::call_count(os::Call::kDontNeed, os::Reason::kRecords).calls - before;
  EXPECT_LE(calls, bytes / os::page_bytes() / 2);
}

TEST(SpanPool, APageWithARecordInUseStays) {
  purge_unconditionally();
  std::vector<Span*> spans = take(2000), kept;
  std::set<uintptr_t> pages;
  for (size_t i = 0; i < spans.size(); i++) {
    if (pages.insert(round_down(reinterpret_cast<uintptr_t>(spans[i]), os::page_bytes())).second) {
      kept.push_back(spans[i]);
      spans[i]->start = i;
    } else {
      free_span_record(spans[i]);
    }
  }
  purge_unconditionally();
  for (Span* span : kept) {
    EXPECT_EQ(span->kind, SpanKind::kSmall);
    EXPECT_GT(os::resident_bytes(span, sizeof(Span)), 0u);
  }
  give(kept);
}

TEST(SpanPool, RefusedPagesAreKept) {
  purge_unconditionally();
  std::vector<Span*> spans = take(1000);
  give(spans);
  {
    os::FailCalls refuse(SYS_madvise, EINVAL);
    EXPECT_EQ(purge_span_records(), 0u);
    EXPECT_LE(refuse.refusals(), 2u) << "it stops trying";
  }
  EXPECT_GT(purge_span_records(), 900 * sizeof(Span));
}

TEST(SpanPool, MemoryIsRefused) {
  std::vector<Span*> spans;
  {
    os::FailCalls refuse(SYS_mmap, ENOMEM);
    for (int i = 0; i < 1000000; i++) {
      Span* span = allocate_span_record(SpanKind::kSmall);
      if (span == nullptr) break;
      spans.push_back(span);
    }
    EXPECT_LT(spans.size(), 1000000u);
    EXPECT_EQ(allocate_span_record(SpanKind::kSmall), nullptr);
  }
  std::vector<Span*> more = take(100);
  EXPECT_NE(more.back(), nullptr);
  give(more);
  give(spans);
}

// Threads take and give records while another purges; each writes to its own records.
TEST(SpanPool, ThreadsShareIt) {
  constexpr int kThreads = 3;
  std::atomic<bool> stop{false};
  std::thread purger([&] {
    while (!stop) {
      purge_span_records();
      purge_old_span_records(SIZE_MAX);
    }
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++) {
    threads.emplace_back([t] {
      std::mt19937 random(seed_for_test() + static_cast<unsigned>(t));
      std::vector<Span*> out;
      for (int i = 0; i < 300; i++) {
        for (unsigned n = random() % 200; n > 0; n--) {
          Span* span = allocate_span_record(SpanKind::kSmall);
          span->start = static_cast<uintptr_t>(t);
          out.push_back(span);
        }
        while (out.size() > random() % 300) {
          ASSERT_EQ(out.back()->start, static_cast<uintptr_t>(t));
          free_span_record(out.back());
          out.pop_back();
        }
      }
      for (Span* span : out) free_span_record(span);
    });
  }
  for (std::thread& thread : threads) thread.join();
  stop = true;
  purger.join();
}

// Pages may be in the middle of a purge when the process forks. The purging thread does not use
// malloc: a sanitizer's malloc does not know of forks, and the child would wait for its locks
// forever.
TEST(SpanPool, WorksInAForkedChild) {
  std::atomic<bool> stop{false};
  std::vector<Span*> purged(3000);
  std::thread purger([&] {
    while (!stop) {
      for (Span*& span : purged) span = allocate_span_record(SpanKind::kSmall);
      for (Span* span : purged) free_span_record(span);
      purge_span_records();
    }
  });
  for (int i = 0; i < 30; i++) {
    lock_for_fork();
    pid_t child = fork();
    unlock_after_fork(child == 0);
    if (child == 0) {
      std::set<Span*> known;
      std::vector<Span*> spans = take(4000);
      bool right = true;
      for (Span* span : spans)
        right &= span != nullptr && known.insert(span).second && span->live() == 0;
      give(spans);
      purge_span_records();
      _exit(right && purged_span_record_bytes() != 0 ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  stop = true;
  purger.join();
}

}  // namespace
}  // namespace seemalloc::pages
