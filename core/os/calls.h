// Calls into the kernel for memory, counted where they are made: by call and by reason, with bytes and time.
//
// Every function of os.h that asks the kernel for memory, or about it, ends in counted_call(). Counters are relaxed and each
// pair has a cache line of its own: these are slow paths. Reading them may tear between fields.
// While somebody traces, each call is also shown to `on_call`, once it has been made.
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
  kRemapProbe,  // mremap, to learn from its answer: never counted as refused
  kDontNeed,    // madvise: the backing goes
  kFree,        // madvise: the backing may go
  kHugePage,    // madvise: faults may take huge pages
  kNoHugePage,  // madvise: they may not
  kCollapse,    // madvise: small pages become a huge one now
  kMincore,     // what is resident?
  kCount,
};

// Why a call was made. Each is true of a place in the code, not guessed from the arguments.
enum class Reason : uint8_t {
  kGrowth,     // address space for regions; a reserve given back
  kHuge,       // a block above 1 MiB: its own memory, grown, moved, or too much to keep
  kRecords,    // our own records: spans, heaps, samples, stacks
  kPageMap,    // the window's flat map and the page map's leaves
  kDecay,      // free for longer than the purge delay
  kAsked,      // malloc_trim, seemalloc_purge, `seemalloc purge`
  kPressure,   // memory was refused, or the system says that it is short
  kHole,       // idle holes inside spans in use
  kHugePages,  // which regions get huge pages, making and splitting one
  kZero,       // used memory of a large block, for calloc (heap/zeroing.h)
  kReport,     // statistics, profiles and traces being written
  kCount,
};

inline constexpr unsigned kCalls = static_cast<unsigned>(Call::kCount);
inline constexpr unsigned kReasons = static_cast<unsigned>(Reason::kCount);

// "mmap", "madvise:dontneed", …; "growth", "huge", …: as they are written in reports.
const char* call_name(Call call);
const char* reason_name(Reason reason);

struct CallCount {
  uint64_t calls;    // refused ones included
  uint64_t bytes;    // of those that were not refused
  uint64_t refused;
  uint64_t ns;       // time in the kernel, refused calls included
};
CallCount call_count(Call call, Reason reason);
// Over all reasons.
CallCount call_count(Call call);
void forget_calls_in_child();

struct CallRecord {
  uint64_t begin_ns;  // CLOCK_MONOTONIC
  uint64_t took_ns;
  uint64_t bytes;
  Call call;
  Reason reason;
  bool refused;
  uint8_t size_class;  // 1 + the class for which it was made; 0: not for one
};

// Set while somebody traces. Called by the thread that made the call, which may hold any of our locks: it takes none, makes
// no memory, and keeps errno.
extern std::atomic<void (*)(const CallRecord& record)> on_call;

// While alive, calls of this thread are made for a size class.
extern constinit thread_local uint8_t call_size_class __attribute__((tls_model("initial-exec")));
class ForSizeClass {
 public:
  explicit ForSizeClass(unsigned size_class) : before_(call_size_class) { call_size_class = static_cast<uint8_t>(size_class + 1); }
  ~ForSizeClass() { call_size_class = before_; }
  ForSizeClass(const ForSizeClass&) = delete;
  ForSizeClass& operator=(const ForSizeClass&) = delete;

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
