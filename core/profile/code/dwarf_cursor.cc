#include "core/profile/code/dwarf_cursor.h"

namespace seemalloc::profile {
namespace {

// The low four bits of an encoding are the width, the next three the base of the number.
constexpr uint8_t kWidthMask = 0x0F, kBaseMask = 0xF0;
constexpr uint8_t kPcRelative = 0x10, kDataRelative = 0x30;

}  // namespace

// Reads through the window, or fails past the end.
void DwarfCursor::number_slow(void* to, size_t count) {
  if (trusted_ || count > end_ - at_) return fail();
  if (at_ < window_start_ || at_ + count > window_start_ + window_bytes_) {
    size_t wanted = end_ - at_ < kWindowBytes ? end_ - at_ : kWindowBytes;
    if (!copy_from(at_, window_, wanted, false)) return fail();
    window_start_ = at_;
    window_bytes_ = wanted;
  }
  // Not memcpy(): the count is not a constant here, and the C library's memcpy may not be ready
  // yet.
  for (size_t i = 0; i < count; i++)
    static_cast<uint8_t*>(to)[i] = window_[at_ - window_start_ + i];
  at_ += count;
}

uint64_t DwarfCursor::fixed(unsigned width) {
  switch (width) {
    case 1: return number<uint8_t>();
    case 2: return number<uint16_t>();
    case 4: return number<uint32_t>();
    case 8: return number<uint64_t>();
    default: fail(); return 0;
  }
}

int64_t DwarfCursor::fixed_signed(unsigned width) {
  uint64_t value = fixed(width);
  unsigned unused = 64 - width * 8;
  return static_cast<int64_t>(value << unused) >> unused;
}

uint64_t DwarfCursor::uleb() {
  uint64_t value = 0;
  for (unsigned shift = 0; ok_; shift += 7) {
    uint8_t byte = u8();
    if (shift < 64) value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if ((byte & 0x80) == 0) break;
  }
  return ok_ ? value : 0;
}

int64_t DwarfCursor::sleb() {
  uint64_t value = 0;
  unsigned shift = 0;
  while (ok_) {
    uint8_t byte = u8();
    if (shift < 64) value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    shift += 7;
    if ((byte & 0x80) != 0) continue;
    if ((byte & 0x40) != 0 && shift < 64) value |= ~uint64_t{0} << shift;
    break;
  }
  return ok_ ? static_cast<int64_t>(value) : 0;
}

uintptr_t DwarfCursor::pointer(uint8_t encoding, uintptr_t data_base) {
  if (encoding == kPointerOmitted) return 0;
  uintptr_t here = at_;
  uint64_t value = 0;
  switch (encoding & kWidthMask) {
    case 0x00: value = fixed(sizeof(void*)); break;
    case 0x01: value = uleb(); break;
    case 0x02: value = fixed(2); break;
    case 0x03: value = fixed(4); break;
    case 0x04: value = fixed(8); break;
    case 0x09: value = static_cast<uint64_t>(sleb()); break;
    case 0x0A: value = static_cast<uint64_t>(fixed_signed(2)); break;
    case 0x0B: value = static_cast<uint64_t>(fixed_signed(4)); break;
    case 0x0C: value = fixed(8); break;
    default: fail();
  }
  switch (encoding & kBaseMask) {
    case 0: break;
    case kPcRelative: value += here; break;
    case kDataRelative: value += data_base; break;
    default: fail();  // indirect pointers, used by personality routines only, and rarer bases
  }
  return ok_ ? value : 0;
}

}  // namespace seemalloc::profile
