#include "core/profile/python/python.h"

#include <dlfcn.h>
#include <link.h>

#include "core/base/check.h"
#include "core/base/options.h"
#include "core/base/text.h"
#include "core/os/kernel/dynamic_symbols.h"
#include "core/os/kernel/memory.h"
#include "core/os/kernel/read_memory.h"
#include "core/profile/code/modules.h"
#include "core/profile/sampling/stack.h"

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
constinit std::atomic<uint32_t> python_stack_depth{0};
}  // namespace detail

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
std::atomic<unsigned long> unsupported{0};
std::atomic<bool> small_blocks_mapped{true};
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

constexpr unsigned long kBefore311 = 1;

void refuse_version(const Symbols& symbols, PythonFrames wanted) {
  unsigned long version = symbols.version != nullptr ? *symbols.version : kBefore311;
  unsupported.store(version, std::memory_order_relaxed);
  if (wanted != PythonFrames::kRequired) return;
  FixedText<160> why;
  why << "CPython ";
  print_python_version(version, why);
  why << " is not supported (3.11, 3.12 and 3.13 are, as released and with the global interpreter lock)";
  warn_once(why.c_str());
}

bool make_names() {
  if (names.load(std::memory_order_relaxed) != nullptr) return true;
  size_t bytes = (sizeof(PythonNames) + os::page_bytes() - 1) & ~(os::page_bytes() - 1);
  void* memory = os::map(bytes, os::Reason::kRecords);
  if (memory == nullptr) return false;
  os::set_huge_pages(memory, bytes, false);  // little of it is ever used
  names.store(static_cast<PythonNames*>(memory), std::memory_order_release);
  return true;
}

void activate(const Python* python) {
  bool deep = python != nullptr && !options::is_explicitly_set(options::Id::stack_depth);
  detail::python_stack_depth.store(deep ? kMaxStackDepth : 0, std::memory_order_relaxed);
  detail::python.store(python, std::memory_order_release);
}

using Dealloc = void (*)(void* object);
std::atomic<Dealloc> dealloc_code{nullptr};  // CPython's own

void forget_and_dealloc(void* code) {
  auto address = reinterpret_cast<uintptr_t>(code);
  PythonNames* all = names.load(std::memory_order_acquire);
  all->codes.forget(address);
  dealloc_code.load(std::memory_order_acquire)(code);
  all->codes.forget(address);  // a sample in between may have inserted it
}

// Replaces the function that frees code objects. Returns false if the type cannot be changed.
// Requires: the names are made.
bool see_frees(const char* code_type) {
  constexpr size_t kDealloc = 48;  // tp_dealloc
  auto* slot = reinterpret_cast<std::atomic<Dealloc>*>(const_cast<char*>(code_type + kDealloc));
  Dealloc now = slot->load(std::memory_order_acquire);
  if (now == forget_and_dealloc) return true;
  if (now == nullptr || !os::is_writable(slot, sizeof(*slot))) return false;
  dealloc_code.store(now, std::memory_order_release);
  slot->store(forget_and_dealloc, std::memory_order_release);
  return true;
}

}  // namespace

const PythonLayout* python_layout(unsigned minor) {
  for (const PythonLayout& layout : kLayouts) {
    if (layout.minor == minor) return &layout;
  }
  return nullptr;
}

unsigned long unsupported_python() { return unsupported.load(std::memory_order_relaxed); }

void print_python_version(unsigned long version, Text& out) {
  if (version == kBefore311) {
    out << "before 3.11";
  } else {
    out << (version >> 24) << '.' << (version >> 16 & 0xFF) << '.' << (version >> 8 & 0xFF);
  }
}

void set_python_allocator(const char* name) {
  small_blocks_mapped.store(
      name == nullptr || (!text_equal(name, "malloc") && !text_equal(name, "malloc_debug")),
      std::memory_order_relaxed);
}
bool python_maps_small_blocks() { return small_blocks_mapped.load(std::memory_order_relaxed); }

void set_python_frames(PythonFrames wanted) {
  const Python* found = nullptr;
  unsupported.store(0, std::memory_order_relaxed);
  Symbols symbols = linked_symbols();
  if (!symbols.any() && has_dlopened_symbols.load(std::memory_order_acquire))
    symbols = dlopened_symbols;
  if (wanted != PythonFrames::kOff && symbols.any()) {
    const PythonLayout* layout = layout_of(symbols);
    if (layout == nullptr) {
      refuse_version(symbols, wanted);
    } else if (!make_names()) {
      if (wanted == PythonFrames::kRequired) warn_once("no memory for function names");
    } else {
      // Signal handlers may be reading it. It is the same each time, so it is written only once.
      if (process_python.layout == nullptr) {
        Module module{};
        find_module(reinterpret_cast<uintptr_t>(symbols.thread_state), &module);
        process_python = {layout,
                          reinterpret_cast<uintptr_t>(symbols.code_type),
                          reinterpret_cast<uintptr_t>(symbols.text_type),
                          reinterpret_cast<uintptr_t>(symbols.bytes_type),
                          symbols.thread_state,
                          names.load(std::memory_order_relaxed),
                          module.start,
                          module.end,
                          see_frees(symbols.code_type)};
      }
      found = &process_python;
    }
  }
  activate(found);
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
  activate(nullptr);
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
