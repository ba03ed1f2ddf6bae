#include "core/pages/span/span_pool.h"

#include <string.h>

#include <atomic>

#include "core/base/check.h"
#include "core/base/units.h"
#include "core/os/kernel/memory.h"
#include "core/os/runtime/arena.h"
#include "core/os/runtime/lock.h"

namespace seemalloc::pages {

namespace {

// The header of a page of records, in place of its first record.
struct RecordPage {
  RecordPage* next;
  RecordPage* previous;
  // Linked through `next`: `remote` and `owner_` of a free record must keep values that lead
  // nowhere.
  Span* free;
  uint32_t taken;
  uint32_t carved;  // records ever used, from the first
};
static_assert(sizeof(RecordPage) <= sizeof(Span));

class PageList {
 public:
  RecordPage* front() const { return first_; }
  // Removes and returns the first page; null when there is none.
  RecordPage* pop() {
    RecordPage* page = first_;
    if (page != nullptr) remove(page);
    return page;
  }
  void push(RecordPage* page) {
    page->next = first_;
    page->previous = nullptr;
    if (first_ != nullptr) first_->previous = page;
    first_ = page;
  }
  void remove(RecordPage* page) {
    DCHECK(page->previous != nullptr ? page->previous->next == page : first_ == page);
    DCHECK(page->next == nullptr || page->next->previous == page);
    (page->previous != nullptr ? page->previous->next : first_) = page->next;
    if (page->next != nullptr) page->next->previous = page->previous;
  }

