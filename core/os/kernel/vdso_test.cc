#include "core/os/kernel/vdso.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/auxv.h>

#include <cstring>
#include <vector>

#include "core/os/kernel/fault.h"

namespace seemalloc::os {
namespace {

uint64_t ns_of(const timespec& t) {
  return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

TEST(Vdso, ClocksMatchTheKernel) {
  for (clockid_t clock : {CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_MONOTONIC_COARSE,
                          CLOCK_THREAD_CPUTIME_ID, CLOCK_PROCESS_CPUTIME_ID}) {
    timespec before{}, ours{}, after{};
    ASSERT_EQ(raw_sys(SYS_clock_gettime, clock, as_long(&before), 0, 0, 0, 0), 0);
    read_clock(clock, &ours);
    ASSERT_EQ(raw_sys(SYS_clock_gettime, clock, as_long(&after), 0, 0, 0, 0), 0);
    EXPECT_LE(ns_of(before), ns_of(ours)) << clock;
    EXPECT_LE(ns_of(ours), ns_of(after)) << clock;
  }
}

TEST(Vdso, AnUnknownClockLeavesTheTimeAsItWas) {
  timespec time{5, 6};
  read_clock(12345, &time);
  EXPECT_EQ(time.tv_sec, 5);
  EXPECT_EQ(time.tv_nsec, 6);
}

#if defined(__x86_64__)
constexpr const char* kClock = "__vdso_clock_gettime";
#else
constexpr const char* kClock = "__kernel_clock_gettime";
#endif

TEST(Vdso, FindsTheKernelsFunction) {
  uintptr_t image = getauxval(AT_SYSINFO_EHDR);
  if (image == 0) GTEST_SKIP() << "no vDSO";
  uintptr_t found = find_in_vdso(image, kClock);
  ASSERT_NE(found, 0u);
  timespec time{};
  EXPECT_EQ(reinterpret_cast<int (*)(clockid_t, timespec*)>(found)(CLOCK_REALTIME, &time), 0);
  EXPECT_GT(time.tv_sec, 1500000000);
  EXPECT_EQ(find_in_vdso(image, "__vdso_clock_get"), 0u);
  EXPECT_EQ(find_in_vdso(image, ""), 0u);
}

// An image as a kernel might provide it. `base` is the address that its first segment states.
struct Image {
  ElfW(Ehdr) header;
  ElfW(Phdr) segments[2];
  ElfW(Dyn) dynamic[5];
  ElfW(Sym) symbols[4];
  char names[64];
  uint32_t hash[2 + 1 + 4];  // header, one bucket, a chain of the four symbols
  // Header, one word of the filter, one bucket, a chain of three symbols.
  alignas(8) uint32_t gnu_hash[4 + 2 + 1 + 3];
};

class MadeVdso : public testing::Test {
 protected:
  void make(uintptr_t base, int hash_tag) {
    memset(&image_, 0, sizeof(image_));
    memcpy(image_.header.e_ident, ELFMAG, SELFMAG);
    image_.header.e_phoff = offsetof(Image, segments);
    image_.header.e_phentsize = sizeof(ElfW(Phdr));
    image_.header.e_phnum = 2;
    image_.segments[0].p_type = PT_LOAD;
    image_.segments[0].p_vaddr = base;
    image_.segments[1].p_type = PT_DYNAMIC;
    image_.segments[1].p_vaddr = base + offsetof(Image, dynamic);
    size_t hash_at = hash_tag == DT_HASH ? offsetof(Image, hash) : offsetof(Image, gnu_hash);
    image_.dynamic[0] = {DT_SYMTAB, {base + offsetof(Image, symbols)}};
    image_.dynamic[1] = {DT_STRTAB, {base + offsetof(Image, names)}};
    image_.dynamic[2] = {hash_tag, {base + hash_at}};
    memcpy(image_.names, "\0object\0undefined\0function", 26);
    set_symbol(1, 1, STT_OBJECT, 1, 0x40);
    set_symbol(2, 8, STT_FUNC, SHN_UNDEF, 0x50);
    set_symbol(3, 18, STT_FUNC, 1, 0x60);
    for (ElfW(Sym) & symbol : image_.symbols) symbol.st_value += symbol.st_value != 0 ? base : 0;
    uint32_t* table = image_.hash;
    table[0] = 1, table[1] = 4;
    table[2] = 3, table[3 + 3] = 2, table[3 + 2] = 1;
    table = image_.gnu_hash;
    table[0] = 1, table[1] = 1, table[2] = 1, table[3] = 6;
    table[4] = table[5] = ~0u;  // a filter that accepts all names
    table[6] = 1;
    for (uint32_t i = 1; i < 4; i++)
      table[6 + i] = gnu_hash_of(image_.names + image_.symbols[i].st_name) & ~1u;
    table[9] |= 1;
  }
  void set_symbol(int at, unsigned name, unsigned char type, uint16_t section, uintptr_t value) {
    image_.symbols[at].st_name = name;
    image_.symbols[at].st_info = ELF64_ST_INFO(STB_GLOBAL, type);
    image_.symbols[at].st_shndx = section;
    image_.symbols[at].st_value = value;
  }
  static uint32_t gnu_hash_of(const char* name) {
    uint32_t hash = 5381;
    for (; *name != 0; name++) hash = hash * 33 + static_cast<unsigned char>(*name);
    return hash;
  }
  uintptr_t find(const char* name) {
    return find_in_vdso(reinterpret_cast<uintptr_t>(&image_), name);
  }
  uintptr_t at(uintptr_t offset) { return reinterpret_cast<uintptr_t>(&image_) + offset; }
  alignas(4096) Image image_;
};

TEST_F(MadeVdso, IsReadByEitherTableAndAnyBase) {
  for (int tag : {DT_HASH, DT_GNU_HASH}) {
    for (uintptr_t base : {uintptr_t{0}, uintptr_t{0x700000}}) {
      make(base, tag);
      EXPECT_EQ(find("function"), at(0x60)) << tag << " " << base;
      EXPECT_EQ(find("object"), 0u);
      EXPECT_EQ(find("undefined"), 0u);
      EXPECT_EQ(find("functio"), 0u);
    }
  }
}

TEST_F(MadeVdso, WithoutItsTablesHasNothing) {
  make(0, DT_HASH);
  image_.dynamic[1].d_tag = DT_DEBUG;
  EXPECT_EQ(find("function"), 0u);
  make(0, DT_BIND_NOW);
  EXPECT_EQ(find("function"), 0u);
  make(0, DT_HASH);
  image_.segments[1].p_type = PT_NOTE;
  EXPECT_EQ(find("function"), 0u);
  make(0, DT_HASH);
  image_.header.e_ident[1] = 'F';
  EXPECT_EQ(find("function"), 0u);
}

TEST_F(MadeVdso, WithNoSymbolInItsGnuTableHasNothing) {
  make(0, DT_GNU_HASH);
  image_.gnu_hash[6] = 0;
  EXPECT_EQ(find("function"), 0u);
  make(0, DT_GNU_HASH);
  image_.gnu_hash[4] = image_.gnu_hash[5] = 0;
  EXPECT_EQ(find("function"), 0u);
}

// The dynamic linker treats such objects as empty.
TEST_F(MadeVdso, WithoutBucketsHasNothing) {
  make(0, DT_GNU_HASH);
  image_.gnu_hash[0] = 0;
  EXPECT_EQ(find("function"), 0u);
  make(0, DT_GNU_HASH);
  image_.gnu_hash[2] = 0;
  EXPECT_EQ(find("function"), 0u);
  make(0, DT_HASH);
  image_.hash[0] = 0;
  EXPECT_EQ(find("function"), 0u);
}

}  // namespace
}  // namespace seemalloc::os
