#include "core/profile/unwind/unwind_rule.h"

namespace seemalloc::profile {
namespace {

// Returns the slot of a register that is saved at CFA - 8 × slot (0: unchanged); -1 for any other
// way of saving it.
int slot_of(const Row& row, unsigned number) {
  if (row.rules[number] == RegisterRule::kSame) return 0;
  int64_t offset = row.value[number];
  if (row.rules[number] != RegisterRule::kAtOffset || offset >= 0 || offset % 8 != 0) return -1;
  if (offset < -static_cast<int64_t>(kMaxSlotBytes)) return -1;
  return static_cast<int>(-offset / 8);
}

bool is_slot_register(unsigned number) {
  for (unsigned slot_register : kSlotRegisters) {
    if (slot_register == number) return true;
  }
  return false;
}

// Whether each register outside the slots is either unchanged or caller-saved.
bool other_registers_fit(const Row& row, [[maybe_unused]] bool* loses_registers) {
  for (unsigned i = 0; i < kRegisterCount; i++) {
    if (row.rules[i] == RegisterRule::kSame || is_slot_register(i) || i == row.return_register)
      continue;
    if ((kCalleeSaved & register_bit(i)) == 0 && i != kSp) continue;
#if defined(__aarch64__)
    if (i >= kX19 && i < kFp) {
      *loses_registers = true;
      continue;
    }
#endif
    return false;
  }
  return true;
}

int cfa_index(const Row& row) {
  for (int i = 0; i < 8; i++) {
    if (kCfaRegisters[i] == row.cfa_register) return i;
  }
  return -1;
}

}  // namespace

UnwindRule pack(const Row& row, uint16_t tag) {
  uint64_t tag_bits = static_cast<uint64_t>(tag) << UnwindRule::kTagShift;
  if (row.signal_frame) return UnwindRule{};
  if (row.rules[row.return_register] == RegisterRule::kUndefined) return UnwindRule{2 | tag_bits};
  if (row.cfa_is_expression) return UnwindRule{};
#if defined(__x86_64__)
  bool return_fits = row.return_register == kPc && slot_of(row, kPc) == 1;
#elif defined(__aarch64__)
  bool return_fits = row.return_register == kLr;
#endif
  int index = cfa_index(row);
  bool loses_registers = false;
  if (!return_fits || index < 0 || !other_registers_fit(row, &loses_registers)) return UnwindRule{};
  if (row.cfa_value % 8 != 0 || row.cfa_value / 8 != static_cast<int16_t>(row.cfa_value / 8))
    return UnwindRule{};
  uint64_t slots = 0;
  for (unsigned i = 0; i < kSlotCount; i++) {
    int slot = slot_of(row, kSlotRegisters[i]);
    if (slot < 0) return UnwindRule{};
    slots |= static_cast<uint64_t>(slot) << (i * kSlotBits);
  }
  uint64_t offset = static_cast<uint16_t>(row.cfa_value / 8);
  return UnwindRule{1 | static_cast<uint64_t>(index) << UnwindRule::kCfaShift |
                    offset << UnwindRule::kOffsetShift | slots << UnwindRule::kSlotShift |
                    static_cast<uint64_t>(loses_registers) << UnwindRule::kLosesRegistersShift |
                    tag_bits};
}

}  // namespace seemalloc::profile
