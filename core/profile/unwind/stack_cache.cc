#include "core/profile/unwind/stack_cache.h"

#include "core/os/kernel/clock.h"
#include "core/os/runtime/arena.h"

namespace seemalloc::profile {

namespace {

// The aligned word of code that contains `pc`. A library that was rebuilt and loaded again at the
// same place has other code.
uintptr_t code_word(uintptr_t pc) { return pc & ~uintptr_t{7}; }

}  // namespace

StackCache::Entry* StackCache::begin_entry(const Registers& registers, uintptr_t site,
                                           size_t max_depth) {
  if (bits_ == 0) {
    count_uncached_walk();
    return nullptr;
  }
  Set& set = set_of(registers.sp(), site);
  Entry& entry = set.ways[victim_way(set)];
  entry.stack = nullptr;
  for (Bucket*& bucket : entry.buckets) bucket = nullptr;
  entry.era = generation_;
  entry.pc = registers.pc();
  entry.sp = registers.sp();
  entry.fp = registers.fp();
  entry.site = site;
  entry.max_depth = static_cast<uint16_t>(max_depth);
  entry.word_count = 0;
  entry.visit_count = 0;
  entry.uses_fp = false;
  return &entry;
}

// Returns an empty way, otherwise the ways in turn, but not the one that was used last.
uint8_t StackCache::victim_way(Set& set) {
  uint8_t way = 0;
  while (way < kWays && is_complete(set.ways[way])) way++;
  if (way == kWays) {
    evictions_++;
    set.next = static_cast<uint8_t>((set.next + 1) % kWays);
    if (set.next == set.last_found) set.next = static_cast<uint8_t>((set.next + 1) % kWays);
    way = set.next;
  }
  set.last_found = way;
  return way;
}

void StackCache::count_uncached_walk() {
  if (++walks_ % kFastWalks != 0) return;
  uint64_t now = os::coarse_monotonic_ns();
  has_fast_walks_ = now - counted_ns_ < kFastWalksNs;
  counted_ns_ = now;
}

// The smaller array is not freed: the arena cannot free memory.
void StackCache::enlarge() {
  evictions_ = 0;
  has_fast_walks_ = false;
  unsigned bits = bits_ == 0 ? kSmallBits : kLargeBits;
  // Some sets of the larger array are never used, so it is not populated.
  auto allocate = bits == kSmallBits ? os::arena_allocate_prefaulted : os::arena_allocate;
  auto* sets = static_cast<Set*>(allocate(sizeof(Set) << bits, alignof(Set)));
  if (sets == nullptr) return;
  sets_ = sets;
  bits_ = static_cast<uint8_t>(bits);
}

bool StackCache::is_valid_in_modules(const Entry& entry) {
  size_t checked = 0;
  for (size_t i = 0; i < entry.visit_count; i++) {
    const Visit& visit = entry.visits[i];
    if (!words_match(entry, checked, visit.before)) return false;
    checked = visit.before;
    Module module;
    if (!find_module(visit.pc, &module) || module.identity_hash != visit.identity_hash)
      return false;
  }
  return words_match(entry, checked, entry.word_count);
}

void WalkDependencies::add(uintptr_t address, uintptr_t value) {
  if (entry_ == nullptr) return;
  if (entry_->word_count == StackCache::kMaxWords) return abandon();
  entry_->words[entry_->word_count++] = {address, value};
}

void WalkDependencies::note(uintptr_t address, uintptr_t value) {
  if (address < entry_->sp) return abandon();  // may not stay mapped
  add(address, value);
}

void WalkDependencies::in_module(uintptr_t pc, const Module& module) {
  size_t known = 0;
  while (known < entry_->visit_count && entry_->visits[known].identity_hash != module.identity_hash)
    known++;
  if (known == entry_->visit_count) {
    if (known == StackCache::kMaxVisits) return abandon();
    entry_->visits[entry_->visit_count++] = {pc, module.identity_hash, entry_->word_count};
  }
  add(code_word(pc), StackMemory::load(code_word(pc)));
}

void WalkDependencies::from_frame_pointer(const Registers& registers) {
  if (frame_pointer_at_ == kChecked) return;
  if (frame_pointer_at_ == kInitial) {
    entry_->uses_fp = true;
  } else {
    read(frame_pointer_at_, registers.fp());
  }
  frame_pointer_at_ = kChecked;
}

}  // namespace seemalloc::profile
