#include "core/api/settings/jemalloc_conf.h"

#include "core/base/text.h"

namespace seemalloc {

namespace {

enum class Kind { kSwitch, kNumber, kText };
struct Row {
  JemallocName name;
  const char* text;
  Kind kind;
  const char* expected;
  int64_t min = 0, max = 0;
};

#define SWITCH(name) \
  { JemallocName::name, #name, Kind::kSwitch, "expected true or false" }
constexpr Row kRows[] = {
    SWITCH(abort_conf),
    SWITCH(confirm_conf),
    SWITCH(prof),
    SWITCH(prof_active),
    SWITCH(prof_gdump),
    SWITCH(prof_final),
    SWITCH(prof_leak),
    SWITCH(prof_leak_error),
    SWITCH(stats_print),
    SWITCH(background_thread),
    {JemallocName::lg_prof_sample, "lg_prof_sample", Kind::kNumber,
     "expected a number from 0 to 63", 0, 63},
    {JemallocName::lg_prof_interval, "lg_prof_interval", Kind::kNumber,
     "expected a number from -1 (never) to 63", -1, 63},
    {JemallocName::dirty_decay_ms, "dirty_decay_ms", Kind::kNumber,
     "expected milliseconds, or -1 (never)", -1, INT64_MAX},
    {JemallocName::muzzy_decay_ms, "muzzy_decay_ms", Kind::kNumber,
     "expected milliseconds, or -1 (never)", -1, INT64_MAX},
    {JemallocName::lg_dirty_mult, "lg_dirty_mult", Kind::kNumber,
     "expected a number from -1 (never) to 63", -1, 63},
    {JemallocName::prof_prefix, "prof_prefix", Kind::kText, "expected fewer than 256 bytes"},
};
#undef SWITCH
static_assert(sizeof(kRows) / sizeof(kRows[0]) == static_cast<size_t>(JemallocName::kCount));

// Options of some jemalloc version without a counterpart here: arenas, thread caches, junk filling,
// its own layout and counters.
constexpr const char* kIgnored[] = {
    "abort",
    "narenas",
    "narenas_ratio",
    "lg_chunk",
    "purge",
    "decay_time",
    "chunk_hooks",
    "dss",
    "retain",
    "thp",
    "metadata_thp",
    "trust_madvise",
    "cache_oblivious",
    "oversize_threshold",
    "percpu_arena",
    "max_background_threads",
    "mutex_max_spin",
    "bin_shards",
    "slab_sizes",
    "lg_extent_max_active_fit",
    "tcache",
    "tcache_max",
    "lg_tcache_max",
    "lg_tcache_nslots_mul",
    "tcache_nslots_small_min",
    "tcache_nslots_small_max",
    "tcache_nslots_large",
    "tcache_gc_incr_bytes",
    "tcache_gc_delay_bytes",
    "lg_tcache_flush_small_div",
    "lg_tcache_flush_large_div",
    "lg_tcache_gc_sweep",
    "stats_print_opts",
    "stats_interval",
    "stats_interval_opts",
    "junk",
    "zero",
    "quarantine",
    "redzone",
    "utrace",
    "valgrind",
    "xmalloc",
    "zero_realloc",
    "prof_accum",
    "prof_thread_active_init",
    "prof_log",
    "prof_recent_alloc_max",
    "prof_stats",
    "prof_sys_thread_name",
    "prof_time_resolution",
    "prof_unbias",
    "lg_san_uaf_align",
    "san_guard_small",
    "san_guard_large",
    "log",
    "debug_double_free_max_scan",
    "hpa",
};
// All options with these prefixes.
constexpr const char* kIgnoredPrefixes[] = {"hpa_", "experimental_"};

bool begins_with(const char* text, size_t length, const char* beginning) {
  size_t wanted = text_length(beginning);
  return length >= wanted && text_equal(text, wanted, beginning);
}

const char* is_ignored_name(const char* name, size_t length) {
  for (const char* known : kIgnored) {
    if (text_equal(name, length, known)) return known;
  }
  for (const char* family : kIgnoredPrefixes) {
    if (begins_with(name, length, family)) return family;
  }
  return nullptr;
}

// The value of a digit in this base, or the base if it is not a digit.
unsigned digit(char c, unsigned base) {
  unsigned value = base;
  if (c >= '0' && c <= '9') value = static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') value = static_cast<unsigned>(c - 'a') + 10;
  return value < base ? value : base;
}

// Like strtol: decimal, 0x… or 0…; with a sign.
bool parse_number(const char* value, size_t length, int64_t* out) {
  size_t i = length != 0 && value[0] == '-' ? 1 : 0;
  unsigned base = 10;
  if (i + 2 < length && value[i] == '0' && value[i + 1] == 'x')
    base = 16, i += 2;
  else if (i + 1 < length && value[i] == '0')
    base = 8;
  if (i == length) return false;
  int64_t number = 0;
  for (; i < length; i++) {
    unsigned d = digit(value[i], base);
    if (d == base || __builtin_mul_overflow(number, int64_t{base}, &number) ||
        __builtin_add_overflow(number, int64_t{d}, &number)) {
      return false;
    }
  }
  *out = value[0] == '-' ? -number : number;
  return true;
}

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

struct Slice {
  const char* at;
  size_t length;
};

void report_pair(void (*report)(const char* line), const char* what, Slice pair,
                 const char* expected) {
  FixedText<500> line;
  line << "MALLOC_CONF: " << what << " \"";
  line.append(pair.at, pair.length) << "\" ignored; " << expected;
  report(line.c_str());
}

}  // namespace

const char* JemallocConf::set_known(unsigned row_number, const char* value, size_t length) {
  const Row& row = kRows[row_number];
  Setting setting{true, 0};
  switch (row.kind) {
    case Kind::kSwitch:
      setting.number = text_equal(value, length, "true");
      if (setting.number == 0 && !text_equal(value, length, "false")) return row.expected;
      break;
    case Kind::kNumber:
      if (!parse_number(value, length, &setting.number)) return row.expected;
      if (setting.number < row.min || setting.number > row.max) return row.expected;
      break;
    case Kind::kText:
      if (length >= sizeof(prefix_)) return row.expected;
      Text(prefix_, sizeof(prefix_)).append(value, length);
      break;
  }
  settings_[static_cast<unsigned>(row.name)] = setting;
  return nullptr;
}

const char* JemallocConf::set(const char* name, size_t name_length, const char* value,
                              size_t length, void (*on_ignored)(const char*)) {
  for (unsigned i = 0; i < static_cast<unsigned>(JemallocName::kCount); i++) {
    if (text_equal(name, name_length, kRows[i].text)) return set_known(i, value, length);
  }
  const char* known = is_ignored_name(name, name_length);
  if (known == nullptr) return "unknown option; see docs/migrating.md";
  on_ignored(known);
  return nullptr;
}

bool JemallocConf::parse(const char* text, void (*report)(const char* line),
                         void (*on_ignored)(const char* name)) {
  bool good = true;
  for (const char* at = text; *at != 0;) {
    const char* colon = at;
    while (is_name_character(*colon)) colon++;
    const char* end = colon;
    while (*end != 0 && *end != ',') end++;
    Slice pair{at, static_cast<size_t>(end - at)};
    if (*colon != ':' || colon == at) {
      // jemalloc stops parsing: it does not know where the next pair begins.
      report_pair(report, "the rest from", {at, text_length(at)}, "expected name:value,name:value");
      return false;
    }
    const char* expected = set(at, static_cast<size_t>(colon - at), colon + 1,
                               static_cast<size_t>(end - colon - 1), on_ignored);
    if (expected != nullptr) {
      report_pair(report, "bad pair", pair, expected);
      good = false;
    }
    at = *end == ',' ? end + 1 : end;
  }
  return good;
}

}  // namespace seemalloc
