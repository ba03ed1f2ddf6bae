// GrowArray: a growable array in memory for reports. Scratch memory for writing a profile;
// never uses malloc.
//
// The kernel moves the elements when the array grows (mremap). If memory is refused, the array
// keeps its elements, drops further ones, and failed() returns true from then on. Threads: one.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "core/base/units.h"
#include "core/os/kernel/memory.h"
#include "core/os/runtime/report_memory.h"

namespace seemalloc::profile {

template <typename T>
class GrowArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  GrowArray() = default;
  GrowArray(const GrowArray&) = delete;
  GrowArray& operator=(const GrowArray&) = delete;
  ~GrowArray() {
    if (data_ != nullptr) os::unmap_report(data_, mapped_bytes_);
  }

  void push(const T& element) {
    if (size_ == capacity_ && !reserve(size_ + 1)) return;
    data_[size_++] = element;
  }
  // Reserves space for `count` elements in total. Returns false if memory is refused, and from then
  // on always.
  bool reserve(size_t count) {
    if (failed_) return false;
    if (count <= capacity_) return true;
    size_t wanted = mapped_bytes_ == 0 ? kFirstBytes : mapped_bytes_ * 2;
    if (wanted < count * sizeof(T)) wanted = count * sizeof(T);
    wanted = round_up(wanted, os::page_bytes());
    void* moved =
        data_ == nullptr ? os::map_report(wanted) : os::grow_report(data_, mapped_bytes_, wanted);
    if (moved == nullptr) {
      failed_ = true;
      return false;
    }
    data_ = static_cast<T*>(moved);
    mapped_bytes_ = wanted;
    capacity_ = wanted / sizeof(T);
    return true;
  }
  // Requires: size ≤ capacity; the elements in between have been written, or zero is the intended
  // value.
  void set_size(size_t size) { size_ = size; }
  void swap(GrowArray& other) {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    std::swap(mapped_bytes_, other.mapped_bytes_);
    std::swap(failed_, other.failed_);
  }
  // Ownership of data() passes to the caller, which must free it by os::unmap_report.
  void release() { data_ = nullptr, size_ = capacity_ = mapped_bytes_ = 0; }

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  size_t mapped_bytes() const { return mapped_bytes_; }
  bool failed() const { return failed_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }

 private:
  static constexpr size_t kFirstBytes = 64 * KiB;

  T* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
  size_t mapped_bytes_ = 0;
  bool failed_ = false;
};

}  // namespace seemalloc::profile
