// Options by name: their table (options_table.h), their parser, their values.
//
// Values are constant-initialised to their defaults, so they may be read before anything has run.
// Threads: values are relaxed atomics; texts are only written before threads start or under set()'s lock by the caller.
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
// The choices, by the value of their option.
enum class Foreign : uint64_t { kPass, kReport, kFatal };
enum class Purge : uint64_t { kBalanced, kEager, kNever };
enum class LimitAction : uint64_t { kFail, kAbort };
enum class CpuClock : uint64_t { kCpu, kWall };
enum class Sandbox : uint64_t { kAuto, kOn, kOff };
enum class DumpNames : uint64_t { kSeemalloc, kGperftools, kJemalloc };
inline constexpr unsigned kDumpNames = static_cast<unsigned>(DumpNames::kJemalloc) + 1;

enum class Id {
#define OPTION(name, kind, fallback, min, max, when, help) name,
#include "core/base/options_table.h"
#undef OPTION
  kCount
};

struct Row {
  const char* name;
  Kind kind;
  uint64_t fallback;
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

// The current value of an option that is no text, in its unit; of a choice, the number of its word.
inline uint64_t get(Id id) { return detail::values[static_cast<size_t>(id)].load(std::memory_order_relaxed); }
// Whether it was given a value, be it the default, and not auto afterwards; not for texts.
bool is_chosen(Id id);
// What `sample` was the last time that it was not 0: with it sampling is switched on again. May be set while it is off.
uint64_t last_sample_interval();
void remember_sample_interval(uint64_t bytes);
// The word of a choice for one of its values.
const char* word(Id id, uint64_t value);
// The current value of a text option; "" when unset.
const char* get_text(Id id);

// Parses and stores. On failure stores nothing and appends to `problem` what was wrong and what is expected.
bool set(Id id, const char* value, size_t length, Text& problem);
// Appends the current value as it would be written in SEEMALLOC_CONF.
void print(Id id, Text& out);
// Appends the default, likewise, and the range or the words an option takes.
void print_default(Id id, Text& out);
void print_expected(Id id, Text& out);

// Reads "name:value,name:value". Each unknown name or bad value is reported through `report` (one line) and skipped.
void parse(const char* text, void (*report)(const char* line));

}  // namespace seemalloc::options
