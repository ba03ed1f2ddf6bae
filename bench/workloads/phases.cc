// phases SEED [PROFILE]: a random program of phases. Eight functions fill the heap with blocks that
// stay, in one or many threads, long or short-lived; others allocate and free as fast as they can;
// blocks are freed or replaced; the sampling interval changes. At its end at least 512 MiB are
// live. A heap profile is written to PROFILE; prints lines "truth FUNCTION BYTES BLOCKS" with
// allocated sizes and, on stderr, with SEEMALLOC_PHASES=show, the phases.
//
// Stands for: servers that load their data at start, batch jobs, request loops. The question is
// whether live blocks are sampled correctly, whatever happened before they were allocated.
#include <malloc.h>
#include <pthread.h>
#include <seemalloc/seemalloc.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "workload.h"

#pragma weak seemalloc_profile_dump
#pragma weak seemalloc_option_set

namespace {

constexpr size_t kMiB = 1 << 20;
constexpr int kFunctions = 8;

// The first bytes of each block that stays. The rest of the block is not written: allocating is as
// fast as possible.
struct Block {
  Block* next;
  int function;
};

struct Held {
  Block* first = nullptr;
  Block** end = &first;

  Held() = default;
  Held(const Held&) = delete;
};
Held held[kFunctions];
pthread_mutex_t held_lock = PTHREAD_MUTEX_INITIALIZER;

struct Sizes {
  size_t least, most;  // log-uniform
  size_t one(workload::Random& random) const {
    if (least == most) return least;
    const double x = static_cast<double>(random.below(1 << 20)) / (1 << 20);
    return static_cast<size_t>(static_cast<double>(least) *
                               std::pow(static_cast<double>(most) / static_cast<double>(least), x));
  }
};

}  // namespace

// None may be merged into another, or make its call a tail call.
#define HOLD(N)                                                               \
  extern "C" __attribute__((noinline, noipa)) Block* hold_##N(size_t bytes) { \
    Block* block = static_cast<Block*>(malloc(bytes));                        \
    block->function = N;                                                      \
    return block;                                                             \
  }
HOLD(0)
HOLD(1)
HOLD(2)
HOLD(3)
HOLD(4)
HOLD(5)
HOLD(6)
HOLD(7)

extern "C" __attribute__((noinline, noipa)) void* churn_block(size_t bytes) {
  void* block = malloc(bytes);
  *static_cast<char*>(block) = 1;
  return block;
}

