#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unwind.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/base/seed_for_test.h"
#include "core/profile/code/modules.h"
#include "core/profile/sampling/stack.h"
#include "core/profile/unwind/unwind.h"

namespace seemalloc::profile {
namespace {

#define NOINLINE __attribute__((noipa))
// Prevents the compiler from turning the last call into a jump, so that the frame is on the stack.
#define KEEP_FRAME __asm__ volatile("" ::: "memory")

// The result of a comparison with libgcc's unwinder, the reference.
struct Verdict {
  bool same = false;  // the same frames
  bool broken = false;
  std::string text;
};

// backtrace() is not used, because ThreadSanitizer adds a frame of its own to it.
struct Reference {
  uintptr_t pcs[kMaxStackDepth];
  int depth = 0;
};
_Unwind_Reason_Code add_frame(_Unwind_Context* context, void* to) {
  auto* reference = static_cast<Reference*>(to);
  if (reference->depth == static_cast<int>(kMaxStackDepth)) return _URC_END_OF_STACK;
  // An interrupted frame's pc is that of its next instruction; our pc is one more.
  int interrupted = 0;
  uintptr_t pc = _Unwind_GetIPInfo(context, &interrupted);
  // libgcc also reports the 0 that it finds above the last frame.
  if (pc != 0) reference->pcs[reference->depth++] = pc + (interrupted != 0 ? 1 : 0);
  return _URC_NO_REASON;
}

NOINLINE Verdict compare_with_libgcc() {
  Stack ours;
  capture_stack(&ours, kMaxStackDepth);
  Reference theirs;
  _Unwind_Backtrace(add_frame, &theirs);
  Verdict verdict;
  verdict.same = static_cast<int>(ours.depth) == theirs.depth;
  verdict.broken = ours.broken;
  // Frame 0 is this function, with a different call in each.
  for (int i = 1; i < theirs.depth && verdict.same; i++) {
    verdict.same = ours.pcs[i] == theirs.pcs[i];
  }
  if (verdict.same) return verdict;
  for (int i = 0; i < std::max<int>(static_cast<int>(ours.depth), theirs.depth); i++) {
    char line[128];
    snprintf(line, sizeof(line), "%3d %16lx %16lx\n", i,
             i < static_cast<int>(ours.depth) ? ours.pcs[i] : 0,
             i < theirs.depth ? theirs.pcs[i] : 0);
    verdict.text += line;
  }
  return verdict;
}

std::atomic<int> comparisons{0};
NOINLINE void expect_same() {
  Verdict verdict = compare_with_libgcc();
  comparisons++;
  EXPECT_TRUE(verdict.same) << verdict.text;
  EXPECT_FALSE(verdict.broken);
}

// All tests in this class run with both ways of finding modules.
class Unwind : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { without_dl_find_object = GetParam(); }
  void TearDown() override { without_dl_find_object = false; }
};
INSTANTIATE_TEST_SUITE_P(Modules, Unwind, testing::Bool(), [](const auto& kind) {
  return kind.param ? "OwnTable" : "DynamicLinker";
});

// ---- depth ----

NOINLINE int recurse(int n, Stack* stack, size_t max_depth) {
  if (n == 0) {
    capture_stack(stack, max_depth);
    return 1;
  }
  int result = recurse(n - 1, stack, max_depth) + 1;
  KEEP_FRAME;
  return result;
}

__attribute__((noinline, optimize("omit-frame-pointer,no-optimize-sibling-calls"))) int
recurse_without_frame_pointer(int n, Stack* stack) {
  // rbp is an ordinary register here, and holds rubbish.
  register long rubbish __asm__("rbp") = 0x123456789 + n;
  __asm__ volatile("" : "+r"(rubbish));
  int result = 1;
  if (n == 0) {
    capture_stack(stack, kMaxStackDepth);
  } else {
    result += recurse_without_frame_pointer(n - 1, stack);
  }
  __asm__ volatile("" : "+r"(rubbish));
  return result + (rubbish == 0);
}

TEST_P(Unwind, FindsEveryFrameOfARecursion) {
  Stack base, deeper;
  recurse(0, &base, kMaxStackDepth);
  ASSERT_FALSE(base.broken);
  for (int n : {1, 2, 10, 50, 90}) {
    recurse(n, &deeper, kMaxStackDepth);
    EXPECT_EQ(deeper.depth, base.depth + n);
    EXPECT_FALSE(deeper.broken);
    EXPECT_FALSE(deeper.truncated);
    for (int i = 1; i <= n; i++) EXPECT_EQ(deeper.pcs[i], deeper.pcs[1]);
  }
}

TEST_P(Unwind, FindsFramesThatKeepNoFramePointer) {
  Stack base, deeper;
  recurse_without_frame_pointer(0, &base);
  recurse_without_frame_pointer(60, &deeper);
  EXPECT_FALSE(deeper.broken);
  EXPECT_EQ(deeper.depth, base.depth + 60);
}

TEST(UnwindDepth, MarksTruncatedStacks) {
  Stack whole, cut;
  recurse(0, &whole, kMaxStackDepth);
  recurse(0, &cut, whole.depth);
  EXPECT_EQ(cut.depth, whole.depth);
  EXPECT_FALSE(cut.truncated);
  recurse(1, &cut, whole.depth);
  EXPECT_EQ(cut.depth, whole.depth);
  EXPECT_TRUE(cut.truncated);
  recurse(20000, &cut, 16);
  EXPECT_EQ(cut.depth, 16u);
  EXPECT_TRUE(cut.truncated);
  EXPECT_FALSE(cut.broken);
}

// ---- the same as libgcc ----

struct Base {
  virtual ~Base() = default;
  virtual void visit(int depth) = 0;
};
struct Leaf : Base {
  NOINLINE void visit(int) override {
    expect_same();
    KEEP_FRAME;
  }
};
void any_way(std::mt19937& random, int depth);
struct Inner : Base {
  std::mt19937* random;
  NOINLINE void visit(int depth) override {
    any_way(*random, depth);
    KEEP_FRAME;
  }
};

std::mt19937* sort_random;
int sort_depth;
int compare_ints(const void* a, const void* b) {
  if (sort_random != nullptr) {
    std::mt19937* random = std::exchange(sort_random, nullptr);
    any_way(*random, sort_depth);
  }
  return *static_cast<const int*>(a) - *static_cast<const int*>(b);
}

NOINLINE void through_qsort(std::mt19937& random, int depth) {
  int numbers[] = {4, 2, 7, 1, 9, 3};
  sort_random = &random;
  sort_depth = depth;
  qsort(numbers, 6, sizeof(int), compare_ints);
}

NOINLINE void through_std_sort(std::mt19937& random, int depth) {
  std::vector<int> numbers(40);
  std::generate(numbers.begin(), numbers.end(), std::ref(random));
  bool done = false;
  std::sort(numbers.begin(), numbers.end(), [&](int a, int b) {
    if (!std::exchange(done, true)) any_way(random, depth);
    return a < b;
  });
}

NOINLINE void through_alloca(std::mt19937& random, int depth) {
  auto* room = static_cast<volatile char*>(__builtin_alloca(random() % 9000 + 1));
  room[0] = 1;
  any_way(random, depth);
  KEEP_FRAME;
}

// Realigned: its CFA is an expression when the function also has a variable-sized frame.
NOINLINE void through_realigned_stack(std::mt19937& random, int depth) {
  alignas(128) volatile char aligned[128];
  aligned[0] = static_cast<char>(depth);
  auto* room = static_cast<volatile char*>(__builtin_alloca(random() % 100 + 1));
  room[0] = aligned[0];
  any_way(random, depth);
  KEEP_FRAME;
}

struct AtScopeExit {
  std::mt19937& random;
  int depth;
  NOINLINE ~AtScopeExit() { any_way(random, depth); }
};
NOINLINE void through_exception(std::mt19937& random, int depth) {
  try {
    AtScopeExit guard{random, depth / 2};
    throw depth;
  } catch (int) {
    any_way(random, depth);
  }
}

NOINLINE void through_call_once(std::mt19937& random, int depth) {
  std::function<void()> f = [&] { any_way(random, depth); };
  f();
  KEEP_FRAME;
}

NOINLINE void any_way(std::mt19937& random, int depth) {
  if (depth <= 0) return expect_same();
  depth--;
  switch (random() % 8) {
    case 0: through_qsort(random, depth); break;
    case 1: through_std_sort(random, depth); break;
    case 2: through_alloca(random, depth); break;
    case 3: through_realigned_stack(random, depth); break;
    case 4: through_exception(random, depth); break;
    case 5: through_call_once(random, depth); break;
    case 6: {
      Inner inner;
      inner.random = &random;
      Base* base = &inner;
      base->visit(depth);
      break;
    }
    default: std::make_unique<Leaf>()->visit(depth);
  }
  KEEP_FRAME;
}

TEST_P(Unwind, AgreesWithLibgccOnRandomCallChains) {
  int before = comparisons;
  for (unsigned seed = 0; seed < 300; seed++) {
    std::mt19937 random(seed_for_test() + seed);
    any_way(random, static_cast<int>(seed % 18));
  }
  EXPECT_GE(comparisons - before, 300);
}

TEST_P(Unwind, AgreesWithLibgccInThreads) {
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; i++) {
    threads.emplace_back([i] {
      // qsort's callback state is global, so the threads do not sort.
      for (unsigned n = 0; n < 200; n++) {
        std::mt19937 random(seed_for_test() + i * 1000 + n);
        through_alloca(random, 0);
        through_realigned_stack(random, 0);
        through_exception(random, 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void on_signal(int) { expect_same(); }

NOINLINE void raise_with(int flags) {
  struct sigaction action {
  }, old;
  action.sa_handler = on_signal;
  action.sa_flags = flags;
  sigaction(SIGUSR1, &action, &old);
  raise(SIGUSR1);
  sigaction(SIGUSR1, &old, nullptr);
}

TEST_P(Unwind, CrossesSignalFrames) {
  raise_with(0);
  std::thread([] { raise_with(SA_NODEFER); }).join();
}

TEST_P(Unwind, CrossesFromASignalStack) {
  std::vector<char> room(64 * 1024);
  stack_t stack{}, old;
  stack.ss_sp = room.data();
  stack.ss_size = room.size();
  ASSERT_EQ(sigaltstack(&stack, &old), 0);
  raise_with(SA_ONSTACK);
  raise_with(SA_ONSTACK);
  sigaltstack(&old, nullptr);
}

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
// Steps through real code instruction by instruction, and compares at each: prologues, epilogues,
// PLT stubs, lazy binding, leaf functions.
std::atomic<int> steps{0}, differences{0}, broken_steps{0};
std::atomic<bool> stepping{false};
std::string first_difference;
std::atomic<int> differences_from_registers{0};
// Whether the interrupted stack is the end of the handler's own stack.
bool is_end_of_own_stack(const void* context) {
  static Stack own, from;
  capture_stack(&own, kMaxStackDepth);
  capture_stack_from(context, &from, kMaxStackDepth);
  return from.broken == own.broken && from.depth < own.depth &&
         std::equal(from.pcs, from.pcs + from.depth, own.pcs + own.depth - from.depth);
}

void on_step(int, siginfo_t*, void* context) {
  constexpr greg_t kTrapFlag = 0x100;
  greg_t& flags = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL];
  flags = stepping ? flags | kTrapFlag : flags & ~kTrapFlag;
  Verdict verdict = compare_with_libgcc();
  steps++;
  broken_steps += verdict.broken;
  if (!verdict.same && differences++ == 0) first_difference = verdict.text;
  differences_from_registers += !is_end_of_own_stack(context);
}

NOINLINE void stepped_code() {
  std::string text = "seven";
  std::vector<int> numbers{5, 3, 8, 1};
  std::sort(numbers.begin(), numbers.end());
  text += std::to_string(numbers[2]);
  char buffer[64];
  snprintf(buffer, sizeof(buffer), "%s %d %5.2f", text.c_str(), numbers[0], 1.5);
  qsort(numbers.data(), numbers.size(), sizeof(int), compare_ints);
  try {
    throw std::string(buffer);
  } catch (const std::string& s) {
    KEEP_FRAME;
  }
}

TEST_P(Unwind, AgreesWithLibgccAtEveryInstruction) {
  stepped_code();
  struct sigaction action {
  }, old;
  action.sa_sigaction = on_step;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, &old);
  steps = differences = differences_from_registers = broken_steps = 0;
  stepping = true;
  raise(SIGTRAP);
  stepped_code();
  stepping = false;
  KEEP_FRAME;
  sigaction(SIGTRAP, &old, nullptr);
  EXPECT_GT(steps, 3000);
  EXPECT_EQ(differences, 0) << "of " << steps << "\n" << first_difference;
  EXPECT_EQ(differences_from_registers, 0) << "of " << steps;
  // libgcc rewrites its own frame just before it jumps into a handler; no unwinder can handle that.
  EXPECT_LT(broken_steps, steps / 100);
}
#endif

// ---- other stacks ----

// A stack between two inaccessible pages.
class GuardedStack {
 public:
  static constexpr size_t kBytes = 64 * 1024, kGuardBytes = 64 * 1024;
  GuardedStack() {
    map_ = static_cast<char*>(
        mmap(nullptr, kBytes + 2 * kGuardBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(low(), kBytes, PROT_READ | PROT_WRITE);
  }
  ~GuardedStack() { munmap(map_, kBytes + 2 * kGuardBytes); }
  char* low() { return map_ + kGuardBytes; }
  uintptr_t* top() { return reinterpret_cast<uintptr_t*>(low() + kBytes); }

 private:
  char* map_;
};

ucontext_t fibre_context, main_context;
void fibre_main() {
  std::mt19937 random(seed_for_test());
  through_alloca(random, 3);
  raise_with(0);
  swapcontext(&fibre_context, &main_context);
}

TEST_P(Unwind, WalksFibres) {
  for (int i = 0; i < 20; i++) {
    GuardedStack stack;
    getcontext(&fibre_context);
    fibre_context.uc_stack.ss_sp = stack.low();
    fibre_context.uc_stack.ss_size = GuardedStack::kBytes;
    fibre_context.uc_link = &main_context;
    makecontext(&fibre_context, fibre_main, 0);
    swapcontext(&main_context, &fibre_context);
  }
}

int clone_main(void* stack) {
  capture_stack(static_cast<Stack*>(stack), kMaxStackDepth);
  return 0;
}

TEST_P(Unwind, WalksClonesThatShareTheThreadsMemory) {
  GuardedStack room;
  Stack stack;
  int child = clone(clone_main, room.top(), CLONE_VM | CLONE_VFORK | SIGCHLD, &stack);
  ASSERT_GT(child, 0);
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(stack.broken);
  EXPECT_EQ(stack.depth, 2u);
  expect_same();
}

}  // namespace
}  // namespace seemalloc::profile
