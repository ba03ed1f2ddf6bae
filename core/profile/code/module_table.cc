#include "core/profile/code/module_table.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/auxv.h>

#include "core/base/units.h"
#include "core/os/kernel/auxiliary_vector.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/files.h"
#include "core/os/kernel/read_memory.h"
#include "core/os/runtime/lock.h"
#include "core/os/runtime/scratch.h"
#include "core/profile/code/modules.h"

namespace seemalloc::profile {
namespace {

// 128 KiB of addresses; modules beyond are treated as code without tables.
constexpr size_t kMaxModules = 4096;
constexpr uint64_t kRefreshIntervalNs = 200 * kMillisecondNs;
constexpr size_t kMaxHeaders = 16;  // program headers of one module

struct Entry {
  std::atomic<uintptr_t> start{0}, end{0}, eh_frame_header{0};
  std::atomic<uint64_t> identity_hash{0};
};

// `version` is odd while the writer, which holds `lock`, is writing; readers compare it before and
// after. Every field is stored with release and loaded with acquire, so a reader that sees a new
// value also sees the odd version stored before it (fences would do the same, but ThreadSanitizer
// does not support them).
Entry entries[kMaxModules];
std::atomic<uint32_t> entry_count{0};
std::atomic<uint32_t> version{0};
std::atomic<uint64_t> refreshed_at_ns{0};
Lock lock;

}  // namespace

bool read_module(uintptr_t start, Module* module) {
  Elf64_Ehdr header;
  if (!os::read_memory(reinterpret_cast<const void*>(start), &header, sizeof(header))) return false;
  if (__builtin_memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64)
    return false;
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum > kMaxHeaders) return false;
  struct Table {
    Elf64_Phdr segments[kMaxHeaders];
  };
  os::Scratch<Table> table;
  if (!table) return false;
  if (!os::read_memory(reinterpret_cast<const void*>(start + header.e_phoff), &*table,
                       header.e_phnum * sizeof(Elf64_Phdr)))
    return false;

  bool loaded = false;
  uintptr_t first = 0, last = 0, frames = 0;
  uint64_t sizes = 0;
  for (size_t i = 0; i < header.e_phnum; i++) {
    const Elf64_Phdr& segment = table->segments[i];
    if (segment.p_type == PT_GNU_EH_FRAME) frames = segment.p_vaddr;
    if (segment.p_type != PT_LOAD) continue;
    if (!loaded) first = segment.p_vaddr;
    loaded = true;
    last = segment.p_vaddr + segment.p_memsz;
    sizes = sizes * 31 + segment.p_filesz;
  }
  if (!loaded) return false;
  uintptr_t bias = start - first;
  module->start = start;
  module->end = bias + last;
  module->eh_frame_header = frames == 0 ? 0 : bias + frames;
  module->identity_hash = mix_identity(start, module->end, module->eh_frame_header, sizes);
  return true;
}

namespace {

// One line of /proc/self/maps, reduced to the fields that are needed.
struct Mapping {
  uintptr_t start = 0;
  uint64_t offset = 0;
  bool readable = false;
  bool named = false;  // has a file or a [name]; anonymous memory contains no modules
};

// Parses the file character by character, so a line may span two reads.
class MapsParser {
 public:
  // Processes one character. Returns true if a line is complete; take() then returns it.
  bool feed(char c) {
    if (c == '\n') {
      field_ = 0;
      return true;
    }
    if (field_ == 0 && c == '-') {
      field_ = 1;
    } else if (c == ' ' && field_ < 6) {
      if (!in_gap_) field_++;
    } else {
      use(c);
    }
    in_gap_ = c == ' ';
    return false;
  }
  Mapping take() {
    Mapping done = mapping_;
    mapping_ = Mapping{};
    return done;
  }

 private:
  static uint64_t digit(char c) { return static_cast<uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10); }
  void use(char c) {
    switch (field_) {
      case 0: mapping_.start = mapping_.start << 4 | digit(c); break;
      case 2: mapping_.readable |= c == 'r'; break;
      case 3: mapping_.offset = mapping_.offset << 4 | digit(c); break;
      case 6: mapping_.named = true; break;
      default: break;
    }
  }

