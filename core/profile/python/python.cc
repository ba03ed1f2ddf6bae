#include "core/profile/python/python.h"

#include <dlfcn.h>
#include <link.h>

#include "core/base/check.h"
#include "core/base/text.h"
#include "core/os/kernel/dynamic_symbols.h"
#include "core/os/kernel/memory.h"
#include "core/profile/code/modules.h"

// CPython's symbols, if the program or a library that it is linked with is CPython. The type
// objects are larger than declared here; only their addresses are used, and the object size that
// each one states.
extern "C" {
extern const unsigned long Py_Version __attribute__((weak));
extern char PyCode_Type[] __attribute__((weak));
extern char PyUnicode_Type[] __attribute__((weak));
extern char PyBytes_Type[] __attribute__((weak));
extern char _PyRuntime[] __attribute__((weak));
__attribute__((weak)) void* PyGILState_GetThisThreadState(void);

// Null in a static program.
__attribute__((weak)) void* dlopen(const char* name, int flags) noexcept;
}

namespace seemalloc::profile {

namespace detail {
constinit std::atomic<const Python*> python{nullptr};
}

namespace {

constexpr PythonLayout kLayouts[] = {
    {.minor = 11,
     .state_top = 56,
     .has_cframes = true,
     .cframe_current = 8,
     .cframe_previous = 16,
     .frame_code = 32,
     .frame_previous = 48,
     .frame_instruction = 56,
     .frame_mark = 68,
     .mark_is_entry = true,
     .code_first_line = 72,
     .code_first_traceable = 168,
     .code_bytes = 184,
     .ascii_bytes = 48,
     .compact_bytes = 72,
     .text_bytes = 80},
    {.minor = 12,
     .state_top = 56,
     .has_cframes = true,
     .cframe_current = 0,
     .cframe_previous = 8,
     .frame_code = 0,
     .frame_previous = 8,
     .frame_instruction = 56,
     .frame_mark = 70,
     .mark_is_entry = false,
     .code_first_line = 68,
     .code_first_traceable = 176,
     .code_bytes = 192,
     .ascii_bytes = 40,
     .compact_bytes = 56,
     .text_bytes = 64},
    {.minor = 13,
     .state_top = 72,
     .has_cframes = false,
     .cframe_current = 0,
     .cframe_previous = 0,
     .frame_code = 0,
     .frame_previous = 8,
     .frame_instruction = 56,
     .frame_mark = 70,
     .mark_is_entry = false,
     .code_first_line = 68,
     .code_first_traceable = 184,
     .code_bytes = 200,
     .ascii_bytes = 40,
     .compact_bytes = 56,
     .text_bytes = 64},
};

// The symbols of a CPython. Null: it does not have the symbol.
struct Symbols {
  const unsigned long* version;
  const char *code_type, *text_type, *bytes_type, *runtime;
  void* (*thread_state)();

