#include "core/compat/mallctl.h"

#include <sys/types.h>

#include <bit>

#include "core/api/dump_names.h"
#include "core/api/runtime_options.h"
#include "core/api/sampling.h"
#include "core/api/slow_path.h"
#include "core/base/options.h"
#include "core/base/text.h"
#include "core/compat/control_call.h"
#include "core/compat/control_settings.h"
#include "core/compat/heap_text.h"
#include "core/compat/stats_snapshot.h"
#include "core/heap/large.h"
#include "core/heap/large_cache.h"
#include "core/heap/size_class.h"
#include "core/heap/statistics.h"
#include "core/heap/thread_heap.h"
#include "core/os/os.h"
#include "core/pages/page_map.h"

namespace seemalloc::compat {

namespace {

using Call = ControlCall;
using options::Id;

// There is one arena, with the number 0. It answers to these as well: all arenas, and the number of arenas (jemalloc 3.x's way to
// say all).
constexpr unsigned kArenas = 1;
constexpr size_t kAllArenas = 4096;
bool is_arena(size_t number) { return number <= kArenas || number == kAllArenas; }

// Version 5.3.0's names and types; the rest says who answers.
constexpr char kVersion[] = "5.3.0-seemalloc-" SEEMALLOC_VERSION;

size_t minus(size_t a, size_t b) { return a > b ? a - b : 0; }

// ---- epoch, threads ----

int do_epoch(Call& call) {
  uint64_t ignored = 0;
  if (call.writes()) {
    if (int error = call.get(&ignored)) return error;
    refresh_snapshot();
  }
  Snapshot s;
  kept_snapshot(&s);
  return call.put(s.epoch);
}

// A switch that is always on.
int always_on(Call& call) {
  return call.read_write(true, [](bool on) { return on ? 0 : EPERM; });
}

int thread_arena(Call& call) {
  return call.read_write(unsigned{0}, [](unsigned arena) { return is_arena(arena) ? 0 : EFAULT; });
}

int thread_allocated(Call& call) { return call.read_only(heap::allocated_by_this_thread()); }
int thread_allocatedp(Call& call) {
  const heap::ThreadHeap* mine = thread_heap();
  return mine != nullptr ? call.read_only(&mine->handed_out_bytes) : EAGAIN;
}
int thread_deallocated(Call& call) { return call.read_only(*thread_freed_bytes()); }
int thread_deallocatedp(Call& call) { return call.read_only(thread_freed_bytes()); }

int flush_thread(Call& call) {
  if (!call.is_plain()) return EPERM;
  if (heap::ThreadHeap* mine = heap::thread_cache.heap) heap::collect(*mine, true);
  return 0;
}

int no_name(Call& call) { return call.text(""); }

// ---- arenas ----

int purge(Call& call) {
  if (!call.is_plain()) return EPERM;
  if (!is_arena(call.numbers[0])) return EFAULT;
  purge_everything();
  return 0;
}

int decay(Call& call) {
  if (!call.is_plain()) return EPERM;
  if (!is_arena(call.numbers[0])) return EFAULT;
  heap::tick();
  return 0;
}

// What belongs to everybody is neither discarded nor destroyed.
int not_for_this_arena(Call&) { return EFAULT; }

int change_decay(Call& call) {
  return call.read_write(decay_ms(), [](ssize_t ms) { return set_decay_ms(ms) ? 0 : EFAULT; });
}
int dirty_decay(Call& call) { return is_arena(call.numbers[0]) ? change_decay(call) : EFAULT; }
// There is no such state of memory here.
int change_muzzy_decay(Call& call) {
  return call.read_write(ssize_t{0}, [](ssize_t ms) { return ms < -1 ? EFAULT : 0; });
}
int muzzy_decay(Call& call) { return is_arena(call.numbers[0]) ? change_muzzy_decay(call) : EFAULT; }

int arena_initialized(Call& call) { return is_arena(call.numbers[0]) ? call.read_only(true) : EFAULT; }
int no_dss(Call& call) { return call.text("disabled"); }

// The one arena serves whoever asks for one of his own, but not with memory of his own.
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
  return i < heap::kClassCount ? call.read_only(static_cast<uint32_t>(slab_bytes(i) / heap::kClasses[i].bytes)) : ENOENT;
}
int class_slab(Call& call) {
  size_t i = call.numbers[0];
  return i < heap::kClassCount ? call.read_only(slab_bytes(i)) : ENOENT;
}

// ---- statistics ----

template <typename Pick>
int figure(Call& call, Pick pick) {
  Snapshot s;
  kept_snapshot(&s);
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

size_t mapped_bytes(const Snapshot& s) { return s.active() + s.free_dirty + s.metadata; }

// ---- profiling ----

int prof_active(Call& call) {
  return call.read_write(sampling_is_on(), [](bool on) { return switch_sampling(on) ? 0 : EFAULT; });
}

int prof_dump(Call& call) {
  const char* path = nullptr;
  if (call.reads()) return EPERM;
  if (call.writes()) {
    if (int error = call.get(&path)) return error;
  }
  FixedText<kDumpPathBytes> name;
  if (path == nullptr) {
    if (!next_dump_name(DumpReason::kAsked, options::DumpNames::kJemalloc, name)) return EFAULT;
    path = name.c_str();
  }
  return write_heap_text(HeapText::kJemalloc, path) == 0 ? 0 : EFAULT;
}

int prof_reset(Call& call) {
  size_t log2 = 0;
  if (call.reads()) return EPERM;
  if (!call.writes()) return 0;
  if (int error = call.get(&log2)) return error;
  return set_sample_interval_log2(log2) ? 0 : EINVAL;
}

int prof_prefix(Call& call) {
  const char* prefix = nullptr;
  if (call.reads()) return EPERM;
  if (int error = call.get(&prefix)) return error;
  return prefix != nullptr && set_option_to("dump_prefix", prefix) ? 0 : EFAULT;
}

// On as MALLOC_CONF's prof_gdump; dumps are then named as jemalloc's, unless another form was chosen.
int prof_gdump(Call& call) {
  bool now = options::get(Id::dump_growth_interval) != 0;
  return call.read_write(now, [now](bool on) {
    if (on == now) return 0;
    if (on && !options::is_chosen(Id::dump_names)) set_option_to("dump_names", "jemalloc");
    return set_option_to("dump_growth_interval", on ? kRegionBytes : 0) ? 0 : EFAULT;
  });
}

// -1: never.
ssize_t dump_interval_log2() { return static_cast<ssize_t>(std::bit_width(options::get(Id::dump_alloc_interval))) - 1; }

// As it was at the start: whoever has asked keeps the pointer.
char first_prefix[options::kMaxTextBytes];
__attribute__((constructor(102))) void keep_first_prefix() {
  Text prefix(first_prefix, sizeof(first_prefix));
  copy_text_option(Id::dump_prefix, prefix);
}

// ---- options ----

int option_switch(Call& call, options::Id id) { return call.read_only(options::get(id) != 0); }
int no(Call& call) { return call.read_only(false); }
int yes(Call& call) { return call.read_only(true); }
int zero_size(Call& call) { return call.read_only(size_t{0}); }
int empty_text(Call& call) { return call.text(""); }

// ---- caches of a thread, by number: the thread's own serves for all ----

int create_cache(Call& call) { return call.read_only(unsigned{0}); }
int use_cache(Call& call) {
  unsigned cache = 0;
  return call.get(&cache);
}

struct Row {
  const char* name;  // # stands for a number
  int (*handle)(Call& call);
};

#define FIGURE(expression) [](Call& call) { return figure(call, [](const Snapshot& s) { return expression; }); }
#define ARENA_FIGURE(expression) [](Call& call) { return arena_figure(call, [](const Snapshot& s) { return expression; }); }
#define CLASS_FIGURE(expression) [](Call& call) { return class_figure(call, [](const ClassFigures& c) { return expression; }); }
#define VALUE(expression) [](Call& call) { return call.read_only(expression); }

constexpr Row kRows[] = {
    {"version", [](Call& call) { return call.text(kVersion); }},
    {"epoch", do_epoch},
    {"background_thread",
     [](Call& call) {
       bool on = options::get(Id::helper) != 0;
       return call.read_write(on, [on](bool wanted) { return wanted == on ? 0 : EPERM; });
     }},
    {"max_background_threads", [](Call& call) { return call.read_write(size_t{1}, [](size_t n) { return n != 0 ? 0 : EINVAL; }); }},

    {"thread.arena", thread_arena},
    {"thread.allocated", thread_allocated},
    {"thread.allocatedp", thread_allocatedp},
    {"thread.deallocated", thread_deallocated},
    {"thread.deallocatedp", thread_deallocatedp},
    {"thread.idle", flush_thread},
    {"thread.tcache.enabled", always_on},
    {"thread.tcache.flush", flush_thread},
    {"thread.prof.name", no_name},
    {"thread.prof.active", always_on},
    {"tcache.create", create_cache},
    {"tcache.flush", use_cache},
    {"tcache.destroy", use_cache},

    {"arena.#.initialized", arena_initialized},
    {"arena.#.purge", purge},
    {"arena.#.decay", decay},
    {"arena.#.reset", not_for_this_arena},
    {"arena.#.destroy", not_for_this_arena},
    {"arena.#.dss", no_dss},
    {"arena.#.dirty_decay_ms", dirty_decay},
    {"arena.#.muzzy_decay_ms", muzzy_decay},

    {"arenas.narenas", VALUE(kArenas)},
    {"arenas.dirty_decay_ms", change_decay},
    {"arenas.muzzy_decay_ms", change_muzzy_decay},
    {"arenas.quantum", VALUE(size_t{16})},
    {"arenas.page", VALUE(os::page_bytes())},
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
    {"stats.arenas.#.dss", no_dss},
    {"stats.arenas.#.dirty_decay_ms", VALUE(decay_ms())},
    {"stats.arenas.#.muzzy_decay_ms", VALUE(ssize_t{0})},
    {"stats.arenas.#.pactive", ARENA_FIGURE(s.active() / os::page_bytes())},
    {"stats.arenas.#.pdirty", ARENA_FIGURE(s.free_dirty / os::page_bytes())},
    {"stats.arenas.#.pmuzzy", zero_size},
    {"stats.arenas.#.mapped", ARENA_FIGURE(mapped_bytes(s))},
    {"stats.arenas.#.retained", ARENA_FIGURE(s.free_clean)},
    {"stats.arenas.#.resident", ARENA_FIGURE(s.resident)},
    {"stats.arenas.#.base", ARENA_FIGURE(s.metadata)},
    {"stats.arenas.#.internal", zero_size},
    {"stats.arenas.#.metadata_thp", zero_size},
    {"stats.arenas.#.tcache_bytes", ARENA_FIGURE(s.cached)},
    {"stats.arenas.#.small.allocated", ARENA_FIGURE(minus(s.allocated, s.large))},
    {"stats.arenas.#.large.allocated", ARENA_FIGURE(s.large)},
    {"stats.arenas.#.bins.#.curregs", CLASS_FIGURE(c.live)},
    {"stats.arenas.#.bins.#.curslabs", CLASS_FIGURE(c.spans)},

    {"prof.active", prof_active},
    {"prof.thread_active_init", always_on},
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
    {"config.prof_libgcc", no},
    {"config.prof_libunwind", no},
    {"config.stats", yes},
    {"config.utrace", no},
    {"config.xmalloc", no},

    {"opt.abort", no},
    {"opt.abort_conf", no},
    {"opt.confirm_conf", no},
    {"opt.cache_oblivious", no},
    {"opt.metadata_thp", no_dss},
    {"opt.trust_madvise", yes},
    {"opt.retain", yes},
    {"opt.dss", no_dss},
    {"opt.narenas", VALUE(kArenas)},
    {"opt.percpu_arena", no_dss},
    {"opt.oversize_threshold", zero_size},
    {"opt.background_thread", [](Call& call) { return option_switch(call, Id::helper); }},
    {"opt.max_background_threads", VALUE(size_t{1})},
    {"opt.dirty_decay_ms", VALUE(decay_ms())},
    {"opt.muzzy_decay_ms", VALUE(ssize_t{0})},
    {"opt.stats_print", [](Call& call) { return option_switch(call, Id::stats_print); }},
    {"opt.stats_print_opts", empty_text},
    {"opt.junk", [](Call& call) { return call.text("false"); }},
    {"opt.zero", no},
    {"opt.utrace", no},
    {"opt.xmalloc", no},
    {"opt.tcache", yes},
    {"opt.tcache_max", VALUE(heap::kMaxSmallBytes)},
    {"opt.lg_tcache_max", VALUE(size_t{15})},
    {"opt.thp", [](Call& call) { return call.text("default"); }},
    {"opt.prof", yes},
    {"opt.prof_prefix", [](Call& call) { return call.text(first_prefix); }},
    {"opt.prof_active", [](Call& call) { return option_switch(call, Id::sample); }},
    {"opt.prof_thread_active_init", yes},
    {"opt.lg_prof_sample", VALUE(sample_interval_log2())},
    {"opt.prof_accum", yes},
    {"opt.lg_prof_interval", VALUE(dump_interval_log2())},
    {"opt.prof_gdump", [](Call& call) { return option_switch(call, Id::dump_growth_interval); }},
    {"opt.prof_final", [](Call& call) { return option_switch(call, Id::dump_final); }},
    {"opt.prof_leak", [](Call& call) { return option_switch(call, Id::leak_summary); }},
    {"opt.zero_realloc", [](Call& call) { return call.text("free"); }},
};
static_assert(heap::kMaxSmallBytes == size_t{1} << 15);

constexpr size_t kRowCount = sizeof(kRows) / sizeof(kRows[0]);

// ---- names and numbers ----

// A number in a name: digits only, within size_t. Nothing else ends it but a dot or the end.
bool take_number(const char** at, size_t* number) {
  const char* s = *at;
  size_t n = 0;
  if (*s < '0' || *s > '9') return false;
  for (; *s >= '0' && *s <= '9'; s++) {
    if (__builtin_mul_overflow(n, size_t{10}, &n)) return false;
    if (__builtin_add_overflow(n, static_cast<size_t>(*s - '0'), &n)) return false;
  }
  *at = s;
  *number = n;
  return *s == '.' || *s == 0;
}

bool matches(const char* pattern, const char* name, size_t* numbers) {
  for (; *pattern != 0; pattern++) {
    if (*pattern == '#') {
      if (!take_number(&name, numbers++)) return false;
    } else if (*pattern != *name++) {
      return false;
    }
  }
  return *name == 0;
}

const Row* find(const char* name, size_t* numbers) {
  for (const Row& row : kRows) {
    if (matches(row.name, name, numbers)) return &row;
  }
  return nullptr;
}

// A MIB has one element for each part of the name: the number itself, or 1 + the row's index.
template <typename Visit>
size_t for_each_part(const char* pattern, Visit visit) {
  size_t parts = 0;
  for (const char* at = pattern;; at++) {
    visit(parts, *at == '#');
    parts++;
    while (*at != 0 && *at != '.') at++;
    if (*at == 0) return parts;
  }
}

int run(const Row& row, ControlCall& call) { return row.handle(call); }

}  // namespace

int control(const char* name, void* old_value, size_t* old_bytes, const void* new_value, size_t new_bytes) {
  ControlCall call{old_value, old_bytes, new_value, new_bytes, {}};
  const Row* row = name != nullptr ? find(name, call.numbers) : nullptr;
  return row != nullptr ? run(*row, call) : ENOENT;
}

int name_to_mib(const char* name, size_t* mib, size_t* length) {
  size_t numbers[ControlCall::kMostNumbers] = {};
  const Row* row = name != nullptr ? find(name, numbers) : nullptr;
  if (row == nullptr || mib == nullptr || length == nullptr) return ENOENT;
  size_t room = *length, next_number = 0;
  size_t parts = for_each_part(row->name, [&](size_t part, bool is_number) {
    size_t element = is_number ? numbers[next_number++] : 1 + static_cast<size_t>(row - kRows);
    if (part < room) mib[part] = element;
  });
  if (parts < room) *length = parts;
  return 0;
}

int control_by_mib(const size_t* mib, size_t length, void* old_value, size_t* old_bytes, const void* new_value,
                   size_t new_bytes) {
  if (mib == nullptr || length == 0 || mib[0] == 0 || mib[0] > kRowCount) return ENOENT;
  const Row& row = kRows[mib[0] - 1];
  ControlCall call{old_value, old_bytes, new_value, new_bytes, {}};
  size_t next_number = 0;
  size_t parts = for_each_part(row.name, [&](size_t part, bool is_number) {
    if (is_number && part < length) call.numbers[next_number++] = mib[part];
  });
  return parts == length ? run(row, call) : ENOENT;
}

size_t control_names() { return kRowCount; }
const char* control_name(size_t index) { return kRows[index].name; }

size_t good_size(size_t bytes, size_t alignment) {
  if (bytes > static_cast<size_t>(PTRDIFF_MAX) || alignment > static_cast<size_t>(PTRDIFF_MAX) / 2) return 0;
  if (alignment <= kPageBytes && bytes <= heap::kMaxSmallBytes) {
    unsigned size_class = heap::class_of(bytes < alignment ? alignment : bytes);
    while (size_class < heap::kClassCount && heap::kClasses[size_class].bytes % alignment != 0) size_class++;
    if (size_class < heap::kClassCount) return heap::kClasses[size_class].bytes;
  }
  return heap::large_bytes(bytes == 0 ? 1 : bytes);
}

size_t purge_everything() {
  if (heap::ThreadHeap* mine = heap::thread_cache.heap) heap::collect(*mine, true);
  return heap::purge_all();
}

}  // namespace seemalloc::compat
