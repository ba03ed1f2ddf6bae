// The surface: every function of the malloc family is there, is the subject's, and does what its manual page says.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <cerrno>
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

// What a program of today can name, and what old programs and run-time look-ups name besides.
constexpr const char* kFamily[] = {"malloc",         "free",          "calloc",        "realloc",
                                   "reallocarray",   "memalign",      "posix_memalign", "aligned_alloc",
                                   "valloc",         "pvalloc",       "malloc_usable_size", "malloc_trim",
                                   "malloc_stats",   "malloc_info",   "mallinfo",      "mallinfo2",
                                   "mallopt"};
constexpr const char* kAliases[] = {"__libc_malloc",   "__libc_free",   "__libc_calloc", "__libc_realloc",
                                    "__libc_memalign", "__libc_valloc", "__libc_pvalloc"};

TEST(Surface, TheWholeFamilyIsOneAllocators) {
  if (!conform::is_seemalloc()) GTEST_SKIP() << "glibc's is its own";
  for (const char* name : kFamily) EXPECT_TRUE(conform::is_ours(name)) << name;
  for (const char* name : kAliases) EXPECT_TRUE(conform::is_ours(name)) << name;
  if (!conform::is_static()) EXPECT_TRUE(conform::is_ours("cfree"));
}

// glibc keeps it under its old version only, for programs linked before 2.26.
TEST(Surface, CfreeFrees) {
  // A program only exports what a library on its link line defines by default; glibc's cfree has an old version alone.
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
  auto sized = conform::is_static() ? &free_sized : reinterpret_cast<void (*)(void*, size_t)>(conform::find("free_sized"));
  auto aligned = conform::is_static() ? &free_aligned_sized
                                  : reinterpret_cast<void (*)(void*, size_t, size_t)>(conform::find("free_aligned_sized"));
  ASSERT_NE(opaque(sized), nullptr);
  ASSERT_NE(opaque(aligned), nullptr);
  errno = 4242;
  for (size_t size : {size_t{0}, size_t{1}, size_t{8}, size_t{100}, size_t{5000}, size_t{100000}, size_t{3} << 20}) {
    sized(opaque(malloc(size)), size);
    aligned(opaque(aligned_alloc(64, size)), 64, size);
    aligned(opaque(aligned_alloc(8192, size)), 8192, size);
  }
  sized(nullptr, 0);
  aligned(nullptr, 64, 0);
  EXPECT_EQ(errno, 4242);
}

TEST(Surface, LibcNamesShareOneHeapWithTheFamily) {
  // Programs mix them: what __libc_malloc gives, free takes, and the other way round.
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
  if (!conform::is_seemalloc() || conform::is_static()) GTEST_SKIP() << "glibc does not export __posix_memalign";
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

// mallinfo is deprecated for its 32-bit counts; programs still ask it.
unsigned old_uordblks() {
  auto old = reinterpret_cast<struct mallinfo (*)()>(conform::find("mallinfo"));
  return static_cast<unsigned>(old().uordblks);
}

TEST(Surface, MallinfoTellsTheTruth) {
  struct mallinfo2 before = mallinfo2();
  unsigned before_int = old_uordblks();
  {
    Blocks blocks(10000, 1000);
    struct mallinfo2 during = mallinfo2();
    EXPECT_GE(during.uordblks, before.uordblks + 10000 * 1000);
    EXPECT_LE(during.uordblks, before.uordblks + 10000 * 1300 + (1 << 20));
    EXPECT_GE(during.arena + during.hblkhd, during.uordblks) << "more in use than was taken from the system";
    EXPECT_GE(old_uordblks(), before_int + 10000 * 1000);
  }
  struct mallinfo2 after = mallinfo2();
  EXPECT_LE(after.uordblks, before.uordblks + (1 << 20));
}

TEST(Surface, MallinfoCountsLargeBlocks) {
  struct mallinfo2 before = mallinfo2();
  Blocks blocks(4, size_t{32} << 20);
  struct mallinfo2 during = mallinfo2();
  // glibc books them apart as mmapped (hblkhd); either place is where a reader of mallinfo looks.
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
  EXPECT_LT(conform::resident_bytes() + (size_t{32} << 20), full) << "64 MiB were free; less than 32 MiB went back";
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

// Runs f with the two standard outputs kept in files; returns what went to each.
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
    while (size_t n = fread(buffer, 1, sizeof(buffer), files[i])) (i == 0 ? captured.out : captured.err).append(buffer, n);
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

// Just enough of XML: one root, tags balanced, attributes quoted. Returns what is wrong, or "".
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
  FILE* file = tmpfile();
  ASSERT_EQ(malloc_info(0, file), 0);
  rewind(file);
  std::string text(1 << 20, 0);
  text.resize(fread(text.data(), 1, text.size(), file));
  fclose(file);
  EXPECT_EQ(xml_problem(text), "") << text;
  EXPECT_NE(text.find("<malloc"), std::string::npos) << text;
}

TEST(Surface, MallocInfoRefusesUnknownOptions) {
  FILE* file = tmpfile();
  EXPECT_EQ(malloc_info(1, file), EINVAL);
  EXPECT_EQ(ftell(file), 0);
  fclose(file);
}

TEST(Surface, NothingElseGoesToStdout) {
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
