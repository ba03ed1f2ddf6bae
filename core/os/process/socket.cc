#include "core/os/process/socket.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <linux/stat.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include "core/base/text.h"
#include "core/base/units.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/files.h"
#include "core/os/kernel/signal_mask.h"
#include "core/os/kernel/syscall.h"
#include "core/os/kernel/wait.h"
#include "core/os/process/process.h"

namespace seemalloc::os {

namespace {

constexpr long kInterrupted = -4;  // -EINTR
constexpr long kWouldBlock = -11;  // -EAGAIN
constexpr int kNameTooLong = -36;  // -ENAMETOOLONG
constexpr int kInUse = -98;        // -EADDRINUSE

// Programs rely on the low descriptor numbers: they close standard streams and expect the next open
// to get the lowest free number, and they list the open descriptors (Python's own tests look at
// 256). Our numbers are above these; if the limit is lower, they are above 2.
int move_to_high_descriptor(int fd) {
  constexpr int kOurs = 256, kAboveStandardStreams = 3;
  if (fd < 0) return fd;
  int moved = static_cast<int>(sys(SYS_fcntl, fd, F_DUPFD_CLOEXEC, kOurs));
  if (moved < 0)
    moved = static_cast<int>(sys(SYS_fcntl, fd, F_DUPFD_CLOEXEC, kAboveStandardStreams));
  close_file(fd);
  return moved;
}

bool status_of(int folder_fd, const char* path, int flags, unsigned mask, struct statx* out) {
  return !sys_failed(
      sys(SYS_statx, folder_fd, as_long(path), flags, static_cast<long>(mask), as_long(out)));
}

// Whether the descriptor is a pipe, a terminal or another character device that belongs to the user
// or to root. Another user may have replaced the file: nothing is written to his pipe, through a
// link to a disk, or through a link to a file of ours that was not there when the path was checked.
bool is_trusted(int fd) {
  struct statx status {};
  if (!status_of(fd, "", AT_EMPTY_PATH, STATX_UID | STATX_TYPE, &status)) return false;
  return (S_ISFIFO(status.stx_mode) || S_ISCHR(status.stx_mode)) &&
         (status.stx_uid == effective_user() || status.stx_uid == 0);
}

// Writes to a non-blocking descriptor. Each part has a time limit, and so has the whole.
int write_in_time(int fd, const char* data, size_t bytes) {
  constexpr uint64_t kNoProgressNs = 5 * kSecondNs, kAllNs = 30 * kSecondNs;
  constexpr uint64_t kStepNs = 100 * kMillisecondNs;
  constexpr int kTimedOut = -110;  // -ETIMEDOUT
  uint64_t began_ns = monotonic_ns(), moved_ns = began_ns;
  while (bytes != 0) {
    long result = sys_uninterrupted(SYS_write, fd, as_long(data), static_cast<long>(bytes));
    if (sys_failed(result) && result != kWouldBlock) return static_cast<int>(result);
    uint64_t now_ns = monotonic_ns();
    if (result == kWouldBlock) {
      if (now_ns - moved_ns >= kNoProgressNs || now_ns - began_ns >= kAllNs) return kTimedOut;
      Poll room{fd, false, false, false, true};
      poll_ready(&room, 1, kStepNs);
      if (!room.ready) pause(kMillisecondNs);  // the poll may have been refused
      continue;
    }
    data += result;
    bytes -= static_cast<size_t>(result);
    moved_ns = now_ns;
  }
  return 0;
}

// The same for a pipe. A reader that closes it is an error, and sends no signal to the program.
int write_without_signal(int fd, const char* data, size_t bytes) {
  constexpr int kBrokenPipe = -32;  // -EPIPE
  MaskBefore before = change_signal_mask(SIG_BLOCK, mask_of(SIGPIPE));
  bool was_pending = is_signal_pending(SIGPIPE);
  int result = write_in_time(fd, data, bytes);
  if (result == kBrokenPipe && !was_pending) take_signal(SIGPIPE);
  restore_signal_mask(before);
  return result;
}

}  // namespace

int write_special_file(const char* path, const char* data, size_t bytes) {
  constexpr int kDenied = -13;  // -EACCES
  int fd = open_file(path, O_WRONLY | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return fd;
  int result = is_trusted(fd) ? write_without_signal(fd, data, bytes) : kDenied;
  close_file(fd);
  return result;
}

int make_private_directory(const char* path) {
  long made = sys(SYS_mkdirat, AT_FDCWD, as_long(path), 0700);
  struct statx status {};
  long found = sys(SYS_statx, AT_FDCWD, as_long(path), AT_SYMLINK_NOFOLLOW,
                   STATX_TYPE | STATX_MODE | STATX_UID, as_long(&status));
  if (sys_failed(found)) return static_cast<int>(sys_failed(made) ? made : found);
  if (!S_ISDIR(status.stx_mode)) return kNoDirectory;
  if (status.stx_uid != effective_user()) return kDirectoryOfAnotherUser;
  return (status.stx_mode & 077) == 0 ? 0 : kDirectoryOpenToOthers;
}

namespace {

// Returns false if the path is too long.
bool set_address(const char* path, sockaddr_un* address) {
  address->sun_family = AF_UNIX;
  size_t length = text_length(path);
  if (length == 0 || length >= sizeof(address->sun_path)) return false;
  for (size_t i = 0; i < length; i++) address->sun_path[i] = path[i];
  return true;
}

// Another process may have the same process id, in another pid namespace, and use the same
// directory.
bool is_listened_to(const sockaddr_un& address) {
  int fd = move_to_high_descriptor(
      static_cast<int>(sys(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)));
  if (fd < 0) return false;
  long result = sys(SYS_connect, fd, as_long(&address), sizeof(address));
  close_file(fd);
  return !sys_failed(result) || result == kWouldBlock;  // its queue may be full
}

}  // namespace

int listen_unix(const char* path) {
  sockaddr_un address{};
  if (!set_address(path, &address)) return kNameTooLong;
  if (!(identity(path) == FileIdentity{}) && is_listened_to(address)) return kInUse;
  int fd = move_to_high_descriptor(
      static_cast<int>(sys(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)));
  if (fd < 0) return fd;
  // A client that connects between bind and listen is refused, as if the socket were a leftover. So
  // the final name appears only when the socket can be used.
  address.sun_path[text_length(path) - 1] = '~';
  remove_file(address.sun_path);
  long result = sys(SYS_bind, fd, as_long(&address), sizeof(address));
  if (!sys_failed(result)) result = sys(SYS_fchmodat, AT_FDCWD, as_long(address.sun_path), 0600);
  if (!sys_failed(result)) result = sys(SYS_listen, fd, 16);
  if (!sys_failed(result)) result = rename_file(address.sun_path, path);
  if (sys_failed(result)) {
    close_file(fd);
    remove_file(address.sun_path);
    return static_cast<int>(result);
  }
  return fd;
}

void stop_listening(int listener) { sys(SYS_shutdown, listener, SHUT_RDWR); }

int accept_unix(int listener, unsigned* peer_user) {
  int fd = move_to_high_descriptor(
      static_cast<int>(sys(SYS_accept4, listener, 0, 0, SOCK_CLOEXEC | SOCK_NONBLOCK)));
  if (fd < 0) return fd;
  struct {
    int process;
    unsigned user, group;
  } peer{};
  unsigned size = sizeof(peer);
  long result = sys(SYS_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, as_long(&peer), as_long(&size));
  if (sys_failed(result)) {
    close_file(fd);
    return static_cast<int>(result);
  }
  *peer_user = peer.user;
  return fd;
}

long receive_now(int fd, void* buffer, size_t bytes) {
  return sys_uninterrupted(SYS_recvfrom, fd, as_long(buffer), static_cast<long>(bytes),
                           MSG_DONTWAIT);
}

long send_now(int fd, const void* data, size_t bytes) {
  return sys_uninterrupted(SYS_sendto, fd, as_long(data), static_cast<long>(bytes),
                           MSG_NOSIGNAL | MSG_DONTWAIT);
}

int make_memory_file(const char* name) {
  return move_to_high_descriptor(
      static_cast<int>(sys(SYS_memfd_create, as_long(name), MFD_CLOEXEC)));
}

bool secret_bits(void* out, size_t bytes) {
  constexpr long kGrndNonblock = 1;
  return sys(SYS_getrandom, as_long(out), static_cast<long>(bytes), kGrndNonblock) ==
         static_cast<long>(bytes);
}

int open_high(const char* path, int flags) {
  return move_to_high_descriptor(open_file(path, flags));
}

void make_room_for_descriptors() {
  int any = open_high("/", O_PATH);
  if (any >= 0) close_file(any);
}

int watch_stalls(const char* pressure_file) {
  // 50 ms of each second; without CAP_SYS_RESOURCE (Linux 6.5) a window is as long as the kernel's
  // own averages are apart.
  constexpr const char* kTriggers[] = {"some 50000 1000000", "some 100000 2000000"};
  int fd = open_high(pressure_file, O_RDWR | O_NONBLOCK);
  if (fd < 0) return fd;
  int result = 0;
  for (const char* trigger : kTriggers) {
    result = write_all(fd, trigger, text_length(trigger) + 1);
    if (result == 0) return fd;
  }
  close_file(fd);
  return result;
}

namespace {
uint64_t set_of(int signal) { return uint64_t{1} << (signal - 1); }
}  // namespace

int watch_signal(int signal) {
  uint64_t set = set_of(signal);
  return move_to_high_descriptor(
      static_cast<int>(sys(SYS_signalfd4, -1, as_long(&set), sizeof(set), O_CLOEXEC | O_NONBLOCK)));
}

bool take_signal(int signal, siginfo_t* info) {
  uint64_t set = set_of(signal);
  timespec now{};
  return !sys_failed(
      sys(SYS_rt_sigtimedwait, as_long(&set), as_long(info), as_long(&now), sizeof(set)));
}

bool is_signal_pending(int signal) {
  uint64_t pending = 0;
  return !sys_failed(sys(SYS_rt_sigpending, as_long(&pending), sizeof(pending))) &&
         (pending & set_of(signal)) != 0;
}

void poll_ready(Poll* polls, size_t count, uint64_t timeout_ns) {
  constexpr size_t kMax = 32;
  if (count > kMax) count = kMax;
  // Leaves out descriptors that are not open, because the kernel compares the number of entries
  // with the limit of open files.
  pollfd fds[kMax];
  size_t open = 0;
  for (size_t i = 0; i < count; i++) {
    if (polls[i].fd >= 0)
      fds[open++] = pollfd{polls[i].fd,
                           static_cast<short>(polls[i].urgent   ? POLLPRI
                                              : polls[i].writes ? POLLOUT
                                                                : POLLIN),
                           0};
  }
  timespec timeout{static_cast<time_t>(timeout_ns / kSecondNs),
                   static_cast<long>(timeout_ns % kSecondNs)};
  long ready = sys(SYS_ppoll, as_long(fds), static_cast<long>(open), as_long(&timeout));
  // The call was refused: pauses, so that a caller that waits in a loop does not use up the
  // processor.
  if (sys_failed(ready) && ready != kInterrupted) pause(timeout_ns);
  size_t next = 0;
  for (size_t i = 0; i < count; i++) {
    int events = polls[i].fd < 0 || sys_failed(ready) ? 0 : fds[next].revents;
    if (polls[i].fd >= 0) next++;
    polls[i].broken = polls[i].urgent && (events & (POLLERR | POLLNVAL | POLLHUP)) != 0;
    polls[i].ready = polls[i].urgent ? (events & POLLPRI) != 0 && !polls[i].broken : events != 0;
  }
}

}  // namespace seemalloc::os
