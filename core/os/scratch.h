// Memory for buffers that are too large for the caller's stack: a thread in malloc may have 8 KiB in all, a signal's frame included, so a
// slow path uses 4.5 KiB at most (docs/decisions/0071).
//
// There are 16 pieces of 4 KiB. Any thread and any signal handler takes one and gives it back; a handler that interrupts a holder
// takes another. Nothing waits: where all are taken, a page is mapped for the moment. When the kernel refuses that too, the object is
// absent, and the caller does without. Costs about 20 instructions, so it is for rare work only.
// Invariants: 1. a bit in taken_pieces is set while its piece has a holder. 2. the thread that sets a bit (acquire) sees all
// that the previous holder wrote (release). In a child of fork the pieces of the parent's other threads are free again, unless the child's
// own thread holds a piece.
#pragma once

#include <cstddef>
#include <new>

namespace seemalloc::os {

inline constexpr size_t kScratchBytes = 4096;
inline constexpr unsigned kScratchPieces = 16;

// Null when memory was refused. The previous holder's contents are still there.
void* take_scratch();
void give_scratch(void* piece);
// Called in a child of fork, when only this thread is there.
void forget_scratch_in_child();

// Set while a slow path calls a function that may call malloc (InnerCalls in core/api/slow_path.h). Less stack is left there, so all work
// that can wait is left out.
extern constinit thread_local bool inner_calls __attribute__((tls_model("initial-exec")));

// An object in such memory. Ask whether it is there before it is used.
template <typename T>
class Scratch {
  static_assert(sizeof(T) <= kScratchBytes && alignof(T) <= kScratchBytes);

 public:
  // Without arguments the object is left uninitialised where its type allows that, as on the stack.
  Scratch() : object_(static_cast<T*>(take_scratch())) {
    if (object_ != nullptr) new (object_) T;
  }
  template <typename First, typename... Rest>
  explicit Scratch(First&& first, Rest&&... rest) : object_(static_cast<T*>(take_scratch())) {
    if (object_ != nullptr) new (object_) T(static_cast<First&&>(first), static_cast<Rest&&>(rest)...);
  }
  ~Scratch() {
    if (object_ == nullptr) return;
    object_->~T();
    give_scratch(object_);
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
