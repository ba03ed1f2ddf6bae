#include "core/os/os.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>

#include <atomic>

#include "core/base/check.h"
#include "core/base/counters.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/os/cgroup.h"
#include "core/os/scratch.h"
#include "core/os/syscall.h"
#include "core/os/vdso.h"

namespace seemalloc {

void warn(const char* text) {
  if (os::is_limited()) return;  // a warning is not worth a system call that may end the process
  FixedText<512> line;
  line << "seemalloc: " << text;
  line.end_line();
  os::write_stderr(line.c_str(), line.size());
}

void (*before_abort)() = nullptr;

namespace {
[[noreturn]] void abort_now() {
  if (before_abort != nullptr) before_abort();
  // Not abort(): it may flush or lock inside a libc of unknown state. Sends SIGABRT to this thread, then traps. Also in
  // a sandbox: the process ends in any case.
  long process = os::raw_sys(SYS_getpid, 0, 0, 0, 0, 0, 0), thread = os::raw_sys(SYS_gettid, 0, 0, 0, 0, 0, 0);
  os::raw_sys(SYS_tgkill, process, thread, /*SIGABRT=*/6, 0, 0, 0);
  __builtin_trap();
}
}  // namespace

void fatal(const char* kind, const void* address) {
  FixedText<256> line;
  line << "seemalloc: " << kind << " " << Hex{reinterpret_cast<uint64_t>(address)} << "\n";
  os::write_stderr(line.c_str(), line.size());
  abort_now();
}

void fatal_text(const char* text) {
  FixedText<1024> line;
  line << "seemalloc: " << text;
  line.end_line();
  os::write_stderr(line.c_str(), line.size());
  abort_now();
}

void check_failed(const char* condition, const char* file, int line) {
  FixedText<512> text;
  text << "seemalloc: internal check failed: " << condition << " at " << file << ":" << line << "\n";
  os::write_stderr(text.c_str(), text.size());
  abort_now();
}

}  // namespace seemalloc

