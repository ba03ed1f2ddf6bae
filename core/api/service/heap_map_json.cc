#include "core/api/service/heap_map_json.h"

#include <algorithm>

#include "core/api/sampling/sampling.h"
#include "core/api/service/json.h"
#include "core/api/service/report.h"
#include "core/heap/maintenance/holes.h"
#include "core/heap/reports/heap_map.h"
#include "core/heap/reports/statistics.h"
#include "core/heap/spans/sampled.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/memory.h"
#include "core/pages/huge/huge.h"
#include "core/pages/huge/huge_cache.h"
#include "core/pages/span/page_map.h"
#include "core/pages/span/region_count.h"

namespace seemalloc {

namespace {

using heap::MapPart;
using heap::PartKind;
using pages::SpanState;

// The longest line of a sum, and of one part.
constexpr size_t kMaxLineBytes = 400;
constexpr size_t kMaxPartBytes = 320;
static_assert(kMemoryJsonBytes + kMaxLineBytes / 4 < 2 * kMaxLineBytes);
// Address space for an answer with parts; unwritten pages cost no memory.
constexpr size_t kPartsBytes = 16 * MiB;

size_t bytes_of_sums() {
  size_t lines =
      pages::region_count() + pages::huge_statistics().spans + pages::HugeCache::kMaxExtents;
  constexpr size_t kHeadroom = 256;  // samples that may be added meanwhile
  constexpr size_t kStacksBytes = 1 * MiB;
  return round_up((lines + kHeadroom) * kMaxLineBytes + kStacksBytes, os::page_bytes());
}

// ---- the samples that pin spans ----

// A sampled block, by the start of its own span, or by the number of its home span.
struct PinningSample {
  uint64_t key;
  SampleView sample;
};
constexpr uint64_t kHomeKey = uint64_t{1} << 63;

class PinningSamples {
 public:
  explicit PinningSamples(const HeapMapRequest& request)
      : request_(request),
        memory_(round_up((2 * sampling_report().live_samples + kHeadroom) * sizeof(PinningSample),
                         os::page_bytes())) {}

  // False when memory was refused.
  bool collect() {
    if (memory_.memory() == nullptr) return false;
    heap::for_each_sampled_block(
        [](void* context, const heap::SampledBlock& block) {
          static_cast<PinningSamples*>(context)->add(block);
        },
        this);
    std::sort(pins(), pins() + count_, [](const PinningSample& a, const PinningSample& b) {
      return a.key != b.key ? a.key < b.key : a.sample.born_ns < b.sample.born_ns;
    });
    return true;
  }

  // The oldest sample of the key, or null; *samples is the number of samples of the key.
  const SampleView* find(uint64_t key, uint64_t* samples) {
    const PinningSample* end = pins() + count_;
    const PinningSample* first =
        std::lower_bound(pins(), pins() + count_, key,
                         [](const PinningSample& pin, uint64_t k) { return pin.key < k; });
    *samples = 0;
    while (first + *samples < end && first[*samples].key == key) ++*samples;
    return *samples != 0 ? &first->sample : nullptr;
  }

 private:
  static constexpr size_t kHeadroom = 4096;  // samples that may be added while it is filled

  PinningSample* pins() { return reinterpret_cast<PinningSample*>(memory_.memory()); }

  // Called under the lock of the block's class: its span and its sample cannot go away.
  void add(const heap::SampledBlock& block) {
    SampleView sample;
    if (!view_sample(block.id, &sample)) return;
    const pages::Span* span = pages::page_map.span_of(block.block);
    uintptr_t region = span->start & ~(kRegionBytes - 1);
    if (region >= request_.from && region < request_.to) push(span->start, sample);
    if (block.home != 0) push(kHomeKey | block.home, sample);
  }
  void push(uint64_t key, const SampleView& sample) {
    if ((count_ + 1) * sizeof(PinningSample) > memory_.bytes()) return;
    pins()[count_++] = PinningSample{key, sample};
  }

  const HeapMapRequest& request_;
  MappedText memory_;
  size_t count_ = 0;
};

// The stacks that lines refer to, each to be written once.
class Stacks {
 public:
  Stacks() : memory_(kMax * sizeof(SampleView)) {}
  bool ready() const { return memory_.memory() != nullptr; }
  void add(const SampleView& sample) {
    if (count_ < kMax) stacks()[count_++] = sample;
  }
  // Returns the number of stacks left out for lack of space.
  uint64_t write(Text& out, size_t room) {
    uint64_t left_out = 0;
    std::sort(stacks(), stacks() + count_,
              [](const SampleView& a, const SampleView& b) { return a.stack < b.stack; });
    for (size_t i = 0; i < count_; i++) {
      const SampleView& sample = stacks()[i];
      if (i != 0 && stacks()[i - 1].stack == sample.stack) continue;
      if (out.size() + 2 * kMaxLineBytes + estimate_text_bytes(sample) > room) {
        left_out++;
        continue;
      }
      write(out, sample);
    }
    return left_out;
  }

