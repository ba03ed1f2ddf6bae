#include "core/os/runtime/bare_thread.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <time.h>

#include "core/base/units.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/ids.h"
#include "core/os/kernel/memory.h"
#include "core/os/kernel/syscall.h"
#include "core/os/kernel/wait.h"
#include "core/os/runtime/own_image.h"
#include "core/os/runtime/thread_pointer.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SEEMALLOC_ORDINARY_THREAD
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SEEMALLOC_ORDINARY_THREAD
#endif
#endif

#ifdef SEEMALLOC_ORDINARY_THREAD
#include <pthread.h>
#else
#include <elf.h>
#include <linux/sched.h>
#endif

namespace seemalloc::os {

namespace {
// If the call is refused, nothing is known: false.
bool is_listed(int thread) { return thread > 0 && sys(SYS_tgkill, process_id(), thread, 0) == 0; }
}  // namespace

void BareThread::wait_for_end(uint64_t ns) const {
  uint64_t end_ns = monotonic_ns() + ns;
  for (int now; (now = id()) != 0;) {
    uint64_t at_ns = monotonic_ns();
    if (at_ns >= end_ns) return;
    uint64_t left_ns = end_ns - at_ns < kMillisecondNs ? end_ns - at_ns : kMillisecondNs;
    timespec left{0, static_cast<long>(left_ns)};
    // Not FUTEX_WAIT_PRIVATE: at the end of a thread the kernel wakes waiters with a shared futex
    // call.
    long result = sys(SYS_futex, as_long(&id_), FUTEX_WAIT, now, as_long(&left));
    if (sys_failed(result) && result != -ETIMEDOUT && id() == now) pause(left_ns);
  }
  // The kernel clears the id before it removes the thread from the process.
  constexpr uint64_t kStepNs = 20 * kMicrosecondNs;
  int last = last_id_.load(std::memory_order_relaxed);
  while (is_listed(last) && monotonic_ns() < end_ns) pause(kStepNs);
}

#ifdef SEEMALLOC_ORDINARY_THREAD

namespace {
struct Start {
  int (*run)();
  std::atomic<int>*id, *last_id;
};
Start next;
void* run_ordinary(void*) {
  Start mine = next;
  mine.last_id->store(thread_id(), std::memory_order_relaxed);
  mine.id->store(thread_id(), std::memory_order_release);
  mine.run();
  mine.id->store(0, std::memory_order_release);
  return nullptr;
}
}  // namespace

bool BareThread::start(int (*run)(), size_t) {
  next = {run, &id_, &last_id_};
  id_.store(-1, std::memory_order_relaxed);
  pthread_t thread;
  bool started = pthread_create(&thread, nullptr, run_ordinary, nullptr) == 0;
  if (started) pthread_detach(thread);
  if (!started) forget();
  return started;
}

#else

namespace {

// Calls clone(2). The new thread calls `run` on its own stack and then ends. The moves put the
// arguments into the registers of the system call. The new thread's frame is the outermost one of
// its stack: an unwinder stops there.
extern "C" long seemalloc_bare_clone(long flags, uintptr_t stack, std::atomic<int>* id,
                                     uintptr_t thread_pointer, int (*run)());
#if defined(__x86_64__)
__asm__(R"(
  .pushsection .text.seemalloc_bare_clone, "ax", @progbits
  .hidden seemalloc_bare_clone
  .globl seemalloc_bare_clone
  .type seemalloc_bare_clone, @function
seemalloc_bare_clone:
  .cfi_startproc
  mov %r8, %r9
  mov %rcx, %r8
  mov %rdx, %r10
  mov $56, %eax
  syscall
  test %rax, %rax
  jz 1f
  ret
1:
  .cfi_undefined rip
  xor %ebp, %ebp
  call *%r9
  mov %eax, %edi
  mov $60, %eax
  syscall
  hlt
  .cfi_endproc
  .size seemalloc_bare_clone, . - seemalloc_bare_clone
  .popsection
)");
#elif defined(__aarch64__)
__asm__(R"(
  .pushsection .text.seemalloc_bare_clone, "ax", @progbits
  .hidden seemalloc_bare_clone
  .globl seemalloc_bare_clone
  .type seemalloc_bare_clone, @function
seemalloc_bare_clone:
  .cfi_startproc
  mov x5, x4
  mov x4, x2
  mov x8, #220
  svc #0
  cbz x0, 1f
  ret
1:
  .cfi_undefined x30
  mov x29, #0
  mov x30, #0
  blr x5
  mov x8, #93
  svc #0
  brk #0
  .cfi_endproc
  .size seemalloc_bare_clone, . - seemalloc_bare_clone
  .popsection
)");
#endif

// The length of the thread-local memory of the program or library that contains seemalloc.
size_t own_tls_bytes() {
  auto& file = *reinterpret_cast<const Elf64_Ehdr*>(__ehdr_start);
  auto* header = reinterpret_cast<const Elf64_Phdr*>(__ehdr_start + file.e_phoff);
  for (unsigned i = 0; i < file.e_phnum; i++) {
    if (header[i].p_type == PT_TLS) return header[i].p_memsz;
  }
  return 0;
}

// The memory around the thread pointer: on one side thread-local memory, at distances that are the
// same in each thread; on the other side, or on both, the C library's record of the thread.
constexpr uintptr_t kRecordBytes = 8 * KiB;
constexpr uintptr_t kLibcsTlsBytes = 1 * KiB;  // contains errno
constexpr uintptr_t kMaxTlsBytes = 1 * GiB;

struct Around {
  uintptr_t below = kRecordBytes, above = kRecordBytes;

