// The process that we are in: its user, memory and threads, as the kernel tells. Threads: any. Allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace seemalloc::os {

unsigned effective_user();
// Resident set from /proc/self/statm, and the part of it that is pages of files and shared memory; 0 without /proc.
struct ResidentSet {
  size_t bytes, file_bytes;
};
ResidentSet resident_set();
// The most it has been since the program was started, from /proc/self/status; 0 without /proc. (What getrusage says
// begins with the size of the process that started it.)
size_t peak_resident_set_bytes();
void page_faults(uint64_t* minor, uint64_t* major);
// True when the main thread has ended, without the process, and the calling thread is the only one left; `*status` is
// what the main thread has ended with. False without /proc.
bool is_last_thread(int* status);
void name_thread(const char* name);
// The folder that relative names begin in, with its length; 0 when it cannot be told or is longer than `capacity`.
size_t working_folder(char* path, size_t capacity);
// What a thread of this process may do, as far as it can be asked without opening a file: the effective user and group,
// capabilities.
struct Credentials {
  unsigned user = 0, group = 0;
  uint32_t capabilities[6] = {};
  bool operator==(const Credentials&) const = default;
};
// Of the thread that runs main(). False when the kernel does not tell.
bool read_credentials_of_main(Credentials* out);
void signal_thread(int process, int thread, int signal);
void signal_process(int signal);  // this one

}  // namespace seemalloc::os
