#include "core/profile/pprof/profile_encoder.h"

#include "core/os/kernel/clock.h"
#include "core/profile/code/unloaded_modules.h"
#include "core/profile/python/python.h"
#include "core/profile/python/python_pc.h"
#include "core/profile/sampling/stack.h"

namespace seemalloc::profile {

namespace {

// Field numbers of profile.proto.
namespace profile_field {
enum : unsigned {
  kSampleType = 1,
  kSample = 2,
  kMapping = 3,
  kLocation = 4,
  kFunction = 5,
  kStringTable = 6,
  kDropFrames = 7,
  kTimeNanos = 9,
  kDurationNanos = 10,
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
enum : unsigned { kKey = 1, kString = 2, kNumber = 3, kNumberUnit = 4 };
}
namespace mapping_field {
enum : unsigned {
  kId = 1,
  kMemoryStart = 2,
  kMemoryLimit = 3,
  kFileOffset = 4,
  kFilename = 5,
  kBuildId = 6
};
}
namespace location_field {
enum : unsigned { kId = 1, kMappingId = 2, kAddress = 3, kLine = 4 };
}
namespace line_field {
enum : unsigned { kFunctionId = 1, kLine = 2 };
}
namespace function_field {
enum : unsigned { kId = 1, kName = 2, kSystemName = 3, kFilename = 4, kStartLine = 5 };
}

// The allocator's entry points. pprof cuts a stack below the first frame (from the root) whose
// simplified name matches as a whole. The mangled forms are for profiles that were symbolised
// without demangling.
constexpr char kDropFrames[] =
    "(__libc_|__)?(malloc|calloc|realloc|reallocarray|memalign|posix_memalign|aligned_alloc|valloc|pvalloc)"
    "|operator new(\\[\\])?|_Zn[aw][jm].*|seemalloc::.*|_ZN9seemalloc.*|seemalloc_pool_alloc";

constexpr unsigned kMaxLabels = 13;

// The joint's number, among those of Python functions.
constexpr uintptr_t kFreedByFunction = UINTPTR_MAX;

}  // namespace

int64_t rounded(double value) {
  if (value < 0) return -rounded(-value);
  return value >= 0x1p63 ? INT64_MAX : static_cast<int64_t>(value + 0.5);
}

bool ProfileEncoder::begin(const ValueType* types, unsigned count, ValueType period_type,
                           uint64_t period) {
  value_count_ = count;
  if (!mappings_.read() || !mappings_.add_unloaded()) {
    refused_ = true;
    return false;
  }
  add_string("", 0);  // index 0 by definition
  for (unsigned i = 0; i < count; i++) write_value_type(profile_field::kSampleType, types[i]);
  if (count != 0) out_.number(profile_field::kDefaultSampleType, string(types[count - 1].type));
  write_value_type(profile_field::kPeriodType, period_type);
  out_.number(profile_field::kPeriod, period);
  out_.number(profile_field::kTimeNanos, os::realtime_ns());
  if (drop_frames_) out_.number(profile_field::kDropFrames, string(kDropFrames));
  write_mappings();
  write_python_comment();
  write_unloaded_comment();
  return !out_.failed();
}

// Writes how many Python functions are known, and how many stacks and frames lack theirs, or that
// this Python is not supported.
void ProfileEncoder::write_python_comment() {
  const PythonNames* names = python_names();
  FixedText<256> text;
  if (unsigned long version = unsupported_python(); version != 0) {
    text << "python: CPython ";
    print_python_version(version, text);
    text << " is not supported: its functions are shown as interpreter frames";
    return comment(text);
  }
  if (names == nullptr) return;
  PythonCounters counters = python_counters();
  text << "python: " << uint64_t{names->functions()} << " functions met; " << counters.unreadable
       << " stacks with Python frames that could not be read, " << counters.without_space
       << " frames of functions for which there was no space";
  comment(text);
}

void ProfileEncoder::write_unloaded_comment() {
  uint64_t times = unmoved_unloads();
  if (times == 0) return;
  FixedText<192> text;
  text
      << "modules: " << times
      << " times a module of recorded stacks was unloaded that cannot be distinguished from a later one at its addresses";
  comment(text);
}

void ProfileEncoder::duration(uint64_t ns) { out_.number(profile_field::kDurationNanos, ns); }

void ProfileEncoder::comment(const Text& text) {
  uint64_t index = add_string(text.c_str(), text.size());
  out_.number(profile_field::kComment, index);
}

bool ProfileEncoder::finish(Buffer* out) {
  *out = Buffer{};
  if (refused_ || out_.failed()) return false;
  GrowArray<char>& bytes = out_.bytes();
  *out = Buffer{bytes.data(), bytes.size(), bytes.mapped_bytes()};
  bytes.release();
  return true;
}

uint64_t ProfileEncoder::add_string(const char* text, size_t bytes) {
  out_.text(profile_field::kStringTable, text, bytes);
  return strings_++;
}

// Requires: no message is open, so that the bytes written here do not move.
uint64_t ProfileEncoder::string(const char* text) {
  uint64_t hash = 0;
  size_t bytes = 0;
  for (; text[bytes] != 0; bytes++)
    hash = (hash ^ static_cast<unsigned char>(text[bytes])) * 0x100000001B3;
  if (bytes == 0) return 0;
  Known& known = known_[(hash ^ hash >> 32) % kKnown];
  if (known.bytes == bytes && memcmp(out_.bytes().data() + known.at, text, bytes) == 0)
    return known.index;
  uint64_t index = add_string(text, bytes);
  known = out_.failed() ? Known{} : Known{out_.bytes().size() - bytes, bytes, index};
  return index;
}

void ProfileEncoder::write_value_type(unsigned field, ValueType type) {
  uint64_t name = string(type.type), unit = string(type.unit);
  out_.begin(field);
  out_.number(value_type_field::kType, name);
  out_.number(value_type_field::kUnit, unit);
  out_.end();
}

// Writes the main binary first, because readers recognise it by that.
void ProfileEncoder::write_mappings() {
  for (size_t i = 0; i < mappings_.size(); i++) {
    if (mappings_[i].id == 1) write_mapping(mappings_[i]);
  }
  for (size_t i = 0; i < mappings_.size(); i++) {
    if (mappings_[i].id != 1) write_mapping(mappings_[i]);
  }
}

void ProfileEncoder::write_mapping(const Mapping& mapping) {
  uint64_t filename = add_string(mappings_.path(mapping), mapping.path_bytes);
  uint64_t build_id = 0;
  BuildId id = mapping.build_id != nullptr ? *mapping.build_id
               : mapping.file_start == 0   ? BuildId{}
                                           : read_build_id(mapping.file_start);
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

// Writes the mapping of a module that was unloaded after begin(). Returns the mapping's id.
// Requires: no message is open.
uint64_t ProfileEncoder::write_more_unloaded(uintptr_t address) {
  size_t known = mappings_.size();
  if (!mappings_.add_unloaded()) refused_ = true;
  for (; known < mappings_.size(); known++) write_mapping(mappings_[known]);
  return mappings_.id_of(address);
}

// Returns the location of a call; writes it at its first use.
uint64_t ProfileEncoder::location(uintptr_t return_address) {
  if (is_python_pc(return_address)) return python_location(return_address);
  uintptr_t address = return_address - 1;  // inside the call
  bool is_new;
  uint64_t id = locations_.number(address, &is_new);
  if (id == 0) refused_ = true;
  if (is_new) {
    uint64_t mapping = mappings_.id_of(address);
    if (mapping == 0 && is_unloaded_code(address)) mapping = write_more_unloaded(address);
    out_.begin(profile_field::kLocation);
    out_.number(location_field::kId, id);
    out_.number(location_field::kMappingId, mapping);
    out_.number(location_field::kAddress, address);
    out_.end();
  }
  return id;
}

// Writes the location with its names, because readers cannot symbolise it.
uint64_t ProfileEncoder::python_location(uintptr_t pc) {
  bool is_new;
  uint64_t id = locations_.number(pc, &is_new);
  if (id == 0) refused_ = true;
  if (!is_new) return id;
  PythonPc place = decode_python_pc(pc);
  write_named_location(id, pc, python_function(place.function), place.line);
  return id;
}

uint64_t ProfileEncoder::python_function(uint32_t number) {
  bool is_new;
  uint64_t id = functions_.number(number, &is_new);
  if (id == 0) refused_ = true;
  if (!is_new) return id;
  const PythonNames* names = python_names();
  PythonNames::Function function =
      names != nullptr ? names->function(number) : PythonNames::Function{};
  uint64_t name = add_string(function.name.data, function.name.bytes),
           file = add_string(function.file.data, function.file.bytes);
  write_function(id, name, file,
                 function.first_line > 0 ? static_cast<uint64_t>(function.first_line) : 0);
  return id;
}

// A value that is not known is 0.
void ProfileEncoder::write_function(uint64_t id, uint64_t name, uint64_t file,
                                    uint64_t first_line) {
  out_.begin(profile_field::kFunction);
  out_.number(function_field::kId, id);
  out_.number(function_field::kName, name);
  out_.number(function_field::kSystemName, name);
  out_.number(function_field::kFilename, file);
  out_.number(function_field::kStartLine, first_line);
  out_.end();
}

// Writes a location in a function that has a name. It is in no mapping.
void ProfileEncoder::write_named_location(uint64_t id, uint64_t address, uint64_t function,
                                          uint64_t line) {
  out_.begin(profile_field::kLocation);
  out_.number(location_field::kId, id);
  out_.number(location_field::kAddress, address);
  out_.begin(location_field::kLine);
  out_.number(line_field::kFunctionId, function);
  out_.number(line_field::kLine, line);
  out_.end();
  out_.end();
}

// The location that is a name without an address.
uint64_t ProfileEncoder::freed_by_location() {
  if (freed_by_location_ != 0) return freed_by_location_;
  bool is_new;
  freed_by_location_ = locations_.number(UINTPTR_MAX, &is_new);  // not inside any call
  if (freed_by_location_ == 0) refused_ = true;
  uint64_t name = string(kFreedByFrame), function = functions_.number(kFreedByFunction, &is_new);
  if (function == 0) refused_ = true;
  write_function(function, name, 0, 0);
  write_named_location(freed_by_location_, 0, function, 0);
  return freed_by_location_;
}

namespace {
// The address may be moved concurrently (unloaded_modules.h).
uintptr_t load(const uintptr_t& return_address) {
  return __atomic_load_n(&return_address, __ATOMIC_RELAXED);
}
}  // namespace

void ProfileEncoder::row(const uintptr_t* return_addresses, unsigned depth, const int64_t* values,
                         const Label* labels, unsigned label_count) {
  DCHECK(depth <= kMaxStackDepth);
  for (unsigned i = 0; i < depth; i++) ids_[i] = location(load(return_addresses[i]));
  write_row(depth, values, labels, label_count);
}

void ProfileEncoder::joined_row(const uintptr_t* freed, unsigned freed_depth, const uintptr_t* made,
                                unsigned made_depth, const int64_t* values, const Label* labels,
                                unsigned label_count) {
  DCHECK(freed_depth <= kMaxStackDepth && made_depth <= kMaxStackDepth);
  unsigned depth = 0;
  for (unsigned i = 0; i < freed_depth; i++) ids_[depth++] = location(load(freed[i]));
  ids_[depth++] = freed_by_location();
  for (unsigned i = 0; i < made_depth; i++) ids_[depth++] = location(load(made[i]));
  write_row(depth, values, labels, label_count);
}

void ProfileEncoder::write_row(unsigned depth, const int64_t* values, const Label* labels,
                               unsigned label_count) {
  DCHECK(label_count <= kMaxLabels);
  uint64_t keys[kMaxLabels], texts[kMaxLabels], units[kMaxLabels];
  for (unsigned i = 0; i < label_count; i++) {
    keys[i] = string(labels[i].key);
    texts[i] = labels[i].text != nullptr ? string(labels[i].text) : 0;
    units[i] = labels[i].unit != nullptr ? string(labels[i].unit) : 0;
  }
  out_.begin(profile_field::kSample);
  out_.begin(sample_field::kLocationId);
  for (unsigned i = 0; i < depth; i++) out_.varint(ids_[i]);
  out_.end();
  out_.begin(sample_field::kValue);
  for (unsigned i = 0; i < value_count_; i++) out_.varint(static_cast<uint64_t>(values[i]));
  out_.end();
  for (unsigned i = 0; i < label_count; i++) write_label(labels[i], keys[i], texts[i], units[i]);
  out_.end();
}

void ProfileEncoder::write_label(const Label& label, uint64_t key, uint64_t text, uint64_t unit) {
  out_.begin(sample_field::kLabel);
  out_.number(label_field::kKey, key);
  if (label.text != nullptr) {
    out_.number(label_field::kString, text);
  } else {
    out_.number(label_field::kNumber, static_cast<uint64_t>(label.number));
    out_.number(label_field::kNumberUnit, unit);
  }
  out_.end();
}

}  // namespace seemalloc::profile
