#include "core/pages/huge/retained_space.h"

#include <bit>

#include "core/base/check.h"

namespace seemalloc::pages {

namespace {
// Records checked in the request's own bin, whose ranges may be too small.
constexpr unsigned kMaxChecks = 16;
}  // namespace

unsigned RetainedSpace::bin_of(size_t bytes) {
  size_t pages = bytes >> kPageShift;
  if (pages < 4) return static_cast<unsigned>(pages);
  unsigned log2 = static_cast<unsigned>(std::bit_width(pages)) - 1;
  unsigned bin = (log2 - 1) * 4 + static_cast<unsigned>((pages >> (log2 - 2)) & 3);
  return bin < kBins ? bin : kBins - 1;
}

void RetainedSpace::insert_record(Record* record) {
  DCHECK(record->range.bytes != 0 && (record->range.start | record->range.bytes) % kPageBytes == 0);
  // Both tables have room: put() and take() made sure of it.
  CHECK(by_start_.insert(record->range.start, record) &&
        by_end_.insert(record->range.end(), record));
  Record*& first = bins_[bin_of(record->range.bytes)];
  record->next = first;
  record->previous = nullptr;
  if (first != nullptr) first->previous = record;
  first = record;
  bytes_ += record->range.bytes;
}

void RetainedSpace::remove_record(Record* record) {
  DCHECK(record->next == nullptr || record->next->previous == record);
  bool both = by_start_.remove(record->range.start) && by_end_.remove(record->range.end());
  CHECK(both);
  (record->previous != nullptr ? record->previous->next : bins_[bin_of(record->range.bytes)]) =
      record->next;
  if (record->next != nullptr) record->next->previous = record->previous;
  DCHECK(bytes_ >= record->range.bytes);
  bytes_ -= record->range.bytes;
}

bool RetainedSpace::put(Range range) {
  DCHECK(range.bytes != 0);
  Record** before = by_end_.find(range.start);
  Record** behind = by_start_.find(range.end());
  Record* record = before != nullptr ? *before : nullptr;
  Record* joined = behind != nullptr ? *behind : nullptr;
  if (record != nullptr) {
    remove_record(record);
    range = Range{record->range.start, record->range.bytes + range.bytes};
  }
  if (joined != nullptr) {
    remove_record(joined);
    range.bytes += joined->range.bytes;
    if (record == nullptr) {
      record = joined;
    } else {
      pool_.give(joined);
    }
  }
  if (record == nullptr) {
    if (!by_start_.make_room() || !by_end_.make_room()) return false;
    record = pool_.take();
    if (record == nullptr) return false;
  }
  record->range = range;
  insert_record(record);
  return true;
}

RetainedSpace::Record* RetainedSpace::find(size_t bytes) const {
  unsigned bin = bin_of(bytes), looks = 0;
  for (Record* record = bins_[bin]; record != nullptr && looks < kMaxChecks;
       record = record->next, looks++) {
    if (record->range.bytes >= bytes) return record;
  }
  while (++bin < kBins) {
    if (bins_[bin] != nullptr) return bins_[bin];
  }
  return nullptr;
}

bool RetainedSpace::take(size_t bytes, size_t alignment, Range* out) {
  DCHECK(bytes != 0 && is_power_of_two(alignment));
  Record* record = find(alignment > kPageBytes ? bytes + alignment - kPageBytes : bytes);
  if (record == nullptr || record->range.bytes < bytes) return false;
  Range whole = record->range;
  uintptr_t start = round_up(whole.start, alignment);
  DCHECK(start + bytes <= whole.end());
  Range head{whole.start, start - whole.start}, tail{start + bytes, whole.end() - (start + bytes)};
  Record* second = nullptr;
  if (head.bytes != 0 && tail.bytes != 0) {
    if (!by_start_.make_room() || !by_end_.make_room()) return false;
    second = pool_.take();
    if (second == nullptr) return false;
  }
  remove_record(record);
  if (second != nullptr) {
    second->range = tail;
    insert_record(second);
  }
  if (head.bytes != 0 || tail.bytes != 0) {
    record->range = head.bytes != 0 ? head : tail;
    insert_record(record);
  } else {
    pool_.give(record);
  }
  *out = Range{start, bytes};
  return true;
}

bool RetainedSpace::take_at(uintptr_t start, size_t bytes) {
  Record** found = by_start_.find(start);
  if (found == nullptr || (*found)->range.bytes < bytes) return false;
  Record* record = *found;
  remove_record(record);
  record->range = Range{start + bytes, record->range.bytes - bytes};
  if (record->range.bytes != 0) {
    insert_record(record);
  } else {
    pool_.give(record);
  }
  return true;
}

bool RetainedSpace::take_adjacent(uintptr_t address, Range* out) {
  Record** found = by_start_.find(address);
  if (found == nullptr) found = by_end_.find(address);
  if (found == nullptr) return false;
  *out = (*found)->range;
  drop(*found);
  return true;
}

bool RetainedSpace::take_largest(Range* out) {
  for (unsigned bin = kBins; bin-- > 0;) {
    if (bins_[bin] == nullptr) continue;
    *out = bins_[bin]->range;
    drop(bins_[bin]);
    return true;
  }
  return false;
}

}  // namespace seemalloc::pages
