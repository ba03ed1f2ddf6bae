// CPython in this process: whether it is there and wanted (option python_frames), and where its versions keep what we read.
//
// follow_python_option() is called by core/api when the option was read or set; the rest by the unwinder, in signal handlers
// too. Threads: any. Nothing here calls Python but for the state of the calling thread, which takes no lock and no memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/compiler.h"
#include "core/os/sandbox.h"
#include "core/profile/python_names.h"

namespace seemalloc::profile {

// Offsets in bytes, from the headers of each version (Include/internal/pycore_frame.h, Include/cpython/pystate.h, code.h,
// unicodeobject.h). What no version has changed is a constant in python_frames.cc.
struct PythonLayout {
  unsigned minor;  // of version 3.minor
  // PyThreadState → _PyCFrame of the innermost interpreter, which lies in that one's C frame; or, where there are no such, the
  // innermost _PyInterpreterFrame.
  uint16_t state_top;
  bool has_cframes;
  uint16_t cframe_current, cframe_previous;
  // _PyInterpreterFrame
  uint16_t frame_code, frame_previous, frame_instruction;
  // A byte: not 0 in the last frame of those that one interpreter runs (3.11, is_entry); or, 3 in a frame that is none but
  // stands behind the last one, in the interpreter's C frame (owner).
  uint16_t frame_mark;
  bool mark_is_entry;
  // PyCodeObject; code_bytes is where the instructions begin, and what the type says is its size.
  uint16_t code_first_line, code_first_traceable, code_bytes;
  // str: where the characters begin; text_bytes is what the type says is its size.
  uint16_t ascii_bytes, compact_bytes, text_bytes;
};

struct Python {
  const PythonLayout* layout;
  uintptr_t code_type, text_type, bytes_type;
  void* (*thread_state)();  // of the calling thread; null: it runs no Python
  PythonNames* names;
};

namespace detail {
extern std::atomic<const Python*> python;
}

// Null while Python's frames are not wanted, or there is no Python that we know.
inline const Python* wanted_python() {
  const Python* python = detail::python.load(std::memory_order_acquire);
  return SEEMALLOC_LIKELY(python == nullptr) || os::is_helper_thread() ? nullptr : python;  // the helper runs no code of the program's
}

// The calling thread has Python's frames among its own: its stack is more than what C says.
inline bool runs_python() {
  const Python* python = wanted_python();
  return SEEMALLOC_UNLIKELY(python != nullptr) && python->thread_state() != nullptr;
}

// Looks for Python, or forgets it. Says once on standard error that it is of a version that is not known. In no signal handler;
// one caller at a time.
void follow_python_option(bool on);

// CPython makes a thread-specific key when it starts. True when the code at `pc`, which makes one, is in a CPython that dlopen has loaded and
// that was not known yet: follow_python_option() finds it then.
bool note_loaded_python(uintptr_t pc);
// Before and after a dlclose: while Python's frames are wanted it must not go, since it is called in signal handlers. Else it is forgotten.
void keep_wanted_python();
void forget_closed_python();

// Names of functions met so far, also when the option is off again; null: there are none.
const PythonNames* python_names();
// Bytes of memory that they take.
size_t python_name_bytes();

// Stacks whose Python frames could not be read, so that they show the interpreter's; frames whose function there was no room for.
struct PythonCounters {
  uint64_t unreadable, without_room;
};
PythonCounters python_counters();
void count_unreadable_python();
void count_python_without_room();

// The layout of a version, null when it is not known.
const PythonLayout* python_layout(unsigned minor);

#ifdef SEEMALLOC_DEBUG
// From now on this is the process's Python (its names are made); null: there is none.
void use_python_for_test(Python* python);
#endif

}  // namespace seemalloc::profile
