#include "core/api/malloc/foreign.h"

#include <errno.h>
#include <string.h>

#include "core/api/malloc/other_allocators.h"
#include "core/api/malloc/process.h"
#include "core/base/check.h"
#include "core/base/options.h"
#include "core/base/own_memory.h"
#include "core/base/text.h"
#include "core/os/kernel/memory.h"
#include "core/os/process/address_kind.h"

namespace seemalloc {

namespace {

// The header of a chunk of glibc's malloc (struct malloc_chunk), directly before the block. The
// names are glibc's.
struct MallocChunk {
  // The size of the previous chunk if that is free. In a chunk with IS_MMAPPED: the chunk's offset
  // in its mapping.
  size_t prev_size;
  size_t size;  // a multiple of 16, with the flags in its low bits
};
constexpr size_t kPrevInUse = 1;       // PREV_INUSE
constexpr size_t kIsMmapped = 2;       // IS_MMAPPED
constexpr size_t kNonMainArena = 4;    // NON_MAIN_ARENA
constexpr size_t kUnusedFlag = 8;      // always 0: sizes are multiples of MALLOC_ALIGNMENT, 16
constexpr size_t kMinChunkBytes = 32;  // MINSIZE

bool read_chunk(uintptr_t at, MallocChunk* chunk) {
  if (!os::can_read(at) || !os::can_read(at + sizeof(size_t))) return false;
  auto word = [at](size_t i) {
    return __atomic_load_n(reinterpret_cast<const size_t*>(at) + i, __ATOMIC_RELAXED);
  };
  *chunk = {word(0), word(1)};
  return true;
}

bool is_mmapped_chunk(uintptr_t at, const MallocChunk& chunk, size_t bytes) {
  size_t page = os::page_bytes();
  return (chunk.size & (kNonMainArena | kPrevInUse)) == 0 && chunk.prev_size < at &&
         (at - chunk.prev_size) % page == 0 && (bytes + chunk.prev_size) % page == 0;
}

// The heaps of a non-main arena are HEAP_MAX_SIZE (64 MiB; other sizes with glibc.malloc.hugetlb),
// and aligned to their size. Each begins with heap_info::ar_ptr, the address of its arena, which is
// in the arena's first heap.
bool has_arena(uintptr_t at) {
  for (size_t heap_bytes : {64 * MiB, 8 * MiB, 4 * GiB, 128 * MiB, 2 * GiB, 256 * KiB}) {
    uintptr_t heap = round_down(at, heap_bytes);
    if (!os::can_read(heap)) continue;
    uintptr_t arena = __atomic_load_n(reinterpret_cast<const uintptr_t*>(heap), __ATOMIC_RELAXED);
    if (arena != 0 && arena % 16 == 0 && os::can_read(arena)) return true;
  }
  return false;
}

// True when the memory around p looks like an allocated chunk of glibc's malloc. glibc's own checks
// are not stricter.
bool looks_like_glibc_block(const void* p) {
  uintptr_t address = reinterpret_cast<uintptr_t>(p);
  MallocChunk chunk, next;
  if (address % 16 != 0 || address < 2 * sizeof(MallocChunk)) return false;
  uintptr_t at = address - sizeof(MallocChunk);
  if (!read_chunk(at, &chunk)) return false;
  size_t bytes = round_down(chunk.size, 16);
  if (bytes < kMinChunkBytes || bytes > PTRDIFF_MAX || (chunk.size & kUnusedFlag) != 0)
    return false;
  if ((chunk.size & kIsMmapped) != 0) return is_mmapped_chunk(at, chunk, bytes);
  if (!read_chunk(at + bytes, &next)) return false;
  if ((next.size & kPrevInUse) == 0 || next.size < 16 || (next.size & kUnusedFlag) != 0)
    return false;
  return (chunk.size & kNonMainArena) == 0 || has_arena(at);
}

// True when this memory may be a block of an allocator.
bool may_be_block(const void* p) {
  FixedText<16> file;
  os::AddressKind place = os::classify_address(reinterpret_cast<uintptr_t>(p), file);
  return place == os::AddressKind::kAnonymous || place == os::AddressKind::kCHeap ||
         place == os::AddressKind::kUnknown;
}

bool option_is(options::Foreign value) {
  return options::get(options::Id::foreign) == static_cast<uint64_t>(value);
}

// Set while the thread is in a function of another allocator. If the unknown allocator passes a
// pointer on, it comes back to us.
constinit thread_local bool in_other_allocator __attribute__((tls_model("initial-exec"))) = false;

// The allocator that the block belongs to; null if no known one does.
const OtherAllocator* owner_of(const void* p) {
  if (option_is(options::Foreign::kFatal)) return nullptr;
  start_process();  // a constructor before ours may free blocks of the C library
  const OtherAllocator *glibc = &glibc_allocator(), *unknown = &unknown_allocator();
  if (glibc->exists() && looks_like_glibc_block(p)) return glibc;
  return unknown->exists() && !in_other_allocator && may_be_block(p) ? unknown : nullptr;
}

void free_with_owner(const OtherAllocator& owner, void* p) {
  bool was_inside = in_other_allocator;
  in_other_allocator = true;
  owner.free_block(p);
  in_other_allocator = was_inside;
}

size_t bytes_of(const OtherAllocator& owner, void* p) {
  if (owner.usable_bytes == nullptr) return 0;
  bool was_inside = in_other_allocator;
  in_other_allocator = true;
  size_t bytes = owner.usable_bytes(p);
  in_other_allocator = was_inside;
  return bytes;
}

// Ends the process, unless foreign:report is set.
void report_foreign_pointer(const void* p) {
  FixedText<256> file;
  FixedText<512> line;
  os::AddressKind place = os::classify_address(reinterpret_cast<uintptr_t>(p), file);
  line << "foreign pointer " << Hex{reinterpret_cast<uint64_t>(p)};
  if (place != os::AddressKind::kUnknown) line << ": ";
  os::print_address_kind(place, file.c_str(), line);
  if (!option_is(options::Foreign::kReport)) fatal_text(line.c_str());
  warn(line.c_str());
}

}  // namespace

void free_foreign(void* p) {
  const OtherAllocator* owner = owner_of(p);
  if (owner == nullptr) return report_foreign_pointer(p);
  free_with_owner(*owner, p);
}

size_t foreign_usable_bytes(void* p) {
  const OtherAllocator* owner = owner_of(p);
  if (owner != nullptr) return bytes_of(*owner, p);
  report_foreign_pointer(p);
  return 0;
}

void* reallocate_foreign(void* p, size_t bytes, void* (*allocate)(size_t bytes)) {
  const OtherAllocator* owner = owner_of(p);
  if (owner == nullptr) report_foreign_pointer(p);
  size_t old_bytes = owner != nullptr ? bytes_of(*owner, p) : 0;
  if (old_bytes == 0) {
    errno = EINVAL;
    return nullptr;
  }
  // The block moves into our heap: its next free is an ordinary one.
  void* fresh = allocate(bytes);
  if (fresh == nullptr) return nullptr;
  libc_memcpy(fresh, p, bytes < old_bytes ? bytes : old_bytes);
  free_with_owner(*owner, p);
  return fresh;
}

}  // namespace seemalloc
