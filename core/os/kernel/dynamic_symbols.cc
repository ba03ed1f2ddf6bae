#include "core/os/kernel/dynamic_symbols.h"

#include "core/base/text.h"

namespace seemalloc::os {

namespace {

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

// The parts of DT_GNU_HASH: a Bloom filter, buckets of symbols, and a chain of their hashes, whose
// last hash has its lowest bit set.
struct GnuHash {
  explicit GnuHash(const uint32_t* table)
      : bucket_count(table[0]),
        first_symbol(table[1]),
        filter_words(table[2]),
        filter_shift(table[3]),
        filter(reinterpret_cast<const uint64_t*>(table + 4)),
        buckets(reinterpret_cast<const uint32_t*>(filter + filter_words)),
        chain(buckets + bucket_count) {}

  bool is_empty() const { return bucket_count == 0 || filter_words == 0; }
  // Requires: !is_empty().
  uint32_t first(uint32_t hash) const {
    uint64_t word = filter[hash / 64 % filter_words];
    uint64_t bits = uint64_t{1} << hash % 64 | uint64_t{1} << (hash >> filter_shift) % 64;
    return (word & bits) == bits ? buckets[hash % bucket_count] : 0;
  }
  bool ends(uint32_t symbol) const { return (chain[symbol - first_symbol] & 1) != 0; }
  bool has(uint32_t symbol, uint32_t hash) const {
    return ((chain[symbol - first_symbol] ^ hash) & ~uint32_t{1}) == 0;
  }

  uint32_t bucket_count, first_symbol, filter_words, filter_shift;
  const uint64_t* filter;
  const uint32_t* buckets;
  const uint32_t* chain;
};

}  // namespace

DynamicSymbols::DynamicSymbols(const Elf64_Dyn* dynamic, uintptr_t base) : base_(base) {
  for (const Elf64_Dyn* entry = dynamic; entry->d_tag != DT_NULL; entry++) {
    switch (entry->d_tag) {
      case DT_SYMTAB:
        symbols_ = reinterpret_cast<const Elf64_Sym*>(address_in(*entry, base));
        break;
      case DT_STRTAB: names_ = reinterpret_cast<const char*>(address_in(*entry, base)); break;
      case DT_GNU_HASH:
        gnu_hash_ = reinterpret_cast<const uint32_t*>(address_in(*entry, base));
        break;
      case DT_HASH: hash_ = reinterpret_cast<const uint32_t*>(address_in(*entry, base)); break;
      default: break;
    }
  }
}

const Elf64_Sym* DynamicSymbols::check(uint32_t index, const char* name, bool is_variable) const {
  const Elf64_Sym& symbol = symbols_[index];
  unsigned type = ELF64_ST_TYPE(symbol.st_info);
  bool is_kind = is_variable ? type == STT_OBJECT : type == STT_FUNC || type == STT_NOTYPE;
  bool is_defined = symbol.st_shndx != SHN_UNDEF && symbol.st_value != 0;
  return is_kind && is_defined && text_equal(names_ + symbol.st_name, name) ? &symbol : nullptr;
}

const Elf64_Sym* DynamicSymbols::find(const char* name, const Elf64_Sym* behind,
                                      bool is_variable) const {
  if (symbols_ == nullptr || names_ == nullptr) return nullptr;
  auto is_behind = [behind](const Elf64_Sym* symbol) {
    return behind == nullptr || symbol > behind;
  };
  if (gnu_hash_ != nullptr) {
    GnuHash table(gnu_hash_);
    if (table.is_empty()) return nullptr;
    uint32_t hash = gnu_hash_of(name);
    for (uint32_t i = table.first(hash); i >= table.first_symbol && i != 0; i++) {
      const Elf64_Sym* symbol = table.has(i, hash) ? check(i, name, is_variable) : nullptr;
      if (symbol != nullptr && is_behind(symbol)) return symbol;
      if (table.ends(i)) return nullptr;
    }
    return nullptr;
  }
  if (hash_ == nullptr || hash_[0] == 0) return nullptr;
  uint32_t bucket_count = hash_[0];
  const uint32_t *buckets = hash_ + 2, *chain = buckets + bucket_count;
  const Elf64_Sym* lowest = nullptr;  // these chains are not sorted
  for (uint32_t i = buckets[system_v_hash_of(name) % bucket_count]; i != 0; i = chain[i]) {
    const Elf64_Sym* symbol = check(i, name, is_variable);
    if (symbol != nullptr && is_behind(symbol) && (lowest == nullptr || symbol < lowest))
      lowest = symbol;
  }
  return lowest;
}

uintptr_t DynamicSymbols::address_of(const char* name) const {
  const Elf64_Sym* found = function(name);
  return found != nullptr ? address_of(found) : 0;
}

uintptr_t DynamicSymbols::address_of_variable(const char* name) const {
  const Elf64_Sym* found = find(name, nullptr, true);
  return found != nullptr ? address_of(found) : 0;
}

}  // namespace seemalloc::os
