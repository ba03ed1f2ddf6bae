#include "core/base/options.h"

namespace seemalloc::options {

namespace {

constexpr Row kRows[kCount] = {
#define OPTION(name, kind, fallback, min, max, when, help) \
  {#name, Kind::kind, fallback, min, max, When::when, help},
#include "core/base/options_table.h"
#undef OPTION
};

char texts[kCount][kMaxTextBytes];

constexpr const char* kForeignWords[] = {"pass", "report", "fatal"};

struct Suffix {
  char letter;
  unsigned shift;
};
constexpr Suffix kSuffixes[] = {{'T', 40}, {'G', 30}, {'M', 20}, {'K', 10}};

// Digits and, for bytes, one suffix letter.
bool parse_number(const char* value, size_t length, bool with_suffix, uint64_t* out) {
  uint64_t number = 0;
  size_t i = 0;
  for (; i < length && value[i] >= '0' && value[i] <= '9'; i++) {
    if (__builtin_mul_overflow(number, uint64_t{10}, &number)) return false;
    if (__builtin_add_overflow(number, static_cast<uint64_t>(value[i] - '0'), &number)) return false;
  }
  if (i == 0) return false;
  if (i < length && with_suffix) {
    char letter = static_cast<char>(value[i] & ~0x20);
    for (const Suffix& suffix : kSuffixes) {
      if (letter != suffix.letter) continue;
      if ((number << suffix.shift) >> suffix.shift != number) return false;
      number <<= suffix.shift;
      i++;
      break;
    }
  }
  *out = number;
  return i == length;
}

bool parse_switch(const char* value, size_t length, uint64_t* out) {
  for (const char* word : {"1", "on", "true"}) {
    if (text_equal(value, length, word)) return *out = 1, true;
  }
  for (const char* word : {"0", "off", "false"}) {
    if (text_equal(value, length, word)) return *out = 0, true;
  }
  return false;
}

bool parse_foreign(const char* value, size_t length, uint64_t* out) {
  for (uint64_t i = 0; i < 3; i++) {
    if (text_equal(value, length, kForeignWords[i])) return *out = i, true;
  }
  return false;
}

void print_number(Kind kind, uint64_t value, Text& out) {
  if (kind == Kind::kForeign) {
    out << kForeignWords[value];
    return;
  }
  if (kind == Kind::kBytes && value != 0) {
    for (const Suffix& suffix : kSuffixes) {
      if (value & ((uint64_t{1} << suffix.shift) - 1)) continue;
      out << (value >> suffix.shift) << suffix.letter;
      return;
    }
  }
  out << value;
}

bool set_text(Id id, const char* value, size_t length, Text& problem) {
  if (length >= kMaxTextBytes) {
    problem << "a text of fewer than " << uint64_t{kMaxTextBytes} << " bytes";
    return false;
  }
  char* text = texts[static_cast<size_t>(id)];
  for (size_t i = 0; i < length; i++) text[i] = value[i];
  text[length] = 0;
  return true;
}

}  // namespace

namespace detail {
std::atomic<uint64_t> values[kCount] = {
#define OPTION(name, kind, fallback, min, max, when, help) {fallback},
#include "core/base/options_table.h"
#undef OPTION
};
}  // namespace detail

const Row& row(Id id) { return kRows[static_cast<size_t>(id)]; }

bool find(const char* name, size_t length, Id* id) {
  for (size_t i = 0; i < kCount; i++) {
    if (!text_equal(name, length, kRows[i].name)) continue;
    *id = static_cast<Id>(i);
    return true;
  }
  return false;
}

const char* get_text(Id id) { return texts[static_cast<size_t>(id)]; }

bool set(Id id, const char* value, size_t length, Text& problem) {
  const Row& r = row(id);
  if (r.kind == Kind::kText) return set_text(id, value, length, problem);
  uint64_t number = 0;
  bool good = r.kind == Kind::kSwitch    ? parse_switch(value, length, &number)
              : r.kind == Kind::kForeign ? parse_foreign(value, length, &number)
                                         : parse_number(value, length, r.kind == Kind::kBytes, &number);
  if (!good || number < r.min || number > r.max) {
    print_expected(id, problem);
    return false;
  }
  detail::values[static_cast<size_t>(id)].store(number, std::memory_order_relaxed);
  return true;
}

void print(Id id, Text& out) {
  if (row(id).kind == Kind::kText) {
    out << get_text(id);
  } else {
    print_number(row(id).kind, get(id), out);
  }
}

void print_default(Id id, Text& out) {
  if (row(id).kind != Kind::kText) print_number(row(id).kind, row(id).fallback, out);
}

void print_expected(Id id, Text& out) {
  const Row& r = row(id);
  switch (r.kind) {
    case Kind::kSwitch:
      out << "0 or 1";
      return;
    case Kind::kForeign:
      out << "pass, report or fatal";
      return;
    case Kind::kText:
      out << "a text";
      return;
    case Kind::kBytes:
    case Kind::kMilliseconds:
    case Kind::kCount:
      out << (r.kind == Kind::kBytes ? "bytes" : r.kind == Kind::kMilliseconds ? "milliseconds" : "a number") << " from ";
      print_number(r.kind, r.min, out);
      out << " to ";
      print_number(r.kind, r.max, out);
      return;
  }
}

void parse(const char* text, void (*report)(const char* line)) {
  const char* at = text;
  while (*at != 0) {
    const char* end = at;
    while (*end != 0 && *end != ',') end++;
    const char* colon = at;
    while (colon != end && *colon != ':') colon++;
    size_t name_length = static_cast<size_t>(colon - at);
    size_t item_length = static_cast<size_t>(end - at);
    FixedText<512> line;
    Id id;
    if (item_length == 0) {
      // An empty item, as a trailing comma leaves it.
    } else if (!find(at, name_length, &id)) {
      line << "SEEMALLOC_CONF: unknown option \"";
      line.append(at, name_length) << "\" ignored; see `seemalloc help options`";
      report(line.c_str());
    } else {
      FixedText<256> expected;
      bool has_value = colon != end;
      const char* value = has_value ? colon + 1 : end;
      if (!has_value || !set(id, value, static_cast<size_t>(end - value), expected)) {
        if (!has_value) print_expected(id, expected);
        line << "SEEMALLOC_CONF: bad value \"";
        line.append(value, static_cast<size_t>(end - value)) << "\" for " << row(id).name << " ignored; expected ";
        line << expected.c_str();
        report(line.c_str());
      }
    }
    at = *end == ',' ? end + 1 : end;
  }
}

}  // namespace seemalloc::options
