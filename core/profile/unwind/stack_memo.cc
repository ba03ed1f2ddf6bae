#include "core/profile/unwind/stack_memo.h"

#include "core/os/kernel/clock.h"
#include "core/os/runtime/arena.h"

namespace seemalloc::profile {

namespace {

// The aligned word of code that contains `pc`. A library that was rebuilt and loaded again at the
// same place has other code.
uintptr_t code_word(uintptr_t pc) { return pc & ~uintptr_t{7}; }

}  // namespace

StackMemo::Entry* StackMemo::begin(const Registers& registers, uintptr_t site, size_t max_depth) {
  if (bits_ == 0) {
    count_walk();
    return nullptr;
  }
  Set& set = set_of(registers.sp(), site);
  Entry& entry = set.ways[way_for_new(set)];
  entry.stack = nullptr;
  for (Bucket*& bucket : entry.buckets) bucket = nullptr;
  entry.era = era_;
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
uint8_t StackMemo::way_for_new(Set& set) {
  uint8_t way = 0;
  while (way < kWays && is_complete(set.ways[way])) way++;
  if (way == kWays) {
    forgotten_++;
    set.next = static_cast<uint8_t>((set.next + 1) % kWays);
    if (set.next == set.last_found) set.next = static_cast<uint8_t>((set.next + 1) % kWays);
    way = set.next;
  }
  set.last_found = way;
  return way;
}

void StackMemo::count_walk() {
  if (++walks_ % kHastyWalks != 0) return;
  uint64_t now = os::coarse_monotonic_ns();
  hasty_ = now - counted_ns_ < kHaste_ns;
  counted_ns_ = now;
}

// The smaller array is not freed: the arena cannot free memory.
void StackMemo::enlarge() {
  forgotten_ = 0;
  hasty_ = false;
  unsigned bits = bits_ == 0 ? kFewBits : kManyBits;
  // Some sets of the larger array are never used, so it is not populated.
  auto allocate = bits == kFewBits ? os::arena_allocate_present : os::arena_allocate;
  auto* sets = static_cast<Set*>(allocate(sizeof(Set) << bits, alignof(Set)));
  if (sets == nullptr) return;
  sets_ = sets;
  bits_ = static_cast<uint8_t>(bits);
}

bool StackMemo::holds_in_modules(const Entry& entry) {
  size_t checked = 0;
  for (size_t i = 0; i < entry.visit_count; i++) {
    const Visit& visit = entry.visits[i];
    if (!words_hold(entry, checked, visit.before)) return false;
    checked = visit.before;
    Module module;
    if (!find_module(visit.pc, &module) || module.identity != visit.identity) return false;
  }
  return words_hold(entry, checked, entry.word_count);
}

void WalkNotes::add(uintptr_t address, uintptr_t value) {
  if (entry_ == nullptr) return;
  if (entry_->word_count == StackMemo::kMaxWords) return give_up();
  entry_->words[entry_->word_count++] = {address, value};
}

void WalkNotes::note(uintptr_t address, uintptr_t value) {
  if (address < entry_->sp) return give_up();  // may not stay mapped
  add(address, value);
}

void WalkNotes::in_module(uintptr_t pc, const Module& module) {
  size_t known = 0;
  while (known < entry_->visit_count && entry_->visits[known].identity != module.identity) known++;
  if (known == entry_->visit_count) {
    if (known == StackMemo::kMaxVisits) return give_up();
    entry_->visits[entry_->visit_count++] = {pc, module.identity, entry_->word_count};
  }
  add(code_word(pc), StackMemory::load(code_word(pc)));
}

void WalkNotes::from_frame_pointer(const Registers& registers) {
  if (frame_pointer_at_ == kChecked) return;
  if (frame_pointer_at_ == kInitial) {
    entry_->uses_fp = true;
  } else {
    read(frame_pointer_at_, registers.fp());
  }
  frame_pointer_at_ = kChecked;
}

}  // namespace seemalloc::profile
