#include "core/profile/heap/pool_profile.h"

#include <string.h>

#include <atomic>

#include "core/base/compiler.h"
#include "core/base/text.h"
#include "core/os/runtime/scratch.h"
#include "core/profile/heap/pool_table.h"
#include "core/profile/heap/records.h"
#include "core/profile/pprof/profile_encoder.h"
#include "core/profile/sampling/sampler.h"
#include "core/profile/sampling/square_root.h"

namespace seemalloc::profile {

struct PoolName {
  uint64_t hash;
  char text[kMaxPoolNameBytes + 1];
};

namespace {
// Objects are summed in units of 1/1024, so that the free of a sample subtracts exactly the amount
// that its allocation added.
constexpr double kUnitsPerObject = 1024;
}  // namespace

struct PoolStack {
  uint64_t hash;
  const InternedStack* stack;
  const PoolName* name;
  std::atomic<uint64_t> samples, alloc_units, alloc_bytes;
  std::atomic<uint64_t> left, left_units, left_bytes;
};

namespace {

constinit InternTable<PoolName> names;
constinit InternTable<PoolStack> sites;
constinit PoolTable live;
constinit PoolName other_pools{0, "(other pools)"};
constinit Lock pool_lock;
constinit os::Pool<Pool> pool_records;
std::atomic<uint64_t> created{0}, destroyed{0}, dropped{0};

void count(std::atomic<uint64_t>& counter, uint64_t by = 1) {
  counter.fetch_add(by, std::memory_order_relaxed);
}

struct Weighted {
  uint64_t units, bytes;
};
Weighted weighted(uint64_t bytes, uint64_t interval_bytes) {
  double weight = sample_weight(bytes, interval_bytes);
  return {static_cast<uint64_t>(rounded(weight * kUnitsPerObject)),
          static_cast<uint64_t>(rounded(weight * static_cast<double>(bytes)))};
}

// Returns the length of the UTF-8 character at the start of the text; 0 if there is no valid one.
// The text may end within it.
size_t character_bytes(const char* text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char first = byte(0);
  if (first < 0x80) return 1;
  size_t bytes = first >= 0xC2 && first < 0xE0    ? 2
                 : (first & 0xF0) == 0xE0         ? 3
                 : first >= 0xF0 && first <= 0xF4 ? 4
                                                  : 0;
  for (size_t i = 1; i < bytes; i++) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Overlong forms, surrogates, values above U+10FFFF.
  if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) >= 0xA0)) return 0;
  if ((first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) >= 0x90)) return 0;
  return bytes;
}

// Writes the name in a form that a profile can represent: strings are UTF-8, and an empty label
// counts as none. Long names are cut at a character boundary.
void write_name(const char* name, Text& out) {
  // U+FFFD, for each byte that is not part of a character.
  constexpr char kNoCharacter[] = "\xEF\xBF\xBD";
  while (*name != 0) {
    size_t bytes = character_bytes(name);
    size_t written = bytes != 0 ? bytes : sizeof(kNoCharacter) - 1;
    if (out.size() + written > kMaxPoolNameBytes) return;
    out.append(bytes != 0 ? name : kNoCharacter, written);
    name += bytes != 0 ? bytes : 1;
  }
  if (out.size() == 0) out << "(no name)";
}

const PoolName* intern_name(const char* given) {
  FixedText<kMaxPoolNameBytes + 1> text;
  write_name(given, text);
  const char* name = text.c_str();
  size_t length = text.size();
  uint64_t hash = length;
  for (size_t i = 0; i < length; i++) hash = mix(hash, static_cast<unsigned char>(name[i]));
  auto equal = [&](const PoolName& known) { return text_equal(name, length, known.text); };
  if (const PoolName* known = names.find(hash, equal)) return known;
  if (names.size() >= kMaxPoolNames) return &other_pools;
  auto make = [&]() -> PoolName* {
    auto* fresh = static_cast<PoolName*>(os::arena_allocate(sizeof(PoolName), alignof(PoolName)));
    if (fresh == nullptr) return nullptr;
    fresh->hash = hash;
    memcpy(fresh->text, name, length);
    return fresh;
  };
  return names.find_or_insert(hash, equal, make);
}

