#include "core/heap/zeroing.h"

#include <string.h>

#include "core/base/options.h"
#include "core/heap/thread_heap.h"
#include "core/os/os.h"
#include "core/pages/page_heap.h"
#include "core/pages/purge.h"

namespace seemalloc::heap {

namespace {

// A call costs more than writing less.
constexpr size_t kLeastBytes = 128 * KiB;

bool is_given_back(ZeroingRules& rules, pages::Span* span) {
  // A huge page of which a part goes stays taken until the kernel splits it.
  if (pages::lies_on_huge_page(span) || !rules.gives_back()) return false;
  if (os::purge(reinterpret_cast<void*>(span->start), span->bytes, os::Reason::kZero)) return true;
  rules.was_in_vain();  // locked in memory
  return false;
}

}  // namespace

void see_what_was_touched(ThreadHeap& heap, pages::Span* span) {
  span->given_back = false;
  ZeroingRules& rules = heap.body->zeroing;
  if (!rules.looks()) return;
  size_t resident = os::resident_bytes(reinterpret_cast<void*>(span->start), span->bytes, os::Reason::kZero);
  // A fault takes as long as to write some ten pages. With none the kernel may not have told.
  resident != 0 ? rules.saw(resident <= span->bytes / 16) : rules.saw_nothing();
}

void make_zero(ThreadHeap* heap, pages::Span* span, size_t bytes) {
  bool whole_pages = ((span->start | span->bytes) & (os::page_bytes() - 1)) == 0;  // those of the system may be larger than ours
  bool may = heap != nullptr && whole_pages && span->kind == pages::SpanKind::kLarge && bytes >= kLeastBytes &&
             pages::purge_mode() != options::Purge::kNever;
  bool given_back = may && is_given_back(heap->body->zeroing, span);
  if (!given_back) memset(reinterpret_cast<void*>(span->start), 0, bytes);
  span->given_back = given_back;
}

}  // namespace seemalloc::heap
