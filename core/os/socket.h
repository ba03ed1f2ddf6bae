// Unix sockets for the control socket, and what else the helper waits for: with time limits, never inherited, on
// descriptors from 256 up.
//
// Programs close descriptors they did not open (daemons close them all), and the number is reused: before each use of a
// descriptor that lives long, compare its identity.
#pragma once

#include <signal.h>

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
// Writes to a pipe or a device for characters that belongs to this user or to root (-EACCES otherwise), without
// SIGPIPE, and waits neither for a reader to come (-ENXIO) nor, for more than 5 s, for one to read (-ETIMEDOUT). 0 or
// -errno.
int write_special_file(const char* path, const char* data, size_t bytes);

// Makes the folder for this user alone (0700) if missing. 0, -errno, or the problem with an existing folder.
inline constexpr int kFolderOfAnother = 1, kNoFolder = 2 /* a file or a link */, kFolderOpen = 3 /* to other users */;
int make_private_folder(const char* path);
// A listening socket at `path` (mode 0600). It replaces one without a listener. Descriptor or -errno (-EADDRINUSE: that
// has a listener). It is made beside `path`, with ~ as the last letter, and renamed. /proc/net/unix goes on showing the
// first name; so does the folder if the process is killed meanwhile.
int listen_unix(const char* path);
// Ends a wait for connections, in whatever thread; those to come are refused.
void stop_listening(int listener);
// A connection; descriptor or -errno. *peer_user is the effective user id of the other end when it connected.
int accept_unix(int listener, unsigned* peer_user);
// Bytes received without waiting (0: closed by the other end) or -errno (-EAGAIN: nothing there).
long receive_now(int fd, void* buffer, size_t bytes);
// Bytes sent without waiting and without raising SIGPIPE, or -errno (-EAGAIN: the other end has not read).
long send_now(int fd, const void* data, size_t bytes);

// An empty file in memory. Its name is visible only in /proc/PID/fd, to a user that may inspect the process
// (PTRACE_MODE_READ of ptrace(2)). Descriptor or -errno.
int make_memory_file(const char* name);
// Random bits that cannot be guessed; false where the kernel has none to give without waiting.
bool secret_bits(void* out, size_t bytes);

// Like open_file, with a number that is out of the program's way.
int open_apart(const char* path, int flags);
// Makes the process's table long enough for such numbers, while that is quick: where threads share it, the kernel waits
// for all processors to have left the old one (RCU), 8 to 20 ms, and the process's end for the thread that waits.
void make_room_for_descriptors();
// A descriptor on which the kernel reports (Poll::urgent) that tasks have waited for memory, more than a twentieth of
// the time or so: of a file in the format of /proc/pressure/memory (PSI, Linux 5.2). Or -errno.
int watch_stalls(const char* pressure_file);

// A descriptor that can be read while this signal, which the calling thread has blocked, is pending for it. Or -errno.
int watch_signal(int signal);
// Takes such a signal away, if there is one, and tells what came with it: first what was sent to the thread, then what
// was sent to the process.
bool take_signal(int signal, siginfo_t* info = nullptr);
// Whether this signal, which the calling thread has blocked, is pending for it or for the whole process.
bool is_signal_pending(int signal);

struct Poll {
  int fd;
  bool ready;
  bool urgent = false;  // waits for the kernel's report instead
  bool broken = false;  // there will be none any more
  bool writes = false;  // waits until it can be written to instead
};
// Waits until one can be read (or is at its end), a signal arrives, or the time is over.
void poll_ready(Poll* polls, size_t count, uint64_t timeout_ns);

}  // namespace seemalloc::os
