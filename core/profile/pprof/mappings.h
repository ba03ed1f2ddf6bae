// Mappings: the executable mappings of this process as a profile lists them: file, range, offset,
// build id. Includes unloaded modules, at the addresses that stacks have for them now
// (unloaded_modules.h).
//
// Read from /proc/self/maps with plain system calls when a profile is written: no dynamic linker,
// no malloc. Without /proc the table is empty. Threads: one per object; the process may map and
// unmap meanwhile.
// Invariants: 1. the loaded mappings are sorted by address and do not overlap; the same holds for
// the unloaded ones;
// 2. ids are 1 … size(), and the main binary has id 1.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/profile/code/build_id.h"
#include "core/profile/sampling/grow_array.h"

namespace seemalloc::profile {

struct Mapping {
  uint64_t id;
  uintptr_t start, limit;
  uint64_t file_offset;
  size_t path_at, path_bytes;  // in the text from which the table was made; without " (deleted)"
  uintptr_t file_start;        // address at which offset 0 of the file is mapped; 0 if it is not
  const BuildId* build_id;     // of an unloaded one; null: must be read from memory
};

class Mappings {
 public:
  // Reads the table. Returns false if memory is refused.
  bool read();
  // Makes the table from text in the format of /proc/self/maps. `entry` is an address inside the
  // main binary.
  bool parse(const char* text, size_t bytes, uintptr_t entry);

  // Adds the unloaded mappings that have not been added yet. Requires: read() or parse() was
  // called. Returns false if memory is refused.
  bool add_unloaded();

  size_t size() const { return mappings_.size(); }
  const Mapping& operator[](size_t i) const { return mappings_[i]; }
  const char* path(const Mapping& mapping) const { return text_.data() + mapping.path_at; }
  // Id of the mapping that contains the address; 0 if there is none (an unloaded module, generated
  // code).
  uint64_t id_of(uintptr_t address) const;

 private:
  void take_lines(bool is_end);
  void take_line(size_t at, size_t end);
  void add_line(size_t at, size_t end);
  bool finish(uintptr_t entry);

  GrowArray<char> text_;  // the lines that are kept, then those that have been read
  size_t kept_bytes_ = 0;
  size_t needed_bytes_ = 0;  // the kept lines without the one of file_, if only file_ needs that
  GrowArray<Mapping> mappings_;  // the loaded ones, then the unloaded ones
  size_t loaded_ = 0;
  size_t unloaded_ = 0;  // number of unloaded ones added so far
  Mapping file_ = {};    // the last line that started a file at offset 0
};

}  // namespace seemalloc::profile
