// PythonWalk: finds the Python functions on the calling thread's stack, which replace the
// interpreter's own frames.
//
// Since CPython 3.11, one call of the interpreter (_PyEval_EvalFrameDefault) runs many Python
// functions. Their frames form a chain on the heap. The end of the chain is marked by an object in
// the interpreter's own C frame, here called its anchor. So the unwinder checks for each C frame
// whether an anchor is in it; if so, the frame is replaced by the functions.
// Called by the unwinder, also in signal handlers: the thread may be between any two instructions
// of the interpreter. So everything outside of the thread's own stack is read by system calls that
// cannot fault, and used only if its types are right. Otherwise the C frame stays, and the failure
// is counted. Threads: the calling one's stack only. No lock, no allocation, no change of errno;
// nothing in Python is called. A PythonWalk takes 3 KiB, in scratch memory
// (core/os/runtime/scratch.h), and makes a system call per two dozen frames, and two for each code
// object that is not in the cache (docs/decisions/0081).
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/os/kernel/read_memory.h"
#include "core/profile/python/python.h"
#include "core/profile/sampling/stack.h"

namespace seemalloc::profile {

class PythonWalk {
 public:
  // [stack_low, stack_high): a part of the thread's own stack that stays readable; it may be empty.
  PythonWalk(const Python& python, uintptr_t stack_low, uintptr_t stack_high);
  ~PythonWalk() {
    if (unreadable_) count_unreadable_python();
  }
  PythonWalk(const PythonWalk&) = delete;
  PythonWalk& operator=(const PythonWalk&) = delete;

  // Whether this thread runs an interpreter that has not been handled yet.
  bool has_interpreter() const { return anchor_ != 0; }
  // Whether that interpreter's C frame is the one with stack pointer `low` and caller's stack
  // pointer `high`.
  bool is_interpreter_frame(uintptr_t low, uintptr_t high) const {
    return anchor_ > low && anchor_ < high;
  }
  // Replaces the last frame of `out` by that interpreter's functions, and moves on to the next
  // interpreter. If the functions cannot be read, the frame stays.
  void replace_last(Stack* out, size_t max_depth);
  // Appends the functions of the remaining interpreters. The C frames between them are unknown.
  void append_rest(Stack* out, size_t max_depth);
  // Called when `out` is full. The first time, leaves out the interpreter's own C functions between
  // Python functions, so that they do not use up the depth. Returns false if there is no room.
  bool make_room(Stack* out, size_t max_depth);
  // Called before a C frame is appended: the last frame may be one that make_room() leaves out.
  void drop_last(Stack* out) const {
    if (makes_room_ && out->depth != 0 && is_interpreter_code(out->pcs[out->depth - 1]))
      out->depth--;
  }

 private:
  struct Frame {
    uintptr_t code, previous, instruction;
    bool marked;
  };
  enum class Found { kFunction, kNone, kUnreadable };

  bool is_interpreter_code(uintptr_t return_address) const {
    return return_address - 1 - python_.code_start < python_.code_end - python_.code_start;
  }
  bool is_on_stack(uintptr_t from, size_t bytes) const {
    return from >= stack_low_ && from < stack_high_ && stack_high_ - from >= bytes;
  }
  bool read(uintptr_t from, void* to, size_t bytes);
  bool read_top(uintptr_t state, uintptr_t* top);
  void next_interpreter(uintptr_t top);
  void find_anchor();
  bool read_frame(uintptr_t frame, Frame* out);
  Frame decode(const char* frame) const;
  bool append(Stack* out, size_t max_depth);
  bool find_code(uintptr_t address, PythonCode* code);
  Found find(const Frame& frame, uintptr_t* pc);

  const Python& python_;
  const PythonLayout& layout_;
  uintptr_t stack_low_, stack_high_;
  os::MemoryReader reader_;
  uintptr_t anchor_ = 0;  // 0: there is no further interpreter
  uintptr_t frame_ = 0;   // the innermost frame of the next interpreter
  uintptr_t next_ = 0;    // the argument of next_interpreter() for the interpreter after it
  bool unreadable_ = false;
  bool makes_room_ = false;
  bool is_first_ = true;  // no frame was read from the window so far
  // A copy of memory within a page. Frames that call each other are adjacent.
  static constexpr size_t kWindowBytes = 3072;
  uintptr_t window_start_ = 0, window_end_ = 0;
  alignas(8) char window_[kWindowBytes];
};

}  // namespace seemalloc::profile
