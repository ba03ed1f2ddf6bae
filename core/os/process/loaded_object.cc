#include "core/os/process/loaded_object.h"

#include <link.h>
#include <sys/mman.h>

#include <atomic>

#include "core/base/units.h"
#include "core/os/kernel/memory.h"
#include "core/os/kernel/syscall.h"

// Absent in a static program without a dynamic linker, and with musl.
extern r_debug _r_debug __attribute__((weak));
// This object's dynamic section, provided by the linker; a static program has none.
extern Elf64_Dyn _DYNAMIC[] __attribute__((weak, visibility("hidden")));

namespace seemalloc::os {

namespace {

// glibc's r_debug_extended (2.35), for processes with several namespaces.
struct NextList {
  r_debug base;
  const NextList* next;
};

}  // namespace

LoadedObject::LoadedObject(const link_map* map) : map_(map) {
  // A static program that opens libraries has no dynamic section of its own.
  if (map != nullptr && map->l_ld != nullptr) symbols_ = DynamicSymbols(map->l_ld, map->l_addr);
}

bool LoadedObject::contains_seemalloc() const {
  return exists() && _DYNAMIC != nullptr && map_->l_ld == _DYNAMIC;
}

LoadedObject LoadedObject::next() const { return LoadedObject(map_->l_next); }

// The address up to which, from the symbols on, there is no code: linkers place relocations behind
// the symbols, and code behind both.
uintptr_t LoadedObject::end_of_tables() const {
  uintptr_t relocations = 0, late = 0, relocation_bytes = 0, late_bytes = 0;
  for (const Elf64_Dyn* entry = map_->l_ld; entry->d_tag != DT_NULL; entry++) {
    switch (entry->d_tag) {
      case DT_RELA: relocations = address_in(*entry, map_->l_addr); break;
      case DT_RELASZ: relocation_bytes = entry->d_un.d_val; break;
      case DT_JMPREL: late = address_in(*entry, map_->l_addr); break;
      case DT_PLTRELSZ: late_bytes = entry->d_un.d_val; break;
      default: break;
    }
  }
  uintptr_t end = relocations + relocation_bytes, late_end = late + late_bytes;
  return late_end > end ? late_end : end;
}

bool LoadedObject::redirect(const Redirection* redirections, size_t count) const {
  if (count == 0) return true;
  uintptr_t low = UINTPTR_MAX, high = 0;
  for (size_t i = 0; i < count; i++) {
    uintptr_t at = reinterpret_cast<uintptr_t>(redirections[i].function);
    if (at < low) low = at;
    if (at + sizeof(Elf64_Sym) > high) high = at + sizeof(Elf64_Sym);
  }
  low = low / page_bytes() * page_bytes();
  high = round_up(high, page_bytes());
  // Pages that also hold code would lose execute permission, which a hardened system may refuse to
  // restore.
  if (high > end_of_tables()) return false;
  long start = static_cast<long>(low), bytes = static_cast<long>(high - low);
  if (sys_failed(sys(SYS_mprotect, start, bytes, PROT_READ | PROT_WRITE))) return false;
  for (size_t i = 0; i < count; i++) {
    // Concurrent lookups by other threads find either function.
    Elf64_Addr* value = const_cast<Elf64_Addr*>(&redirections[i].function->st_value);
    std::atomic_ref<Elf64_Addr>(*value).store(redirections[i].target - symbols_.base(),
                                              std::memory_order_release);
  }
  sys(SYS_mprotect, start, bytes, PROT_READ);
  return true;
}

LoadedObject first_loaded_object() {
  if (&_r_debug == nullptr) return {};
  auto list = reinterpret_cast<const NextList*>(&_r_debug);
  for (;;) {
    for (const link_map* map = list->base.r_map; map != nullptr; map = map->l_next) {
      if (LoadedObject(map).contains_seemalloc()) return LoadedObject(list->base.r_map);
    }
    if (list->base.r_version < 2 || list->next == nullptr) return LoadedObject(_r_debug.r_map);
    list = list->next;
  }
}

}  // namespace seemalloc::os
