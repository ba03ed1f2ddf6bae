#include "core/profile/unwind/stack_cache.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/base/seed_for_test.h"
#include "core/base/units.h"
#include "core/os/kernel/fault.h"
#include "core/profile/heap/heap_profile.h"
#include "core/profile/heap/recorder.h"
#include "core/profile/heap/records.h"
#include "core/profile/unwind/unwind.h"

namespace seemalloc::profile {
namespace {

#define NOINLINE __attribute__((noipa))
// Prevents the compiler from turning the last call into a jump, so that the frame is on the stack.
#define KEEP_FRAME __asm__ volatile("" ::: "memory")

StackTable stacks;
StackCache enlarged_cache() {
  StackCache cache;
  cache.enlarge();
  return cache;
}
StackCache cache = enlarged_cache();
size_t max_depth = kMaxStackDepth;
uintptr_t site = 0;
int found, cached, left_out;

// Looks up the stack and walks it, too: a stack that is found must equal the walked one.
NOINLINE void capture_and_compare() {
  Registers registers;
  take_registers(&registers);
  StackCache::Entry* entry = cache.find(registers, site, max_depth);
  Stack walked;
  if (entry != nullptr) {
    WalkDependencies none(nullptr);
    walk_stack(registers, max_depth, &walked, &none);
    EXPECT_TRUE(same_stack(*entry->stack, walked));
    found++;
    return;
  }
  entry = cache.begin_entry(registers, site, max_depth);
  WalkDependencies notes(entry);
  walk_stack(registers, max_depth, &walked, &notes);
  notes.complete() ? cached++ : left_out++;
  if (notes.complete()) entry->stack = stacks.intern(walked, hash_stack(walked));
  KEEP_FRAME;
}

class StackCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    cache.clear();
    max_depth = kMaxStackDepth;
    site = 0;
    found = cached = left_out = 0;
  }
};

TEST_F(StackCacheTest, HitsRegardlessOfOtherRegisters) {
  register long counter __asm__("rbx");
  for (counter = 0; counter < 10; counter++) {
    __asm__ volatile("" : "+r"(counter));
    capture_and_compare();
  }
  EXPECT_EQ(cached, 1);
  EXPECT_EQ(found, 9);
}

NOINLINE void left() {
  capture_and_compare();
  KEEP_FRAME;
}
NOINLINE void right() {
  capture_and_compare();
  KEEP_FRAME;
}
NOINLINE void outer_left(void (*f)()) {
  f();
  KEEP_FRAME;
}
NOINLINE void outer_right(void (*f)()) {
  f();
  KEEP_FRAME;
}

// The same depth and the same stack pointer, but other callers: near and far.
TEST_F(StackCacheTest, DistinguishesCallers) {
  void (*volatile inner[])() = {left, right};
  void (*volatile outer[])(void (*)()) = {outer_left, outer_right};
  std::mt19937 random(seed_for_test());
  for (int i = 0; i < 1000; i++) outer[random() % 2](inner[random() % 2]);
  EXPECT_GT(found, 100);
  for (int i = 0; i < 10; i++) outer[0](inner[0]);
  EXPECT_GT(found, 100 + 8);
}

// The frames of these two functions end at different addresses. When the second runs, everything
// that a walk of the first read is unchanged, except for the frame pointer.
NOINLINE void look_with_room(size_t bytes) {
  __asm__ volatile("" ::"r"(__builtin_alloca(bytes)));
  capture_and_compare();
  KEEP_FRAME;
}
NOINLINE void much_then_little(size_t all) {
  __asm__ volatile("" ::"r"(__builtin_alloca(all - 64)));
  look_with_room(64);
  KEEP_FRAME;
}
NOINLINE void little_then_much(size_t all) {
  __asm__ volatile("" ::"r"(__builtin_alloca(64)));
  look_with_room(all - 64);
  KEEP_FRAME;
}
TEST_F(StackCacheTest, DistinguishesFramesByFramePointer) {
  for (int i = 0; i < 10; i++) {
    volatile int step = i % 2;
    if (step == 0) cache.clear();
    void (*volatile call)(size_t) = step == 0 ? much_then_little : little_then_much;
    call(1024);
  }
  EXPECT_EQ(found, 0);
  EXPECT_EQ(cached, 10);
}

TEST_F(StackCacheTest, DistinguishesDepths) {
  capture_and_compare();
  for (size_t depth : {4, 5, 4, 5, 4, 5}) {
    max_depth = depth;
    capture_and_compare();
  }
  EXPECT_EQ(left_out, 0);
}

NOINLINE void look_from_each(uintptr_t first, uintptr_t sites) {
  for (uintptr_t i = 0; i < sites; i++) {
    site = first + i * 40;
    capture_and_compare();
  }
  KEEP_FRAME;
}

