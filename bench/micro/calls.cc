// calls: the cost of single calls of the malloc family in a tight loop, by Google Benchmark.
//
//   LD_PRELOAD=… build/release/bench/micro/calls --benchmark_filter=pair
//
// Not representative of programs: everything is in the cache and every branch is predicted. Use it
// to find out which path got slower, not to compare allocators (bench/workloads, bench/programs).
// Linked with no allocator; LD_PRELOAD selects one. Names: OPERATION/BYTES or
// OPERATION/BLOCKS/BYTES. A batch's time is that of the whole batch; items_per_second counts its
// blocks.
#include <benchmark/benchmark.h>
#include <malloc.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <thread>
#include <utility>
#include <vector>

namespace {

void touch(void* block) {
  *static_cast<char*>(block) = 1;
  benchmark::DoNotOptimize(block);
  benchmark::ClobberMemory();
}

// ---- one block at a time ----

void malloc_free_pair(benchmark::State& state) {
  const size_t bytes = state.range(0);
  for (auto _ : state) {
    void* block = malloc(bytes);
    touch(block);
    free(block);
  }
}
BENCHMARK(malloc_free_pair)
    ->Arg(8)
    ->Arg(16)
    ->Arg(64)
    ->Arg(256)
    ->Arg(1 << 10)
    ->Arg(8 << 10)
    ->Arg(32 << 10)
    ->Arg(128 << 10)
    ->Arg(1 << 20);

void malloc_free_pair_threads(benchmark::State& state) { malloc_free_pair(state); }
BENCHMARK(malloc_free_pair_threads)->Arg(64)->Threads(2)->Threads(4)->UseRealTime();

void new_delete_pair(benchmark::State& state) {
  const size_t bytes = state.range(0);
  for (auto _ : state) {
    void* block = ::operator new(bytes);
    touch(block);
    ::operator delete(block, bytes);
  }
}
BENCHMARK(new_delete_pair)->Arg(16)->Arg(64)->Arg(1 << 10);

void calloc_free_pair(benchmark::State& state) {
  const size_t bytes = state.range(0);
  for (auto _ : state) {
    void* block = calloc(1, bytes);
    touch(block);
    free(block);
  }
}
BENCHMARK(calloc_free_pair)->Arg(16)->Arg(64)->Arg(1 << 10)->Arg(32 << 10)->Arg(1 << 20);

void aligned_free_pair(benchmark::State& state) {
  const size_t alignment = state.range(0), bytes = state.range(1);
  for (auto _ : state) {
    void* block = aligned_alloc(alignment, bytes);
    touch(block);
    free(block);
  }
}
BENCHMARK(aligned_free_pair)
    ->Args({16, 64})
    ->Args({64, 64})
    ->Args({64, 1 << 10})
    ->Args({4 << 10, 4 << 10})
    ->Args({2 << 20, 2 << 20});

// Sizes that a branch predictor cannot learn.
void mixed_free_pair(benchmark::State& state) {
  std::array<size_t, 4096> sizes;
  uint32_t random = 1;
  for (size_t& size : sizes) {
    random = random * 1664525 + 1013904223;
    size = 1 + (random >> 16) % state.range(0);
  }
  size_t i = 0;
  for (auto _ : state) {
    void* block = malloc(sizes[i++ % sizes.size()]);
    touch(block);
    free(block);
  }
}
BENCHMARK(mixed_free_pair)->Arg(256)->Arg(2 << 10)->Arg(16 << 10);

void usable_size(benchmark::State& state) {
  void* block = malloc(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(malloc_usable_size(block));
  free(block);
}
BENCHMARK(usable_size)->Arg(64)->Arg(1 << 20);

// ---- realloc ----

void realloc_in_place(benchmark::State& state) {
  const size_t bytes = state.range(0);
  void* block = malloc(bytes);
  size_t less = 0;
  for (auto _ : state) {
    block = realloc(block, bytes - (less ^= 1));
    benchmark::DoNotOptimize(block);
  }
  free(block);
}
BENCHMARK(realloc_in_place)->Arg(64)->Arg(8 << 10)->Arg(1 << 20);

// From 16 bytes up by doubling, as strings and vectors grow.
void realloc_doubling(benchmark::State& state) {
  const size_t last = state.range(0);
  for (auto _ : state) {
    void* block = nullptr;
    for (size_t bytes = 16; bytes <= last; bytes *= 2) {
      block = realloc(block, bytes);
      touch(block);
    }
    free(block);
  }
}
BENCHMARK(realloc_doubling)->Arg(1 << 10)->Arg(64 << 10)->Arg(4 << 20);

// ---- batches: allocate all blocks, then free all of them ----

enum class Order { kFirstToLast, kLastToFirst, kShuffled };

void batch(benchmark::State& state, Order order) {
  const size_t count = state.range(0), bytes = state.range(1);
  std::vector<void*> blocks(count);
  std::vector<size_t> turn(count);
  for (size_t i = 0; i < count; ++i) turn[i] = order == Order::kLastToFirst ? count - 1 - i : i;
  if (order == Order::kShuffled) {
    uint32_t random = 1;
    for (size_t i = count; i > 1; --i) {
      random = random * 1664525 + 1013904223;
      std::swap(turn[i - 1], turn[(random >> 8) % i]);
    }
  }
  for (auto _ : state) {
    for (void*& block : blocks) {
      block = malloc(bytes);
      touch(block);
    }
    for (size_t i : turn) free(blocks[i]);
  }
  state.SetItemsProcessed(state.iterations() * count);
}
void batch_first_to_last(benchmark::State& state) { batch(state, Order::kFirstToLast); }
void batch_last_to_first(benchmark::State& state) { batch(state, Order::kLastToFirst); }
void batch_shuffled(benchmark::State& state) { batch(state, Order::kShuffled); }
void batch_arguments(benchmark::internal::Benchmark* one) {
  one->ArgsProduct({{100, 1000}, {16, 64, 1 << 10, 16 << 10}});
}
BENCHMARK(batch_first_to_last)->Apply(batch_arguments);
BENCHMARK(batch_last_to_first)->Apply(batch_arguments);
BENCHMARK(batch_shuffled)->Apply(batch_arguments);

// ---- one thread allocates, the other frees ----

class Ring {
 public:
  void push(void* block) {
    std::atomic<void*>& slot = slots_[pushed_++ % kSlots];
    while (slot.load(std::memory_order_acquire) != nullptr) std::this_thread::yield();
    slot.store(block, std::memory_order_release);
  }
  void* pop() {
    std::atomic<void*>& slot = slots_[popped_++ % kSlots];
    void* block;
    while ((block = slot.load(std::memory_order_acquire)) == nullptr) std::this_thread::yield();
    slot.store(nullptr, std::memory_order_relaxed);
    return block;
  }

 private:
  static constexpr size_t kSlots = 1024;
  std::array<std::atomic<void*>, kSlots> slots_{};
  alignas(64) size_t pushed_ = 0;
  alignas(64) size_t popped_ = 0;
};

// Both threads run the same number of iterations, so the ring is empty when they end.
void free_by_another_thread(benchmark::State& state) {
  static Ring ring;
  const size_t bytes = state.range(0);
  const bool producer = state.thread_index() == 0;
  for (auto _ : state) {
    if (producer) {
      void* block = malloc(bytes);
      touch(block);
      ring.push(block);
    } else {
      free(ring.pop());
    }
  }
}
BENCHMARK(free_by_another_thread)->Arg(64)->Arg(1 << 10)->Arg(16 << 10)->Threads(2)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
