// Tests with addresses of this process.
#include "core/os/process/address_kind.h"

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
AddressKind place(uintptr_t address) {
  FixedText<256> file;
  return classify_address(address, file);
}
std::string words(uintptr_t address) {
  FixedText<256> file;
  AddressKind found = classify_address(address, file);
  FixedText<512> text;
  print_address_kind(found, file.c_str(), text);
  return text.c_str();
}
char* mapping(int rights) {
  return static_cast<char*>(mmap(nullptr, 65536, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

TEST(AddressKind, OfEachKind) {
  char here = 1;
  EXPECT_EQ(place(at(&here)), AddressKind::kOwnStack);
  EXPECT_EQ(place(at(zero_at_first)), AddressKind::kStaticData);
  EXPECT_EQ(place(at(zero_at_first + sizeof(zero_at_first) - 1)), AddressKind::kStaticData);
  EXPECT_EQ(place(at(initialised)), AddressKind::kStaticData);
  EXPECT_EQ(place(at(constant)), AddressKind::kConstantData);
  EXPECT_EQ(place(reinterpret_cast<uintptr_t>(&words)), AddressKind::kCode);
  EXPECT_EQ(place(at(stdin)), AddressKind::kStaticData) << "the C library's";
  EXPECT_EQ(place(at(own)), AddressKind::kAnonymous) << "of the main thread";
  EXPECT_NE(words(at(zero_at_first)).find("static data of /"), std::string::npos);
  EXPECT_NE(words(at(zero_at_first)).find("address_kind_test"), std::string::npos);
  std::thread([&] {
    char there = 1;
    EXPECT_EQ(place(at(&there)), AddressKind::kOwnStackOrData);
    EXPECT_EQ(place(at(own)), AddressKind::kOwnStackOrData);
    EXPECT_EQ(place(at(&here)), AddressKind::kMainStack);
  }).join();
}

TEST(AddressKind, OfMappings) {
  char* mine = mapping(PROT_READ | PROT_WRITE);
  EXPECT_EQ(place(at(mine + 5000)), AddressKind::kAnonymous);
  mprotect(mine, 65536, PROT_NONE);
  EXPECT_EQ(place(at(mine + 5000)), AddressKind::kNoAccess);
  munmap(mine, 65536);
  EXPECT_EQ(place(at(mine + 5000)), AddressKind::kUnmapped);
  for (uintptr_t address :
       {uintptr_t{0}, uintptr_t{16}, uintptr_t{0x8000000000000000}, ~uintptr_t{0}}) {
    EXPECT_EQ(place(address), AddressKind::kUnmapped) << address;
  }
}

// The program may have mapped any file as code. Its header may claim more than is mapped.
TEST(AddressKind, ADamagedModuleIsNotReadBeyondItsFirstPage) {
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
      EXPECT_EQ(place(at(memory + page)), AddressKind::kAnonymous) << count << " at " << offset;
      EXPECT_TRUE(answer.was_called());
    }
  }
  munmap(memory, 2 * page);
}

TEST(AddressKind, IsUnknownWithoutProc) {
  fault_hook = [](long number) -> long { return number == SYS_openat ? -2 : 0; };
  EXPECT_EQ(place(at(initialised)), AddressKind::kUnknown);
  EXPECT_EQ(words(at(initialised)), "");
  fault_hook = nullptr;
}

TEST(CanRead, PresentPagesWhateverTheirValue) {
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
