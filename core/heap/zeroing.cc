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
constexpr size_t kLeastBytes = 64 * KiB;

// A fault takes as long as to write some ten pages that are not in the cache: a sixteenth, and the first and the last page at least.
size_t few_of(size_t bytes) {
  size_t least = 2 * os::page_bytes();
  return bytes / 16 > least ? bytes / 16 : least;
}

// Whether the block is of the kind that is given back, if it is worth while. Not on huge pages: one of which a part goes stays
// taken until the kernel splits it, and one that is touched at all is resident as a whole.
bool may_be_given_back(const ThreadHeap* heap, const pages::Span* span) {
  bool whole_pages = ((span->start | span->bytes) & (os::page_bytes() - 1)) == 0;  // those of the system may be larger than ours
  return heap != nullptr && whole_pages && span->kind == pages::SpanKind::kLarge && span->bytes >= kLeastBytes &&
         pages::purge_mode() != options::Purge::kNever && !pages::lies_on_huge_page(span);
}

bool is_given_back(ZeroingRules& rules, pages::Span* span) {
  if (!rules.gives_back()) return false;
  if (os::purge(reinterpret_cast<void*>(span->start), span->bytes, os::Reason::kZero)) return true;
  rules.was_in_vain();  // locked in memory
  return false;
}

}  // namespace

void see_what_was_touched(ThreadHeap& heap, pages::Span* span) {
  span->came_untouched = false;
  ZeroingRules& rules = heap.body->zeroing;
  if (!rules.looks() || pages::lies_on_huge_page(span)) return;
  size_t resident = os::resident_bytes(reinterpret_cast<void*>(span->start), span->bytes, os::Reason::kZero);
  // With none the kernel may not have told.
  resident != 0 ? rules.saw(resident <= few_of(span->bytes)) : rules.saw_nothing();
}

void note_fresh(ThreadHeap* heap, pages::Span* span) {
  span->came_untouched = may_be_given_back(heap, span) && heap->body->zeroing.marks_fresh();
}

void make_zero(ThreadHeap* heap, pages::Span* span, size_t bytes) {
  bool given_back = may_be_given_back(heap, span) && is_given_back(heap->body->zeroing, span);
  if (!given_back) memset(reinterpret_cast<void*>(span->start), 0, bytes);
  span->came_untouched = given_back;
}

}  // namespace seemalloc::heap
