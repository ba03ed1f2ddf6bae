#include "core/os/kernel/read_memory.h"

#include <fcntl.h>
#include <sys/uio.h>

#include "core/base/compiler.h"
#include "core/os/kernel/files.h"
#include "core/os/kernel/ids.h"
#include "core/os/kernel/syscall.h"

namespace seemalloc::os {

namespace {

// Two instances, for one read and for up to kMaxMemoryReads: the first needs little stack.
template <unsigned kMax>
SEEMALLOC_ALWAYS_INLINE bool read_all(int thread, const MemoryRead* reads, unsigned count) {
  iovec local[kMax], remote[kMax];
  size_t bytes = 0;
  for (unsigned i = 0; i < count; i++) {
    local[i] = {reads[i].to, reads[i].bytes};
    remote[i] = {reinterpret_cast<void*>(reads[i].from), reads[i].bytes};
    bytes += reads[i].bytes;
  }
  // By thread id: if the main thread has ended, the process id no longer refers to this memory.
  long result = sys(SYS_process_vm_readv, thread, as_long(local), count, as_long(remote), count, 0);
  if (result == static_cast<long>(bytes)) return true;
  constexpr long kFault = -14;
  if (!sys_failed(result) || result == kFault) return false;
  // If a sandbox refuses the call, read the same memory through /proc/thread-self/mem.
  int fd = open_file("/proc/thread-self/mem", O_RDONLY);
  if (fd < 0) return false;
  bool all = true;
  for (unsigned i = 0; i < count && all; i++) {
    long size = static_cast<long>(reads[i].bytes);
    all =
        sys(SYS_pread64, fd, as_long(reads[i].to), size, static_cast<long>(reads[i].from)) == size;
  }
  close_file(fd);
  return all;
}

}  // namespace

bool read_memory(const void* from, void* to, size_t bytes) {
  MemoryRead read{reinterpret_cast<uintptr_t>(from), to, bytes};
  return read_all<1>(thread_id(), &read, 1);
}

bool read_memory(const MemoryRead* reads, unsigned count) {
  return read_all<kMaxMemoryReads>(thread_id(), reads, count);
}

bool MemoryReader::read(uintptr_t from, void* to, size_t bytes) {
  if (thread_ == 0) thread_ = thread_id();
  MemoryRead read{from, to, bytes};
  return read_all<1>(thread_, &read, 1);
}

bool MemoryReader::read(const MemoryRead* reads, unsigned count) {
  if (thread_ == 0) thread_ = thread_id();
  return read_all<kMaxMemoryReads>(thread_, reads, count);
}

bool is_writable(const void* at, size_t bytes) {
  iovec same{const_cast<void*>(at), bytes};
  return sys(SYS_process_vm_writev, thread_id(), as_long(&same), 1, as_long(&same), 1, 0) ==
         static_cast<long>(bytes);
}

}  // namespace seemalloc::os
