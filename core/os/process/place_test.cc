// Tests with addresses of this process.
#include "core/os/process/place.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "core/os/kernel/fault.h"
#include "core/os/kernel/memory.h"

namespace seemalloc::os {
namespace {

char zero_at_first[100000];
char initialised[100] = "data";
const char constant[100] = "constant";
thread_local char own[100];

template <typename T>
uintptr_t at(const T* p) {
  return reinterpret_cast<uintptr_t>(p);
}
Place place(uintptr_t address) {
  FixedText<256> file;
  return place_of(address, file);
}
std::string words(uintptr_t address) {
  FixedText<256> file;
  Place found = place_of(address, file);
  FixedText<512> text;
  print_place(found, file.c_str(), text);
  return text.c_str();
}
char* mapping(int rights) {
  return static_cast<char*>(mmap(nullptr, 65536, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

TEST(Place, OfEachKind) {
  char here = 1;
  EXPECT_EQ(place(at(&here)), Place::kOwnStack);
  EXPECT_EQ(place(at(zero_at_first)), Place::kStaticData);
  EXPECT_EQ(place(at(zero_at_first + sizeof(zero_at_first) - 1)), Place::kStaticData);
  EXPECT_EQ(place(at(initialised)), Place::kStaticData);
  EXPECT_EQ(place(at(constant)), Place::kConstantData);
  EXPECT_EQ(place(reinterpret_cast<uintptr_t>(&words)), Place::kCode);
  EXPECT_EQ(place(at(stdin)), Place::kStaticData) << "the C library's";
  EXPECT_EQ(place(at(own)), Place::kAnonymous) << "of the main thread";
  EXPECT_NE(words(at(zero_at_first)).find("static data of /"), std::string::npos);
  EXPECT_NE(words(at(zero_at_first)).find("place_test"), std::string::npos);
  std::thread([&] {
    char there = 1;
    EXPECT_EQ(place(at(&there)), Place::kOwnStackOrData);
    EXPECT_EQ(place(at(own)), Place::kOwnStackOrData);
    EXPECT_EQ(place(at(&here)), Place::kMainStack);
  }).join();
}

TEST(Place, OfMappings) {
  char* mine = mapping(PROT_READ | PROT_WRITE);
  EXPECT_EQ(place(at(mine + 5000)), Place::kAnonymous);
  mprotect(mine, 65536, PROT_NONE);
  EXPECT_EQ(place(at(mine + 5000)), Place::kNoAccess);
  munmap(mine, 65536);
  EXPECT_EQ(place(at(mine + 5000)), Place::kUnmapped);
  for (uintptr_t address :
       {uintptr_t{0}, uintptr_t{16}, uintptr_t{0x8000000000000000}, ~uintptr_t{0}}) {
    EXPECT_EQ(place(address), Place::kUnmapped) << address;
  }
}

// The program may have mapped any file as code. Its header may claim more than is mapped.
TEST(Place, ADamagedModuleIsNotReadBeyondItsFirstPage) {
  size_t page = page_bytes();
  auto memory =
      static_cast<char*>(mmap(nullptr, 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_EQ(mprotect(memory, page, PROT_READ | PROT_WRITE), 0);
  auto header = reinterpret_cast<Elf64_Ehdr*>(memory);
  memcpy(header->e_ident, ELFMAG, SELFMAG);
  char text[256];
  snprintf(text, sizeof(text),
           "%lx-%lx r-xp 00000000 08:01 5   /bin/x\n%lx-%lx rw-p 00000000 00:00 0\n", at(memory),
           at(memory + page), at(memory + page), at(memory + 2 * page));
  for (unsigned count : {1, 74, 65535}) {
    for (uint64_t offset :
         {uint64_t{0}, uint64_t{65}, uint64_t{page - 56}, uint64_t{page}, ~uint64_t{7}}) {
      header->e_phnum = static_cast<uint16_t>(count);
      header->e_phoff = offset;
      int fd = memfd_create("maps", MFD_CLOEXEC);
      ASSERT_EQ(write(fd, text, strlen(text)), static_cast<ssize_t>(strlen(text)));
      AnswerCall answer(SYS_openat, fd);
      EXPECT_EQ(place(at(memory + page)), Place::kAnonymous) << count << " at " << offset;
      EXPECT_TRUE(answer.asked());
    }
  }
  munmap(memory, 2 * page);
}

TEST(Place, IsUnknownWithoutProc) {
  fault_hook = [](long number) -> long { return number == SYS_openat ? -2 : 0; };
  EXPECT_EQ(place(at(initialised)), Place::kUnknown);
  EXPECT_EQ(words(at(initialised)), "");
  fault_hook = nullptr;
}

TEST(CanRead, WhatIsThereWhateverItsValue) {
  auto words_there = reinterpret_cast<unsigned*>(mapping(PROT_READ | PROT_WRITE));
  words_there[0] = 0;
  words_there[1] = 77;
  EXPECT_TRUE(can_read(at(&words_there[0])));
  EXPECT_TRUE(can_read(at(&words_there[1])));
  mprotect(words_there, 65536, PROT_READ);
  EXPECT_TRUE(can_read(at(&words_there[1])));
  EXPECT_TRUE(can_read(at(constant) / 4 * 4));
  mprotect(words_there, 65536, PROT_NONE);
  EXPECT_FALSE(can_read(at(&words_there[1])));
  munmap(words_there, 65536);
  EXPECT_FALSE(can_read(at(&words_there[1])));
  EXPECT_FALSE(can_read(0));
  EXPECT_FALSE(can_read(0xdeadbeefdeadbee0));
  EXPECT_FALSE(can_read(~uintptr_t{15}));
  fault_hook = [](long number) -> long { return number == SYS_futex ? -1 : 0; };
  EXPECT_FALSE(can_read(at(constant) / 4 * 4)) << "nothing is known where the call is refused";
  fault_hook = nullptr;
}

}  // namespace
}  // namespace seemalloc::os
