#include "core/api/foreign.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/api/fast_path.h"
#include "core/base/options.h"
#include "core/base/text.h"
#include "core/os/os.h"

// Absent in static programs without the dynamic linker.
extern "C" __attribute__((weak)) void* dlsym(void* handle, const char* name) noexcept;

namespace seemalloc {

namespace {

struct NextAllocator {
  void (*free_block)(void* p);
    size_t (*usable_bytes)(void* p);
};
NextAllocator next{};

// glibc's chunk header in front of a block: size with three flag bits.
constexpr size_t kPrevInUse = 1, kMapped = 2, kOtherArena = 4;

// True when the memory in front of p reads like a chunk of glibc's malloc that is in use.
bool looks_like_glibc_block(void* p) {
  uintptr_t address = reinterpret_cast<uintptr_t>(p);
  if (address % 16 != 0) return false;
  size_t header[2];  // size of the previous chunk (mapped: offset into the mapping), size and flags
  if (!os::read_memory(reinterpret_cast<void*>(address - sizeof(header)), header, sizeof(header))) return false;
  size_t bytes = header[1] & ~size_t{15};
  size_t flags = header[1] & 7;
  if (bytes < 32 || (header[1] & 8) != 0) return false;
  if ((flags & kMapped) != 0) {
    uintptr_t start = address - sizeof(header) - header[0];
    return (flags & kOtherArena) == 0 && start % os::page_bytes() == 0 && (bytes + header[0]) % os::page_bytes() == 0;
  }
  size_t next_header[2];
  uintptr_t next_chunk = address - sizeof(header) + bytes;
  if (next_chunk < address || !os::read_memory(reinterpret_cast<void*>(next_chunk), next_header, sizeof(next_header))) return false;
  if ((next_header[1] & kPrevInUse) == 0 || next_header[1] < 16) return false;
  if ((flags & kOtherArena) != 0) {
    // A secondary arena's heap starts at a multiple of 64 MiB with a pointer to the arena, which lies in a heap too.
    constexpr uintptr_t kHeapBytes = 64 * MiB;
    uintptr_t arena = 0;
    return os::read_memory(reinterpret_cast<void*>(address & ~(kHeapBytes - 1)), &arena, sizeof(arena)) && arena != 0 &&
           arena % 16 == 0;
  }
  uintptr_t heap_end = reinterpret_cast<uintptr_t>(sbrk(0));
  return address < heap_end && heap_end - address < 64 * GiB;
}

void report(void* p) {
  if (options::get(options::Id::foreign) == static_cast<uint64_t>(options::Foreign::kFatal)) fatal("foreign pointer", p);
  FixedText<64> line;
  line << "foreign pointer " << Hex{reinterpret_cast<uint64_t>(p)};
  warn(line.c_str());
}

bool pass_on(void* p) {
  return options::get(options::Id::foreign) == static_cast<uint64_t>(options::Foreign::kPass) && next.free_block != nullptr &&
         looks_like_glibc_block(p);
}

}  // namespace

void find_next_allocator() {
  if (dlsym == nullptr) return;
  auto find = [](const char* name) { return dlsym(RTLD_NEXT, name); };
  next.usable_bytes = reinterpret_cast<size_t (*)(void*)>(find("malloc_usable_size"));
  next.free_block = reinterpret_cast<void (*)(void*)>(find("free"));
}

void free_foreign(void* p) {
  if (pass_on(p)) {
    next.free_block(p);
  } else {
    report(p);
  }
}

size_t foreign_usable_bytes(void* p) {
  if (pass_on(p) && next.usable_bytes != nullptr) return next.usable_bytes(p);
  report(p);
  return 0;
}

void* reallocate_foreign(void* p, size_t bytes) {
  // Moves into our heap, so that the next free of it is an ordinary one.
  size_t old_bytes = foreign_usable_bytes(p);
  if (old_bytes == 0) {
    errno = EINVAL;
    return nullptr;
  }
  void* fresh = allocate(bytes);
  if (fresh == nullptr) return nullptr;
  memcpy(fresh, p, bytes < old_bytes ? bytes : old_bytes);
  next.free_block(p);
  return fresh;
}

}  // namespace seemalloc
