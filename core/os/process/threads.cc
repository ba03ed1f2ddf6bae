#include "core/os/process/threads.h"

#include <fcntl.h>
#include <linux/stat.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <time.h>

#include "core/base/text.h"
#include "core/base/units.h"
#include "core/os/kernel/files.h"
#include "core/os/kernel/ids.h"
#include "core/os/kernel/syscall.h"
#include "core/os/process/process.h"
#include "core/os/process/socket.h"
#include "core/os/runtime/scratch.h"

namespace seemalloc::os {

namespace {

// linux_dirent64; its name has a variable length.
struct Entry {
  uint64_t inode;
  int64_t offset;
  uint16_t bytes;
  uint8_t type;
  char name[1];
};

// The kernel's struct sigevent: the C libraries name its last field differently.
struct Notification {
  void* value;
  int signal;
  int how;
  int thread;
  char rest[64 - 2 * sizeof(void*) - sizeof(int)];
};
static_assert(sizeof(Notification) == 64);

// The clock of a single thread in the kernel's numbering: the inverted thread id above three bits
// that mean "of a thread, as the scheduler measures it".
long thread_clock_id(int thread, ThreadClock clock) {
  constexpr int kOfThread = 4, kScheduler = 2;
  if (clock == ThreadClock::kWall) return CLOCK_MONOTONIC;
  return static_cast<int>(~static_cast<unsigned>(thread) << 3 | kOfThread | kScheduler);
}

timespec timespec_of(uint64_t ns) {
  return {static_cast<time_t>(ns / kSecondNs), static_cast<long>(ns % kSecondNs)};
}

// Returns 0 when it is not a thread's name.
int parse_thread_id(const char* name) {
  int number = 0;
  for (; *name >= '0' && *name <= '9'; name++) number = number * 10 + (*name - '0');
  return *name == 0 ? number : 0;
}

}  // namespace

bool for_each_thread(void (*visit)(void* context, int thread), void* context) {
  int fd = open_high("/proc/self/task", O_RDONLY | O_DIRECTORY);
  if (fd < 0) return false;
  struct Buffer {
    alignas(Entry) char at[kScratchBytes];
  };
  Scratch<Buffer> buffer;
  long bytes = buffer ? 1 : -1;
  while (buffer && (bytes = sys(SYS_getdents64, fd, as_long(buffer->at), sizeof(Buffer))) > 0 &&
         !sys_failed(bytes)) {
    for (long at = 0; at < bytes;) {
      const Entry* entry = reinterpret_cast<const Entry*>(buffer->at + at);
      int thread = parse_thread_id(entry->name);
      if (thread != 0) visit(context, thread);
      at += entry->bytes;
    }
  }
  close_file(fd);
  return bytes == 0;
}

bool read_thread_name(int thread, char (&name)[kThreadNameBytes]) {
  FixedText<64> path;
  path << "/proc/self/task/" << thread << "/comm";
  int fd = open_high(path.c_str(), O_RDONLY);
  if (fd < 0) return false;
  char read[kThreadNameBytes];  // at most 15 bytes and a newline
  long bytes = read_some(fd, read, sizeof(read));
  close_file(fd);
  if (bytes <= 0) return false;
  size_t length = static_cast<size_t>(bytes) - 1;
  for (size_t i = 0; i < length; i++) name[i] = read[i];
  name[length] = 0;
  return true;
}

bool own_thread_name(char (&name)[kThreadNameBytes]) {
  return !sys_failed(sys(SYS_prctl, PR_GET_NAME, as_long(name)));
}

bool is_thread(int thread) {
  constexpr long kNoSuchProcess = -3;  // -ESRCH
  return sys(SYS_tgkill, process_id(), thread, 0) != kNoSuchProcess;
}

unsigned thread_count() {
  constexpr unsigned kLinksOfNone = 2;  // the directory itself; each thread adds one link
  struct statx status {};
  long result =
      sys(SYS_statx, AT_FDCWD, as_long("/proc/self/task"), 0, STATX_NLINK, as_long(&status));
  return sys_failed(result) || status.stx_nlink < kLinksOfNone ? 0
                                                               : status.stx_nlink - kLinksOfNone;
}

int make_thread_timer(int thread, ThreadClock clock, int signal, void* value) {
  Notification notification{};
  notification.value = value;
  notification.signal = signal;
  notification.how = SIGEV_THREAD_ID;
  notification.thread = thread;
  int timer = -1;
  long result = sys(SYS_timer_create, thread_clock_id(thread, clock), as_long(&notification),
                    as_long(&timer));
  return sys_failed(result) ? static_cast<int>(result) : timer;
}

bool set_timer(int timer, uint64_t first_ns, uint64_t period_ns) {
  itimerspec times{timespec_of(period_ns), timespec_of(first_ns)};
  return !sys_failed(sys(SYS_timer_settime, timer, 0, as_long(&times), 0));
}

bool is_timer_set(int timer) {
  itimerspec times{};
  if (sys_failed(sys(SYS_timer_gettime, timer, as_long(&times)))) return false;
  return times.it_value.tv_sec != 0 || times.it_value.tv_nsec != 0;
}

void delete_timer(int timer) { sys(SYS_timer_delete, timer); }

bool has_profiling_timer() {
  itimerval times{};
  if (sys_failed(sys(SYS_getitimer, ITIMER_PROF, as_long(&times)))) return false;
  return times.it_value.tv_sec != 0 || times.it_value.tv_usec != 0;
}

}  // namespace seemalloc::os
