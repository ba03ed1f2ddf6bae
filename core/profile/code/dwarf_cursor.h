// DwarfCursor: reads DWARF numbers sequentially from a bounded range of this process's memory.
//
// Trusted ranges are read in place. Untrusted ranges (found through a guessed frame, so their
// module may be unloaded at any moment) are read through a small window filled by os::read_memory,
// which cannot fault.
// Threads: none of its own. Invariant: after the first failure ok() stays false and every number
// read is 0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/compiler.h"
#include "core/os/kernel/read_memory.h"

namespace seemalloc::profile {

// Encodings of pointers in .eh_frame (DW_EH_PE_*).
inline constexpr uint8_t kPointerOmitted = 0xFF;

// Copies a value from any address: directly if trusted, otherwise without faulting. Returns false
// if it is not mapped.
inline bool copy_from(uintptr_t address, void* to, size_t count, bool trusted) {
  if (!trusted) return os::read_memory(reinterpret_cast<const void*>(address), to, count);
  __builtin_memcpy(to, reinterpret_cast<const void*>(address), count);
  return true;
}

class DwarfCursor {
 public:
  DwarfCursor(uintptr_t start, uintptr_t end, bool trusted)
      : at_(start), end_(end), trusted_(trusted) {
    if (start > end) fail();
  }

  uint8_t u8() { return number<uint8_t>(); }
  // An unsigned or signed little-endian number of 1, 2, 4 or 8 bytes.
  uint64_t fixed(unsigned width);
  int64_t fixed_signed(unsigned width);
  uint64_t uleb();
  int64_t sleb();
  // A pointer in one of the encodings of .eh_frame; `data_base` is the base of data-relative ones.
  uintptr_t pointer(uint8_t encoding, uintptr_t data_base);

  // Restarts with another range in the same kind of memory.
  void reset(uintptr_t start, uintptr_t end) {
    at_ = start, end_ = end, ok_ = true;
    if (start > end) fail();
  }
  // Sets the end to `count` bytes from here. Requires: not beyond the current end.
  void set_length(uint64_t count) { end_ = at_ + count; }

  void skip(uint64_t count) { count <= end_ - at_ ? void(at_ += count) : fail(); }
  bool at_end() const { return at_ >= end_; }
  bool ok() const { return ok_; }
  bool trusted() const { return trusted_; }
  uintptr_t address() const { return at_; }
  uintptr_t end() const { return end_; }
  // Moves to `address`; fails if it is outside [lowest, end).
  void seek(uintptr_t address, uintptr_t lowest) {
    address >= lowest&& address < end_ ? void(at_ = address) : fail();
  }

 private:
  static constexpr size_t kWindowBytes = 48;

  void fail() { ok_ = false, at_ = end_; }
  template <typename T>
  T number() {
    T value = 0;
    if (SEEMALLOC_LIKELY(trusted_ && sizeof(T) <= end_ - at_)) {
      __builtin_memcpy(&value, reinterpret_cast<const void*>(at_), sizeof(T));
      at_ += sizeof(T);
    } else {
      number_slow(&value, sizeof(T));
    }
    return value;
  }
  SEEMALLOC_COLD void number_slow(void* to, size_t count);

  uintptr_t at_;
  uintptr_t end_;
  bool trusted_;
  bool ok_ = true;
  uintptr_t window_start_ = 0;
  size_t window_bytes_ = 0;
  uint8_t window_[kWindowBytes];
};

}  // namespace seemalloc::profile
