#include "core/api/malloc/other_allocators.h"

#include "core/os/process/loaded_object.h"

namespace seemalloc {

namespace {

using os::LoadedObject;

OtherAllocator of_glibc, unknown;

// The functions that take blocks (except reallocarray, which calls realloc by its name), and the
// two that allocate nearly all of them. Blocks of the others (posix_memalign, __libc_malloc) stay
// the C library's: our free passes them on. Each name costs the process about one page, copied at
// its start.
constexpr const char* kNames[] = {"malloc",
                                  "calloc",
                                  "free",
                                  "realloc",
                                  "malloc_usable_size",
                                  "cfree",
                                  "free_sized",
                                  "free_aligned_sized",
                                  "__libc_free",
                                  "__libc_realloc"};
// glibc has about one version of each.
constexpr size_t kMaxFunctions = 2 * sizeof(kNames) / sizeof(kNames[0]);

// Not recognised by __libc_start_main, which some tools define in front of glibc, together with a
// malloc.
bool is_glibc(const LoadedObject& object) {
  return object.defines("gnu_get_libc_version") && object.defines("malloc");
}

OtherAllocator allocator_of(const LoadedObject& object) {
  return {reinterpret_cast<void (*)(void*)>(object.symbols().address_of("free")),
          reinterpret_cast<size_t (*)(void*)>(object.symbols().address_of("malloc_usable_size"))};
}

void redirect_to_ours(const LoadedObject& glibc, const LoadedObject& ours) {
  LoadedObject::Redirection redirections[kMaxFunctions];
  size_t count = 0;
  for (const char* name : kNames) {
    uintptr_t target = ours.symbols().address_of(name);
    if (target == 0) continue;
    for (const Elf64_Sym* f = glibc.symbols().function(name); f != nullptr && count < kMaxFunctions;
         f = glibc.symbols().function(name, f)) {
      redirections[count++] = {f, target};
    }
  }
  glibc.redirect(redirections, count);
}

// glibc initialises its allocator at the first call without a lock: in a program, that call comes
// before any second thread. With the changed symbols the first call may come from several threads
// at once (posix_memalign in a plugin), so it is made here. mallopt with an unknown parameter
// changes nothing and allocates nothing.
void initialize(const LoadedObject& glibc) {
  constexpr int kNoParameter = 0;
  auto set = reinterpret_cast<int (*)(int, int)>(glibc.symbols().address_of("mallopt"));
  if (set != nullptr) set(kNoParameter, 0);
}

}  // namespace

void find_other_allocators() {
  LoadedObject first_with_malloc, ours, glibc;
  for (LoadedObject object = os::first_loaded_object(); object.exists(); object = object.next()) {
    if (object.contains_seemalloc()) ours = object;
    if (!first_with_malloc.exists() && object.defines("malloc")) first_with_malloc = object;
    if (!glibc.exists() && is_glibc(object)) glibc = object;
    bool is_behind = ours.exists() && !object.contains_seemalloc() && !glibc.exists();
    if (is_behind && !unknown.exists()) unknown = allocator_of(object);
  }
  if (!glibc.exists()) return;
  of_glibc = allocator_of(glibc);
  // If seemalloc's malloc is not the first, the process uses another one, and the C library's free
  // would pass that malloc's blocks to us.
  if (!first_with_malloc.contains_seemalloc()) return;
  redirect_to_ours(glibc, ours);
  initialize(glibc);
}

const OtherAllocator& glibc_allocator() { return of_glibc; }
const OtherAllocator& unknown_allocator() { return unknown; }

}  // namespace seemalloc
