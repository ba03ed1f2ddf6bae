#include "core/profile/heap/growth_profile.h"

#include <atomic>

#include "core/base/compiler.h"
#include "core/base/text.h"
#include "core/os/runtime/scratch.h"
#include "core/profile/heap/records.h"
#include "core/profile/pprof/profile_encoder.h"

namespace seemalloc::profile {

namespace {

struct GrowthStackRecord {
  uint64_t hash;
  const InternedStack* stack;
  std::atomic<uint64_t> count, bytes;

  void add(uint64_t more_times, uint64_t more_bytes) {
    count.fetch_add(more_times, std::memory_order_relaxed);
    bytes.fetch_add(more_bytes, std::memory_order_relaxed);
  }
};

constinit InternTable<GrowthStackRecord> sites;
constinit GrowthStackRecord stackless{};
constinit std::atomic<uint64_t> unrecorded_count{0};
constinit std::atomic<bool> first_growth_seen{false};

GrowthStackRecord* make_site(const Stack& stack, uint64_t hash) {
  if (sites.size() >= kMaxGrowthStacks) return nullptr;
  const InternedStack* interned = records.stacks.intern(stack, hash);
  if (interned == nullptr) return nullptr;
  auto equal = [&](const GrowthStackRecord& known) { return known.stack == interned; };
  auto make = [&]() -> GrowthStackRecord* {
    auto* fresh = static_cast<GrowthStackRecord*>(
        os::arena_allocate(sizeof(GrowthStackRecord), alignof(GrowthStackRecord)));
    if (fresh == nullptr) return nullptr;
    fresh->hash = hash;
    fresh->stack = interned;
    return fresh;
  };
  return sites.find_or_insert(hash, equal, make);
}

}  // namespace

void write_growth_comments(const CommentWriter& notes) {
  GrowthTotals totals = growth_totals();
  FixedText<400> text;
  text << "heap growth: " << totals.bytes << " bytes obtained from the OS in " << totals.count
       << " requests (exact); memory returned since then is not subtracted";
  notes.add(text);
  text.clear();
  text << "stacks: " << uint64_t{totals.stacks} << " distinct; " << totals.truncated_times
       << " requests with a truncated stack, " << totals.broken_times
       << " requests with a broken unwind; without a stack " << totals.bytes_without_stack
       << " bytes in " << totals.count_without_stack
       << " requests (the first of the process; those at more than " << uint64_t{kMaxGrowthStacks}
       << " stacks; " << totals.unrecorded_count << " for lack of memory)";
  notes.add(text);
}

namespace {
GrowthRow read_site(const GrowthStackRecord& site) {
  const InternedStack* stack = site.stack;
  return {stack != nullptr ? stack->pcs() : nullptr, stack != nullptr ? stack->depth : 0,
          site.count.load(std::memory_order_relaxed), site.bytes.load(std::memory_order_relaxed)};
}

}  // namespace

SEEMALLOC_NOINLINE void record_growth(size_t bytes, uint64_t count, size_t max_depth) {
  GrowthStackRecord* site = nullptr;
  if (first_growth_seen.load(std::memory_order_relaxed)) {
    Stack stack;
    capture_stack(&stack, max_depth);
    uint64_t hash = hash_stack(stack);
    site = sites.find(
        hash, [&](const GrowthStackRecord& known) { return same_stack(*known.stack, stack); });
    if (site == nullptr) site = make_site(stack, hash);
    if (site == nullptr && sites.size() < kMaxGrowthStacks)
      unrecorded_count.fetch_add(count, std::memory_order_relaxed);
  }
  first_growth_seen.store(true, std::memory_order_relaxed);
  (site != nullptr ? *site : stackless).add(count, bytes);
}

GrowthTotals growth_totals() {
  GrowthTotals totals{};
  totals.count_without_stack = totals.count = stackless.count.load(std::memory_order_relaxed);
  totals.bytes_without_stack = totals.bytes = stackless.bytes.load(std::memory_order_relaxed);
  totals.unrecorded_count = unrecorded_count.load(std::memory_order_relaxed);
  sites.for_each([&](const GrowthStackRecord& site) {
    uint64_t count = site.count.load(std::memory_order_relaxed);
    totals.count += count;
    totals.bytes += site.bytes.load(std::memory_order_relaxed);
    if (site.stack->truncated) totals.truncated_times += count;
    if (site.stack->broken) totals.broken_times += count;
    totals.stacks++;
  });
  return totals;
}

void for_each_growth(void (*f)(void* context, const GrowthRow& row), void* context) {
  auto visit = [&](const GrowthStackRecord& site) {
    GrowthRow row = read_site(site);
    if (row.count != 0) f(context, row);
  };
  sites.for_each(visit);
  visit(stackless);
}

namespace {
void write_row(void* encoder, const GrowthRow& row) {
  int64_t values[] = {static_cast<int64_t>(row.count), static_cast<int64_t>(row.bytes)};
  static_cast<ProfileEncoder*>(encoder)->row(row.return_addresses, row.depth, values, nullptr, 0);
}
}  // namespace

bool growth_profile_to_buffer(Buffer* out) {
  *out = Buffer{};
  static constexpr ValueType kTypes[] = {{"growth_objects", "count"}, {"growth_space", "bytes"}};
  os::Scratch<ProfileEncoder> memory;
  if (!memory) return false;
  ProfileEncoder& encoder = *memory;
  if (!encoder.begin(kTypes, 2, {"space", "bytes"}, 1)) return false;
  write_growth_comments(encoder.notes());
  for_each_growth(write_row, &encoder);
  return encoder.finish(out);
}

void lock_growth_for_fork() { sites.lock_all(); }
void unlock_growth_after_fork() { sites.unlock_all(); }

}  // namespace seemalloc::profile
