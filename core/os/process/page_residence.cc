#include "core/os/process/page_residence.h"

#include <fcntl.h>

#include "core/os/kernel/memory.h"
#include "core/os/kernel/syscall.h"
#include "core/os/process/socket.h"
#include "core/os/runtime/scratch.h"

namespace seemalloc::os {

namespace {
// Bits of the word for each page (Documentation/admin-guide/mm/pagemap.rst).
constexpr uint64_t kPresent = uint64_t{1} << 63, kExclusive = uint64_t{1} << 56;
constexpr size_t kWords = 512;
}  // namespace

size_t PageResidence::exclusive_bytes(const void* start, size_t bytes) {
  if (!file_.is_ours()) file_.set(open_high("/proc/thread-self/pagemap", O_RDONLY));
  if (!file_.is_ours()) return 0;
  size_t first = reinterpret_cast<uintptr_t>(start) / page_bytes(), pages = bytes / page_bytes(),
         own = 0;
  struct Words {
    uint64_t at[kWords];
  };
  Scratch<Words> words;
  if (!words) return 0;
  for (size_t done = 0; done < pages;) {
    size_t part = pages - done < kWords ? pages - done : kWords;
    long got =
        sys(SYS_pread64, file_.fd, as_long(words->at), static_cast<long>(part * sizeof(uint64_t)),
            static_cast<long>((first + done) * sizeof(uint64_t)));
    if (sys_failed(got) || got < static_cast<long>(part * sizeof(uint64_t))) return 0;
    for (size_t i = 0; i < part; i++)
      own += (words->at[i] & kPresent) != 0 && (words->at[i] & kExclusive) != 0;
    done += part;
  }
  return own * page_bytes();
}

}  // namespace seemalloc::os
