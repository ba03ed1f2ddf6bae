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

  explicit Contents(int fd) {
    long got = fd < 0 ? 0 : sys(SYS_pread64, fd, as_long(text), sizeof(text), 0);
    if (!sys_failed(got)) length = static_cast<size_t>(got);
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

Contents read_retained(CheckedDescriptor* file, const char* folder, const char* name) {
  if (!file->is_ours()) {
    Path path;
    path << folder << name;
    file->set(open_high(path.c_str(), O_RDONLY));
  }
  return Contents(file->is_ours() ? file->fd : -1);
}

bool is_disabled_for_process() {
  long disabled = sys(SYS_prctl, kGetDisabled);
  return !sys_failed(disabled) && disabled != 0;
}

}  // namespace

// Read once: it depends only on the processor.
bool HugePageSetting::size_is_supported(const char* folder) {
  if (size_ == Size::kUnknown) {
    Path path;
    path << folder << "/hpage_pmd_size";
    int fd = open_high(path.c_str(), O_RDONLY);
    Contents contents(fd);
    if (fd >= 0) close_file(fd);
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

bool HugePageSetting::allows(const char* folder) {
  if (!size_is_supported(folder) || is_disabled_for_process()) return false;
  Contents one = read_retained(&size_file_, folder, "/hugepages-2048kB/enabled");
  if (one.selected_word_is("never")) return false;
  if (one.selected_word_is("always") || one.selected_word_is("madvise")) return true;
  Contents all = read_retained(&global_file_, folder, "/enabled");
  return all.selected_word_is("always") || all.selected_word_is("madvise");
}

void HugePageSetting::close() {
  size_file_.close();
  global_file_.close();
}

}  // namespace seemalloc::os
