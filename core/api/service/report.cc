#include "core/api/service/report.h"

#include "core/api/dumps/dump.h"
#include "core/api/malloc/alternative_names.h"
#include "core/api/malloc/process.h"
#include "core/api/sampling/sampling.h"
#include "core/api/service/json.h"
#include "core/api/service/socket_directory.h"
#include "core/base/options.h"
#include "core/heap/maintenance/holes.h"
#include "core/heap/maintenance/pressure.h"
#include "core/heap/thread/thread_heap.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/files.h"
#include "core/os/kernel/ids.h"
#include "core/os/kernel/memory.h"
#include "core/os/process/process.h"
#include "core/os/runtime/arena.h"
#include "core/os/runtime/lock.h"
#include "core/pages/huge/huge.h"
#include "core/pages/page_heap/page_heap.h"
#include "core/pages/page_heap/purge.h"
#include "core/pages/policy/purge_policy.h"
#include "core/pages/policy/refaults.h"
#include "core/pages/span/memory_account.h"
#include "core/pages/span/page_map.h"

namespace seemalloc {

void write_memory_json(Text& out, const heap::Statistics& statistics, bool with_residency) {
  MemoryReport r = memory_report(statistics, with_residency);
  JsonObject object(out);
  object.put("rss", r.rss).put("peak_rss", os::peak_resident_set_bytes());
  if (with_residency) {
    object.put("live", r.live)
        .put("cached", r.cached)
        .put("fragmentation", r.fragmentation)
        .put("not_ours", r.not_ours)
        .put("unused", r.unused)
        .put("uncertain", r.uncertain)
        .put("pages_refused", uint64_t{!r.kernel_answered});
  }
  object.put("metadata", r.metadata)
      .put("mapped", r.mapped)
      .put("live_allocated", r.live_allocated)
      .put("dirty", r.dirty);
}

namespace {

void write_sampling(Text& out) {
  SamplingReport r = sampling_report();
  JsonObject(out)
      .put("interval", options::get(options::Id::sample))
      .put("samples", r.samples)
      .put("live_samples", r.live_samples)
      .put("dropped", r.dropped)
      .put("truncated", r.truncated)
      .put("broken", r.broken)
      .put("stacks", r.stacks)
      .put("backed_off", r.backed_off)
      .put("estimate", r.estimate_bytes)
      .put("estimate_stderr", r.estimate_stderr_bytes)
      .put("requested", r.requested_bytes)
      .put("requested_stderr", r.requested_stderr_bytes);
}

// One object for each call and reason that has occurred.
void write_calls(Text& out) {
  JsonArray array(out);
  for (unsigned i = 0; i < os::kCalls * os::kReasons; i++) {
    os::Call call = static_cast<os::Call>(i / os::kReasons);
    os::Reason reason = static_cast<os::Reason>(i % os::kReasons);
    os::CallCount c = os::call_count(call, reason);
    if (c.calls == 0) continue;
    JsonObject(array.next())
        .put("call", os::call_name(call))
        .put("reason", os::reason_name(reason))
        .put("calls", c.calls)
        .put("bytes", c.bytes)
        .put("refused", c.refused)
        .put("ns", c.ns);
  }
}

void write_locks(Text& out) {
  LockWaits shared = shared_lock_waits(), owner = owner_lock_waits();
  JsonObject(out)
      .put("shared_short_waits", shared.short_waits)
      .put("shared_waits", shared.waits)
      .put("shared_wait_ns", shared.wait_ns)
      .put("heap_short_waits", owner.short_waits)
      .put("heap_waits", owner.waits)
      .put("heap_wait_ns", owner.wait_ns);
}

void write_spans(Text& out, const heap::SpanStatistics& s) {
  pages::PageStatistics regions = pages::page_statistics();
  JsonObject(out)
      .put("owned", s.owned)
      .put("owned_bytes", s.owned_bytes)
      .put("central", s.central)
      .put("central_bytes", s.central_bytes)
      .put("empty", s.empty)
      .put("empty_bytes", s.empty_bytes)
      .put("sampled", s.sampled)
      .put("sampled_bytes", s.sampled_bytes)
      .put("cached_large", s.cached_large)
      .put("cached_large_bytes", s.cached_large_bytes)
      .put("free_dirty_bytes", regions.dirty_bytes)
      .put("free_clean_bytes",
           saturating_subtract(regions.mapped_bytes, regions.used_bytes + regions.dirty_bytes));
}

void write_blocks(Text& out, const heap::Statistics& s) {
  JsonObject(out)
      .put("live_bytes", s.live_bytes)
      .put("cached_bytes", s.cached_bytes)
      .put("free_bytes", s.free_bytes)
      .put("allocated_bytes", s.allocated_bytes);
}

void write_system(Text& out) {
  os::Counters c = os::counters();
  uint64_t minor = 0, major = 0;
  os::page_faults(&minor, &major);
  JsonObject object(out);
  object.put("map_calls", c.map_calls)
      .put("map_bytes", c.map_bytes)
      .put("unmap_calls", c.unmap_calls)
      .put("unmap_bytes", c.unmap_bytes)
      .put("purge_calls", c.purge_calls)
      .put("purge_bytes", c.purge_bytes)
      .put("remap_calls", c.remap_calls)
      .put("huge_page_calls", c.huge_page_calls)
      .put("refused_calls", c.refused_calls)
      .put("minor_faults", minor)
      .put("major_faults", major);
  write_calls(object.key("calls"));
  pages::Refaults refaults = pages::refaults();
  object.put("refault_runs", refaults.runs)
      .put("refault_bytes", refaults.bytes)
      .put("refault_delayed_bytes", refaults.delayed_bytes);
}

void write_purge(Text& out) {
  pages::PurgeStatistics p = pages::purge_statistics();
  heap::HoleCounters holes = heap::hole_counters();
  JsonObject(out)
      .put("mode", options::word(options::Id::purge, static_cast<uint64_t>(pages::purge_mode())))
      .put("delay_ms", p.delay_ns / kMillisecondNs)
      .put("purged_bytes", p.purged_bytes)
      .put("postponed", p.postponed)
      .put("hole_spans", holes.spans)
      .put("hole_bytes", holes.purged_bytes)
      .put("hole_refilled_bytes", holes.refilled_bytes);
}

void write_pressure(Text& out) {
  heap::PressureStatistics p = heap::pressure_statistics();
  JsonObject(out)
      .put("limit", p.limit)
      .put("usage", p.usage)
      .put("short", uint64_t{p.now})
      .put("times", p.times)
      .put("rounds", p.rounds)
      .put("purged_bytes", p.purged_bytes)
      .put("ns", p.ns)
      .put("waits", p.waits)
      .put("wait_ns", p.wait_ns)
      .put("heap", pages::memory_account.total_bytes())
      .put("refusals", pages::memory_account.refusals());
}

void write_dumps(Text& out) {
  DumpStatistics d = dump_statistics();
  JsonObject(out)
      .put("written", d.written)
      .put("failed", d.failed)
      .put("removed", d.removed)
      .put("joined", d.joined)
      .put("last_errno", static_cast<uint64_t>(d.last_error));
}

void write_classes(Text& out, const heap::Statistics& s) {
  JsonArray array(out);
  for (unsigned i = 0; i < heap::kClassCount; i++) {
    const heap::ClassStatistics& c = s.classes[i];
    if (c.spans == 0 && c.live == 0) continue;  // sampled blocks are in spans of another class
    JsonObject(array.next())
        .put("size", uint64_t{heap::kClasses[i].bytes})
        .put("spans", c.spans)
        .put("live", c.live)
        .put("cached", c.cached)
        .put("free", c.free)
        .put("refills", c.refills);
  }
}

// The longest object of one thread, and the end of the list.
constexpr size_t kMaxThreadBytes = 256;

struct ThreadList {
  Text& out;
  size_t room;
  JsonArray array;
  uint64_t left_out;
};

void write_thread(void* context, const heap::ThreadStatistics& t) {
  ThreadList& list = *static_cast<ThreadList*>(context);
  if (list.out.size() + 2 * kMaxThreadBytes > list.room) {
    list.left_out++;
    return;
  }
  JsonObject(list.array.next())
      // The kernel may refuse to report it.
      .put("tid", uint64_t{t.thread_id > 0 ? static_cast<unsigned>(t.thread_id) : 0})
      .put("list_bytes", t.list_bytes)
      .put("empty_bytes", t.empty_bytes)
      .put("free_bytes", t.free_bytes)
      .put("large_bytes", t.large_bytes)
      .put("live_bytes", t.live_bytes)
      .put("refills", t.refills)
      .put("remote_frees", t.remote_frees);
}

}  // namespace

// More heaps may be created between this and the writing.
size_t threads_json_bytes() {
  return round_up((heap::active_heaps() + 16) * kMaxThreadBytes, os::page_bytes());
}

void write_threads_json(Text& out, size_t room) {
  JsonObject root(out);
  root.put("time_ns", os::monotonic_ns());
  uint64_t left_out = 0;
  {
    ThreadList list{out, room, JsonArray(root.key("threads")), 0};
    heap::for_each_thread(write_thread, &list);
    left_out = list.left_out;
  }
  root.put("left_out", left_out);
}

void write_json(Text& out, bool with_residency) {
  heap::Statistics s = heap::statistics();
  {
    JsonObject root(out);
    root.put("version", SEEMALLOC_VERSION)
        .put("pid", static_cast<uint64_t>(os::process_id()))
        .put("uptime_ms", uptime_ns() / kMillisecondNs)
        .put("time_ns", os::monotonic_ns());
    write_memory_json(root.key("memory"), s, with_residency);
    write_sampling(root.key("sampling"));
    write_system(root.key("system"));
    write_purge(root.key("purge"));
    write_pressure(root.key("pressure"));
    write_dumps(root.key("dumps"));
    write_socket_json(root.key("socket"));
    JsonObject(root.key("threads"))
        .put("heaps", s.heaps)
        .put("live", s.live_heaps)
        .put("remote_frees", s.remote_frees);
    write_locks(root.key("locks"));
    write_spans(root.key("spans"), s.spans);
    write_blocks(root.key("blocks"), s);
    JsonObject(root.key("large")).put("blocks", s.large_spans).put("bytes", s.large_bytes);
    JsonObject(root.key("realloc"))
        .put("copies", s.realloc_copies)
        .put("copied_bytes", s.realloc_copied_bytes);
    write_classes(root.key("size_classes"), s);
  }
}

namespace {

// glibc's lines: numbers are ten characters wide.
void put_glibc_row(Text& out, const char* name, uint64_t value) {
  FixedText<24> number;
  number << value;
  out << name << "=";
  for (size_t i = number.size(); i < 11; i++) out << " ";
  out << number.c_str() << "\n";
}

void print_glibc_stats(Text& out, const heap::Statistics& s) {
  struct mallinfo2 info = mallinfo2_figures(s);
  pages::HugeStatistics huge = pages::huge_statistics();
  out << "Arena 0:\n";
  put_glibc_row(out, "system bytes     ", info.arena);
  put_glibc_row(out, "in use bytes     ", info.uordblks);
  out << "Total (incl. mmap):\n";
  put_glibc_row(out, "system bytes     ", info.arena + info.hblkhd);
  put_glibc_row(out, "in use bytes     ", info.uordblks + info.hblkhd);
  put_glibc_row(out, "max mmap regions ", huge.max_spans);
  put_glibc_row(out, "max mmap bytes   ", huge.max_used_bytes);
}

}  // namespace

void print_statistics() {
  heap::Statistics s = heap::statistics();
  MemoryReport r = memory_report(s, true);
  FixedText<2048> text;
  auto row = [&text](const char* name, size_t bytes) { text << name << uint64_t{bytes} << "\n"; };
  text << "seemalloc " SEEMALLOC_VERSION ", bytes:\n";
  row("resident                ", r.rss);
  row("  live                  ", r.live);
  row("  cached                ", r.cached);
  row("  fragmentation         ", r.fragmentation);
  row("  metadata              ", r.metadata);
  row("  not ours              ", r.not_ours);
  row("  each within           ", r.uncertain);
  row("allocated to the program ", r.live_allocated);
  row("mapped                  ", r.mapped);
  print_glibc_stats(text, s);
  os::write_stderr(text.c_str(), text.size());
}

}  // namespace seemalloc
