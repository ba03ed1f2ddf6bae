// Stacks captured in a signal handler that interrupts code at any instruction, with any register
// contents.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "core/profile/code/modules.h"
#include "core/profile/sampling/stack.h"
#include "core/profile/unwind/call_site.h"
#include "core/profile/unwind/unwind.h"

namespace seemalloc::profile {
namespace {

#define NOINLINE __attribute__((noipa))
#define KEEP_FRAME __asm__ volatile("" ::: "memory")

// All tests in this class run with both ways of finding modules.
class UnwindSignal : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { without_dl_find_object = GetParam(); }
  void TearDown() override { without_dl_find_object = false; }
};
INSTANTIATE_TEST_SUITE_P(Modules, UnwindSignal, testing::Bool(), [](const auto& kind) {
  return kind.param ? "OwnTable" : "DynamicLinker";
});

// Whether the outermost `count` frames of `stack` and `other` are the same.
bool have_same_outer_frames(const Stack& stack, const Stack& other, uint32_t count) {
  if (count > stack.depth || count > other.depth) return false;
  return std::equal(stack.pcs + stack.depth - count, stack.pcs + stack.depth,
                    other.pcs + other.depth - count);
}

std::string text_of(const Stack& stack) {
  std::string text = stack.broken ? "broken\n" : "";
  for (uint32_t i = 0; i < stack.depth; i++) {
    char line[64];
    snprintf(line, sizeof(line), "%3u %16lx\n", i, stack.pcs[i]);
    text += line;
  }
  return text;
}

// Sets a handler, and restores the old one.
class Handler {
 public:
  Handler(int number, void (*handler)(int, siginfo_t*, void*), int flags = 0) : number_(number) {
    struct sigaction action {};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | flags;
    sigaction(number, &action, &old_);
  }
  ~Handler() { sigaction(number_, &old_, nullptr); }

 private:
  int number_;
  struct sigaction old_;
};

// While alive, handlers with SA_ONSTACK run on a separate stack.
class SignalStack {
 public:
  SignalStack() : room_(64 * 1024) {
    stack_t stack{};
    stack.ss_sp = room_.data();
    stack.ss_size = room_.size();
    sigaltstack(&stack, &old_);
  }
  ~SignalStack() { sigaltstack(&old_, nullptr); }

 private:
  std::vector<char> room_;
  stack_t old_;
};

Stack interrupted, handlers_own;
void on_signal(int, siginfo_t*, void* context) {
  capture_stack_from(context, &interrupted, kMaxStackDepth);
  capture_stack(&handlers_own, kMaxStackDepth);
}

NOINLINE void expect_interrupted() {
  raise(SIGUSR1);
  EXPECT_FALSE(interrupted.broken);
  EXPECT_FALSE(interrupted.truncated);
  // The handler's own stack continues through the signal's frame to the same frames: raise() is in
  // both stacks.
  EXPECT_GE(interrupted.depth, 5u);
  EXPECT_GT(handlers_own.depth, interrupted.depth);
  EXPECT_TRUE(have_same_outer_frames(interrupted, handlers_own, interrupted.depth))
      << text_of(interrupted) << text_of(handlers_own);
  KEEP_FRAME;
}

TEST_P(UnwindSignal, FindsTheInterruptedStack) {
  Handler handler(SIGUSR1, on_signal);
  expect_interrupted();
  std::thread(expect_interrupted).join();
}

TEST_P(UnwindSignal, FindsTheInterruptedStackFromASignalStack) {
  Handler handler(SIGUSR1, on_signal, SA_ONSTACK);
  SignalStack stack;
  expect_interrupted();
}

Stack shallow;
void capture_shallow(int, siginfo_t*, void* context) { capture_stack_from(context, &shallow, 1); }

TEST(UnwindSignalDepth, MarksTruncatedStacks) {
  Handler handler(SIGUSR1, capture_shallow);
  raise(SIGUSR1);
  EXPECT_EQ(shallow.depth, 1u);
  EXPECT_TRUE(shallow.truncated);
}

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)

