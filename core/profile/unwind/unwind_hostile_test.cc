// Misleading stacks: code without tables, rubbish in the frame pointer, stacks that end early,
// modules that are unloaded.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "core/base/units.h"
#include "core/os/kernel/fault.h"
#include "core/profile/code/modules.h"
#include "core/profile/sampling/stack.h"

namespace seemalloc::profile {
namespace {

#define NOINLINE __attribute__((noipa))
#define KEEP_FRAME __asm__ volatile("" ::: "memory")

Stack last_stack;
extern "C" NOINLINE void capture_last() {
  capture_stack(&last_stack, kMaxStackDepth);
  KEEP_FRAME;
}

bool last_stack_holds(uintptr_t low, uintptr_t high) {
  return std::any_of(last_stack.pcs, last_stack.pcs + last_stack.depth,
                     [=](uintptr_t pc) { return pc >= low && pc < high; });
}

class UnwindHostile : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { without_dl_find_object = GetParam(); }
  void TearDown() override { without_dl_find_object = false; }
};
INSTANTIATE_TEST_SUITE_P(Modules, UnwindHostile, testing::Bool(), [](const auto& kind) {
  return kind.param ? "OwnTable" : "DynamicLinker";
});

// While alive, counts the reads that captures make by system calls.
class CountReads {
 public:
  CountReads() {
    reads = 0;
    os::fault_hook = hook;
  }
  ~CountReads() { os::fault_hook = nullptr; }
  int count() const { return reads; }

 private:
  static long hook(long number) {
    if (number == SYS_process_vm_readv) reads++;
    return 0;
  }
  static inline std::atomic<int> reads;
};

#if defined(__x86_64__)

constexpr size_t kPage = 4096;

// A page of machine code without unwind tables.
class JitCode {
 public:
  using Function = void (*)(void (*callee)(), uintptr_t frame_pointer);
  explicit JitCode(std::vector<uint8_t> bytes) {
    code_ = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(code_, bytes.data(), bytes.size());
    mprotect(code_, kPage, PROT_READ | PROT_EXEC);
  }
  ~JitCode() { munmap(code_, kPage); }
  Function function() const { return reinterpret_cast<Function>(code_); }
  uintptr_t low() const { return reinterpret_cast<uintptr_t>(code_); }

