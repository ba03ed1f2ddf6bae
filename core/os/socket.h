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

// Makes the folder for this user alone (0700) if missing. False when it is not a folder, not ours or open to others.
bool make_private_folder(const char* path);
// A listening socket at `path` (mode 0600), replacing a stale one; descriptor or -errno.
int listen_unix(const char* path);
// A connection, with a time limit on sending; descriptor or -errno. *peer_user is the effective user id of the other end.
int accept_unix(int listener, uint64_t send_timeout_ns, unsigned* peer_user);
// Bytes received without waiting (0: closed by the other end) or -errno (-EAGAIN: nothing there).
long receive_now(int fd, void* buffer, size_t bytes);
// Sends all of it without raising SIGPIPE, until the deadline (monotonic). 0 or -errno.
int send_all(int fd, const void* data, size_t bytes, uint64_t deadline_ns);

// Like open_file, with a number that is out of the program's way.
int open_apart(const char* path, int flags);
// A descriptor on which the kernel reports (Poll::urgent) that tasks have waited for memory, more than a twentieth of the time or so:
// of a file in the format of /proc/pressure/memory (PSI, Linux 5.2). Or -errno.
int watch_stalls(const char* pressure_file);

struct Poll {
  int fd;
  bool readable;
  bool urgent = false;  // waits for the kernel's report instead
  bool broken = false;  // there will be none any more
};
// Waits until one can be read (or is at its end), a signal arrives, or the time is over.
void poll_readable(Poll* polls, size_t count, uint64_t timeout_ns);

// ---- facts about the process ----

unsigned effective_user();
// Resident set from /proc/self/statm; 0 without /proc.
size_t resident_set_bytes();
// The most it has been since the program was started, from /proc/self/status; 0 without /proc. (What getrusage says begins with
// the size of the process that started it.)
size_t peak_resident_set_bytes();
void page_faults(uint64_t* minor, uint64_t* major);
// True when the main thread has ended (pthread_exit) and the calling thread is the only one left. False without /proc.
bool is_last_thread();
void name_thread(const char* name);
void signal_thread(int process, int thread, int signal);

}  // namespace seemalloc::os
