// Compares the symbols of objects with dlsym's results, and checks that dlsym finds the targets of
// redirected symbols.
#include "core/os/process/loaded_object.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/syscall.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "core/os/kernel/fault.h"

namespace seemalloc::os {
namespace {

LoadedObject object_of(void* handle) {
  auto map = static_cast<link_map*>(handle);  // true of glibc's handles
  for (LoadedObject object = first_loaded_object(); object.exists(); object = object.next()) {
    if (object.symbols().base() == map->l_addr) return object;
  }
  return {};
}

std::string rights_at(const void* address) {
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[1024], rights[8];
  std::string found;
  while (fgets(line, sizeof(line), maps) != nullptr) {
    unsigned long start, end;
    if (sscanf(line, "%lx-%lx %7s", &start, &end, rights) != 3) continue;
    uintptr_t at = reinterpret_cast<uintptr_t>(address);
    if (at >= start && at < end) found = rights;
  }
  fclose(maps);
  return found;
}

TEST(LoadedObject, TheProgramIsFirstAndThis) {
  EXPECT_TRUE(first_loaded_object().contains_seemalloc());
  int count = 0, this_one = 0;
  for (LoadedObject object = first_loaded_object(); object.exists(); object = object.next()) {
    count++;
    this_one += object.contains_seemalloc();
  }
  EXPECT_EQ(this_one, 1);
  EXPECT_GT(count, 2);
}

TEST(LoadedObject, MatchesDlsymInTheCLibrary) {
  void* handle = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  LoadedObject libc = object_of(handle);
  ASSERT_TRUE(libc.exists());
  for (const char* name : {"malloc", "free", "calloc", "puts", "fopen", "getenv", "qsort",
                           "pthread_create", "__libc_free", "mallinfo2"}) {
    EXPECT_EQ(libc.symbols().address_of(name), reinterpret_cast<uintptr_t>(dlsym(handle, name)))
        << name;
  }
  for (const char* name : {"", "mallo", "malloc_", "no_such_function", "environ", "stdout"})
    EXPECT_FALSE(libc.defines(name)) << name;
}

TEST(LoadedObject, FindsEachVersionOnce) {
  LoadedObject libc = object_of(dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD));
  const Elf64_Sym* only = libc.symbols().function("malloc");
  ASSERT_NE(only, nullptr);
  EXPECT_EQ(libc.symbols().function("malloc", only), nullptr);
#ifdef __x86_64__  // now it has two: pthread_cond_wait@GLIBC_2.2.5 and @@GLIBC_2.3.2
  const Elf64_Sym* first = libc.symbols().function("pthread_cond_wait");
  ASSERT_NE(first, nullptr);
  const Elf64_Sym* second = libc.symbols().function("pthread_cond_wait", first);
  ASSERT_NE(second, nullptr);
  EXPECT_NE(libc.symbols().address_of(first), libc.symbols().address_of(second));
  EXPECT_EQ(libc.symbols().function("pthread_cond_wait", second), nullptr);
#endif
}

class LibraryWith : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    handle_ =
        dlopen((std::string(LOADED_OBJECT_LIBRARIES) + GetParam()).c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(handle_, nullptr) << dlerror();
    object_ = object_of(handle_);
    ASSERT_TRUE(object_.exists());
  }
  void TearDown() override { dlclose(handle_); }
  void* found(const char* name) { return dlsym(handle_, name); }

  void* handle_ = nullptr;
  LoadedObject object_;
};

TEST_P(LibraryWith, AllItsFunctionsAndNothingElse) {
  for (int i = 0; i < 1200; i++) {
    std::string name = "answer_" + std::to_string(i);
    EXPECT_EQ(object_.symbols().address_of(name.c_str()),
              reinterpret_cast<uintptr_t>(found(name.c_str())))
        << name;
  }
  EXPECT_NE(object_.symbols().address_of("answer_of_another"), 0u);
  EXPECT_FALSE(object_.defines("answer_of_data")) << "not a function";
  EXPECT_FALSE(object_.defines("puts")) << "used, and another's";
}

int other_answer() { return -1; }

TEST_P(LibraryWith, DlsymFindsTheRedirectedFunction) {
  using Answer = int (*)();
  auto bound_before = reinterpret_cast<Answer>(found("answer_420"));
  const Elf64_Sym *one = object_.symbols().function("answer_420"),
                  *two = object_.symbols().function("answer_777");
  LoadedObject::Redirection redirections[] = {{one, reinterpret_cast<uintptr_t>(other_answer)},
                                              {two, reinterpret_cast<uintptr_t>(other_answer)}};

  static int refused;
  refused = 0;
  fault_hook = [](long number) -> long { return number == SYS_mprotect ? ++refused, -1 : 0; };
  EXPECT_FALSE(object_.redirect(redirections, 2));
  fault_hook = nullptr;
  EXPECT_EQ(refused, 1);
  EXPECT_EQ(found("answer_420"), reinterpret_cast<void*>(bound_before));

  ASSERT_TRUE(object_.redirect(redirections, 2));
  EXPECT_EQ(found("answer_420"), reinterpret_cast<void*>(other_answer));
  EXPECT_EQ(found("answer_777"), reinterpret_cast<void*>(other_answer));
  EXPECT_EQ(bound_before(), 420);
  EXPECT_EQ(reinterpret_cast<Answer>(found("answer_430"))(), 430);
  EXPECT_EQ(rights_at(one), "r--p");
  EXPECT_TRUE(object_.redirect(redirections, 0));
}

INSTANTIATE_TEST_SUITE_P(EachHash, LibraryWith, testing::Values("gnu.so", "sysv.so"));

}  // namespace
}  // namespace seemalloc::os
