// CPython in this process: whether it is present and its frames are wanted (option python_frames),
// and the offsets of the fields that are read, by version.
//
// core/api calls set_python_frames() when the option was read or set. The unwinder calls the
// other functions, also in signal handlers. Threads: any. The only call into Python is the one for
// the state of the calling thread, which takes no lock and allocates no memory. The only change of
// Python is in its type of code objects: the function that frees them becomes one of ours, which
// removes the object from PythonNames::codes and calls the former one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/compiler.h"
#include "core/base/text.h"
#include "core/os/process/sandbox.h"
#include "core/profile/python/python_names.h"

namespace seemalloc::profile {

// Offsets in bytes, from the headers of each version (Include/internal/pycore_frame.h,
// Include/cpython/pystate.h, code.h, unicodeobject.h). Offsets that are the same in all versions
// are constants in python_frames.cc.
struct PythonLayout {
  unsigned minor;  // the version is 3.minor
  // PyThreadState → the _PyCFrame of the innermost interpreter, which is in that interpreter's C
  // frame. In versions without _PyCFrame: the innermost _PyInterpreterFrame.
  uint16_t state_top;
  bool has_cframes;
  uint16_t cframe_current, cframe_previous;
  // _PyInterpreterFrame
  uint16_t frame_code, frame_previous, frame_instruction;
  // A byte that marks the end of an interpreter's frames. In 3.11 (is_entry): not 0 in the last of
  // the frames that one interpreter runs. Later (owner): 3 in an entry that is no function's frame,
  // but follows the last one and is in the interpreter's C frame.
  uint16_t frame_mark;
  bool mark_is_entry;
  // PyCodeObject. code_bytes is the offset of the instructions, and the size of the object
  // according to its type.
  uint16_t code_first_line, code_first_traceable, code_bytes;
  // str: the offsets of the characters. text_bytes is the size of the object according to its type.
  uint16_t ascii_bytes, compact_bytes, text_bytes;
};

struct Python {
  const PythonLayout* layout;
  uintptr_t code_type, text_type, bytes_type;
  void* (*thread_state)();  // of the calling thread; returns null if it runs no Python
  PythonNames* names;
  // The code of the program or library that contains the interpreter.
  uintptr_t code_start, code_end;
  // Whether frees of code objects are seen, so that PythonNames::codes may be used.
  bool frees_are_seen;
};

namespace detail {
extern std::atomic<const Python*> python;
// Used instead of the option stack_depth, unless it is 0.
extern std::atomic<uint32_t> python_stack_depth;
}  // namespace detail

// Null while Python frames are not wanted, or there is no Python of a known version.
inline const Python* active_python() {
  const Python* python = detail::python.load(std::memory_order_acquire);
  // The helper thread runs no code of the program.
  return SEEMALLOC_LIKELY(python == nullptr) || os::is_helper_thread() ? nullptr : python;
}

// Whether the calling thread runs Python functions: its stack then has frames that C frames do not
// show.
inline bool runs_python() {
  const Python* python = active_python();
  return SEEMALLOC_UNLIKELY(python != nullptr) && python->thread_state() != nullptr;
}

// Called when the option python_frames or stack_depth was read or set: searches for Python, or
// disables Python frames. kRequired: the user asked for them, so an unknown
// version is reported once on standard error. Not for signal handlers; one caller at a time.
enum class PythonFrames { kOff, kIfSupported, kRequired };
void set_python_frames(PythonFrames wanted);

// CPython makes a thread-specific key when it starts. Returns true if the code at `pc`, which makes
// a key, is in a CPython that was loaded by dlopen and is not known yet; set_python_frames()
// then finds it.
bool note_loaded_python(uintptr_t pc);
// Called before and after a dlclose. While Python frames are wanted, Python must stay loaded,
// because it is called in signal handlers. Otherwise it is forgotten once it is unloaded.
void keep_active_python();
void forget_closed_python();

// Version (Py_Version) of a CPython whose frames are wanted, but not supported; 1: a version before
// 3.11; 0: there is none.
unsigned long unsupported_python();
void print_python_version(unsigned long version, Text& out);

// The value of PYTHONMALLOC, null if it is not set; called once, at the start. Unless it is malloc,
// Python keeps blocks of 512 bytes and less in memory that it maps itself.
void set_python_allocator(const char* name);
bool python_maps_small_blocks();

// The names of the functions found so far, also after the option was turned off; null: there are
// none.
const PythonNames* python_names();
// The memory that they take, in bytes.
size_t python_name_bytes();

// `unreadable`: stacks with unreadable Python frames, which show the interpreter's frames.
// `without_space`: frames of functions for which there was no room.
struct PythonCounters {
  uint64_t unreadable, without_space;
};
PythonCounters python_counters();
void count_unreadable_python();
void count_python_without_room();

// Returns the layout of a version; null if it is not known.
const PythonLayout* python_layout(unsigned minor);

#ifdef SEEMALLOC_DEBUG
// Sets the process's Python (its names are made); null: there is none.
void use_python_for_test(Python* python);
#endif

}  // namespace seemalloc::profile
