#include "core/profile/code/build_id.h"

#include <elf.h>
#include <link.h>

#include "core/base/units.h"
#include "core/os/kernel/memory.h"
#include "core/os/kernel/read_memory.h"
#include "core/os/runtime/scratch.h"

namespace seemalloc::profile {

namespace {

using Header = ElfW(Ehdr);
using Segment = ElfW(Phdr);
using Note = ElfW(Nhdr);

constexpr size_t kMaxSegments = 64;
constexpr size_t kMaxNoteBytes = 1024;

bool read_at(uintptr_t from, void* to, size_t bytes) {
  return os::read_memory(reinterpret_cast<const void*>(from), to, bytes);
}

bool is_elf(const Header& header) {
  const unsigned char* ident = header.e_ident;
  return ident[EI_MAG0] == ELFMAG0 && ident[EI_MAG1] == ELFMAG1 && ident[EI_MAG2] == ELFMAG2 &&
         ident[EI_MAG3] == ELFMAG3 &&
         ident[EI_CLASS] == (sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32) &&
         header.e_phentsize == sizeof(Segment);
}

// Searches one segment of notes for the build id.
bool find_in_notes(const char* comments, size_t bytes, size_t alignment, BuildId* out) {
  size_t at = 0;
  while (at + sizeof(Note) <= bytes) {
    Note note;
    __builtin_memcpy(&note, comments + at, sizeof(note));
    size_t name = at + sizeof(Note);
    if (note.n_namesz > bytes || note.n_descsz > bytes) return false;
    size_t description = round_up(name + note.n_namesz, alignment);
    if (description + note.n_descsz > bytes) return false;
    bool is_gnu = note.n_namesz == 4 && __builtin_memcmp(comments + name, "GNU", 4) == 0;
    if (is_gnu && note.n_type == NT_GNU_BUILD_ID && note.n_descsz <= BuildId::kMaxBytes) {
      __builtin_memcpy(out->bytes, comments + description, note.n_descsz);
      out->size = note.n_descsz;
      return true;
    }
    at = round_up(description + note.n_descsz, alignment);
  }
  return false;
}

}  // namespace

BuildId read_build_id(uintptr_t start) {
  BuildId id{};
  Header header;
  if (!read_at(start, &header, sizeof(header)) || !is_elf(header)) return id;
  struct Table {
    Segment segments[kMaxSegments];
  };
  os::Scratch<Table> table;
  if (!table) return id;
  Segment* segments = table->segments;
  size_t count = header.e_phnum < kMaxSegments ? header.e_phnum : kMaxSegments;
  if (!read_at(start + header.e_phoff, segments, count * sizeof(Segment))) return id;
  // Address v of the file is mapped at bias + v; bias follows from the segment that contains offset
  // 0.
  uintptr_t bias = start;
  for (size_t i = 0; i < count; i++) {
    if (segments[i].p_type != PT_LOAD || segments[i].p_offset >= os::page_bytes()) continue;
    bias = start - (segments[i].p_vaddr - segments[i].p_offset);
    break;
  }
  return build_id_of_module(bias, segments, count);
}

BuildId build_id_of_module(uintptr_t bias, const Segment* segments, size_t count) {
  BuildId id{};
  struct CommentWriter {
    alignas(8) char at[kMaxNoteBytes];
  };
  os::Scratch<CommentWriter> buffer;
  if (!buffer) return id;
  char* comments = buffer->at;
  for (size_t i = 0; i < count; i++) {
    if (segments[i].p_type != PT_NOTE) continue;
    size_t bytes =
        segments[i].p_memsz < sizeof(CommentWriter) ? segments[i].p_memsz : sizeof(CommentWriter);
    if (!read_at(bias + segments[i].p_vaddr, comments, bytes)) continue;
    if (find_in_notes(comments, bytes, segments[i].p_align == 8 ? 8 : 4, &id)) return id;
  }
  return id;
}

}  // namespace seemalloc::profile
