// Writes the heap profile as a profile.proto (github.com/google/pprof, proto/profile.proto), uncompressed.
//
// One pass copies the buckets' counters; everything after that (reading /proc, encoding) works on the copy and on
// stacks, which never change. No lock is held at any time. The string table is not gathered first: its entries are top
// level fields like all others, so each is written when it is needed, before the message that refers to it.
#include <cstdint>

#include "core/base/text.h"
#include "core/os/os.h"
#include "core/profile/heap_profile.h"
#include "core/profile/location_table.h"
#include "core/profile/mappings.h"
#include "core/profile/proto.h"
#include "core/profile/records.h"

namespace seemalloc::profile {

namespace {

// Field numbers of profile.proto.
namespace profile_field {
enum : unsigned {
  kSampleType = 1,
  kSample = 2,
  kMapping = 3,
  kLocation = 4,
  kStringTable = 6,
  kDropFrames = 7,
  kTimeNanos = 9,
  kPeriodType = 11,
  kPeriod = 12,
  kComment = 13,
  kDefaultSampleType = 14
};
}
namespace value_type_field {
enum : unsigned { kType = 1, kUnit = 2 };
}
namespace sample_field {
enum : unsigned { kLocationId = 1, kValue = 2, kLabel = 3 };
}
namespace label_field {
enum : unsigned { kKey = 1, kNum = 3, kNumUnit = 4 };
}
namespace mapping_field {
enum : unsigned { kId = 1, kMemoryStart = 2, kMemoryLimit = 3, kFileOffset = 4, kFilename = 5, kBuildId = 6 };
}
namespace location_field {
enum : unsigned { kId = 1, kMappingId = 2, kAddress = 3 };
}

// The allocator's doors: pprof cuts a stack below the first frame (from the root) whose simplified name matches as a
// whole. Mangled forms are there for profiles symbolised without demangling.
constexpr char kDropFrames[] =
    "(__libc_|__)?(malloc|calloc|realloc|reallocarray|memalign|posix_memalign|aligned_alloc|valloc|pvalloc)"
    "|operator new(\\[\\])?|_Zn[aw][jm].*|seemalloc::.*|_ZN9seemalloc.*";

uint64_t rounded(double value) {
  if (!(value > 0)) return 0;
  return value >= 0x1p63 ? static_cast<uint64_t>(INT64_MAX) : static_cast<uint64_t>(value + 0.5);
}

class HeapProfileEncoder {
 public:
  explicit HeapProfileEncoder(Kind kind) : kind_(kind) {}
  // False when memory was refused; then nothing may be used of it.
  bool encode(uint64_t interval_bytes);
  GrowArray<char>& bytes() { return out_.bytes(); }

 private:
  void take_snapshot();
  void write_types(uint64_t interval_bytes);
  void write_value_types();
  void write_mappings();
  void write_mapping(const Mapping& mapping);
  void write_comments(uint64_t interval_bytes);
  void write_row(const BucketRow& row);
  void write_values(const BucketRow& row);
  void write_label(uint64_t key, uint64_t value, uint64_t unit);
  uint64_t location(uintptr_t return_address);

  uint64_t add_string(const char* text, size_t bytes) {
    out_.text(profile_field::kStringTable, text, bytes);
    return strings_++;
  }
  uint64_t add_string(const char* text) { return add_string(text, text_length(text)); }
  void add_comment(const Text& text) {
    uint64_t index = add_string(text.c_str(), text.size());
    out_.number(profile_field::kComment, index);
  }
  void write_value_type(unsigned field, uint64_t type, uint64_t unit) {
    out_.begin(field);
    out_.number(value_type_field::kType, type);
    out_.number(value_type_field::kUnit, unit);
    out_.end();
  }

