// The API surface: every function of the malloc family exists, is defined by the allocator under
// test, and behaves as its manual page describes.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "harness/subject.h"

extern "C" {
__attribute__((weak)) void free_sized(void*, size_t);
__attribute__((weak)) void free_aligned_sized(void*, size_t, size_t);
__attribute__((weak)) void* __libc_malloc(size_t);
__attribute__((weak)) void __libc_free(void*);
__attribute__((weak)) void* __libc_calloc(size_t, size_t);
__attribute__((weak)) void* __libc_realloc(void*, size_t);
__attribute__((weak)) void* __libc_memalign(size_t, size_t);
__attribute__((weak)) void* __libc_valloc(size_t);
__attribute__((weak)) void* __libc_pvalloc(size_t);
}

namespace {

using conform::opaque;

// The names that current programs can use, and those that old programs and run-time lookups use in
// addition.
constexpr const char* kFamily[] = {"malloc",
                                   "free",
                                   "calloc",
                                   "realloc",
                                   "reallocarray",
                                   "memalign",
                                   "posix_memalign",
                                   "aligned_alloc",
                                   "valloc",
                                   "pvalloc",
                                   "malloc_usable_size",
                                   "malloc_trim",
                                   "malloc_stats",
                                   "malloc_info",
                                   "mallinfo",
                                   "mallinfo2",
                                   "mallopt"};
constexpr const char* kAliases[] = {"__libc_malloc",  "__libc_free",     "__libc_calloc",
                                    "__libc_realloc", "__libc_memalign", "__libc_valloc",
                                    "__libc_pvalloc"};

TEST(Surface, AllCallsBelongToOneAllocator) {
  if (!conform::is_seemalloc()) GTEST_SKIP() << "glibc's is its own";
  for (const char* name : kFamily) EXPECT_TRUE(conform::is_defined_by_subject(name)) << name;
  for (const char* name : kAliases) EXPECT_TRUE(conform::is_defined_by_subject(name)) << name;
  if (!conform::is_static()) {
    EXPECT_TRUE(conform::is_defined_by_subject("cfree"));
  }
}

// glibc keeps cfree under its old symbol version only, for programs linked before 2.26.
TEST(Surface, CfreeFrees) {
  // By default a program exports a symbol only if a library on its link line defines it; glibc's
  // cfree has only an old version.
  if (conform::is_static()) GTEST_SKIP() << "not exported by a program that links the archive";
  void* address = conform::find("cfree");
  if (address == nullptr) address = dlvsym(RTLD_DEFAULT, "cfree", "GLIBC_2.2.5");
  auto cfree = reinterpret_cast<void (*)(void*)>(address);
  ASSERT_NE(cfree, nullptr);
  cfree(opaque(malloc(100)));
  cfree(nullptr);
}

TEST(Surface, SizedFrees) {
  if (!conform::is_seemalloc()) GTEST_SKIP() << "C23, not in glibc 2.36";
  auto sized = conform::is_static()
                   ? &free_sized
                   : reinterpret_cast<void (*)(void*, size_t)>(conform::find("free_sized"));
  auto aligned =
      conform::is_static()
          ? &free_aligned_sized
          : reinterpret_cast<void (*)(void*, size_t, size_t)>(conform::find("free_aligned_sized"));
  ASSERT_NE(opaque(sized), nullptr);
  ASSERT_NE(opaque(aligned), nullptr);
  errno = 4242;
  for (size_t size : {size_t{0}, size_t{1}, size_t{8}, size_t{100}, size_t{5000}, size_t{100000},
                      size_t{3} << 20}) {
    sized(opaque(malloc(size)), size);
    aligned(opaque(aligned_alloc(64, size)), 64, size);
    aligned(opaque(aligned_alloc(8192, size)), 8192, size);
  }
  sized(nullptr, 0);
  aligned(nullptr, 64, 0);
  EXPECT_EQ(errno, 4242);
}

TEST(Surface, LibcNamesShareOneHeapWithTheFamily) {
  // Programs mix them: free takes blocks of __libc_malloc, and the other way round.
  auto a = opaque(static_cast<char*>(__libc_malloc(100)));
  ASSERT_NE(a, nullptr);
  memset(a, 7, malloc_usable_size(a));
  a = opaque(static_cast<char*>(realloc(a, 10000)));
  EXPECT_EQ(a[99], 7);
  __libc_free(a);

  auto b = opaque(static_cast<char*>(__libc_calloc(10, 100)));
  EXPECT_EQ(b[0] | b[999], 0);
  b = opaque(static_cast<char*>(__libc_realloc(b, 5)));
  free(b);

  void* c = opaque(__libc_memalign(1024, 10));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(c) % 1024, 0u);
  free(c);
  size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* d = opaque(__libc_valloc(10));
  void* e = opaque(__libc_pvalloc(10));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(d) % page, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(e) % page, 0u);
  free(d);
  free(e);
  __libc_free(opaque(malloc(33)));
}

