#include "core/profile/code/unloaded_modules.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/base/seed_for_test.h"
#include "core/profile/code/modules.h"
#include "core/profile/heap/records.h"
#include "core/profile/pprof/mappings.h"

namespace seemalloc::profile {
namespace {

Stack stack_of(std::vector<uintptr_t> pcs) {
  Stack stack;
  stack.depth = static_cast<uint32_t>(pcs.size());
  for (size_t i = 0; i < pcs.size(); i++) stack.pcs[i] = pcs[i];
  return stack;
}

const InternedStack* intern(StackTable& table, const Stack& stack) {
  return table.intern(stack, hash_stack(stack));
}

std::vector<uintptr_t> pcs_of(const InternedStack& stack) {
  return {stack.pcs(), stack.pcs() + stack.depth};
}

std::vector<UnloadedCode> unloaded() {
  std::vector<UnloadedCode> all;
  for (size_t i = 0; i < unloaded_count(); i++) all.push_back(unloaded_code(i));
  return all;
}

// The first byte after a call may be past the end of the code; before the first byte of the code
// there is no call in it.
TEST(MoveCode, TakesReturnAddressesOfCallsInTheRange) {
  static StackTable table;
  const InternedStack* stack = intern(table, stack_of({0x1000, 0x1001, 0x1800, 0x2000, 0x2001}));
  EXPECT_TRUE(table.any_in(0x1000, 0x2000));
  EXPECT_FALSE(table.any_in(0x2001, 0x9000));
  table.relocate_code(0x1000, 0x2000, 0x700000);
  EXPECT_EQ(pcs_of(*stack), (std::vector<uintptr_t>{0x1000, 0x700001, 0x700800, 0x701000, 0x2001}));
  EXPECT_FALSE(table.any_in(0x1000, 0x2000));
}

TEST(MoveCode, RelocatedStackMatchesNoWalk) {
  static StackTable table;
  Stack walked = stack_of({0x5010, 0x5020});
  const InternedStack* before = intern(table, walked);
  table.relocate_code(0x5000, 0x6000, kUnloadedCode);
  EXPECT_EQ(table.find(walked, hash_stack(walked)), nullptr);
  const InternedStack* after = intern(table, walked);
  EXPECT_NE(after, before);
  EXPECT_EQ(pcs_of(*after), (std::vector<uintptr_t>{0x5010, 0x5020}));
  EXPECT_EQ(intern(table, walked), after);
}

// Stacks of twelve modules, which are unloaded one after the other, repeatedly. Each stack equals
// the one computed by a map of its words.
TEST(MoveCode, AgreesWithAModel) {
  unsigned seed = seed_for_test();
  SCOPED_TRACE("SEEMALLOC_SEED=" + std::to_string(seed));
  std::mt19937 random(seed);
  static StackTable table;
  constexpr uintptr_t kModule = 0x10000;
  std::map<const InternedStack*, std::vector<uintptr_t>> model;
  uintptr_t next_place = kUnloadedCode;
  for (int step = 0; step < 3000; step++) {
    if (random() % 50 != 0) {
      std::vector<uintptr_t> pcs;
      for (size_t depth = 1 + random() % 6; pcs.size() < depth;)
        pcs.push_back((1 + random() % 12) * kModule + 1 + random() % 4);
      const InternedStack* stack = intern(table, stack_of(pcs));
      auto [place, fresh] = model.emplace(stack, pcs);
      if (!fresh) ASSERT_EQ(place->second, pcs) << "one record for two stacks";
      continue;
    }
    uintptr_t start = (1 + random() % 12) * kModule;
    table.relocate_code(start, start + kModule, next_place);
    for (auto& [stack, pcs] : model) {
      for (uintptr_t& pc : pcs) {
        if (pc - start - 1 < kModule) pc = next_place + (pc - start);
      }
    }
    next_place += kModule;
  }
  ASSERT_EQ(table.size(), model.size());
  for (const auto& [stack, pcs] : model) ASSERT_EQ(pcs_of(*stack), pcs);
}

// Samples are taken and profiles are written while modules are unloaded.
TEST(MoveCode, RelocatesWhileOthersInternAndRead) {
  static StackTable table;
  constexpr uintptr_t kModule = 0x10000;
  std::atomic<bool> over{false};
  std::atomic<size_t> interned{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; t++) {
    threads.emplace_back([&, t] {
      std::mt19937 random(seed_for_test() + t);
      while (!over.load()) {
        uintptr_t module = (1 + random() % 8) * kModule, offset = 1 + random() % 64;
        const InternedStack* stack =
            intern(table, stack_of({module + offset, 0x7FFF0000 + offset}));
        ASSERT_NE(stack, nullptr);
        uintptr_t first = __atomic_load_n(&stack->pcs()[0], __ATOMIC_RELAXED);
        ASSERT_EQ(first % kModule, offset);
        ASSERT_TRUE(first == module + offset || first >= kUnloadedCode) << first;
        ASSERT_EQ(stack->pcs()[1], 0x7FFF0000 + offset);
        interned++;
      }
    });
  }
  uintptr_t place = kUnloadedCode;
  for (int round = 0; round < 200; round++) {
    for (size_t before = interned.load(); interned.load() < before + 20 && !HasFailure();)
      std::this_thread::yield();
    uintptr_t module = (1 + static_cast<uintptr_t>(round) % 8) * kModule;
    table.relocate_code(module, module + kModule, place);
    place += kModule;
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(Unloading, NothingHappensWithoutUnloads) {
  intern(records.stacks, stack_of({1, 2, 3}));  // otherwise it returns at once
  size_t before = unloaded().size();
  update_unloaded_modules(false, records.stacks, nullptr);
  update_unloaded_modules(true, records.stacks, nullptr);
  EXPECT_EQ(unloaded().size(), before);
}

class Library {
 public:
  explicit Library(const std::string& name, const std::string& more = "")
      : path_(testing::TempDir() + "seemalloc_" + name + std::to_string(getpid()) + ".so") {
    std::string command = "echo 'int work(void) { return 7; } " + more +
                          "' | cc -shared -fPIC -Wl,--build-id -o " + path_ + " -x c - 2>/dev/null";
    built_ = system(command.c_str()) == 0;
  }
  ~Library() { remove(path_.c_str()); }
  bool built() const { return built_; }
  const std::string& path() const { return path_; }
  // Loads the library and interns a stack with its code. The caller closes *handle.
  const InternedStack* in_a_stack(void** handle) const {
    *handle = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (*handle == nullptr) return nullptr;
    return intern(records.stacks,
                  stack_of({reinterpret_cast<uintptr_t>(dlsym(*handle, "work")) + 1, 7}));
  }

 private:
  std::string path_;
  bool built_;
};

void close_it(void* handle) {
  update_unloaded_modules(false, records.stacks, nullptr);
  dlclose(handle);
  update_unloaded_modules(true, records.stacks, nullptr);
}

// libstdc++ was loaded with this program. The dynamic linker may unload a module that dlopen()
// loaded.
TEST(Modules, AtStartAreThoseThatCameWithTheProgram) {
  Library library("opened");
  if (!library.built()) GTEST_SKIP() << "no C compiler";
  record_start_modules();
  Module module;
  ASSERT_TRUE(
      find_module(reinterpret_cast<uintptr_t>(dlsym(RTLD_DEFAULT, "__cxa_throw")), &module));
  EXPECT_TRUE(module.loaded_with_program);
  void* handle = nullptr;
  const InternedStack* stack = library.in_a_stack(&handle);
  ASSERT_NE(stack, nullptr);
  record_start_modules();  // later, as if dlopen() had loaded this library, too
  ASSERT_TRUE(find_module(stack->pcs()[0], &module));
  EXPECT_FALSE(module.loaded_with_program);
  close_it(handle);
}

// The addresses in stacks are moved and get a mapping with the file and the build id; each time the
// same addresses.
TEST(Unloading, UnloadedCodeKeepsItsFile) {
  Library library("gone");
  if (!library.built()) GTEST_SKIP() << "no C compiler";
  uint64_t count = modules_unloaded.load();
  size_t codes = unloaded().size();
  std::vector<const InternedStack*> stacks;
  for (int times = 0; times < 3; times++) {
    void* handle = nullptr;
    stacks.push_back(library.in_a_stack(&handle));
    ASSERT_NE(stacks.back(), nullptr);
    BuildId build_id;
    {
      Mappings mappings;
      ASSERT_TRUE(mappings.read());
      uint64_t id = mappings.id_of(stacks.back()->pcs()[0]);
      ASSERT_NE(id, 0u);
      for (size_t i = 0; i < mappings.size(); i++) {
        if (mappings[i].id == id) build_id = read_build_id(mappings[i].file_start);
      }
    }
    close_it(handle);
    EXPECT_EQ(modules_unloaded.load(), ++count);
    ASSERT_EQ(unloaded().size(), codes + 1);
    UnloadedCode code = unloaded().back();
    EXPECT_EQ(std::string(code.path, code.path_bytes), library.path());
    EXPECT_NE(build_id.size, 0u);
    ASSERT_EQ(code.build_id.size, build_id.size);
    EXPECT_EQ(memcmp(code.build_id.bytes, build_id.bytes, build_id.size), 0);
    EXPECT_EQ(code.times, static_cast<size_t>(times + 1));
    EXPECT_EQ(stacks.back()->pcs()[0], stacks[0]->pcs()[0]) << "another place";
    EXPECT_EQ(stacks.back()->pcs()[1], 7u);
    Mappings mappings;
    ASSERT_TRUE(mappings.read() && mappings.add_unloaded());
    const Mapping& last = mappings[mappings.size() - 1];
    EXPECT_EQ(mappings.id_of(stacks.back()->pcs()[0] - 1), last.id);
    EXPECT_EQ(last.id, mappings.size());
    EXPECT_EQ(std::string(mappings.path(last), last.path_bytes), library.path());
  }
}

TEST(Unloading, CodeInNoStackIsNotKept) {
  Library library("unused");
  if (!library.built()) GTEST_SKIP() << "no C compiler";
  size_t codes = unloaded().size();
  void* handle = dlopen(library.path().c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr);
  close_it(handle);
  EXPECT_EQ(unloaded().size(), codes);
}

TEST(Unloading, UsedCodeStays) {
  Library library("twice");
  if (!library.built()) GTEST_SKIP() << "no C compiler";
  void* handle = nullptr;
  const InternedStack* stack = library.in_a_stack(&handle);
  ASSERT_NE(stack, nullptr);
  void* again = dlopen(library.path().c_str(), RTLD_NOW | RTLD_LOCAL);
  std::vector<uintptr_t> before = pcs_of(*stack);
  close_it(again);
  EXPECT_EQ(pcs_of(*stack), before);
  close_it(handle);
  EXPECT_NE(pcs_of(*stack), before);
}

// Libraries are also closed by other code, and by the C library itself. A missed unload is detected
// at the next call, if no other module is at its addresses.
TEST(Unloading, UnnoticedUnloadIsFoundLater) {
  Library library("unseen");
  if (!library.built()) GTEST_SKIP() << "no C compiler";
  void* handle = nullptr;
  const InternedStack* stack = library.in_a_stack(&handle);
  ASSERT_NE(stack, nullptr);
  update_unloaded_modules(false, records.stacks, nullptr);
  std::vector<uintptr_t> before = pcs_of(*stack);
  dlclose(handle);
  EXPECT_EQ(pcs_of(*stack), before);
  update_unloaded_modules(false, records.stacks, nullptr);
  EXPECT_TRUE(is_unloaded_code(stack->pcs()[0]));
}

// If a module was loaded at these addresses unnoticed, it is unknown which stacks belong to it.
// They are not moved.
TEST(Unloading, StacksOfUnnoticedLoadedCodeAreKept) {
  Library first("first"), second("second", "int other(void) { return 8; }");
  if (!first.built() || !second.built()) GTEST_SKIP() << "no C compiler";
  void* handle = nullptr;
  const InternedStack* stack = first.in_a_stack(&handle);
  ASSERT_NE(stack, nullptr);
  update_unloaded_modules(false, records.stacks, nullptr);
  std::vector<uintptr_t> before = pcs_of(*stack);
  uint64_t count = unmoved_unloads();
  dlclose(handle);
  second.in_a_stack(&handle);
  Module module;
  if (!find_module(before[0], &module)) GTEST_SKIP() << "the system loads it elsewhere";
  update_unloaded_modules(false, records.stacks, nullptr);
  EXPECT_EQ(pcs_of(*stack), before);
  EXPECT_EQ(unmoved_unloads(), count + 1);
  close_it(handle);
}

TEST(Unloading, WaitsAreBounded) {
  Library library("waits");
  if (!library.built()) GTEST_SKIP() << "no C compiler";
  void* handle = nullptr;
  const InternedStack* stack = library.in_a_stack(&handle);
  ASSERT_NE(stack, nullptr);
  uint64_t count = unmoved_unloads();
  lock_unloaded_for_fork();  // as fork does; no thread waits forever
  std::thread([] { update_unloaded_modules(false, records.stacks, nullptr); }).join();
  unlock_unloaded_after_fork();
  EXPECT_EQ(unmoved_unloads(), count + 1);
  close_it(handle);
  EXPECT_TRUE(is_unloaded_code(stack->pcs()[0]));
}

// The number of unloaded modules is bounded: a program that loads and unloads forever must not
// accumulate stacks.
TEST(Unloading, TooOftenIsCounted) {
  Library library("often");
  if (!library.built()) GTEST_SKIP() << "no C compiler";
  uint64_t before = unmoved_unloads();
  const InternedStack* last = nullptr;
  uintptr_t stays = 0;
  for (int times = 0; times < 40; times++) {
    void* handle = nullptr;
    last = library.in_a_stack(&handle);
    ASSERT_NE(last, nullptr);
    stays = last->pcs()[0];
    close_it(handle);
  }
  EXPECT_EQ(unmoved_unloads(), before + 8);
  EXPECT_EQ(last->pcs()[0], stays);
}

}  // namespace
}  // namespace seemalloc::profile