// A thread that walks only now and then does not need a larger cache, regardless of the number of
// stacks.
TEST_F(StackCacheTest, StaysSmallWhereStacksComeSlowly) {
  StackCache other = std::exchange(cache, StackCache());  // another test may have enlarged it
  for (volatile int i = 0; i < 8; i = i + 1) {
    look_from_each(0, 14);  // at most 28 walks in 40 ms
    os::advance_test_clock(20 * kMillisecondNs);
    EXPECT_FALSE(cache.should_enlarge(true));
  }
  EXPECT_EQ(found, 0);
  for (volatile int i = 0; i < 1000 && !cache.should_enlarge(false); i = i + 1)
    look_from_each(0, 100);
  EXPECT_TRUE(cache.should_enlarge(false));
  cache.enlarge();
  for (volatile int i = 0; i < 10; i = i + 1) look_from_each(0, 100);
  EXPECT_FALSE(cache.should_enlarge(false));
  EXPECT_TRUE(cache.should_enlarge(true));
  cache = other;
}

// After 64 evicted entries the cache is too small.
TEST_F(StackCacheTest, KeepsManyMoreOnceEnlarged) {
  constexpr int kSites = 100;
  // Of sites: the stack's address decides how many sites of a group collide.
  constexpr int kGroups = 16;
  StackCache other = std::exchange(cache, enlarged_cache());  // another test may have enlarged it
  int found_again = 0;
  // volatile, and read each time: all calls are one.
  for (volatile int round = 0; round < 2 + 2 * kGroups; round = round + 1) {
    if (round == 2) {
      EXPECT_TRUE(cache.should_enlarge(true));
      cache.enlarge();
      EXPECT_FALSE(cache.should_enlarge(true));
    } else if (round % 2 == 0) {
      cache.clear();
    }
    found = 0;
    int group = round / 2;
    // Three times the same.
    look_from_each(static_cast<uintptr_t>(group <= 2 ? 0 : group) * 28'672, kSites);
    if (round % 2 == 0) {
      EXPECT_EQ(found, 0) << "what it knew is forgotten";
    } else if (round == 1) {
      EXPECT_LT(found, kSites / 4) << "they fit: nothing is tested";
    } else {
      found_again += found;
    }
  }
  EXPECT_GT(found_again, kGroups * kSites / 2);
  EXPECT_EQ(left_out, 0);
  cache = other;
}

void any_way(std::mt19937& random, int depth);

NOINLINE void by_alloca(std::mt19937& random, int depth) {
  auto* room = static_cast<volatile char*>(__builtin_alloca(random() % 3 * 64 + 1));
  room[0] = 1;
  any_way(random, depth);
  KEEP_FRAME;
}
// Realigned: its CFA is an expression when the function also has a variable-sized frame.
NOINLINE void by_realigned_stack(std::mt19937& random, int depth) {
  alignas(128) volatile char aligned[128];
  auto* room = static_cast<volatile char*>(__builtin_alloca(random() % 3 * 64 + 1));
  aligned[0] = static_cast<char>(depth);
  room[0] = aligned[0];
  any_way(random, depth);
  KEEP_FRAME;
}
NOINLINE void by_function(std::mt19937& random, int depth) {
  std::function<void()> f = [&] { any_way(random, depth); };
  f();
  KEEP_FRAME;
}
std::mt19937* sort_random;
int sort_depth;
int compare_ints(const void* a, const void* b) {
  if (sort_random != nullptr) any_way(*std::exchange(sort_random, nullptr), sort_depth);
  return *static_cast<const int*>(a) - *static_cast<const int*>(b);
}
NOINLINE void by_qsort(std::mt19937& random, int depth) {
  int numbers[] = {4, 2, 7, 1, 9, 3};
  sort_random = &random;
  sort_depth = depth;
  qsort(numbers, 6, sizeof(int), compare_ints);
}
// The frame pointer is an ordinary register here.
__attribute__((noipa, optimize("omit-frame-pointer"))) void by_rubbish(std::mt19937& random,
                                                                       int depth) {
  register uintptr_t rubbish __asm__("rbp") = random();
  __asm__ volatile("" : "+r"(rubbish));
  any_way(random, depth);
  __asm__ volatile("" : "+r"(rubbish));
}

NOINLINE void any_way(std::mt19937& random, int depth) {
  if (depth <= 0) return capture_and_compare();
  switch (random() % 5) {
    case 0: by_alloca(random, depth - 1); break;
    case 1: by_realigned_stack(random, depth - 1); break;
    case 2: by_function(random, depth - 1); break;
    case 3: by_qsort(random, depth - 1); break;
    default: by_rubbish(random, depth - 1);
  }
  KEEP_FRAME;
}

TEST_F(StackCacheTest, AgreesWithTheWalkOnRandomCallChains) {
  std::mt19937 random(seed_for_test());
  for (int i = 0; i < 20000; i++) {
    if (i == 10000) cache.enlarge();
    unsigned seed = random() % 8 + static_cast<unsigned>(i / 1000) * 8;
    std::mt19937 choices(seed_for_test() + seed);
    SCOPED_TRACE(seed);
    any_way(choices, static_cast<int>(seed % 7));
  }
  EXPECT_GT(found, 1000);
}

ucontext_t fibre_context, main_context;
void fibre_main() {
  for (int i = 0; i < 3; i++) capture_and_compare();
  swapcontext(&fibre_context, &main_context);
}

// They may be unmapped at the next lookup.
TEST_F(StackCacheTest, LeavesOtherStacksOut) {
  std::vector<char> room(64 * 1024);
  getcontext(&fibre_context);
  fibre_context.uc_stack.ss_sp = room.data();
  fibre_context.uc_stack.ss_size = room.size();
  makecontext(&fibre_context, fibre_main, 0);
  swapcontext(&main_context, &fibre_context);
  EXPECT_EQ(left_out, 3);
  EXPECT_EQ(found, 0);
}

// ---- modules that come and go ----

#if defined(__x86_64__)
using CallBack = int (*)(void (*)());

// Builds a library with one function that calls back. `index` changes the code after the call;
// `more` is appended. Returns an empty path if there is no compiler.
std::string build_library(const std::string& name, int frame_bytes, int index,
                          const std::string& more) {
  std::string path =
      testing::TempDir() + "/seemalloc_" + std::to_string(getpid()) + "_memo_" + name;
  std::ofstream(path + ".c") << "int call_back(void (*f)(void)) { volatile char room["
                             << frame_bytes << "]; f(); return room[" << index << "]; }\n"
                             << more;
  std::string command =
      "cc -O2 -fomit-frame-pointer -shared -fPIC -o " + path + ".so " + path + ".c 2>/dev/null";
  bool built = system(command.c_str()) == 0;
  remove((path + ".c").c_str());
  return built ? path + ".so" : "";
}

// Two libraries that differ only in the size of a frame. Each caller compensates for that, so that
// everything that a walk of the first stack read is still there when the second runs.
constexpr size_t kFrame = 1000, kOtherFrame = 3000;
template <size_t kRoom>
NOINLINE void call_with_room(CallBack call_back) {
  volatile char room[64 + kRoom];
  room[1] = 0;
  call_back(capture_and_compare);
  room[0] = room[1];
}
// Runs the call at a much lower address, so that other calls of this thread do not overwrite the
// old frames.
NOINLINE void far_below(void (*call)(CallBack), CallBack call_back) {
  auto* room = static_cast<volatile char*>(__builtin_alloca(64 * 1024));
  __asm__ volatile("" ::"r"(room));
  call(call_back);
  KEEP_FRAME;
}

CallBack open_in_another_thread(const std::string& path, void** library) {
  CallBack call_back = nullptr;
  std::thread([&] {
    if (*library != nullptr) dlclose(*library);
    *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    call_back = reinterpret_cast<CallBack>(dlsym(*library, "call_back"));
  }).join();
  return call_back;
}

TEST_F(StackCacheTest, NoticesThatALibraryWasReplacedAtTheSameAddress) {
  std::string larger = "const char more[64] = {1};\n";  // its tables are elsewhere
  std::string paths[] = {build_library("a", kFrame, 1, ""), build_library("b", kOtherFrame, 2, ""),
                         build_library("c", kOtherFrame, 1, larger)};
  if (paths[0].empty()) GTEST_SKIP() << "no C compiler";
  void* library = nullptr;
  CallBack call_back = nullptr;
  for (int i = 0; i < 60; i++) {
    // The first library twice, then one of the others.
    volatile int step = i % 3;  // volatile: the compiler must not make several calls of one
    if (step != 1) call_back = open_in_another_thread(paths[step == 2 ? 1 + i % 2 : 0], &library);
    if (step == 0) cache.clear();
    void (*volatile call)(CallBack) =
        step == 2 ? call_with_room<0> : call_with_room<kOtherFrame - kFrame>;
    int before = found;
    far_below(call, call_back);
    EXPECT_EQ(found - before, step == 1 ? 1 : 0) << i;
  }
  dlclose(library);
  for (const std::string& path : paths) remove(path.c_str());
}
#endif

// ---- the recorder ----

NOINLINE SampleId sample(Recorder* recorder, uintptr_t site, size_t depth) {
  SampleId id = record_alloc(recorder, {48, 48, 1}, site, depth);
  KEEP_FRAME;
  return id;
}

const InternedStack* stack_of(SampleId id) { return records.live.get(id).bucket->stack; }

TEST(Recorder, RecordsTheSameStackAsWithoutOne) {
  Recorder* recorder = make_recorder();
  const InternedStack* stack = nullptr;
  for (int i = 0; i < 100; i++) {
    SampleId id = sample(i % 3 == 0 ? nullptr : recorder, static_cast<uintptr_t>(i % 5), 64);
    ASSERT_NE(id, 0u);
    if (stack == nullptr) stack = stack_of(id);
    EXPECT_EQ(stack_of(id), stack);
    record_free(i % 2 == 0 ? nullptr : recorder, id);
  }
}

TEST(Recorder, CountsTruncatedStacksThatItRecalls) {
  Recorder* recorder = make_recorder();
  SampleTotals before = sample_totals();
  for (int i = 0; i < 5; i++) record_free(recorder, sample(recorder, 0, 4));
  SampleTotals after = sample_totals();
  EXPECT_EQ(after.truncated_samples - before.truncated_samples, 5u);
  EXPECT_EQ(after.samples - before.samples, 5u);
}

TEST(Recorder, KnowsBucketsOfSeveralSizes) {
  Recorder* recorder = make_recorder();
  for (int i = 0; i < 50; i++) {
    size_t bytes = 64u << i % 3;
    SampleId id = record_alloc(recorder, {bytes, bytes, 1}, 0, 64);
    EXPECT_EQ(records.live.get(id).bucket->key.allocated_bytes, bytes);
    record_free(recorder, id);
  }
}

// If all allocations are recorded, the cache holds the stacks of a whole program. With rare
// samples, lookups need not be that fast.
TEST(Recorder, GrowsIfAllAllocationsAreSampled) {
  for (uint64_t interval : {uint64_t{1}, uint64_t{1} << 19}) {
    Recorder* recorder = make_recorder();
    for (int round = 0; round < 10; round++) {
      for (uintptr_t place = 0; place < 100; place++) {
        SampleId id = record_alloc(recorder, {48, 48, interval}, place * 40, 64);
        record_free(recorder, id);
      }
    }
    EXPECT_EQ(recorder->alloc_stacks.should_enlarge(true), interval != 1);
  }
}

TEST(Recorder, PassesFromThreadToThread) {
  Recorder* recorder = make_recorder();
  std::vector<SampleId> ids;
  for (int i = 0; i < 20; i++) {
    std::thread([&] {
      adopt_recorder(*recorder);
      for (int k = 0; k < 100; k++) {
        ids.push_back(sample(recorder, 0, 64));
        SampleId without = sample(nullptr, 0, 64);
        EXPECT_EQ(stack_of(ids.back())->depth, stack_of(without)->depth);
        record_free(without);
      }
      recorder->busy = i % 4 == 0;  // its thread did not survive a fork
    }).join();
  }
  std::sort(ids.begin(), ids.end());
  EXPECT_TRUE(std::adjacent_find(ids.begin(), ids.end()) == ids.end())
      << "an id was given out twice";
  for (SampleId id : ids) record_free(id);
}

Recorder* interrupted;
std::atomic<int> interruptions{0};
void on_alarm(int) {
  SampleId id = sample(interrupted, 0, 64);
  record_free(interrupted, id);
  interruptions++;
}

NOINLINE SampleId sample_left() {
  SampleId id = sample(interrupted, 1, 64);
  KEEP_FRAME;
  return id;
}
NOINLINE SampleId sample_right() {
  SampleId id = sample(interrupted, 1, 64);
  KEEP_FRAME;
  return id;
}

TEST(Recorder, SurvivesSignalHandlersThatAllocate) {
  interrupted = make_recorder();
  SampleId (*volatile ways[])() = {sample_left, sample_right};
  const InternedStack* expected[2] = {};
  struct sigaction action {
  }, old;
  action.sa_handler = on_alarm;
  sigaction(SIGALRM, &action, &old);
  itimerval timer{{0, 1000}, {0, 1000}}, none{};  // a handler under a sanitizer takes long
  setitimer(ITIMER_REAL, &timer, nullptr);
  std::vector<SampleId> ids;
  for (int i = 0; i < 10000000 && interruptions < 300; i++) {
    int way = i / 64 % 2;
    SampleId id = ways[way]();
    if (expected[way] == nullptr) expected[way] = stack_of(id);
    ASSERT_EQ(stack_of(id), expected[way]);
    ids.push_back(id);
    if (ids.size() < 200) continue;
    std::sort(ids.begin(), ids.end());
    ASSERT_TRUE(std::adjacent_find(ids.begin(), ids.end()) == ids.end());
    for (SampleId each : ids) record_free(interrupted, each);
    ids.clear();
  }
  setitimer(ITIMER_REAL, &none, nullptr);
  sigaction(SIGALRM, &old, nullptr);
  EXPECT_GT(interruptions, 0);
  EXPECT_NE(expected[0], expected[1]);
}

}  // namespace
}  // namespace seemalloc::profile
