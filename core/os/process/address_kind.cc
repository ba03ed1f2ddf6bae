#include "core/os/process/address_kind.h"

#include <elf.h>
#include <linux/futex.h>
#include <string.h>
#include <time.h>

#include "core/base/units.h"
#include "core/os/kernel/memory.h"
#include "core/os/kernel/syscall.h"
#include "core/os/process/lines.h"

namespace seemalloc::os {

namespace {

// A line of /proc/PID/maps: "start-end rwxp offset device inode   path".
struct Mapping {
  uint64_t start = 0, end = 0;
  Slice rights;
  Slice name;  // of a file, or given by the kernel, as [stack]

  bool may(char right) const {
    for (size_t i = 0; i < rights.length; i++) {
      if (rights.at[i] == right) return true;
    }
    return false;
  }
  bool has(uint64_t address) const { return address >= start && address < end; }
  bool is_file() const { return name.length != 0 && name.at[0] == '/'; }
};

bool parse_hex(Slice text, uint64_t* value) {
  *value = 0;
  for (size_t i = 0; i < text.length; i++) {
    char c = text.at[i];
    bool is_digit = c >= '0' && c <= '9';
    if (!is_digit && (c < 'a' || c > 'f')) return false;
    *value = *value << 4 | static_cast<uint64_t>(is_digit ? c - '0' : c - 'a' + 10);
  }
  return text.length != 0;
}

bool parse_mapping(Slice line, Mapping* mapping) {
  Slice start, end, skipped;
  if (!take_field(&line, '-', &start) || !take_field(&line, ' ', &end) ||
      !take_field(&line, ' ', &mapping->rights))
    return false;
  for (int i = 0; i < 3; i++) take_field(&line, ' ', &skipped);
  while (line.length != 0 && *line.at == ' ') line = Slice{line.at + 1, line.length - 1};
  mapping->name = line;
  return parse_hex(start, &mapping->start) && parse_hex(end, &mapping->end);
}

// The end of the memory of the program or library with its file mapped at `start`, including its
// zero-initialised data, which is not in the file; 0: not a module.
uint64_t end_of_module(uint64_t start) {
  if (!can_read(start)) return 0;
  auto header = reinterpret_cast<const Elf64_Ehdr*>(start);
  size_t table_bytes = header->e_phnum * sizeof(Elf64_Phdr);
  // Only the first page is known to be readable.
  if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || table_bytes > page_bytes() ||
      header->e_phoff > page_bytes() - table_bytes)
    return 0;
  uint64_t base = 0, end = 0;
  bool any = false;
  for (unsigned i = 0; i < header->e_phnum; i++) {
    Elf64_Phdr segment;  // copied: the table need not be aligned
    __builtin_memcpy(&segment,
                     reinterpret_cast<const void*>(start + header->e_phoff + i * sizeof(segment)),
                     sizeof(segment));
    if (segment.p_type != PT_LOAD) continue;
    if (!any) base = start - (segment.p_vaddr - segment.p_offset);
    any = true;
    end = base + segment.p_vaddr + segment.p_memsz;
  }
  return end;
}

// The consecutive mappings of a program or library: constants, code, constants, data, and
// zero-initialised data, which has no name.
class Module {
 public:
  void observe(const Mapping& mapping) {
    if (!mapping.is_file()) return;
    if (name_.size() != mapping.name.length || !mapping.name.equals(name_.c_str())) {
      name_.clear();
      name_.append(mapping.name.at, mapping.name.length);
      start_ = mapping.may('r') ? mapping.start : 0;
      has_code_ = false;
    }
    has_code_ |= mapping.may('x');
  }
  bool has_code() const { return has_code_; }
  // Requires: `address` is in a mapping behind those of the module's file.
  bool has(uint64_t address) const {
    return has_code_ && start_ != 0 && address < end_of_module(start_);
  }
  const char* name() const { return name_.c_str(); }

