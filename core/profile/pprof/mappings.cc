#include "core/profile/pprof/mappings.h"

#include <fcntl.h>
#include <sys/auxv.h>

#include <cstring>

#include "core/base/text.h"
#include "core/os/kernel/auxiliary_vector.h"
#include "core/os/kernel/files.h"
#include "core/profile/code/unloaded_modules.h"

namespace seemalloc::profile {

namespace {

// Parses one line of /proc/self/maps.
struct Cursor {
  const char* at;
  const char* end;

  uint64_t hex() {
    uint64_t value = 0;
    for (; at < end; at++) {
      unsigned digit;
      if (*at >= '0' && *at <= '9') {
        digit = static_cast<unsigned>(*at - '0');
      } else if (*at >= 'a' && *at <= 'f') {
        digit = static_cast<unsigned>(*at - 'a') + 10;
      } else {
        break;
      }
      value = value << 4 | digit;
    }
    return value;
  }
  void skip_word() {
    while (at < end && *at != ' ') at++;
  }
  void skip_spaces() {
    while (at < end && *at == ' ') at++;
  }
};

constexpr char kDeleted[] = " (deleted)";
constexpr size_t kDeletedBytes = sizeof(kDeleted) - 1;

}  // namespace

bool Mappings::read() {
  constexpr size_t kStepBytes = 16 * KiB;
  int fd = os::open_file("/proc/thread-self/maps", O_RDONLY);
  if (fd >= 0) {
    long got = 1;
    while (got > 0 && text_.reserve(text_.size() + kStepBytes)) {
      got = os::read_some(fd, text_.data() + text_.size(), kStepBytes);
      if (got > 0) text_.set_size(text_.size() + static_cast<size_t>(got));
      take_lines(got <= 0);
    }
    os::close_file(fd);
  }
  return finish(os::auxiliary_value(AT_ENTRY));
}

bool Mappings::parse(const char* text, size_t bytes, uintptr_t entry) {
  if (!text_.reserve(bytes)) return false;
  if (bytes != 0) memcpy(text_.data(), text, bytes);
  text_.set_size(bytes);
  take_lines(true);
  return finish(entry);
}

// Reads the lines behind the kept text, and keeps those with paths that are needed. A process may
// have 65,530 mappings and more, most of them without code.
void Mappings::take_lines(bool is_end) {
  size_t at = kept_bytes_;
  while (at < text_.size()) {
    size_t end = at;
    while (end < text_.size() && text_[end] != '\n') end++;
    if (end == text_.size() && !is_end) break;
    take_line(at, end);
    at = end < text_.size() ? end + 1 : end;
  }
  size_t rest = text_.size() - at;
  if (rest != 0) memmove(text_.data() + kept_bytes_, text_.data() + at, rest);
  text_.set_size(kept_bytes_ + rest);
}

void Mappings::take_line(size_t at, size_t end) {
  size_t bytes = end - at, to = kept_bytes_, count = mappings_.size();
  if (bytes == 0) return;
  memmove(text_.data() + to, text_.data() + at, bytes);
  add_line(to, to + bytes);
  if (mappings_.size() != count) {
    kept_bytes_ = needed_bytes_ = to + bytes;
  } else if (file_.path_bytes != 0 && file_.path_at >= to) {
    // Replaces the last line that started a file, unless a mapping needs that.
    memmove(text_.data() + needed_bytes_, text_.data() + to, bytes);
    file_.path_at -= to - needed_bytes_;
    kept_bytes_ = needed_bytes_ + bytes;
  }
}

// Numbers the mappings.
bool Mappings::finish(uintptr_t entry) {
  loaded_ = mappings_.size();
  // The first mapping of a profile is the main binary; the others follow in order.
  size_t main = 0;
  for (size_t i = 0; i < mappings_.size(); i++) {
    if (entry >= mappings_[i].start && entry < mappings_[i].limit) main = i;
  }
  for (size_t i = 0; i < mappings_.size(); i++)
    mappings_[i].id = i == main ? 1 : i < main ? i + 2 : i + 1;
  return !text_.failed() && !mappings_.failed();
}

// The format of a line: start-limit permissions offset device inode    path
void Mappings::add_line(size_t at, size_t end) {
  Cursor cursor{text_.data() + at, text_.data() + end};
  Mapping line = {};
  line.start = cursor.hex();
  if (cursor.at == cursor.end || *cursor.at++ != '-') return;
  line.limit = cursor.hex();
  cursor.skip_spaces();
  bool executable = cursor.end - cursor.at >= 4 && cursor.at[2] == 'x';
  cursor.skip_word();
  cursor.skip_spaces();
  line.file_offset = cursor.hex();
  for (int word = 0; word < 2; word++) {
    cursor.skip_spaces();
    cursor.skip_word();
  }
  cursor.skip_spaces();
  line.path_at = static_cast<size_t>(cursor.at - text_.data());
  line.path_bytes = end - line.path_at;
  if (line.path_bytes > kDeletedBytes &&
      memcmp(text_.data() + end - kDeletedBytes, kDeleted, kDeletedBytes) == 0) {
    line.path_bytes -= kDeletedBytes;
  }
  // anonymous: if it holds code, that was generated at run time, and no file describes it
  if (line.path_bytes == 0) return;

  if (line.file_offset == 0) file_ = line;
  if (!executable) return;
  bool same_file =
      file_.path_bytes == line.path_bytes && memcmp(path(file_), path(line), line.path_bytes) == 0;
  line.file_start = same_file ? file_.start : 0;
  if (mappings_.size() != 0) {
    // The kernel may split a segment into several mappings (huge pages, mprotect). They are merged
    // here.
    Mapping& last = mappings_[mappings_.size() - 1];
    bool continues = last.limit == line.start && last.file_start == line.file_start && same_file &&
                     last.file_offset + (last.limit - last.start) == line.file_offset;
    if (continues) {
      last.limit = line.limit;
      return;
    }
  }
  mappings_.push(line);
}

bool Mappings::add_unloaded() {
  for (; unloaded_ < unloaded_count(); unloaded_++) {
    const UnloadedCode& code = unloaded_code(unloaded_);
    size_t path_at = text_.size();
    if (!text_.reserve(path_at + code.path_bytes)) return false;
    memcpy(text_.data() + path_at, code.path, code.path_bytes);
    text_.set_size(path_at + code.path_bytes);
    size_t id = mappings_.size() == 0 ? 2 : mappings_.size() + 1;  // 1 is the main binary
    mappings_.push({id, code.start, code.limit, code.file_offset, path_at, code.path_bytes, 0,
                    &code.build_id});
  }
  return !mappings_.failed();
}

uint64_t Mappings::id_of(uintptr_t address) const {
  bool gone = is_unloaded_code(address);
  size_t low = gone ? loaded_ : 0, high = gone ? mappings_.size() : loaded_;
  while (low < high) {
    size_t middle = (low + high) / 2;
    const Mapping& mapping = mappings_[middle];
    if (address < mapping.start) {
      high = middle;
    } else if (address >= mapping.limit) {
      low = middle + 1;
    } else {
      return mapping.id;
    }
  }
  return 0;
}

}  // namespace seemalloc::profile
