// PythonLineDecoder: finds the line of a code unit of a Python code object in its co_linetable
// (CPython 3.11 and later, Objects/locations.md).
//
// It is fed byte by byte, so that the table can be read in parts. Threads: none of its own.
// Terminates for any input.
#pragma once

#include <cstdint>

namespace seemalloc::profile {

class PythonLineDecoder {
 public:
  // `unit`: the requested code unit, from 0.
  PythonLineDecoder(int32_t first_line, uint64_t unit)
      : line_(first_line), shown_(first_line), unit_(unit) {}

  // Returns true once the line is known; then no more bytes are needed.
  bool feed(uint8_t byte) {
    if ((byte & kBegins) != 0) {
      if (end_entry()) return true;
      begin_entry(byte);
    } else if (wants_delta_) {
      // The first number of an entry: six bits per byte, lowest first.
      if (shift_ < kMaxShift) number_ |= static_cast<uint64_t>(byte & 0x3F) << shift_;
      shift_ += 6;
      wants_delta_ = (byte & 0x40) != 0;
      if (!wants_delta_)
        delta_ = (number_ & 1) != 0 ? -static_cast<int64_t>(number_ >> 1)
                                    : static_cast<int64_t>(number_ >> 1);
    }
    return false;
  }

  // Called after the table's last byte, or after feed() returned true. Instructions added by the
  // compiler have no line; they get the line of the preceding instruction. Returns 0 if unknown.
  uint32_t line() {
    end_entry();
    return shown_ > 0 && shown_ <= INT32_MAX ? static_cast<uint32_t>(shown_) : 0;
  }

 private:
  static constexpr uint8_t kBegins = 0x80;
  static constexpr unsigned kMaxShift = 36;
  // Kinds of entries. All other kinds are on the line of the previous entry.
  static constexpr unsigned kSameLine = 10, kTwoFurther = 12, kNoColumns = 13, kLong = 14;

  void begin_entry(uint8_t byte) {
    unsigned kind = byte >> 3 & 15;
    units_ += (byte & 7u) + 1;
    delta_ = kind >= kSameLine && kind <= kTwoFurther ? kind - kSameLine : 0;
    wants_delta_ = kind == kNoColumns || kind == kLong;
    number_ = shift_ = 0;
    open_ = true;
  }
  // Returns true if it was the requested entry.
  bool end_entry() {
    if (!open_ || found_) return found_;
    open_ = false;
    line_ += delta_;
    shown_ = line_;
    return found_ = unit_ < units_;
  }

  int64_t line_, shown_;
  uint64_t unit_, units_ = 0;  // units_: covered so far
  int64_t delta_ = 0;
  uint64_t number_ = 0;
  unsigned shift_ = 0;
  bool wants_delta_ = false, open_ = false, found_ = false;
};

}  // namespace seemalloc::profile
