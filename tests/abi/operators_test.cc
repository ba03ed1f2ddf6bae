// The C++ operators: the allocator under test defines all twenty of the standard library; they call
// the new-handler, and throw only where the standard allows it.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <vector>

#include "harness/subject.h"

namespace {

using conform::opaque;

constexpr const char* kOperators[] = {"_Znwm",
                                      "_Znam",
                                      "_ZnwmRKSt9nothrow_t",
                                      "_ZnamRKSt9nothrow_t",
                                      "_ZnwmSt11align_val_t",
                                      "_ZnamSt11align_val_t",
                                      "_ZnwmSt11align_val_tRKSt9nothrow_t",
                                      "_ZnamSt11align_val_tRKSt9nothrow_t",
                                      "_ZdlPv",
                                      "_ZdaPv",
                                      "_ZdlPvm",
                                      "_ZdaPvm",
                                      "_ZdlPvRKSt9nothrow_t",
                                      "_ZdaPvRKSt9nothrow_t",
                                      "_ZdlPvSt11align_val_t",
                                      "_ZdaPvSt11align_val_t",
                                      "_ZdlPvmSt11align_val_t",
                                      "_ZdaPvmSt11align_val_t",
                                      "_ZdlPvSt11align_val_tRKSt9nothrow_t",
                                      "_ZdaPvSt11align_val_tRKSt9nothrow_t"};

const size_t kImpossible = PTRDIFF_MAX;

TEST(Operators, AllAreTheSubjects) {
  if (!conform::is_seemalloc()) GTEST_SKIP() << "libstdc++'s are its own";
  for (const char* name : kOperators) EXPECT_TRUE(conform::is_defined_by_subject(name)) << name;
}

TEST(Operators, PlainAndArrayAndSized) {
  errno = 4242;
  for (size_t size : {size_t{0}, size_t{1}, size_t{8}, size_t{9}, size_t{64}, size_t{1000},
                      size_t{5000}, size_t{100000}, size_t{5} << 20}) {
    void* blocks[6] = {::operator new(size),
                       ::operator new[](size),
                       ::operator new(size, std::nothrow),
                       ::operator new[](size, std::nothrow),
                       ::operator new(size),
                       ::operator new[](size)};
    for (int i = 0; i < 6; i++) {
      ASSERT_NE(opaque(blocks[i]), nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks[i]) % (size <= 8 ? 8 : 16), 0u);
      memset(blocks[i], i + 1, size);
    }
    for (int i = 0; i < 6; i++) {
      if (size != 0) {
        EXPECT_EQ(static_cast<char*>(blocks[i])[size - 1], i + 1);
      }
      for (int j = 0; j < i; j++)
        EXPECT_NE(blocks[i], blocks[j]) << "size 0 is a block of its own too";
    }
    ::operator delete(blocks[0]);
    ::operator delete[](blocks[1]);
    ::operator delete(blocks[2], std::nothrow);
    ::operator delete[](blocks[3], std::nothrow);
    ::operator delete(blocks[4], size);
    ::operator delete[](blocks[5], size);
  }
  EXPECT_EQ(errno, 4242);
}

TEST(Operators, Aligned) {
  for (size_t alignment = 1; alignment <= size_t{2} << 20; alignment *= 2) {
    std::align_val_t a{alignment};
    for (size_t size :
         {size_t{0}, size_t{1}, size_t{24}, size_t{100}, size_t{3000}, size_t{70000}}) {
      void* blocks[6] = {::operator new(size, a),
                         ::operator new[](size, a),
                         ::operator new(size, a, std::nothrow),
                         ::operator new[](size, a, std::nothrow),
                         ::operator new(size, a),
                         ::operator new[](size, a)};
      for (void* block : blocks) {
        ASSERT_NE(opaque(block), nullptr);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % alignment, 0u) << size;
        memset(block, 1, size);
      }
      ::operator delete(blocks[0], a);
      ::operator delete[](blocks[1], a);
      ::operator delete(blocks[2], a, std::nothrow);
      ::operator delete[](blocks[3], a, std::nothrow);
      ::operator delete(blocks[4], size, a);
      ::operator delete[](blocks[5], size, a);
    }
  }
}

