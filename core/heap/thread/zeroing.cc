#include "core/heap/thread/zeroing.h"

#include <string.h>

#include "core/base/check.h"
#include "core/base/options.h"
#include "core/base/own_memory.h"
#include "core/heap/thread/thread_cache.h"
#include "core/heap/thread/thread_heap.h"
#include "core/os/kernel/memory.h"
#include "core/pages/page_heap/page_heap.h"
#include "core/pages/policy/purge_policy.h"

namespace seemalloc::heap {

namespace {

// Writing less takes about as long as checking and purging.
constexpr size_t kMinBytes = 64 * KiB;

bool may_purge(const pages::Span* span) {
  // OS pages may be larger than ours.
  bool whole_pages = ((span->start | span->bytes) & (os::page_bytes() - 1)) == 0;
  return whole_pages && span->kind == pages::SpanKind::kLarge && span->bytes >= kMinBytes &&
         pages::purge_mode() != options::Purge::kNever;
}

// A fault takes as long as writing some ten pages: hence a sixteenth. Often only the first and the
// last page are resident.
size_t few_bytes(size_t bytes) {
  size_t least = 2 * os::page_bytes();
  return bytes / 16 > least ? bytes / 16 : least;
}

// Not on huge pages: a purged part of one stays allocated until the kernel splits the page. A page
// that is not resident may still have contents (swapped out), so no page may be left as it is.
bool try_purge(ZeroingPace& pace, const pages::Span* span) {
  void* start = reinterpret_cast<void*>(span->start);
  ZeroingPace::Next next = pace.next();
  if (next == ZeroingPace::Next::kWrite || pages::is_on_huge_page(span)) return false;
  bool told = true;
  if (next == ZeroingPace::Next::kCheck) {
    size_t resident;
    told = os::query_resident_bytes(start, span->bytes, os::Reason::kZero, &resident);
    if (told && !pace.should_purge(resident <= few_bytes(span->bytes))) return false;
  }
  if (told && os::purge(start, span->bytes, os::Reason::kZero)) return true;
  pace.refused();
  return false;
}

// Writing zeros would make a huge block resident of which little is. A block whose pages are mostly
// resident is written, because its pages need no fault then.
bool try_purge_huge(const pages::Span* span) {
  if (span->kind != pages::SpanKind::kHuge || span->known_dense) return false;
  void* start = reinterpret_cast<void*>(span->start);
  if (os::estimate_resident_bytes(start, span->bytes, os::Reason::kZero) >= span->bytes / 2)
    return false;
  return os::purge(start, span->bytes, os::Reason::kZero);
}

}  // namespace

void zero_large_block(ThreadHeap* heap, pages::Span* span) {
  DCHECK(span->kind == pages::SpanKind::kLarge || span->kind == pages::SpanKind::kHuge);
  DCHECK(heap == nullptr || heap == thread_cache.heap);
  if (try_purge_huge(span)) return;
  if (heap != nullptr && may_purge(span) && try_purge(heap->body->zeroing, span)) return;
  libc_memset(reinterpret_cast<void*>(span->start), 0, span->bytes);
}

}  // namespace seemalloc::heap
