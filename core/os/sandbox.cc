#include "core/os/sandbox.h"

#include <errno.h>
#include <fcntl.h>

#include "core/os/syscall.h"

namespace seemalloc::os {

namespace sandbox {
constinit std::atomic<uint64_t> state{kNotAskedYet};
constinit thread_local bool is_helper __attribute__((tls_model("initial-exec"))) = false;
}  // namespace sandbox

using namespace sandbox;

namespace {

enum class Filter { kNone, kContainer, kSandbox };

constinit std::atomic<bool> never{false};
constinit std::atomic<Filter> at_start{Filter::kNone};

uint64_t one(bool for_all_threads) { return for_all_threads ? kOneOfAll : kOneOfAThread; }

// The digit behind "\nKEY:\t" in a text that is read in pieces.
class Field {
 public:
  explicit Field(const char* pattern) : pattern_(pattern) {}
  void feed(char c) {
    if (pattern_[matched_] == 0) {
      digit_ = c;
      matched_ = 0;
    }
    matched_ = c == pattern_[matched_] ? matched_ + 1 : c == pattern_[0] ? 1 : 0;
  }
  char digit() const { return digit_; }

 private:
  const char* pattern_;
  unsigned matched_ = 0;
  char digit_ = '0';
};

// By open, read and close, which the dynamic linker has needed before us. A filter from a process without privileges comes with
// no_new_privs: a sandbox, which may kill. One without it is by a container's runtime, whose programs are to do what they like: it refuses.
Filter look_for_filter() {
  long fd = raw_sys(SYS_openat, AT_FDCWD, as_long("/proc/thread-self/status"), O_RDONLY | O_CLOEXEC, 0, 0, 0);
  if (fd == -EPERM || fd == -EACCES || fd == -ENOSYS) return Filter::kSandbox;
  if (sys_failed(fd)) return Filter::kNone;  // no /proc
  Field privileges("\nNoNewPrivs:\t"), mode("\nSeccomp:\t");
  char text[256];
  long bytes;
  while ((bytes = raw_sys(SYS_read, fd, as_long(text), sizeof(text), 0, 0, 0)) > 0 || bytes == -EINTR) {
    for (long i = 0; i < bytes; i++) {
      privileges.feed(text[i]);
      mode.feed(text[i]);
    }
  }
  raw_sys(SYS_close, fd, 0, 0, 0, 0, 0);
  if (mode.digit() == '0') return Filter::kNone;
  return privileges.digit() == '0' ? Filter::kContainer : Filter::kSandbox;
}

// Another thread may ask meanwhile and count a filter once more. Those that are found are never taken back.
void find_out() {
  Filter found = look_for_filter();
  at_start.store(found, std::memory_order_relaxed);
  if (found == Filter::kSandbox) state.fetch_add(kOneOfAll, std::memory_order_relaxed);
  state.fetch_and(~kNotAskedYet, std::memory_order_release);
}

}  // namespace

bool sandbox::is_limited_slow(uint64_t now) {
  if (never.load(std::memory_order_relaxed)) return false;
  if (now == kNotAskedYet) {
    find_out();
    now = state.load(std::memory_order_relaxed);
  }
  return (now & kOfAll) != 0 || ((now & kOfThreads) != 0 && !is_helper);
}

void limit_calls() { expect_filter(true); }
void never_limit_calls() { never.store(true, std::memory_order_relaxed); }

void expect_filter(bool for_all_threads) { state.fetch_add(one(for_all_threads), std::memory_order_seq_cst); }
void filter_was_refused(bool for_all_threads) { state.fetch_sub(one(for_all_threads), std::memory_order_seq_cst); }

bool is_in_a_sandbox() {
  if (never.load(std::memory_order_relaxed)) return false;
  if (is_limited()) return true;
  Filter found = look_for_filter();
  return found == Filter::kSandbox || found != at_start.load(std::memory_order_relaxed);
}

}  // namespace seemalloc::os
