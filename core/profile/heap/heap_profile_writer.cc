// Writes the profiles that are made from buckets: the rows of each kind, and the comments on
// coverage and gaps that all kinds share.
//
// One pass copies the buckets' counters. Everything after that (reading /proc, encoding) works on
// the copy and on the interned stacks. No lock is held at any time.
#include <cstdint>

#include "core/base/text.h"
#include "core/base/units.h"
#include "core/os/kernel/clock.h"
#include "core/os/runtime/report_memory.h"
#include "core/os/runtime/scratch.h"
#include "core/profile/heap/heap_profile.h"
#include "core/profile/heap/lifetime_rows.h"
#include "core/profile/heap/records.h"
#include "core/profile/heap/thread_rows.h"
#include "core/profile/pprof/profile_encoder.h"
#include "core/profile/python/python.h"
#include "core/profile/sampling/square_root.h"

namespace seemalloc::profile {

namespace {

constexpr unsigned kMaxValues = 7;

struct BucketSnapshot {
  GrowArray<BucketRow> rows;
  RowSums sums;
  ExactBytes exact;
  uint64_t other_interval_samples = 0;
  // The time when the baseline was set (0: never), and the bytes allocated until then and live at
  // that time (0: unknown).
  uint64_t baseline_ns = 0, baseline_bytes = 0, baseline_live_bytes = 0;
  uint32_t peak_epoch = 0;
};

// The properties of a profile kind that is made from buckets.
struct RowKind {
  unsigned value_count;
  ValueType types[kMaxValues];
  bool (*has_row)(const BucketRow& row);
  // null: `write` writes the rows, or the function named in the kind's entry.
  void (*values)(const BucketRow& row, int64_t* out);
  // Comments on its coverage; may be null.
  void (*write_comment)(ProfileEncoder& encoder, const BucketSnapshot& snapshot);
  void (*write)(ProfileEncoder& encoder, const BucketRow& row, uint64_t interval_bytes) = nullptr;
};

void put_pair(double objects, const BucketRow& row, int64_t* out) {
  out[0] = rounded(objects);
  out[1] = rounded(objects * row.bytes());
}

// Writes the allocated bytes: the estimate from samples and, if known, the exact number.
void write_allocated_comment(const CommentWriter& notes, const SampleTotals& totals,
                             bool exact_known, uint64_t exact_bytes, const char* since) {
  FixedText<256> text;
  text << "allocated: " << rounded(totals.alloc_bytes) << " bytes estimated, standard error "
       << rounded(totals.alloc_bytes_stderr) << " bytes";
  if (exact_known) text << "; exactly " << exact_bytes << " bytes " << since;
  notes.add(text);
}

// ---- heap, allocs, remote ----

// A row without either was made for a sample that was dropped, or all samples resized into it have
// been freed.
bool has_samples(const BucketRow& row) { return row.alloc_samples != 0 || row.live_samples != 0; }
void heap_values(const BucketRow& row, int64_t* out) {
  put_pair(row.alloc_objects(), row, out);
  put_pair(row.live_objects(), row, out + 2);
}

bool has_allocs(const BucketRow& row) { return row.alloc_samples != 0; }
void alloc_values(const BucketRow& row, int64_t* out) { put_pair(row.alloc_objects(), row, out); }

bool has_remote_frees(const BucketRow& row) { return row.remote_freed_samples != 0; }
void remote_values(const BucketRow& row, int64_t* out) {
  put_pair(row.remote_freed_objects(), row, out);
}

// Appends an estimate in bytes with its standard error, for the blocks that samples_of(row) samples
// of each row stand for.
template <typename SamplesOf>
void append_estimate(Text& text, const char* what, const BucketSnapshot& snapshot,
                     SamplesOf samples_of) {
  double bytes = 0;
  SamplingError error;
  for (size_t i = 0; i < snapshot.rows.size(); i++) {
    const BucketRow& row = snapshot.rows[i];
    double objects = row.weight * static_cast<double>(samples_of(row));
    bytes += objects * row.bytes();
    error.add(objects, row.weight, row.bytes());
  }
  text << what << ": " << rounded(bytes) << " bytes estimated, standard error "
       << rounded(square_root(error.variance())) << " bytes";
}

void write_remote_frees_comment(ProfileEncoder& encoder, const BucketSnapshot& snapshot) {
  FixedText<256> text;
  append_estimate(text, "freed by another thread", snapshot,
                  [](const BucketRow& row) { return row.remote_freed_samples; });
  text << "; there is no exact total: frees are not counted";
  encoder.comment(text);
}

// The duration starts at the first sample: sampling may have started late.
void set_duration_since_first_sample(ProfileEncoder& encoder, const BucketSnapshot&) {
  uint64_t first = records.first_sample_ns.load(std::memory_order_relaxed);
  if (first != 0) encoder.duration(saturating_subtract(os::monotonic_ns(), first));
}

// ---- peak ----

bool has_peak(const BucketRow& row) { return row.peak_samples != 0; }
void peak_values(const BucketRow& row, int64_t* out) { put_pair(row.peak_objects(), row, out); }

void write_peak_comment(ProfileEncoder& encoder, const BucketSnapshot& snapshot) {
  RowSums sums;
  for (size_t i = 0; i < snapshot.rows.size(); i++) {
    BucketRow row = snapshot.rows[i];
    row.live_samples = row.peak_samples;
    sums.add(row);
  }
  SampleTotals at_peak = sums.totals();
  FixedText<512> text;
  text << "peak: " << rounded(at_peak.inuse_bytes) << " bytes estimated, standard error "
       << rounded(at_peak.inuse_bytes_stderr)
       << " bytes; there is no exact total: frees are not counted; "
       << saturating_subtract(os::coarse_monotonic_ns(), records.peak.time_ns()) / kMillisecondNs
       << " ms before this profile was taken; captured while the program ran: up to "
       << records.peak.batch_bytes() << " bytes per thread from the highest mark of "
       << records.peak.bytes() << " bytes";
  encoder.comment(text);
  if (snapshot.peak_epoch == records.peak.epoch()) return;
  text.clear();
  text
      << "peak: a new mark was reached while this profile was taken: some rows belong to the new mark";
  encoder.comment(text);
}

// ---- since ----

bool has_changed(const BucketRow& row) {
  return row.alloc_samples != row.baseline_alloc_samples ||
         row.live_samples != row.baseline_live_samples;
}
void since_values(const BucketRow& row, int64_t* out) {
  put_pair(row.alloc_objects_since_baseline(), row, out);
  put_pair(row.live_objects_since_baseline(), row, out + 2);
}

void write_since_comment(ProfileEncoder& encoder, const BucketSnapshot& snapshot) {
  uint64_t mark_ns = snapshot.baseline_ns, mark_bytes = snapshot.baseline_bytes;
  FixedText<256> text;
  RowSums sums;
  for (size_t i = 0; i < snapshot.rows.size(); i++) sums.add_new(snapshot.rows[i]);
  bool exact_known = snapshot.exact.allocated != 0 && (mark_ns == 0 || mark_bytes != 0);
  write_allocated_comment(encoder.notes(), sums.totals(), exact_known,
                          saturating_subtract(snapshot.exact.allocated, mark_bytes),
                          mark_ns == 0 ? "since the start" : "since the baseline");
  if (mark_ns == 0) {
    set_duration_since_first_sample(encoder, snapshot);
    text << "since: no baseline has been set: counted since the first sample";
  } else {
    uint64_t ns = saturating_subtract(os::monotonic_ns(), mark_ns);
    encoder.duration(ns);
    text << "since: the baseline was set " << ns / kMillisecondNs
         << " ms before this profile was taken; values below it are negative";
    if (snapshot.exact.live != 0 && snapshot.baseline_live_bytes != 0) {
      text << "; live bytes changed by exactly "
           << static_cast<int64_t>(snapshot.exact.live - snapshot.baseline_live_bytes)
           << ", by allocated size";
    }
  }
  encoder.comment(text);
}

// ---- churn ----

uint64_t short_samples(const BucketRow& row) {
  uint64_t samples = 0;
  for (FreedBy by : kFreedBys) {
    const Lifetimes* lifetimes = row.bucket->lifetimes(by);
    for (unsigned c = 0; lifetimes != nullptr && c < kShortClasses; c++)
      samples += lifetimes->count(c);
  }
  return samples;
}

bool has_churn(const BucketRow& row) { return row.alloc_samples != 0 || short_samples(row) != 0; }
void churn_values(const BucketRow& row, int64_t* out) {
  put_pair(row.alloc_objects(), row, out);
  out[2] = rounded(row.weight * static_cast<double>(row.requested_bytes));
  put_pair(row.bucket->key.by_realloc() ? row.alloc_objects() : 0, row, out + 3);
  put_pair(row.weight * static_cast<double>(short_samples(row)), row, out + 5);
}

void write_churn_comment(ProfileEncoder& encoder, const BucketSnapshot& snapshot) {
  set_duration_since_first_sample(encoder, snapshot);
  FixedText<256> text;
  text << "churn: short-lived blocks were freed within " << kShortLifeNs / kMillisecondNs
       << " ms; moved ones are copies that realloc made";
  encoder.comment(text);
}

// Writes the freed bytes: the estimate from samples and, if known, the exact number. The estimate
// is the sum of the rows; samples whose lifetimes were lost are in neither.
void write_freed_comment(const CommentWriter& notes, const BucketSnapshot& snapshot) {
  FixedText<256> text;
  append_estimate(text, "freed", snapshot,
                  [](const BucketRow& row) { return count_deaths(*row.bucket).all; });
  if (snapshot.exact.allocated != 0)
    text << "; exactly " << snapshot.exact.freed << " bytes since the start";
  notes.add(text);
}

// ---- lifetime ----

// A bucket without allocations may have frees: of blocks that were resized to its size.
bool has_lifetimes(const BucketRow& row) {
  bool has_frees = false;
  for (FreedBy by : kFreedBys) has_frees |= row.bucket->lifetimes(by) != nullptr;
  return has_frees || row.live_samples != 0;
}

void write_lifetime_comment(ProfileEncoder& encoder, const BucketSnapshot& snapshot) {
  set_duration_since_first_sample(encoder, snapshot);
  write_freed_comment(encoder.notes(), snapshot);
  FixedText<256> text;
  text
      << "lifetime: from allocation to free; if every allocation is recorded (sample:1), ages are off by up to a clock tick, "
      << kShortLifeNs / kMillisecondNs << " ms";
  encoder.comment(text);
}

// ---- deaths ----

bool has_deaths(const BucketRow& row) { return count_deaths(*row.bucket).all != 0; }

void write_deaths_comment(ProfileEncoder& encoder, const BucketSnapshot& snapshot) {
  set_duration_since_first_sample(encoder, snapshot);
  write_freed_comment(encoder.notes(), snapshot);
  FreeStackCounts sum;
  for (size_t i = 0; i < snapshot.rows.size(); i++) {
    FreeStackCounts counts = count_deaths(*snapshot.rows[i].bucket);
    sum.known += counts.known;
    sum.all += counts.all;
  }
  FixedText<400> text;
  text << "deaths: " << sum.all << " samples freed, " << saturating_subtract(sum.all, sum.known)
       << " of them by an unknown stack (option free_stacks); "
       << uint64_t{records.free_stacks.size()} << " pairs of stacks kept, at most "
       << uint64_t{FreeStackTable::kMaxEntries} << ", and "
       << uint64_t{FreeStackTable::kMaxEntriesPerRecord}
       << " per stack, size and way of being freed";
  encoder.comment(text);
}

bool has_no_rows(const BucketRow&) { return false; }

constexpr RowKind kRowKinds[] = {
    {4,
     {{"alloc_objects", "count"},
      {"alloc_space", "bytes"},
      {"inuse_objects", "count"},
      {"inuse_space", "bytes"}},
     has_samples,
     heap_values,
     nullptr},
    {2,
     {{"remote_free_objects", "count"}, {"remote_free_space", "bytes"}},
     has_remote_frees,
     remote_values,
     write_remote_frees_comment},
    {2,
     {{"alloc_objects", "count"}, {"alloc_space", "bytes"}},
     has_allocs,
     alloc_values,
     set_duration_since_first_sample},
    {2,
     {{"peak_objects", "count"}, {"peak_space", "bytes"}},
     has_peak,
     peak_values,
     write_peak_comment},
    {4,
     {{"alloc_objects", "count"},
      {"alloc_space", "bytes"},
      {"inuse_objects", "count"},
      {"inuse_space", "bytes"}},
     has_changed,
     since_values,
     write_since_comment},
    {7,
     {{"alloc_objects", "count"},
      {"alloc_space", "bytes"},
      {"requested_space", "bytes"},
      {"moved_objects", "count"},
      {"moved_space", "bytes"},
      {"short_objects", "count"},
      {"short_space", "bytes"}},
     has_churn,
     churn_values,
     write_churn_comment},
    {4,
     {{"alive_objects", "count"},
      {"alive_space", "bytes"},
      {"freed_objects", "count"},
      {"freed_space", "bytes"}},
     has_lifetimes,
     nullptr,
     write_lifetime_comment},  // write_lifetime_rows()
    {2,
     {{"freed_objects", "count"}, {"freed_space", "bytes"}},
     has_deaths,
     nullptr,
     write_deaths_comment,
     write_death_rows},
    // write_thread_rows().
    {2, {{"inuse_objects", "count"}, {"inuse_space", "bytes"}}, has_no_rows, nullptr, nullptr},
};
static_assert(sizeof(kRowKinds) / sizeof(kRowKinds[0]) == static_cast<unsigned>(Kind::kCount));

// ---- all ----

void take_snapshot_once(const RowKind& kind, uint64_t interval_bytes, BucketSnapshot* out) {
  out->rows.set_size(0);
  out->sums = RowSums();
  out->other_interval_samples = 0;
  out->peak_epoch = records.peak.epoch();
  out->baseline_ns = records.baseline.time_ns.load(std::memory_order_acquire);
  out->baseline_bytes = records.baseline.allocated_bytes.load(std::memory_order_relaxed);
  out->baseline_live_bytes = records.baseline.live_bytes.load(std::memory_order_relaxed);
  records.buckets.for_each([&](const Bucket& bucket) {
    BucketRow row = read_bucket(bucket);
    row.peak_samples = records.peak.samples_at(bucket, out->peak_epoch);
    out->sums.add(row);
    if (bucket.key.interval_bytes != interval_bytes)
      out->other_interval_samples += row.alloc_samples;
    if (kind.has_row(row)) out->rows.push(row);
  });
}

// Returns false if memory was refused.
bool take_snapshot(const RowKind& kind, uint64_t interval_bytes, BucketSnapshot* out) {
  out->rows.reserve(records.buckets.size());
  // If a new peak is reached or a baseline is set during a pass, the pass is repeated, at most
  // twice.
  for (int tries = 0; tries < 3; tries++) {
    uint32_t version = records.baseline.version.load(std::memory_order_acquire);
    take_snapshot_once(kind, interval_bytes, out);
    bool same_baseline =
        version % 2 == 0 && version == records.baseline.version.load(std::memory_order_acquire);
    if (same_baseline && out->peak_epoch == records.peak.epoch()) break;
  }
  return !out->rows.failed();
}

void write_count_comment(const CommentWriter& notes, uint64_t count, const char* what) {
  if (count == 0) return;
  FixedText<256> text;
  text << count << what;
  notes.add(text);
}

// Writes the facts that a reader needs to judge the figures. `seemalloc top` parses these lines
// (tool/report: window.go, error.go, cpu.go).
void write_common_comments(const CommentWriter& notes, const BucketSnapshot& snapshot,
                           uint64_t interval_bytes, Kind kind) {
  SampleTotals totals = snapshot.sums.totals();
  FixedText<256> text;
  text << "seemalloc: ";
  if (interval_bytes == 1)
    text << "every allocation is sampled; ";
  else
    text << "one sample every " << interval_bytes << " bytes on average; ";
  text << totals.samples << " samples recorded, " << totals.live_samples << " of them in use, "
       << records.dropped.load(std::memory_order_relaxed) << " more dropped for lack of memory";
  notes.add(text);
  text.clear();
  text << "in use: " << rounded(totals.inuse_bytes) << " bytes estimated, standard error "
       << rounded(totals.inuse_bytes_stderr) << " bytes";
  if (snapshot.exact.live != 0)
    text << "; exactly " << snapshot.exact.live << " live bytes, by allocated size";
  notes.add(text);
  text.clear();
  text << "requested: " << rounded(totals.inuse_requested_bytes)
       << " bytes of those in use estimated, standard error "
       << rounded(totals.inuse_requested_bytes_stderr) << " bytes";
  notes.add(text);
  // The kind `since` writes its own note. The other two are about blocks that are, or were, live.
  bool in_use_only = kind == Kind::kPeak || kind == Kind::kThreads;
  if (!in_use_only && kind != Kind::kSince) {
    write_allocated_comment(notes, totals, snapshot.exact.allocated != 0, snapshot.exact.allocated,
                            "since the start");
  }
  notes.add_stacks(records.buckets.stacks(), totals.truncated_samples, totals.broken_samples);
  write_count_comment(notes, snapshot.other_interval_samples,
                      " samples were drawn at another interval: the label interval of their rows");
  write_count_comment(notes, records.stale_resizes.load(std::memory_order_relaxed),
                      " resizes of sampled blocks not followed for lack of memory");
  write_count_comment(notes, records.lost_lifetimes.load(std::memory_order_relaxed),
                      " lifetimes of freed samples lost for lack of memory");
  if (python_names() == nullptr || python_names()->functions() == 0 || !python_maps_small_blocks())
    return;
  text.clear();
  text << "python: blocks of 512 bytes and less are in memory that Python maps itself, and not in "
          "this profile; with PYTHONMALLOC=malloc they are";
  notes.add(text);
}

void write_row(ProfileEncoder& encoder, const RowKind& kind, const BucketRow& row,
               uint64_t interval_bytes) {
  int64_t values[kMaxValues];
  kind.values(row, values);
  Label labels[kBucketLabels + 1];
  unsigned count = bucket_labels(row.bucket->key, interval_bytes, labels);
  if (kind.values == since_values)
    labels[count++] = {"differing", rounded(row.objects_differing_from_baseline()), "count"};
  encoder.row(row.bucket->stack->pcs(), row.bucket->stack->depth, values, labels, count);
}

}  // namespace

unsigned bucket_labels(const BucketKey& key, uint64_t interval_bytes, Label* labels) {
  unsigned count = 0;
  labels[count++] = {"bytes", static_cast<int64_t>(key.allocated_bytes), "bytes"};
  if (key.requested_log2() != 0)
    labels[count++] = {"asked", int64_t{1} << (key.requested_log2() - 1), "bytes"};
  if (key.by_realloc()) labels[count++] = {"moved", 1, "count"};
  // If every block is recorded, there is no probability that a reader would need.
  bool by_chance = key.interval_bytes > 1;
  if (by_chance && key.sampled_bytes != key.allocated_bytes)
    labels[count++] = {"drawn", static_cast<int64_t>(key.sampled_bytes), "bytes"};
  if (key.interval_bytes != interval_bytes)
    labels[count++] = {"interval", static_cast<int64_t>(key.interval_bytes), "bytes"};
  return count;
}

bool heap_profile_to_buffer(Buffer* out, uint64_t interval_bytes, Kind kind, ExactBytes exact) {
  *out = Buffer{};
  const RowKind& rows = kRowKinds[static_cast<unsigned>(kind)];
  BucketSnapshot snapshot;
  snapshot.exact = exact;
  os::Scratch<ProfileEncoder> memory;
  if (!memory) return false;
  ProfileEncoder& encoder = *memory;
  // The freeing stack is below the allocating one.
  if (kind == Kind::kDeaths) encoder.show_allocator();
  if (!take_snapshot(rows, interval_bytes, &snapshot)) return false;
  if (!encoder.begin(rows.types, rows.value_count, {"space", "bytes"}, interval_bytes))
    return false;
  write_common_comments(encoder.notes(), snapshot, interval_bytes, kind);
  if (rows.write_comment != nullptr) rows.write_comment(encoder, snapshot);
  for (size_t i = 0; i < snapshot.rows.size(); i++) {
    if (rows.values != nullptr) {
      write_row(encoder, rows, snapshot.rows[i], interval_bytes);
    } else if (rows.write != nullptr) {
      rows.write(encoder, snapshot.rows[i], interval_bytes);
    }
  }
  if (kind == Kind::kLifetime && !write_lifetime_rows(encoder, snapshot.rows, interval_bytes))
    return false;
  if (kind == Kind::kThreads && !write_thread_rows(encoder, interval_bytes)) return false;
  return encoder.finish(out);
}

void write_heap_comments(const CommentWriter& notes, uint64_t interval_bytes, ExactBytes exact) {
  BucketSnapshot snapshot;
  snapshot.exact = exact;
  // The rows are not needed: for kThreads, a bucket makes none.
  take_snapshot_once(kRowKinds[static_cast<unsigned>(Kind::kThreads)], interval_bytes, &snapshot);
  write_common_comments(notes, snapshot, interval_bytes, Kind::kHeap);
}

bool write_heap_profile(const Sink& sink, uint64_t interval_bytes) {
  Buffer buffer;
  if (!heap_profile_to_buffer(&buffer, interval_bytes)) return false;
  bool written = sink.write(sink.context, buffer.data, buffer.bytes);
  os::unmap_report(buffer.data, buffer.mapped_bytes);
  return written;
}

}  // namespace seemalloc::profile