 private:
  static constexpr size_t kMax = 64 * 1024;

  SampleView* stacks() { return reinterpret_cast<SampleView*>(memory_.memory()); }

  // The most bytes that the frames can take.
  static size_t estimate_text_bytes(const SampleView& sample) {
    constexpr size_t kMaxFrameBytes = 24, kMaxLocationBytes = 80;
    size_t bytes = sample.depth * kMaxFrameBytes;
    PythonLocation place;
    for (unsigned i = 0; i < sample.depth; i++) {
      if (python_location(sample.return_addresses[i], &place))
        bytes += kMaxLocationBytes + 2 * (place.function_bytes + place.file_bytes);
    }
    return bytes;
  }

  static void write(Text& out, const SampleView& sample) {
    {
      JsonObject object(out);
      object.key("stack") << '"' << Hex{sample.stack} << '"';
      {
        JsonArray frames(object.key("frames"));
        for (unsigned i = 0; i < sample.depth; i++)
          frames.next() << '"' << Hex{sample.return_addresses[i]} << '"';
      }
      write_python(object, sample);
    }
    out << '\n';
  }

  // Frames that only the process can name.
  static void write_python(JsonObject& object, const SampleView& sample) {
    PythonLocation place;
    auto is_python = [&](uintptr_t pc) { return python_location(pc, &place); };
    if (!std::any_of(sample.return_addresses, sample.return_addresses + sample.depth, is_python))
      return;
    JsonArray places(object.key("python"));
    for (unsigned i = 0; i < sample.depth; i++) {
      if (!python_location(sample.return_addresses[i], &place)) continue;
      JsonObject one(places.next());
      one.key("address") << '"' << Hex{sample.return_addresses[i]} << '"';
      append_escaped(one.key("function") << '"', place.function, place.function_bytes) << '"';
      append_escaped(one.key("file") << '"', place.file, place.file_bytes) << '"';
      one.put("line", uint64_t{place.line});
    }
  }

  MappedText memory_;
  size_t count_ = 0;
};

// ---- lines ----

uint64_t ms_since(uint64_t then_ns, uint64_t now_ns) {
  return then_ns < now_ns ? (now_ns - then_ns) / kMillisecondNs : 0;
}

const char* word_of(PartKind kind) {
  switch (kind) {
    case PartKind::kSmall: return "small";
    case PartKind::kSampled: return "sampled";
    case PartKind::kLarge: return "large";
    case PartKind::kKept: return "kept";
    case PartKind::kTaken: return "taken";
    case PartKind::kDirty: return "dirty";
    case PartKind::kLazy: return "lazy";
    case PartKind::kPurged: return "purged";
    case PartKind::kClean: return "clean";
  }
  return "";
}

const char* word_of(const MapPart& part) {
  if (!part.owned) return "central";
  switch (part.state) {
    case SpanState::kCurrent: return "current";
    case SpanState::kAvailable: return "available";
    case SpanState::kFull: return "full";
    case SpanState::kDetached: return "detached";
  }
  return "";
}

struct Scratch {
  heap::RegionMap region;
  pages::Extent extents[pages::HugeCache::kMaxExtents];
};

class Writer {
 public:
  Writer(Text& out, size_t room, const HeapMapRequest& request, PinningSamples* pins,
         Stacks& stacks)
      : out_(out),
        room_(room),
        request_(request),
        pins_(pins),
        stacks_(stacks),
        now_ns_(os::monotonic_ns()) {}

  void write(Scratch* scratch) {
    if (!request_.with_parts) write_memory();
    heap::HeapMapWalk walk(request_.from, request_.to, request_.with_parts, &scratch->region);
    while (walk.next()) write_region(scratch->region);
    heap::for_each_huge_part(
        request_.from, request_.to,
        [](void* context, const heap::HugePart& part) {
          static_cast<Writer*>(context)->write_huge(part);
        },
        this);
    unsigned count = pages::copy_cached_extents(scratch->extents);
    for (unsigned i = 0; i < count; i++) write_retained(scratch->extents[i]);
    uint64_t stacks_left_out = stacks_.write(out_, room_);
    {
      JsonObject(out_)
          .put("end", now_ns_)
          .put("regions", regions_)
          .put("page_bytes", uint64_t{kPageBytes})
          .put("os_page_bytes", os::page_bytes())
          .put("left_out", left_out_)
          .put("stacks_left_out", stacks_left_out);
    }
    out_ << '\n';
  }

 private:
  // The last line always has space reserved.
  bool has_room(size_t bytes) {
    if (out_.size() + bytes + kMaxLineBytes <= room_) return true;
    left_out_++;
    return false;
  }

  // The resident parts of all memory: the lines that follow are based on the heap's metadata.
  void write_memory() {
    if (!has_room(2 * kMaxLineBytes)) return;
    {
      JsonObject object(out_);
      write_memory_json(object.key("memory"), heap::statistics(), true);
    }
    out_ << '\n';
  }

