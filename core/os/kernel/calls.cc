#include "core/os/kernel/calls.h"

#include "core/base/compiler.h"
#include "core/base/counters.h"
#include "core/base/units.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/syscall.h"

namespace seemalloc::os {

constinit std::atomic<void (*)(const CallRecord& record)> call_hook{nullptr};
constinit thread_local uint8_t call_size_class __attribute__((tls_model("initial-exec"))) = 0;

namespace {

struct alignas(kCacheLineBytes) Cell {
  std::atomic<uint64_t> calls, bytes, refused, ns;
};
constinit Cell cells[kCalls][kReasons];

constexpr const char* kCallNames[] = {"mmap",
                                      "munmap",
                                      "mremap",
                                      "mremap:probe",
                                      "madvise:dontneed",
                                      "madvise:free",
                                      "madvise:hugepage",
                                      "madvise:nohugepage",
                                      "madvise:collapse",
                                      "mincore"};
static_assert(sizeof(kCallNames) / sizeof(kCallNames[0]) == kCalls);
constexpr const char* kReasonNames[] = {"growth",     "huge",      "records",  "page_map",
                                        "decay",      "requested", "pressure", "hole",
                                        "huge_pages", "zero",      "report"};
static_assert(sizeof(kReasonNames) / sizeof(kReasonNames[0]) == kReasons);

void add(std::atomic<uint64_t>& counter, uint64_t by) {
  counter.fetch_add(by, std::memory_order_relaxed);
}

void count(const CallRecord& record) {
  Cell& cell = cells[static_cast<unsigned>(record.call)][static_cast<unsigned>(record.reason)];
  add(cell.calls, 1);
  add(record.refused ? cell.refused : cell.bytes, record.refused ? 1 : record.bytes);
  add(cell.ns, record.took_ns);
}

}  // namespace

const char* call_name(Call call) { return kCallNames[static_cast<unsigned>(call)]; }
const char* reason_name(Reason reason) { return kReasonNames[static_cast<unsigned>(reason)]; }

CallCount call_count(Call call, Reason reason) {
  const Cell& cell = cells[static_cast<unsigned>(call)][static_cast<unsigned>(reason)];
  return {cell.calls.load(std::memory_order_relaxed), cell.bytes.load(std::memory_order_relaxed),
          cell.refused.load(std::memory_order_relaxed), cell.ns.load(std::memory_order_relaxed)};
}

CallCount call_count(Call call) {
  CallCount sum{};
  for (unsigned i = 0; i < kReasons; i++) {
    CallCount one = call_count(call, static_cast<Reason>(i));
    sum.calls += one.calls;
    sum.bytes += one.bytes;
    sum.refused += one.refused;
    sum.ns += one.ns;
  }
  return sum;
}

void reset_call_counts_in_child() {
  for (auto& reasons : cells) {
    for (Cell& cell : reasons) set_to_zero(cell.calls, cell.bytes, cell.refused, cell.ns);
  }
}

long counted_call(Call call, Reason reason, size_t bytes, const CallArguments& arguments) {
  const CallArguments& x = arguments;
  uint64_t begin = monotonic_ns();
  long result = sys(x.number, x.a, x.b, x.c, x.d, x.e, x.f);
  bool refused = sys_failed(result) && call != Call::kRemapProbe;
  CallRecord record{begin, monotonic_ns() - begin, bytes, call, reason, refused, call_size_class};
  count(record);
  if (auto hook = call_hook.load(std::memory_order_relaxed); SEEMALLOC_UNLIKELY(hook != nullptr))
    hook(record);
  return result;
}

}  // namespace seemalloc::os