  Mapping mapping_;
  unsigned field_ = 0;  // start, end, permissions, offset, device, inode, name
  bool in_gap_ = false;
};

void add_entry(uint32_t* count, const Module& module) {
  if (*count == kMaxModules) return;
  Entry& entry = entries[(*count)++];
  entry.start.store(module.start, std::memory_order_release);
  entry.end.store(module.end, std::memory_order_release);
  entry.eh_frame_header.store(module.eh_frame_header, std::memory_order_release);
  entry.identity_hash.store(module.identity_hash, std::memory_order_release);
}

// Requires: the caller holds `lock`.
void read_maps_locked() {
  static char buffer[4096];
  int fd = os::open_file("/proc/thread-self/maps", O_RDONLY);
  if (fd < 0) return;
  uint32_t count = 0;
  MapsParser parser;
  for (long bytes; (bytes = os::read_some(fd, buffer, sizeof(buffer))) > 0;) {
    for (long i = 0; i < bytes; i++) {
      if (!parser.feed(buffer[i])) continue;
      Mapping mapping = parser.take();
      Module module;
      bool candidate = mapping.readable && mapping.named && mapping.offset == 0;
      if (candidate && read_module(mapping.start, &module)) add_entry(&count, module);
    }
  }
  os::close_file(fd);
  entry_count.store(count, std::memory_order_release);
}

// Reads the list again, unless that was done recently, or another thread (or the code that this
// signal handler interrupted) is doing it.
bool refresh() {
  uint64_t now = os::coarse_monotonic_ns();
  uint64_t last = refreshed_at_ns.load(std::memory_order_relaxed);
  if (last != 0 && now - last < kRefreshIntervalNs) return false;
  if (!lock.try_lock()) return false;
  refreshed_at_ns.store(now, std::memory_order_relaxed);
  version.fetch_add(1, std::memory_order_relaxed);
  read_maps_locked();
  version.fetch_add(1, std::memory_order_release);
  lock.unlock();
  return true;
}

// Finds the last module that starts at or before `pc`.
bool find_in_table(uintptr_t pc, Module* module) {
  uint32_t before = version.load(std::memory_order_acquire);
  if (before % 2 != 0) return false;
  uint32_t low = 0, high = entry_count.load(std::memory_order_acquire);
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (entries[middle].start.load(std::memory_order_acquire) <= pc) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0) return false;
  const Entry& entry = entries[low - 1];
  module->start = entry.start.load(std::memory_order_acquire);
  module->end = entry.end.load(std::memory_order_acquire);
  module->eh_frame_header = entry.eh_frame_header.load(std::memory_order_acquire);
  module->identity_hash = entry.identity_hash.load(std::memory_order_acquire);
  return version.load(std::memory_order_relaxed) == before && pc >= module->start &&
         pc < module->end;
}

// Fills in the fields that are not in the table.
void fill_in_flags(Module* module) {
  uintptr_t program_headers = os::auxiliary_value(AT_PHDR);
  module->main_program = program_headers >= module->start && program_headers < module->end;
  module->permanent = module->main_program || contains_permanent_code(module->start, module->end);
}

// Checks invariant 3. Takes two system calls, so modules that cannot be unloaded are not checked.
bool is_still_loaded(const Module& module) {
  Module now;
  return module.permanent ||
         (read_module(module.start, &now) && now.identity_hash == module.identity_hash);
}

bool find_valid_in_table(uintptr_t pc, Module* module) {
  if (!find_in_table(pc, module)) return false;
  fill_in_flags(module);
  return is_still_loaded(*module);
}

}  // namespace

bool find_in_module_table(uintptr_t pc, Module* module) {
  return find_valid_in_table(pc, module) || (refresh() && find_valid_in_table(pc, module));
}

void reset_module_table() {
  lock.reset();
  refreshed_at_ns.store(0, std::memory_order_relaxed);
  entry_count.store(0, std::memory_order_relaxed);
  version.store(0, std::memory_order_relaxed);
}

}  // namespace seemalloc::profile
