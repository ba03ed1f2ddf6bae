// Unix sockets for the control socket, and what else the helper waits for: with time limits, never inherited, on descriptors from
// 256 up.
//
// Programs close descriptors they did not open (daemons close them all), and the number is reused: before each use of a
// descriptor that lives long, compare its identity.
#pragma once

#include <cstddef>
#include <cstdint>

namespace seemalloc::os {

struct FileIdentity {
  uint64_t device = 0, inode = 0;
  bool operator==(const FileIdentity&) const = default;
};
// Of an open descriptor; zeroes when it is closed.
FileIdentity identity(int fd);
// Of what is at a path, links not followed; zeroes when there is nothing.
FileIdentity identity(const char* path);
// Whether there is something at the path that is neither a file nor a folder: a terminal, a pipe, a device.
bool is_special_file(const char* path);
// Opens one for writing; does not wait for a reader. A descriptor or -errno.
int open_special_file(const char* path);

// Makes the folder for this user alone (0700) if missing. False when it is not a folder, not ours or open to others.
bool make_private_folder(const char* path);
// A listening socket at `path` (mode 0600), replacing a stale one; descriptor or -errno. Made beside it, with ~ as the last letter: that
// stays its name in /proc/net/unix, and in the folder if the process is killed meanwhile.
int listen_unix(const char* path);
// Ends a wait for connections, in whatever thread; those to come are refused.
void stop_listening(int listener);
// A connection, with a time limit on sending; descriptor or -errno. *peer_user is the effective user id of the other end.
int accept_unix(int listener, uint64_t send_timeout_ns, unsigned* peer_user);
// Bytes received without waiting (0: closed by the other end) or -errno (-EAGAIN: nothing there).
long receive_now(int fd, void* buffer, size_t bytes);
// Sends all of it without raising SIGPIPE, until the deadline (monotonic). 0 or -errno.
int send_all(int fd, const void* data, size_t bytes, uint64_t deadline_ns);

// Like open_file, with a number that is out of the program's way.
int open_apart(const char* path, int flags);
// Makes the process's table long enough for such numbers, while that is quick: where threads share it, the kernel waits for all
// processors to have left the old one (RCU), 8 to 20 ms, and the process's end for the thread that waits.
void make_room_for_descriptors();
// A descriptor on which the kernel reports (Poll::urgent) that tasks have waited for memory, more than a twentieth of the time or so:
// of a file in the format of /proc/pressure/memory (PSI, Linux 5.2). Or -errno.
int watch_stalls(const char* pressure_file);

// A descriptor that can be read while this signal, which the calling thread has blocked, is pending for it. Or -errno.
int watch_signal(int signal);
// Takes such a signal away, if there is one: first what was sent to the thread, then what was sent to the process.
void take_signal(int signal);
// Whether this signal, which the calling thread has blocked, is pending for it or for the whole process.
bool is_signal_pending(int signal);

struct Poll {
  int fd;
  bool readable;
  bool urgent = false;  // waits for the kernel's report instead
  bool broken = false;  // there will be none any more
};
// Waits until one can be read (or is at its end), a signal arrives, or the time is over.
void poll_readable(Poll* polls, size_t count, uint64_t timeout_ns);

}  // namespace seemalloc::os
