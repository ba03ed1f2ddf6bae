#include "core/profile/code/unloaded_modules.h"

#include <link.h>

#include <atomic>
#include <cstring>

#include "core/base/text.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/memory.h"
#include "core/os/kernel/wait.h"
#include "core/os/process/process.h"
#include "core/os/process/sandbox.h"
#include "core/os/runtime/arena.h"
#include "core/os/runtime/lock.h"
#include "core/profile/code/modules.h"
#include "core/profile/sampling/grow_array.h"

namespace seemalloc::profile {

namespace {

// Limits, so that a program that loads and unloads forever does not fill its memory with stacks
// that no walk matches again.
constexpr size_t kMaxUnloadedCodes = 512, kMaxUnloadsPerModule = 32;
constexpr uint64_t kMaxWaitNs = 20 * kMillisecondNs, kPauseNs = 50 * kMicrosecondNs;

// A range of loaded code.
struct LoadedCode {
  uintptr_t start, limit;
  uint64_t file_offset;
  size_t path_at, path_bytes;  // in the list's text; absolute or relative
  BuildId build_id;
  bool is_unloaded, overlapped;

  bool has_same_range(const LoadedCode& other) const {
    return start == other.start && limit == other.limit && file_offset == other.file_offset;
  }
  bool equals(const LoadedCode& other) const {
    return has_same_range(other) && build_id == other.build_id;
  }
  bool overlaps(const LoadedCode& other) const {
    return start < other.limit && other.start < limit;
  }
};

struct LoadedList {
  GrowArray<LoadedCode> codes;
  GrowArray<char> text;

