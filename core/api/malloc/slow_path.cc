#include "core/api/malloc/slow_path.h"

#include <errno.h>
#include <string.h>

#include "core/api/malloc/fast_path.h"
#include "core/api/malloc/foreign.h"
#include "core/api/malloc/heap_limit.h"
#include "core/api/malloc/process.h"
#include "core/api/malloc/services.h"
#include "core/api/malloc/verify_often.h"
#include "core/api/sampling/sampling.h"
#include "core/base/own_memory.h"
#include "core/heap/maintenance/housekeeping.h"
#include "core/heap/maintenance/pressure.h"
#include "core/heap/maintenance/purge_all.h"
#include "core/heap/maintenance/registry.h"
#include "core/heap/slow_paths/large.h"
#include "core/heap/slow_paths/owner_paths.h"
#include "core/heap/slow_paths/remote.h"
#include "core/heap/spans/central.h"
#include "core/heap/spans/sampled.h"
#include "core/heap/thread/sample_distance.h"
#include "core/heap/thread/sample_growth.h"
#include "core/heap/thread/size_class.h"
#include "core/heap/thread/thread_cache.h"
#include "core/heap/thread/thread_heap.h"
#include "core/heap/thread/zeroing.h"
#include "core/os/runtime/scratch.h"
#include "core/pages/page_heap/page_heap.h"
#include "core/pages/span/growth.h"
#include "core/pages/span/memory_account.h"
#include "core/pages/span/page_map.h"

