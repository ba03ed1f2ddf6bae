// The Python functions on the calling thread's stack, put where the interpreter's own frames stand.
//
// From CPython 3.11 on one call of the interpreter (_PyEval_EvalFrameDefault) runs many Python functions: a chain of frames
// on the heap, whose end is known by something that lies in the interpreter's own C frame, here called its anchor. So the
// unwinder asks of each C frame whether an anchor lies in it, and if so the frame is replaced by the functions.
// Called by the unwinder, in signal handlers too: the thread may be between any two instructions of the interpreter. So all
// is read by system calls that cannot fault, and believed only where types are right; what is not right leaves the C frame
// as it was, and is counted. Threads: the calling one's stack only. No lock, no allocation, no errno, nothing of Python's
// is called. A PythonWalk is an object of 1 KiB, for scratch memory (core/os/scratch.h); a system call for each function and for each few frames (docs/decisions/0041).
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/profile/python.h"
#include "core/profile/stack.h"

namespace seemalloc::profile {

// What is known of a code object in the course of one stack, which holds it.
struct PythonCode {
  uintptr_t address;  // 0: nothing
  uintptr_t lines;    // its table of lines
  size_t lines_bytes;
  uint64_t units;
  int32_t first_line;
  uint32_t function;  // its number; 0: there was no room
  bool hidden;        // Python shows it nowhere
};

class PythonWalk {
 public:
  explicit PythonWalk(const Python& python);
  ~PythonWalk() {
    if (unreadable_) count_unreadable_python();
  }
  PythonWalk(const PythonWalk&) = delete;
  PythonWalk& operator=(const PythonWalk&) = delete;

  // An interpreter runs in this thread that was not met yet.
  bool any() const { return anchor_ != 0; }
  // Whether the next one's C frame is the one whose stack pointer is `low` and whose caller's is `high`.
  bool runs_in(uintptr_t low, uintptr_t high) const { return anchor_ > low && anchor_ < high; }
  // Puts what it runs in the place of the last frame of `out`, which stays if that cannot be read; then the next one is due.
  void replace_last(Stack* out, size_t max_depth);
  // Appends what the remaining ones run: the C frames in between are not known.
  void append_rest(Stack* out, size_t max_depth);

 private:
  struct Frame {
    uintptr_t code, previous, instruction;
    bool marked;
  };
  enum class Found { kFunction, kNone, kUnreadable };

  void enter(uintptr_t top);
  void find_anchor();
  bool read_frame(uintptr_t frame, Frame* out);
  bool append(Stack* out, size_t max_depth);
  const PythonCode* find_code(uintptr_t address);
  Found find(const Frame& frame, uintptr_t* pc);

  const Python& python_;
  const PythonLayout& layout_;
  uintptr_t anchor_ = 0;  // 0: there is no further interpreter
  uintptr_t frame_ = 0;   // the innermost that the next interpreter runs
  uintptr_t next_ = 0;    // what enter() is given for the one after it
  bool unreadable_ = false;
  static constexpr unsigned kKnown = 4;
  PythonCode known_[kKnown] = {};
  unsigned next_known_ = 0;
  // A copy of memory within a page: frames that call each other lie side by side.
  static constexpr size_t kWindowBytes = 512;
  uintptr_t window_start_ = 0, window_end_ = 0;
  alignas(8) char window_[kWindowBytes];
};

}  // namespace seemalloc::profile
