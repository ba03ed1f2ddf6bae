#include "core/profile/code/frame_index.h"

#include <elf.h>
#include <fcntl.h>

#include <algorithm>

#include "core/base/units.h"
#include "core/os/kernel/files.h"
#include "core/os/kernel/memory.h"
#include "core/profile/code/dwarf_cursor.h"
#include "core/profile/code/eh_frame.h"

namespace seemalloc::profile {

namespace {

class File {
 public:
  explicit File(const char* path) : fd_(os::open_file(path, O_RDONLY)) {}
  ~File() {
    if (fd_ >= 0) os::close_file(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  template <typename T>
  bool read(uint64_t offset, T* out) const {
    return fd_ >= 0 && os::read_at(fd_, out, sizeof(T), offset) == static_cast<long>(sizeof(T));
  }

 private:
  int fd_;
};

struct Section {
  uintptr_t start = 0, end = 0;
};

// Translates [address, address + bytes) of the file to its location in memory. Returns false unless
// all of it is in one loaded segment, which has no gaps.
bool file_range_in_memory(const File& file, const Elf64_Ehdr& header, uintptr_t start,
                          uint64_t address, uint64_t bytes, Section* out) {
  uintptr_t bias = 0;
  bool known = false;
  for (unsigned i = 0; i < header.e_phnum; i++) {
    Elf64_Phdr part;
    if (!file.read(header.e_phoff + i * sizeof(part), &part)) return false;
    if (part.p_type != PT_LOAD) continue;
    if (!known) bias = start - part.p_vaddr;
    known = true;
    if (address < part.p_vaddr || address - part.p_vaddr >= part.p_filesz ||
        bytes > part.p_filesz - (address - part.p_vaddr))
      continue;
    *out = Section{bias + address, bias + address + bytes};
    return true;
  }
  return false;
}

SEEMALLOC_NOINLINE bool find_eh_frame(const Module& program, Section* out) {
  constexpr char kName[] = ".eh_frame";
  File file("/proc/self/exe");
  Elf64_Ehdr header;
  Elf64_Shdr names, section;
  // The file may be another program: the dynamic loader, if that was run explicitly.
  if (!file.read(0, &header) ||
      __builtin_memcmp(&header, reinterpret_cast<const void*>(program.start), sizeof(header)) != 0)
    return false;
  if (header.e_shentsize != sizeof(section)) return false;
  if (!file.read(header.e_shoff + header.e_shstrndx * sizeof(section), &names)) return false;
  for (unsigned i = 0; i < header.e_shnum; i++) {
    char name[sizeof(kName)];
    if (!file.read(header.e_shoff + i * sizeof(section), &section)) return false;
    if ((section.sh_flags & SHF_ALLOC) == 0 || section.sh_size == 0) continue;
    if (!file.read(names.sh_offset + section.sh_name, &name) ||
        __builtin_memcmp(name, kName, sizeof(kName)) != 0)
      continue;
    // A damaged file may place its segments anywhere.
    return file_range_in_memory(file, header, program.start, section.sh_addr, section.sh_size,
                                out) &&
           out->start >= program.start && out->start <= out->end && out->end <= program.end;
  }
  return false;
}

// Calls f(function, description) for each function, both relative to the module's start. Returns
// false at an invalid entry.
template <typename Visit>
bool for_each_function(const Module& program, const Section& section, Visit f) {
  for (uintptr_t at = section.start; at < section.end;) {
    DwarfCursor cursor(at, section.end, true);
    uint64_t length = cursor.fixed(4);
    if (length == 0) return cursor.ok();
    if (length == 0xFFFFFFFF) length = cursor.fixed(8);
    if (!cursor.ok() || length > section.end - cursor.address()) return false;
    uintptr_t next = cursor.address() + length;
    bool is_common = cursor.fixed(4) == 0;
    Fde function;
    // If the linker has dropped the code, its start is zero.
    if (!is_common && read_description(program, at, true, &function) &&
        function.start >= program.start && function.start < program.end) {
      f(static_cast<uint32_t>(function.start - program.start),
        static_cast<uint32_t>(at - program.start));
    }
    at = next;
  }
  return true;
}

}  // namespace

uintptr_t FrameIndex::find(const Module& program, uintptr_t pc) const {
  auto wanted = static_cast<uint32_t>(pc - program.start);
  const Entry* end = entries + count;
  const Entry* behind = std::upper_bound(
      entries, end, wanted, [](uint32_t at, const Entry& entry) { return at < entry.function; });
  return behind == entries ? 0 : program.start + behind[-1].description;
}

const FrameIndex* make_frame_index(const Module& main_program) {
  Module program = main_program;
  program.tables_start = program.start;
  program.tables_end = program.end;
  Section section;
  if (program.end - program.start > UINT32_MAX || !find_eh_frame(program, &section)) return nullptr;
  size_t count = 0;
  for_each_function(program, section, [&](uint32_t, uint32_t) { count++; });
  if (count == 0) return nullptr;
  size_t bytes = round_up(sizeof(FrameIndex) + count * sizeof(FrameIndex::Entry), os::page_bytes());
  auto* index = static_cast<FrameIndex*>(os::map(bytes, os::Reason::kRecords));
  if (index == nullptr) return nullptr;
  for_each_function(program, section, [&](uint32_t function, uint32_t description) {
    if (index->count < count) index->entries[index->count++] = {function, description};
  });
  // Heapsort, because std::sort recurses, up to 40 levels deep for a large program.
  auto before = [](const FrameIndex::Entry& a, const FrameIndex::Entry& b) {
    return a.function < b.function;
  };
  std::make_heap(index->entries, index->entries + index->count, before);
  std::sort_heap(index->entries, index->entries + index->count, before);
  return index;
}

}  // namespace seemalloc::profile
