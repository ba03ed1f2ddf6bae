// The calls of jemalloc: mallctl and its relatives, the functions with flags, malloc_stats_print.
// Each has three names: its own, and with the prefixes je_ and _rjem_ (Rust's crates). With these
// prefixes the standard family is here as well.
//
// Threads: any.
#include "core/api/malloc/malloc_calls.h"
#include "core/api/service/exit_files.h"
#include "core/base/compiler.h"
#include "core/base/own_memory.h"
#include "core/base/text.h"
#include "core/compat/mallctl.h"
#include "core/compat/stats_snapshot.h"
#include "core/os/kernel/files.h"

using namespace seemalloc;
using namespace seemalloc::compat;

namespace {

// The flags of mallocx and its relatives. Bits 0–5: log2 of the alignment; 6: zeroed; the rest
// names a thread cache and an arena, of which there is one.
struct Flags {
  unsigned bits;
  explicit Flags(int flags) : bits(static_cast<unsigned>(flags)) {}
  size_t alignment() const { return size_t{1} << (bits & 0x3f); }
  bool zeroed() const { return (bits & 0x40) != 0; }
  // True if blocks of this size must be allocated with explicit alignment.
  bool aligned(size_t bytes) const {
    return alignment() > (bytes > sizeof(void*) ? 2 * sizeof(void*) : sizeof(void*));
  }
};

void* new_block(size_t bytes, Flags flags) {
  if (flags.aligned(bytes)) {
    void* p = allocate_aligned(bytes, flags.alignment());
    return p != nullptr && flags.zeroed() ? libc_memset(p, 0, usable_bytes(p)) : p;
  }
  if (!flags.zeroed()) return allocate(bytes);
  if (bytes > heap::kMaxSmallBytes) return allocate_zeroed_large(bytes);
  void* p = allocate(bytes);
  return p != nullptr ? libc_memset(p, 0, usable_bytes(p)) : nullptr;
}

void* resize_aligned(void* p, size_t old_bytes, size_t bytes, Flags flags) {
  bool in_place = reinterpret_cast<uintptr_t>(p) % flags.alignment() == 0;
  if (in_place && bytes <= old_bytes && bytes >= old_bytes / 2) return p;
  void* fresh = allocate_aligned(bytes, flags.alignment());
  if (fresh == nullptr) return nullptr;
  libc_memcpy(fresh, p, bytes < old_bytes ? bytes : old_bytes);
  deallocate(p);
  return fresh;
}

void zero_between(void* p, size_t from, size_t to) {
  if (to > from) libc_memset(static_cast<char*>(p) + from, 0, to - from);
}

void* resize_block(void* p, size_t bytes, Flags flags) {
  if (bytes == 0) bytes = 1;
  size_t old_bytes = usable_bytes(p);
  void* fresh =
      flags.aligned(bytes) ? resize_aligned(p, old_bytes, bytes, flags) : reallocate(p, bytes);
  if (fresh == nullptr || !flags.zeroed()) return fresh;
  zero_between(fresh, old_bytes, usable_bytes(fresh));
  return fresh;
}

size_t resize_in_place(void* p, size_t bytes, size_t extra, Flags flags) {
  size_t before = usable_bytes(p), most = bytes > SIZE_MAX - extra ? SIZE_MAX : bytes + extra;
  size_t now = resize_without_moving(p, most);
  if (now < bytes) now = resize_without_moving(p, bytes);
  if (flags.zeroed()) zero_between(p, before, now);
  return now;
}

using WriteText = void (*)(void* context, const char* text);

void write_to_stderr(void*, const char* text) { os::write_stderr(text, text_length(text)); }

void append_figures(Text& out, const Snapshot& s) {
  auto row = [&out](const char* name, size_t bytes) { out << name << uint64_t{bytes}; };
  row("Allocated: ", s.allocated);
  row(", active: ", s.active());
  row(", metadata: ", s.metadata);
  row(" (n_thp 0), resident: ", s.resident);
  row(", mapped: ", s.active() + s.free_dirty + s.metadata);
  row(", retained: ", s.free_clean);
  out << "\n";
}

void append_classes(Text& out, const Snapshot& s) {
  out << "bins:           size          allocated       curregs      free      spans\n";
  for (unsigned i = 0; i < heap::kClassCount; i++) {
    const ClassCounts& c = s.classes[i];
    if (c.spans == 0) continue;
    uint64_t bytes = heap::kClasses[i].bytes;
    out << "  " << bytes << "  " << bytes * c.live << "  " << uint64_t{c.live} << "  "
        << uint64_t{c.free} << "  " << uint64_t{c.spans} << "\n";
  }
  out << "large: " << uint64_t{s.large} << "\n";
}

void append_text(Text& out, const Snapshot& s, bool general, bool classes) {
  out << "___ Begin jemalloc statistics ___\n";
  if (general) out << "Version: \"5.3.0-seemalloc-" SEEMALLOC_VERSION "\"\nArenas: 1\n";
  append_figures(out, s);
  if (classes) append_classes(out, s);
  out << "--- End jemalloc statistics ---\n";
}

void append_json(Text& out, const Snapshot& s) {
  auto row = [&out](const char* name, size_t value, const char* end = ",") {
    out << "\"" << name << "\":" << uint64_t{value} << end;
  };
  out << "{\"jemalloc\":{\"version\":\"5.3.0-seemalloc-" SEEMALLOC_VERSION
         "\",\"arenas\":{\"narenas\":1},\"stats\":{";
  row("allocated", s.allocated);
  row("active", s.active());
  row("metadata", s.metadata);
  row("metadata_thp", 0);
  row("resident", s.resident);
  row("mapped", s.active() + s.free_dirty + s.metadata);
  row("retained", s.free_clean);
  row("zero_reallocs", 0, "}}}\n");
}

bool has_letter(const char* options, char letter) {
  if (options == nullptr) return false;
  while (*options != 0 && *options != letter) options++;
  return *options == letter;
}

}  // namespace