// ---- rubbish in the registers ----

// Sends a signal to itself with this stack pointer.
NOINLINE void kill_with_stack_pointer(uintptr_t sp) {
  pid_t pid = getpid(), tid = gettid();
  __asm__ volatile(
      "movq %%rsp, %%rbx\n\tmovq %0, %%rsp\n\t"
      "movl $234, %%eax\n\tmovl %1, %%edi\n\tmovl %2, %%esi\n\tmovl %3, %%edx\n\tsyscall\n\tmovq %%rbx, %%rsp"
      :
      : "r"(sp), "r"(pid), "r"(tid), "i"(SIGUSR1)
      : "rax", "rbx", "rcx", "r11", "rdi", "rsi", "rdx", "memory");
}

TEST_P(UnwindSignal, SurvivesAnyStackPointer) {
  Handler handler(SIGUSR1, on_signal, SA_ONSTACK);
  SignalStack stack;
  auto* hole =
      static_cast<char*>(mmap(nullptr, 3 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  mprotect(hole + 4096, 4096, PROT_READ | PROT_WRITE);
  memset(hole + 4096, 0x41, 4096);
  auto page = reinterpret_cast<uintptr_t>(hole) + 4096;
  for (uintptr_t sp : {uintptr_t{0}, uintptr_t{8}, page - 8, page + 4096, uintptr_t{1} << 47,
                       uintptr_t{1} << 63, ~uintptr_t{0}}) {
    interrupted.depth = 0;
    kill_with_stack_pointer(sp);
    EXPECT_EQ(interrupted.depth, 1u) << std::hex << sp;
    EXPECT_TRUE(interrupted.broken) << std::hex << sp;
    auto code = reinterpret_cast<uintptr_t>(&kill_with_stack_pointer);
    EXPECT_GE(interrupted.pcs[0], code);
    EXPECT_LT(interrupted.pcs[0], code + 256);
  }
  for (uintptr_t sp : {page, page + 1, page + 2048, page + 4088}) {
    kill_with_stack_pointer(sp);
    EXPECT_GE(interrupted.depth, 1u);
    EXPECT_TRUE(interrupted.broken) << std::hex << sp;
  }
  munmap(hole, 3 * 4096);
}

sigjmp_buf back;
void on_fault(int, siginfo_t*, void* context) {
  capture_stack_from(context, &interrupted, kMaxStackDepth);
  siglongjmp(back, 1);
}

NOINLINE void call_nothing(void (*function)()) {
  function();
  KEEP_FRAME;
}

TEST_P(UnwindSignal, FindsTheCallerOfANullFunction) {
  Handler handler(SIGSEGV, on_fault);
  for (uintptr_t nowhere : {uintptr_t{0}, uintptr_t{16}, uintptr_t{1} << 46}) {
    if (sigsetjmp(back, 1) == 0) call_nothing(reinterpret_cast<void (*)()>(nowhere));
    EXPECT_FALSE(interrupted.broken) << text_of(interrupted);
    ASSERT_GE(interrupted.depth, 3u);
    EXPECT_EQ(interrupted.pcs[0], nowhere + 1);
    EXPECT_LT(interrupted.pcs[1] - reinterpret_cast<uintptr_t>(&call_nothing), 64u);
  }
}

// ---- instruction by instruction ----

// The results of stepping through a subject.
struct StepResults {
  int all = 0, wrong = 0;
  Stack first_wrong;
};
StepResults steps;
// The stack of step_through(). Every stack must end with these frames, without step_through's own.
Stack stepper;
volatile bool stepping = false;

void on_step(int, siginfo_t*, void* context) {
  constexpr greg_t kTrapFlag = 0x100;
  greg_t& flags = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL];
  flags = stepping ? flags | kTrapFlag : flags & ~kTrapFlag;
  static Stack stack;
  capture_stack_from(context, &stack, kMaxStackDepth);
  steps.all++;
  if (!stack.broken && have_same_outer_frames(stack, stepper, stepper.depth - 1)) return;
  if (steps.wrong++ == 0) steps.first_wrong = stack;
}

template <typename Subject>
NOINLINE StepResults step_through(const Subject& subject) {
  Handler handler(SIGTRAP, on_step);
  capture_stack(&stepper, kMaxStackDepth);
  steps = StepResults();
  stepping = true;
  raise(SIGTRAP);
  subject();
  stepping = false;
  KEEP_FRAME;
  return steps;
}

TEST_P(UnwindSignal, StepsThroughTheVdso) {
  for (clockid_t clock : {CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_MONOTONIC_COARSE}) {
    timespec now;
    StepResults seen = step_through([&] { clock_gettime(clock, &now); });
    EXPECT_GT(seen.all, 20);
    EXPECT_EQ(seen.wrong, 0) << "of " << seen.all << "\n" << text_of(seen.first_wrong);
  }
}

// Functions without unwind tables. `bare_frame` sets up a frame pointer, `bare_leaf` has no frame.
// call_with_rbp() puts other values into rbp.
extern "C" void bare_frame();
extern "C" void bare_leaf();
__asm__(
    ".text\n"
    ".type bare_leaf, @function\nbare_leaf:\nmovl $3, %eax\n1: decl %eax\njnz 1b\nret\n.size bare_leaf, .-bare_leaf\n"
    ".type bare_frame, @function\nbare_frame:\npushq %rbp\nmovq %rsp, %rbp\nsubq $64, %rsp\nmovq $0, (%rsp)\n"
    "call bare_leaf\nleave\nret\n.size bare_frame, .-bare_frame\n");

// Calls `function` with `value` in rbp, which is an ordinary register in most programs.
NOINLINE void call_with_rbp(void (*function)(), uintptr_t value) {
  __asm__ volatile(
      "pushq %%rbp\n\t.cfi_adjust_cfa_offset 8\n\tmovq %1, %%rbp\n\tcall *%0\n\tpopq %%rbp\n\t.cfi_adjust_cfa_offset -8"
      :
      : "r"(function), "r"(value)
      : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "cc");
}

// Before one of the addresses is a byte that looks like a call: 0xe8, five bytes before local[1].
std::vector<uintptr_t> rbp_values(uintptr_t* local) {
  local[0] = uintptr_t{0xe8} << 24;
  auto here = reinterpret_cast<uintptr_t>(local);
  return {0,
          1,
          4096,
          here,
          here + 1,
          here + 8,
          here + 64,
          here - 4096,
          here + (1 << 23),
          ~uintptr_t{0},
          reinterpret_cast<uintptr_t>(&bare_leaf)};
}

TEST_P(UnwindSignal, LeavesCodeWithoutTablesAtAnyInstruction) {
  uintptr_t local[16] = {};
  for (auto* function : {bare_leaf, bare_frame}) {
    for (uintptr_t value : rbp_values(local)) {
      StepResults seen = step_through([&] { call_with_rbp(function, value); });
      EXPECT_GT(seen.all, 15);
      EXPECT_EQ(seen.wrong, 0) << std::hex << value << std::dec << " of " << seen.all << "\n"
                               << text_of(seen.first_wrong);
    }
  }
}

// The same code, generated at run time.
TEST_P(UnwindSignal, LeavesCodeMadeAtRunTimeAtAnyInstruction) {
  constexpr size_t kBytes = 4096;
  void* code = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(code, reinterpret_cast<const void*>(&bare_leaf), 64);
  mprotect(code, kBytes, PROT_READ | PROT_EXEC);
  auto at = reinterpret_cast<uintptr_t>(&bare_frame) - reinterpret_cast<uintptr_t>(&bare_leaf);
  uintptr_t local[16] = {};
  for (uintptr_t offset : {uintptr_t{0}, at}) {
    auto function = reinterpret_cast<void (*)()>(static_cast<char*>(code) + offset);
    for (uintptr_t value : rbp_values(local)) {
      StepResults seen = step_through([&] { call_with_rbp(function, value); });
      EXPECT_GT(seen.all, 15);
      EXPECT_EQ(seen.wrong, 0) << std::hex << value << std::dec << " of " << seen.all << "\n"
                               << text_of(seen.first_wrong);
    }
  }
  munmap(code, kBytes);
}

// A library that is opened and closed, so that the dynamic linker's tables are in every state when
// they are read.
std::string build_library() {
  std::string path = testing::TempDir() + "/seemalloc_" + std::to_string(getpid()) + "_stepped";
  std::ofstream(path + ".c") << "int seven(void) { return 7; }\n";
  bool built =
      system(("cc -O2 -shared -fPIC -o " + path + ".so " + path + ".c 2>/dev/null").c_str()) == 0;
  remove((path + ".c").c_str());
  return built ? path + ".so" : "";
}

TEST_P(UnwindSignal, InterruptsDlopenAndDlcloseAnywhere) {
  std::string path = build_library();
  if (path.empty()) GTEST_SKIP() << "no C compiler";
  StepResults seen = step_through([&] {
    void* library = dlopen(path.c_str(), RTLD_NOW);
    if (library != nullptr) dlclose(library);
  });
  EXPECT_GT(seen.all, 10000);
  // A library's _init and _fini have no tables, and no frame pointer.
  EXPECT_LT(seen.wrong, 100) << "of " << seen.all << "\n" << text_of(seen.first_wrong);
  remove(path.c_str());
}

// ---- calls ----

bool ends_in_call(std::vector<uint8_t> code) {
  alignas(16) static uint8_t bytes[32];
  memset(bytes, 0x90, sizeof(bytes));
  std::copy(code.begin(), code.end(), bytes + sizeof(bytes) - code.size());
  return follows_call(reinterpret_cast<uintptr_t>(bytes + sizeof(bytes)));
}

TEST(CallSite, RecognisesCalls) {
  EXPECT_TRUE(ends_in_call({0xE8, 1, 2, 3, 4}));
  EXPECT_TRUE(ends_in_call({0xFF, 0xD0}));                    // call *%rax
  EXPECT_TRUE(ends_in_call({0x41, 0xFF, 0xD3}));              // call *%r11
  EXPECT_TRUE(ends_in_call({0xFF, 0x13}));                    // call *(%rbx)
  EXPECT_TRUE(ends_in_call({0xFF, 0x50, 0x18}));              // call *0x18(%rax)
  EXPECT_TRUE(ends_in_call({0xFF, 0x14, 0xC3}));              // call *(%rbx,%rax,8)
  EXPECT_TRUE(ends_in_call({0xFF, 0x14, 0xC5, 1, 2, 3, 4}));  // call *…(,%rax,8)
  EXPECT_TRUE(ends_in_call({0xFF, 0x54, 0x24, 8}));           // call *8(%rsp)
  EXPECT_TRUE(ends_in_call({0xFF, 0x15, 1, 2, 3, 4}));        // call *…(%rip)
  EXPECT_TRUE(ends_in_call({0xFF, 0x90, 1, 2, 3, 4}));        // call *…(%rax)
  EXPECT_TRUE(ends_in_call({0xFF, 0x94, 0xC3, 1, 2, 3, 4}));  // call *…(%rbx,%rax,8)
}

TEST(CallSite, RejectsOtherInstructions) {
  EXPECT_FALSE(ends_in_call({}));
  EXPECT_FALSE(ends_in_call({0xE9, 1, 2, 3, 4}));  // jmp
  EXPECT_FALSE(ends_in_call({0xFF, 0xE0}));        // jmp *%rax
  EXPECT_FALSE(ends_in_call({0xFF, 0x50}));        // its displacement is missing
  EXPECT_FALSE(ends_in_call({0xFF, 0x14}));
  EXPECT_FALSE(ends_in_call({0xFF, 0xD0, 0x90}));  // one instruction before
  EXPECT_FALSE(follows_call(0));
  EXPECT_FALSE(follows_call(6));
  EXPECT_FALSE(follows_call(4096));
  EXPECT_FALSE(follows_call(uintptr_t{1} << 63));
}

#endif

}  // namespace
}  // namespace seemalloc::profile
