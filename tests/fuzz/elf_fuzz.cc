// ELF images of any contents, in memory that ends at an unmapped page: the build id, the module's
// bounds, the description of an address, and the index of unwinding entries, which is made from the
// file of a static program. Nothing is read beyond the image.
//
// Input: the image.
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>

#include "core/base/units.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/memory.h"
#include "core/os/process/address_kind.h"
#include "core/profile/code/build_id.h"
#include "core/profile/code/eh_frame.h"
#include "core/profile/code/frame_index.h"
#include "core/profile/code/module_table.h"
#include "tests/fuzz/fuzz.h"

namespace seemalloc {
namespace {

constexpr size_t kImageBytes = 16384, kGuardBytes = size_t{1} << 20;

// Between unmapped ranges. The image is followed by zeros up to the next page.
char* image_memory() {
  static char* memory = [] {
    void* all = mmap(nullptr, kImageBytes + 2 * kGuardBytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(all != MAP_FAILED);
    return static_cast<char*>(all) + kGuardBytes;
  }();
  return memory;
}

int file_with(const std::string& text) {
  int fd = memfd_create("fuzz", MFD_CLOEXEC);
  CHECK(fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
        lseek(fd, 0, SEEK_SET) == 0);
  return fd;
}

void check_frame_index(const std::string& file, uintptr_t start, size_t mapped) {
  profile::Module program;
  program.start = start;
  program.end = start + mapped;
  os::AnswerCall answer(SYS_openat, file_with(file));
  const profile::FrameIndex* index = profile::make_frame_index(program);
  if (index == nullptr) return;
  CHECK(index->count != 0);
  for (size_t i = 0; i < index->count; i++) {
    CHECK(index->entries[i].function < mapped && index->entries[i].description < mapped);
    CHECK(i == 0 || index->entries[i - 1].function <= index->entries[i].function);
  }
  program.frame_index = index;
  program.tables_start = program.start, program.tables_end = program.end;
  profile::Row row;
  for (size_t offset = 0; offset < mapped; offset += 97)
    profile::find_row(program, start + offset, true, &row);
  size_t bytes =
      round_up(sizeof(*index) + index->count * sizeof(index->entries[0]), os::page_bytes());
  os::unmap(const_cast<profile::FrameIndex*>(index), bytes, os::Reason::kRecords);
}

void describe(uintptr_t start, size_t mapped) {
  char text[300];
  snprintf(text, sizeof(text),
           "%lx-%lx r-xp 00000000 08:01 5   /bin/x\n%lx-%lx rw-p 00000000 00:00 0\n", start,
           start + mapped, start + mapped, start + 2 * mapped);
  os::AnswerCall answer(SYS_openat, file_with(text));
  FixedText<256> file;
  os::classify_address(start + mapped, file);
}

}  // namespace
}  // namespace seemalloc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace seemalloc;
  if (size == 0 || size > kImageBytes) return 0;
  char* image = image_memory();
  size_t mapped = round_up(size, os::page_bytes());
  CHECK(mmap(image, kImageBytes, PROT_NONE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
        image);
  CHECK(mprotect(image, mapped, PROT_READ | PROT_WRITE) == 0);
  memcpy(image, data, size);
  auto start = reinterpret_cast<uintptr_t>(image);

  profile::BuildId id = profile::read_build_id(start);
  CHECK(id.size <= profile::BuildId::kMaxBytes);
  profile::Module module;
  if (profile::read_module(start, &module)) CHECK(module.start == start);
  describe(start, mapped);
  check_frame_index(std::string(reinterpret_cast<const char*>(data), size), start, mapped);
  return 0;
}
