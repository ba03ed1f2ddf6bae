#include "core/os/process/huge_page_setting.h"

#include <fcntl.h>

#include "core/base/text.h"
#include "core/base/units.h"
#include "core/os/kernel/files.h"
#include "core/os/kernel/syscall.h"
#include "core/os/process/socket.h"

namespace seemalloc::os {

namespace {

constexpr size_t kHugePageBytes = 2 * MiB;
constexpr long kGetDisabled = 42;  // PR_GET_THP_DISABLE, Linux 3.15; nonzero: disabled

using Path = FixedText<256>;

// The current contents of a small file; empty when it cannot be read.
struct Contents {
  char text[128];
  size_t length = 0;

  Contents(const char* folder, const char* name) {
    Path path;
    path << folder << name;
    int fd = open_high(path.c_str(), O_RDONLY);
    if (fd < 0) return;
    long got = read_at(fd, text, sizeof(text), 0);
    if (got > 0) length = static_cast<size_t>(got);
    close_file(fd);
  }
  // Whether this is the word in brackets.
  bool selected_word_is(const char* word) const {
    size_t first = 0;
    while (first < length && text[first] != '[') first++;
    size_t end = first;
    while (end < length && text[end] != ']') end++;
    return end < length && text_equal(text + first + 1, end - first - 1, word);
  }
};

// For this size, since Linux 6.8; it may defer to the setting for all sizes.
bool system_allows(const char* folder) {
  Contents one(folder, "/hugepages-2048kB/enabled");
  if (one.selected_word_is("never")) return false;
  if (one.selected_word_is("always") || one.selected_word_is("madvise")) return true;
  Contents all(folder, "/enabled");
  return all.selected_word_is("always") || all.selected_word_is("madvise");
}

bool is_disabled_for_process() {
  long disabled = sys(SYS_prctl, kGetDisabled);
  return !sys_failed(disabled) && disabled != 0;
}

}  // namespace

// Read once: it depends only on the processor.
bool HugePageSetting::size_is_supported(const char* folder) {
  if (size_ == Size::kUnknown) {
    Contents contents(folder, "/hpage_pmd_size");
    if (contents.length == 0) return false;
    size_t bytes = 0;
    for (size_t i = 0; i < contents.length && contents.text[i] >= '0' && contents.text[i] <= '9';
         i++) {
      bytes = bytes * 10 + static_cast<size_t>(contents.text[i] - '0');
    }
    size_ = bytes == kHugePageBytes ? Size::kOurs : Size::kOther;
  }
  return size_ == Size::kOurs;
}

bool HugePageSetting::allows(uint64_t now_ns, const char* folder) {
  if (!size_is_supported(folder) || is_disabled_for_process()) return false;
  if (now_ns < allowed_until_ns_) return true;
  bool allowed = system_allows(folder);
  allowed_until_ns_ = allowed ? now_ns + kKnownForNs : 0;
  return allowed;
}

}  // namespace seemalloc::os
