#include "core/api/next_allocator.h"

#include "core/os/loaded_object.h"

namespace seemalloc {

namespace {

using os::LoadedObject;

OtherAllocator of_glibc, unknown;

// What takes blocks has to be ours (but reallocarray, which calls realloc by its name), and nearly all blocks come from the two that give
// them here. What others give (posix_memalign, __libc_malloc) is passed on to where it came from. Each name is about a page that the
// process copies when it starts.
constexpr const char* kNames[] = {"malloc",     "calloc",
                                  "free",       "realloc",             "malloc_usable_size", "cfree",
                                  "free_sized", "free_aligned_sized", "__libc_free",        "__libc_realloc"};
// glibc has about one version of each.
constexpr size_t kMostFunctions = 2 * sizeof(kNames) / sizeof(kNames[0]);

bool is_c_library(const LoadedObject& object) { return object.defines("__libc_start_main") && object.defines("malloc"); }

OtherAllocator allocator_of(const LoadedObject& object) {
  return {reinterpret_cast<void (*)(void*)>(object.symbols().address_of("free")),
          reinterpret_cast<size_t (*)(void*)>(object.symbols().address_of("malloc_usable_size"))};
}

void lead_to_ours(const LoadedObject& c_library, const LoadedObject& ours) {
  LoadedObject::Redirection redirections[kMostFunctions];
  size_t count = 0;
  for (const char* name : kNames) {
    uintptr_t target = ours.symbols().address_of(name);
    if (target == 0) continue;
    for (const Elf64_Sym* f = c_library.symbols().function(name); f != nullptr && count < kMostFunctions; f = c_library.symbols().function(name, f)) {
      redirections[count++] = {f, target};
    }
  }
  c_library.redirect(redirections, count);
}

}  // namespace

void meet_other_allocators() {
  LoadedObject first_with_malloc, ours, c_library;
  for (LoadedObject object = os::first_loaded_object(); object.exists(); object = object.next()) {
    if (object.is_this()) ours = object;
    if (!first_with_malloc.exists() && object.defines("malloc")) first_with_malloc = object;
    if (!c_library.exists() && is_c_library(object)) c_library = object;
    bool is_behind = ours.exists() && !object.is_this() && !c_library.exists();
    if (is_behind && !unknown.exists()) unknown = allocator_of(object);
  }
  if (!c_library.exists()) return;
  bool is_glibc = c_library.defines("gnu_get_libc_version");
  if (is_glibc) of_glibc = allocator_of(c_library);
  if (!is_glibc && !unknown.exists()) unknown = allocator_of(c_library);
  // Else the process has another malloc, whose blocks the C library's names would bring to us.
  if (first_with_malloc.is_this()) lead_to_ours(c_library, ours);
}

const OtherAllocator& glibc_allocator() { return of_glibc; }
const OtherAllocator& unknown_allocator() { return unknown; }

}  // namespace seemalloc
