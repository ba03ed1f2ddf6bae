#include "core/profile/unwind/call_site.h"

#include "core/os/kernel/read_memory.h"

namespace seemalloc::profile {
namespace {

constexpr size_t kMaxCallBytes = 7;

#if defined(__x86_64__)
// The length of a call through a register or memory (FF /2) with this ModRM byte and the next byte,
// without prefixes.
constexpr size_t indirect_call_bytes(uint8_t modrm, uint8_t sib) {
  unsigned mode = modrm >> 6, base = modrm & 7;
  bool has_sib = mode != 3 && base == 4;
  if (has_sib) base = sib & 7;
  // mode 0, base 5: an address, no base.
  size_t displacement = mode == 1 ? 1 : mode == 2 || (mode == 0 && base == 5) ? 4 : 0;
  return 2 + (has_sib ? 1 : 0) + displacement;
}

bool ends_with_call(const uint8_t* end) {
  constexpr uint8_t kCall = 0xE8, kIndirect = 0xFF, kIsCall = 2;
  if (end[-5] == kCall) return true;
  for (size_t bytes = 2; bytes <= kMaxCallBytes; bytes++) {
    const uint8_t* call = end - bytes;
    uint8_t sib = bytes > 2 ? call[2] : 0;
    if (call[0] == kIndirect && (call[1] >> 3 & 7) == kIsCall &&
        indirect_call_bytes(call[1], sib) == bytes)
      return true;
  }
  return false;
}
#elif defined(__aarch64__)
bool ends_with_call(const uint8_t* end) {
  uint32_t instruction;
  __builtin_memcpy(&instruction, end - sizeof(instruction), sizeof(instruction));
  return (instruction >> 26) == 0x25 || (instruction & 0xFFFFFC1F) == 0xD63F0000;  // bl, blr
}
#endif

}  // namespace

bool follows_call(uintptr_t pc) {
  uint8_t code[kMaxCallBytes];
  if (pc < kMaxCallBytes ||
      !os::read_memory(reinterpret_cast<const void*>(pc - sizeof(code)), code, sizeof(code)))
    return false;
  return ends_with_call(code + sizeof(code));
}

}  // namespace seemalloc::profile