  Kind kind_;
  ProtoWriter out_;
  uint64_t strings_ = 0;
  uint64_t bytes_string_ = 0, count_string_ = 0, asked_string_ = 0, moved_string_ = 0;
  GrowArray<BucketRow> rows_;
  SampleTotals totals_ = {};
  uint64_t truncated_samples_ = 0;
  uint64_t broken_samples_ = 0;
  Mappings mappings_;
  LocationTable locations_;
  bool refused_ = false;
};

bool HeapProfileEncoder::encode(uint64_t interval_bytes) {
  take_snapshot();
  if (rows_.failed() || !mappings_.read()) return false;
  add_string("");  // index 0 by definition
  write_types(interval_bytes);
  write_mappings();
  write_comments(interval_bytes);
  for (size_t i = 0; i < rows_.size(); i++) write_row(rows_[i]);
  return !refused_ && !out_.failed();
}

void HeapProfileEncoder::take_snapshot() {
  rows_.reserve(records.buckets.size());
  RowSums sums;
  records.buckets.for_each([&](const Bucket& bucket) {
    BucketRow row = read_bucket(bucket);
    // Made for a sample that was dropped; or all that was resized into it has left.
    bool empty = row.alloc_samples == 0 && row.live_samples == 0;
    if (kind_ == Kind::kRemoteFrees ? row.elsewhere_samples == 0 : empty) return;
    rows_.push(row);
    sums.add(row);
    if (bucket.stack->truncated) truncated_samples_ += row.alloc_samples;
    if (bucket.stack->broken) broken_samples_ += row.alloc_samples;
  });
  totals_ = sums.totals();
  totals_.dropped = records.dropped.load(std::memory_order_relaxed);
  totals_.stacks = records.stacks.size();
}

void HeapProfileEncoder::write_types(uint64_t interval_bytes) {
  count_string_ = add_string("count");
  bytes_string_ = add_string("bytes");
  asked_string_ = add_string("asked");
  moved_string_ = add_string("moved");
  uint64_t space = add_string("space");
  uint64_t drop_frames = add_string(kDropFrames);
  write_value_types();
  write_value_type(profile_field::kPeriodType, space, bytes_string_);
  out_.number(profile_field::kPeriod, interval_bytes);
  out_.number(profile_field::kTimeNanos, os::realtime_ns());
  out_.number(profile_field::kDropFrames, drop_frames);
}

void HeapProfileEncoder::write_value_types() {
  static constexpr const char* kHeapTypes[] = {"alloc_objects", "alloc_space", "inuse_objects", "inuse_space"};
  static constexpr const char* kRemoteTypes[] = {"remote_free_objects", "remote_free_space"};
  const char* const* types = kind_ == Kind::kHeap ? kHeapTypes : kRemoteTypes;
  unsigned count = kind_ == Kind::kHeap ? 4 : 2;
  uint64_t name = 0;
  for (unsigned i = 0; i < count; i++) {
    name = add_string(types[i]);
    write_value_type(profile_field::kSampleType, name, i % 2 == 0 ? count_string_ : bytes_string_);
  }
  out_.number(profile_field::kDefaultSampleType, name);
}

void HeapProfileEncoder::write_mappings() {
  for (size_t i = 0; i < mappings_.size(); i++) {
    if (mappings_[i].id == 1) write_mapping(mappings_[i]);
  }
  for (size_t i = 0; i < mappings_.size(); i++) {
    if (mappings_[i].id != 1) write_mapping(mappings_[i]);
  }
}

void HeapProfileEncoder::write_mapping(const Mapping& mapping) {
  uint64_t filename = add_string(mappings_.path(mapping), mapping.path_bytes);
  uint64_t build_id = 0;
  BuildId id = mapping.file_start == 0 ? BuildId{} : read_build_id(mapping.file_start);
  if (id.size != 0) {
    char hex[2 * BuildId::kMaxBytes];
    for (size_t i = 0; i < id.size; i++) {
      hex[2 * i] = "0123456789abcdef"[id.bytes[i] >> 4];
      hex[2 * i + 1] = "0123456789abcdef"[id.bytes[i] & 15];
    }
    build_id = add_string(hex, 2 * id.size);
  }
  out_.begin(profile_field::kMapping);
  out_.number(mapping_field::kId, mapping.id);
  out_.number(mapping_field::kMemoryStart, mapping.start);
  out_.number(mapping_field::kMemoryLimit, mapping.limit);
  out_.number(mapping_field::kFileOffset, mapping.file_offset);
  out_.number(mapping_field::kFilename, filename);
  out_.number(mapping_field::kBuildId, build_id);
  out_.end();
}

// What a reader must know to trust the figures, or not.
void HeapProfileEncoder::write_comments(uint64_t interval_bytes) {
  FixedText<256> text;
  text << "seemalloc: one sample every " << interval_bytes << " bytes on average; " << totals_.samples
       << " samples recorded, " << totals_.live_samples << " of them in use, " << totals_.dropped
       << " more dropped for want of memory";
  add_comment(text);
  text.clear();
  text << "in use: " << rounded(totals_.inuse_bytes) << " bytes estimated, standard error "
       << rounded(totals_.inuse_bytes_stderr) << " bytes";
  add_comment(text);
  text.clear();
  text << "stacks: " << totals_.stacks << " distinct; " << truncated_samples_ << " samples with a truncated stack, "
       << broken_samples_ << " samples with a broken unwind";
  add_comment(text);
  uint64_t stale = records.stale_resizes.load(std::memory_order_relaxed);
  if (stale != 0) {
    text.clear();
    text << stale << " resizes of sampled blocks not followed for want of memory";
    add_comment(text);
  }
}

// The location of a call; written when it is met for the first time.
uint64_t HeapProfileEncoder::location(uintptr_t return_address) {
  uintptr_t address = return_address - 1;  // inside the call
  bool is_new;
  uint64_t id = locations_.number(address, &is_new);
  if (id == 0) refused_ = true;
  if (is_new) {
    out_.begin(profile_field::kLocation);
    out_.number(location_field::kId, id);
    out_.number(location_field::kMappingId, mappings_.id_of(address));
    out_.number(location_field::kAddress, address);
    out_.end();
  }
  return id;
}

void HeapProfileEncoder::write_row(const BucketRow& row) {
  uint64_t ids[kMaxStackDepth];
  const InternedStack& stack = *row.bucket->stack;
  for (size_t i = 0; i < stack.depth; i++) ids[i] = location(stack.pcs()[i]);
  out_.begin(profile_field::kSample);
  out_.begin(sample_field::kLocationId);
  for (size_t i = 0; i < stack.depth; i++) out_.varint(ids[i]);
  out_.end();
  write_values(row);
  const BucketKey& key = row.bucket->key;
  write_label(bytes_string_, key.allocated_bytes, bytes_string_);
  if (key.asked_log2() != 0) write_label(asked_string_, uint64_t{1} << (key.asked_log2() - 1), bytes_string_);
  if (key.moved()) write_label(moved_string_, 1, count_string_);
  out_.end();
}

void HeapProfileEncoder::write_values(const BucketRow& row) {
  out_.begin(sample_field::kValue);
  if (kind_ == Kind::kHeap) {
    out_.varint(rounded(row.alloc_objects()));
    out_.varint(rounded(row.alloc_objects() * row.bytes()));
    out_.varint(rounded(row.live_objects()));
    out_.varint(rounded(row.live_objects() * row.bytes()));
  } else {
    out_.varint(rounded(row.elsewhere_objects()));
    out_.varint(rounded(row.elsewhere_objects() * row.bytes()));
  }
  out_.end();
}

void HeapProfileEncoder::write_label(uint64_t key, uint64_t value, uint64_t unit) {
  out_.begin(sample_field::kLabel);
  out_.number(label_field::kKey, key);
  out_.number(label_field::kNum, value);
  out_.number(label_field::kNumUnit, unit);
  out_.end();
}

}  // namespace

bool heap_profile_to_buffer(Buffer* out, uint64_t interval_bytes, Kind kind) {
  *out = Buffer{};
  HeapProfileEncoder encoder(kind);
  if (!encoder.encode(interval_bytes)) return false;
  GrowArray<char>& bytes = encoder.bytes();
  *out = Buffer{bytes.data(), bytes.size(), bytes.mapped_bytes()};
  bytes.release();
  return true;
}

bool write_heap_profile(const Sink& sink, uint64_t interval_bytes) {
  HeapProfileEncoder encoder(Kind::kHeap);
  if (!encoder.encode(interval_bytes)) return false;
  return sink.write(sink.context, encoder.bytes().data(), encoder.bytes().size());
}

}  // namespace seemalloc::profile