TEST(Operators, DeleteOfNull) {
  auto null = [] { return opaque(static_cast<void*>(nullptr)); };
  std::align_val_t a{64};
  ::operator delete(null());
  ::operator delete[](null());
  ::operator delete (null(), size_t{8});
  ::operator delete[](null(), size_t{8});
  ::operator delete(null(), std::nothrow);
  ::operator delete[](null(), std::nothrow);
  ::operator delete(null(), a);
  ::operator delete[](null(), a);
  ::operator delete (null(), size_t{8}, a);
  ::operator delete[](null(), size_t{8}, a);
  ::operator delete(null(), a, std::nothrow);
  ::operator delete[](null(), a, std::nothrow);
}

struct alignas(128) Wide {
  char bytes[200];
};

TEST(Operators, ExpressionsOfTheLanguage) {
  auto wide = opaque(new Wide[7]);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(wide) % 128, 0u);
  delete[] wide;
  std::vector<std::vector<int>> grid(100, std::vector<int>(1000, 3));
  for (int i = 0; i < 100; i++)
    grid[static_cast<size_t>(i)].resize(static_cast<size_t>(i) * 50 + 1);
  EXPECT_EQ(grid[99][10], 3);
}

class ImpossibleSizes : public testing::TestWithParam<size_t> {};

// The first size is one byte more than the address space of x86-64.
INSTANTIATE_TEST_SUITE_P(Operators, ImpossibleSizes,
                         testing::Values((size_t{1} << 47) + 1, (size_t{1} << 48) + 1,
                                         size_t{1} << 62, PTRDIFF_MAX - 4096, PTRDIFF_MAX,
                                         size_t{PTRDIFF_MAX} + 1, SIZE_MAX - 65536, SIZE_MAX));

TEST_P(ImpossibleSizes, ThrowBadAllocOnlyWhereTheyMay) {
  size_t size = opaque(GetParam());
  EXPECT_THROW(opaque(::operator new(size)), std::bad_alloc);
  EXPECT_THROW(opaque(::operator new[](size)), std::bad_alloc);
  EXPECT_NO_THROW(EXPECT_EQ(opaque(::operator new(size, std::nothrow)), nullptr));
  EXPECT_NO_THROW(EXPECT_EQ(opaque(::operator new[](size, std::nothrow)), nullptr));
  for (size_t alignment : {size_t{64}, size_t{1} << 40}) {
    // Libstdc++ 12 rounds it up to zero.
    if (!conform::is_seemalloc() && size > SIZE_MAX - alignment) continue;
    std::align_val_t a{alignment};
    EXPECT_THROW(opaque(::operator new(size, a)), std::bad_alloc);
    EXPECT_THROW(opaque(::operator new[](size, a)), std::bad_alloc);
    EXPECT_NO_THROW(EXPECT_EQ(opaque(::operator new(size, a, std::nothrow)), nullptr));
    EXPECT_NO_THROW(EXPECT_EQ(opaque(::operator new[](size, a, std::nothrow)), nullptr));
  }
}

TEST(Operators, TheExceptionIsExactlyBadAlloc) {
  try {
    opaque(::operator new(opaque(kImpossible)));
    FAIL() << "no exception";
  } catch (const std::exception& e) {
    EXPECT_EQ(typeid(e), typeid(std::bad_alloc));
    EXPECT_STREQ(e.what(), "std::bad_alloc");
  }
}

TEST(Operators, ArrayTooLongIsTheCompilersCase) {
  size_t count = opaque(SIZE_MAX / 4);
  EXPECT_THROW(opaque(new int[count]), std::bad_array_new_length);
  EXPECT_THROW(opaque(new Wide[count]), std::bad_array_new_length);
}

// State of the new-handlers; each test installs one and removes it.
int calls;
rlim_t allowed;

struct Handler {
  explicit Handler(std::new_handler f) { calls = 0, std::set_new_handler(f); }
  ~Handler() { std::set_new_handler(nullptr); }
};