  bool failed() const { return codes.failed() || text.failed(); }
  const char* path(const LoadedCode& code) const { return text.data() + code.path_at; }
  void clear() {
    codes.set_size(0);
    text.set_size(0);
  }
  // Discards both arrays: memory may have been refused only once.
  void give_up() {
    GrowArray<LoadedCode>().swap(codes);
    GrowArray<char>().swap(text);
  }
};

Lock lock;
// ---- protected by the lock
// Raw memory: no constructor and no destructor runs.
alignas(LoadedList) char list_memory[2][sizeof(LoadedList)];
unsigned current = 0;  // index of the current list
// The dynamic linker's counters when the current list was made.
unsigned long long seen_adds = 0, seen_subs = 0;
// ---- written under the lock, read without it
std::atomic<UnloadedCode*> codes[kMaxUnloadedCodes];  // sorted by address; each is set once
std::atomic<size_t> code_count{0};
std::atomic<uint64_t> without_room{0};

LoadedList& list(unsigned number) { return *reinterpret_cast<LoadedList*>(list_memory[number]); }

uintptr_t next_place_locked() {
  size_t count = code_count.load(std::memory_order_relaxed);
  if (count == 0) return kUnloadedCode;
  constexpr uintptr_t kGap = 64 * KiB;  // keeps them separate mappings
  return round_up(codes[count - 1].load(std::memory_order_relaxed)->limit + kGap, kGap);
}

UnloadedCode* find_locked(const LoadedCode& code, const char* path, size_t path_bytes) {
  for (size_t i = 0; i < code_count.load(std::memory_order_relaxed); i++) {
    UnloadedCode& known = *codes[i].load(std::memory_order_relaxed);
    if (known.file_offset == code.file_offset &&
        known.limit - known.start == code.limit - code.start && known.path_bytes == path_bytes &&
        memcmp(known.path, path, path_bytes) == 0 && known.build_id == code.build_id) {
      return &known;
    }
  }
  return nullptr;
}

// Returns null if there is no room.
UnloadedCode* make_locked(const LoadedCode& code, const char* path, size_t path_bytes) {
  size_t count = code_count.load(std::memory_order_relaxed);
  if (count == kMaxUnloadedCodes) return nullptr;
  auto* made = static_cast<UnloadedCode*>(
      os::arena_allocate(sizeof(UnloadedCode) + path_bytes, alignof(UnloadedCode)));
  if (made == nullptr) return nullptr;
  char* copy = reinterpret_cast<char*>(made + 1);
  memcpy(copy, path, path_bytes);
  uintptr_t start = next_place_locked();
  *made = {
      start, start + (code.limit - code.start), code.file_offset, copy, path_bytes, code.build_id,
      0};
  codes[count].store(made, std::memory_order_relaxed);
  // Pairs with unloaded_count(); comes before its first stack.
  code_count.store(count + 1, std::memory_order_release);
  return made;
}

// The dynamic linker stores the name as it was passed to dlopen. The working directory of that time
// is unknown; the present one is the best guess.
size_t full_path(const char* path, size_t bytes, char* full, size_t capacity) {
  while (bytes > 2 && path[0] == '.' && path[1] == '/') path += 2, bytes -= 2;
  size_t folder = path[0] == '/' ? 0 : os::working_directory(full, capacity);
  if (folder != 0 && folder + 1 < capacity) full[folder++] = '/';
  if (folder + bytes > capacity) return 0;
  memcpy(full + folder, path, bytes);
  return folder + bytes;
}

struct AllStacks {
  StackTable& table;
  const ExternalStacks* others;
};

bool any_in(const LoadedCode& code, const AllStacks& stacks) {
  const ExternalStacks* others = stacks.others;
  return (others != nullptr && others->any_in({code.start, code.limit, 0})) ||
         stacks.table.any_in(code.start, code.limit);
}

void move_stacks_locked(const LoadedCode& code, const char* path, const AllStacks& stacks) {
  if (!any_in(code, stacks)) return;
  char full[4096];
  size_t bytes = full_path(path, code.path_bytes, full, sizeof(full));
  UnloadedCode* known = bytes != 0 ? find_locked(code, full, bytes) : nullptr;
  if (known == nullptr && bytes != 0) known = make_locked(code, full, bytes);
  if (known == nullptr || known->times == kMaxUnloadsPerModule) return count_unmoved_stacks();
  known->times++;
  if (stacks.others != nullptr) stacks.others->move({code.start, code.limit, known->start});
  stacks.table.relocate_code(code.start, code.limit, known->start);
  // Pairs with find_module(): a thread that remembers a stack with the new count sees the moved
  // stacks.
  modules_unloaded.fetch_add(1, std::memory_order_release);
}

// ---- loaded modules ----

bool is_code(const ElfW(Phdr) & segment) {
  return segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0;
}

struct ModuleScan {
  LoadedList* to;
  bool changed;
  bool added;  // if not, all present modules were there before, and build ids need not be read
  // A seccomp filter may kill the process for system calls that the program does not make.
  bool filtered;
};

void note(const ModuleScan& scan, const dl_phdr_info& info) {
  LoadedList& to = *scan.to;
  // The program itself, the vDSO.
  if (info.dlpi_name == nullptr || !text_contains(info.dlpi_name, '/')) return;
  size_t path_at = to.text.size(), path_bytes = strlen(info.dlpi_name);
  if (!to.text.reserve(path_at + path_bytes)) return;
  memcpy(to.text.data() + path_at, info.dlpi_name, path_bytes);
  to.text.set_size(path_at + path_bytes);
  BuildId build_id = !scan.added || scan.filtered
                         ? BuildId{}
                         : build_id_of_module(info.dlpi_addr, info.dlpi_phdr, info.dlpi_phnum);
  for (size_t i = 0; i < info.dlpi_phnum; i++) {
    const ElfW(Phdr)& segment = info.dlpi_phdr[i];
    if (!is_code(segment)) continue;
    uintptr_t start = round_down(info.dlpi_addr + segment.p_vaddr, os::page_bytes());
    uintptr_t limit =
        round_up(info.dlpi_addr + segment.p_vaddr + segment.p_filesz, os::page_bytes());
    if (contains_permanent_code(start, limit)) continue;
    to.codes.push({start, limit, round_down(segment.p_offset, os::page_bytes()), path_at,
                   path_bytes, build_id, false, false});
  }
}

// Callback of dl_iterate_phdr. Stops at the first module if none has been loaded or unloaded. If
// the C library has no such counters, it offers no other way to detect changes, so nothing is
// recorded.
int scan_module(dl_phdr_info* info, size_t bytes, void* context) {
  ModuleScan& scan = *static_cast<ModuleScan*>(context);
  bool counts = bytes >= offsetof(dl_phdr_info, dlpi_subs) + sizeof(info->dlpi_subs);
  if (!counts || (!scan.changed && info->dlpi_adds == seen_adds && info->dlpi_subs == seen_subs))
    return 1;
  if (!scan.changed) scan.added = info->dlpi_adds != seen_adds;
  scan.changed = true;
  seen_adds = info->dlpi_adds;
  seen_subs = info->dlpi_subs;
  note(scan, *info);
  return 0;
}

void compare(LoadedList& before, const LoadedList& now, bool added) {
  for (size_t b = 0; b < before.codes.size(); b++) {
    LoadedCode& code = before.codes[b];
    code.is_unloaded = true;
    for (size_t n = 0; n < now.codes.size(); n++) {
      if (added ? code.equals(now.codes[n]) : code.has_same_range(now.codes[n]))
        code.is_unloaded = false;
      if (code.overlaps(now.codes[n])) code.overlapped = true;
    }
  }
}

void remove_unloaded(LoadedList& list) {
  size_t kept = 0;
  for (size_t i = 0; i < list.codes.size(); i++) {
    if (!list.codes[i].is_unloaded) list.codes[kept++] = list.codes[i];
  }
  list.codes.set_size(kept);
}

void update_locked(bool just_gone, const AllStacks& stacks) {
  LoadedList &before = list(current), &now = list(1 - current);
  ModuleScan scan{&now, false, false, os::calls_are_limited()};
  now.clear();
  dl_iterate_phdr(scan_module, &scan);
  if (!scan.changed) return;
  if (now.failed()) {  // modules unloaded before the next call are not noticed
    without_room.fetch_add(1, std::memory_order_relaxed);
    before.give_up();
    now.give_up();
    seen_adds = 0;
    return;
  }
  compare(before, now, scan.added);
  for (size_t i = 0; i < before.codes.size(); i++) {
    const LoadedCode& code = before.codes[i];
    if (!code.is_unloaded) continue;
    if (!code.overlapped || just_gone) {
      move_stacks_locked(code, before.path(code), stacks);
    } else if (any_in(code, stacks)) {
      count_unmoved_stacks();
    }
  }
  scan.added ? void(current = 1 - current) : remove_unloaded(before);
}

bool try_lock_for() {
  for (uint64_t begin = 0; !lock.try_lock();) {
    uint64_t now = os::monotonic_ns();
    if (begin == 0) begin = now;
    if (now - begin > kMaxWaitNs) return false;
    os::pause(kPauseNs);
  }
  return true;
}

}  // namespace

void count_unmoved_stacks() { without_room.fetch_add(1, std::memory_order_relaxed); }

void update_unloaded_modules(bool just_gone, StackTable& table, const ExternalStacks* others) {
  if (table.size() == 0 && others == nullptr) return;
  if (!try_lock_for()) return count_unmoved_stacks();
  update_locked(just_gone, {table, others});
  lock.unlock();
}

size_t unloaded_count() { return code_count.load(std::memory_order_acquire); }
const UnloadedCode& unloaded_code(size_t number) {
  return *codes[number].load(std::memory_order_relaxed);
}

uint64_t unmoved_unloads() { return without_room.load(std::memory_order_relaxed); }

void lock_unloaded_for_fork() { lock.lock_for_fork(); }
void unlock_unloaded_after_fork() { lock.unlock_after_fork(); }

}  // namespace seemalloc::profile