PoolStack* intern_site(const PoolName* name, const Stack& stack) {
  uint64_t stack_hash = hash_stack(stack);
  uint64_t hash = mix(stack_hash, reinterpret_cast<uintptr_t>(name));
  auto equal = [&](const PoolStack& known) {
    return known.name == name && same_stack(*known.stack, stack);
  };
  if (PoolStack* known = sites.find(hash, equal)) return known;
  const InternedStack* interned = records.stacks.intern(stack, stack_hash);
  if (interned == nullptr) return nullptr;
  auto make = [&]() -> PoolStack* {
    auto* fresh =
        static_cast<PoolStack*>(os::arena_allocate(sizeof(PoolStack), alignof(PoolStack)));
    if (fresh == nullptr) return nullptr;
    fresh->hash = hash;
    fresh->stack = interned;
    fresh->name = name;
    return fresh;
  };
  return sites.find_or_insert(hash, equal, make);
}

// Release: a thread that sees that a sample was freed also sees its allocation. Pairs with read().
void count_free(const PoolSample& sample) {
  Weighted w = weighted(sample.bytes, sample.interval_bytes);
  sample.site->left_units.fetch_add(w.units, std::memory_order_release);
  sample.site->left_bytes.fetch_add(w.bytes, std::memory_order_release);
  sample.site->left.fetch_add(1, std::memory_order_release);
}

struct SiteRow {
  uint64_t samples, live_samples;
  uint64_t values[4];
};
SiteRow read(const PoolStack& site) {
  uint64_t left = site.left.load(std::memory_order_acquire);
  uint64_t left_units = site.left_units.load(std::memory_order_acquire);
  uint64_t left_bytes = site.left_bytes.load(std::memory_order_acquire);
  uint64_t samples = site.samples.load(std::memory_order_relaxed);
  uint64_t units = site.alloc_units.load(std::memory_order_relaxed),
           bytes = site.alloc_bytes.load(std::memory_order_relaxed);
  auto objects = [](uint64_t some) {
    return static_cast<uint64_t>(rounded(static_cast<double>(some) / kUnitsPerObject));
  };
  return {samples,
          samples - left,
          {objects(units), bytes, objects(units - left_units), bytes - left_bytes}};
}

void write_comments(ProfileEncoder& encoder, const PoolTotals& totals, uint64_t interval_bytes) {
  FixedText<400> text;
  text << "memory pools: " << totals.created << " created, " << totals.open
       << " of them open, with " << uint64_t{names.size()} << " names; ";
  if (interval_bytes == 1)
    text << "every block is sampled, ";
  else
    text << "one sample every " << interval_bytes << " bytes on average, ";
  text << totals.samples << " recorded, " << totals.live_samples << " of them in use, "
       << totals.dropped << " more dropped for lack of memory";
  encoder.comment(text);
  text.clear();
  text
      << "in use: " << rounded(totals.inuse_bytes) << " bytes estimated, standard error "
      << rounded(totals.inuse_bytes_stderr)
      << " bytes; the heap profile shows the memory of these blocks at the stacks where the pools allocated it; there is no "
         "exact total: only sampled blocks are counted";
  encoder.comment(text);
  encoder.notes().add_stacks(totals.stacks, totals.truncated_samples, totals.broken_samples);
}

void write_site(ProfileEncoder& encoder, const PoolStack& site) {
  SiteRow row = read(site);
  if (row.samples == 0) return;
  int64_t values[4];
  for (unsigned i = 0; i < 4; i++) values[i] = static_cast<int64_t>(row.values[i]);
  Label label{"pool", 0, nullptr, site.name->text};
  encoder.row(site.stack->pcs(), site.stack->depth, values, &label, 1);
}

}  // namespace