void fail_at_first() {
  calls++;
  std::set_new_handler(nullptr);
}
void fail_at_third() {
  if (++calls == 3) std::set_new_handler(nullptr);
}
void throw_bad_alloc() {
  calls++;
  throw std::bad_alloc();
}
struct Derived : std::bad_alloc {};
void throw_derived_at_second() {
  if (++calls == 2) throw Derived();
}
void free_memory_at_second() {
  if (++calls < 2) return;
  rlimit limit;
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = allowed;
  setrlimit(RLIMIT_AS, &limit);
}

TEST(Operators, HandlerIsCalledAgainUntilThereIsNone) {
  size_t size = opaque(kImpossible);
  std::align_val_t a{256};
  {
    Handler handler(fail_at_third);
    EXPECT_THROW(opaque(::operator new(size)), std::bad_alloc);
    EXPECT_EQ(calls, 3);
  }
  {
    Handler handler(fail_at_third);
    EXPECT_THROW(opaque(::operator new[](size, a)), std::bad_alloc);
    EXPECT_EQ(calls, 3);
  }
  {
    Handler handler(fail_at_third);
    EXPECT_EQ(opaque(::operator new(size, std::nothrow)), nullptr);
    EXPECT_EQ(calls, 3) << "nothrow variants call the handler too";
  }
}

TEST(Operators, HandlersExceptionPassesThrough) {
  size_t size = opaque(kImpossible);
  Handler handler(throw_derived_at_second);
  EXPECT_THROW(opaque(::operator new(size)), Derived);
  EXPECT_EQ(calls, 2);
}

TEST(Operators, NothrowSwallowsTheHandlersException) {
  size_t size = opaque(kImpossible);
  std::align_val_t a{64};
  Handler handler(throw_bad_alloc);
  EXPECT_NO_THROW(EXPECT_EQ(opaque(::operator new(size, std::nothrow)), nullptr));
  EXPECT_NO_THROW(EXPECT_EQ(opaque(::operator new[](size, std::nothrow)), nullptr));
  EXPECT_NO_THROW(EXPECT_EQ(opaque(::operator new(size, a, std::nothrow)), nullptr));
  EXPECT_NO_THROW(EXPECT_EQ(opaque(::operator new[](size, a, std::nothrow)), nullptr));
  EXPECT_EQ(calls, 4);
}

TEST(Operators, AlignmentThatIsNoPowerOfTwoIsRefused) {
  Handler handler(fail_at_first);
  for (size_t alignment :
       {size_t{0}, size_t{3}, size_t{5}, size_t{7}, size_t{24}, size_t{96}, size_t{255},
        size_t{4095}, size_t{8193}, (size_t{2} << 20) + 64, SIZE_MAX, (size_t{1} << 63) + 1}) {
    std::align_val_t a{opaque(alignment)};
    for (size_t size :
         {size_t{0}, size_t{1}, size_t{100}, size_t{5000}, size_t{70000}, size_t{3} << 20}) {
      SCOPED_TRACE(testing::Message() << size << " aligned to " << alignment);
      EXPECT_THROW(opaque(::operator new(size, a)), std::bad_alloc);
      EXPECT_THROW(opaque(::operator new[](size, a)), std::bad_alloc);
      EXPECT_EQ(opaque(::operator new(size, a, std::nothrow)), nullptr);
      EXPECT_EQ(opaque(::operator new[](size, a, std::nothrow)), nullptr);
    }
  }
  EXPECT_EQ(calls, 0) << "the new-handler cannot help";
}

TEST(Operators, HandlerThatFreesMemoryIsFollowedBySuccess) {
  rlimit limit;
  getrlimit(RLIMIT_AS, &limit);
  allowed = limit.rlim_cur;
  limit.rlim_cur = size_t{1} << 30;
  Handler handler(free_memory_at_second);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  void* block = nullptr;
  EXPECT_NO_THROW(block = opaque(::operator new (size_t{2} << 30)));
  EXPECT_NE(block, nullptr);
  EXPECT_EQ(calls, 2);
  ::operator delete(block);
  limit.rlim_cur = allowed;
  setrlimit(RLIMIT_AS, &limit);
}

}  // namespace