 private:
  void* code_;
};

// push rbp; mov rbp, rsp; call rdi; pop rbp; ret
const std::vector<uint8_t> kWithFramePointer = {0x55, 0x48, 0x89, 0xE5, 0xFF, 0xD7, 0x5D, 0xC3};
// push rbp; mov rbp, rsi; call rdi; pop rbp; ret
const std::vector<uint8_t> kWithRubbish = {0x55, 0x48, 0x89, 0xF5, 0xFF, 0xD7, 0x5D, 0xC3};

__attribute__((noinline, optimize("no-omit-frame-pointer"))) void call_jit(const JitCode& code,
                                                                           uintptr_t rubbish) {
  code.function()(capture_last, rubbish);
  KEEP_FRAME;
}

TEST_P(UnwindHostile, WalksThroughCodeWithAFramePointer) {
  JitCode code(kWithFramePointer);
  for (int i = 0; i < 3; i++) {
    call_jit(code, 0);
    EXPECT_FALSE(last_stack.broken);
    EXPECT_GT(last_stack.depth, 8u);
    EXPECT_TRUE(last_stack_holds(code.low(), code.low() + kPage));
    auto* main_code = reinterpret_cast<char*>(call_jit);
    EXPECT_TRUE(last_stack_holds(reinterpret_cast<uintptr_t>(main_code),
                                 reinterpret_cast<uintptr_t>(main_code) + 256));
  }
}

TEST_P(UnwindHostile, ReadsNothingBySystemCallsOnceAStackIsKnown) {
  JitCode code(kWithFramePointer);
  for (int i = 0; i < 4; i++) {
    CountReads reads;
    call_jit(code, 0);
    if (i == 0) continue;
    EXPECT_EQ(reads.count(), 0);
  }
}

// All kinds of values that a frame pointer register may have.
NOINLINE void try_frame_pointer_values(const JitCode& code) {
  uintptr_t here[8];
  auto at = reinterpret_cast<uintptr_t>(here);
  auto* heap = new uintptr_t[64]();
  here[0] = at;       // a loop of one
  here[2] = at - 64;  // goes down
  here[4] = ~uintptr_t{7};
  here[6] = 8, here[7] = reinterpret_cast<uintptr_t>(&capture_last) + 4;
  std::vector<uintptr_t> values = {0,
                                   1,
                                   8,
                                   4095,
                                   4096,
                                   at,
                                   at + 1,
                                   at + 16,
                                   at + 32,
                                   at + 48,
                                   at - 4096,
                                   at - 256,
                                   at + 4096,
                                   at + (1 << 20),
                                   at + (1 << 23),
                                   reinterpret_cast<uintptr_t>(heap),
                                   reinterpret_cast<uintptr_t>(&capture_last),
                                   code.low(),
                                   code.low() + kPage - 8,
                                   uintptr_t{1} << 47,
                                   uintptr_t{1} << 63,
                                   ~uintptr_t{0},
                                   ~uintptr_t{7}};
  for (int i = -600; i < 600; i++) values.push_back(at + static_cast<uintptr_t>(i * 8));
  for (uintptr_t value : values) {
    call_jit(code, value);
    EXPECT_GE(last_stack.depth, 1u);
    EXPECT_LE(last_stack.depth, kMaxStackDepth);
  }
  delete[] heap;
}

TEST_P(UnwindHostile, SurvivesRubbishInTheFramePointer) {
  JitCode code(kWithRubbish);
  try_frame_pointer_values(code);
  std::thread(try_frame_pointer_values, std::cref(code)).join();
}

// A stack between two inaccessible pages.
class GuardedStack {
 public:
  static constexpr size_t kBytes = 16 * kPage;
  GuardedStack() {
    map_ = static_cast<char*>(
        mmap(nullptr, kBytes + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(map_ + kPage, kBytes, PROT_READ | PROT_WRITE);
  }
  ~GuardedStack() { munmap(map_, kBytes + 2 * kPage); }
  uintptr_t* top() { return reinterpret_cast<uintptr_t*>(map_ + kPage + kBytes); }

 private:
  char* map_;
};

// A chain of frame pointers through rubbish and off the thread's stack, near the ends of mapped
// memory.
TEST_P(UnwindHostile, SurvivesAFramePointerIntoOtherMemory) {
  JitCode code(kWithRubbish);
  GuardedStack stack;
  uintptr_t* low = stack.top() - GuardedStack::kBytes / sizeof(uintptr_t);
  for (uintptr_t next :
       {uintptr_t{0}, uintptr_t{8}, reinterpret_cast<uintptr_t>(stack.top() - 1)}) {
    std::fill(low, stack.top(), next);
    for (int words = -70; words < 70; words++) {
      for (uintptr_t* end : {low, stack.top()}) {
        call_jit(code, reinterpret_cast<uintptr_t>(end + words));
        EXPECT_GE(last_stack.depth, 1u);
      }
    }
  }
}

sigjmp_buf back;
extern "C" NOINLINE void capture_and_leave() {
  capture_last();
  siglongjmp(back, 1);
}

// Runs capture_and_leave with the stack pointer at `sp`; the word there is its return address.
NOINLINE void capture_at(uintptr_t* sp, uintptr_t frame_pointer = 0) {
  if (sigsetjmp(back, 0) != 0) return;
  __asm__ volatile("movq %0, %%rsp\n\tmovq %2, %%rbp\n\tjmp *%1" ::"a"(sp), "c"(capture_and_leave),
                   "d"(frame_pointer)
                   : "memory");
  __builtin_unreachable();
}

TEST_P(UnwindHostile, SurvivesStacksThatEndEarly) {
  GuardedStack stack;
  Stack reference;
  auto code = reinterpret_cast<uintptr_t>(&capture_last);
  capture_stack(&reference, kMaxStackDepth);
  std::vector<uintptr_t> returns = {0,        1,         4096,          code,
                                    code + 1, code + 20, ~uintptr_t{0}, uintptr_t{1} << 47};
  returns.insert(returns.end(), reference.pcs, reference.pcs + reference.depth);
  for (uintptr_t return_address : returns) {
    for (int words : {1, 3, 5, 65, 513}) {
      uintptr_t* sp = stack.top() - words;
      std::fill(sp, stack.top(), return_address);
      capture_at(sp);
      EXPECT_GE(last_stack.depth, 1u);
      if (return_address == 0) {
        EXPECT_FALSE(last_stack.broken);
      }
    }
  }
}

// Makes a chain of frame records from `sp` up, like generated code; each returns to
// `return_address`.
uintptr_t make_chain(uintptr_t* sp, int frames, int words_each, uintptr_t return_address) {
  uintptr_t* record = sp + 1;
  sp[0] = return_address;
  for (int i = 0; i < frames; i++, record += words_each) {
    bool last = i == frames - 1;
    record[0] = last ? 0 : reinterpret_cast<uintptr_t>(record + words_each);
    record[1] = last ? 0 : return_address;
  }
  return reinterpret_cast<uintptr_t>(sp + 1);
}

TEST_P(UnwindHostile, CopiesOtherStacksInBlocks) {
  JitCode code(kWithFramePointer);
  GuardedStack stack;
  capture_last();
  uintptr_t* sp = stack.top() - 1001;
  uintptr_t frame_pointer = make_chain(sp, 100, 4, code.low() + 6);
  for (int i = 0; i < 3; i++) {
    CountReads reads;
    capture_at(sp, frame_pointer);
    EXPECT_FALSE(last_stack.broken);
    EXPECT_EQ(last_stack.depth, 102u);
    EXPECT_LE(reads.count(), 16);  // of 3200 bytes
  }
}

// As in stacker (Rust) and Ruby: a frame addressed by rbp makes a call on another stack.
__attribute__((noinline, optimize("no-omit-frame-pointer"))) void call_on(uintptr_t* sp) {
  __asm__ volatile("movq %%rsp, %%rbx\n\tmovq %0, %%rsp\n\tcall *%1\n\tmovq %%rbx, %%rsp" ::"r"(sp),
                   "r"(capture_last)
                   : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory",
                     "cc");
  KEEP_FRAME;
}

TEST_P(UnwindHostile, FollowsASwitchOfStacks) {
  GuardedStack stack;
  capture_last();
  uint32_t depth = last_stack.depth;
  call_on(stack.top());
  EXPECT_FALSE(last_stack.broken);
  EXPECT_EQ(last_stack.depth, depth + 1);
  std::thread([&] { call_on(stack.top()); }).join();
  EXPECT_FALSE(last_stack.broken);
}

#endif

// ---- modules that come and go ----

using CallBack = void (*)(void (*)());

// bare(f, n) calls itself n times, then f. It sets up a frame pointer, and has no unwind table.
#if defined(__x86_64__)
const char kBareFunction[] =
    R"(__asm__(".text\n.globl bare\n.type bare, @function\nbare:\npush %rbp\nmov %rsp, %rbp\n"
    "dec %rsi\njs 1f\ncall bare\npop %rbp\nret\n1: call *%rdi\npop %rbp\nret\n.size bare, .-bare");
)";
#else
const char kBareFunction[] = "";
#endif

// Builds a library with one function that calls back, with a frame of the given size. Returns an
// empty path if there is no compiler.
std::string build_library(const std::string& name, int frame_bytes) {
  std::string path = testing::TempDir() + "/seemalloc_" + std::to_string(getpid()) + "_" + name;
  std::ofstream(path + ".c") << "int call_back(void (*f)(void)) { volatile char room["
                             << frame_bytes << "]; room[1] = 1; f(); return room[1]; }\n"
                             << kBareFunction;
  std::string command =
      "cc -O2 -fomit-frame-pointer -shared -fPIC -o " + path + ".so " + path + ".c 2>/dev/null";
  bool built = system(command.c_str()) == 0;
  remove((path + ".c").c_str());
  return built ? path + ".so" : "";
}

NOINLINE void call_library(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  auto call_back = reinterpret_cast<CallBack>(dlsym(library, "call_back"));
  call_back(capture_last);
  dlclose(library);
}

#if defined(__x86_64__)
// Like V8's built-in functions: code in a library that may be unloaded, without an entry in its
// tables.
TEST_P(UnwindHostile, RemembersThatALibrarysCodeHasNoRows) {
  std::string path = build_library("e", 64);
  if (path.empty()) GTEST_SKIP() << "no C compiler";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr);
  auto bare = reinterpret_cast<void (*)(void (*)(), long depth)>(dlsym(library, "bare"));
  for (int i = 0; i < 4; i++) {
    CountReads reads;
    bare(capture_last, 20);
    EXPECT_GE(last_stack.depth, 22u);
    EXPECT_FALSE(last_stack.broken);
    // With our own table, each lookup checks whether the library is still loaded.
    if (i != 0) EXPECT_LE(reads.count(), GetParam() ? 2 : 0);
  }
  dlclose(library);
  remove(path.c_str());
}
#endif

