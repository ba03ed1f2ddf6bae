// pthread_key_create, for the calls of the program and its libraries. A program may use all
// PTHREAD_KEYS_MAX keys: when none is left, we delete our own key (core/api/malloc/process.h). A
// CPython that is loaded by dlopen creates a key when it starts, and is detected by that. Only in
// the shared libraries: a static program has no second pthread_key_create to call.
#include <errno.h>
#include <pthread.h>

#include "core/api/malloc/next_function.h"
#include "core/api/malloc/process.h"
#include "core/api/settings/runtime_options.h"
#include "core/base/compiler.h"

namespace seemalloc {
namespace {

using KeyCreate = int (*)(pthread_key_t* key, void (*destructor)(void*));
constinit NextFunction<KeyCreate> next_key_create;

int create_key(pthread_key_t* key, void (*destructor)(void*)) {
  KeyCreate next = next_key_create.find_once("pthread_key_create");
  if (next == nullptr) return EAGAIN;
  int result = next(key, destructor);
  return result == EAGAIN && release_thread_key() ? next(key, destructor) : result;
}

}  // namespace
}  // namespace seemalloc

SEEMALLOC_EXPORT int pthread_key_create(pthread_key_t* key, void (*destructor)(void*)) noexcept {
  seemalloc::check_python_loaded(reinterpret_cast<uintptr_t>(__builtin_return_address(0)));
  return seemalloc::create_key(key, destructor);
}
