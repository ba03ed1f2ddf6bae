#include "core/heap/spans/homes.h"

#include "core/base/check.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/memory.h"
#include "core/os/runtime/arena.h"
#include "core/os/runtime/lock.h"
#include "core/pages/policy/purge_policy.h"

namespace seemalloc::heap {

constinit std::atomic<HomeId> first_waiting_home[kClassCount] = {};

namespace {

struct Home {
  Span* span;        // null: it waits for one
  uint64_t lost_ns;  // when it began to wait
  uint32_t blocks;   // number of sampled blocks; 0: not in use
  HomeId next;       // the next home that waits, or that is not in use
  HomeId previous;
  uint32_t carved;  // blocks carved in the span that it has lost
  uint8_t size_class;
};

constexpr size_t kChunkBits = 10;
constexpr size_t kMaxChunks = 8192;

constinit Lock lock;
constinit Home* chunks[kMaxChunks] = {};
constinit HomeId made = 0;
constinit HomeId unused = 0;
constinit HomeId last_waiting[kClassCount] = {};
constinit HomeTotals totals{};

Home& home_at(HomeId id) {
  DCHECK(id != 0 && id <= made);
  return chunks[id >> kChunkBits][id & ((size_t{1} << kChunkBits) - 1)];
}

// Returns 0 if memory is refused, or there are too many homes.
HomeId take_locked() {
  DCHECK(lock.is_held());
  if (unused != 0) {
    HomeId id = unused;
    unused = home_at(id).next;
    return id;
  }
  HomeId id = made + 1;
  size_t chunk = id >> kChunkBits;
  if (chunk == kMaxChunks) return 0;
  if (chunks[chunk] == nullptr) {
    chunks[chunk] =
        static_cast<Home*>(os::arena_allocate(sizeof(Home) << kChunkBits, alignof(Home)));
    if (chunks[chunk] == nullptr) return 0;
  }
  made = id;
  return id;
}

// ---- homes that wait, by class, in the order in which they lost their spans ----

void begin_waiting_locked(HomeId id) {
  Home& home = home_at(id);
  DCHECK(lock.is_held() && home.span == nullptr && home.blocks != 0);
  HomeId& last = last_waiting[home.size_class];
  home.next = 0;
  home.previous = last;
  if (last != 0) {
    home_at(last).next = id;
  } else {
    first_waiting_home[home.size_class].store(id, std::memory_order_relaxed);
  }
  last = id;
  totals.waiting++;
}

void end_waiting_locked(HomeId id) {
  Home& home = home_at(id);
  DCHECK(lock.is_held() && home.span == nullptr);
  DCHECK(totals.waiting != 0);
  if (home.previous != 0) {
    home_at(home.previous).next = home.next;
  } else {
    first_waiting_home[home.size_class].store(home.next, std::memory_order_relaxed);
  }
  (home.next != 0 ? home_at(home.next).previous : last_waiting[home.size_class]) = home.previous;
  totals.waiting--;
}

void free_home_locked(HomeId id) {
  Home& home = home_at(id);
  DCHECK(home.blocks == 0 && totals.homes != 0);
  if (home.span != nullptr) {
    home.span->set_home(0);
    home.span = nullptr;
  } else {
    end_waiting_locked(id);
  }
  home.next = unused;
  unused = id;
  totals.homes--;
}

// ---- bytes charged to a home's block ----

// The block would be alone in its span, which would have been idle since. After a purge of its
// holes (holes.h) the span would keep the OS pages that the block touches, at an unknown position,
// and the page of the list's first link.
double charge_without_span(const Home& home) {
  double block_bytes = kClasses[home.size_class].bytes;
  double whole = home.carved == 0 ? 0 : (home.carved - 1) * block_bytes;
  uint64_t idle_ns = os::coarse_monotonic_ns() - home.lost_ns;
  if (pages::purge_mode() == options::Purge::kNever || idle_ns < 2 * pages::purge_delay_ns())
    return whole;
  size_t page_bytes = os::page_bytes(), bytes = kClasses[home.size_class].bytes;
  size_t step = bytes & (0 - bytes);  // blocks start at multiples of it
  double left = static_cast<double>(2 * page_bytes - (step < page_bytes ? step : page_bytes));
  return left < whole ? left : whole;
}

// The block would be in the slot of one of the span's blocks, unknown which. If it is the slot of a
// live block, that block would be past the span's end; otherwise it is the slot of a free block.
// The owner may be freeing meanwhile.
SEEMALLOC_NO_TSAN double charge_in_span(const Home& home) {
  const Span* span = home.span;
  uint32_t carved = span->carved, holes = span->hole_blocks(), live = span->live_acquire();
  if (live > carved) live = carved;
  if (holes > live) holes = live;
  double free = carved - live, used = live - holes, block_bytes = span->block_bytes;
  if (free == 0) return 0;
  if (used == 0) return (free - 1) * block_bytes;
  double places = free + used;
  return block_bytes * (free / places + (free / places) * (free - 1) / (used + 1));
}

}  // namespace

HomeId enter_home(Span* span) {
  LockGuard guard(lock);
  HomeId id = span->home();
  if (id == 0) {
    id = take_locked();
    if (id == 0) return 0;
    home_at(id) = Home{span, 0, 0, 0, 0, 0, span->size_class};
    span->set_home(id);
    totals.homes++;
  }
  DCHECK(home_at(id).span == span && home_at(id).size_class == span->size_class);
  home_at(id).blocks++;
  return id;
}

void leave_home(HomeId id) {
  if (id == 0) return;
  LockGuard guard(lock);
  DCHECK(home_at(id).blocks != 0);
  if (--home_at(id).blocks == 0) free_home_locked(id);
}

void detach_home_from_span(Span* span) {
  LockGuard guard(lock);
  HomeId id = span->home();
  if (id == 0) return;  // the last sampled block has been freed meanwhile
  span->set_home(0);
  Home& home = home_at(id);
  home.span = nullptr;
  DCHECK(home.size_class == span->size_class && span->carved <= span->capacity);
  home.carved = span->carved;
  home.lost_ns = os::coarse_monotonic_ns();
  begin_waiting_locked(id);
}

void attach_waiting_home(Span* span) {
  LockGuard guard(lock);
  HomeId id = first_waiting_home[span->size_class].load(std::memory_order_relaxed);
  if (id == 0) return;
  end_waiting_locked(id);
  DCHECK(span->home() == 0 && home_at(id).size_class == span->size_class);
  home_at(id).span = span;
  span->set_home(id);
}

double home_charge_bytes(HomeId id) {
  LockGuard guard(lock);
  const Home& home = home_at(id);
  return home.span != nullptr ? charge_in_span(home) : charge_without_span(home);
}

HomeTotals home_totals() {
  LockGuard guard(lock);
  return totals;
}

#ifdef SEEMALLOC_DEBUG
const char* verify_homes() {
  LockGuard guard(lock);
  size_t homes = 0, waiting = 0;
  for (HomeId id = 1; id <= made; id++) {
    const Home& home = home_at(id);
    if (home.blocks == 0) continue;
    homes++;
    if (home.span != nullptr && home.span->home() != id)
      return "invariant homes.1: a home's span names it";
    waiting += home.span == nullptr;
  }
  if (homes != totals.homes || waiting != totals.waiting)
    return "invariant homes.2: homes with blocks, and those that wait, are counted";
  for (unsigned c = 0; c < kClassCount; c++) {
    HomeId before = 0;
    for (HomeId id = first_waiting_home[c].load(std::memory_order_relaxed); id != 0;
         before = id, id = home_at(id).next) {
      const Home& home = home_at(id);
      if (home.previous != before || home.span != nullptr || home.size_class != c ||
          waiting-- == 0) {
        return "invariant homes.3: homes that wait are on the list of their class";
      }
    }
    if (last_waiting[c] != before) return "invariant homes.3: last_waiting is the end of its list";
  }
  return waiting == 0 ? nullptr
                      : "invariant homes.3: homes that wait are on the list of their class";
}
#endif

void lock_homes_for_fork() { lock.lock_for_fork(); }
void unlock_homes_after_fork() { lock.unlock_after_fork(); }

}  // namespace seemalloc::heap