TEST_P(UnwindHostile, NoticesThatALibraryWasReplacedAtTheSameAddress) {
  std::string path = build_library("a", 40), other = build_library("b", 400);
  if (path.empty() || other.empty()) GTEST_SKIP() << "no C compiler";
  capture_last();
  uint32_t depth = last_stack.depth;
  for (int i = 0; i < 20; i++) {
    os::advance_test_clock(210 * kMillisecondNs);  // our own table is read at most every 200 ms
    call_library(i % 2 == 0 ? path : other);
    EXPECT_FALSE(last_stack.broken) << i;
    EXPECT_EQ(last_stack.depth, depth + 2) << i;
  }
  remove(path.c_str());
  remove(other.c_str());
}

TEST_P(UnwindHostile, CapturesWhileLibrariesAreOpenedAndClosed) {
  std::string path = build_library("c", 64);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  std::atomic<uint64_t> captured{0}, broken{0};
  for (int i = 0; i < 2; i++) {
    threads.emplace_back([&] {
      Stack stack;
      while (!stop) {
        capture_stack(&stack, kMaxStackDepth);
        captured++;
        broken += stack.broken;
      }
    });
  }
  while (captured == 0) std::this_thread::yield();
  for (int i = 0; i < 300; i++) {
    void* library = dlopen(path.empty() ? "libm.so.6" : path.c_str(), RTLD_NOW);
    if (library != nullptr) dlclose(library);
    os::advance_test_clock(100 * kMillisecondNs);  // our own table is read every second time
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(captured, 0u);
  if (!GetParam()) {
    EXPECT_EQ(broken, 0u);
  }
  if (!path.empty()) remove(path.c_str());
}

#if defined(__x86_64__)
// Guessed frames in a library that another thread closes, on memory that it unmaps: neither may be
// read in place.
struct ClosedLibrary {
  char* page;
  std::atomic<uintptr_t> function{0};
  std::atomic<unsigned> captures{0};
  std::atomic<bool> stop{false};
};

void come_and_go(const std::string& path, ClosedLibrary* prey) {
  constexpr size_t kWords = kPage / sizeof(uintptr_t);
  auto* record = reinterpret_cast<uintptr_t*>(prey->page);
  for (int i = 0; i < 400; i++) {
    void* library = dlopen(path.c_str(), RTLD_NOW);
    uintptr_t function = reinterpret_cast<uintptr_t>(dlsym(library, "call_back"));
    mprotect(prey->page, kPage, PROT_READ | PROT_WRITE);
    for (size_t at = 0; at < kWords; at += 8) {
      record[at] = at + 8 < kWords ? reinterpret_cast<uintptr_t>(record + at + 8) : 0;
      record[at + 1] = function + at;
    }
    prey->function = function;
    // Captures a few stacks while both exist.
    for (unsigned until = prey->captures + i % 5; prey->captures < until;)
      std::this_thread::yield();
    os::advance_test_clock(100 * kMillisecondNs);  // our own table is read every second time
    mprotect(prey->page, kPage, PROT_NONE);
    dlclose(library);
  }
  prey->stop = true;
}

TEST_P(UnwindHostile, SurvivesGuessesIntoModulesAndMemoryThatGo) {
  std::string path = build_library("d", 64);
  if (path.empty()) GTEST_SKIP() << "no C compiler";
  JitCode code(kWithRubbish);
  GuardedStack stack;
  ClosedLibrary prey{reinterpret_cast<char*>(stack.top()) - kPage};
  std::thread hunted(come_and_go, path, &prey);
  uint64_t in_library = 0, in_page = 0;
  for (uintptr_t i = 0; !prey.stop; i++) {
    // The first guess is right. Then follow records whose return addresses are in the library, and
    // records in the page.
    uintptr_t* sp = stack.top() - 1001;
    uintptr_t frame_pointer = make_chain(sp, 100, 4, prey.function + i % 64);
    sp[0] = code.low() + 6;
    capture_at(sp, frame_pointer);
    in_library += last_stack.depth > 3;
    capture_at(sp, reinterpret_cast<uintptr_t>(prey.page));
    in_page += last_stack.depth > 3;
    prey.captures++;
  }
  hunted.join();
  EXPECT_GT(in_library, 0u);
  EXPECT_GT(in_page, 0u);
  remove(path.c_str());
}
#endif

TEST_P(UnwindHostile, WorksInAChild) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP()
      << "locks of the sanitizer's own that the other threads hold at a fork stay locked in the child";
#endif
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    Stack stack;
    while (!stop) capture_stack(&stack, kMaxStackDepth);
  });
  capture_last();
  uint32_t depth = last_stack.depth;
  for (int i = 0; i < 20; i++) {
    pid_t child = fork();
    if (child == 0) {
      capture_last();
      _exit(last_stack.depth == depth && !last_stack.broken ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  stop = true;
  busy.join();
}

}  // namespace
}  // namespace seemalloc::profile
