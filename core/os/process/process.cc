#include "core/os/process/process.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/stat.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/uio.h>

#include "core/base/units.h"
#include "core/os/kernel/files.h"
#include "core/os/kernel/ids.h"
#include "core/os/kernel/memory.h"
#include "core/os/kernel/syscall.h"
#include "core/os/process/cgroup_text.h"
#include "core/os/process/lines.h"

namespace seemalloc::os {

namespace {

// Reads the beginning of a file; empty if it cannot be read.
Slice read_start(const char* path, char* buffer, size_t capacity) {
  int fd = open_file(path, O_RDONLY);
  if (fd < 0) return {};
  long length = read_some(fd, buffer, capacity);
  close_file(fd);
  return Slice{buffer, length > 0 ? static_cast<size_t>(length) : 0};
}

}  // namespace

unsigned effective_user() { return static_cast<unsigned>(sys(SYS_geteuid)); }

ResidentSet resident_set() {
  char text[128];
  Slice rest = read_start("/proc/thread-self/statm", text, sizeof(text)), size, resident;
  uint64_t pages = 0, of_files = 0;
  if (!take_field(&rest, ' ', &size) || !take_field(&rest, ' ', &resident)) return {};
  if (!parse_number(resident, &pages) || !parse_number(rest, &of_files)) return {};
  return {pages * page_bytes(), of_files * page_bytes()};
}

size_t peak_resident_set_bytes() {
  Lines lines("/proc/thread-self/status");
  for (Slice line, key; lines.next(&line);) {
    if (!take_field(&line, ':', &key) || !key.equals("VmHWM")) continue;
    while (line.length != 0 && (*line.at == ' ' || *line.at == '\t'))
      line = Slice{line.at + 1, line.length - 1};
    uint64_t kib = 0;
    return parse_number(line, &kib) ? kib * KiB : 0;
  }
  return 0;
}

void page_faults(uint64_t* minor, uint64_t* major) {
  rusage usage{};
  sys(SYS_getrusage, RUSAGE_SELF, as_long(&usage));
  *minor = static_cast<uint64_t>(usage.ru_minflt);
  *major = static_cast<uint64_t>(usage.ru_majflt);
}

bool is_last_thread(int* status) {
  // First checks whether the main thread has memory to read, which an ended one does not have. This
  // needs no descriptor: a file opened here may take the number that the program expects for its
  // next open.
  constexpr long kNoSuchProcess = -3;  // -ESRCH
  char from = 0, to = 0;
  iovec local{&to, 1}, remote{&from, 1};
  if (sys(SYS_process_vm_readv, process_id(), as_long(&local), 1, as_long(&remote), 1, 0) !=
      kNoSuchProcess)
    return false;
  // "pid (name) S …": the name may contain any character, and ends at the last parenthesis. After
  // it come the state (field 3; an ended main thread is a zombie that is still counted), the number
  // of threads (field 20), and the main thread's exit status in the form of wait() (field 52).
  char text[1024];
  Slice rest = read_start("/proc/self/stat", text, sizeof(text)), field;
  size_t name_end = rest.length;
  while (name_end != 0 && rest.at[name_end - 1] != ')') name_end--;
  if (name_end == 0 || name_end == rest.length) return false;
  rest = Slice{rest.at + name_end + 1, rest.length - name_end - 1};
  if (!take_field(&rest, ' ', &field) || !field.equals("Z")) return false;
  uint64_t end = 0;
  for (int number = 4; number <= 52; number++) {
    if (!take_field(&rest, number == 52 ? '\n' : ' ', &field)) return false;
    if (number == 20 && !field.equals("2")) return false;
  }
  *status = parse_number(field, &end) ? static_cast<int>(end >> 8 & 0xFF) : 0;
  return true;
}

size_t working_directory(char* path, size_t capacity) {
  long bytes = sys(SYS_getcwd, as_long(path), static_cast<long>(capacity));  // with the null
  return bytes > 1 && path[0] == '/' ? static_cast<size_t>(bytes - 1) : 0;
}

void name_thread(const char* name) { sys(SYS_prctl, PR_SET_NAME, as_long(name)); }

bool read_credentials_of_main(Credentials* out) {
  int process = process_id();
  struct statx status {};
  if (sys_failed(sys(SYS_statx, AT_FDCWD, as_long("/proc/self"), 0, STATX_UID | STATX_GID,
                     as_long(&status))))
    return false;
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, process};
  static_assert(sizeof(out->capabilities) == 2 * sizeof(__user_cap_data_struct));
  if (sys_failed(sys(SYS_capget, as_long(&header), as_long(out->capabilities)))) return false;
  out->user = status.stx_uid;
  out->group = status.stx_gid;
  return true;
}

void signal_thread(int process, int thread, int signal) {
  sys(SYS_tgkill, process, thread, signal);
}

void signal_process(int signal) { sys(SYS_kill, process_id(), signal); }

}  // namespace seemalloc::os
