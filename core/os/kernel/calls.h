// System calls for memory, counted where they are made: by call and by reason, with bytes and time.
//
// Every function of memory.h that requests memory from the kernel, or queries it, ends in
// counted_call(). Counters are relaxed, and each pair has its own cache line: these are slow paths.
// A reader may see fields of different moments. During a trace, each call is also passed to
// `call_hook`, after it has been made.
// Threads: all functions may be called from any thread at any time, signal handlers included.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace seemalloc::os {

enum class Call : uint8_t {
  kMap,         // mmap
  kUnmap,       // munmap
  kRemap,       // mremap
  kRemapProbe,  // mremap as a query: never counted as refused
  kDontNeed,    // madvise: drop the memory
  kFree,        // madvise: the kernel may drop the memory
  kHugePage,    // madvise: faults may take huge pages
  kNoHugePage,  // madvise: faults may not take huge pages
  kCollapse,    // madvise: replace small pages by a huge one now
  kMincore,     // which pages are resident
  kCount,
};

// Why a call was made. The reason is given by the calling code, not derived from the arguments.
enum class Reason : uint8_t {
  kGrowth,  // address space for regions; a reserve returned
  // A block above 1 MiB: mapped, grown, moved, or unmapped because it exceeded the cache's limit.
  kHuge,
  kRecords,    // our own records: spans, heaps, samples, stacks
  kPageMap,    // the window's flat map and the page map's leaves
  kDecay,      // memory free for longer than the purge delay
  kRequested,  // malloc_trim, seemalloc_purge, `seemalloc purge`
  kPressure,   // memory was refused, or the system reports that it is short
  kHole,       // idle holes inside spans in use
  kHugePages,  // choosing regions for huge pages, making and splitting a huge page
  kZero,       // clearing used memory of a large block for calloc (heap/thread/zeroing.h)
  kReport,     // writing statistics, profiles and traces
  kCount,
};

inline constexpr unsigned kCalls = static_cast<unsigned>(Call::kCount);
inline constexpr unsigned kReasons = static_cast<unsigned>(Reason::kCount);

// "mmap", "madvise:dontneed", …; "growth", "huge", …: the names used in reports.
const char* call_name(Call call);
const char* reason_name(Reason reason);

struct CallCount {
  uint64_t calls;  // including refused ones
  uint64_t bytes;  // of the calls that were not refused
  uint64_t refused;
  uint64_t ns;  // time in the kernel, including refused calls
};
CallCount call_count(Call call, Reason reason);
// The sum over all reasons.
CallCount call_count(Call call);
void reset_call_counts_in_child();

struct CallRecord {
  uint64_t begin_ns;  // CLOCK_MONOTONIC
  uint64_t took_ns;
  uint64_t bytes;
  Call call;
  Reason reason;
  bool refused;
  uint8_t size_class;  // 1 + the size class for which the call was made; 0: none
};

// Set during a trace. It is called by the thread that made the call, which may hold any of our
// locks: it must not take locks or allocate memory, and must preserve errno.
extern std::atomic<void (*)(const CallRecord& record)> call_hook;

// ScopedCallSizeClass: while it exists, calls of this thread are attributed to a size class.
extern constinit thread_local uint8_t call_size_class __attribute__((tls_model("initial-exec")));
class ScopedCallSizeClass {
 public:
  explicit ScopedCallSizeClass(unsigned size_class) : before_(call_size_class) {
    call_size_class = static_cast<uint8_t>(size_class + 1);
  }
  ~ScopedCallSizeClass() { call_size_class = before_; }
  ScopedCallSizeClass(const ScopedCallSizeClass&) = delete;
  ScopedCallSizeClass& operator=(const ScopedCallSizeClass&) = delete;

 private:
  uint8_t before_;
};

// Makes a system call and counts it. Returns the kernel's value or -errno.
struct CallArguments {
  long number;
  long a = 0, b = 0, c = 0, d = 0, e = 0, f = 0;
};
long counted_call(Call call, Reason reason, size_t bytes, const CallArguments& arguments);

}  // namespace seemalloc::os
