// jemalloc's control names: any name is found or refused, by name and by number alike, and a value
// is read within its size.
//
// Input: the name; the last bytes choose the size of the value.
#include <errno.h>
#include <string.h>

#include <memory>
#include <string>

#include "core/compat/mallctl.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  seemalloc::fuzz::choose(seemalloc::options::Id::helper, "0");
  // prof.dump is refused by the system.
  seemalloc::fuzz::choose(seemalloc::options::Id::dump_prefix, "/nonexistent/dump");
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace seemalloc::compat;
  FuzzedDataProvider input(data, size);
  size_t bytes = input.ConsumeIntegralInRange<size_t>(0, 64);
  std::string name = input.ConsumeRemainingBytesAsString().c_str();
  std::unique_ptr<char[]> value(new char[bytes]);  // exactly as long: writes beyond are found
  size_t by_name_bytes = bytes, by_mib_bytes = bytes;
  size_t mib[8], length = std::size(mib);
  int found = name_to_mib(name.c_str(), mib, &length);
  CHECK(found == 0 || found == ENOENT || found == EINVAL);
  int by_name = control(name.c_str(), value.get(), &by_name_bytes, nullptr, 0);
  CHECK(found == 0 || by_name != 0);
  if (found != 0) return 0;
  CHECK(length >= 1 && length <= std::size(mib));
  int by_mib = control_by_mib(mib, length, value.get(), &by_mib_bytes, nullptr, 0);
  CHECK(by_name == by_mib && by_name_bytes == by_mib_bytes);
  return 0;
}
