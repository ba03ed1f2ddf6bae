#include "core/profile/code/eh_frame.h"

#include "core/os/runtime/scratch.h"
#include "core/profile/code/cfa_program.h"
#include "core/profile/code/dwarf_cursor.h"
#include "core/profile/code/frame_index.h"

namespace seemalloc::profile {
namespace {

// The only form of the header's table that linkers write: sorted pairs of 32-bit offsets from the
// header.
constexpr uint8_t kTableEncoding = 0x3B, kCountEncoding = 0x03;
struct TableEntry {
  int32_t function;
  int32_t description;
};
constexpr size_t kBlockEntries = 16;

// Finds the last of `count` entries whose function starts at or before `wanted`, or else the first.
// Copies all entries at once.
SEEMALLOC_NOINLINE bool last_of_block(uintptr_t at, uint64_t count, int64_t wanted,
                                      TableEntry* entry) {
  TableEntry block[kBlockEntries];
  if (!copy_from(at, block, count * sizeof(TableEntry), false)) return false;
  while (count > 1 && block[count - 1].function > wanted) count--;
  *entry = block[count - 1];
  return true;
}

// Returns the address of the entry of the last function that starts at or before `pc`; 0 if there
// is none.
SEEMALLOC_NOINLINE uintptr_t search_header(const Module& module, uintptr_t pc, bool trusted) {
  uintptr_t header = module.eh_frame_header;
  if (header < module.tables_start || header >= module.tables_end) return 0;
  DwarfCursor cursor(header, module.tables_end, trusted);
  if (cursor.u8() != 1) return 0;  // version
  uint8_t frame_encoding = cursor.u8(), count_encoding = cursor.u8(), table_encoding = cursor.u8();
  cursor.pointer(frame_encoding, header);
  if (count_encoding != kCountEncoding || table_encoding != kTableEncoding) return 0;
  uint64_t count = cursor.fixed(4);
  uintptr_t table = cursor.address();
  if (!cursor.ok() || count == 0 || count > (module.tables_end - table) / sizeof(TableEntry))
    return 0;

  auto wanted = static_cast<int64_t>(pc - header);
  // The last entry with function ≤ wanted is in [low, high), or there is none.
  uint64_t low = 0, high = count;
  TableEntry entry;
  // An untrusted search ends with a block that is copied by one system call, which saves four
  // others.
  while (high - low > (trusted ? 1 : kBlockEntries)) {
    uint64_t middle = low + (high - low) / 2;
    if (!copy_from(table + middle * sizeof(entry), &entry, sizeof(entry), trusted)) return 0;
    (entry.function <= wanted ? low : high) = middle;
  }
  if (trusted) {
    copy_from(table + low * sizeof(entry), &entry, sizeof(entry), true);
  } else {
    if (!last_of_block(table + low * sizeof(entry), high - low, wanted, &entry)) return 0;
  }
  if (entry.function > wanted) return 0;
  return header + static_cast<uintptr_t>(static_cast<intptr_t>(entry.description));
}

// Reads the length of an entry and narrows the cursor to it. Returns false for the terminator and
// for invalid lengths.
bool read_entry_length(const Module& module, uintptr_t address, DwarfCursor* cursor) {
  if (address < module.tables_start || address >= module.tables_end) return false;
  cursor->reset(address, module.tables_end);
  uint64_t length = cursor->fixed(4);
  if (length == 0xFFFFFFFF) length = cursor->fixed(8);
  if (!cursor->ok() || length == 0 || length > module.tables_end - cursor->address()) return false;
  cursor->set_length(length);
  return true;
}

// Reads the augmentation data of a CIE, letter by letter. The length after `z` allows unknown
// letters to be skipped.
bool read_augmentation(DwarfCursor& cursor, const char* letters, const Module& module,
                       Cie* common) {
  if (letters[0] == 0) return true;
  if (letters[0] != 'z') return false;
  uint64_t bytes = cursor.uleb();
  uintptr_t after = cursor.address() + bytes;
  for (const char* letter = letters + 1; *letter != 0 && cursor.ok(); letter++) {
    switch (*letter) {
      case 'R': common->pointer_encoding = cursor.u8(); break;
      case 'P': {
        // Only its width matters: the pointer is never followed (it points through a relocated
        // word).
        uint8_t encoding = cursor.u8();
        cursor.pointer(encoding & 0x7F, module.eh_frame_header);
        break;
      }
      case 'L': cursor.u8(); break;
      case 'S': common->signal_frame = true; break;
      // aarch64: return addresses are signed with the B key; the signature is stripped anyway.
      case 'B': break;
      default: cursor.seek(after, cursor.address()); return cursor.ok() || after == cursor.end();
    }
  }
  common->has_augmentation_data = true;
  if (after != cursor.end()) cursor.seek(after, cursor.address());
  return cursor.ok();
}

bool read_cie(const Module& module, uintptr_t address, bool trusted, Cie* common) {
  DwarfCursor cursor(0, 0, trusted);
  if (!read_entry_length(module, address, &cursor)) return false;
  if (cursor.fixed(4) != 0) return false;  // a CIE has id 0
  uint8_t version = cursor.u8();
  if (version != 1 && version != 3 && version != 4) return false;
  char letters[8];
  size_t length = 0;
  while ((letters[length] = static_cast<char>(cursor.u8())) != 0) {
    if (++length == sizeof(letters)) return false;
  }
  if (version == 4) cursor.skip(2);  // address and segment size
  common->code_alignment = cursor.uleb();
  common->data_alignment = cursor.sleb();
  uint64_t return_register = version == 1 ? cursor.u8() : cursor.uleb();
  if (return_register >= kRegisterCount) return false;
  common->return_register = static_cast<uint8_t>(return_register);
  if (!read_augmentation(cursor, letters, module, common)) return false;
  common->program_start = cursor.address();
  common->program_end = cursor.end();
  return cursor.ok();
}

}  // namespace

namespace {
bool read_both(const Module& module, uintptr_t address, bool trusted, Cie* common, Fde* out) {
  DwarfCursor cursor(0, 0, trusted);
  if (!read_entry_length(module, address, &cursor)) return false;
  uintptr_t id_address = cursor.address();
  uint64_t common_distance = cursor.fixed(4);
  if (common_distance == 0 || !read_cie(module, id_address - common_distance, trusted, common))
    return false;
  out->start = cursor.pointer(common->pointer_encoding, module.eh_frame_header);
  out->bytes = cursor.pointer(common->pointer_encoding & 0x0F, 0);
  if (common->has_augmentation_data) cursor.skip(cursor.uleb());
  out->program_start = cursor.address();
  out->program_end = cursor.end();
  return cursor.ok();
}
}  // namespace

bool read_description(const Module& module, uintptr_t address, bool trusted, Fde* out) {
  Cie common;
  return read_both(module, address, trusted, &common, out);
}

bool find_row(const Module& module, uintptr_t pc, bool trusted, Row* row) {
  uintptr_t address = module.frame_index != nullptr ? module.frame_index->find(module, pc)
                                                    : search_header(module, pc, trusted);
  Cie common;
  Fde function;
  if (address == 0 || !read_both(module, address, trusted, &common, &function)) return false;
  if (pc - function.start >= function.bytes) return false;
  DwarfCursor cursor(function.program_start, function.program_end, trusted);
  os::Scratch<CfaProgram> program(common, function.start, module.eh_frame_header);
  return program && program->run(cursor, pc, row);
}

}  // namespace seemalloc::profile
