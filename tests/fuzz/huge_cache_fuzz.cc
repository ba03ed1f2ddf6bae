// HugeCache under random operations, against a model: the set of units (of kUnit bytes) that are
// cached, with the time at which each was freed. The walk of huge_cache.h checks the extents after
// each operation.
#include <vector>

#include "core/pages/huge/huge_cache.h"
#include "tests/fuzz/fuzz.h"

namespace seemalloc::pages {
namespace {

constexpr uintptr_t kUnit = 4096, kBase = uintptr_t{1} << 32;
constexpr size_t kUnits = 2048;

class Model {
 public:
  explicit Model(HugeCache& cache) : cache_(cache) {}

  void step(FuzzedDataProvider& input) {
    Extent out{};
    switch (input.ConsumeIntegralInRange<unsigned>(0, 7)) {
      case 0:
      case 1: put(input); break;
      case 2: take_fit(input); break;
      case 3: {
        size_t at = input.ConsumeIntegralInRange<size_t>(0, kUnits - 1),
               units = input.ConsumeIntegralInRange<size_t>(1, 64);
        bool taken = cache_.take_at(kBase + at * kUnit, units * kUnit, &out);
        if (taken) CHECK(out.start == kBase + at * kUnit && out.bytes == units * kUnit);
        if (taken) remove(out);
        break;
      }
      case 4: take_extents(input); break;
      case 5: {
        uint64_t cutoff = input.ConsumeIntegralInRange<uint64_t>(0, now_ + 1);
        bool taken = cache_.take_old(cutoff, &out);
        CHECK(taken == (oldest(false) < cutoff));
        if (taken) CHECK(out.freed_ns < cutoff);
        if (taken) remove(out);
        break;
      }
      case 6: {
        bool sparse = input.ConsumeBool();
        uint64_t wanted = oldest(sparse);
        bool taken = sparse ? cache_.take_oldest_sparse(&out) : cache_.take_oldest(&out);
        CHECK(taken == (wanted != UINT64_MAX));
        if (taken) CHECK(out.freed_ns == wanted && (!sparse || out.sparse));
        if (taken) remove(out);
        break;
      }
      default: now_ += input.ConsumeIntegralInRange<uint64_t>(0, 3);
    }
    check();
  }

 private:
  struct Unit {
    bool cached = false, sparse = false;
    uint64_t freed_ns = 0;
  };

  void put(FuzzedDataProvider& input) {
    size_t at = input.ConsumeIntegralInRange<size_t>(0, kUnits - 1),
           units = input.ConsumeIntegralInRange<size_t>(1, 64);
    Extent extent{kBase + at * kUnit, 0, now_, input.ConsumeIntegralInRange<unsigned>(0, 3) == 0};
    for (size_t i = at; i < at + units && i < kUnits && !units_[i].cached; i++)
      extent.bytes += kUnit;
    if (extent.bytes == 0) return;
    if (!cache_.put(extent)) return;
    for (size_t i = at; i < at + extent.bytes / kUnit; i++)
      units_[i] = {true, extent.sparse, extent.freed_ns};
#ifdef CANARY_WALK
    // The fault: a range that is cached twice.
    if (at % 64 == 63 && extent.sparse) cache_.put(extent);
#endif
  }

  void take_fit(FuzzedDataProvider& input) {
    size_t bytes = input.ConsumeIntegralInRange<size_t>(1, 128) * kUnit;
    size_t alignment = kUnit << input.ConsumeIntegralInRange<unsigned>(0, 4);
    size_t least_rest = input.ConsumeIntegralInRange<size_t>(0, 16) * kUnit;
    Extent out{};
    if (!cache_.take_fit(bytes, alignment, least_rest, &out)) return;
    CHECK(out.bytes >= bytes && out.start % alignment == 0);
    CHECK(out.sparse ? out.bytes < 2 * bytes
                     : out.bytes == bytes || out.bytes - bytes < least_rest);
    remove(out);
  }

  void take_extents(FuzzedDataProvider& input) {
    size_t bytes = input.ConsumeIntegralInRange<size_t>(1, 256) * kUnit,
           least = input.ConsumeIntegralInRange<size_t>(1, 16) * kUnit;
    Extent extents[4];
    unsigned most = input.ConsumeIntegralInRange<unsigned>(1, 4),
             count = cache_.take_extents(bytes, least, extents, most);
    CHECK(count <= most);
    size_t sum = 0;
    for (unsigned i = 0; i < count; i++) {
      CHECK(!extents[i].sparse || count == 1);
      sum += extents[i].bytes;
      remove(extents[i]);
    }
    CHECK(sum <= bytes);
  }

  // What was taken was cached, and was freed no later than the cache reports.
  void remove(const Extent& out) {
    CHECK(out.start >= kBase && out.bytes != 0 && out.start % kUnit == 0 && out.bytes % kUnit == 0);
    uint64_t latest = 0;
    for (size_t i = (out.start - kBase) / kUnit, end = i + out.bytes / kUnit; i < end; i++) {
      CHECK(i < kUnits && units_[i].cached);
      CHECK(units_[i].sparse == out.sparse);
      if (units_[i].freed_ns > latest) latest = units_[i].freed_ns;
      units_[i] = {};
    }
    CHECK(latest == out.freed_ns);
  }

  uint64_t oldest(bool sparse_only) const {
    uint64_t oldest = UINT64_MAX;
    for (const Unit& unit : units_) {
      if (unit.cached && (unit.sparse || !sparse_only) && unit.freed_ns < oldest)
        oldest = unit.freed_ns;
    }
    return oldest;
  }

  void check() const {
    fuzz::require_sound(cache_.verify());
    size_t cached = 0, sparse = 0;
    for (const Unit& unit : units_) cached += unit.cached, sparse += unit.sparse;
    CHECK(cache_.dirty_bytes() == cached * kUnit && cache_.sparse_bytes() == sparse * kUnit);
  }

  HugeCache& cache_;
  std::vector<Unit> units_ = std::vector<Unit>(kUnits);
  uint64_t now_ = 1;
};

}  // namespace
}  // namespace seemalloc::pages

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  static seemalloc::pages::HugeCache cache;
  cache = {};
  seemalloc::pages::Model model(cache);
  for (unsigned step = 0; step < 400 && input.remaining_bytes() != 0; step++) model.step(input);
  return 0;
}
