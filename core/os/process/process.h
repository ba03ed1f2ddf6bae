// This process: its user, memory and threads, as the kernel reports them. Threads: any. Allocates
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace seemalloc::os {

unsigned effective_user();
// The resident set from /proc/self/statm, and the part of it that consists of pages of files and
// shared memory; 0 without /proc.
struct ResidentSet {
  size_t bytes, file_bytes;
};
ResidentSet resident_set();
// The highest resident set since the program was started, from /proc/self/status; 0 without /proc.
// (The value of getrusage includes the process that started the program.)
size_t peak_resident_set_bytes();
void page_faults(uint64_t* minor, uint64_t* major);
// Returns true if the main thread has ended, but not the process, and the calling thread is the
// only one left; *status is the exit status of the main thread. Returns false without /proc.
bool is_last_thread(int* status);
void name_thread(const char* name);
// Gets the current working directory. Returns its length, or 0 if it is unknown or longer than
// `capacity`.
size_t working_directory(char* path, size_t capacity);
// The privileges of a thread of this process that can be read without opening a file: effective
// user and group, and capabilities.
struct Credentials {
  unsigned user = 0, group = 0;
  uint32_t capabilities[6] = {};
  bool operator==(const Credentials&) const = default;
};
// Reads the credentials of the main thread. Returns false if the kernel refuses.
bool read_credentials_of_main(Credentials* out);
void signal_thread(int process, int thread, int signal);
void signal_process(int signal);  // to this process

}  // namespace seemalloc::os
