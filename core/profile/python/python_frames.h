// PythonWalk: finds the Python functions on the calling thread's stack, which replace the
// interpreter's own frames.
//
// Since CPython 3.11, one call of the interpreter (_PyEval_EvalFrameDefault) runs many Python
// functions. Their frames form a chain on the heap. The end of the chain is marked by an object in
// the interpreter's own C frame, here called its anchor. So the unwinder checks for each C frame
// whether an anchor is in it; if so, the frame is replaced by the functions.
// Called by the unwinder, also in signal handlers: the thread may be between any two instructions
// of the interpreter. So everything is read by system calls that cannot fault, and used only if its
// types are right. Otherwise the C frame stays, and the failure is counted. Threads: the calling
// one's stack only. No lock, no allocation, no change of errno; nothing in Python is called. A
// PythonWalk takes 1 KiB, in scratch memory (core/os/runtime/scratch.h), and makes a system call
// per function and per few frames (docs/decisions/0041).
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/profile/python/python.h"
#include "core/profile/sampling/stack.h"

namespace seemalloc::profile {

// Known properties of a code object during the capture of one stack, which keeps the object alive.
struct PythonCode {
  uintptr_t address;  // 0: the entry is empty
  uintptr_t lines;    // address of its table of lines
  size_t lines_bytes;
  uint64_t units;
  int32_t first_line;
  uint32_t function;  // its number in PythonNames; 0: there was no room
  bool hidden;        // Python does not show it anywhere
};

class PythonWalk {
 public:
  explicit PythonWalk(const Python& python);
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

 private:
  struct Frame {
    uintptr_t code, previous, instruction;
    bool marked;
  };
  enum class Found { kFunction, kNone, kUnreadable };

  void next_interpreter(uintptr_t top);
  void find_anchor();
  bool read_frame(uintptr_t frame, Frame* out);
  bool append(Stack* out, size_t max_depth);
  const PythonCode* find_code(uintptr_t address);
  Found find(const Frame& frame, uintptr_t* pc);

  const Python& python_;
  const PythonLayout& layout_;
  uintptr_t anchor_ = 0;  // 0: there is no further interpreter
  uintptr_t frame_ = 0;   // the innermost frame of the next interpreter
  uintptr_t next_ = 0;    // the argument of next_interpreter() for the interpreter after it
  bool unreadable_ = false;
  static constexpr unsigned kKnown = 4;
  PythonCode known_[kKnown] = {};
  unsigned next_known_ = 0;
  // A copy of memory within a page. Frames that call each other are adjacent.
  static constexpr size_t kWindowBytes = 512;
  uintptr_t window_start_ = 0, window_end_ = 0;
  alignas(8) char window_[kWindowBytes];
};

}  // namespace seemalloc::profile
