// In the debug library only (core/CMakeLists.txt).
#include "core/api/malloc/verify_often.h"

#include <errno.h>
#include <unistd.h>

#include <atomic>

#include "core/api/settings/foreign_options.h"
#include "core/heap/reports/verify.h"
#include "core/os/runtime/lock.h"
#include "core/os/runtime/scratch.h"

namespace seemalloc {

namespace {

constexpr unsigned kDefault = 4096, kUnread = UINT32_MAX;
std::atomic<unsigned> every{kUnread}, operations{0};

unsigned read_every() {
  const char* text = environment_value(environ, "SEEMALLOC_VERIFY_EVERY");
  if (text == nullptr) return kDefault;
  unsigned number = 0;
  for (; *text >= '0' && *text <= '9' && number < kDefault * 100; text++)
    number = number * 10 + static_cast<unsigned>(*text - '0');
  return number;
}

bool is_due() {
  unsigned period = every.load(std::memory_order_relaxed);
  if (period == kUnread) {
    if (environ == nullptr) return false;  // before the C library has it
    period = read_every();
    every.store(period, std::memory_order_relaxed);
  }
  return period != 0 && (operations.fetch_add(1, std::memory_order_relaxed) + 1) % period == 0;
}

}  // namespace

void verify_if_due() noexcept {
  bool in_the_midst = locks_held != 0 || fork_holds_every_lock || os::in_nested_call;
  if (in_the_midst || !is_due()) return;
  int saved_errno = errno;
  heap::require_sound(heap::verify_all());
  errno = saved_errno;
}

}  // namespace seemalloc
