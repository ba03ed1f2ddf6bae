// Writes one profile.proto (github.com/google/pprof, proto/profile.proto), uncompressed, into memory of its own: framing,
// strings, mappings with build ids, locations, comments, labels. What the rows are is their kind's business.
//
// Used as begin(), then duration(), comment() and row() in any order, then finish(). The string table is not gathered
// first: its entries are top level fields like all others, so each is written when it is needed, before the message
// that refers to it.
// Threads: one per object; takes no lock and never calls malloc. Memory refused: everything after it is dropped and finish() says so.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/text.h"
#include "core/profile/buffer.h"
#include "core/profile/location_table.h"
#include "core/profile/mappings.h"
#include "core/profile/notes.h"
#include "core/profile/proto.h"
#include "core/profile/stack.h"

namespace seemalloc::profile {

// "inuse_space", "bytes": what a value of a row is.
struct ValueType {
  const char* type;
  const char* unit;
};

// What tells rows of one stack apart: a number with its unit, or a text.
struct Label {
  const char* key;
  int64_t number = 0;
  const char* unit = nullptr;
  const char* text = nullptr;  // null: it is a number
};

class ProfileEncoder {
 public:
  // Before begin(): readers leave the allocator's own functions in (they are taken out of profiles of memory).
  void show_allocator() { drop_frames_ = false; }
  // Reads the mappings and writes what stands before the rows, with the time. The last type is the one that is shown unless another
  // is asked for. False when memory was refused.
  bool begin(const ValueType* types, unsigned count, ValueType period_type, uint64_t period);

  // What the profile covers, where that is not everything since the process began.
  void duration(uint64_t ns);
  void comment(const Text& text);
  // Each line becomes a comment.
  Notes notes() {
    return {[](void* encoder, const Text& text) { static_cast<ProfileEncoder*>(encoder)->comment(text); }, this};
  }
  // `depth` ≤ kMaxStackDepth; as many values as types. Return addresses as in Stack.
  void row(const uintptr_t* return_addresses, unsigned depth, const int64_t* values, const Label* labels, unsigned label_count);

  // A row of two stacks: nearer to the root `made`, where a block was allocated, and below it, behind a frame of the name kJoint,
  // `freed`, where it was freed. Either may have no frames.
  void joined_row(const uintptr_t* freed, unsigned freed_depth, const uintptr_t* made, unsigned made_depth, const int64_t* values,
                  const Label* labels, unsigned label_count);
  static constexpr const char* kJoint = "(freed by)";

  // Hands the profile over. False when memory was refused; then *out is empty.
  bool finish(Buffer* out);

 private:
  // A string written lately, so that labels need not repeat theirs in every row. One that falls out is written again.
  struct Known {
    size_t at, bytes;  // in out_
    uint64_t index;
  };
  static constexpr size_t kKnown = 64;

  uint64_t add_string(const char* text, size_t bytes);
  uint64_t string(const char* text);
  void write_value_type(unsigned field, ValueType type);
  void write_mappings();
  void write_mapping(const Mapping& mapping);
  uint64_t write_more_unloaded(uintptr_t address);
  void write_python_comment();
  void write_unloaded_comment();
  uint64_t location(uintptr_t return_address);
  uint64_t python_location(uintptr_t pc);
  uint64_t python_function(uint32_t number);
  void write_function(uint64_t id, uint64_t name, uint64_t file, uint64_t first_line);
  void write_named_location(uint64_t id, uint64_t address, uint64_t function, uint64_t line);
  uint64_t joint();
  void write_row(unsigned depth, const int64_t* values, const Label* labels, unsigned label_count);
  void write_label(const Label& label, uint64_t key, uint64_t text, uint64_t unit);

  ProtoWriter out_;
  uint64_t strings_ = 0;
  Known known_[kKnown] = {};
  unsigned value_count_ = 0;
  Mappings mappings_;
  LocationTable locations_;
  LocationTable functions_;  // by the number of a Python function
  uint64_t joint_ = 0;  // its location, once there is one
  uint64_t ids_[2 * kMaxStackDepth + 1];  // of the row that is being written
  bool refused_ = false;
  bool drop_frames_ = true;
};

// A weighted sum as a row's value.
int64_t rounded(double value);

}  // namespace seemalloc::profile
