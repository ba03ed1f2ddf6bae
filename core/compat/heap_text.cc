#include "core/compat/heap_text.h"

#include <fcntl.h>

#include <atomic>

#include "core/api/dumps/dump.h"
#include "core/base/options.h"
#include "core/base/text.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/files.h"
#include "core/os/kernel/memory.h"
#include "core/os/runtime/report_memory.h"

namespace seemalloc::compat {

uint64_t header_interval() { return options::last_sample_interval(); }

namespace {

uint64_t rounded(double value) { return value > 0 ? static_cast<uint64_t>(value + 0.5) : 0; }

struct Counts {
  uint64_t live = 0, live_bytes = 0, all = 0, all_bytes = 0;
  void add(const Counts& other) {
    live += other.live;
    live_bytes += other.live_bytes;
    all += other.all;
    all_bytes += other.all_bytes;
  }
};

// The counts to write for a row, so that a reader that scales them by the header's interval gets
// our estimate: the samples themselves, if they were drawn with that interval.
Counts counts_of(const SampleRow& row, HeapText form, uint64_t interval) {
  double scale = form == HeapText::kAbsolute ? 1 : chance_of_sample(row.bytes, interval);
  Counts counts;
  counts.live = rounded(row.live_objects * scale);
  counts.all = rounded(row.objects * scale);
  if (counts.live == 0 && row.live_samples != 0) counts.live = 1;
  if (counts.all < counts.live) counts.all = counts.live;
  counts.live_bytes = counts.live * row.bytes;
  counts.all_bytes = counts.all * row.bytes;
  return counts;
}

struct Writer {
  Text* out;  // null: only sums and bounds
  HeapText form;
  uint64_t interval;
  Counts sum;
  size_t bound;  // upper bound on the bytes of the rows
  uint64_t python_frames = 0;
};

void append_counts(Text& out, const Counts& counts) {
  out << counts.live << ": " << counts.live_bytes << " [" << counts.all << ": " << counts.all_bytes
      << "]";
}

// The text has no names: a reader would take a Python function's word for an address of unknown
// code.
bool is_address(uintptr_t word) {
  PythonLocation place;
  return !python_location(word, &place);
}

void append_stack(Text& out, const uintptr_t* return_addresses, unsigned depth) {
  out << "@";
  for (unsigned i = 0; i < depth; i++) {
    if (is_address(return_addresses[i])) out << " " << Hex{return_addresses[i]};
  }
}

void write_counts(Writer& writer, const Counts& counts, const uintptr_t* return_addresses,
                  unsigned depth) {
  writer.sum.add(counts);
  writer.bound += 128 + size_t{depth} * 20;
  if (writer.out == nullptr) {
    for (unsigned i = 0; i < depth; i++)
      writer.python_frames += is_address(return_addresses[i]) ? 0 : 1;
    return;
  }
  if (writer.form == HeapText::kJemalloc) {
    append_stack(*writer.out, return_addresses, depth);
    *writer.out << "\n  t*: ";
    append_counts(*writer.out, counts);
  } else {
    append_counts(*writer.out, counts);
    append_stack(*writer.out << " ", return_addresses, depth);
  }
  *writer.out << "\n";
}

void write_sample(void* context, const SampleRow& row) {
  Writer& writer = *static_cast<Writer*>(context);
  write_counts(writer, counts_of(row, writer.form, writer.interval), row.return_addresses,
               row.depth);
}

// A row of gperftools is one allocation of pages; ours has all of them with the same stack.
void write_growth(void* context, const GrowthStack& row) {
  Counts counts{row.count, row.bytes, row.count, row.bytes};
  write_counts(*static_cast<Writer*>(context), counts, row.return_addresses, row.depth);
}

std::atomic<bool> absolute_was_reset{false};

// Counts may have been reset: by prof.reset, or HeapProfilerStart.
bool may_have_been_reset(HeapText form) {
  return form == HeapText::kJemalloc ||
         (form == HeapText::kAbsolute && absolute_was_reset.load(std::memory_order_relaxed));
}

void write_rows(Writer& writer) {
  if (writer.form == HeapText::kGrowth) {
    for_each_growth_stack(write_growth, &writer);
  } else if (may_have_been_reset(writer.form)) {
    for_each_sample_row_since(write_sample, &writer);
  } else {
    for_each_sample_row(write_sample, &writer);
  }
}

void write_header(Text& out, HeapText form, uint64_t interval, const Counts& sum) {
  if (form == HeapText::kJemalloc) {
    out << "heap_v2/" << interval << "\n  t*: ";
    append_counts(out, sum);
    out << "\n";
    return;
  }
  out << "heap profile: ";
  append_counts(out, sum);
  out << " @ ";
  if (form == HeapText::kSampled) {
    out << "heap_v2/" << interval;
  } else {
    out << (form == HeapText::kGrowth ? "growth" : "heapprofile");
  }
  out << "\n";
}

// Lines that jeprof and pprof skip and `seemalloc top` shows: allocations that the samples missed,
// and the error of the estimates.
void write_notes(Text& out, HeapText form, const Writer& writer) {
  uint64_t interval = writer.interval;
  auto line = [](void* to, const Text& note) {
    *static_cast<Text*>(to) << "# " << note.c_str() << "\n";
  };
  if (form == HeapText::kGrowth) {
    for_each_growth_note(line, &out);
  } else {
    for_each_heap_note(interval, line, &out);
  }
  if (writer.python_frames != 0) {
    out << "# python: " << writer.python_frames
        << " frames are functions in Python, which this text cannot name: left out\n";
  }
  if (uint64_t reset_ns = samples_reset_ns(); may_have_been_reset(form) && reset_ns != 0) {
    out << (form == HeapText::kJemalloc ? "# prof.reset: " : "# HeapProfilerStart: ")
        << saturating_subtract(os::monotonic_ns(), reset_ns) / kMillisecondNs
        << " ms before this profile was taken; samples from before are not in its rows\n";
  }
}

// In the form in which the kernel writes addresses.
void append_bare_hex(Text& out, uint64_t value) {
  FixedText<24> text;
  text << Hex{value};
  out << text.c_str() + 2;
}

void append_unloaded(Text& out, const UnloadedCodeRange& range) {
  append_bare_hex(out, range.start);
  out << "-";
  append_bare_hex(out, range.limit);
  out << " r-xp ";
  append_bare_hex(out, range.file_offset);
  out << " 00:00 0 ";
  out.append(range.path, range.path_bytes);
  out << "\n";
}

void write_maps(Text& out) {
  out << "\nMAPPED_LIBRARIES:\n";
  if (int fd = os::open_file("/proc/self/maps", O_RDONLY); fd >= 0) {
    char part[1024];
    for (long n; (n = os::read_some(fd, part, sizeof(part))) > 0;)
      out.append(part, static_cast<size_t>(n));
    os::close_file(fd);
  }
  for_each_unloaded_code_range(
      [](void* to, const UnloadedCodeRange& range) {
        append_unloaded(*static_cast<Text*>(to), range);
      },
      &out);
}

size_t maps_bytes() {
  size_t bytes = 0;
  for_each_unloaded_code_range(
      [](void* to, const UnloadedCodeRange& range) {
        *static_cast<size_t*>(to) += range.path_bytes + 80;
      },
      &bytes);
  int fd = os::open_file("/proc/self/maps", O_RDONLY);
  if (fd < 0) return bytes;
  char part[1024];
  for (long n; (n = os::read_some(fd, part, sizeof(part))) > 0;) bytes += static_cast<size_t>(n);
  os::close_file(fd);
  return bytes;
}

// Returns false if rows that were added since the measurement do not fit.
bool write_all(Text& text, HeapText form) {
  Writer writer{nullptr, form, header_interval(), {}, 0};
  write_rows(writer);
  write_header(text, form, writer.interval, writer.sum);
  write_notes(text, form, writer);
  writer.out = &text;
  write_rows(writer);
  write_maps(text);
  return !text.truncated();
}

size_t estimate_text_bytes(HeapText form) {
  Writer writer{nullptr, form, header_interval(), {}, 0};
  write_rows(writer);
  return writer.bound + writer.bound / 4 + maps_bytes() + 64 * KiB;
}

}  // namespace

uint64_t rescaled_live_samples(const SampleRow& row, uint64_t interval) {
  return counts_of(row, HeapText::kSampled, interval).live;
}

bool reset_absolute_profile() {
  if (!reset_samples()) return false;
  absolute_was_reset.store(true, std::memory_order_relaxed);
  return true;
}

bool heap_text(HeapText form, ProfileBytes* out) {
  size_t room = estimate_text_bytes(form);
  for (int tries = 0; tries < 4; tries++, room *= 2) {
    size_t bytes = round_up(room, os::page_bytes());
    char* memory = static_cast<char*>(os::map_report(bytes));
    if (memory == nullptr) return false;
    Text text(memory, bytes);
    if (write_all(text, form)) {
      *out = {memory, text.size(), bytes};
      return true;
    }
    os::unmap_report(memory, bytes);
  }
  return false;
}

int write_heap_text(HeapText form, const char* path, os::FileIdentity* file) {
  ProfileBytes text{};
  if (!heap_text(form, &text)) return kDumpNoMemory;
  int result = write_file(path, text.data, text.bytes, file);
  os::unmap_report(text.data, text.mapped_bytes);
  return result;
}

}  // namespace seemalloc::compat

// Dumps with other allocators' names have their text, whichever setting chose the names:
// HEAPPROFILE, HeapProfilerStart, MALLOC_CONF, prof.gdump, SEEMALLOC_CONF.
int seemalloc::write_gperftools_text(const char* path, os::FileIdentity* file) {
  return compat::write_heap_text(compat::HeapText::kAbsolute, path, file);
}
int seemalloc::write_jemalloc_text(const char* path, os::FileIdentity* file) {
  return compat::write_heap_text(compat::HeapText::kJemalloc, path, file);
}
