#include "core/api/service/trace.h"

#include <atomic>

#include "core/api/sampling/sampling.h"
#include "core/api/service/event_ring.h"
#include "core/heap/thread/size_class.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/ids.h"
#include "core/os/kernel/memory.h"
#include "core/os/runtime/scratch.h"

namespace seemalloc {

namespace {

constexpr unsigned kMaxReaders = 8;
constexpr uint64_t kReaderTimeoutNs = 5 * kSecondNs;
constexpr size_t kMaxLineBytes = 160 + TraceEvent::kMaxFrames * 19;
constexpr unsigned kEventsPerRead = 600;
static_assert(kEventsPerRead * kMaxLineBytes + 100 < kTraceTextBytes);

// ---- recording: any thread ----

std::atomic<EventRing*> ring{nullptr};
std::atomic<unsigned> writers{0};     // threads that may be using the ring
std::atomic<uint64_t> expires_ns{0};  // when the last reader expires
constinit thread_local bool recording = false;

void describe(const os::CallRecord& record, TraceEvent& event) {
  event.begin_ns = record.begin_ns;
  event.took_ns = record.took_ns;
  event.bytes = record.bytes;
  event.thread = static_cast<uint32_t>(os::thread_id());
  event.call = static_cast<uint8_t>(record.call);
  event.reason = static_cast<uint8_t>(record.reason);
  event.size_class = record.size_class;
  event.refused = record.refused;
  event.depth = call_stack(event.frames, TraceEvent::kMaxFrames);
}

SEEMALLOC_NOINLINE void record_call(const os::CallRecord& record) {
  if (record.reason == os::Reason::kReport) return;
  // The ring is unmapped once no writer is left and none can come: each writer counts itself in
  // first and then checks whether the ring is there.
  writers.fetch_add(1, std::memory_order_seq_cst);
  EventRing* events = ring.load(std::memory_order_seq_cst);
  if (events != nullptr && record.begin_ns > expires_ns.load(std::memory_order_relaxed)) {
    // The helper thread is busy; it will do the rest.
    os::call_hook.store(nullptr, std::memory_order_relaxed);
  } else if (events != nullptr && (recording || os::in_nested_call)) {
    events->drop();  // includes a signal handler's call in the middle of another event
  } else if (events != nullptr) {
    recording = true;
    if (os::Scratch<TraceEvent> event; event) {
      describe(record, *event);
      events->put(*event);
    } else {
      events->drop();
    }
    recording = false;
  }
  writers.fetch_sub(1, std::memory_order_seq_cst);
}

// ---- reader: the helper thread ----

struct Reader {
  unsigned name = 0;  // 0: none
  uint64_t position = 0;
  uint64_t overwritten = 0;
  uint64_t dropped_before = 0;
  uint64_t read_ns = 0;
};
constinit Reader readers[kMaxReaders];
unsigned last_name = 0;
EventRing* retired_ring = nullptr;  // a writer may still be using it

Reader* find(unsigned name) {
  for (Reader& reader : readers) {
    if (reader.name == name) return &reader;
  }
  return nullptr;
}

size_t ring_bytes() { return round_up(EventRing::bytes(), os::page_bytes()); }

void unmap_retired() {
  if (retired_ring == nullptr || writers.load(std::memory_order_seq_cst) != 0) return;
  os::unmap(retired_ring, ring_bytes(), os::Reason::kReport);
  retired_ring = nullptr;
}

void end_tracing() {
  os::call_hook.store(nullptr, std::memory_order_relaxed);
  EventRing* events = ring.exchange(nullptr, std::memory_order_seq_cst);
  if (events != nullptr) retired_ring = events;
  unmap_retired();
}

bool begin_tracing() {
  if (ring.load(std::memory_order_relaxed) != nullptr) return true;
  unmap_retired();
  EventRing* events = retired_ring;  // with a late writer in it: as good as a new one
  retired_ring = nullptr;
  if (events == nullptr)
    events = static_cast<EventRing*>(os::map(ring_bytes(), os::Reason::kReport));
  if (events == nullptr) return false;
  ring.store(events, std::memory_order_seq_cst);
  return true;
}

void note_read(Reader& reader) {
  reader.read_ns = os::monotonic_ns();
  expires_ns.store(reader.read_ns + kReaderTimeoutNs, std::memory_order_relaxed);
  os::call_hook.store(record_call, std::memory_order_relaxed);
}

void write_event(const TraceEvent& event, Text& out) {
  out << event.begin_ns << ' ' << os::call_name(static_cast<os::Call>(event.call)) << ' '
      << os::reason_name(static_cast<os::Reason>(event.reason)) << ' ' << event.bytes << ' '
      << event.took_ns << ' ' << event.thread << ' ';
  if (event.size_class != 0) {
    out << uint64_t{heap::kClasses[event.size_class - 1].bytes};
  } else {
    out << '-';
  }
  out << (event.refused ? " 1 " : " 0 ");
  for (unsigned i = 0; i < event.depth; i++) {
    if (i != 0) out << ',';
    out << Hex{event.frames[i]};
  }
  out << (event.depth == 0 ? "-\n" : "\n");
}

}  // namespace

TraceStart start_trace(unsigned* reader) {
  tick_trace(os::monotonic_ns());
  Reader* fresh = find(0);
  if (fresh == nullptr) return TraceStart::kTooManyReaders;
  if (!begin_tracing()) return TraceStart::kNoMemory;
  const EventRing* events = ring.load(std::memory_order_relaxed);
  if (++last_name == 0) ++last_name;
  *fresh = Reader{last_name, events->head(), 0, events->dropped(), 0};
  note_read(*fresh);
  *reader = last_name;
  return TraceStart::kStarted;
}

bool read_trace(unsigned name, Text& out) {
  tick_trace(os::monotonic_ns());
  Reader* reader = name != 0 ? find(name) : nullptr;
  if (reader == nullptr) return false;
  note_read(*reader);
  const EventRing* events = ring.load(std::memory_order_relaxed);
  TraceEvent event;
  unsigned count = 0;
  while (count < kEventsPerRead && events->read(&reader->position, &event, &reader->overwritten)) {
    write_event(event, out);
    count++;
  }
  out << "lost " << reader->overwritten << " dropped " << events->dropped() - reader->dropped_before
      << " more " << (count == kEventsPerRead ? 1 : 0) << '\n';
  return true;
}

bool stop_trace(unsigned name) {
  Reader* reader = name != 0 ? find(name) : nullptr;
  if (reader == nullptr) return false;
  *reader = Reader{};
  tick_trace(os::monotonic_ns());
  return true;
}

void tick_trace(uint64_t now_ns) {
  unmap_retired();
  if (ring.load(std::memory_order_relaxed) == nullptr) return;
  bool any = false;
  for (Reader& reader : readers) {
    if (reader.name != 0 && now_ns > reader.read_ns + kReaderTimeoutNs) reader = Reader{};
    any |= reader.name != 0;
  }
  if (!any) end_tracing();
}

// The ring is left as it is, shared with the parent: this may run in a signal handler that has
// interrupted a writer.
void reset_trace_in_child() {
  os::call_hook.store(nullptr, std::memory_order_relaxed);
  ring.store(nullptr, std::memory_order_relaxed);
  writers.store(recording ? 1 : 0, std::memory_order_relaxed);
  retired_ring = nullptr;
  for (Reader& reader : readers) reader = Reader{};
}

}  // namespace seemalloc
