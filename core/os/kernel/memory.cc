#include "core/os/kernel/memory.h"

#include <errno.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include <atomic>

#include "core/base/check.h"
#include "core/base/counters.h"
#include "core/base/units.h"
#include "core/os/kernel/auxiliary_vector.h"
#include "core/os/kernel/sandbox_state.h"
#include "core/os/kernel/syscall.h"

namespace seemalloc::os {

#ifdef __SANITIZE_THREAD__
// Operations of one thread on a mapping happen before another thread gets the same addresses: the
// kernel ensures it, but ThreadSanitizer does not see our system calls and must be told.
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
static char address_space;
static void before_unmapping() { __tsan_release(&address_space); }
static void after_moving() { __tsan_acquire(&address_space); }
// Stacks of ended threads are unmapped without ThreadSanitizer's knowledge. libc's mmap, which it
// intercepts, makes it forget them.
static void after_mapping(long start, size_t bytes) {
  after_moving();
  mmap(reinterpret_cast<void*>(start), bytes, PROT_READ | PROT_WRITE,
       MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
#else
static void before_unmapping() {}
static void after_moving() {}
static void after_mapping(long, size_t) {}
#endif

namespace {

// Bytes that remapping has added to the address space and removed from it.
std::atomic<uint64_t> remap_grown_bytes, remap_unmapped_bytes;

void count(std::atomic<uint64_t>& counter, uint64_t by) {
  counter.fetch_add(by, std::memory_order_relaxed);
}

}  // namespace

size_t page_bytes() {
  static std::atomic<size_t> cached{0};
  size_t bytes = cached.load(std::memory_order_relaxed);
  if (bytes == 0) {
    bytes = auxiliary_value(AT_PAGESZ);
    if (!is_power_of_two(bytes)) bytes = 4096;
    cached.store(bytes, std::memory_order_relaxed);
  }
  return bytes;
}

void* map(size_t bytes, Reason reason) {
  long result = counted_call(Call::kMap, reason, bytes,
                             {SYS_mmap, 0, static_cast<long>(bytes), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1});
  if (sys_failed(result)) return nullptr;
  after_mapping(result, bytes);
  return reinterpret_cast<void*>(result);
}

void* map_aligned(size_t bytes, size_t alignment, Reason reason) {
  void* start = map(bytes, reason);
  if (start == nullptr || (reinterpret_cast<uintptr_t>(start) & (alignment - 1)) == 0) return start;
  unmap(start, bytes, reason);
  if (bytes + alignment < bytes) return nullptr;
  start = map(bytes + alignment, reason);
  if (start == nullptr) return nullptr;
  uintptr_t first = reinterpret_cast<uintptr_t>(start);
  uintptr_t aligned = round_up(first, alignment);
  uintptr_t end = first + bytes + alignment;
  // If trimming is refused, the ends stay mapped and untouched: this costs address space but no
  // memory.
  if (aligned != first) unmap(start, aligned - first, reason);
  if (end != aligned + bytes)
    unmap(reinterpret_cast<void*>(aligned + bytes), end - (aligned + bytes), reason);
  return reinterpret_cast<void*>(aligned);
}

namespace {
// Returns 0 or -errno.
int map_at_exactly(uintptr_t start, size_t bytes, Reason reason) {
  // MAP_FIXED_NOREPLACE, Linux 4.17. For an older kernel the address is a hint. Likewise in a
  // sandbox, since its filter may check the flags.
  const long fixed_no_replace = calls_are_limited() ? 0 : 0x100000;
  long result =
      counted_call(Call::kMap, reason, bytes,
                   {SYS_mmap, static_cast<long>(start), static_cast<long>(bytes),
                    PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed_no_replace, -1});
  if (sys_failed(result)) return static_cast<int>(result);
  after_mapping(result, bytes);
  if (static_cast<uintptr_t>(result) == start) return 0;
  unmap(reinterpret_cast<void*>(result), bytes, reason);
  return -EEXIST;
}
}  // namespace

bool map_at(uintptr_t start, size_t bytes, Reason reason) {
  return map_at_exactly(start, bytes, reason) == 0;
}

bool map_after(uintptr_t start, size_t bytes, Reason reason) {
  int result = map_at_exactly(start, bytes, reason);
  if (result != -ENOMEM) return result == 0;
  size_t page = page_bytes();
  if (remap(reinterpret_cast<void*>(start - page), page, page + bytes, nullptr, reason) == nullptr)
    return false;
  after_mapping(static_cast<long>(start), bytes);
  return true;
}

bool unmap(void* start, size_t bytes, Reason reason) {
  before_unmapping();
  return !sys_failed(counted_call(Call::kUnmap, reason, bytes,
                                  {SYS_munmap, as_long(start), static_cast<long>(bytes)}));
}

namespace {
// In a sandbox, only advice that returns memory is allowed.
bool advise(Call call, Reason reason, void* start, size_t bytes, long advice) {
  if (advice != MADV_DONTNEED && advice != MADV_FREE && calls_are_limited()) return false;
  return !sys_failed(counted_call(call, reason, bytes,
                                  {SYS_madvise, as_long(start), static_cast<long>(bytes), advice}));
}
}  // namespace

bool purge(void* start, size_t bytes, Reason reason) {
  return advise(Call::kDontNeed, reason, start, bytes, MADV_DONTNEED);
}
bool purge_lazily(void* start, size_t bytes, Reason reason) {
  return advise(Call::kFree, reason, start, bytes, MADV_FREE);
}

bool set_huge_pages(void* start, size_t bytes, bool on) {
  if (on) return advise(Call::kHugePage, Reason::kHugePages, start, bytes, MADV_HUGEPAGE);
  return advise(Call::kNoHugePage, Reason::kHugePages, start, bytes, MADV_NOHUGEPAGE);
}

int collapse_into_huge_pages(void* start, size_t bytes) {
  constexpr long kCollapse = 25;  // MADV_COLLAPSE, not in older headers
  if (calls_are_limited()) return static_cast<int>(kLimited);
  return static_cast<int>(
      counted_call(Call::kCollapse, Reason::kHugePages, bytes,
                   {SYS_madvise, as_long(start), static_cast<long>(bytes), kCollapse}));
}

void split_huge_page(void* start, size_t bytes) {
  advise(Call::kFree, Reason::kHugePages, start, bytes, MADV_FREE);
}

void* remap(void* start, size_t old_bytes, size_t new_bytes, void* target, Reason reason) {
  before_unmapping();
  long result = counted_call(
      Call::kRemap, reason, new_bytes,
      {SYS_mremap, as_long(start), static_cast<long>(old_bytes), static_cast<long>(new_bytes),
       target != nullptr ? MREMAP_MAYMOVE | MREMAP_FIXED : 0, as_long(target)});
  if (sys_failed(result)) return nullptr;
  if (target != nullptr) {
    // The target's bytes were counted when it was mapped.
    count(remap_unmapped_bytes, old_bytes);
  } else if (new_bytes > old_bytes) {
    count(remap_grown_bytes, new_bytes - old_bytes);
  } else {
    count(remap_unmapped_bytes, old_bytes - new_bytes);
  }
  after_moving();
  return reinterpret_cast<void*>(result);
}

bool is_one_mapping(void* start, size_t bytes, Reason reason) {
  // Tries to grow by a page in place: the kernel first checks whether the mapping reaches that far.
  constexpr long kEndsBefore = -EFAULT;
  long result = counted_call(Call::kRemapProbe, reason, 0,
                             {SYS_mremap, as_long(start), static_cast<long>(bytes),
                              static_cast<long>(bytes + page_bytes())});
  if (!sys_failed(result)) unmap(static_cast<char*>(start) + bytes, page_bytes(), reason);
  return result != kEndsBefore;
}

// Always moves to a greater length. From Linux 6.17 on, a move of equal lengths accepts a range of
// several mappings and moves them one after the other; if it is refused in the middle, some have
// moved. When the length changes, the kernel checks first, in every version, that the range is in
// one mapping, and moves all of it or nothing (mm/mremap.c: vrm_move_only, move_vma).
// MREMAP_DONTUNMAP is not used: it requires equal lengths, and locked memory (mlock) stays counted
// as locked forever.
Moved move_pages(void* start, size_t bytes, void* target, size_t new_bytes, Reason reason) {
  DCHECK(new_bytes > bytes);
  before_unmapping();
  long result =
      counted_call(Call::kRemap, reason, bytes,
                   {SYS_mremap, as_long(start), static_cast<long>(bytes),
                    static_cast<long>(new_bytes), MREMAP_MAYMOVE | MREMAP_FIXED, as_long(target)});
  if (sys_failed(result)) {
    // Unknown to the kernel or forbidden: it has not begun. Otherwise it may have unmapped the
    // target already.
    return result == -EPERM || result == -ENOSYS || result == -EINVAL ? Moved::kRefused
                                                                      : Moved::kRefusedTargetLost;
  }
  count(remap_unmapped_bytes, bytes);  // the target's bytes were counted when it was mapped
  after_moving();
  return Moved::kYes;
}

namespace {
constexpr size_t kPagesPerQuery = 1024;  // pages reported by one call
}

ResidencyResult query_resident_pages(const void* start, size_t bytes, Reason reason,
                                     unsigned char* there) {
  size_t whole = round_up(bytes, page_bytes());
  long result =
      counted_call(Call::kMincore, reason, whole,
                   {SYS_mincore, as_long(start), static_cast<long>(whole), as_long(there)});
  if (!sys_failed(result)) return ResidencyResult::kYes;
  return result == -ENOMEM ? ResidencyResult::kNotMapped : ResidencyResult::kRefused;
}

bool query_resident_bytes(const void* start, size_t bytes, Reason reason, size_t* out) {
  unsigned char present[kPagesPerQuery];
  size_t page = page_bytes();
  size_t resident = 0;
  uintptr_t at = round_down(reinterpret_cast<uintptr_t>(start), page);
  uintptr_t end = reinterpret_cast<uintptr_t>(start) + bytes;
  while (at < end) {
    size_t pages = (end - at + page - 1) / page;
    if (pages > sizeof(present)) pages = sizeof(present);
    if (query_resident_pages(reinterpret_cast<void*>(at), pages * page, reason, present) !=
        ResidencyResult::kYes)
      return false;
    for (size_t i = 0; i < pages; i++) resident += (present[i] & 1) ? page : 0;
    at += pages * page;
  }
  *out = resident;
  return true;
}

size_t resident_bytes(const void* start, size_t bytes, Reason reason) {
  size_t resident = 0;
  query_resident_bytes(start, bytes, reason, &resident);
  return resident;
}

size_t estimate_resident_bytes(const void* start, size_t bytes, Reason reason) {
  constexpr size_t kSamples = 4;
  constexpr size_t kPagesOfSample = 256;
  size_t sample = kPagesOfSample * page_bytes();
  // Counting all pages takes no more calls than sampling.
  if (bytes <= kSamples * kPagesPerQuery * page_bytes())
    return resident_bytes(start, bytes, reason);
  constexpr uint8_t kOrder[kSamples] = {1, 3, 0, 2};
  constexpr size_t kEnough = 3;  // samples that are all empty or all full
  size_t step = round_down(bytes / kSamples, page_bytes()), resident = 0;
  for (size_t i = 0; i < kSamples; i++) {
    if (i == kEnough && resident == 0) return 0;
    if (i == kEnough && resident == kEnough * sample) return bytes;
    // Samples the middle of each part: memory that was written from the start on is then counted by
    // the parts that it fills.
    uintptr_t at = reinterpret_cast<uintptr_t>(start) + kOrder[i] * step +
                   round_down((step - sample) / 2, page_bytes());
    resident += resident_bytes(reinterpret_cast<const void*>(at), sample, reason);
  }
  return resident / page_bytes() * (bytes / (kSamples * kPagesOfSample));
}

void reset_counters_in_child() {
  reset_call_counts_in_child();
  set_to_zero(remap_grown_bytes, remap_unmapped_bytes);
}

Counters counters() {
  CallCount map = call_count(Call::kMap), unmap = call_count(Call::kUnmap),
            purge = call_count(Call::kDontNeed);
  Counters c{};
  c.map_calls = map.calls;
  c.map_bytes = map.bytes + remap_grown_bytes.load(std::memory_order_relaxed);
  c.unmap_calls = unmap.calls;
  c.unmap_bytes = unmap.bytes + remap_unmapped_bytes.load(std::memory_order_relaxed);
  c.purge_calls = purge.calls;
  c.purge_bytes = purge.bytes;
  c.remap_calls = call_count(Call::kRemap).calls + call_count(Call::kRemapProbe).calls;
  c.huge_page_calls = call_count(Call::kHugePage).calls;
  for (unsigned i = 0; i < kCalls; i++) c.refused_calls += call_count(static_cast<Call>(i)).refused;
  return c;
}

}  // namespace seemalloc::os
