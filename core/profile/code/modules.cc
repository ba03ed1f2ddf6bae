#include "core/profile/code/modules.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <sys/auxv.h>

#include "core/base/compiler.h"
#include "core/base/units.h"
#include "core/os/kernel/auxiliary_vector.h"
#include "core/os/kernel/memory.h"
#include "core/os/process/loaded_object.h"
#include "core/profile/code/frame_index.h"
#include "core/profile/code/module_table.h"

#ifndef DLFO_STRUCT_HAS_EH_DBASE
// <dlfcn.h> is from a C library older than glibc 2.35; this is the interface as fixed in that
// release.
struct dl_find_object {
  unsigned long long dlfo_flags;
  void* dlfo_map_start;
  void* dlfo_map_end;
  struct link_map* dlfo_link_map;
  void* dlfo_eh_frame;
  unsigned long long reserved[7];
};
#endif
// Weak: absent in older glibc, in musl, and in static programs that do not use it.
extern "C" int _dl_find_object(void* address, struct dl_find_object* result) noexcept
    __attribute__((weak));

namespace seemalloc::profile {

std::atomic<uint64_t> modules_unloaded{0};

#ifdef SEEMALLOC_DEBUG
std::atomic<bool> without_dl_find_object{false};
#endif

namespace {

// Upper bound of the size of a module's tables, if no other bound is known.
constexpr size_t kMaxTableBytes = 256 * MiB;

using FindObject = int (*)(void* address, struct dl_find_object* result);

// The C library's function; null where find_dynamic_linker_lookup() has not found it.
std::atomic<FindObject> find_object{nullptr};

FindObject dl_find_object_or_null() {
#ifdef SEEMALLOC_DEBUG
  if (without_dl_find_object.load(std::memory_order_relaxed)) return nullptr;
#endif
  FindObject of_libc = find_object.load(std::memory_order_relaxed);
  return of_libc != nullptr ? of_libc : _dl_find_object;
}

uintptr_t address_of(const void* p) { return reinterpret_cast<uintptr_t>(p); }

// The program's entry point: an address in the main program's code.
uintptr_t program_entry() {
  static std::atomic<uintptr_t> cached{0};
  uintptr_t entry = cached.load(std::memory_order_relaxed);
  if (SEEMALLOC_UNLIKELY(entry == 0)) {
    entry = os::auxiliary_value(AT_ENTRY);
    cached.store(entry, std::memory_order_relaxed);
  }
  return entry;
}

// The start addresses of the modules that were loaded with the program. The count is stored last
// (release), which pairs with the load in was_loaded_with_program().
constexpr unsigned kMaxStartModules = 64;
std::atomic<uintptr_t> start_modules[kMaxStartModules];
std::atomic<unsigned> start_module_count{0};

bool was_loaded_with_program(uintptr_t start) {
  unsigned count = start_module_count.load(std::memory_order_acquire);
  for (unsigned i = 0; i < count; i++) {
    if (start_modules[i].load(std::memory_order_relaxed) == start) return true;
  }
  return false;
}

// Callback of dl_iterate_phdr. In the dynamic linker's list, modules loaded by dlopen() follow the
// linker itself, so the walk ends there. `context`: the number of modules so far.
int record_start_module(dl_phdr_info* info, size_t, void* context) {
  unsigned& count = *static_cast<unsigned*>(context);
  if (info->dlpi_addr == os::auxiliary_value(AT_BASE) || count == kMaxStartModules) return 1;
  for (unsigned i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    start_modules[count++].store(round_down(info->dlpi_addr + segment.p_vaddr, os::page_bytes()),
                                 std::memory_order_relaxed);
    break;
  }
  return 0;
}

bool find_by_dynamic_linker(FindObject find, uintptr_t pc, Module* module) {
  struct dl_find_object found;
  if (find(reinterpret_cast<void*>(pc), &found) != 0) return false;
  module->start = address_of(found.dlfo_map_start);
  module->end = address_of(found.dlfo_map_end);
  module->eh_frame_header = address_of(found.dlfo_eh_frame);
  module->identity_hash = mix_identity(module->start, module->end, module->eh_frame_header,
                                       address_of(found.dlfo_link_map));
  // Not by the name in the link map: the pc may be a guess (not on the stack of a running
  // function), so dlclose() may unload its module and free the link map at the same time.
  module->main_program = program_entry() >= module->start && program_entry() < module->end;
  module->permanent = module->main_program || contains_permanent_code(module->start, module->end);
  return true;
}

enum : int { kUnknown, kBeingStored, kKnown, kNone };
std::atomic<int> static_state{kUnknown};
Module static_program;

// Finds the code of a static program by its headers. _dl_find_object cannot be used there: glibc
// allocates while it builds the list that _dl_find_object reads, and a lookup for the stack of a
// sample of that allocation would crash.
bool find_in_static_program(uintptr_t pc, Module* module) {
  int seen = static_state.load(std::memory_order_acquire);  // pairs with the store below
  if (SEEMALLOC_LIKELY(seen == kNone)) return false;
  Module here;
  if (seen == kKnown) {
    here = static_program;
  } else {
    bool is_static = os::auxiliary_value(AT_BASE) == 0 &&
                     read_module(os::auxiliary_value(AT_PHDR) - sizeof(Elf64_Ehdr), &here);
    here.main_program = here.permanent = true;
    int expected = kUnknown;  // not `seen`: another thread may be storing the program
    if (static_state.compare_exchange_strong(expected, is_static ? kBeingStored : kNone,
                                             std::memory_order_relaxed) &&
        is_static) {
      if (here.eh_frame_header == 0) here.frame_index = make_frame_index(here);
      // Threads that looked up an address before had no index, and have cached that there are no
      // unwind rows. Another identity makes these cache entries unreachable.
      if (here.frame_index != nullptr)
        here.identity_hash = mix_identity(here.identity_hash, 1, 0, 0);
      static_program = here;
      static_state.store(kKnown, std::memory_order_release);
    }
    if (!is_static) return false;
  }
  if (pc < here.start || pc >= here.end) return false;
  *module = here;
  return true;
}

}  // namespace

void find_dynamic_linker_lookup() {
  for (os::LoadedObject object = os::first_loaded_object(); object.exists();
       object = object.next()) {
    if (!object.defines("gnu_get_libc_version")) continue;
    uintptr_t function = object.symbols().address_of("_dl_find_object");
    find_object.store(reinterpret_cast<FindObject>(function), std::memory_order_relaxed);
    return;
  }
}

void record_start_modules() {
  unsigned count = 0;
  if (os::auxiliary_value(AT_BASE) != 0) dl_iterate_phdr(record_start_module, &count);
  start_module_count.store(count, std::memory_order_release);
}

const link_map* loaded_object_of(uintptr_t pc) {
  struct dl_find_object found;
  FindObject find = dl_find_object_or_null();
  bool is_found = find != nullptr && find(reinterpret_cast<void*>(pc), &found) == 0;
  return is_found ? found.dlfo_link_map : nullptr;
}

void reset_static_program() {
  int expected = kBeingStored;
  static_state.compare_exchange_strong(expected, kUnknown, std::memory_order_relaxed);
}

bool contains_permanent_code(uintptr_t start, uintptr_t end) {
  uintptr_t ours = address_of(reinterpret_cast<const void*>(&own_library_bounds));
  uintptr_t of_libc = address_of(reinterpret_cast<const void*>(&__errno_location));
  return (ours >= start && ours < end) || (of_libc >= start && of_libc < end);
}

bool find_module(uintptr_t pc, Module* module) {
  FindObject find = dl_find_object_or_null();
  bool found = find_in_static_program(pc, module) ||
               (find != nullptr ? find_by_dynamic_linker(find, pc, module)
                                : find_in_module_table(pc, module));
  if (!found || pc < module->start || pc >= module->end) return false;
  if (!module->permanent)
    module->identity_hash ^= modules_unloaded.load(std::memory_order_acquire) * 0x9E3779B97F4A7C15;
  module->loaded_with_program = module->permanent || was_loaded_with_program(module->start);
  module->tables_start = module->start;
  module->tables_end = module->end;
  if (module->eh_frame_header >= module->end) {
    // In a static program, glibc's bounds are only those of the code.
    module->tables_end = module->eh_frame_header + kMaxTableBytes;
  }
  return true;
}

bool own_library_bounds(uintptr_t* start, uintptr_t* end) {
  // Bounds never change (this library is never unloaded), so racing threads store the same values.
  // `known` is stored last (release), which pairs with the acquire here.
  enum : int { kUnknown, kLibrary, kStatic };
  static std::atomic<int> known{kUnknown};
  static std::atomic<uintptr_t> own_start{0}, own_end{0};
  int state = known.load(std::memory_order_acquire);
  if (SEEMALLOC_UNLIKELY(state == kUnknown)) {
    Module own;
    if (!find_module(address_of(reinterpret_cast<const void*>(&own_library_bounds)), &own))
      return false;
    own_start.store(own.start, std::memory_order_relaxed);
    own_end.store(own.end, std::memory_order_relaxed);
    state = own.main_program ? kStatic : kLibrary;
    known.store(state, std::memory_order_release);
  }
  if (state != kLibrary) return false;
  *start = own_start.load(std::memory_order_relaxed);
  *end = own_end.load(std::memory_order_relaxed);
  return true;
}

const Module* ModuleCache::find_slow(uintptr_t pc) {
  for (Module& module : entries_) {
    if (pc - module.start < module.end - module.start) {
      last_used_ = &module;
      return last_used_;
    }
  }
  Module found;
  if (!find_module(pc, &found)) return nullptr;
  last_used_ = &entries_[next_++ % kEntries];
  *last_used_ = found;
  return last_used_;
}

}  // namespace seemalloc::profile