  // Includes the bytes from `at - bytes` to `at + bytes`, where `at` is the variable's address: its
  // position in its block of thread-local memory is unknown.
  void include(const volatile void* variable, uintptr_t bytes, uintptr_t pointer) {
    uintptr_t at = reinterpret_cast<uintptr_t>(variable);
    if (at < pointer && pointer - at + bytes > below) below = pointer - at + bytes;
    if (at >= pointer && at - pointer + bytes > above) above = at - pointer + bytes;
  }
};

Around around(uintptr_t pointer) {
  Around needed;
  needed.include(&sandbox::is_helper, own_tls_bytes(), pointer);
  needed.include(&errno, kLibcsTlsBytes, pointer);
  return needed;
}

// Writes the words of the thread's record that any function of the C library may read. The ABI
// fixes their offsets.
void write_record([[maybe_unused]] uintptr_t pointer, [[maybe_unused]] uintptr_t of_caller) {
#if defined(__x86_64__)
  constexpr size_t kSelf = 0x00, kSelfAgain = 0x10, kStackGuard = 0x28, kPointerGuard = 0x30;
  auto word = [](uintptr_t base, size_t offset) -> uintptr_t& {
    return *reinterpret_cast<uintptr_t*>(base + offset);
  };
  word(pointer, kSelf) = word(pointer, kSelfAgain) = pointer;
  word(pointer, kStackGuard) = word(of_caller, kStackGuard);
  word(pointer, kPointerGuard) = word(of_caller, kPointerGuard);
#endif
}

}  // namespace

// Maps, in order of addresses: a guard page, the stack, and the memory around the thread pointer.
// The thread pointer has the same offset in its page as the caller's, so that all alignments are
// the same.
bool BareThread::make_room(size_t stack_bytes) {
  if (char* memory = memory_.load(std::memory_order_acquire))
    return purge(memory, bytes_, Reason::kRecords);
  uintptr_t page = page_bytes(), pointer = thread_pointer();
  Around needed = around(pointer);
  if (needed.below > kMaxTlsBytes || needed.above > kMaxTlsBytes) return false;
  uintptr_t below = page + round_up(stack_bytes, page) + round_up(needed.below, page);
  bytes_ = below + page + round_up(needed.above, page);
  auto* memory = static_cast<char*>(map(bytes_, Reason::kRecords));
  if (memory == nullptr) return false;
  sys(SYS_mprotect, as_long(memory), static_cast<long>(page), PROT_NONE);
  thread_pointer_ = reinterpret_cast<uintptr_t>(memory) + below + pointer % page;
  // Last: another thread may fork at any point, and the child must find all of it or nothing.
  memory_.store(memory, std::memory_order_release);
  return true;
}

bool BareThread::start(int (*run)(), size_t stack_bytes) {
  if (!make_room(stack_bytes)) return false;
  uintptr_t of_caller = thread_pointer();
  write_record(thread_pointer_, of_caller);
  uintptr_t stack =
      round_down(reinterpret_cast<uintptr_t>(memory_.load(std::memory_order_relaxed)) +
                     page_bytes() + stack_bytes,
                 16);
  constexpr long kFlags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                          CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
  if (refusal(SYS_clone) != 0) return false;
  long result = seemalloc_bare_clone(kFlags, stack, &id_, thread_pointer_, run);
  if (sys_failed(result)) return false;
  last_id_.store(static_cast<int>(result), std::memory_order_relaxed);
  return true;
}

#endif

}  // namespace seemalloc::os
