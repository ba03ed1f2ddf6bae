// One call of mallctl: its arguments, its results, and jemalloc's rules for both.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace seemalloc::compat {

struct ControlCall {
  static constexpr unsigned kMaxNumbers = 2;

  void* old_value;
  size_t* old_bytes;
  const void* new_value;
  size_t new_bytes;
  size_t numbers[kMaxNumbers];  // the numbers in the name, in order

  bool writes() const { return new_value != nullptr || new_bytes != 0; }
  bool reads() const { return old_value != nullptr && old_bytes != nullptr; }

  // Returns the value to the caller, if requested. EINVAL if the caller's buffer has another size;
  // then the part that fits has been copied.
  template <typename T>
  int put(const T& value) {
    if (!reads()) return 0;
    size_t wanted = *old_bytes;
    size_t bytes = wanted < sizeof(T) ? wanted : sizeof(T);
    memcpy(old_value, &value, bytes);
    *old_bytes = bytes;
    return wanted == sizeof(T) ? 0 : EINVAL;
  }
  // Reads the new value, which must be present.
  template <typename T>
  int get(T* value) const {
    if (new_value == nullptr || new_bytes != sizeof(T)) return EINVAL;
    memcpy(value, new_value, sizeof(T));
    return 0;
  }

  template <typename T>
  int read_only(const T& value) {
    return writes() ? EPERM : put(value);
  }
  int text(const char* value) { return read_only(value); }
  // True if no value is read or written: the name is a command.
  bool is_command() const { return old_value == nullptr && old_bytes == nullptr && !writes(); }
  // Returns the old value, and calls set(new value) if there is one.
  template <typename T, typename Set>
  int read_write(const T& value, Set set) {
    T fresh{};
    if (writes()) {
      if (int error = get(&fresh)) return error;
    }
    if (int error = put(value)) return error;
    return writes() ? set(fresh) : 0;
  }
};

}  // namespace seemalloc::compat
