// unwind: the cost of capturing a call stack of functions without frame pointers, with seemalloc's,
// libgcc's and libunwind's unwinder.
//
//   build/release/bench/micro/unwind --benchmark_filter=/20
//
// Names: UNWINDER_STACK/FRAMES. `same`: the same stack each time, as in a sampled loop; everything
// is in the caches and every branch is predicted. `other`: another stack each time, of random
// functions out of 64 with frames of eight kinds, also warm; its time minus that of `calls` (the
// calls without a capture) is the cost of a walk in a program with many stacks. FRAMES is the
// number of frames that a capture finds, including those of the runner and of the C library's
// start. libunwind is taken from the system if it is installed (libunwind.so.8; no headers needed).
#include <benchmark/benchmark.h>
#include <dlfcn.h>
#include <ucontext.h>
#include <unwind.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "core/profile/code/eh_frame.h"
#include "core/profile/code/modules.h"
#include "core/profile/sampling/stack.h"
#include "core/profile/unwind/unwind.h"

namespace {

using seemalloc::profile::kMaxStackDepth;
using seemalloc::profile::Stack;

#define NOINLINE __attribute__((noipa))

// ---- the unwinders: each returns the number of frames that it found ----

int ours() {
  static thread_local Stack stack;
  seemalloc::profile::capture_stack(&stack, kMaxStackDepth);
  benchmark::DoNotOptimize(stack);
  return static_cast<int>(stack.depth);
}

struct Frames {
  void* pcs[kMaxStackDepth];
  int count = 0;
};

_Unwind_Reason_Code add_frame(_Unwind_Context* context, void* to) {
  auto* frames = static_cast<Frames*>(to);
  auto pc = reinterpret_cast<void*>(_Unwind_GetIP(context));
  if (pc == nullptr) return _URC_END_OF_STACK;
  frames->pcs[frames->count++] = pc;
  return frames->count == static_cast<int>(kMaxStackDepth) ? _URC_END_OF_STACK : _URC_NO_REASON;
}

int libgccs() {
  static thread_local Frames frames;
  frames.count = 0;
  _Unwind_Backtrace(add_frame, &frames);
  benchmark::DoNotOptimize(frames);
  return frames.count;
}

using Backtrace = int (*)(void**, int);
Backtrace libunwinds_backtrace() {
  static const auto function = []() -> Backtrace {
    void* library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
    return library == nullptr ? nullptr
                              : reinterpret_cast<Backtrace>(dlsym(library, "unw_backtrace"));
  }();
  return function;
}

int libunwinds() {
  static thread_local Frames frames;
  int count = libunwinds_backtrace()(frames.pcs, kMaxStackDepth);
  benchmark::DoNotOptimize(frames);
  return count;
}

int nobodys() { return 0; }

// ---- a stack to walk: 64 functions whose frames differ ----

struct Descent {
  void (*at_the_end)(void*);
  void* argument;
  int levels;
  uint32_t random;
};

using Function = void (*)(Descent&);
constexpr unsigned kFunctions = 64;
extern const std::array<Function, kFunctions> functions;

void go_on(Descent& descent) {
  if (descent.levels-- == 0) return descent.at_the_end(descent.argument);
  descent.random = descent.random * 1664525 + 1013904223;
  functions[descent.random >> 26](descent);
}

// The low bits select the kind of frame: which registers are saved, and how many bytes it has.
template <unsigned kNumber>
NOINLINE void function(Descent& descent) {
  if constexpr ((kNumber & 1) != 0) __asm__ volatile("" ::: "rbx", "r12");
  if constexpr ((kNumber & 2) != 0) __asm__ volatile("" ::: "rbp", "r13", "r14");
  volatile char room[(kNumber & 4) != 0 ? 200 : 8];
  room[0] = 1;
  go_on(descent);
  room[1] = 2;
}

template <unsigned... kNumbers>
constexpr std::array<Function, kFunctions> make_functions(
    std::integer_sequence<unsigned, kNumbers...>) {
  return {function<kNumbers>...};
}
const std::array<Function, kFunctions> functions =
    make_functions(std::make_integer_sequence<unsigned, kFunctions>());

void descend(int levels, uint32_t random, void (*at_the_end)(void*), void* argument) {
  Descent descent{at_the_end, argument, levels, random};
  go_on(descent);
}

// ---- the measurements ----

struct Run {
  benchmark::State* state;
  int (*unwinder)();
  int frames;
};

NOINLINE void capture_again_and_again(void* argument) {
  auto* run = static_cast<Run*>(argument);
  for (auto _ : *run->state) run->frames = run->unwinder();
}

NOINLINE void capture_once(void* argument) {
  auto* run = static_cast<Run*>(argument);
  run->frames = run->unwinder();
}

// The number of levels that gives a stack of `frames` frames under the runner.
NOINLINE int levels_for(benchmark::State& state, int frames) {
  Run run{&state, ours, 0};
  descend(0, 1, capture_once, &run);
  return frames - run.frames + 1;  // this function is not on the stack later
}

void finish(benchmark::State& state, const Run& run) {
  state.counters["frames"] = run.frames;
  state.SetItemsProcessed(state.iterations() * run.frames);
}

void same(benchmark::State& state, int (*unwinder)()) {
  Run run{&state, unwinder, 0};
  descend(levels_for(state, static_cast<int>(state.range(0))), 1, capture_again_and_again, &run);
  finish(state, run);
}

void other(benchmark::State& state, int (*unwinder)()) {
  Run run{&state, unwinder, 0};
  int levels = levels_for(state, static_cast<int>(state.range(0)));
  uint32_t random = 1;
  for (auto _ : state) descend(levels, random++ * 2654435761u, capture_once, &run);
  finish(state, run);
}

void both(const char* who, int (*unwinder)()) {
  std::string name = who;
  benchmark::RegisterBenchmark((name + "_same").c_str(), same, unwinder)
      ->Arg(20)
      ->Arg(50)
      ->Arg(100);
  benchmark::RegisterBenchmark((name + "_other").c_str(), other, unwinder)->Arg(20)->Arg(50);
}

// From a signal handler's registers.
NOINLINE void capture_from_registers(void* argument) {
  auto* run = static_cast<Run*>(argument);
  static ucontext_t context;
  getcontext(&context);
  static Stack stack;
  for (auto _ : *run->state) {
    seemalloc::profile::capture_stack_from(&context, &stack, kMaxStackDepth);
    benchmark::DoNotOptimize(stack);
  }
  run->frames = static_cast<int>(stack.depth);
}

void from_registers(benchmark::State& state) {
  Run run{&state, nullptr, 0};
  descend(levels_for(state, static_cast<int>(state.range(0))), 1, capture_from_registers, &run);
  finish(state, run);
}
BENCHMARK(from_registers)->Arg(20);

// A frame whose rule is in no cache: finding the module, the search in .eh_frame_hdr, the entry and
// its program.
void row_from_tables(benchmark::State& state) {
  size_t i = 0;
  for (auto _ : state) {
    auto pc = reinterpret_cast<uintptr_t>(functions[i++ % kFunctions]) + 12;
    seemalloc::profile::Module module;
    seemalloc::profile::Row row;
    bool found = seemalloc::profile::find_module(pc, &module) &&
                 seemalloc::profile::find_row(module, pc, true, &row);
    benchmark::DoNotOptimize(found);
  }
}
BENCHMARK(row_from_tables);

}  // namespace

int main(int argc, char** argv) {
  both("calls", nobodys);
  both("seemalloc", ours);
  both("libgcc", libgccs);
  if (libunwinds_backtrace() != nullptr) both("libunwind", libunwinds);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
