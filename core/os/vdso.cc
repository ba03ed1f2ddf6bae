#include "core/os/vdso.h"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

#include <atomic>

#include "core/base/text.h"
#include "core/os/syscall.h"

namespace seemalloc::os {

namespace {

using ClockFunction = int (*)(clockid_t, timespec*);

#if defined(__x86_64__)
constexpr const char* kClockName = "__vdso_clock_gettime";
#else
constexpr const char* kClockName = "__kernel_clock_gettime";
#endif

struct Tables {
  const ElfW(Sym)* symbols = nullptr;
  const char* names = nullptr;
  const uint32_t* hash = nullptr;      // DT_HASH, which newer kernels may leave out
  const uint32_t* gnu_hash = nullptr;  // DT_GNU_HASH, which older ones do not have
};

// Reads the program headers. False when this is no image that is mapped as a whole.
bool read_tables(uintptr_t image, uintptr_t* bias, Tables* out) {
  const ElfW(Ehdr)* header = reinterpret_cast<const ElfW(Ehdr)*>(image);
  if (__builtin_memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_phentsize != sizeof(ElfW(Phdr))) return false;
  const ElfW(Phdr)* segments = reinterpret_cast<const ElfW(Phdr)*>(image + header->e_phoff);
  const ElfW(Phdr)*loaded = nullptr, *dynamic = nullptr;
  for (unsigned i = 0; i < header->e_phnum; i++) {
    if (segments[i].p_type == PT_LOAD && loaded == nullptr) loaded = &segments[i];
    if (segments[i].p_type == PT_DYNAMIC) dynamic = &segments[i];
  }
  if (loaded == nullptr || dynamic == nullptr) return false;
  *bias = image + loaded->p_offset - loaded->p_vaddr;
  for (const ElfW(Dyn)* entry = reinterpret_cast<const ElfW(Dyn)*>(*bias + dynamic->p_vaddr); entry->d_tag != DT_NULL; entry++) {
    // Not relocated by the kernel. A C library may have done it in place.
    uintptr_t at = entry->d_un.d_ptr < image ? *bias + entry->d_un.d_ptr : entry->d_un.d_ptr;
    if (entry->d_tag == DT_SYMTAB) out->symbols = reinterpret_cast<const ElfW(Sym)*>(at);
    if (entry->d_tag == DT_STRTAB) out->names = reinterpret_cast<const char*>(at);
    if (entry->d_tag == DT_HASH) out->hash = reinterpret_cast<const uint32_t*>(at);
    if (entry->d_tag == DT_GNU_HASH) out->gnu_hash = reinterpret_cast<const uint32_t*>(at);
  }
  return out->symbols != nullptr && out->names != nullptr && (out->hash != nullptr || out->gnu_hash != nullptr);
}

// The GNU hash table does not say how many symbols there are: behind the last chain there are none.
uint32_t count_by_gnu_hash(const uint32_t* table) {
  uint32_t bucket_count = table[0], first_symbol = table[1], filter_words = table[2];
  const uint32_t* buckets = table + 4 + filter_words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
  const uint32_t* chains = buckets + bucket_count;
  uint32_t last = 0;
  for (uint32_t i = 0; i < bucket_count; i++) last = buckets[i] > last ? buckets[i] : last;
  if (last < first_symbol) return first_symbol;
  while ((chains[last - first_symbol] & 1) == 0) last++;
  return last + 1;
}

// Null until it has been looked for; the system call where there is none.
std::atomic<ClockFunction> clock_function{nullptr};

int clock_by_system_call(clockid_t clock, timespec* out) {
  return static_cast<int>(sys(SYS_clock_gettime, clock, as_long(out)));
}

SEEMALLOC_COLD ClockFunction find_clock_function() {
  uintptr_t image = getauxval(AT_SYSINFO_EHDR);
  uintptr_t found = image != 0 ? find_in_vdso(image, kClockName) : 0;
  ClockFunction function = found != 0 ? reinterpret_cast<ClockFunction>(found) : clock_by_system_call;
  clock_function.store(function, std::memory_order_relaxed);
  return function;
}

}  // namespace

// Without regard to the symbols' versions: the kernel has had one of each name, ever.
uintptr_t find_in_vdso(uintptr_t image, const char* name) {
  uintptr_t bias = 0;
  Tables tables;
  if (!read_tables(image, &bias, &tables)) return 0;
  uint32_t count = tables.hash != nullptr ? tables.hash[1] : count_by_gnu_hash(tables.gnu_hash);
  for (uint32_t i = 0; i < count; i++) {
    const ElfW(Sym)& symbol = tables.symbols[i];
    bool is_function = ELF64_ST_TYPE(symbol.st_info) == STT_FUNC || ELF64_ST_TYPE(symbol.st_info) == STT_NOTYPE;
    if (!is_function || symbol.st_shndx == SHN_UNDEF || symbol.st_value == 0) continue;
    if (text_equal(tables.names + symbol.st_name, name)) return bias + symbol.st_value;
  }
  return 0;
}

void read_clock(clockid_t clock, timespec* out) {
  ClockFunction function = clock_function.load(std::memory_order_relaxed);
  if (SEEMALLOC_UNLIKELY(function == nullptr)) function = find_clock_function();
  if (SEEMALLOC_UNLIKELY(function(clock, out) != 0)) clock_by_system_call(clock, out);
}

}  // namespace seemalloc::os
