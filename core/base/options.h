// Options by name: their table (options_table.h), their parser, their values.
//
// Values are constant-initialised to their defaults, so they may be read before any code has run.
// Threads: values are relaxed atomics. Texts are written only before threads start, or under the
// lock of set()'s caller.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/text.h"
#include "core/base/units.h"

namespace seemalloc::options {

inline constexpr size_t TiB = size_t{1} << 40;

enum class Kind { kBytes, kMilliseconds, kAutoMilliseconds, kCount, kSwitch, kText, kChoice };
enum class When { kStart, kAny };
// The choices, numbered by their option's value.
enum class Foreign : uint64_t { kPass, kReport, kFatal };
enum class Purge : uint64_t { kBalanced, kEager, kNever };
enum class LimitAction : uint64_t { kFail, kAbort };
enum class CpuClock : uint64_t { kCpu, kWall };
enum class Sandbox : uint64_t { kAuto, kOn, kOff };
enum class DumpNames : uint64_t { kSeemalloc, kGperftools, kJemalloc };
inline constexpr unsigned kDumpNames = static_cast<unsigned>(DumpNames::kJemalloc) + 1;

enum class Id {
#define OPTION(name, kind, default_value, min, max, when, help) name,
#include "core/base/options_table.h"
#undef OPTION
  kCount
};

struct Row {
  const char* name;
  Kind kind;
  uint64_t default_value;
  uint64_t min;
  uint64_t max;
  When when;
  const char* help;
};

inline constexpr size_t kCount = static_cast<size_t>(Id::kCount);
inline constexpr size_t kMaxTextBytes = 256;

// The row of an option, in table order.
const Row& row(Id id);
// Looks an option up by name or alias; false when there is none.
bool find(const char* name, size_t length, Id* id);

namespace detail {
extern std::atomic<uint64_t> values[kCount];
}

// The current value of an option that is not a text, in its unit; for a choice, the index of its
// word.
inline uint64_t get(Id id) {
  return detail::values[static_cast<size_t>(id)].load(std::memory_order_relaxed);
}
// Whether the option was given a value, even its default, and not `auto` afterwards. Not for texts.
bool is_explicitly_set(Id id);
// The last value of `sample` that was not 0, which is used when sampling is switched on again. May
// be set while sampling is off.
uint64_t last_sample_interval();
void remember_sample_interval(uint64_t bytes);
// The word of a choice for one of its values.
const char* word(Id id, uint64_t value);
// The current value of a text option; "" when unset.
const char* get_text(Id id);

// Parses and stores a value. On failure stores nothing, and appends to `problem` which value is
// expected.
bool set(Id id, const char* value, size_t length, Text& problem);
// Appends the current value as it would be written in SEEMALLOC_CONF.
void print(Id id, Text& out);
// The same for the default, and for the range or the words that an option accepts.
void print_default(Id id, Text& out);
void print_expected(Id id, Text& out);

// Reads "name:value,name:value". Each unknown name or bad value is reported through `report` (one
// line) and skipped.
void parse(const char* text, void (*report)(const char* line));

}  // namespace seemalloc::options