namespace seemalloc::os {

#ifdef __SANITIZE_THREAD__
// Operations of one thread on a mapping happen before another thread gets the same addresses: the kernel ensures it,
// but ThreadSanitizer does not see our system calls and must be told.
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
static char address_space;
static void before_unmapping() { __tsan_release(&address_space); }
static void after_moving() { __tsan_acquire(&address_space); }
// Stacks of ended threads are unmapped without ThreadSanitizer's knowledge. libc's mmap, which it intercepts, makes it
// forget them.
static void after_mapping(long start, size_t bytes) {
  after_moving();
  mmap(reinterpret_cast<void*>(start), bytes, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
#else
static void before_unmapping() {}
static void after_moving() {}
static void after_mapping(long, size_t) {}
#endif

#ifdef SEEMALLOC_FAULT_INJECTION
std::atomic<long (*)(long number)> fault_hook{nullptr};
std::atomic<uint64_t> test_clock_ns{0}, test_cpu_ns{1};
std::atomic<uint64_t> test_random_state{0};  // base/seed_for_test.h
#endif

namespace {

// Bytes that remapping has added to the address space and removed from it.
std::atomic<uint64_t> remap_grown_bytes, remap_gone_bytes;

void count(std::atomic<uint64_t>& counter, uint64_t by) { counter.fetch_add(by, std::memory_order_relaxed); }

uint64_t kernel_clock(clockid_t id) {
  timespec t{};
  read_clock(id, &t);
  return static_cast<uint64_t>(t.tv_sec) * kSecond_ns + static_cast<uint64_t>(t.tv_nsec);
}

// The last reading of a CPU time clock, and when it was taken. Reading that clock is a system call. While system calls
// are forbidden, elapsed time is counted as CPU time.
struct LastCpu {
  std::atomic<uint64_t> shown{0}, at_ns{0};  // of different moments, if two threads read at once

  uint64_t read(clockid_t id) {
    uint64_t now = kernel_clock(CLOCK_MONOTONIC), since = minus(now, at_ns.load(std::memory_order_relaxed));
    uint64_t used = is_limited() ? shown.load(std::memory_order_relaxed) + since : kernel_clock(id);
    shown.store(used, std::memory_order_relaxed);
    at_ns.store(now, std::memory_order_relaxed);
    return used;
  }
};
constinit LastCpu process_cpu;
constinit thread_local LastCpu thread_cpu __attribute__((tls_model("initial-exec")));

uint64_t clock_ns(clockid_t id) {
#ifdef SEEMALLOC_FAULT_INJECTION
  uint64_t shown = id != CLOCK_REALTIME ? test_clock_ns.load(std::memory_order_relaxed) : 0;
  if (shown != 0) return id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_COARSE ? shown : test_cpu_ns.load(std::memory_order_relaxed);
#endif
  if (id == CLOCK_THREAD_CPUTIME_ID) return thread_cpu.read(id);
  if (id == CLOCK_PROCESS_CPUTIME_ID) return process_cpu.read(id);
  return kernel_clock(id);
}

}  // namespace

size_t page_bytes() {
  static std::atomic<size_t> cached{0};
  size_t bytes = cached.load(std::memory_order_relaxed);
  if (bytes == 0) {
    bytes = getauxval(AT_PAGESZ);
    if (!is_power_of_two(bytes)) bytes = 4096;
    cached.store(bytes, std::memory_order_relaxed);
  }
  return bytes;
}

void* map(size_t bytes, Reason reason) {
  long result = counted_call(Call::kMap, reason, bytes,
                             {SYS_mmap, 0, static_cast<long>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1});
  if (sys_failed(result)) return nullptr;
  after_mapping(result, bytes);
  return reinterpret_cast<void*>(result);
}

void* map_aligned(size_t bytes, size_t alignment, Reason reason) {
  void* start = map(bytes, reason);
  if (start == nullptr || (reinterpret_cast<uintptr_t>(start) & (alignment - 1)) == 0) return start;
  unmap(start, bytes, reason);
  if (bytes + alignment < bytes) return nullptr;
  start = map(bytes + alignment, reason);
  if (start == nullptr) return nullptr;
  uintptr_t first = reinterpret_cast<uintptr_t>(start);
  uintptr_t aligned = round_up(first, alignment);
  uintptr_t end = first + bytes + alignment;
  // If trimming is refused, the ends stay mapped and untouched: this costs address space but no memory.
  if (aligned != first) unmap(start, aligned - first, reason);
  if (end != aligned + bytes) unmap(reinterpret_cast<void*>(aligned + bytes), end - (aligned + bytes), reason);
  return reinterpret_cast<void*>(aligned);
}

namespace {
// Returns 0 or -errno.
int map_exactly(uintptr_t start, size_t bytes, Reason reason) {
  // MAP_FIXED_NOREPLACE, Linux 4.17. For an older kernel the address is a hint. Likewise in a sandbox, since its filter
  // may check the flags.
  const long fixed_no_replace = is_limited() ? 0 : 0x100000;
  long result = counted_call(Call::kMap, reason, bytes,
                             {SYS_mmap, static_cast<long>(start), static_cast<long>(bytes), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | fixed_no_replace, -1});
  if (sys_failed(result)) return static_cast<int>(result);
  after_mapping(result, bytes);
  if (static_cast<uintptr_t>(result) == start) return 0;
  unmap(reinterpret_cast<void*>(result), bytes, reason);
  return -EEXIST;
}
}  // namespace

bool map_at(uintptr_t start, size_t bytes, Reason reason) { return map_exactly(start, bytes, reason) == 0; }

bool map_behind(uintptr_t start, size_t bytes, Reason reason) {
  int result = map_exactly(start, bytes, reason);
  if (result != -ENOMEM) return result == 0;
  size_t page = page_bytes();
  if (remap(reinterpret_cast<void*>(start - page), page, page + bytes, nullptr, reason) == nullptr) return false;
  after_mapping(static_cast<long>(start), bytes);
  return true;
}

bool unmap(void* start, size_t bytes, Reason reason) {
  before_unmapping();
  return !sys_failed(counted_call(Call::kUnmap, reason, bytes, {SYS_munmap, as_long(start), static_cast<long>(bytes)}));
}

namespace {
// In a sandbox, only advice that returns memory is allowed.
bool advise(Call call, Reason reason, void* start, size_t bytes, long advice) {
  if (advice != MADV_DONTNEED && advice != MADV_FREE && is_limited()) return false;
  return !sys_failed(counted_call(call, reason, bytes, {SYS_madvise, as_long(start), static_cast<long>(bytes), advice}));
}
}  // namespace

bool purge(void* start, size_t bytes, Reason reason) { return advise(Call::kDontNeed, reason, start, bytes, MADV_DONTNEED); }
bool purge_lazily(void* start, size_t bytes, Reason reason) { return advise(Call::kFree, reason, start, bytes, MADV_FREE); }

bool set_huge_pages(void* start, size_t bytes, bool on) {
  if (on) return advise(Call::kHugePage, Reason::kHugePages, start, bytes, MADV_HUGEPAGE);
  return advise(Call::kNoHugePage, Reason::kHugePages, start, bytes, MADV_NOHUGEPAGE);
}

int collapse_into_huge_pages(void* start, size_t bytes) {
  constexpr long kCollapse = 25;  // MADV_COLLAPSE, not in older headers
  if (is_limited()) return static_cast<int>(kLimited);
  return static_cast<int>(
      counted_call(Call::kCollapse, Reason::kHugePages, bytes, {SYS_madvise, as_long(start), static_cast<long>(bytes), kCollapse}));
}

void split_huge_page(void* start, size_t bytes) { advise(Call::kFree, Reason::kHugePages, start, bytes, MADV_FREE); }

void* remap(void* start, size_t old_bytes, size_t new_bytes, void* target, Reason reason) {
  before_unmapping();
  long result = counted_call(Call::kRemap, reason, new_bytes,
                             {SYS_mremap, as_long(start), static_cast<long>(old_bytes), static_cast<long>(new_bytes),
                              target != nullptr ? MREMAP_MAYMOVE | MREMAP_FIXED : 0, as_long(target)});
  if (sys_failed(result)) return nullptr;
  if (target != nullptr) {
    count(remap_gone_bytes, old_bytes);  // the target's bytes were counted when it was mapped
  } else if (new_bytes > old_bytes) {
    count(remap_grown_bytes, new_bytes - old_bytes);
  } else {
    count(remap_gone_bytes, old_bytes - new_bytes);
  }
  after_moving();
  return reinterpret_cast<void*>(result);
}

bool is_one_mapping(void* start, size_t bytes, Reason reason) {
  // Tries to grow by a page in place: the kernel first checks whether the mapping reaches that far.
  constexpr long kEndsBefore = -EFAULT;
  long result = counted_call(Call::kRemapProbe, reason, 0,
                             {SYS_mremap, as_long(start), static_cast<long>(bytes), static_cast<long>(bytes + page_bytes())});
  if (!sys_failed(result)) unmap(static_cast<char*>(start) + bytes, page_bytes(), reason);
  return result != kEndsBefore;
}

// Always moves to a greater length. From Linux 6.17 on, a move of equal lengths accepts a range of several mappings and
// moves them one after the other; if it is refused in the middle, some have moved. When the length changes, the kernel
// checks first, in every version, that the range is in one mapping, and moves all of it or nothing (mm/mremap.c:
// vrm_move_only, move_vma). MREMAP_DONTUNMAP is not used: it requires equal lengths, and locked memory (mlock) stays
// counted as locked forever.
Moved move_pages(void* start, size_t bytes, void* target, size_t new_bytes, Reason reason) {
  DCHECK(new_bytes > bytes);
  before_unmapping();
  long result = counted_call(Call::kRemap, reason, bytes,
                             {SYS_mremap, as_long(start), static_cast<long>(bytes), static_cast<long>(new_bytes),
                              MREMAP_MAYMOVE | MREMAP_FIXED, as_long(target)});
  if (sys_failed(result)) {
    // Unknown to the kernel or forbidden: it has not begun. Otherwise it may have unmapped the target already.
    return result == -EPERM || result == -ENOSYS || result == -EINVAL ? Moved::kRefused : Moved::kRefusedTargetLost;
  }
  count(remap_gone_bytes, bytes);  // the target's bytes were counted when it was mapped
  after_moving();
  return Moved::kYes;
}

namespace {
constexpr size_t kPagesOfLook = 1024;  // pages reported by one call
}

Told ask_resident_pages(const void* start, size_t bytes, Reason reason, unsigned char* there) {
  size_t whole = round_up(bytes, page_bytes());
  long result = counted_call(Call::kMincore, reason, whole, {SYS_mincore, as_long(start), static_cast<long>(whole), as_long(there)});
  if (!sys_failed(result)) return Told::kYes;
  return result == -ENOMEM ? Told::kNothingThere : Told::kRefused;
}

bool ask_resident_bytes(const void* start, size_t bytes, Reason reason, size_t* out) {
  unsigned char present[kPagesOfLook];
  size_t page = page_bytes();
  size_t resident = 0;
  uintptr_t at = round_down(reinterpret_cast<uintptr_t>(start), page);
  uintptr_t end = reinterpret_cast<uintptr_t>(start) + bytes;
  while (at < end) {
    size_t pages = (end - at + page - 1) / page;
    if (pages > sizeof(present)) pages = sizeof(present);
    if (ask_resident_pages(reinterpret_cast<void*>(at), pages * page, reason, present) != Told::kYes) return false;
    for (size_t i = 0; i < pages; i++) resident += (present[i] & 1) ? page : 0;
    at += pages * page;
  }
  *out = resident;
  return true;
}

size_t resident_bytes(const void* start, size_t bytes, Reason reason) {
  size_t resident = 0;
  ask_resident_bytes(start, bytes, reason, &resident);
  return resident;
}

size_t estimate_resident_bytes(const void* start, size_t bytes, Reason reason) {
  constexpr size_t kSamples = 4;
  constexpr size_t kPagesOfSample = 256;
  size_t sample = kPagesOfSample * page_bytes();
  // Counting all pages takes no more calls than sampling.
  if (bytes <= kSamples * kPagesOfLook * page_bytes()) return resident_bytes(start, bytes, reason);
  constexpr uint8_t kOrder[kSamples] = {1, 3, 0, 2};
  constexpr size_t kEnough = 3;  // samples that are all empty or all full
  size_t step = round_down(bytes / kSamples, page_bytes()), resident = 0;
  for (size_t i = 0; i < kSamples; i++) {
    if (i == kEnough && resident == 0) return 0;
    if (i == kEnough && resident == kEnough * sample) return bytes;
    // Samples the middle of each part: memory that was written from the start on is then counted by the parts that it
    // fills.
    uintptr_t at = reinterpret_cast<uintptr_t>(start) + kOrder[i] * step + round_down((step - sample) / 2, page_bytes());
    resident += resident_bytes(reinterpret_cast<const void*>(at), sample, reason);
  }
  return resident / page_bytes() * (bytes / (kSamples * kPagesOfSample));
}

namespace {
// The last known ids, used when the kernel may not be called. A forked child starts without.
constinit std::atomic<int> known_process{0};
constinit thread_local int known_thread __attribute__((tls_model("initial-exec"))) = 0;

// For a thread that started in a sandbox: not a real thread id, but unique among living threads.
int made_up_thread_id() {
  constexpr uintptr_t kMostThreads = 1 << 22, kBits = (1 << 30) - 1;
  return static_cast<int>((reinterpret_cast<uintptr_t>(&known_thread) / alignof(max_align_t) & kBits) | kMostThreads);
}
}  // namespace

void forget_counters_in_child() {
  forget_scratch_in_child();
  known_process.store(0, std::memory_order_relaxed);
  known_thread = 0;
  forget_calls_in_child();
  set_to_zero(remap_grown_bytes, remap_gone_bytes);
}

Counters counters() {
  CallCount map = call_count(Call::kMap), unmap = call_count(Call::kUnmap), purge = call_count(Call::kDontNeed);
  Counters c{};
  c.map_calls = map.calls;
  c.map_bytes = map.bytes + remap_grown_bytes.load(std::memory_order_relaxed);
  c.unmap_calls = unmap.calls;
  c.unmap_bytes = unmap.bytes + remap_gone_bytes.load(std::memory_order_relaxed);
  c.purge_calls = purge.calls;
  c.purge_bytes = purge.bytes;
  c.remap_calls = call_count(Call::kRemap).calls + call_count(Call::kRemapProbe).calls;
  c.huge_page_calls = call_count(Call::kHugePage).calls;
  for (unsigned i = 0; i < kCalls; i++) c.refused_calls += call_count(static_cast<Call>(i)).refused;
  return c;
}

uint64_t monotonic_ns() { return clock_ns(CLOCK_MONOTONIC); }
uint64_t coarse_monotonic_ns() { return clock_ns(CLOCK_MONOTONIC_COARSE); }
uint64_t realtime_ns() { return clock_ns(CLOCK_REALTIME); }
uint64_t thread_cpu_ns() { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }
uint64_t process_cpu_ns() { return clock_ns(CLOCK_PROCESS_CPUTIME_ID); }

int process_id() {
  long id = sys(SYS_getpid);
  if (sys_failed(id)) return known_process.load(std::memory_order_relaxed);
  known_process.store(static_cast<int>(id), std::memory_order_relaxed);
  return static_cast<int>(id);
}

int thread_id() {
  long id = sys(SYS_gettid);
  if (!sys_failed(id)) known_thread = static_cast<int>(id);
  return known_thread != 0 ? known_thread : made_up_thread_id();
}

namespace {
unsigned affinity_count() {
  unsigned long mask[1024 / (8 * sizeof(unsigned long))] = {};
  long bytes = sys(SYS_sched_getaffinity, 0, sizeof(mask), as_long(mask));
  unsigned count = 0;
  if (!sys_failed(bytes)) {
    for (unsigned long word : mask) {
      for (; word != 0; word &= word - 1) count++;
    }
  }
  return count == 0 ? 1 : count;
}
}  // namespace

unsigned cpu_count() {
  unsigned cpus = affinity_count();
  unsigned quota = cpus > 1 ? cpu_quota() : 0;
  return quota != 0 && quota < cpus ? quota : cpus;
}

uint64_t random_bits() {
  uint64_t bits = 0;
#ifdef SEEMALLOC_FAULT_INJECTION
  if (test_random_state.load(std::memory_order_relaxed) != 0) {
    bits = test_random_state.fetch_add(0x9E3779B97F4A7C15u, std::memory_order_relaxed) * 0xBF58476D1CE4E5B9u;
    return bits ^ (bits >> 31);
  }
#endif
  constexpr long kGrndNonblock = 1;
  if (sys(SYS_getrandom, as_long(&bits), sizeof(bits), kGrndNonblock) == static_cast<long>(sizeof(bits))) return bits;
  bits = monotonic_ns() ^ (reinterpret_cast<uintptr_t>(&bits) << 16) ^ (static_cast<uint64_t>(thread_id()) << 40);
  bits *= 0x9E3779B97F4A7C15u;
  return bits ^ (bits >> 29);
}

bool is_privileged() { return getauxval(AT_SECURE) != 0; }

int open_file(const char* path, int flags, unsigned mode) {
  return static_cast<int>(sys(SYS_openat, AT_FDCWD, as_long(path), flags | O_CLOEXEC, static_cast<long>(mode)));
}

void close_file(int fd) { sys(SYS_close, fd); }

namespace {
constexpr long kInterrupted = -4;  // -EINTR
}

long read_some(int fd, void* buffer, size_t bytes) {
  long result;
  do {
    result = sys(SYS_read, fd, as_long(buffer), static_cast<long>(bytes));
  } while (result == kInterrupted);
  return result;
}

long read_at(int fd, void* buffer, size_t bytes, uint64_t offset) {
  long result;
  do {
    result = sys(SYS_pread64, fd, as_long(buffer), static_cast<long>(bytes), static_cast<long>(offset));
  } while (result == kInterrupted);
  return result;
}

int write_all(int fd, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes != 0) {
    long result = sys(SYS_write, fd, as_long(at), static_cast<long>(bytes));
    if (result == kInterrupted) continue;
    if (sys_failed(result)) return static_cast<int>(result);
    at += result;
    bytes -= static_cast<size_t>(result);
  }
  return 0;
}

// For output that the program requested, and for the line before the process ends. Works in a sandbox too.
void write_stderr(const char* text, size_t bytes) {
  while (bytes != 0) {
    long result = raw_sys(SYS_write, 2, as_long(text), static_cast<long>(bytes), 0, 0, 0);
    if (result == kInterrupted) continue;
    if (sys_failed(result)) return;
    text += result;
    bytes -= static_cast<size_t>(result);
  }
}

int rename_file(const char* from, const char* to) {
  return static_cast<int>(sys(SYS_renameat2, AT_FDCWD, as_long(from), AT_FDCWD, as_long(to), 0));
}

int remove_file(const char* path) { return static_cast<int>(sys(SYS_unlinkat, AT_FDCWD, as_long(path), 0)); }

namespace {

// A separate function for each number of pieces: one piece needs little stack.
template <unsigned kMost>
SEEMALLOC_ALWAYS_INLINE bool read_pieces(const MemoryPiece* pieces, unsigned count) {
  iovec local[kMost], remote[kMost];
  size_t bytes = 0;
  for (unsigned i = 0; i < count; i++) {
    local[i] = {pieces[i].to, pieces[i].bytes};
    remote[i] = {reinterpret_cast<void*>(pieces[i].from), pieces[i].bytes};
    bytes += pieces[i].bytes;
  }
  // By thread id: if the main thread has ended, the process id no longer refers to this memory.
  long result = sys(SYS_process_vm_readv, thread_id(), as_long(local), count, as_long(remote), count, 0);
  if (result == static_cast<long>(bytes)) return true;
  constexpr long kFault = -14;
  if (!sys_failed(result) || result == kFault) return false;
  // If a sandbox refuses the call, read the same memory through the file.
  int fd = open_file("/proc/thread-self/mem", O_RDONLY);
  if (fd < 0) return false;
  bool all = true;
  for (unsigned i = 0; i < count && all; i++) {
    long size = static_cast<long>(pieces[i].bytes);
    all = sys(SYS_pread64, fd, as_long(pieces[i].to), size, static_cast<long>(pieces[i].from)) == size;
  }
  close_file(fd);
  return all;
}

}  // namespace

bool read_memory(const void* from, void* to, size_t bytes) {
  MemoryPiece piece{reinterpret_cast<uintptr_t>(from), to, bytes};
  return read_pieces<1>(&piece, 1);
}

bool read_memory(const MemoryPiece* pieces, unsigned count) { return read_pieces<kMostMemoryPieces>(pieces, count); }

namespace {
timespec timespec_of(uint64_t ns) { return {static_cast<time_t>(ns / kSecond_ns), static_cast<long>(ns % kSecond_ns)}; }

// The call has waited, or need not wait.
bool has_waited(long result) { return !sys_failed(result) || result == -ETIMEDOUT || result == -EAGAIN || result == -EINTR; }

constinit std::atomic<bool> no_call_pauses{false};
}  // namespace

bool futex_wait(const void* word, uint32_t expected, uint64_t timeout_ns) {
  timespec timeout = timespec_of(timeout_ns);
  return has_waited(sys(SYS_futex, as_long(word), FUTEX_WAIT_PRIVATE, static_cast<long>(expected), timeout_ns != 0 ? as_long(&timeout) : 0));
}

bool fence_all_threads() {
  constexpr long kPrivateExpedited = 1 << 3, kRegisterPrivateExpedited = 1 << 4;
  if (!sys_failed(sys(SYS_membarrier, kPrivateExpedited))) return true;
  // Refused until the process has registered, which is free for a process of one thread and costs a grace period later.
  return !sys_failed(sys(SYS_membarrier, kRegisterPrivateExpedited)) && !sys_failed(sys(SYS_membarrier, kPrivateExpedited));
}

void pause(uint64_t ns) {
  const uint32_t never = 0;  // never woken
  if (ns == 0 || futex_wait(&never, 0, ns)) return;
  timespec time = timespec_of(ns);
  if (has_waited(sys(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, as_long(&time)))) return;
  if (has_waited(sys(SYS_ppoll, 0, 0, as_long(&time)))) return;
  no_call_pauses.store(true, std::memory_order_relaxed);
}

bool can_pause() { return !no_call_pauses.load(std::memory_order_relaxed); }

void futex_wake(const void* word, int count) { sys(SYS_futex, as_long(word), FUTEX_WAKE_PRIVATE, count); }

}  // namespace seemalloc::os
