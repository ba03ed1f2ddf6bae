#include "core/api/malloc/heap_limit.h"

#include <atomic>

#include "core/api/malloc/services.h"
#include "core/base/check.h"
#include "core/base/options.h"
#include "core/base/text.h"
#include "core/os/runtime/scratch.h"

namespace seemalloc {

namespace {

[[noreturn]] void abort_at_limit(size_t bytes) {
  os::Scratch<FixedText<900>> scratch;
  if (!scratch) fatal_text("heap_limit reached");
  Text& line = *scratch;
  line << "heap_limit of " << options::get(options::Id::heap_limit)
       << " bytes reached: " << pages::memory_account.total_bytes() << " in use, " << bytes
       << " more requested; ";
  dump_at_limit(line);
  fatal_text(line.c_str());
}

}  // namespace

namespace {
constinit thread_local bool may_fail = false;
}

NonFatalScope::NonFatalScope() : before_(may_fail) { may_fail = true; }
NonFatalScope::~NonFatalScope() { may_fail = before_; }

bool LimitAttempt::limit_refused() const { return pages::memory_account.refusals() != refusals_; }

bool LimitAttempt::cannot_succeed(size_t bytes) const {
  size_t limit = options::get(options::Id::heap_limit);
  return limit_refused() && limit != 0 && bytes > limit;
}

void LimitAttempt::handle_failure(size_t bytes) const {
  bool wanted = options::get(options::Id::heap_limit_action) ==
                static_cast<uint64_t>(options::LimitAction::kAbort);
  if (may_fail) return;
  if (!wanted || !limit_refused()) return dump_after_failure();
  // Other threads, and the program's own SIGABRT handler, get null meanwhile.
  static std::atomic<bool> ending{false};
  if (!ending.exchange(true, std::memory_order_relaxed)) abort_at_limit(bytes);
}

}  // namespace seemalloc
