// Unix sockets for the control socket, and the other descriptors that the helper thread waits for.
// All waits have time limits. The descriptors are never inherited, and their numbers are 256 or
// higher.
//
// Programs close descriptors they did not open (daemons close them all), and the number is reused:
// before each use of a long-lived descriptor, compare its identity.
#pragma once

#include <signal.h>

#include <cstddef>
#include <cstdint>

namespace seemalloc::os {

// Writes to a pipe or a character device that belongs to this user or to root (-EACCES otherwise).
// Raises no SIGPIPE. Does not wait for a reader to open the pipe (-ENXIO), and waits at most 5 s
// for a reader to read (-ETIMEDOUT). Returns 0 or -errno.
int write_special_file(const char* path, const char* data, size_t bytes);

// Creates the directory, for this user only (0700), if it is missing. Returns 0, -errno, or the
// problem with an existing directory.
inline constexpr int kDirectoryOfAnotherUser = 1, kNoDirectory = 2 /* a file or a link */,
                     kDirectoryOpenToOthers = 3 /* to other users */;
int make_private_directory(const char* path);
// Creates a listening socket at `path` (mode 0600). It replaces a socket without a listener.
// Returns a descriptor or -errno (-EADDRINUSE: the existing socket has a listener). The socket is
// created in the same directory under a name with ~ as the last letter, and then renamed.
// /proc/net/unix keeps showing the first name; so does the directory if the process is killed in
// between.
int listen_unix(const char* path);
// Ends a wait for connections in any thread; later connections are refused.
void stop_listening(int listener);
// Accepts a connection. Returns a descriptor or -errno. *peer_user is the effective user id of the
// other end when it connected.
int accept_unix(int listener, unsigned* peer_user);
// Receives without waiting. Returns the number of bytes (0: closed by the other end) or -errno
// (-EAGAIN: there are none).
long receive_now(int fd, void* buffer, size_t bytes);
// Sends without waiting and without raising SIGPIPE. Returns the number of bytes or -errno
// (-EAGAIN: the other end has not read).
long send_now(int fd, const void* data, size_t bytes);

// Creates an empty file in memory. Its name is visible only in /proc/PID/fd, to a user that may
// inspect the process (PTRACE_MODE_READ of ptrace(2)). Returns a descriptor or -errno.
int make_memory_file(const char* name);
// Gets random bits that cannot be guessed. Returns false if the kernel has none without waiting.
bool secret_bits(void* out, size_t bytes);

// Like open_file, with a high descriptor number that the program does not expect.
int open_high(const char* path, int flags);
// Makes the process's descriptor table long enough for such numbers. Called while the process has
// one thread, because it is quick then: for a table that threads share, the kernel waits until no
// processor uses the old one (RCU), 8 to
// 20 ms, and the end of the process waits for this call.
void make_room_for_descriptors();
// Opens a file in the format of /proc/pressure/memory (PSI, Linux 5.2). Returns a descriptor on
// which the kernel reports (Poll::urgent) that tasks have waited for memory for more than about a
// twentieth of the time, or -errno.
int watch_stalls(const char* pressure_file);

// Returns a descriptor that can be read while this signal, which the calling thread has blocked, is
// pending for that thread or for the process; or -errno.
int watch_signal(int signal);
// Consumes such a signal if one is pending, and gets its information: first a signal sent to the
// thread, then one sent to the process. Returns false if none is pending.
bool take_signal(int signal, siginfo_t* info = nullptr);
// Whether this signal, which the calling thread has blocked, is pending for it or for the whole
// process.
bool is_signal_pending(int signal);

struct Poll {
  int fd;
  bool ready;
  bool urgent = false;  // input: waits for a report of the kernel (POLLPRI) instead of for data
  bool broken = false;  // output: there will be no more reports
  bool writes = false;  // input: waits until it can be written to instead
};
// Waits until one of the descriptors can be read (or is at its end), a signal arrives, or the time
// is over.
void poll_ready(Poll* polls, size_t count, uint64_t timeout_ns);

}  // namespace seemalloc::os
