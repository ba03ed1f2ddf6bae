// /proc/self/maps of any contents, read by its three readers: the table of a profile's mappings,
// the description of an invalid pointer, and the list of modules for C libraries without
// _dl_find_object. A text as the kernel writes it is understood.
//
// Input: the text; the last bytes choose an address and, for the kernel's format, the mappings.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "core/base/units.h"
#include "core/os/kernel/fault.h"
#include "core/os/process/address_kind.h"
#include "core/profile/code/module_table.h"
#include "core/profile/pprof/mappings.h"
#include "tests/fuzz/fuzz.h"

namespace seemalloc {
namespace {

using profile::Mapping;
using profile::Mappings;

int file_with(const std::string& text) {
  int fd = memfd_create("fuzz", MFD_CLOEXEC);
  CHECK(fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
        lseek(fd, 0, SEEK_SET) == 0);
  return fd;
}

void read_by_all(const std::string& text, uintptr_t address) {
  Mappings mappings;
  CHECK(mappings.parse(text.data(), text.size(), address));
  std::vector<bool> seen(mappings.size() + 1);
  for (size_t i = 0; i < mappings.size(); i++) {
    const Mapping& mapping = mappings[i];
    CHECK(mapping.path_bytes != 0 && mapping.path_at + mapping.path_bytes <= text.size());
    CHECK(mapping.id >= 1 && mapping.id <= mappings.size() && !seen[mapping.id]);
    seen[mapping.id] = true;
  }
  mappings.id_of(address);
  {
    os::AnswerCall answer(SYS_openat, file_with(text));
    FixedText<256> file, line;
    os::print_address_kind(os::classify_address(address, file), file.c_str(), line);
  }
  os::advance_test_clock(kSecondNs);  // otherwise the list is not read again
  os::AnswerCall answer(SYS_openat, file_with(text));
  profile::Module module;
  if (profile::find_in_module_table(address, &module))
    CHECK(address >= module.start && address < module.end);
  profile::reset_module_table();
}

// One line of each mapping, in the kernel's format, sorted.
void check_format(FuzzedDataProvider& input) {
  struct Line {
    uintptr_t start, end;
    bool executable, named;
  };
  std::vector<Line> lines;
  std::string text;
  uintptr_t at = 0x1000;
  for (unsigned count = input.ConsumeIntegralInRange<unsigned>(1, 12); count != 0; count--) {
    at += input.ConsumeIntegralInRange<uintptr_t>(0, 3) << 12;
    Line line{at, at + (input.ConsumeIntegralInRange<uintptr_t>(1, 9) << 12), input.ConsumeBool(),
              input.ConsumeBool()};
    at = line.end;
    bool deleted = input.ConsumeBool();
    char start[200];
    snprintf(start, sizeof(start), "%lx-%lx r-%cp %08x 08:01 %u", line.start, line.end,
             line.executable ? 'x' : '-', count << 12, count);
    // Every file differs from its neighbour's, so no mappings are merged.
    text += start;
    if (line.named) text += "   /lib/a " + std::to_string(count) + (deleted ? " (deleted)" : "");
    text += '\n';
    if (line.executable && line.named) lines.push_back(line);
  }
  Mappings mappings;
  CHECK(mappings.parse(text.data(), text.size(), lines.empty() ? 0 : lines.back().start));
  CHECK(mappings.size() == lines.size());
  for (size_t i = 0; i < lines.size(); i++) {
    CHECK(mappings[i].start == lines[i].start && mappings[i].limit == lines[i].end);
    CHECK(mappings.id_of(lines[i].start) == mappings[i].id &&
          mappings.id_of(lines[i].end - 1) == mappings[i].id);
    std::string path(mappings.path(mappings[i]), mappings[i].path_bytes);
    CHECK(path.rfind("/lib/a ", 0) == 0 && path.find('(') == std::string::npos);
  }
  if (!lines.empty()) CHECK(mappings[lines.size() - 1].id == 1);
}

}  // namespace
}  // namespace seemalloc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  auto address = input.ConsumeIntegral<uint32_t>();
  if (input.ConsumeBool()) {
    seemalloc::check_format(input);
  } else {
    seemalloc::read_by_all(input.ConsumeRemainingBytesAsString(), address);
  }
  return 0;
}
