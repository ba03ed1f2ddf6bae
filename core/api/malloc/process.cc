#include "core/api/malloc/process.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>

#include "core/api/malloc/fork.h"
#include "core/api/malloc/other_allocators.h"
#include "core/api/malloc/services.h"
#include "core/api/sampling/sampling.h"
#include "core/api/settings/foreign_options.h"
#include "core/api/settings/runtime_options.h"
#include "core/base/check.h"
#include "core/base/options.h"
#include "core/heap/maintenance/pressure.h"
#include "core/heap/maintenance/registry.h"
#include "core/heap/thread/thread_cache.h"
#include "core/heap/thread/thread_heap.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/ids.h"
#include "core/os/kernel/wait.h"
#include "core/os/process/sandbox.h"

// The C library's function. The plain name resolves to ours (key_calls_shared.cc) or to an
// interposer's.
extern "C" int __pthread_key_create(pthread_key_t* key, void (*destructor)(void*)) noexcept;
// glibc's function for destructors of C++'s thread_local objects. It calls them before the
// destructors of keys.
extern "C" __attribute__((weak)) int __cxa_thread_atexit_impl(void (*destructor)(void*),
                                                              void* object, void* library) noexcept;
extern "C" __attribute__((visibility("hidden"))) void* __dso_handle;

namespace seemalloc {

namespace {

enum class Phase { kUninitialized, kUsable, kStarted };

std::atomic<Phase> phase{Phase::kUninitialized};
Lock start_lock;
bool options_read = false;
uint64_t loaded_ns = 0;
pthread_key_t thread_key;
std::atomic<bool> have_thread_key{false};
// The number of threads that are setting the key's value. The key is not deleted while there are
// any.
std::atomic<unsigned> key_users{0};

// Runs after all C++ thread_local destructors. Other keys' destructors may still allocate:
// thread_cache.finished directs them to the central lists. May run twice, if an interposer
// allocates in start_process: the second time there is no heap.
void on_thread_exit(void* cache) {
  heap::ThreadCache* mine = static_cast<heap::ThreadCache*>(cache);
  heap::ThreadHeap* ending = mine->heap;
  mine->finished = true;
  cpu_profiler_thread_exiting();
  end_sampling_of_thread(ending);
  if (ending != nullptr) heap::abandon_heap(*ending);
}

// The thread that is about to abort may hold its heap's lock: allocations of its handlers come from
// the central lists.
void detach_heap_before_abort() {
  heap::thread_cache = heap::ThreadCache{};
  heap::thread_cache.finished = true;
}

// In glibc each namespace of dlmopen numbers its keys from 0, but a thread's values are in one
// table: a plugin would find our value under its own key of the same number. So ours is not the
// first key, but the last for which each thread has storage without an allocation.
void make_thread_key() {
#ifdef __GLIBC__
  constexpr pthread_key_t kLast = 31;
#else
  constexpr pthread_key_t kLast = 0;
#endif
  pthread_key_t keys[kLast + 1];
  unsigned count = 0;
  while (count <= kLast && __pthread_key_create(&keys[count], on_thread_exit) == 0 &&
         keys[count++] < kLast) {
  }
  if (count == 0) return;
  // The program has taken that one.
  if (count > 1 && keys[count - 1] > kLast) pthread_key_delete(keys[--count]);
  thread_key = keys[--count];
  have_thread_key.store(true, std::memory_order_release);
  while (count > 0) pthread_key_delete(keys[--count]);
}

void read_environment() {
  read_foreign_options(environ, warn);
  constexpr const char kName[] = "SEEMALLOC_CONF=";
  for (char** variable = environ; *variable != nullptr; variable++) {
    if (text_equal(*variable, sizeof(kName) - 1, kName))
      options::parse(*variable + sizeof(kName) - 1, warn);
  }
  report_ignored_settings(warn);
}

void read_options_once() {
  if (options_read || environ == nullptr) return;
  options_read = true;
  // The environment of a privileged (set-uid) process belongs to another user.
  if (!os::is_privileged()) read_environment();
  auto sandbox = static_cast<options::Sandbox>(options::get(options::Id::sandbox));
  if (sandbox == options::Sandbox::kOn) os::limit_calls();
  if (sandbox == options::Sandbox::kOff) os::never_limit_calls();
  heap::pressure_options_read();
  dump_options_read();
  if (options_were_read != nullptr) options_were_read();
}

__attribute__((constructor(101))) void library_loaded() {
  start_process();
  {
    LockGuard guard(start_lock);
    read_options_once();
  }
  find_next_filter_calls();
  sampling_loaded(environ != nullptr ? environment_value(environ, "PYTHONMALLOC") : nullptr);
  python_option_changed();
  install_fork_handlers();
  phase.store(Phase::kStarted, std::memory_order_release);
  loaded_ns = os::monotonic_ns();
  start_helper_at_load();
  mark_child_environment();
}

__attribute__((destructor(101))) void library_unloaded() { stop_helper_at_exit(); }

}  // namespace

namespace {
// False when another call has done it.
bool initialize_once() {
  LockGuard guard(start_lock);
  if (phase.load(std::memory_order_relaxed) != Phase::kUninitialized) return false;
  read_options_once();
  find_other_allocators();
  start_sampling();
  before_abort = detach_heap_before_abort;
  phase.store(Phase::kUsable, std::memory_order_release);
  return true;
}
}  // namespace

void start_process() {
  if (SEEMALLOC_LIKELY(phase.load(std::memory_order_acquire) != Phase::kUninitialized)) return;
  if (!initialize_once()) return;
  make_thread_key();
}

// Without a key (the program may use them all) the heap ends like a thread_local object: before the
// destructors of keys, whose allocations then come from the central lists. If even that is
// unavailable, other threads find the heap of an ended thread:
// core/heap/maintenance/orphaned_heaps.h.
void register_thread_exit(heap::ThreadCache* cache) {
  key_users.fetch_add(1, std::memory_order_seq_cst);
  bool has_key = have_thread_key.load(std::memory_order_seq_cst);
  if (has_key) pthread_setspecific(thread_key, cache);
  key_users.fetch_sub(1, std::memory_order_release);
  if (!has_key && __cxa_thread_atexit_impl != nullptr)
    __cxa_thread_atexit_impl(on_thread_exit, cache, &__dso_handle);
}

// Fails if a user of the key does not finish: it may be the caller, below a function of the program
// in front of pthread_setspecific.
bool release_thread_key() {
  if (!have_thread_key.exchange(false, std::memory_order_seq_cst)) return false;
  constexpr uint64_t kPauseNs = 100000;
  constexpr unsigned kMaxPauses = 20000;
  for (unsigned pauses = 0; key_users.load(std::memory_order_seq_cst) != 0; pauses++) {
    os::pause(kPauseNs);
    if (pauses < kMaxPauses) continue;
    have_thread_key.store(true, std::memory_order_seq_cst);
    return false;
  }
  return pthread_key_delete(thread_key) == 0;
}

uint64_t uptime_ns() { return os::monotonic_ns() - loaded_ns; }

void forget_process_in_child() {
  key_users.store(0, std::memory_order_relaxed);
  loaded_ns = os::monotonic_ns();
}

bool process_started() { return phase.load(std::memory_order_acquire) == Phase::kStarted; }

}  // namespace seemalloc