// These variables are the program's if it defines them. Its malloc_conf is read too late to have an
// effect here; SEEMALLOC_CONF and MALLOC_CONF are used instead.
#define JEMALLOC_VARIABLES(prefix)                                                        \
  extern "C" {                                                                            \
  __attribute__((visibility("default"))) WriteText prefix##malloc_message = nullptr;      \
  __attribute__((visibility("default"), weak)) const char* prefix##malloc_conf = nullptr; \
  }
JEMALLOC_VARIABLES()
JEMALLOC_VARIABLES(je_)
JEMALLOC_VARIABLES(_rjem_)

namespace {
// Options are letters: J for JSON; g omits the general information, b the size classes; a and l
// omit parts that do not exist here.
// `write` has precedence over `message`, the program's variable.
void print_statistics(WriteText write, WriteText message, void* context, const char* options) {
  Snapshot s;
  take_snapshot(&s);
  FixedText<8 * KiB> text;
  if (has_letter(options, 'J')) {
    append_json(text, s);
  } else {
    append_text(text, s, !has_letter(options, 'g'), !has_letter(options, 'b'));
  }
  if (write == nullptr) write = message != nullptr ? message : write_to_stderr;
  write(context, text.c_str());
}
}  // namespace

// The program has set the variable with the prefix of its own jemalloc.
void seemalloc::print_jemalloc_statistics() {
  WriteText message = malloc_message != nullptr      ? malloc_message
                      : je_malloc_message != nullptr ? je_malloc_message
                                                     : _rjem_malloc_message;
  print_statistics(nullptr, message, nullptr, nullptr);
}

