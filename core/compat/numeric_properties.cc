#include "core/compat/numeric_properties.h"

#include "core/base/options.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/compat/control_settings.h"
#include "core/compat/stats_snapshot.h"
#include "core/os/kernel/memory.h"

namespace seemalloc::compat {

namespace {

using options::Id;

template <typename Pick>
size_t figure(Pick pick) {
  Snapshot s;
  take_snapshot(&s);
  return pick(s);
}

size_t option(Id id) { return static_cast<size_t>(options::get(id)); }

struct Property {
  const char* name;
  size_t (*get)();
  bool (*set)(size_t value);  // null: cannot be set
};

#define FIGURE(expression) [] { return figure([](const Snapshot& s) { return expression; }); }

constexpr Property kProperties[] = {
    {"generic.current_allocated_bytes", FIGURE(s.allocated), nullptr},
    {"generic.heap_size", FIGURE(s.heap), nullptr},
    {"generic.total_physical_bytes", FIGURE(s.resident), nullptr},
    {"tcmalloc.max_total_thread_cache_bytes", [] { return option(Id::thread_cache); },
     [](size_t n) { return set_option_to("thread_cache", n); }},
    {"tcmalloc.current_total_thread_cache_bytes", FIGURE(s.cached), nullptr},
    {"tcmalloc.thread_cache_free_bytes", FIGURE(s.cached), nullptr},
    {"tcmalloc.central_cache_free_bytes", FIGURE(s.fragmentation), nullptr},
    {"tcmalloc.transfer_cache_free_bytes", [] { return size_t{0}; }, nullptr},
    {"tcmalloc.pageheap_free_bytes", FIGURE(s.free_dirty), nullptr},
    {"tcmalloc.pageheap_unmapped_bytes", FIGURE(s.free_clean), nullptr},
    {"tcmalloc.slack_bytes", FIGURE(s.free_dirty + s.free_clean), nullptr},
    {"tcmalloc.pageheap_committed_bytes", FIGURE(s.heap - s.free_clean), nullptr},
    {"tcmalloc.pageheap_decommit_count", [] { return size_t{os::counters().purge_calls}; },
     nullptr},
    {"tcmalloc.pageheap_total_decommit_bytes", [] { return size_t{os::counters().purge_bytes}; },
     nullptr},
    {"tcmalloc.pageheap_reserve_count", [] { return size_t{os::counters().map_calls}; }, nullptr},
    {"tcmalloc.pageheap_total_reserve_bytes", [] { return size_t{os::counters().map_bytes}; },
     nullptr},
    {"tcmalloc.sampling_period_bytes", [] { return option(Id::sample); }, nullptr},
    {"tcmalloc.aggressive_memory_decommit",
     [] {
       return size_t{options::get(Id::purge) == static_cast<uint64_t>(options::Purge::kEager)};
     },
     [](size_t on) { return set_option_to("purge", on != 0 ? "eager" : "balanced"); }},
    {"tcmalloc.heap_limit_mb", [] { return option(Id::heap_limit) / MiB; },
     [](size_t megabytes) {
       return megabytes < SIZE_MAX / MiB && set_option_to("heap_limit", megabytes * MiB);
     }},
    {"tcmalloc.impl.thread_cache_count", FIGURE(s.threads), nullptr},
};

const Property* find(const char* name) {
  for (const Property& property : kProperties) {
    if (text_equal(property.name, name)) return &property;
  }
  return nullptr;
}

}  // namespace

bool get_property(const char* name, size_t* value) {
  const Property* property = find(name);
  if (property == nullptr) return false;
  *value = property->get();
  return true;
}

bool set_property(const char* name, size_t value) {
  const Property* property = find(name);
  return property != nullptr && property->set != nullptr && property->set(value);
}

size_t property_count() { return sizeof(kProperties) / sizeof(kProperties[0]); }
const char* property_name(size_t index) { return kProperties[index].name; }

}  // namespace seemalloc::compat
