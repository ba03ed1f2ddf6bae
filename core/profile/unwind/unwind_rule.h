// UnwindRule: the common form of a row, packed into one word: how to leave a frame by a CFA and the
// registers saved near it.
//
// Made from a Row and kept in the rule cache. Rows that do not fit (expressions, signal frames, far
// or unaligned offsets) are evaluated anew each time. Threads: a plain value.
// Two kinds of rules are mere marks: "the first frame", and "no row here, and no signal return:
// only a frame pointer may help".
// Layout, low to high: 2 bits kind (1 row, 2 first frame, 3 rowless), 3 CFA register, 16 CFA offset
// / 8 (signed), 24 slots, 1 forgets, 16 tag.
// x86-64: six slots of 4 bits; register i is at CFA - 8 × slot, 0 if unchanged; the return address
// is at CFA - 8. aarch64: two slots of 12 bits (x29, x30); `loses_registers` is set if x19–x28 are
// saved somewhere: their values are unknown afterwards.
// The tag is a hash of the code around the pc. A library that was rebuilt and loaded again at the
// same address has other code.
#pragma once

#include <cstdint>

#include "core/profile/code/dwarf_cursor.h"
#include "core/profile/code/eh_frame.h"
#include "core/profile/code/registers.h"

namespace seemalloc::profile {

#if defined(__x86_64__)
inline constexpr unsigned kSlotRegisters[] = {kBx, kFp, kR12, kR12 + 1, kR12 + 2, kR12 + 3};
inline constexpr unsigned kCfaRegisters[] = {kSp, kFp, kBx, 10, kR12, kR12 + 1, kR12 + 2, kR12 + 3};
inline constexpr unsigned kSlotBits = 4, kFrameSlot = 1;
#elif defined(__aarch64__)
inline constexpr unsigned kSlotRegisters[] = {kFp, kLr};
inline constexpr unsigned kCfaRegisters[] = {kSp,      kFp,      kX19,     kX19 + 1,
                                             kX19 + 2, kX19 + 3, kX19 + 4, kX19 + 5};
inline constexpr unsigned kSlotBits = 12, kFrameSlot = 0, kReturnSlot = 1;
#endif
inline constexpr unsigned kSlotCount = sizeof(kSlotRegisters) / sizeof(kSlotRegisters[0]);
inline constexpr uintptr_t kMaxSlotBytes = 8 * ((1u << kSlotBits) - 1);

struct UnwindRule {
  uint64_t bits = 0;  // 0: no rule

  static constexpr unsigned kCfaShift = 2, kOffsetShift = 5, kSlotShift = 21,
                            kLosesRegistersShift = 45, kTagShift = 48;

  bool exists() const { return bits != 0; }
  bool is_mark() const { return (bits & 2) != 0; }
  bool is_first_frame() const { return (bits & 3) == 2; }  // the return address is undefined
  static UnwindRule rowless(uint16_t tag) {
    return UnwindRule{3 | static_cast<uint64_t>(tag) << kTagShift};
  }
  unsigned cfa_register() const { return kCfaRegisters[bits >> kCfaShift & 7]; }
  int64_t cfa_offset() const {
    return static_cast<int64_t>(static_cast<int16_t>(bits >> kOffsetShift)) * 8;
  }
  uint32_t slot(unsigned index) const {
    return slots() >> (index * kSlotBits) & ((1u << kSlotBits) - 1);
  }
  uint32_t slots() const { return bits >> kSlotShift & 0xFFFFFF; }
  bool loses_registers() const { return (bits >> kLosesRegistersShift & 1) != 0; }
  uint16_t tag() const { return static_cast<uint16_t>(bits >> kTagShift); }
};

// Packs the row into a rule; returns no rule if it does not fit.
UnwindRule pack(const Row& row, uint16_t tag);

// Computes the tag of the code at `pc`, which is read as in DwarfCursor. Returns false if nothing
// is mapped there.
inline bool code_tag(uintptr_t pc, bool trusted, uint16_t* tag) {
  uint64_t code;  // the aligned word that contains `pc`, so no other page is touched
  if (!copy_from(pc & ~uintptr_t{7}, &code, sizeof(code), trusted)) return false;
  *tag = static_cast<uint16_t>((code * 0x9E3779B97F4A7C15) >> 48);
  return true;
}

}  // namespace seemalloc::profile
