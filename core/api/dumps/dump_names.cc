#include "core/api/dumps/dump_names.h"

#include <atomic>

#include "core/api/settings/runtime_options.h"
#include "core/base/options.h"
#include "core/base/units.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/ids.h"

namespace seemalloc {

namespace {

// For %n, which starts at 1.
std::atomic<unsigned> names{0};
// Numbers of names made from dump_prefix, and of those by jemalloc's letter.
std::atomic<unsigned> prefixed{0};
std::atomic<unsigned> by_letter[kDumpReasons];
std::atomic<int> first_process{0};

void append_directive(char directive, unsigned number, Text& out) {
  switch (directive) {
    case 'p': out << os::process_id(); return;
    case 'n': out << number; return;
    case 't': out << os::realtime_ns() / kSecondNs; return;
    case '%': out << '%'; return;
    default: out << '%' << directive;
  }
}

void expand(const char* pattern, unsigned number, Text& out) {
  for (const char* at = pattern; *at != 0; at++) {
    if (*at != '%' || at[1] == 0) {
      out << *at;
    } else {
      append_directive(*++at, number, out);
    }
  }
}

unsigned next(std::atomic<unsigned>& count) {
  return count.fetch_add(1, std::memory_order_relaxed);
}

void append_four_digits(unsigned number, Text& out) {
  for (unsigned least = 1000; least > 1 && number < least; least /= 10) out << '0';
  out << number;
}

void gperftools_name(const char* prefix, Text& path) {
  path << prefix;
  int process = os::process_id();
  if (process != first_process.load(std::memory_order_relaxed)) path << '_' << process;
  path << '.';
  append_four_digits(next(prefixed) + 1, path);
  path << ".heap";
}

// By reason.
constexpr char kLetters[kDumpReasons] = {'i', 'h', 'u', 't', 'o', 'm', 'm', 'f'};

void jemalloc_name(DumpReason reason, const char* prefix, Text& path) {
  char letter = kLetters[static_cast<unsigned>(reason)];
  path << prefix << '.' << os::process_id() << '.' << next(prefixed) << '.' << letter;
  // Both have the letter m and share its number.
  if (reason == DumpReason::kSignal) reason = DumpReason::kRequested;
  if (reason != DumpReason::kExit) path << next(by_letter[static_cast<unsigned>(reason)]);
  path << ".heap";
}

void seemalloc_name(const char* prefix, Text& path) {
  unsigned number = next(names) + 1;
  expand(prefix, number, path);
  path << '.' << os::process_id() << '.' << number << ".heap.pb";
}

}  // namespace

bool dump_name_from(const char* pattern, Text& path) {
  expand(pattern, next(names) + 1, path);
  return !path.truncated();
}

bool next_dump_name(DumpReason reason, Text& path) {
  return next_dump_name(
      reason, static_cast<options::DumpNames>(options::get(options::Id::dump_names)), path);
}

bool next_dump_name(DumpReason reason, options::DumpNames form, Text& path) {
  FixedText<options::kMaxTextBytes> prefix;
  copy_text_option(options::Id::dump_prefix, prefix);
  bool empty = prefix.size() == 0;
  switch (form) {
    case options::DumpNames::kSeemalloc:
      seemalloc_name(empty ? "seemalloc" : prefix.c_str(), path);
      break;
    case options::DumpNames::kGperftools:
      gperftools_name(empty ? "seemalloc" : prefix.c_str(), path);
      break;
    case options::DumpNames::kJemalloc:
      jemalloc_name(reason, empty ? "jeprof" : prefix.c_str(), path);
      break;
  }
  return !path.truncated();
}

void init_dump_names() { first_process.store(os::process_id(), std::memory_order_relaxed); }

}  // namespace seemalloc
