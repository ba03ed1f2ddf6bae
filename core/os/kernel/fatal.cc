#include "core/base/check.h"
#include "core/base/text.h"
#include "core/os/kernel/files.h"
#include "core/os/kernel/sandbox_state.h"
#include "core/os/kernel/syscall.h"

namespace seemalloc {

void warn(const char* text) {
  // A warning is not worth a system call that may end the process.
  if (os::calls_are_limited()) return;
  FixedText<512> line;
  line << "seemalloc: " << text;
  line.end_line();
  os::write_stderr(line.c_str(), line.size());
}

void (*before_abort)() = nullptr;

namespace {
[[noreturn]] void abort_now() {
  if (before_abort != nullptr) before_abort();
  // Not abort(): it may flush or lock inside a libc of unknown state. Sends SIGABRT to this thread,
  // then traps. Also in a sandbox: the process ends in any case.
  long process = os::raw_sys(SYS_getpid, 0, 0, 0, 0, 0, 0),
       thread = os::raw_sys(SYS_gettid, 0, 0, 0, 0, 0, 0);
  os::raw_sys(SYS_tgkill, process, thread, 6 /* SIGABRT */, 0, 0, 0);
  __builtin_trap();
}
}  // namespace

void fatal(const char* kind, const void* address) {
  FixedText<256> line;
  line << "seemalloc: " << kind << " " << Hex{reinterpret_cast<uint64_t>(address)} << "\n";
  os::write_stderr(line.c_str(), line.size());
  abort_now();
}

void fatal_text(const char* text) {
  FixedText<1024> line;
  line << "seemalloc: " << text;
  line.end_line();
  os::write_stderr(line.c_str(), line.size());
  abort_now();
}

void check_failed(const char* condition, const char* file, int line) {
  FixedText<512> text;
  text << "seemalloc: internal check failed: " << condition << " at " << file << ":" << line
       << "\n";
  os::write_stderr(text.c_str(), text.size());
  abort_now();
}

}  // namespace seemalloc
