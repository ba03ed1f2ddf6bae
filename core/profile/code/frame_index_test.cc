// The index made from a program's .eh_frame gives the same results as the linker's own.
#include "core/profile/code/frame_index.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <random>

#include "core/base/seed_for_test.h"
#include "core/base/units.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/memory.h"
#include "core/profile/code/eh_frame.h"
#include "core/profile/code/modules.h"

namespace seemalloc::profile {
namespace {

Module this_program() {
  Module module;
  EXPECT_TRUE(find_module(reinterpret_cast<uintptr_t>(&this_program), &module));
  EXPECT_TRUE(module.main_program);
  EXPECT_NE(module.eh_frame_header, 0u) << "there is nothing to compare with";
  return module;
}

void release(const FrameIndex* index) {
  size_t bytes =
      round_up(sizeof(FrameIndex) + index->count * sizeof(FrameIndex::Entry), os::page_bytes());
  os::unmap(const_cast<FrameIndex*>(index), bytes, os::Reason::kRecords);
}

TEST(FrameIndex, MatchesTheLinkersIndex) {
  Module by_header = this_program(), by_index = by_header;
  by_index.frame_index = make_frame_index(by_header);
  ASSERT_NE(by_index.frame_index, nullptr);
  EXPECT_GT(by_index.frame_index->count, 100u);
  unsigned seed = seed_for_test();
  std::mt19937_64 random(seed);
  unsigned found = 0;
  for (int i = 0; i < 100000; i++) {
    uintptr_t pc = by_header.start + random() % (by_header.end - by_header.start);
    Row expected, row;
    memset(&expected, 0, sizeof(expected));
    memset(&row, 0, sizeof(row));
    bool known = find_row(by_header, pc, true, &expected);
    found += known;
    ASSERT_EQ(find_row(by_index, pc, true, &row), known)
        << "seed " << seed << ", at " << pc - by_header.start;
    if (known)
      ASSERT_EQ(memcmp(&row, &expected, sizeof(row)), 0)
          << "seed " << seed << ", at " << pc - by_header.start;
  }
  EXPECT_GT(found, 1000u);
  EXPECT_EQ(by_index.frame_index->find(by_header, by_header.start), 0u)
      << "before the first function";
  release(by_index.frame_index);
}

TEST(FrameIndex, IsNoneWhereTheFileCannotBeReadOrMemoryIsRefused) {
  Module program = this_program();
  for (long number : {SYS_openat, SYS_pread64, SYS_mmap}) {
    os::FailCalls refuse(number, EACCES);
    EXPECT_EQ(make_frame_index(program), nullptr) << number;
    EXPECT_GT(refuse.refusals(), 0u);
  }
  // The file ends early. Each of the reads is needed.
  unsigned needed = 0;
  for (;; needed++) {
    os::FailCalls refuse(SYS_pread64, EIO, 1, needed);
    const FrameIndex* index = make_frame_index(program);
    if (index == nullptr) continue;
    EXPECT_EQ(refuse.refusals(), 0u);
    release(index);
    break;
  }
  EXPECT_GT(needed, 5u);
  Module elsewhere = program;
  elsewhere.end = elsewhere.start + 4096;
  EXPECT_EQ(make_frame_index(elsewhere), nullptr) << ".eh_frame lies beyond it";
}

// The sections of a damaged file may be anywhere. This one's are before its memory.
TEST(FrameIndex, IsNoneWhereTheSectionsLieOutsideOfTheModule) {
  size_t page = os::page_bytes();
  auto memory =
      static_cast<char*>(mmap(nullptr, 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  char* image = memory + page;
  ASSERT_EQ(mprotect(image, page, PROT_READ | PROT_WRITE), 0);
  auto header = reinterpret_cast<Elf64_Ehdr*>(image);
  header->e_phoff = 64, header->e_phnum = 2, header->e_shoff = 256, header->e_shnum = 2,
  header->e_shentsize = sizeof(Elf64_Shdr);
  auto parts = reinterpret_cast<Elf64_Phdr*>(image + 64);
  parts[0].p_type = parts[1].p_type = PT_LOAD;
  parts[0].p_vaddr = page, parts[1].p_vaddr = 0;
  parts[1].p_filesz = page;
  auto sections = reinterpret_cast<Elf64_Shdr*>(image + 256);
  sections[0].sh_offset = 512;  // the names
  strcpy(image + 512, ".eh_frame");
  sections[1].sh_flags = SHF_ALLOC, sections[1].sh_size = 100;
  for (uint64_t address : {uint64_t{0}, uint64_t{page - 100}}) {
    sections[1].sh_addr = address;
    int fd = memfd_create("program", MFD_CLOEXEC);
    ASSERT_EQ(write(fd, image, page), static_cast<ssize_t>(page));
    os::AnswerCall answer(SYS_openat, fd);
    Module module;
    module.start = reinterpret_cast<uintptr_t>(image), module.end = module.start + page;
    EXPECT_EQ(make_frame_index(module), nullptr) << address;
    EXPECT_TRUE(answer.was_called());
  }
  munmap(memory, 2 * page);
}

}  // namespace
}  // namespace seemalloc::profile
