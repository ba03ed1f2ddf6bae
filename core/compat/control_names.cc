#include "core/compat/control_names.h"

#include <sys/types.h>

#include <bit>

#include "core/api/dumps/dump_names.h"
#include "core/api/malloc/process.h"
#include "core/api/malloc/slow_path.h"
#include "core/api/sampling/sampling.h"
#include "core/api/settings/foreign_options.h"
#include "core/api/settings/runtime_options.h"
#include "core/base/options.h"
#include "core/base/text.h"
#include "core/compat/control_settings.h"
#include "core/compat/heap_text.h"
#include "core/compat/mallctl.h"
#include "core/compat/stats_snapshot.h"
#include "core/heap/maintenance/housekeeping.h"
#include "core/heap/reports/statistics.h"
#include "core/heap/slow_paths/owner_paths.h"
#include "core/heap/thread/size_class.h"
#include "core/heap/thread/thread_cache.h"
#include "core/heap/thread/thread_heap.h"
#include "core/os/kernel/memory.h"
#include "core/os/runtime/lock.h"
#include "core/pages/huge/huge.h"
#include "core/pages/page_heap/page_heap.h"
#include "core/pages/span/page_map.h"

namespace seemalloc::compat {

namespace {

using Call = ControlCall;
using options::Id;

// There is one arena, number 0. It also answers to two other numbers: all arenas, and the number of
// arenas (which means all arenas in jemalloc 3.x).
constexpr unsigned kArenas = 1;
constexpr size_t kAllArenas = 4096;
bool is_arena(size_t number) { return number <= kArenas || number == kAllArenas; }

// The names and types are those of version 5.3.0; the suffix tells that seemalloc answers.
constexpr char kVersion[] = "5.3.0-seemalloc-" SEEMALLOC_VERSION;

size_t saturating_subtract(size_t a, size_t b) { return a > b ? a - b : 0; }

// ---- epoch, threads ----

int do_epoch(Call& call) {
  uint64_t ignored = 0;
  if (call.writes()) {
    if (int error = call.get(&ignored)) return error;
    refresh_snapshot();
  }
  Snapshot s;
  current_snapshot(&s);
  return call.put(s.epoch);
}

// A setting that never changes: writing its current value succeeds and does nothing.
template <typename T>
int fixed(Call& call, T value) {
  return call.read_write(value, [value](T wanted) { return wanted == value ? 0 : EPERM; });
}
int fixed_true(Call& call) { return fixed(call, true); }
int tcache_max(Call& call) { return fixed(call, heap::kMaxSmallBytes); }

int thread_arena(Call& call) {
  return call.read_write(unsigned{0}, [](unsigned arena) { return is_arena(arena) ? 0 : EFAULT; });
}

int thread_allocated(Call& call) { return call.read_only(heap::allocated_by_this_thread()); }
int thread_allocatedp(Call& call) {
  const heap::ThreadHeap* mine = thread_heap();
  return mine != nullptr ? call.read_only(&mine->allocated_bytes) : EAGAIN;
}
int thread_deallocated(Call& call) { return call.read_only(*thread_freed_bytes_estimate()); }
int thread_deallocatedp(Call& call) { return call.read_only(thread_freed_bytes_estimate()); }

int thread_peak(Call& call) {
  const heap::ThreadHeap* mine = heap::thread_cache.heap;
  return call.read_only(mine != nullptr ? thread_peak_bytes(*mine) : uint64_t{0});
}
int reset_peak(Call& call) {
  if (!call.is_command()) return EPERM;
  if (const heap::ThreadHeap* mine = heap::thread_cache.heap) reset_thread_peak(*mine);
  return 0;
}

int flush_thread(Call& call) {
  if (!call.is_command()) return EPERM;
  if (heap::ThreadHeap* mine = heap::thread_cache.heap) heap::collect(*mine, true);
  return 0;
}

int no_name(Call& call) { return call.text(""); }

// ---- arenas ----

int purge(Call& call) {
  if (!call.is_command()) return EPERM;
  if (!is_arena(call.numbers[0])) return EFAULT;
  purge_everything();
  return 0;
}

int decay(Call& call) {
  if (!call.is_command()) return EPERM;
  if (!is_arena(call.numbers[0])) return EFAULT;
  heap::tick();
  return 0;
}

// The one arena is shared, so it is neither reset nor destroyed.
int arena_op_unsupported(Call&) { return EFAULT; }

int change_decay(Call& call) {
  return call.read_write(decay_ms(), [](ssize_t ms) { return set_decay_ms(ms) ? 0 : EFAULT; });
}
int dirty_decay(Call& call) { return is_arena(call.numbers[0]) ? change_decay(call) : EFAULT; }
// seemalloc has no muzzy pages.
int change_muzzy_decay(Call& call) {
  return call.read_write(ssize_t{0}, [](ssize_t ms) { return ms < -1 ? EFAULT : 0; });
}
int muzzy_decay(Call& call) {
  return is_arena(call.numbers[0]) ? change_muzzy_decay(call) : EFAULT;
}

// No block is too large for the arena, and no mapping too large to grow.
int oversize_threshold(Call& call) {
  return is_arena(call.numbers[0]) ? fixed(call, size_t{0}) : EFAULT;
}
int retain_grow_limit(Call& call) {
  return is_arena(call.numbers[0]) ? fixed(call, static_cast<size_t>(PTRDIFF_MAX)) : EFAULT;
}

int arena_initialized(Call& call) {
  return is_arena(call.numbers[0]) ? call.read_only(true) : EFAULT;
}
int disabled_text(Call& call) { return call.text("disabled"); }

// A program that creates an arena gets the one arena. It cannot bring memory of its own.
int create_arena(Call& call) { return call.writes() ? EPERM : call.put(unsigned{0}); }

int lookup_arena(Call& call) {
  const void* block = nullptr;
  if (int error = call.get(&block)) return error;
  pages::SpanKind kind = pages::page_map.span_of(block)->kind;
  bool ours = kind != pages::SpanKind::kForeign && kind != pages::SpanKind::kFree;
  return ours ? call.put(unsigned{0}) : EINVAL;
}

int class_size(Call& call) {
  size_t i = call.numbers[0];
  return i < heap::kClassCount ? call.read_only(size_t{heap::kClasses[i].bytes}) : ENOENT;
}
size_t slab_bytes(size_t i) { return heap::kClasses[i].min_pages * kPageBytes; }
int class_blocks(Call& call) {
  size_t i = call.numbers[0];
  return i < heap::kClassCount
             ? call.read_only(static_cast<uint32_t>(slab_bytes(i) / heap::kClasses[i].bytes))
             : ENOENT;
}
int class_slab(Call& call) {
  size_t i = call.numbers[0];
  return i < heap::kClassCount ? call.read_only(slab_bytes(i)) : ENOENT;
}

// ---- statistics ----

template <typename Pick>
int figure(Call& call, Pick pick) {
  Snapshot s;
  current_snapshot(&s);
  return call.read_only(pick(s));
}
template <typename Pick>
int arena_figure(Call& call, Pick pick) {
  return is_arena(call.numbers[0]) ? figure(call, pick) : ENOENT;
}
template <typename Pick>
int class_figure(Call& call, Pick pick) {
  size_t i = call.numbers[1];
  if (i >= heap::kClassCount) return ENOENT;
  return arena_figure(call, [&](const Snapshot& s) { return pick(s.classes[i]); });
}

// A page is in a span or it is not, so the regions know this number without a walk over blocks.
int active_now(Call& call) {
  return call.read_only(pages::page_statistics().used_bytes + pages::huge_statistics().used_bytes);
}

size_t mapped_bytes(const Snapshot& s) { return s.active() + s.free_dirty + s.metadata; }

// ---- profiling ----

int prof_active(Call& call) {
  return call.read_write(sampling_is_on(),
                         [](bool on) { return enable_sampling(on) ? 0 : EFAULT; });
}

int prof_dump(Call& call) {
  const char* path = nullptr;
  if (call.reads()) return EPERM;
  if (call.writes()) {
    if (int error = call.get(&path)) return error;
  }
  FixedText<kDumpPathBytes> name;
  if (path == nullptr) {
    if (!next_dump_name(DumpReason::kRequested, options::DumpNames::kJemalloc, name)) return EFAULT;
    path = name.c_str();
  }
  return write_heap_text(HeapText::kJemalloc, path) == 0 ? 0 : EFAULT;
}

int prof_reset(Call& call) {
  size_t log2 = 0;
  if (call.reads()) return EPERM;
  if (call.writes()) {
    if (int error = call.get(&log2)) return error;
    if (!set_sample_interval_log2(log2)) return EINVAL;
  }
  return reset_samples() ? 0 : EFAULT;
}

int prof_prefix(Call& call) {
  const char* prefix = nullptr;
  if (call.reads()) return EPERM;
  if (int error = call.get(&prefix)) return error;
  return prefix != nullptr && set_option_to("dump_prefix", prefix) ? 0 : EFAULT;
}

// Switches dumps on as MALLOC_CONF's prof_gdump does. The dumps are then named as jemalloc names
// them, unless another form was chosen.
int prof_gdump(Call& call) {
  bool now = options::get(Id::dump_growth_interval) != 0;
  return call.read_write(now, [now](bool on) {
    if (on == now) return 0;
    if (on && !options::is_explicitly_set(Id::dump_names)) set_option_to("dump_names", "jemalloc");
    return set_option_to("dump_growth_interval", on ? kRegionBytes : 0) ? 0 : EFAULT;
  });
}

// -1: never.
ssize_t dump_interval_log2() {
  return static_cast<ssize_t>(std::bit_width(options::get(Id::dump_alloc_interval))) - 1;
}

// The values of the options at the start.
struct StartOptions {
  ssize_t decay_ms, muzzy_decay_ms;
  ssize_t dump_interval_log2;
  size_t sample_interval_log2;
  unsigned stack_depth;
  bool helper, stats_print, samples, dumps_growth, dumps_at_exit, sums_leaks;
  JemallocSettings configured;
  char prefix[options::kMaxTextBytes];  // callers keep pointers to it
};
constinit StartOptions start = {};

// ---- options ----

int no(Call& call) { return call.read_only(false); }
int yes(Call& call) { return call.read_only(true); }
int zero_size(Call& call) { return call.read_only(size_t{0}); }
int zero_count(Call& call) { return call.read_only(uint64_t{0}); }
int empty_text(Call& call) { return call.text(""); }

// The most blocks that a thread free list can have, in the class with the fewest and in the one
// with the most: a list holds the free blocks of one span.
constexpr size_t kMaxSpanBytes = heap::kMaxSpanPages * kPageBytes;
constexpr unsigned kMinListBlocks = kMaxSpanBytes / heap::kMaxSmallBytes;
constexpr unsigned kMaxListBlocks = kMaxSpanBytes / 2 / heap::kClasses[0].bytes;

// ---- thread caches, by number: the thread's own serves for all ----

int create_cache(Call& call) { return call.read_only(unsigned{0}); }
int use_cache(Call& call) {
  unsigned cache = 0;
  return call.get(&cache);
}

#define FIGURE(expression) \
  [](Call& call) { return figure(call, [](const Snapshot& s) { return expression; }); }
#define ARENA_FIGURE(expression) \
  [](Call& call) { return arena_figure(call, [](const Snapshot& s) { return expression; }); }
#define CLASS_FIGURE(expression) \
  [](Call& call) { return class_figure(call, [](const ClassCounts& c) { return expression; }); }
#define VALUE(expression) [](Call& call) { return call.read_only(expression); }

constexpr ControlRow kRows[] = {
    {"version", [](Call& call) { return call.text(kVersion); }},
    {"epoch", do_epoch},
    {"background_thread",
     [](Call& call) {
       bool on = options::get(Id::helper) != 0;
       return call.read_write(on, [on](bool wanted) { return wanted == on ? 0 : EPERM; });
     }},
    {"max_background_threads",
     [](Call& call) {
       return call.read_write(size_t{1}, [](size_t n) { return n != 0 ? 0 : EINVAL; });
     }},

    {"thread.arena", thread_arena},
    {"thread.allocated", thread_allocated},
    {"thread.allocatedp", thread_allocatedp},
    {"thread.deallocated", thread_deallocated},
    {"thread.deallocatedp", thread_deallocatedp},
    {"thread.peak.read", thread_peak},
    {"thread.peak.reset", reset_peak},
    {"thread.idle", flush_thread},
    {"thread.tcache.enabled", fixed_true},
    {"thread.tcache.flush", flush_thread},
    {"thread.tcache.max", tcache_max},
    {"thread.prof.name", no_name},
    {"thread.prof.active", fixed_true},
    {"tcache.create", create_cache},
    {"tcache.flush", use_cache},
    {"tcache.destroy", use_cache},

    {"arena.#.initialized", arena_initialized},
    {"arena.#.purge", purge},
    {"arena.#.decay", decay},
    {"arena.#.reset", arena_op_unsupported},
    {"arena.#.destroy", arena_op_unsupported},
    {"arena.#.dss", disabled_text},
    {"arena.#.oversize_threshold", oversize_threshold},
    {"arena.#.retain_grow_limit", retain_grow_limit},
    {"arena.#.dirty_decay_ms", dirty_decay},
    {"arena.#.muzzy_decay_ms", muzzy_decay},

    {"arenas.narenas", VALUE(kArenas)},
    {"arenas.dirty_decay_ms", change_decay},
    {"arenas.muzzy_decay_ms", change_muzzy_decay},
    {"arenas.quantum", VALUE(size_t{16})},
    {"arenas.page", VALUE(os::page_bytes())},
    {"arenas.hugepage", VALUE(kRegionBytes)},
    {"arenas.tcache_max", VALUE(heap::kMaxSmallBytes)},
    {"arenas.nbins", VALUE(heap::kClassCount)},
    {"arenas.nhbins", VALUE(heap::kClassCount)},
    {"arenas.nlextents", VALUE(unsigned{0})},
    {"arenas.bin.#.size", class_size},
    {"arenas.bin.#.nregs", class_blocks},
    {"arenas.bin.#.slab_size", class_slab},
    {"arenas.bin.#.nshards", VALUE(uint32_t{1})},
    {"arenas.create", create_arena},
    {"arenas.lookup", lookup_arena},

    {"approximate_stats.active", active_now},
    {"stats.allocated", FIGURE(s.allocated)},
    {"stats.active", FIGURE(s.active())},
    {"stats.metadata", FIGURE(s.metadata)},
    {"stats.metadata_thp", zero_size},
    {"stats.resident", FIGURE(s.resident)},
    {"stats.mapped", FIGURE(mapped_bytes(s))},
    {"stats.retained", FIGURE(s.free_clean)},
    {"stats.zero_reallocs", zero_size},
    {"stats.background_thread.num_threads", VALUE(size_t{options::get(Id::helper)})},
    {"stats.arenas.#.nthreads", ARENA_FIGURE(static_cast<unsigned>(s.threads))},
    {"stats.arenas.#.uptime", ARENA_FIGURE(s.uptime_ns)},
    {"stats.arenas.#.dss", disabled_text},
    {"stats.arenas.#.dirty_decay_ms", VALUE(decay_ms())},
    {"stats.arenas.#.muzzy_decay_ms", VALUE(ssize_t{0})},
    {"stats.arenas.#.pactive", ARENA_FIGURE(s.active() / os::page_bytes())},
    {"stats.arenas.#.pdirty", ARENA_FIGURE(s.free_dirty / os::page_bytes())},
    {"stats.arenas.#.pmuzzy", zero_size},
    {"stats.arenas.#.mapped", ARENA_FIGURE(mapped_bytes(s))},
    {"stats.arenas.#.retained", ARENA_FIGURE(s.free_clean)},
    {"stats.arenas.#.resident", ARENA_FIGURE(s.resident)},
    {"stats.arenas.#.base", ARENA_FIGURE(s.metadata)},
    {"stats.arenas.#.dirty_nmadvise", ARENA_FIGURE(s.purge_calls)},
    {"stats.arenas.#.dirty_purged", ARENA_FIGURE(s.purged_bytes / os::page_bytes())},
    {"stats.arenas.#.muzzy_npurge", zero_count},
    {"stats.arenas.#.muzzy_nmadvise", zero_count},
    {"stats.arenas.#.muzzy_purged", zero_count},
    {"stats.arenas.#.abandoned_vm", zero_size},
    {"stats.arenas.#.hpa_sec_bytes", zero_size},
    {"stats.arenas.#.internal", zero_size},
    {"stats.arenas.#.metadata_thp", zero_size},
    {"stats.arenas.#.tcache_bytes", ARENA_FIGURE(s.cached)},
    {"stats.arenas.#.tcache_stashed_bytes", zero_size},
    {"stats.arenas.#.small.allocated", ARENA_FIGURE(saturating_subtract(s.allocated, s.large))},
    {"stats.arenas.#.large.allocated", ARENA_FIGURE(s.large)},
    {"stats.arenas.#.bins.#.curregs", CLASS_FIGURE(c.live)},
    {"stats.arenas.#.bins.#.curslabs", CLASS_FIGURE(c.spans)},

    {"prof.active", prof_active},
    {"prof.thread_active_init", fixed_true},
    {"prof.dump", prof_dump},
    {"prof.prefix", prof_prefix},
    {"prof.gdump", prof_gdump},
    {"prof.reset", prof_reset},
    {"prof.lg_sample", VALUE(sample_interval_log2())},
    {"prof.interval", VALUE(options::get(Id::dump_alloc_interval))},

    {"config.cache_oblivious", no},
    {"config.debug", no},
    {"config.fill", no},
    {"config.lazy_lock", no},
    {"config.malloc_conf", empty_text},
    {"config.opt_safety_checks", no},
    {"config.opt_size_checks", no},
    {"config.prof", yes},
    {"config.prof_frameptr", no},
    {"config.prof_libgcc", no},
    {"config.prof_libunwind", no},
    {"config.stats", yes},
    {"config.thp", yes},
    {"config.utrace", no},
    {"config.xmalloc", no},

    {"opt.abort", no},
    {"opt.abort_conf", VALUE(start.configured.abort_conf)},
    {"opt.confirm_conf", VALUE(start.configured.confirm_conf)},
    {"opt.cache_oblivious", no},
    {"opt.metadata_thp", disabled_text},
    {"opt.trust_madvise", yes},
    {"opt.retain", yes},
    {"opt.dss", disabled_text},
    {"opt.narenas", VALUE(kArenas)},
    {"opt.percpu_arena", disabled_text},
    {"opt.huge_arena_pac_thp", no},
    {"opt.oversize_threshold", zero_size},
    {"opt.disable_large_size_classes", yes},
    {"opt.mutex_max_spin", VALUE(int64_t{kSpinsBeforeSleep})},
    {"opt.process_madvise_max_batch", zero_size},
    {"opt.background_thread", VALUE(start.helper)},
    {"opt.max_background_threads", VALUE(size_t{1})},
    {"opt.dirty_decay_ms", VALUE(start.decay_ms)},
    {"opt.muzzy_decay_ms", VALUE(start.muzzy_decay_ms)},
    {"opt.stats_print", VALUE(start.stats_print)},
    {"opt.stats_print_opts", empty_text},
    {"opt.stats_interval", VALUE(int64_t{-1})},
    {"opt.stats_interval_opts", empty_text},
    {"opt.junk", [](Call& call) { return call.text("false"); }},
    {"opt.zero", no},
    {"opt.utrace", no},
    {"opt.xmalloc", no},
    {"opt.experimental_infallible_new", no},
    {"opt.debug_double_free_max_scan", VALUE(unsigned{0})},
    {"opt.lg_san_uaf_align", VALUE(ssize_t{-1})},
    {"opt.tcache", yes},
    {"opt.tcache_max", VALUE(heap::kMaxSmallBytes)},
    {"opt.lg_tcache_max", VALUE(size_t{15})},
    {"opt.tcache_nslots_small_min", VALUE(kMinListBlocks)},
    {"opt.tcache_nslots_small_max", VALUE(kMaxListBlocks)},
    {"opt.tcache_nslots_large", VALUE(unsigned{0})},
    {"opt.lg_tcache_nslots_mul", VALUE(ssize_t{0})},
    {"opt.tcache_gc_incr_bytes", zero_size},
    {"opt.tcache_gc_delay_bytes", zero_size},
    {"opt.lg_tcache_flush_small_div", VALUE(unsigned{0})},
    {"opt.lg_tcache_flush_large_div", VALUE(unsigned{0})},
    {"opt.lg_extent_max_active_fit", zero_size},
    // seemalloc has no such huge page allocator: it serves no size, keeps no memory and never
    // waits.
    {"opt.hpa", no},
    {"opt.hpa_slab_max_alloc", zero_size},
    {"opt.hpa_hugification_threshold", zero_size},
    {"opt.hpa_hugify_delay_ms", zero_count},
    {"opt.hpa_hugify_sync", no},
    {"opt.hpa_hugify_style", [](Call& call) { return call.text("none"); }},
    {"opt.hpa_min_purge_interval_ms", zero_count},
    {"opt.hpa_min_purge_delay_ms", zero_count},
    {"opt.hpa_purge_threshold", zero_size},
    {"opt.hpa_dirty_mult", VALUE(uint32_t{0})},
    {"opt.hpa_sec_nshards", zero_size},
    {"opt.hpa_sec_max_alloc", zero_size},
    {"opt.hpa_sec_max_bytes", zero_size},
    {"opt.hpa_sec_bytes_after_flush", zero_size},
    {"opt.hpa_sec_batch_fill_extra", zero_size},
    {"opt.thp", [](Call& call) { return call.text("default"); }},
    // Sampling is on unless prof_active is false. This is false only if the configuration says so:
    // then the program wants no profiles by jemalloc's options.
    {"opt.prof", VALUE(!start.configured.prof_off)},
    {"opt.prof_prefix", [](Call& call) { return call.text(start.prefix); }},
    {"opt.prof_active", VALUE(start.samples)},
    {"opt.prof_thread_active_init", yes},
    {"opt.lg_prof_sample", VALUE(start.sample_interval_log2)},
    {"opt.prof_accum", yes},
    {"opt.lg_prof_interval", VALUE(start.dump_interval_log2)},
    {"opt.prof_gdump", VALUE(start.dumps_growth)},
    {"opt.prof_final", VALUE(start.dumps_at_exit)},
    {"opt.prof_leak", VALUE(start.sums_leaks)},
    {"opt.prof_leak_error", VALUE(start.configured.prof_leak_error)},
    {"opt.prof_bt_max", VALUE(start.stack_depth)},
    {"opt.prof_pid_namespace", no},
    {"opt.prof_recent_alloc_max", VALUE(ssize_t{0})},
    {"opt.prof_stats", no},
    {"opt.prof_sys_thread_name", no},
    {"opt.prof_time_resolution", [](Call& call) { return call.text("default"); }},
    {"opt.zero_realloc", [](Call& call) { return call.text("free"); }},
};
static_assert(heap::kMaxSmallBytes == size_t{1} << 15);

}  // namespace

void save_start_options() {
  start.decay_ms = decay_ms();
  start.dump_interval_log2 = dump_interval_log2();
  start.sample_interval_log2 = sample_interval_log2();
  start.stack_depth = static_cast<unsigned>(options::get(Id::stack_depth));
  start.helper = options::get(Id::helper) != 0;
  start.stats_print = options::get(Id::stats_print) != 0;
  start.samples = options::get(Id::sample) != 0;
  start.dumps_growth = options::get(Id::dump_growth_interval) != 0;
  start.dumps_at_exit = options::get(Id::dump_final) != 0;
  start.configured = jemalloc_settings();
  start.sums_leaks = options::get(Id::leak_summary) != 0 || start.configured.prof_leak;
  // -1 was translated into an option, which SEEMALLOC_CONF may have changed since.
  ssize_t muzzy = start.configured.muzzy_decay_ms < 0 ? 0 : start.configured.muzzy_decay_ms;
  start.muzzy_decay_ms = options::get(Id::purge_free) != 0 ? -1 : muzzy;
  Text prefix(start.prefix, sizeof(start.prefix));
  copy_text_option(Id::dump_prefix, prefix);
  // Jemalloc's default, which dump names use here too.
  if (prefix.size() == 0 && !options::is_explicitly_set(Id::dump_prefix)) prefix << "jeprof";
}

ControlRows control_rows() { return {kRows, sizeof(kRows) / sizeof(kRows[0])}; }

}  // namespace seemalloc::compat

void seemalloc::options_were_read() { compat::save_start_options(); }