  bool any() const { return thread_state != nullptr; }
};

Symbols linked_symbols() {
  return {&Py_Version,  PyCode_Type, PyUnicode_Type,
          PyBytes_Type, _PyRuntime,  PyGILState_GetThisThreadState};
}

constinit Symbols dlopened_symbols{};  // by dlopen; read only after has_dlopened_symbols is true
std::atomic<bool> has_dlopened_symbols{false}, is_kept{false};
constinit Python process_python{};
std::atomic<PythonNames*> names{nullptr};
std::atomic<uint64_t> unreadable{0}, without_space{0};
bool warned = false;  // the warning was printed

uint64_t word_at(const char* object, size_t offset) {
  uint64_t word;
  __builtin_memcpy(&word, object + offset, sizeof(word));
  return word;
}

// CPython 3.13 states the offsets of its fields; they must equal the known ones. Builds without the
// global lock have other object layouts.
bool offsets_agree(const char* runtime, const PythonLayout& layout) {
  constexpr char kCookie[] = "xdebugpy";
  if (runtime == nullptr || __builtin_memcmp(runtime, kCookie, sizeof(kCookie) - 1) != 0)
    return false;
  // Words of _Py_DebugOffsets (Include/internal/pycore_runtime.h).
  enum : size_t {
    kFreeThreaded = 2,
    kCurrentFrame = 23,
    kFramePrevious = 29,
    kFrameCode = 30,
    kInstruction = 31,
    kOwner = 33,
    kFile = 35,
    kQualifiedName = 37,
    kLines = 38,
    kFirstLine = 39,
    kCode = 43,
    kType = 45
  };
  struct {
    size_t word;
    uint64_t value;
  } const known[] = {{kFreeThreaded, 0},
                     {kCurrentFrame, layout.state_top},
                     {kFramePrevious, layout.frame_previous},
                     {kFrameCode, layout.frame_code},
                     {kInstruction, layout.frame_instruction},
                     {kOwner, layout.frame_mark},
                     {kFile, 112},
                     {kQualifiedName, 128},
                     {kLines, 136},
                     {kFirstLine, layout.code_first_line},
                     {kCode, layout.code_bytes},
                     {kType, 8}};
  for (const auto& each : known) {
    if (word_at(runtime, each.word * sizeof(uint64_t)) != each.value) return false;
  }
  return true;
}

// Returns the layout of that Python; null if it is not known.
const PythonLayout* layout_of(const Symbols& symbols) {
  if (symbols.version == nullptr || symbols.code_type == nullptr || symbols.text_type == nullptr ||
      symbols.bytes_type == nullptr) {
    return nullptr;
  }
  unsigned long version = *symbols.version;
  if (version >> 24 != 3) return nullptr;
  const PythonLayout* layout = python_layout(version >> 16 & 0xFF);
  constexpr size_t kTypeSize = 32;  // tp_basicsize
  if (layout == nullptr || word_at(symbols.code_type, kTypeSize) != layout->code_bytes ||
      word_at(symbols.text_type, kTypeSize) != layout->text_bytes) {
    return nullptr;
  }
  return layout->has_cframes || offsets_agree(symbols.runtime, *layout) ? layout : nullptr;
}

void warn_once(const char* why) {
  if (warned) return;
  warned = true;
  FixedText<256> line;
  line << "python_frames: " << why << "; Python functions are shown as interpreter frames";
  warn(line.c_str());
}

void refuse_version(const Symbols& symbols) {
  FixedText<160> why;
  why << "CPython ";
  if (symbols.version != nullptr) {
    unsigned long version = *symbols.version;
    why << (version >> 24) << '.' << (version >> 16 & 0xFF) << '.' << (version >> 8 & 0xFF);
  } else {
    why << "before 3.11";
  }
  why << " is not supported (3.11, 3.12 and 3.13 are, as released and with the global interpreter lock)";
  warn_once(why.c_str());
}

bool make_names() {
  if (names.load(std::memory_order_relaxed) != nullptr) return true;
  size_t bytes = (sizeof(PythonNames) + os::page_bytes() - 1) & ~(os::page_bytes() - 1);
  names.store(static_cast<PythonNames*>(os::map(bytes, os::Reason::kRecords)),
              std::memory_order_release);
  return names.load(std::memory_order_relaxed) != nullptr;
}

}  // namespace

const PythonLayout* python_layout(unsigned minor) {
  for (const PythonLayout& layout : kLayouts) {
    if (layout.minor == minor) return &layout;
  }
  return nullptr;
}

void set_python_frames(bool on) {
  const Python* found = nullptr;
  Symbols symbols = linked_symbols();
  if (!symbols.any() && has_dlopened_symbols.load(std::memory_order_acquire))
    symbols = dlopened_symbols;
  if (on && symbols.any()) {
    const PythonLayout* layout = layout_of(symbols);
    if (layout == nullptr) {
      refuse_version(symbols);
    } else if (!make_names()) {
      warn_once("no memory for function names");
    } else {
      // Signal handlers may be reading it. It is the same each time, so it is written only once.
      if (process_python.layout == nullptr) {
        process_python = {layout,
                          reinterpret_cast<uintptr_t>(symbols.code_type),
                          reinterpret_cast<uintptr_t>(symbols.text_type),
                          reinterpret_cast<uintptr_t>(symbols.bytes_type),
                          symbols.thread_state,
                          names.load(std::memory_order_relaxed)};
      }
      found = &process_python;
    }
  }
  detail::python.store(found, std::memory_order_release);
}

bool note_loaded_python(uintptr_t pc) {
  if (linked_symbols().any() || has_dlopened_symbols.load(std::memory_order_acquire)) return false;
  const link_map* object = loaded_object_of(pc);
  if (object == nullptr || object->l_ld == nullptr) return false;
  os::DynamicSymbols symbols(object->l_ld, object->l_addr);
  uintptr_t state = symbols.address_of("PyGILState_GetThisThreadState");
  if (state == 0) return false;
  auto data = [&](const char* name) {
    return reinterpret_cast<const char*>(symbols.address_of_variable(name));
  };
  dlopened_symbols = {reinterpret_cast<const unsigned long*>(data("Py_Version")),
                      data("PyCode_Type"),
                      data("PyUnicode_Type"),
                      data("PyBytes_Type"),
                      data("_PyRuntime"),
                      reinterpret_cast<void* (*)()>(state)};
  has_dlopened_symbols.store(true, std::memory_order_release);
  return true;
}

void keep_active_python() {
  if (!has_dlopened_symbols.load(std::memory_order_acquire) ||
      is_kept.load(std::memory_order_relaxed) || active_python() == nullptr)
    return;
  const link_map* object =
      loaded_object_of(reinterpret_cast<uintptr_t>(dlopened_symbols.thread_state));
  if (object == nullptr || dlopen == nullptr ||
      dlopen(object->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) == nullptr)
    return;
  is_kept.store(true, std::memory_order_relaxed);
}

void forget_closed_python() {
  if (!has_dlopened_symbols.load(std::memory_order_acquire) ||
      is_kept.load(std::memory_order_relaxed))
    return;
  if (loaded_object_of(reinterpret_cast<uintptr_t>(dlopened_symbols.thread_state)) != nullptr)
    return;
  detail::python.store(nullptr, std::memory_order_release);
  process_python.layout = nullptr;
  has_dlopened_symbols.store(false, std::memory_order_release);
}

const PythonNames* python_names() { return names.load(std::memory_order_acquire); }

size_t python_name_bytes() {
  const PythonNames* all = python_names();
  return all != nullptr ? os::resident_bytes(all, sizeof(*all)) : 0;
}

PythonCounters python_counters() {
  return {unreadable.load(std::memory_order_relaxed),
          without_space.load(std::memory_order_relaxed)};
}
void count_unreadable_python() { unreadable.fetch_add(1, std::memory_order_relaxed); }
void count_python_without_room() { without_space.fetch_add(1, std::memory_order_relaxed); }

#ifdef SEEMALLOC_DEBUG
void use_python_for_test(Python* python) {
  if (python != nullptr && make_names()) python->names = names.load(std::memory_order_relaxed);
  detail::python.store(python, std::memory_order_release);
}
#endif

}  // namespace seemalloc::profile