#define JEMALLOC_CALLS(prefix)                                                                 \
  SEEMALLOC_EXPORT int prefix##mallctl(const char* name, void* old_value, size_t* old_bytes,   \
                                       void* new_value, size_t new_bytes) noexcept {           \
    return control(name, old_value, old_bytes, new_value, new_bytes);                          \
  }                                                                                            \
  SEEMALLOC_EXPORT int prefix##mallctlnametomib(const char* name, size_t* mib,                 \
                                                size_t* length) noexcept {                     \
    return name_to_mib(name, mib, length);                                                     \
  }                                                                                            \
  SEEMALLOC_EXPORT int prefix##mallctlbymib(const size_t* mib, size_t length, void* old_value, \
                                            size_t* old_bytes, void* new_value,                \
                                            size_t new_bytes) noexcept {                       \
    return control_by_mib(mib, length, old_value, old_bytes, new_value, new_bytes);            \
  }                                                                                            \
  SEEMALLOC_EXPORT void* prefix##mallocx(size_t bytes, int flags) noexcept {                   \
    return new_block(bytes, Flags(flags));                                                     \
  }                                                                                            \
  SEEMALLOC_EXPORT void* prefix##rallocx(void* p, size_t bytes, int flags) noexcept {          \
    return resize_block(p, bytes, Flags(flags));                                               \
  }                                                                                            \
  SEEMALLOC_EXPORT size_t prefix##xallocx(void* p, size_t bytes, size_t extra,                 \
                                          int flags) noexcept {                                \
    return resize_in_place(p, bytes, extra, Flags(flags));                                     \
  }                                                                                            \
  SEEMALLOC_EXPORT size_t prefix##sallocx(const void* p, int) noexcept { return usable(p); }   \
  SEEMALLOC_EXPORT void prefix##dallocx(void* p, int) noexcept { deallocate(p); }              \
  SEEMALLOC_EXPORT void prefix##sdallocx(void* p, size_t, int) noexcept { deallocate(p); }     \
  SEEMALLOC_EXPORT size_t prefix##nallocx(size_t bytes, int flags) noexcept {                  \
    return allocation_size(bytes, Flags(flags).alignment());                                   \
  }                                                                                            \
  SEEMALLOC_EXPORT void prefix##malloc_stats_print(WriteText write, void* context,             \
                                                   const char* options) noexcept {             \
    print_statistics(write, prefix##malloc_message, context, options);                         \
  }

#define STANDARD_CALLS(prefix)                                                                     \
  SEEMALLOC_EXPORT void* prefix##malloc(size_t bytes) noexcept { return allocate(bytes); }         \
  SEEMALLOC_EXPORT void* prefix##calloc(size_t count, size_t each) noexcept {                      \
    return new_zeroed(count, each);                                                                \
  }                                                                                                \
  SEEMALLOC_EXPORT void* prefix##realloc(void* p, size_t bytes) noexcept {                         \
    return resize(p, bytes);                                                                       \
  }                                                                                                \
  SEEMALLOC_EXPORT void prefix##free(void* p) noexcept { deallocate(p); }                          \
  SEEMALLOC_EXPORT void prefix##free_sized(void* p, size_t) noexcept { deallocate(p); }            \
  SEEMALLOC_EXPORT void prefix##free_aligned_sized(void* p, size_t, size_t) noexcept {             \
    deallocate(p);                                                                                 \
  }                                                                                                \
  SEEMALLOC_EXPORT int prefix##posix_memalign(void** out, size_t alignment,                        \
                                              size_t bytes) noexcept {                             \
    return new_aligned_to(out, alignment, bytes);                                                  \
  }                                                                                                \
  SEEMALLOC_EXPORT void* prefix##aligned_alloc(size_t alignment, size_t bytes) noexcept {          \
    return new_aligned_to(alignment, bytes);                                                       \
  }                                                                                                \
  SEEMALLOC_EXPORT void* prefix##memalign(size_t alignment, size_t bytes) noexcept {               \
    return new_aligned_to(alignment, bytes);                                                       \
  }                                                                                                \
  SEEMALLOC_EXPORT void* prefix##valloc(size_t bytes) noexcept { return new_page_aligned(bytes); } \
  SEEMALLOC_EXPORT size_t prefix##malloc_usable_size(void* p) noexcept { return usable(p); }

JEMALLOC_CALLS()
JEMALLOC_CALLS(je_)
JEMALLOC_CALLS(_rjem_)
STANDARD_CALLS(je_)
STANDARD_CALLS(_rjem_)

// Redis's version of jemalloc has this for active defragmentation: whether a block would be better
// placed elsewhere. There is no evidence here that a new block would be placed better; the pages
// between live blocks are purged without moving any (docs/purging.md).
SEEMALLOC_EXPORT int je_get_defrag_hint(void*) noexcept { return 0; }
