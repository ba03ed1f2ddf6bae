#include "core/os/kernel/read_memory.h"

#include <fcntl.h>
#include <sys/uio.h>

#include "core/base/compiler.h"
#include "core/os/kernel/files.h"
#include "core/os/kernel/ids.h"
#include "core/os/kernel/syscall.h"

namespace seemalloc::os {

namespace {

// A separate function for each number of pieces: one piece needs little stack.
template <unsigned kMax>
SEEMALLOC_ALWAYS_INLINE bool read_pieces(const MemoryPiece* pieces, unsigned count) {
  iovec local[kMax], remote[kMax];
  size_t bytes = 0;
  for (unsigned i = 0; i < count; i++) {
    local[i] = {pieces[i].to, pieces[i].bytes};
    remote[i] = {reinterpret_cast<void*>(pieces[i].from), pieces[i].bytes};
    bytes += pieces[i].bytes;
  }
  // By thread id: if the main thread has ended, the process id no longer refers to this memory.
  long result =
      sys(SYS_process_vm_readv, thread_id(), as_long(local), count, as_long(remote), count, 0);
  if (result == static_cast<long>(bytes)) return true;
  constexpr long kFault = -14;
  if (!sys_failed(result) || result == kFault) return false;
  // If a sandbox refuses the call, read the same memory through the file.
  int fd = open_file("/proc/thread-self/mem", O_RDONLY);
  if (fd < 0) return false;
  bool all = true;
  for (unsigned i = 0; i < count && all; i++) {
    long size = static_cast<long>(pieces[i].bytes);
    all = sys(SYS_pread64, fd, as_long(pieces[i].to), size, static_cast<long>(pieces[i].from)) ==
          size;
  }
  close_file(fd);
  return all;
}

}  // namespace

bool read_memory(const void* from, void* to, size_t bytes) {
  MemoryPiece piece{reinterpret_cast<uintptr_t>(from), to, bytes};
  return read_pieces<1>(&piece, 1);
}

bool read_memory(const MemoryPiece* pieces, unsigned count) {
  return read_pieces<kMaxMemoryPieces>(pieces, count);
}

}  // namespace seemalloc::os