TEST(Surface, PosixMemalignHasItsLibcName) {
  if (!conform::is_seemalloc() || conform::is_static())
    GTEST_SKIP() << "glibc does not export __posix_memalign";
  auto f = reinterpret_cast<int (*)(void**, size_t, size_t)>(conform::find("__posix_memalign"));
  ASSERT_NE(f, nullptr);
  void* p = nullptr;
  ASSERT_EQ(f(&p, 256, 100), 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 256, 0u);
  free(p);
}

// Blocks of one size, freed at the end of the scope.
struct Blocks {
  std::vector<void*> held;
  Blocks(size_t count, size_t size) {
    held.reserve(count);
    for (size_t i = 0; i < count; i++) held.push_back(opaque(malloc(size)));
  }
  ~Blocks() {
    for (void* block : held) free(block);
  }
};

// mallinfo is deprecated for its 32-bit counts; programs still call it.
unsigned old_uordblks() {
  auto old = reinterpret_cast<struct mallinfo (*)()>(conform::find("mallinfo"));
  return static_cast<unsigned>(old().uordblks);
}

TEST(Surface, MallinfoIsCorrect) {
  struct mallinfo2 before = mallinfo2();
  unsigned before_int = old_uordblks();
  {
    Blocks blocks(10000, 1000);
    struct mallinfo2 during = mallinfo2();
    EXPECT_GE(during.uordblks, before.uordblks + 10000 * 1000);
    EXPECT_LE(during.uordblks, before.uordblks + 10000 * 1300 + (1 << 20));
    EXPECT_GE(during.arena + during.hblkhd, during.uordblks)
        << "more in use than was taken from the system";
    EXPECT_GE(old_uordblks(), before_int + 10000 * 1000);
  }
  struct mallinfo2 after = mallinfo2();
  EXPECT_LE(after.uordblks, before.uordblks + (1 << 20));
}

TEST(Surface, MallinfoCountsLargeBlocks) {
  struct mallinfo2 before = mallinfo2();
  Blocks blocks(4, size_t{32} << 20);
  struct mallinfo2 during = mallinfo2();
  // glibc counts large blocks separately as mmapped (hblkhd); readers of mallinfo look at both
  // fields.
  EXPECT_GE(during.uordblks + during.hblkhd, before.uordblks + before.hblkhd + (size_t{128} << 20));
}

TEST(Surface, TrimGivesFreeMemoryBack) {
  std::vector<void*> pins;
  {
    std::vector<void*> blocks;
    for (size_t i = 0; i < 4096; i++) {
      void* block = opaque(malloc(16384));
      memset(block, 1, 16384);
      (i % 64 == 63 ? pins : blocks).push_back(block);
    }
    for (void* block : blocks) free(block);
  }
  size_t full = conform::resident_bytes();
  errno = 4242;
  EXPECT_EQ(malloc_trim(0), 1);
  EXPECT_EQ(errno, 4242);
  EXPECT_LT(conform::resident_bytes() + (size_t{32} << 20), full)
      << "64 MiB were free; less than 32 MiB went back";
  for (void* pin : pins) free(pin);
  malloc_trim(size_t{1} << 20);
}

TEST(Surface, MalloptTakesGlibcsParameters) {
  EXPECT_EQ(mallopt(M_TRIM_THRESHOLD, 128 * 1024), 1);
  EXPECT_EQ(mallopt(M_TOP_PAD, 64 * 1024), 1);
  EXPECT_EQ(mallopt(M_MMAP_THRESHOLD, 128 * 1024), 1);
  EXPECT_EQ(mallopt(M_MMAP_MAX, 65536), 1);
  EXPECT_EQ(mallopt(M_ARENA_MAX, 2), 1);
  EXPECT_EQ(mallopt(M_ARENA_TEST, 2), 1);
  EXPECT_EQ(mallopt(M_CHECK_ACTION, 3), 1);
  EXPECT_EQ(mallopt(M_MXFAST, 64), 1);
  EXPECT_EQ(mallopt(M_MXFAST, 1 << 20), 0) << "out of range is refused";
  free(opaque(malloc(200000)));
}