 private:
  FixedText<256> name_;
  uint64_t start_ = 0;
  bool has_code_ = false;
};

AddressKind classify(const Mapping& mapping, const Module& module, uint64_t address) {
  if (mapping.has(reinterpret_cast<uintptr_t>(__builtin_frame_address(0)))) {
    if (mapping.name.equals("[stack]")) return AddressKind::kOwnStack;
    // The C library places thread-local data above the stack, around the thread pointer. Memory
    // that was mapped just above may be merged into the same mapping; below the stack there is a
    // guard page.
    constexpr uintptr_t kAboveThreadPointerBytes = 16 * KiB;
    uintptr_t end =
        reinterpret_cast<uintptr_t>(__builtin_thread_pointer()) + kAboveThreadPointerBytes;
    if (address < end) return AddressKind::kOwnStackOrData;
  }
  if (!mapping.may('r')) return AddressKind::kNoAccess;
  if (mapping.name.equals("[stack]")) return AddressKind::kMainStack;
  if (mapping.name.equals("[heap]")) return AddressKind::kCHeap;
  if (mapping.is_file()) {
    if (mapping.may('x')) return AddressKind::kCode;
    if (!module.has_code()) return AddressKind::kFile;
    return mapping.may('w') ? AddressKind::kStaticData : AddressKind::kConstantData;
  }
  if (module.has(address)) return AddressKind::kStaticData;
  constexpr const char kNamed[] = "[anon:";
  bool is_named = mapping.name.length > sizeof(kNamed) &&
                  text_equal(mapping.name.at, sizeof(kNamed) - 1, kNamed);
  return mapping.name.length == 0 || is_named ? AddressKind::kAnonymous : AddressKind::kOther;
}

}  // namespace

AddressKind classify_address(uintptr_t address, Text& file) {
  Lines lines("/proc/thread-self/maps");
  Module module;
  bool any = false;
  for (Slice line; lines.next(&line);) {
    Mapping mapping;
    if (!parse_mapping(line, &mapping)) continue;
    any = true;
    if (mapping.start > address) return AddressKind::kUnmapped;
    module.observe(mapping);
    if (!mapping.has(address)) continue;
    AddressKind place = classify(mapping, module, address);
    if (place == AddressKind::kStaticData) {
      file << module.name();
    } else {
      file.append(mapping.name.at, mapping.name.length);
    }
    return place;
  }
  return any ? AddressKind::kUnmapped : AddressKind::kUnknown;
}

void print_address_kind(AddressKind place, const char* file, Text& out) {
  switch (place) {
    case AddressKind::kUnknown: return;
    case AddressKind::kUnmapped: out << "nothing is mapped there"; return;
    case AddressKind::kNoAccess: out << "unreadable memory"; break;
    case AddressKind::kOwnStack: out << "this thread's stack"; return;
    case AddressKind::kOwnStackOrData: out << "this thread's stack or thread-local data"; return;
    case AddressKind::kMainStack: out << "the main thread's stack"; return;
    case AddressKind::kCHeap: out << "the C library's heap, but not an allocated block"; return;
    case AddressKind::kCode: out << "code"; break;
    case AddressKind::kStaticData: out << "static data"; break;
    case AddressKind::kConstantData: out << "constant data"; break;
    case AddressKind::kFile: out << "mapped file"; break;
    case AddressKind::kAnonymous:
      out << "anonymous memory (mmap, another thread's stack, thread-local data)";
      return;
    case AddressKind::kOther: out << "memory"; break;
  }
  if (*file != 0) out << " of " << file;
}

bool can_read(uintptr_t address) {
  // The futex call reads the word to compare it with a value. It would wait if they are equal, but
  // with a timeout of zero.
  // -EINTR, -EAGAIN, -ETIMEDOUT.
  constexpr long kInterrupted = -4, kDifferent = -11, kTimeOut = -110;
  timespec at_once{};
  long result =
      sys(SYS_futex, static_cast<long>(address), FUTEX_WAIT_PRIVATE, 0, as_long(&at_once));
  return result == 0 || result == kInterrupted || result == kDifferent || result == kTimeOut;
}

}  // namespace seemalloc::os