namespace {

Block* (*const holds[kFunctions])(size_t) = {hold_0, hold_1, hold_2, hold_3,
                                             hold_4, hold_5, hold_6, hold_7};

void keep(const Held& more, int function) {
  if (more.first == nullptr) return;
  pthread_mutex_lock(&held_lock);
  *held[function].end = more.first;
  held[function].end = more.end;
  pthread_mutex_unlock(&held_lock);
}

void fill(int function, size_t bytes, Sizes sizes, workload::Random& random) {
  Held mine;
  for (size_t have = 0; have < bytes;) {
    Block* block = holds[function](sizes.one(random));
    have += malloc_usable_size(block);
    block->next = nullptr;
    *mine.end = block;
    mine.end = &block->next;
  }
  keep(mine, function);
}

void churn_pairs(size_t count, Sizes sizes, workload::Random& random) {
  for (size_t i = 0; i < count; i++) free(churn_block(sizes.one(random)));
}

void churn_ring(size_t count, size_t blocks, Sizes sizes, workload::Random& random) {
  std::vector<void*> ring(blocks);
  for (size_t i = 0; i < count; i++) {
    void*& block = ring[random.below(blocks)];
    free(block);
    block = churn_block(sizes.one(random));
  }
  for (void* block : ring) free(block);
}

struct Work {
  enum Kind { kFill, kPairs, kRing } kind;
  int function;
  size_t bytes;  // to allocate; for churning threads the number of blocks
  size_t ring;
  Sizes sizes;
  uint64_t seed;
};

void* run(void* argument) {
  const Work work = *static_cast<Work*>(argument);
  workload::Random random(work.seed);
  if (work.kind == Work::kFill) fill(work.function, work.bytes, work.sizes, random);
  if (work.kind == Work::kPairs) churn_pairs(work.bytes, work.sizes, random);
  if (work.kind == Work::kRing) churn_ring(work.bytes, work.ring, work.sizes, random);
  return nullptr;
}

// Runs a single piece in the calling thread.
void run_in_threads(std::vector<Work>& all, size_t at_once) {
  if (all.size() == 1) {
    run(all.data());
    return;
  }
  for (size_t done = 0; done < all.size(); done += at_once) {
    std::vector<pthread_t> threads(std::min(at_once, all.size() - done));
    for (size_t i = 0; i < threads.size(); i++) {
      if (pthread_create(&threads[i], nullptr, run, &all[done + i]) != 0) abort();
    }
    for (pthread_t thread : threads) pthread_join(thread, nullptr);
  }
}

// Each block is freed with a probability of percent, or replaced by a block of another function.
void let_go(int function, long percent, bool replace, Sizes sizes, workload::Random& random) {
  Held left, others[kFunctions];
  for (Block *block = held[function].first, *next; block != nullptr; block = next) {
    next = block->next;
    Held* to = &left;
    if (static_cast<long>(random.below(100)) < percent) {
      free(block);
      if (!replace) continue;
      const int other = static_cast<int>(random.below(kFunctions));
      block = holds[other](sizes.one(random));
      if (other != function) to = &others[other];
    }
    block->next = nullptr;
    *to->end = block;
    to->end = &block->next;
  }
  held[function].first = nullptr;
  held[function].end = &held[function].first;
  keep(left, function);
  for (int other = 0; other < kFunctions; other++) keep(others[other], other);
}

size_t bytes_of(int function, size_t* blocks) {
  size_t bytes = 0;
  *blocks = 0;
  for (Block* block = held[function].first; block != nullptr; block = block->next) {
    bytes += malloc_usable_size(block);
    ++*blocks;
  }
  return bytes;
}

size_t live_bytes() {
  size_t bytes = 0, blocks;
  for (int function = 0; function < kFunctions; function++) bytes += bytes_of(function, &blocks);
  return bytes;
}

const bool show = getenv("SEEMALLOC_PHASES") != nullptr;

Sizes random_sizes(workload::Random& random, size_t least, size_t most) {
  const Sizes all{least, most};
  size_t one = all.one(random), other = all.one(random);
  if (random.below(2) == 0) other = one;
  return {std::min(one, other), std::max(one, other)};
}

void phase(workload::Random& random) {
  static const size_t kThreads[] = {1, 1, 2, 4, 16, 64};
  static const char* const kIntervals[] = {"512K", "512K", "256K", "128K"};
  const int function = static_cast<int>(random.below(kFunctions));
  const size_t threads = kThreads[random.below(6)];
  const Sizes small = random_sizes(random, 64, 2 * kMiB);
  switch (random.below(8)) {
    case 0:
    case 1:
    case 2: {  // fill, perhaps beside threads that churn
      const size_t bytes = random.between(20, 200) * kMiB;
      const bool beside = random.below(2) == 0;
      std::vector<Work> all;
      for (size_t i = 0; i < threads; i++) {
        all.push_back({Work::kFill, function, bytes / threads, 0, small, random.next()});
        if (beside)
          all.push_back({Work::kPairs, 0, 200'000 / threads, 0, random_sizes(random, 64, kMiB),
                         random.next()});
      }
      if (show)
        fprintf(stderr, "fill %d: %zu MiB, %zu to %zu, threads %zu%s\n", function, bytes / kMiB,
                small.least, small.most, threads, beside ? ", beside churn" : "");
      run_in_threads(all, all.size());
      return;
    }
    case 3: {  // short-lived threads fill
      const size_t bytes = random.between(20, 100) * kMiB, count = random.between(20, 400);
      std::vector<Work> all;
      for (size_t i = 0; i < count; i++)
        all.push_back({Work::kFill, function, bytes / count, 0, small, random.next()});
      if (show)
        fprintf(stderr, "fill %d: %zu MiB, %zu to %zu, %zu short threads\n", function, bytes / kMiB,
                small.least, small.most, count);
      run_in_threads(all, 4);
      return;
    }
    case 4:
    case 5: {  // churn
      std::vector<Work> all;
      const bool ring = random.below(2) == 0;
      const Sizes sizes = random_sizes(random, 64, kMiB);
      const size_t blocks = std::max<size_t>(2, random.between(1, 32) * kMiB / sizes.most),
                   count = random.between(10'000, 2'000'000);
      for (size_t i = 0; i < threads; i++) {
        all.push_back({ring ? Work::kRing : Work::kPairs, 0, count / threads,
                       std::max<size_t>(2, blocks / threads), sizes, random.next()});
      }
      if (show)
        fprintf(stderr, "churn: %zu of %zu to %zu, threads %zu%s\n", count, sizes.least, sizes.most,
                threads, ring ? ", ring" : "");
      run_in_threads(all, all.size());
      return;
    }
    case 6: {
      const bool replace = random.below(2) == 0;
      const long percent = static_cast<long>(random.between(10, 100));
      size_t blocks = 0;
      const size_t bytes = bytes_of(function, &blocks);
      const size_t each = blocks == 0 ? 64 : std::max<size_t>(64, bytes / blocks);
      if (show)
        fprintf(stderr, "%s %ld %% of %d, %zu MiB\n", replace ? "replace" : "free", percent,
                function, bytes / kMiB);
      let_go(function, percent, replace, {each, each}, random);
      return;
    }
    default: {
      const char* interval = kIntervals[random.below(4)];
      if (show) fprintf(stderr, "sample:%s\n", interval);
      if (seemalloc_option_set) seemalloc_option_set("sample", interval);
    }
  }
}

}  // namespace

int main(int count, char** arguments) {
  workload::Random random(static_cast<uint64_t>(workload::argument(count, arguments, 1, 1)));
  for (long left = static_cast<long>(random.between(4, 12)); left > 0 || live_bytes() < 512 * kMiB;
       left--) {
    if (live_bytes() < 1500 * kMiB) {
      phase(random);
    } else {
      let_go(static_cast<int>(random.below(kFunctions)), 90, false, {}, random);
    }
  }
  if (count > 2 && seemalloc_profile_dump && seemalloc_profile_dump(arguments[2]) != 0) return 1;
  for (int function = 0; function < kFunctions; function++) {
    size_t blocks;
    const size_t bytes = bytes_of(function, &blocks);
    printf("truth hold_%d %zu %zu\n", function, bytes, blocks);
  }
  return 0;
}
