#include "core/api/dumps/profile_kinds.h"

#include "core/api/cpu/cpu_profiler.h"
#include "core/os/runtime/report_memory.h"

namespace seemalloc {

namespace {
constexpr ProfileKind kProfileKinds[] = {
    {"heap", "blocks in use and all that were allocated, by stack", heap_profile},
    {"allocs", "all blocks that were allocated, by stack", allocs_profile},
    {"peak", "blocks in use when most bytes were", peak_profile},
    {"since", "what the heap profile has more or less than at the baseline", since_profile},
    {"churn", "allocations, bytes asked for, copies by realloc, blocks freed within 10 ms",
     churn_profile},
    {"lifetime", "how long blocks lived, and by whom they were freed", lifetime_profile},
    {"deaths", "where blocks were freed, by where they were allocated", deaths_profile},
    {"threads", "blocks in use, by stack and by the thread that allocated them", threads_profile},
    {"remote", "blocks that another thread than the one that allocated them has freed",
     remote_free_profile},
    {"expansion", "stacks for which the heap took memory from the OS", growth_profile},
    {"pools", "blocks of the memory pools that the program reports, by pool and stack",
     pool_profile},
    {"fragmentation", "free memory in half-empty spans, by the stacks of the blocks that pin them",
     fragmentation_profile},
    {"cpu", "CPU time, as far as it has been profiled: by now, or the last time", cpu_profile},
};

// The name until version 0.1, accepted for one more version. `seemalloc growth` is about live
// memory.
constexpr const char* kOldNames[][2] = {{"growth", "expansion"}};
}  // namespace

const ProfileKind* find_profile_kind(const char* name) {
  for (const auto& [old_name, present] : kOldNames) {
    if (text_equal(old_name, name)) name = present;
  }
  for (const ProfileKind& kind : kProfileKinds) {
    if (text_equal(kind.name, name)) return &kind;
  }
  return nullptr;
}

void list_profile_kinds(Text& out) {
  const char* between = "";
  for (const ProfileKind& kind : kProfileKinds) {
    out << between << kind.name;
    between = ", ";
  }
}

void release_profile(const ProfileBytes& profile) {
  os::unmap_report(profile.data, profile.mapped_bytes);
}

}  // namespace seemalloc