// Runs f with stdout and stderr redirected to files; returns the text written to each.
struct Captured {
  std::string out, err;
};
template <class F>
Captured capture(F f) {
  Captured captured;
  int saved[2] = {dup(1), dup(2)};
  FILE* files[2] = {tmpfile(), tmpfile()};
  fflush(stdout);
  dup2(fileno(files[0]), 1);
  dup2(fileno(files[1]), 2);
  f();
  fflush(stdout);
  dup2(saved[0], 1);
  dup2(saved[1], 2);
  for (int i : {0, 1}) {
    close(saved[i]);
    rewind(files[i]);
    char buffer[4096];
    while (size_t n = fread(buffer, 1, sizeof(buffer), files[i]))
      (i == 0 ? captured.out : captured.err).append(buffer, n);
    fclose(files[i]);
  }
  return captured;
}

TEST(Surface, MallocStatsGoToStderr) {
  Captured captured = capture([] { malloc_stats(); });
  EXPECT_EQ(captured.out, "");
  EXPECT_NE(captured.err, "");
  EXPECT_EQ(captured.err.back(), '\n');
}

// The number after a name, searched from `at` on; *at is set behind it. Fails when the name is
// missing.
size_t number_after(const std::string& text, const std::string& name, size_t* at) {
  size_t found = text.find(name, *at);
  EXPECT_NE(found, std::string::npos) << name << " is missing in " << text.substr(*at);
  if (found == std::string::npos) return 0;
  *at = found + name.size();
  while (*at < text.size() && text[*at] == ' ') ++*at;
  EXPECT_TRUE(isdigit(static_cast<unsigned char>(text[*at]))) << name << " in " << text;
  return strtoull(text.c_str() + *at, nullptr, 10);
}

// The lines that scripts read, in glibc's order, with figures that follow the program's blocks.
TEST(Surface, MallocStatsHaveGlibcsLines) {
  constexpr size_t kHuge = 40 << 20, kSmall = 1000, kCount = 5000;
  auto read = [](size_t(&figures)[6]) {
    std::string text = capture([] { malloc_stats(); }).err;
    // With more than one arena the totals come last.
    size_t at = 0;
    EXPECT_NE(text.find("Arena 0:\nsystem bytes     = "), std::string::npos) << text;
    figures[0] = number_after(text, "system bytes     =", &at);
    figures[1] = number_after(text, "in use bytes     =", &at);
    at = text.find("Total (incl. mmap):\n");
    ASSERT_NE(at, std::string::npos) << text;
    figures[2] = number_after(text, "system bytes     =", &at);
    figures[3] = number_after(text, "in use bytes     =", &at);
    figures[4] = number_after(text, "max mmap regions =", &at);
    figures[5] = number_after(text, "max mmap bytes   =", &at);
  };
  size_t before[6] = {}, during[6] = {}, after[6] = {};
  read(before);
  {
    Blocks blocks(kCount, kSmall);
    void* huge = malloc(kHuge);
    read(during);
    free(huge);
  }
  read(after);
  EXPECT_GE(during[3], before[3] + kHuge + kCount * kSmall);
  EXPECT_LT(during[3], before[3] + kHuge + kCount * kSmall * 3 / 2);
  EXPECT_LT(after[3], during[3] - kHuge);
  EXPECT_GE(during[2], during[3]);
  EXPECT_GE(during[0], during[1]);
  EXPECT_GE(after[4], 1u);
  EXPECT_GE(after[5], kHuge);
  EXPECT_EQ(after[5], during[5]) << "the most there was";
}

std::string malloc_info_text() {
  FILE* file = tmpfile();
  EXPECT_EQ(malloc_info(0, file), 0);
  rewind(file);
  std::string text(1 << 20, 0);
  text.resize(fread(text.data(), 1, text.size(), file));
  fclose(file);
  return text;
}

