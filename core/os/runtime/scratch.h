// Scratch memory for buffers that are too large for the caller's stack. A thread in malloc may have
// a stack of 8 KiB, including a signal frame, so a slow path uses at most 4.5 KiB
// (docs/decisions/0071).
//
// There are 16 buffers of 4 KiB. Any thread and any signal handler may take and return one; a
// handler that interrupts a holder takes another buffer. Nothing waits: if all are taken, a page is
// mapped temporarily. If the kernel refuses that too, the object is absent and the caller does
// without. A use costs about 20 instructions, so it is for rare work only.
// Invariants:
//  1. a bit in taken_buffers is set while its buffer has a holder.
//  2. the thread that sets a bit (acquire) sees all writes of the previous holder (release).
// In a forked child, the buffers of the parent's other threads are free again, unless the child's
// own thread holds a buffer.
#pragma once

#include <cstddef>
#include <new>

namespace seemalloc::os {

inline constexpr size_t kScratchBytes = 4096;
inline constexpr unsigned kScratchBuffers = 16;

// Returns null when memory was refused. The previous holder's contents are still in the buffer.
void* acquire_scratch();
void release_scratch(void* buffer);
// Called in a forked child, while it has only this thread.
void release_scratch_in_child();

// Set while a slow path calls a function that may call malloc (ScopedNestedCall in
// core/api/malloc/slow_path.h). Less stack is left there, so all work that can be postponed is
// skipped.
extern constinit thread_local bool in_nested_call __attribute__((tls_model("initial-exec")));

// An object in scratch memory. Check that it is present before use.
template <typename T>
class Scratch {
  // NOLINTNEXTLINE(misc-redundant-expression): size and alignment of some types are the same.
  static_assert(sizeof(T) <= kScratchBytes && alignof(T) <= kScratchBytes);

 public:
  // Without arguments, the object is left uninitialised if its type allows that, like a local
  // variable.
  Scratch() : object_(static_cast<T*>(acquire_scratch())) {
    if (object_ != nullptr) new (object_) T;
  }
  template <typename First, typename... Rest>
  explicit Scratch(First&& first, Rest&&... rest) : object_(static_cast<T*>(acquire_scratch())) {
    if (object_ != nullptr)
      new (object_) T(static_cast<First&&>(first), static_cast<Rest&&>(rest)...);
  }
  ~Scratch() {
    if (object_ == nullptr) return;
    object_->~T();
    release_scratch(object_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  explicit operator bool() const { return object_ != nullptr; }
  T& operator*() const { return *object_; }
  T* operator->() const { return object_; }

 private:
  T* object_;
};

}  // namespace seemalloc::os
