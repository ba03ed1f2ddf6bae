// The executable mappings of this process, as a profile names them: file, range, offset, build id. With those that are gone, at
// the addresses that stacks have for them now (unloaded.h).
//
// Read from /proc/self/maps with plain system calls when a profile is written: no dynamic linker, no malloc.
// Without /proc the table is empty. Threads: one per object; the process may map and unmap meanwhile.
// Invariants: 1. those that are loaded are sorted by address and do not overlap, nor do those that are gone; 2. ids are 1 … size(), the main binary is 1.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/profile/build_id.h"
#include "core/profile/grow_array.h"

namespace seemalloc::profile {

struct Mapping {
  uint64_t id;
  uintptr_t start, limit;
  uint64_t file_offset;
  size_t path_at, path_bytes;  // in the text the table was made from; without " (deleted)"
  uintptr_t file_start;  // where offset 0 of the file is mapped; 0 when it is not
  const BuildId* build_id;  // of one that is gone; null: to be read from memory
};

class Mappings {
 public:
  // Reads the table. False when memory is refused.
  bool read();
  // Makes the table from text in the format of /proc/self/maps. `entry` is an address inside the main binary.
  bool parse(const char* text, size_t bytes, uintptr_t entry);

  // Those that are gone, and have not been added yet. Requires: read() or parse() was called. False when memory is refused.
  bool add_unloaded();

  size_t size() const { return mappings_.size(); }
  const Mapping& operator[](size_t i) const { return mappings_[i]; }
  const char* path(const Mapping& mapping) const { return text_.data() + mapping.path_at; }
  // Id of the mapping that holds the address; 0 when none does (a module that is gone, generated code).
  uint64_t id_of(uintptr_t address) const;

 private:
  bool parse_text(uintptr_t entry);
  void add_line(size_t at, size_t end);

  GrowArray<char> text_;
  GrowArray<Mapping> mappings_;  // those that are loaded, then those that are gone
  size_t loaded_ = 0;
  size_t unloaded_ = 0;  // that have been added
  Mapping file_ = {};  // the last line that began a file at offset 0
};

}  // namespace seemalloc::profile