// glibc's elements: those of each heap, then those of all heaps.
TEST(Surface, MallocInfoHasGlibcsElements) {
  constexpr size_t kHuge = 40 << 20;
  void* huge = malloc(kHuge);
  { Blocks blocks(1000, 600); }
  std::string text = malloc_info_text();
  free(huge);
  EXPECT_EQ(text.rfind("<malloc version=\"1\">\n", 0), 0u) << text;
  size_t at = text.find("<heap nr=\"0\">");
  ASSERT_NE(at, std::string::npos) << text;
  size_t free_bytes = 0, sizes_end = text.find("</sizes>", at);
  ASSERT_NE(sizes_end, std::string::npos);
  for (size_t row = text.find("<size ", at); row < sizes_end; row = text.find("<size ", row)) {
    size_t from = number_after(text, "from=\"", &row), to = number_after(text, "to=\"", &row);
    size_t total = number_after(text, "total=\"", &row),
           count = number_after(text, "count=\"", &row);
    EXPECT_LE(from, to);
    EXPECT_LE(total, count * to);
    EXPECT_GE(total, count * from);
    free_bytes += total;
  }
  at = sizes_end;
  const std::string kFast = "<total type=\"fast\" count=\"",
                    kRest = "<total type=\"rest\" count=\"", kSize = "\" size=\"";
  number_after(text, kFast, &at);
  number_after(text, kRest, &at);
  EXPECT_GE(number_after(text, kSize, &at), free_bytes / 2);
  size_t current = number_after(text, "<system type=\"current\" size=\"", &at);
  EXPECT_GE(number_after(text, "<system type=\"max\" size=\"", &at), current);
  number_after(text, "<aspace type=\"total\" size=\"", &at);
  number_after(text, "<aspace type=\"mprotect\" size=\"", &at);
  at = text.rfind("</heap>");
  ASSERT_NE(at, std::string::npos);
  number_after(text, kFast, &at);
  number_after(text, kRest, &at);
  EXPECT_GE(number_after(text, "<total type=\"mmap\" count=\"", &at), 1u);
  EXPECT_GE(number_after(text, kSize, &at), kHuge);
  number_after(text, "<system type=\"current\" size=\"", &at);
  number_after(text, "<system type=\"max\" size=\"", &at);
  number_after(text, "<aspace type=\"total\" size=\"", &at);
  number_after(text, "<aspace type=\"mprotect\" size=\"", &at);
}

// Both calls agree. A number that does not fit into an int field is reported as INT_MAX, not as a
// negative one.
TEST(Surface, MallinfoAgreesWithItsWiderForm) {
  constexpr size_t kHuge = size_t{3} << 30;
  void* huge = malloc(kHuge);
  if (huge == nullptr) GTEST_SKIP() << "no 3 GiB of address space are to be had";
  struct mallinfo2 wide = mallinfo2();
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  struct mallinfo narrow = mallinfo();
#pragma GCC diagnostic pop
  free(huge);
  EXPECT_GE(wide.hblkhd, kHuge);
  EXPECT_EQ(wide.arena, wide.uordblks + wide.fordblks);
  EXPECT_EQ(narrow.arena, static_cast<int>(wide.arena));
  EXPECT_EQ(narrow.hblks, static_cast<int>(wide.hblks));
  // glibc truncates the number instead.
  if (getenv("EXPECT_SEEMALLOC") != nullptr) {
    EXPECT_EQ(narrow.hblkhd, INT_MAX);
  }
}

// Checks the little XML that is needed: one root, balanced tags, quoted attributes. Returns the
// problem, or "".
std::string xml_problem(const std::string& text) {
  std::vector<std::string> open;
  size_t at = 0;
  bool rooted = false;
  while ((at = text.find('<', at)) != std::string::npos) {
    size_t end = text.find('>', at);
    if (end == std::string::npos) return "a tag without end";
    std::string tag = text.substr(at + 1, end - at - 1);
    at = end + 1;
    if (tag.empty() || tag.find('<') != std::string::npos) return "a bad tag <" + tag + ">";
    if (tag[0] == '?' || tag[0] == '!') continue;
    bool closing = tag[0] == '/', alone = tag.back() == '/';
    std::string name = tag.substr(closing, tag.find_first_of(" /\n", closing) - closing);
    size_t quotes = 0, equals = 0;
    for (char c : tag) quotes += c == '"', equals += c == '=';
    if (quotes != 2 * equals) return "an attribute without quotes in <" + tag + ">";
    if (closing) {
      if (open.empty() || open.back() != name) return "</" + name + "> closes nothing";
      open.pop_back();
      continue;
    }
    if (open.empty() && rooted) return "a second root <" + name + ">";
    rooted = true;
    if (!alone) open.push_back(name);
  }
  if (!open.empty()) return "<" + open.back() + "> is never closed";
  return rooted ? "" : "no element at all";
}

TEST(Surface, MallocInfoWritesXml) {
  Blocks blocks(1000, 100);
  std::string text = malloc_info_text();
  EXPECT_EQ(xml_problem(text), "") << text;
  EXPECT_NE(text.find("<malloc"), std::string::npos) << text;
}

TEST(Surface, MallocInfoRefusesUnknownOptions) {
  FILE* file = tmpfile();
  EXPECT_EQ(malloc_info(1, file), EINVAL);
  EXPECT_EQ(ftell(file), 0);
  fclose(file);
}

TEST(Surface, NothingIsWrittenToStdout) {
  Captured captured = capture([] {
    Blocks blocks(1000, 1000);
    malloc_trim(0);
    mallopt(M_TOP_PAD, 1 << 16);
    free(opaque(malloc(opaque(SIZE_MAX))));
  });
  EXPECT_EQ(captured.out, "");
  EXPECT_EQ(captured.err, "");
}

}  // namespace
