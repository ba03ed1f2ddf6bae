#include "core/os/process/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "core/base/text.h"
#include "core/os/kernel/ids.h"
#include "core/os/kernel/syscall.h"
#include "core/os/kernel/wait.h"

namespace seemalloc::os {

namespace sandbox {
constinit std::atomic<uint64_t> state{kNotDetectedYet};
constinit thread_local bool is_helper __attribute__((tls_model("initial-exec"))) = false;
}  // namespace sandbox

using namespace sandbox;

namespace {

enum class Filter : unsigned { kNone, kContainer, kSandbox };
// The filter state of a thread, from its status file.
struct FilterState {
  Filter filter = Filter::kNone;
  unsigned count = 0;  // number of filters (Linux 5.9)
  bool operator==(const FilterState&) const = default;
};

constinit std::atomic<bool> never{false}, in_container{false};
constinit std::atomic<FilterState> initial_filters{FilterState{}};

uint64_t one(bool for_all_threads) {
  return for_all_threads ? kOneProcessFilter : kOneThreadFilter;
}

// Finds the number behind "\nKEY:\t" in a text that is fed byte by byte.
class Field {
 public:
  explicit Field(const char* pattern) : pattern_(pattern) {}
  void feed(char c) {
    bool is_digit = c >= '0' && c <= '9';
    if (pattern_[matched_] == 0 && is_digit) {
      number_ = number_ * 10 + static_cast<unsigned>(c - '0');
    } else {
      matched_ = pattern_[matched_] != 0 && c == pattern_[matched_] ? matched_ + 1
                 : c == pattern_[0]                                 ? 1
                                                                    : 0;
    }
  }
  unsigned number() const { return number_; }

 private:
  const char* pattern_;
  unsigned matched_ = 0, number_ = 0;
};

bool has_value(const char* variable, const char* name_and_equals) {
  size_t length = text_length(name_and_equals);
  return text_equal(variable, length, name_and_equals) && variable[length] != 0;
}

// The part of a status file of /proc that concerns filters.
struct Status {
  long error = 0;  // -errno of the open call
  unsigned privileges = 0, mode = 0, count = 0;
};

Status read_status(const char* file) {
  long fd = raw_sys(SYS_openat, AT_FDCWD, as_long(file), O_RDONLY | O_CLOEXEC, 0, 0, 0);
  if (sys_failed(fd)) return {fd};
  Field privileges("\nNoNewPrivs:\t"), mode("\nSeccomp:\t"), count("\nSeccomp_filters:\t");
  char text[64];  // little stack is left here
  long bytes;
  unsigned interruptions = 0;
  while ((bytes = raw_sys(SYS_read, fd, as_long(text), sizeof(text), 0, 0, 0)) > 0 ||
         (bytes == -EINTR && ++interruptions < kMaxInterruptions)) {
    for (long i = 0; i < bytes; i++) {
      privileges.feed(text[i]);
      mode.feed(text[i]);
      count.feed(text[i]);
    }
  }
  raw_sys(SYS_close, fd, 0, 0, 0, 0, 0);
  return {0, privileges.number(), mode.number(), count.number()};
}

// A container runtime's filter returns errors, with or without no_new_privs. Kubernetes, podman and
// others set a variable. Docker leaves a file, but also runs containers without a filter: then the
// container's first process has none.
bool is_in_a_container() {
  char** variables = is_privileged() ? nullptr : environ;
  for (char** variable = variables; variable != nullptr && *variable != nullptr; variable++) {
    if (has_value(*variable, "KUBERNETES_SERVICE_HOST=") || has_value(*variable, "container="))
      return true;
  }
  for (const char* file : {"/.dockerenv", "/run/.containerenv"}) {
    long fd = raw_sys(SYS_openat, AT_FDCWD, as_long(file), O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (sys_failed(fd)) continue;
    raw_sys(SYS_close, fd, 0, 0, 0, 0, 0);
    return read_status("/proc/1/status").mode != 0;
  }
  return false;
}

// Uses open, read and close, which the dynamic linker has already needed. A filter installed by an
// unprivileged process comes with no_new_privs: a sandbox, which may kill. A filter without
// no_new_privs is a container runtime's, and returns errors.
FilterState read_filter_state() {
  Status status = read_status("/proc/thread-self/status");
  if (status.error == -EPERM || status.error == -EACCES || status.error == -ENOSYS)
    return {Filter::kSandbox};
  if (status.error != 0 || status.mode == 0) return {};  // no /proc, or no filter
  return {status.privileges == 0 ? Filter::kContainer : Filter::kSandbox, status.count};
}

// The runtime installs one filter: a second one was installed inside the container.
bool is_container_filter(const FilterState& seen) {
  return seen.count <= 1 && in_container.load(std::memory_order_relaxed);
}

// Another thread may run this at the same time and count a filter twice. That is harmless: filters
// found here are never removed from the count.
void detect_initial_filters() {
  FilterState found = read_filter_state();
  if (found.filter == Filter::kSandbox && is_in_a_container())
    in_container.store(true, std::memory_order_relaxed);
  initial_filters.store(found, std::memory_order_relaxed);
  bool is_sandbox = found.filter == Filter::kSandbox && !is_container_filter(found);
  if (is_sandbox) state.fetch_add(kOneProcessFilter, std::memory_order_relaxed);
  state.fetch_and(~kNotDetectedYet, std::memory_order_release);
}

}  // namespace

bool sandbox::calls_are_limited_slow(uint64_t now) {
  if (never.load(std::memory_order_relaxed)) return false;
  if (now == kNotDetectedYet) {
    detect_initial_filters();
    now = state.load(std::memory_order_relaxed);
  }
  return (now & kProcessFilters) != 0 || ((now & kThreadFilters) != 0 && !is_helper);
}

void limit_calls() { begin_filter_install(true); }
void never_limit_calls() { never.store(true, std::memory_order_relaxed); }

void begin_filter_install(bool for_all_threads) {
  state.fetch_add(one(for_all_threads), std::memory_order_seq_cst);
}
void filter_was_refused(bool for_all_threads) {
  state.fetch_sub(one(for_all_threads), std::memory_order_seq_cst);
}

bool is_in_a_sandbox() {
  if (never.load(std::memory_order_relaxed)) return false;
  if (calls_are_limited()) return true;
  FilterState now = read_filter_state();
  return now != initial_filters.load(std::memory_order_relaxed) ||
         (now.filter == Filter::kSandbox && !is_container_filter(now));
}

}  // namespace seemalloc::os
