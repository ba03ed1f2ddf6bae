#include "core/profile/pprof/mappings.h"

#include <gtest/gtest.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "core/os/kernel/syscall.h"

namespace seemalloc::profile {
namespace {

std::string path_of(const Mappings& mappings, size_t i) {
  return std::string(mappings.path(mappings[i]), mappings[i].path_bytes);
}

TEST(Mappings, ReadsTheTableOfAProcess) {
  const std::string text =
      "55d0c0000000-55d0c0001000 r--p 00000000 08:01 131 /usr/bin/a program (v2)\n"
      "55d0c0001000-55d0c0005000 r-xp 00001000 08:01 131 /usr/bin/a program (v2)\n"
      "55d0c0005000-55d0c0006000 rw-p 00005000 08:01 131 /usr/bin/a program (v2)\n"
      "55d0c1000000-55d0c1021000 rw-p 00000000 00:00 0                          [heap]\n"
      "7f0000000000-7f0000100000 r-xp 00000000 00:00 0 \n"
      "7f1000000000-7f1000020000 r--p 00000000 08:01 777                        /lib/libold.so (deleted)\n"
      "7f1000020000-7f1000030000 r-xp 00020000 08:01 777                        /lib/libold.so (deleted)\n"
      "7f1000030000-7f1000040000 r-xp 00030000 08:01 777                        /lib/libold.so (deleted)\n"
      "7f2000000000-7f2000010000 r-xp 00000000 08:01 778                        /lib/lib one.so\n"
      "7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0                          [vdso]\n"
      "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]";
  Mappings mappings;
  ASSERT_TRUE(mappings.parse(text.data(), text.size(), 0x55d0c0001234));
  ASSERT_EQ(mappings.size(), 5u);

  EXPECT_EQ(path_of(mappings, 0), "/usr/bin/a program (v2)");
  EXPECT_EQ(mappings[0].start, 0x55d0c0001000u);
  EXPECT_EQ(mappings[0].limit, 0x55d0c0005000u);
  EXPECT_EQ(mappings[0].file_offset, 0x1000u);
  EXPECT_EQ(mappings[0].file_start, 0x55d0c0000000u);

  // The mark of a deleted file is removed; one segment in two mappings is merged.
  EXPECT_EQ(path_of(mappings, 1), "/lib/libold.so");
  EXPECT_EQ(mappings[1].start, 0x7f1000020000u);
  EXPECT_EQ(mappings[1].limit, 0x7f1000040000u);
  EXPECT_EQ(mappings[1].file_start, 0x7f1000000000u);

  EXPECT_EQ(path_of(mappings, 2), "/lib/lib one.so");
  EXPECT_EQ(mappings[2].file_start, mappings[2].start);
  EXPECT_EQ(path_of(mappings, 3), "[vdso]");
  EXPECT_EQ(path_of(mappings, 4), "[vsyscall]");
  EXPECT_EQ(mappings[4].limit, 0xffffffffff601000u);

  EXPECT_EQ(mappings.id_of(0x55d0c0001000), 1u);
  EXPECT_EQ(mappings.id_of(0x55d0c0000fff), 0u);
  EXPECT_EQ(mappings.id_of(0x55d0c0005000), 0u);
  EXPECT_EQ(mappings.id_of(0x7f0000000000), 0u);  // generated code
  EXPECT_EQ(mappings.id_of(0x7f1000035000), 2u);
  EXPECT_EQ(mappings.id_of(0x7ffd00001fff), 4u);
  EXPECT_EQ(mappings.id_of(UINT64_MAX), 0u);
}

TEST(Mappings, PutsTheMainBinaryFirst) {
  const std::string text =
      "1000-2000 r-xp 00000000 08:01 1 /lib/a.so\n"
      "3000-4000 r-xp 00000000 08:01 2 /bin/main\n"
      "5000-6000 r-xp 00000000 08:01 3 /lib/b.so\n";
  Mappings mappings;
  ASSERT_TRUE(mappings.parse(text.data(), text.size(), 0x3100));
  EXPECT_EQ(mappings.id_of(0x3000), 1u);
  EXPECT_EQ(mappings.id_of(0x1000), 2u);
  EXPECT_EQ(mappings.id_of(0x5000), 3u);
}

// Files without code between those with code: their lines are dropped.
TEST(Mappings, FindsTheCodeAmongManyMappings) {
  std::string text;
  constexpr unsigned kFiles = 300;
  unsigned at = 0x1000;
  auto add = [&](const char* rights, unsigned offset, const std::string& path) {
    char line[300];
    snprintf(line, sizeof(line), "%x-%x %s %08x 08:01 1 %s\n", at, at + 0x1000, rights, offset,
             path.c_str());
    at += 0x1000;
    text += line;
  };
  for (unsigned i = 0; i < kFiles; i++) {
    std::string name = "/lib/lib" + std::to_string(i) + std::string(i % 90, 'x') + ".so";
    for (unsigned j = 0; j < i % 5; j++) add("r--s", 0, "/data/" + std::string(i % 70, 'y'));
    add("r--p", 0, name);
    for (unsigned j = 0; j < i % 3; j++) add("rw-p", 0, "");
    if (i % 4 == 1) add("r--s", 0x5000, "/data/other");
    add("r-xp", 0x1000, name);
    add("r-xp", 0x2000, name);
    add("rw-p", 0x3000, name);
  }
  Mappings mappings;
  ASSERT_TRUE(mappings.parse(text.data(), text.size(), 0));
  ASSERT_EQ(mappings.size(), kFiles);
  for (unsigned i = 0; i < kFiles; i++) {
    EXPECT_EQ(path_of(mappings, i),
              "/lib/lib" + std::to_string(i) + std::string(i % 90, 'x') + ".so");
    EXPECT_EQ(mappings[i].limit - mappings[i].start, 0x2000u);
    EXPECT_EQ(mappings[i].file_start,
              mappings[i].start - 0x1000 * (1 + i % 3 + (i % 4 == 1 ? 1 : 0)));
  }
}

TEST(Mappings, TakesAnyText) {
  for (const char* text : {"", "\n\n", "zzz", "1000", "1000-", "1000-2000", "1000-2000 r-xp",
                           "1000-2000 r-xp 0 0 0", "1000-2000 r-xp 00000000 08:01 1 /x"}) {
    Mappings mappings;
    EXPECT_TRUE(mappings.parse(text, strlen(text), 0)) << text;
    EXPECT_EQ(mappings.size(), std::string(text).ends_with("/x") ? 1u : 0u) << text;
  }
}

TEST(Mappings, KnowsThisProcess) {
  Mappings mappings;
  ASSERT_TRUE(mappings.read());
  ASSERT_GE(mappings.size(), 3u);
  EXPECT_EQ(mappings.id_of(reinterpret_cast<uintptr_t>(&path_of)), 1u);  // this executable
  EXPECT_EQ(mappings.id_of(getauxval(AT_ENTRY)), 1u);
  uint64_t libc = mappings.id_of(reinterpret_cast<uintptr_t>(&fopen));
  EXPECT_GT(libc, 1u);
  bool vdso = false;
  for (size_t i = 0; i < mappings.size(); i++) vdso = vdso || path_of(mappings, i) == "[vdso]";
  EXPECT_TRUE(vdso);
}

TEST(Mappings, IsEmptyWithoutProc) {
  os::fault_hook = [](long number) -> long { return number == SYS_openat ? -2 : 0; };
  Mappings mappings;
  bool good = mappings.read();
  os::fault_hook = nullptr;
  EXPECT_TRUE(good);
  EXPECT_EQ(mappings.size(), 0u);
}

// The build id of a file as printed by readelf.
std::string build_id_from_readelf(const std::string& path) {
  FILE* pipe =
      popen(("readelf -n '" + path + "' 2>/dev/null | sed -n 's/.*Build ID: //p'").c_str(), "r");
  char line[128] = {};
  if (pipe == nullptr || fgets(line, sizeof(line), pipe) == nullptr) line[0] = 0;
  if (pipe != nullptr) pclose(pipe);
  std::string id = line;
  while (!id.empty() && id.back() == '\n') id.pop_back();
  return id;
}

TEST(BuildId, AgreesWithReadelf) {
  Mappings mappings;
  ASSERT_TRUE(mappings.read());
  int compared = 0;
  for (size_t i = 0; i < mappings.size(); i++) {
    std::string path = path_of(mappings, i);
    if (path[0] != '/') continue;
    std::string expected = build_id_from_readelf(path);
    if (expected.empty()) continue;
    BuildId id = read_build_id(mappings[i].file_start);
    std::string hex;
    for (size_t b = 0; b < id.size; b++) {
      char digits[3];
      snprintf(digits, sizeof(digits), "%02x", id.bytes[b]);
      hex += digits;
    }
    EXPECT_EQ(hex, expected) << path;
    compared++;
  }
  if (compared == 0) GTEST_SKIP() << "no readelf";
}

TEST(BuildId, ReadsTheVdso) { EXPECT_GT(read_build_id(getauxval(AT_SYSINFO_EHDR)).size, 0u); }

TEST(BuildId, NeverFaults) {
  EXPECT_EQ(read_build_id(0).size, 0u);
  EXPECT_EQ(read_build_id(UINTPTR_MAX - 10).size, 0u);
  const char text[] =
      "no ELF file at all, but long enough to be read as a header and then to be told from one";
  EXPECT_EQ(read_build_id(reinterpret_cast<uintptr_t>(text)).size, 0u);
  // A real header with segments that point nowhere.
  char* page = static_cast<char*>(
      mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  memcpy(page, reinterpret_cast<void*>(getauxval(AT_SYSINFO_EHDR)), 4096);
  munmap(page + 4096, 4096);
  for (size_t i = 16; i < 1024; i++) {
    char kept = page[i];
    page[i] = static_cast<char>(0xff);
    read_build_id(reinterpret_cast<uintptr_t>(page));
    page[i] = kept;
  }
  munmap(page, 4096);
}

}  // namespace
}  // namespace seemalloc::profile