  void write_region(const heap::RegionMap& r) {
    if (!has_room(kMaxLineBytes + r.part_count * kMaxPartBytes)) return;
    regions_++;
    {
      JsonObject object(out_);
      object.key("region") << '"' << Hex{r.base} << '"';
      object.put("shard", uint64_t{r.shard})
          .put("huge", uint64_t{r.on_huge_page})
          .put("spans", uint64_t{r.spans})
          .put("used", uint64_t{r.used})
          .put("taken", uint64_t{r.taken})
          .put("dirty", uint64_t{r.dirty})
          .put("lazy", uint64_t{r.lazy})
          .put("purged", uint64_t{r.purged})
          .put("clean", uint64_t{r.clean})
          .put("live_bytes", r.live_bytes)
          .put("free_bytes", r.free_bytes)
          .put("hole_bytes", r.hole_bytes)
          .put("most", uint64_t{r.main_class_bytes});
      if (request_.with_parts) {
        JsonArray parts(object.key("parts"));
        for (unsigned i = 0; i < r.part_count; i++) write_part(parts.next(), r.parts[i]);
      }
    }
    out_ << '\n';
  }

  void write_part(Text& out, const MapPart& part) {
    JsonObject object(out);
    object.put("page", uint64_t{part.first_page})
        .put("pages", uint64_t{part.pages})
        .put("is", word_of(part.kind));
    SampleView sample;
    if (part.kind == PartKind::kLarge && view_sample(part.sample_id, &sample))
      write_pin(object, sample, 1);
    if (part.block_bytes == 0) return;
    object.put("size", uint64_t{part.block_bytes})
        .put("blocks", uint64_t{part.capacity})
        .put("cut", uint64_t{part.carved})
        .put("live", uint64_t{part.live});
    if (part.returned != 0) object.put("returned", uint64_t{part.returned});
    if (part.hole_pages != 0) object.put("holes", uint64_t{part.hole_pages});
    if (part.kind == PartKind::kSmall) object.put("state", word_of(part));
    if (part.is_waiting)
      object.put("idle_ms", heap::ns_since_hole_epoch(part.since) / kMillisecondNs);
    uint64_t key = part.kind == PartKind::kSampled ? part.start
                   : part.home != 0                ? kHomeKey | part.home
                                                   : 0;
    uint64_t samples = 0;
    if (key == 0) return;
    if (const SampleView* pin = pins_->find(key, &samples)) write_pin(object, *pin, samples);
  }

  void write_pin(JsonObject& object, const SampleView& sample, uint64_t samples) {
    object.key("stack") << '"' << Hex{sample.stack} << '"';
    object.put("samples", samples)
        .put("age_ms", ms_since(sample.born_ns, now_ns_))
        .put("thread", uint64_t{sample.thread_id});
    stacks_.add(sample);
  }

  void write_huge(const heap::HugePart& part) {
    if (!has_room(kMaxLineBytes)) return;
    {
      JsonObject object(out_);
      object.key("block") << '"' << Hex{part.start} << '"';
      object.put("bytes", part.bytes).put("room", part.room);
      SampleView sample;
      if (view_sample(part.sample_id, &sample)) write_pin(object, sample, 1);
    }
    out_ << '\n';
  }

  void write_retained(const pages::Extent& extent) {
    if (extent.start < request_.from || extent.start >= request_.to || !has_room(kMaxLineBytes))
      return;
    {
      JsonObject object(out_);
      object.key("kept") << '"' << Hex{extent.start} << '"';
      object.put("bytes", extent.bytes);
      if (extent.freed_ns != 0 && extent.freed_ns != UINT64_MAX)
        object.put("idle_ms", ms_since(extent.freed_ns, now_ns_));
    }
    out_ << '\n';
  }

  Text& out_;
  size_t room_;
  const HeapMapRequest& request_;
  PinningSamples* pins_;  // null: sums only
  Stacks& stacks_;
  uint64_t now_ns_;
  uint64_t regions_ = 0, left_out_ = 0;
};

}  // namespace

HeapMapJson::HeapMapJson(const HeapMapRequest& request)
    : HeapMapJson(request, request.with_parts ? kPartsBytes : bytes_of_sums()) {}

HeapMapJson::HeapMapJson(const HeapMapRequest& request, size_t room)
    : request_(request),
      room_(room),
      memory_(round_up(room, os::page_bytes())),
      text_(nothing_, sizeof(nothing_)) {}

bool HeapMapJson::write() {
  MappedText scratch(round_up(sizeof(Scratch), os::page_bytes()));
  if (memory_.memory() == nullptr || scratch.memory() == nullptr) return false;
  Stacks stacks;
  if (!stacks.ready()) return false;
  text_ = Text(memory_.memory(), room_);
  Scratch* space = reinterpret_cast<Scratch*>(scratch.memory());
  if (!request_.with_parts) {
    Writer(text_, room_, request_, nullptr, stacks).write(space);
    return true;
  }
  PinningSamples pins(request_);
  if (!pins.collect()) return false;
  Writer(text_, room_, request_, &pins, stacks).write(space);
  return true;
}

}  // namespace seemalloc
