#include "core/os/loaded_object.h"

#include <link.h>
#include <sys/mman.h>

#include <atomic>

#include "core/base/text.h"
#include "core/base/units.h"
#include "core/os/os.h"
#include "core/os/syscall.h"

// Absent in a static program without the dynamic linker, and in musl.
extern r_debug _r_debug __attribute__((weak));
// This object's dynamic section, which the linker places; a static program has none.
extern Elf64_Dyn _DYNAMIC[] __attribute__((weak, visibility("hidden")));

namespace seemalloc::os {

namespace {

// glibc's r_debug_extended (2.35), for processes with several namespaces.
struct NextList {
  r_debug base;
  const NextList* next;
};

uint32_t gnu_hash_of(const char* name) {
  uint32_t hash = 5381;
  for (; *name != 0; name++) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}

uint32_t system_v_hash_of(const char* name) {
  uint32_t hash = 0;
  for (; *name != 0; name++) {
    hash = (hash << 4) + static_cast<unsigned char>(*name);
    uint32_t high = hash & 0xf0000000;
    hash = (hash ^ high >> 24) & ~high;
  }
  return hash;
}

// The parts of DT_GNU_HASH: a Bloom filter, buckets of symbols, and a chain of their hashes, which ends with one whose lowest bit is set.
struct GnuHash {
  explicit GnuHash(const uint32_t* table)
      : bucket_count(table[0]),
        first_symbol(table[1]),
        filter_words(table[2]),
        filter_shift(table[3]),
        filter(reinterpret_cast<const uint64_t*>(table + 4)),
        buckets(reinterpret_cast<const uint32_t*>(filter + filter_words)),
        chain(buckets + bucket_count) {}

  uint32_t first(uint32_t hash) const {
    uint64_t word = filter[hash / 64 % filter_words];
    uint64_t bits = uint64_t{1} << hash % 64 | uint64_t{1} << (hash >> filter_shift) % 64;
    return (word & bits) == bits ? buckets[hash % bucket_count] : 0;
  }
  bool ends(uint32_t symbol) const { return (chain[symbol - first_symbol] & 1) != 0; }
  bool has(uint32_t symbol, uint32_t hash) const { return ((chain[symbol - first_symbol] ^ hash) & ~uint32_t{1}) == 0; }

  uint32_t bucket_count, first_symbol, filter_words, filter_shift;
  const uint64_t* filter;
  const uint32_t* buckets;
  const uint32_t* chain;
};

}  // namespace

LoadedObject::LoadedObject(const link_map* map) : map_(map) {
  if (map == nullptr) return;
  base_ = map->l_addr;
  uintptr_t relocations = 0, late = 0, relocation_bytes = 0, late_bytes = 0;
  for (const Elf64_Dyn* entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
    switch (entry->d_tag) {
      case DT_SYMTAB: symbols_ = reinterpret_cast<const Elf64_Sym*>(pointer(*entry)); break;
      case DT_STRTAB: names_ = reinterpret_cast<const char*>(pointer(*entry)); break;
      case DT_GNU_HASH: gnu_hash_ = reinterpret_cast<const uint32_t*>(pointer(*entry)); break;
      case DT_HASH: hash_ = reinterpret_cast<const uint32_t*>(pointer(*entry)); break;
      case DT_RELA: relocations = pointer(*entry); break;
      case DT_RELASZ: relocation_bytes = entry->d_un.d_val; break;
      case DT_JMPREL: late = pointer(*entry); break;
      case DT_PLTRELSZ: late_bytes = entry->d_un.d_val; break;
      default: break;
    }
  }
  // Linkers place relocations behind the symbols, and code behind both.
  tables_end_ = relocations + relocation_bytes;
  if (late + late_bytes > tables_end_) tables_end_ = late + late_bytes;
  if (names_ == nullptr) symbols_ = nullptr;
}

// glibc relocates the pointers of a dynamic section where they stand, but not those of one that is read-only (the vDSO's).
uintptr_t LoadedObject::pointer(const Elf64_Dyn& entry) const {
  return entry.d_un.d_ptr < base_ ? base_ + entry.d_un.d_ptr : entry.d_un.d_ptr;
}

bool LoadedObject::is_this() const { return exists() && _DYNAMIC != nullptr && map_->l_ld == _DYNAMIC; }

LoadedObject LoadedObject::next() const { return LoadedObject(map_->l_next); }

const Elf64_Sym* LoadedObject::check(uint32_t index, const char* name) const {
  const Elf64_Sym& symbol = symbols_[index];
  bool is_defined = symbol.st_shndx != SHN_UNDEF && symbol.st_value != 0 && ELF64_ST_TYPE(symbol.st_info) == STT_FUNC;
  return is_defined && text_equal(names_ + symbol.st_name, name) ? &symbol : nullptr;
}

const Elf64_Sym* LoadedObject::function(const char* name, const Elf64_Sym* behind) const {
  if (symbols_ == nullptr) return nullptr;
  auto is_behind = [behind](const Elf64_Sym* symbol) { return behind == nullptr || symbol > behind; };
  if (gnu_hash_ != nullptr) {
    GnuHash table(gnu_hash_);
    uint32_t hash = gnu_hash_of(name);
    for (uint32_t i = table.first(hash); i >= table.first_symbol && i != 0; i++) {
      const Elf64_Sym* symbol = table.has(i, hash) ? check(i, name) : nullptr;
      if (symbol != nullptr && is_behind(symbol)) return symbol;
      if (table.ends(i)) return nullptr;
    }
    return nullptr;
  }
  if (hash_ == nullptr) return nullptr;
  const uint32_t *buckets = hash_ + 2, *chain = buckets + hash_[0];
  const Elf64_Sym* lowest = nullptr;  // these chains are in no order
  for (uint32_t i = buckets[system_v_hash_of(name) % hash_[0]]; i != 0; i = chain[i]) {
    const Elf64_Sym* symbol = check(i, name);
    if (symbol != nullptr && is_behind(symbol) && (lowest == nullptr || symbol < lowest)) lowest = symbol;
  }
  return lowest;
}

uintptr_t LoadedObject::address_of(const char* name) const {
  const Elf64_Sym* found = function(name);
  return found != nullptr ? address_of(found) : 0;
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
  // Pages with code as well would lose the right to be executed, and a hardened system may refuse to give that back.
  if (high > tables_end_) return false;
  long start = static_cast<long>(low), bytes = static_cast<long>(high - low);
  if (sys_failed(sys(SYS_mprotect, start, bytes, PROT_READ | PROT_WRITE))) return false;
  for (size_t i = 0; i < count; i++) {
    // Other threads may be looking it up: they find one or the other.
    Elf64_Addr* value = const_cast<Elf64_Addr*>(&redirections[i].function->st_value);
    std::atomic_ref<Elf64_Addr>(*value).store(redirections[i].target - base_, std::memory_order_release);
  }
  sys(SYS_mprotect, start, bytes, PROT_READ);
  return true;
}

LoadedObject first_loaded_object() {
  if (&_r_debug == nullptr) return {};
  auto list = reinterpret_cast<const NextList*>(&_r_debug);
  for (;;) {
    for (const link_map* map = list->base.r_map; map != nullptr; map = map->l_next) {
      if (LoadedObject(map).is_this()) return LoadedObject(list->base.r_map);
    }
    if (list->base.r_version < 2 || list->next == nullptr) return LoadedObject(_r_debug.r_map);
    list = list->next;
  }
}

}  // namespace seemalloc::os
