// dlclose, as the program and its libraries call it: unloaded code keeps its name in profiles
// (core/profile/code/unloaded_modules.h). The C library's own calls of it do not come here. In the
// shared libraries only: a static program has no next dlclose. Not with a C library that has dlsym
// in a separate library (before glibc 2.34), which may be loaded after this one is bound.
#include <features.h>

#include "core/api/cpu/cpu_profiler.h"
#include "core/api/malloc/next_function.h"
#include "core/base/compiler.h"
#include "core/profile/code/unloaded_modules.h"
#include "core/profile/heap/records.h"
#include "core/profile/python/python.h"

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)

namespace seemalloc {
namespace {

using Close = int (*)(void* handle);
constinit NextFunction<Close> next_dlclose;

void update_unloaded_modules(bool just_gone) {
  const profile::ExternalStacks* of_cpu = lock_cpu_stacks();
  profile::update_unloaded_modules(just_gone, profile::records.stacks, of_cpu);
  if (of_cpu != nullptr) unlock_cpu_stacks();
}

}  // namespace
}  // namespace seemalloc

SEEMALLOC_EXPORT int dlclose(void* handle) noexcept {
  seemalloc::Close next = seemalloc::next_dlclose.find_once("dlclose");
  if (next == nullptr) return -1;
  seemalloc::profile::keep_active_python();
  seemalloc::update_unloaded_modules(false);
  int result = next(handle);
  seemalloc::profile::forget_closed_python();
  seemalloc::update_unloaded_modules(true);
  return result;
}

#endif