namespace seemalloc {

using heap::ThreadHeap;
using pages::page_map;
using pages::Span;
using pages::SpanKind;

// Hides the heap's recorder, so that inner calls cannot record samples: record_sample() needs a
// recorder, and makes none in an inner call.
ScopedNestedCall::ScopedNestedCall()
    : heap_(heap::thread_cache.heap),
      recorder_(heap_ != nullptr ? heap_->recorder : nullptr),
      before_(os::in_nested_call) {
  os::in_nested_call = true;
  if (heap_ != nullptr) heap_->recorder = nullptr;
}
ScopedNestedCall::~ScopedNestedCall() {
  if (recorder_ != nullptr) heap_->recorder = recorder_;
  os::in_nested_call = before_;
}

ThreadHeap* thread_heap() {
  ThreadHeap* mine = heap::thread_cache.heap;
  if (SEEMALLOC_LIKELY(mine != nullptr)) return mine;
  if (heap::thread_cache.finished) return nullptr;
  start_process();
  // The calls above may call functions of the program, which allocate.
  mine = heap::thread_cache.heap;
  bool is_new = mine == nullptr;
  if (is_new) mine = heap::adopt_heap();
  if (mine != nullptr) {
    if (is_new) attach_recorder(*mine);
    {
      ScopedNestedCall inner;
      register_thread_exit(&heap::thread_cache);
    }
    cpu_profiler_thread_started();
  }
  return mine;
}

namespace {

void* out_of_memory() {
  errno = ENOMEM;
  return nullptr;
}

constexpr uint64_t kDenseSamplingIntervalBytes = 4 * KiB;

// A recorded block of a sampled span; null when memory for one was refused.
void* sampled_block(ThreadHeap& mine, size_t bytes, unsigned size_class, const void* site) {
  uint32_t* id;
  heap::HomeId home = mine.sample_home;
  mine.sample_home = 0;
  // At long intervals there are few samples: they all use part 0, so that they share its spans.
  unsigned part =
      mine.drawn_interval <= kDenseSamplingIntervalBytes ? mine.shard % heap::kSampledShards : 0;
  void* p = heap::allocate_sampled(part, size_class, home, &id);
  if (p == nullptr) {
    count_dropped_sample();
    heap::count_unused_bytes(heap::kClasses[size_class].bytes);
    return nullptr;
  }
  uint32_t recorded = record_sample(mine, bytes, heap::kClasses[size_class].bytes, site);
  __atomic_store_n(id, recorded, __ATOMIC_RELEASE);  // pairs with for_each_sampled_block()
  return p;
}

// Called when memory was refused: returns cached memory to the OS, so that it can be used for other
// sizes. If only heap_limit refused it, empty regions stay mapped, because the limit does not count
// address space.
void release_cached_memory(ThreadHeap* mine, bool only_for_limit) {
  if (mine != nullptr) heap::collect(*mine, true);
  heap::purge_all(os::Reason::kPressure);
  if (!only_for_limit) pages::unmap_empty_regions();
}

void* try_again(ThreadHeap& mine, unsigned size_class, const LimitAttempt& first) {
  Block* block = pop_free_list(size_class);
  if (block != nullptr) return block;  // the sample's block could not be allocated
  release_cached_memory(&mine, first.limit_refused());
  LimitAttempt last;
  // Takes no sample, because there is no memory for its record either.
  if (heap::refill(mine, size_class, &block, false) == heap::Refill::kBlock) return block;
  last.handle_failure(heap::kClasses[size_class].bytes);
  return out_of_memory();
}

Span* try_large_again(ThreadHeap* mine, size_t bytes, size_t alignment, const LimitAttempt& first) {
  if (first.cannot_succeed(bytes) || (!first.limit_refused() && !pages::purging_may_help(bytes))) {
    first.handle_failure(bytes);
    return nullptr;
  }
  release_cached_memory(mine, first.limit_refused());
  LimitAttempt last;
  unsigned shard = mine != nullptr ? mine->shard : 0;
  Span* span = heap::allocate_large(shard, bytes, alignment);
  // heap_limit was not the only cause of refusals.
  if (span == nullptr && first.limit_refused() && !last.limit_refused() &&
      pages::unmap_empty_regions() != 0) {
    span = heap::allocate_large(shard, bytes, alignment);
  }
  if (span == nullptr) last.handle_failure(bytes);
  return span;
}

// Checks for memory pressure. Called when the heap has grown by the step that the last check set.
SEEMALLOC_COLD void check_pressure(size_t upcoming_bytes) {
  if (os::in_nested_call) return;
  int saved_errno = errno;
  heap::check_memory_pressure(upcoming_bytes);
  errno = saved_errno;
}

SEEMALLOC_ALWAYS_INLINE void check_pressure_if_due(size_t upcoming_bytes) {
  if (SEEMALLOC_UNLIKELY(pages::memory_account.pressure_check_is_due()))
    check_pressure(upcoming_bytes);
}

// Does the helper thread's periodic work if there is no helper thread. A program that has become
// quiet enters few slow paths, but it enters this one when some of its free lists end.
SEEMALLOC_ALWAYS_INLINE void tick_without_helper() {
  if (SEEMALLOC_UNLIKELY(!helper_is_running()) && !pages::heap_is_tiny()) heap::tick();
}

// Every slow path that may have taken memory from the OS ends with this call, which attributes the
// growth to the stack of its caller.
SEEMALLOC_ALWAYS_INLINE void record_growth_if_any() {
  if (SEEMALLOC_UNLIKELY(pages::growth.count != 0)) record_growth();
}

// A size beyond the address space: refused at once, before any memory is returned for it.
bool exceeds_address_space(size_t bytes, size_t alignment) {
  return bytes > kAddressSpaceBytes || alignment > kAddressSpaceBytes - bytes;
}

Span* large_span(size_t bytes, size_t alignment, const void* site) {
  verify_if_due();
  if (SEEMALLOC_UNLIKELY(exceeds_address_space(bytes, alignment))) return nullptr;
  ThreadHeap* mine = thread_heap();
  LimitAttempt attempt;
  Span* span = heap::allocate_large(mine != nullptr ? mine->shard : 0, bytes, alignment);
  if (span == nullptr) span = try_large_again(mine, bytes, alignment, attempt);
  record_growth_if_any();
  if (span == nullptr) return nullptr;
  heap::check_heap_growth();
  if (mine == nullptr) {
    heap::count_allocated_without_heap(span->bytes);
  } else if (heap::large_sample_due(*mine, span->bytes)) {
    span->sample_id = record_sample(*mine, bytes, span->bytes, site);
  }
  start_helper_if_due();
  check_pressure_if_due(span->bytes);
  return span;
}

SEEMALLOC_ALWAYS_INLINE void* allocate_by_refill(size_t bytes, unsigned size_class,
                                                 const void* site) {
  verify_if_due();
  bool is_first = heap::thread_cache.heap == nullptr;
  ThreadHeap* mine = thread_heap();
  if (SEEMALLOC_UNLIKELY(is_first)) {  // an adopted heap may bring free lists with it
    if (Block* block = pop_free_list(size_class)) return block;
  }
  if (mine == nullptr) {
    Block* block = nullptr;
    if (heap::central_take_shared_blocks(size_class, 1, &block) == 0) return out_of_memory();
    heap::count_allocated_without_heap(heap::kClasses[size_class].bytes);
    return block;
  }
  start_helper_if_due();
  tick_without_helper();
  check_pressure_if_due(0);
  Block* block = nullptr;
  LimitAttempt attempt;
  switch (heap::refill(*mine, size_class, &block)) {
    case heap::Refill::kBlock: return block;
    case heap::Refill::kSample:
      if (void* p = sampled_block(*mine, bytes, size_class, site)) return p;
      return try_again(*mine, size_class, attempt);
    case heap::Refill::kNoMemory: return try_again(*mine, size_class, attempt);
  }
  return nullptr;
}

SEEMALLOC_NOINLINE void* allocate_by_refill_or_sample(size_t bytes, size_t wide_class) {
  void* p =
      allocate_by_refill(bytes, static_cast<unsigned>(wide_class), __builtin_return_address(0));
  record_growth_if_any();
  return p;
}

// A list has ended and no block was freed into its span. The call of allocate_by_refill_or_sample()
// is a tail call, so the return address that it reads is the program's.
SEEMALLOC_NOINLINE void* allocate_from_available(size_t bytes, size_t wide_class) {
  ThreadHeap* mine = heap::thread_cache.heap;
  if (SEEMALLOC_LIKELY(mine != nullptr)) {
    if (Block* block = heap::refill_from_available_span(*mine, wide_class)) return block;
  }
  return allocate_by_refill_or_sample(bytes, wide_class);
}

}  // namespace

void* allocate_slow(size_t bytes, size_t size_class) noexcept {
  ThreadHeap* mine = heap::thread_cache.heap;
  if (SEEMALLOC_LIKELY(mine != nullptr)) {
    if (Block* block = heap::refill_from_local_frees(*mine, size_class)) return block;
  }
  return allocate_from_available(bytes, size_class);
}

namespace {

bool may_be_cached(const ThreadHeap* mine, size_t bytes) {
  return mine != nullptr && bytes <= pages::kMaxRegionRunPages * kPageBytes;
}

// A span of exactly this size that the thread has freed; null if it has none.
SEEMALLOC_ALWAYS_INLINE Span* take_cached_large_span(ThreadHeap* mine, size_t bytes) {
  return SEEMALLOC_LIKELY(may_be_cached(mine, bytes)) ? mine->body->large.take(pages_for(bytes))
                                                      : nullptr;
}

void* block_of(const Span* span) { return reinterpret_cast<void*>(span->start); }

// Returns the block to the program, or samples it.
SEEMALLOC_NOINLINE void* sample_if_due(Span* span, size_t bytes, const void* site) {
  ThreadHeap& mine = *heap::thread_cache.heap;
  if (heap::large_sample_due(mine, span->bytes)) {
    span->sample_id = record_sample(mine, bytes, span->bytes, site);
    // A thread that keeps allocating the block it has just freed reaches no other slow path.
    start_helper_if_due();
  }
  return block_of(span);
}

// The thread has freed no span of exactly this size. *clean: the block reads as zero.
SEEMALLOC_NOINLINE void* allocate_large_uncached(size_t bytes, const void* site, bool* clean) {
  ThreadHeap* mine = heap::thread_cache.heap;
  Span* span =
      may_be_cached(mine, bytes) ? mine->body->large.take_larger(pages_for(bytes)) : nullptr;
  *clean = false;
  if (span != nullptr) return sample_if_due(span, bytes, site);
  span = large_span(bytes, kPageBytes, site);
  if (span == nullptr) return out_of_memory();
  *clean = span->known_zero;
  return block_of(span);
}

SEEMALLOC_NOINLINE void* allocate_large_uncached(size_t bytes, const void* site) {
  bool clean;
  return allocate_large_uncached(bytes, site, &clean);
}

}  // namespace

// All rare cases are tail calls, so that nothing is saved on the stack.
void* allocate_large_slow(size_t bytes) noexcept {
  ThreadHeap* mine = heap::thread_cache.heap;
  Span* span = take_cached_large_span(mine, bytes);
  if (SEEMALLOC_UNLIKELY(span == nullptr))
    return allocate_large_uncached(bytes, __builtin_return_address(0));
  if (SEEMALLOC_LIKELY(heap::count_unsampled(*mine, span->bytes))) return block_of(span);
  return sample_if_due(span, bytes, __builtin_return_address(0));
}

void* allocate_zeroed_large(size_t bytes) {
  Span* span = take_cached_large_span(heap::thread_cache.heap, bytes);
  bool clean = false;
  void* p = span != nullptr ? sample_if_due(span, bytes, __builtin_return_address(0))
                            : allocate_large_uncached(bytes, __builtin_return_address(0), &clean);
  if (p != nullptr && !clean) heap::zero_large_block(heap::thread_cache.heap, page_map.span_of(p));
  return p;
}

void* allocate_aligned_slow(size_t bytes, size_t alignment) noexcept {
  Span* span = large_span(bytes == 0 ? 1 : bytes, alignment, __builtin_return_address(0));
  return span != nullptr ? reinterpret_cast<void*>(span->start) : out_of_memory();
}

namespace {

// Puts the span into the thread's cache. Inlined, because for a block that the program never
// touches this is much of the total cost.
SEEMALLOC_ALWAYS_INLINE bool keep_large_block(void* p, Span* span) {
  ThreadHeap* mine = heap::thread_cache.heap;
  return span->kind == SpanKind::kLarge && span->sample_id == 0 &&
         reinterpret_cast<uintptr_t>(p) == span->start && mine != nullptr &&
         mine->body->large.put(span);
}

SEEMALLOC_NOINLINE void free_large_block(void* p, Span* span) {
  if (reinterpret_cast<uintptr_t>(p) != span->start) fatal("invalid free", p);
  uint32_t id = span->sample_id;
  span->sample_id = 0;
  if (id != 0) record_sampled_free(heap::thread_cache.heap, id);
  ThreadHeap* mine = heap::thread_cache.heap;
  if (span->kind == SpanKind::kLarge && mine != nullptr && mine->body->large.put_evicting(span))
    return;
  heap::free_large(span);
}

SEEMALLOC_NOINLINE void free_sampled_block(void* p, Span* span) {
  bool valid = false;
  uint32_t id = heap::free_sampled(span, p, &valid);
  if (!valid) fatal(span->is_block_start(p) ? "double free" : "invalid free", p);
  if (id != 0) record_sampled_free(heap::thread_cache.heap, id);
}

void free_small_block(void* p, Span* span) {
  Block* block = static_cast<Block*>(p);
  if (!span->is_block_start(p)) fatal("invalid free", p);
  heap::free_remote(thread_heap(), span, block);
}

SEEMALLOC_NOINLINE void deallocate_other_span(void* p, Span* span) {
  verify_if_due();
  switch (span->kind) {
    case SpanKind::kForeign:
      if (p != nullptr) free_foreign(p);
      return;
    case SpanKind::kFree:
    case SpanKind::kCachedLarge: fatal("double free", p);
    case SpanKind::kLarge:
    case SpanKind::kHuge: return free_large_block(p, span);
    case SpanKind::kSampled: return free_sampled_block(p, span);
    case SpanKind::kSmall: return free_small_block(p, span);
  }
}

SEEMALLOC_ALWAYS_INLINE bool gather_small_block(void* p, const Span* span) {
  ThreadHeap* mine = heap::thread_cache.heap;
  return span->kind == SpanKind::kSmall && mine != nullptr &&
         heap::gather_remote(*mine, span, static_cast<Block*>(p));
}

}  // namespace

// All rare cases are tail calls, so that nothing is saved on the stack.
void deallocate_slow(void* p, Span* span) noexcept {
  if (!gather_small_block(p, span) && !keep_large_block(p, span)) deallocate_other_span(p, span);
}

void deallocate_outside_window(void* p) noexcept {
  if (p != nullptr) deallocate_in(page_map.span_of(p), p);
}

void report_misuse_slow(const char* kind, void* p) noexcept { fatal(kind, p); }

size_t usable_bytes(void* p) {
  Span* span = page_map.span_of(p);
  if (SEEMALLOC_LIKELY(span->kind == SpanKind::kSmall && span->is_block_start(p)))
    return span->block_bytes;
  switch (span->kind) {
    case SpanKind::kForeign: return foreign_usable_bytes(p);
    case SpanKind::kFree:
    case SpanKind::kCachedLarge: fatal("use of a freed block", p);
    case SpanKind::kLarge:
    case SpanKind::kHuge:
      if (reinterpret_cast<uintptr_t>(p) != span->start) fatal("invalid pointer", p);
      return span->bytes;
    case SpanKind::kSampled: return heap::sampled_block_bytes(span, p);
    case SpanKind::kSmall: fatal("invalid pointer", p);
  }
  return 0;
}

namespace {

// A block that shrinks to less than half of its size is moved.
bool fits_in_place(size_t bytes, size_t have) { return bytes <= have && bytes >= have / 2; }

// If heap_limit does not let the block grow, free memory is returned first: a copy elsewhere would
// need all of its size.
bool resize_large_block(Span* span, size_t bytes) {
  verify_if_due();
  LimitAttempt attempt;
  bool resized = heap::resize_large(span, bytes);
  record_growth_if_any();
  start_helper_if_due();  // a single growing block may be the whole heap
  if (resized) return true;
  // A block that is not huge can be copied to dirty pages, which the limit counts already.
  if (span->kind != SpanKind::kHuge || bytes <= span->bytes) return false;
  if (!attempt.limit_refused() || attempt.cannot_succeed(bytes)) return false;
  release_cached_memory(heap::thread_cache.heap, true);
  resized = heap::resize_large(span, bytes);
  record_growth_if_any();
  return resized;
}

// Returns true if the block has the new size without a copy; *p is its address then, which changes
// if a huge block's pages were moved. Inlined into realloc.
SEEMALLOC_ALWAYS_INLINE bool resize_in_place(void** p, Span* span, size_t bytes) {
  switch (span->kind) {
    case SpanKind::kLarge:
    case SpanKind::kHuge: {
      size_t before = span->bytes;
      if (exceeds_address_space(bytes, kPageBytes) || !resize_large_block(span, bytes))
        return false;
      *p = reinterpret_cast<void*>(span->start);
      if (span->bytes > before) check_pressure_if_due(span->bytes - before);
      if (span->sample_id != 0) resize_sample(span->sample_id, bytes, span->bytes);
      return true;
    }
    case SpanKind::kSmall: return fits_in_place(bytes, span->block_bytes);
    case SpanKind::kSampled: {
      size_t have = heap::sampled_block_bytes(span, *p);
      if (!fits_in_place(bytes, have)) return false;
      uint32_t id = heap::sample_id(span, *p);
      if (id != 0) resize_sample(id, bytes, have);
      return true;
    }
    default: return false;
  }
}

}  // namespace

constinit thread_local bool reallocating = false;

namespace {
// Counts a copy by realloc in this heap; does nothing if it is null.
void count_copy(ThreadHeap* mine, size_t bytes) {
  if (mine == nullptr) return;
  mine->realloc_copies.store(mine->realloc_copies.load(std::memory_order_relaxed) + 1,
                             std::memory_order_relaxed);
  mine->realloc_copied_bytes.store(
      mine->realloc_copied_bytes.load(std::memory_order_relaxed) + bytes,
      std::memory_order_relaxed);
}

// A block that has grown once is likely to grow again: allocates a quarter more, so that a block
// that grows in small steps is copied less often. Not for smaller blocks, whose copies are cheap,
// and of which many may have grown for the last time (Redis fills list nodes of up to 8 KiB); large
// ones grow in place (docs/decisions/0055).
SEEMALLOC_ALWAYS_INLINE void* allocate_with_headroom(size_t old_bytes, size_t bytes) {
  size_t roomy = old_bytes + old_bytes / 4;
  if (roomy > heap::kMaxSmallBytes) roomy = heap::kMaxSmallBytes;
  constexpr size_t kMin = 8 * KiB;
  if (old_bytes < kMin || bytes <= old_bytes || bytes >= roomy) return allocate(bytes);
  int saved_errno = errno;
  {
    NonFatalScope may_fail;
    if (void* p = allocate_from(heap::class_of(roomy), bytes)) return p;
  }
  errno = saved_errno;
  return allocate(bytes);
}

void* move_block(void* p, size_t old_bytes, size_t bytes) {
  reallocating = true;
  void* fresh = allocate_with_headroom(old_bytes, bytes);
  reallocating = false;
  if (fresh == nullptr) return nullptr;
  size_t copied = bytes < old_bytes ? bytes : old_bytes;
  libc_memcpy(fresh, p, copied);
  count_copy(heap::thread_cache.heap, copied);
  deallocate(p);
  return fresh;
}

// Moves a block that shrinks. If there is no memory for the copy, it stays where it is.
void* move_or_keep(void* p, size_t old_bytes, size_t bytes) {
  int saved_errno = errno;
  NonFatalScope may_fail;
  void* fresh = move_block(p, old_bytes, bytes);
  if (fresh != nullptr) return fresh;
  errno = saved_errno;
  return p;
}
}  // namespace

size_t resize_without_moving(void* p, size_t bytes) {
  Span* span = page_map.span_of(p);
  bool is_large = span->kind == SpanKind::kLarge && bytes > heap::kMaxSmallBytes;
  if (is_large) resize_in_place(&p, span, bytes);  // huge ones may move
  return usable_bytes(p);
}

void* reallocate(void* p, size_t bytes) {
  Span* span = page_map.span_of(p);
  if (span->kind == SpanKind::kForeign)
    return reallocate_foreign(p, bytes, [](size_t fresh_bytes) { return allocate(fresh_bytes); });
  size_t old_bytes = usable_bytes(p);
  if (resize_in_place(&p, span, bytes)) return p;
  return bytes <= old_bytes ? move_or_keep(p, old_bytes, bytes) : move_block(p, old_bytes, bytes);
}

}  // namespace seemalloc