Pool* create_pool(const char* name) {
  const PoolName* interned = intern_name(name);
  if (interned == nullptr) return nullptr;
  LockGuard guard(pool_lock);
  Pool* pool = pool_records.take();
  if (pool == nullptr) return nullptr;
  pool->name = interned;
  pool->live_samples.store(0, std::memory_order_relaxed);
  pool->first = 0;
  count(created);
  return pool;
}

void reset_pool(Pool* pool) {
  uint64_t most = pool->live_samples.load(std::memory_order_relaxed);
  if (most == 0) return;
  live.remove_all(pool, most, [&](const PoolSample& sample) {
    pool->live_samples.fetch_sub(1, std::memory_order_relaxed);
    count_free(sample);
  });
}

void destroy_pool(Pool* pool) {
  reset_pool(pool);
  count(destroyed);
  LockGuard guard(pool_lock);
  pool_records.give(pool);
}

SEEMALLOC_NOINLINE bool record_pool_alloc(Pool* pool, uintptr_t block, uint64_t bytes,
                                          uint64_t interval_bytes, size_t max_depth) {
  Stack stack;
  capture_stack(&stack, max_depth);
  PoolStack* site = intern_site(pool->name, stack);
  if (site == nullptr || !live.add({block, pool, site, bytes, interval_bytes})) {
    count(dropped);
    return false;
  }
  Weighted w = weighted(bytes, interval_bytes);
  count(site->samples);
  count(site->alloc_units, w.units);
  count(site->alloc_bytes, w.bytes);
  count(pool->live_samples);
  return true;
}

bool may_be_pool_sample(uintptr_t block) { return live.may_hold(block); }

bool record_pool_free(Pool* pool, uintptr_t block) {
  PoolSample sample;
  if (!live.remove(block, pool, &sample)) return false;
  pool->live_samples.fetch_sub(1, std::memory_order_relaxed);
  count_free(sample);
  return true;
}

PoolTotals pool_totals() {
  PoolTotals totals{};
  totals.open = 0 - destroyed.load(std::memory_order_relaxed);
  totals.created = created.load(std::memory_order_relaxed);
  totals.open += totals.created;
  totals.dropped = dropped.load(std::memory_order_relaxed);
  sites.for_each([&](const PoolStack& site) {
    uint64_t samples = site.samples.load(std::memory_order_relaxed);
    totals.samples += samples;
    if (samples != 0) totals.stacks++;
    if (site.stack->truncated) totals.truncated_samples += samples;
    if (site.stack->broken) totals.broken_samples += samples;
  });
  SamplingError in_use;
  live.for_each([&](const PoolSample& sample) {
    double weight = sample_weight(sample.bytes, sample.interval_bytes),
           bytes = static_cast<double>(sample.bytes);
    totals.live_samples++;
    totals.inuse_bytes += weight * bytes;
    in_use.add(weight, weight, bytes);
  });
  totals.inuse_bytes_stderr = square_root(in_use.variance());
  return totals;
}

bool pool_profile_to_buffer(Buffer* out, uint64_t interval_bytes) {
  *out = Buffer{};
  static constexpr ValueType kTypes[] = {{"alloc_objects", "count"},
                                         {"alloc_space", "bytes"},
                                         {"inuse_objects", "count"},
                                         {"inuse_space", "bytes"}};
  os::Scratch<ProfileEncoder> memory;
  if (!memory) return false;
  ProfileEncoder& encoder = *memory;
  if (!encoder.begin(kTypes, 4, {"space", "bytes"}, interval_bytes)) return false;
  write_comments(encoder, pool_totals(), interval_bytes);
  sites.for_each([&](const PoolStack& site) { write_site(encoder, site); });
  return encoder.finish(out);
}

void lock_pools_for_fork() {
  pool_lock.lock_for_fork();
  names.lock_all();
  sites.lock_all();
  live.lock_all();
}

void unlock_pools_after_fork() {
  live.unlock_all();
  sites.unlock_all();
  names.unlock_all();
  pool_lock.unlock_after_fork();
}

}  // namespace seemalloc::profile
