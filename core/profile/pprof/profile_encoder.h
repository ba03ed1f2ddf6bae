// ProfileEncoder: writes one profile.proto (github.com/google/pprof, proto/profile.proto),
// uncompressed, into memory of its own: framing, strings, mappings with build ids, locations,
// comments, labels. The code of each profile kind supplies the rows.
//
// Usage: begin(), then duration(), comment() and row() in any order, then finish(). The string
// table is not collected first. Its entries are top-level fields like all others, so each is
// written when it is needed, before the message that refers to it.
// Threads: one per object; takes no lock and never calls malloc. If memory is refused, all further
// output is dropped and finish() returns false.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/text.h"
#include "core/profile/pprof/buffer.h"
#include "core/profile/pprof/comment_writer.h"
#include "core/profile/pprof/location_table.h"
#include "core/profile/pprof/mappings.h"
#include "core/profile/pprof/proto.h"
#include "core/profile/sampling/stack.h"

namespace seemalloc::profile {

// The type and the unit of a row's value, for example "inuse_space", "bytes".
struct ValueType {
  const char* type;
  const char* unit;
};

// Distinguishes rows of one stack: a number with its unit, or a text.
struct Label {
  const char* key;
  int64_t number = 0;
  const char* unit = nullptr;
  const char* text = nullptr;  // null: the label is a number
};

class ProfileEncoder {
 public:
  // To be called before begin(): readers keep the allocator's own functions (in profiles of memory
  // they are dropped).
  void show_allocator() { drop_frames_ = false; }
  // Reads the mappings and writes everything before the rows, with the current time. Readers show
  // the last type by default. Returns false if memory was refused.
  bool begin(const ValueType* types, unsigned count, ValueType period_type, uint64_t period);

  // The time that the profile covers, if that is not the whole life of the process.
  void duration(uint64_t ns);
  void comment(const Text& text);
  // Writes each line as a comment.
  CommentWriter notes() {
    return {[](void* encoder, const Text& text) {
              static_cast<ProfileEncoder*>(encoder)->comment(text);
            },
            this};
  }
  // Requires: `depth` ≤ kMaxStackDepth; as many values as types. Return addresses are as in Stack.
  void row(const uintptr_t* return_addresses, unsigned depth, const int64_t* values,
           const Label* labels, unsigned label_count);

  // Writes a row of two stacks: towards the root `made`, which allocated a block; below it, after a
  // frame named kFreedByFrame, `freed`, which freed it. Either may have no frames.
  void joined_row(const uintptr_t* freed, unsigned freed_depth, const uintptr_t* made,
                  unsigned made_depth, const int64_t* values, const Label* labels,
                  unsigned label_count);
  static constexpr const char* kFreedByFrame = "(freed by)";

  // Transfers the profile to *out. Returns false if memory was refused; then *out is empty.
  bool finish(Buffer* out);

 private:
  // A recently written string, so that labels need not repeat theirs in every row. A string that
  // was evicted is written again.
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
  uint64_t freed_by_location();
  void write_row(unsigned depth, const int64_t* values, const Label* labels, unsigned label_count);
  void write_label(const Label& label, uint64_t key, uint64_t text, uint64_t unit);

  ProtoWriter out_;
  uint64_t strings_ = 0;
  Known known_[kKnown] = {};
  unsigned value_count_ = 0;
  Mappings mappings_;
  LocationTable locations_;
  LocationTable functions_;               // indexed by the number of a Python function
  uint64_t freed_by_location_ = 0;        // its location; 0: not written yet
  uint64_t ids_[2 * kMaxStackDepth + 1];  // of the current row
  bool refused_ = false;
  bool drop_frames_ = true;
};

// Rounds a weighted sum to a row's value.
int64_t rounded(double value);

}  // namespace seemalloc::profile
