// One call of mallctl: what comes in, what goes out, and jemalloc's rules for both.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace seemalloc::compat {

struct ControlCall {
  static constexpr unsigned kMostNumbers = 2;

  void* old_value;
  size_t* old_bytes;
  const void* new_value;
  size_t new_bytes;
  size_t numbers[kMostNumbers];  // those in the name, in order

  bool writes() const { return new_value != nullptr || new_bytes != 0; }
  bool reads() const { return old_value != nullptr && old_bytes != nullptr; }

  // The value goes out, as far as it is asked for. EINVAL where its size is another: what fits has been copied then.
  template <typename T>
  int put(const T& value) {
    if (!reads()) return 0;
    size_t wanted = *old_bytes;
    size_t bytes = wanted < sizeof(T) ? wanted : sizeof(T);
    memcpy(old_value, &value, bytes);
    *old_bytes = bytes;
    return wanted == sizeof(T) ? 0 : EINVAL;
  }
  // The new value, which must be there.
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
  // Neither read nor written: something is done.
  bool is_plain() const { return old_value == nullptr && old_bytes == nullptr && !writes(); }
  // The old value out, and set(new value) when there is one.
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