 private:
  RecordPage* first_ = nullptr;
};

constexpr size_t kPagesPerChunk = 16, kInitialCapacity = 256;
constexpr size_t kMaxRecent = 64;
constexpr size_t kMaxPurging = 64;  // at once

constinit Lock lock;
// The records freed last, which are reused first. They are linked through `next` and not yet on
// their pages' lists.
constinit Span* recent = nullptr;
constinit size_t recent_count = 0;
constinit PageList partial;
constinit PageList empty, empty_before;  // empty since the last tick; empty for longer
constinit RecordPage** purged_pages = nullptr;
constinit size_t purged_count = 0, purged_capacity = 0, page_count = 0;
// On no list while a thread purges them.
constinit RecordPage* pages_being_purged[kMaxPurging] = {};
constinit size_t being_purged_count = 0;
constinit std::atomic<size_t> purged_bytes{0};

uint32_t records_per_page() { return static_cast<uint32_t>(os::page_bytes() / sizeof(Span)) - 1; }
uintptr_t address_of(const RecordPage* page) { return reinterpret_cast<uintptr_t>(page); }
RecordPage* page_of(Span* span) {
  return reinterpret_cast<RecordPage*>(
      round_down(reinterpret_cast<uintptr_t>(span), os::page_bytes()));
}

void set_purged_count(size_t count) {
  purged_count = count;
  purged_bytes.store(count * os::page_bytes(), std::memory_order_release);
}
void push_purged(RecordPage* page) {
  DCHECK(purged_count < purged_capacity);
  DCHECK(address_of(page) % os::page_bytes() == 0);
  purged_pages[purged_count] = page;
  set_purged_count(purged_count + 1);
}

bool reserve_purged_entries_locked() {
  DCHECK(lock.is_held() && purged_count <= page_count);
  if (page_count + kPagesPerChunk <= purged_capacity) return true;
  size_t room = purged_capacity == 0 ? kInitialCapacity : purged_capacity * 2;
  auto* larger = static_cast<RecordPage**>(
      os::arena_allocate(room * sizeof(RecordPage*), alignof(RecordPage*)));
  if (larger == nullptr) return false;
  if (purged_count != 0) memcpy(larger, purged_pages, purged_count * sizeof(RecordPage*));
  purged_pages = larger;
  purged_capacity = room;
  return true;
}

bool make_pages_locked(size_t count) {
  auto* fresh = static_cast<char*>(os::arena_allocate(count * os::page_bytes(), os::page_bytes()));
  if (fresh == nullptr) return false;
  page_count += count;
  for (size_t i = count; i-- > 0;)
    push_purged(reinterpret_cast<RecordPage*>(fresh + i * os::page_bytes()));
  return true;
}
// Makes a chunk of pages, or one page where address space is short.
bool make_pages_locked() {
  return reserve_purged_entries_locked() &&
         (make_pages_locked(kPagesPerChunk) || make_pages_locked(1));
}

RecordPage* pop_purged_locked() {
  if (purged_count == 0 && !make_pages_locked()) return nullptr;
  set_purged_count(purged_count - 1);
  return purged_pages[purged_count];
}

// The first page on `partial`; one is added if the list is empty. Null when memory is refused.
RecordPage* partial_page_locked() {
  if (partial.front() != nullptr) return partial.front();
  RecordPage* page = empty.pop();
  if (page == nullptr) page = empty_before.pop();
  if (page == nullptr) page = pop_purged_locked();
  if (page != nullptr) partial.push(page);
  return page;
}

Span* take_locked() {
  DCHECK(lock.is_held());
  if (Span* span = recent; span != nullptr) {
    DCHECK(recent_count != 0 && recent_count <= kMaxRecent);
    recent = span->next;
    recent_count--;
    return span;
  }
  RecordPage* page = partial_page_locked();
  if (page == nullptr) return nullptr;
  DCHECK(page->taken < records_per_page() && page->carved <= records_per_page());
  Span* span = page->free;
  if (span != nullptr) {
    page->free = span->next;
  } else {
    DCHECK(page->carved == page->taken);
    span = reinterpret_cast<Span*>(page) + 1 + page->carved++;
  }
  if (++page->taken == records_per_page()) partial.remove(page);
  return span;
}

void give_to_page_locked(Span* span) {
  RecordPage* page = page_of(span);
  DCHECK(page->taken != 0);
  DCHECK(page->taken <= page->carved && page->carved <= records_per_page());
  span->next = page->free;
  page->free = span;
  if (page->taken-- == records_per_page()) partial.push(page);
  if (page->taken != 0) return;
  partial.remove(page);
  empty.push(page);
}

void give_locked(Span* span) {
  DCHECK(lock.is_held());
  DCHECK(span != recent && reinterpret_cast<Span*>(page_of(span)) != span);
  if (recent_count == kMaxRecent) return give_to_page_locked(span);
  span->next = recent;
  recent = span;
  recent_count++;
}

void flush_recent_to_pages() {
  LockGuard guard(lock);
  for (; recent != nullptr; recent_count--) {
    Span* span = recent;
    recent = span->next;
    give_to_page_locked(span);
  }
}

// While a page is moved, another is in the array twice. A fork must not see this state.
void sort_pages_being_purged_locked() {
  for (size_t i = 1; i < being_purged_count; i++) {
    RecordPage* page = pages_being_purged[i];
    size_t at = i;
    for (; at > 0 && pages_being_purged[at - 1] > page; at--)
      pages_being_purged[at] = pages_being_purged[at - 1];
    pages_being_purged[at] = page;
  }
}

// Returns false when another thread is purging, or when there are no pages.
bool begin_purge(PageList& from) {
  LockGuard guard(lock);
  if (being_purged_count != 0) return false;
  while (being_purged_count < kMaxPurging && from.front() != nullptr)
    pages_being_purged[being_purged_count++] = from.pop();
  sort_pages_being_purged_locked();
  return being_purged_count != 0;
}

size_t end_of_contiguous(size_t from) {
  size_t end = from + 1;
  while (end < being_purged_count && address_of(pages_being_purged[end]) ==
                                         address_of(pages_being_purged[end - 1]) + os::page_bytes())
    end++;
  return end;
}

// The pages from index `gone` on could not be purged.
void end_purge(size_t gone) {
  DCHECK(gone <= being_purged_count && being_purged_count <= kMaxPurging);
  LockGuard guard(lock);
  for (size_t i = 0; i < being_purged_count; i++)
    i < gone ? push_purged(pages_being_purged[i]) : empty.push(pages_being_purged[i]);
  being_purged_count = 0;
}

// Returns the number of pages purged.
size_t purge_record_pages(PageList& from, size_t most) {
  size_t all = 0;
  // If a signal handler forks in between, the child continues the purge.
  count_held(+1);
  while (all < most && begin_purge(from)) {
    size_t gone = 0;
    while (gone < being_purged_count) {
      size_t end = end_of_contiguous(gone);
      if (!os::purge(pages_being_purged[gone], (end - gone) * os::page_bytes(),
                     os::Reason::kRecords))
        break;
      gone = end;
    }
    bool refused = gone < being_purged_count;
    all += gone;
    end_purge(gone);
    if (refused) break;
  }
  count_held(-1);
  return all;
}

}  // namespace

#ifdef SEEMALLOC_DEBUG
namespace {
const char* verify_page(const RecordPage* page) {
  if (page->taken > page->carved || page->carved > records_per_page())
    return "invariant span_pool.1: taken ≤ carved ≤ records of a page";
  uint32_t unused = 0;
  for (Span* span = page->free; span != nullptr && unused <= page->carved;
       span = span->next, unused++) {
    if (page_of(span) != page) return "invariant span_pool.2: a page's free records are its own";
  }
  return page->taken + unused == page->carved
             ? nullptr
             : "invariant span_pool.2: each carved record is taken or free";
}

const char* verify_page_list(const PageList& list, bool is_partial) {
  const RecordPage* before = nullptr;
  for (const RecordPage* page = list.front(); page != nullptr; before = page, page = page->next) {
    if (page->previous != before)
      return "invariant span_pool.3: the links of a list of pages agree";
    // A page becomes empty only on its way off the list of partial ones, but for a new one.
    if (is_partial ? page->taken == records_per_page() : page->taken != 0)
      return "invariant span_pool.3: a page is on the list of its use";
    if (const char* broken = verify_page(page)) return broken;
  }
  return nullptr;
}
}  // namespace

const char* verify_span_pool() {
  LockGuard guard(lock);
  size_t count = 0;
  for (const Span* span = recent; span != nullptr && count <= kMaxRecent;
       span = span->next, count++) {
    if (span->kind != SpanKind::kFree)
      return "invariant span_pool.4: the records released last are free";
  }
  if (count != recent_count) return "invariant span_pool.4: recent_count is their number";
  if (purged_count > page_count || page_count > purged_capacity)
    return "invariant span_pool.5: there is room for each absent page";
  if (const char* broken = verify_page_list(partial, true)) return broken;
  const char* broken = verify_page_list(empty, false);
  return broken != nullptr ? broken : verify_page_list(empty_before, false);
}
#endif

Span* allocate_span_record(SpanKind kind) {
  Span* span;
  {
    LockGuard guard(lock);
    span = take_locked();
  }
  if (span == nullptr) return nullptr;
  // Given back, or never taken.
  DCHECK(span->kind == SpanKind::kFree || span->kind == SpanKind::kForeign);
  span->local_free = nullptr;
  span->clear_owner();
  span->forget_holes();
  span->set_live(0);
  span->block_bytes = span->capacity = span->carved = 0;
  span->size_class = 0;
  span->kind = kind;
  span->state = SpanState::kFull;
  span->known_zero = span->known_dense = false;
  span->set_blocks_are_shared(false);
  span->set_home(0);
  span->remote.store(0, std::memory_order_relaxed);
  span->pending_next = span->next = span->prev = nullptr;
  span->region = nullptr;
  span->sample_ids = nullptr;
  return span;
}

void free_span_record(Span* span) {
  DCHECK(span->kind != SpanKind::kFree && span->kind != SpanKind::kForeign);
  span->kind = SpanKind::kFree;
  span->clear_owner();
  LockGuard guard(lock);
  give_locked(span);
}

size_t purge_old_span_records(size_t most_pages) {
  flush_recent_to_pages();
  size_t pages = purge_record_pages(empty_before, most_pages);
  LockGuard guard(lock);
  // Pages that are left keep their age; the next tick continues with them.
  if (empty_before.front() == nullptr) {
    empty_before = empty;
    empty = PageList{};
  }
  return pages * os::page_bytes();
}

size_t purge_span_records() {
  flush_recent_to_pages();
  size_t pages = purge_record_pages(empty_before, SIZE_MAX);
  return (pages + purge_record_pages(empty, SIZE_MAX)) * os::page_bytes();
}

// Acquire: a thread that first reads this and then the arena's total sees a total that includes at
// least these bytes.
size_t purged_span_record_bytes() { return purged_bytes.load(std::memory_order_acquire); }

void lock_span_pool_for_fork() { lock.lock_for_fork(); }
void unlock_span_pool_after_fork(bool in_child) {
  // Unless this thread was interrupted, the thread that was purging exists only in the parent. It
  // is unknown which pages were purged already, so all are purged again. A page whose purge is
  // refused is lost.
  if (in_child && !fork_interrupted_critical_section) {
    for (size_t i = 0; i < being_purged_count; i++) {
      if (os::purge(pages_being_purged[i], os::page_bytes(), os::Reason::kRecords))
        push_purged(pages_being_purged[i]);
    }
    being_purged_count = 0;
  }
  lock.unlock_after_fork();
}

}  // namespace seemalloc::pages
