#include "core/base/options.h"

namespace seemalloc::options {

namespace {

constexpr Row kRows[kCount] = {
#define OPTION(name, kind, default_value, min, max, when, help) \
  {#name, Kind::kind, default_value, min, max, When::when, help},
#include "core/base/options_table.h"
#undef OPTION
};

char texts[kCount][kMaxTextBytes];

// The words of each choice, by value.
constexpr unsigned kMaxChoiceWords = 4;
struct Choice {
  Id id;
  const char* words[kMaxChoiceWords];
};
constexpr Choice kChoices[] = {
    {Id::foreign, {"pass", "report", "fatal"}},
    {Id::purge, {"balanced", "eager", "never"}},
    {Id::free_stacks, {"off", "sampled", "all"}},
    {Id::heap_limit_action, {"fail", "abort"}},
    {Id::cpu_clock, {"cpu", "wall"}},
    {Id::sandbox, {"auto", "on", "off"}},
    {Id::dump_names, {"seemalloc", "gperftools", "jemalloc"}},
};

// Choices that used to be switches: the values of a switch are still accepted.
struct FormerSwitch {
  Id id;
  uint64_t on, off;
};
constexpr FormerSwitch kFormerSwitches[] = {
    {Id::purge, static_cast<uint64_t>(Purge::kBalanced), static_cast<uint64_t>(Purge::kNever)}};

struct Alias {
  const char* name;
  Id id;
};
constexpr Alias kAliases[] = {{"delay", Id::purge_delay}};

std::atomic<bool> explicitly_set[kCount];
std::atomic<uint64_t> last_interval{kRows[static_cast<size_t>(Id::sample)].default_value};

constexpr const char* kAuto = "auto";

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
    if (__builtin_add_overflow(number, static_cast<uint64_t>(value[i] - '0'), &number))
      return false;
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

const char* const* choice_words(Id id) {
  for (const Choice& choice : kChoices) {
    if (choice.id == id) return choice.words;
  }
  return kChoices[0].words;  // unreachable: options_test covers all rows
}

bool parse_choice(Id id, const char* value, size_t length, uint64_t* out) {
  const char* const* words = choice_words(id);
  for (uint64_t i = 0; i <= row(id).max; i++) {
    if (text_equal(value, length, words[i])) return *out = i, true;
  }
  uint64_t on = 0;
  for (const FormerSwitch& old : kFormerSwitches) {
    if (old.id == id && parse_switch(value, length, &on))
      return *out = on != 0 ? old.on : old.off, true;
  }
  return false;
}

bool parse_value(Id id, const char* value, size_t length, uint64_t* out) {
  switch (row(id).kind) {
    case Kind::kSwitch: return parse_switch(value, length, out);
    case Kind::kChoice: return parse_choice(id, value, length, out);
    default: return parse_number(value, length, row(id).kind == Kind::kBytes, out);
  }
}

// "balanced, eager or never".
void print_words(Id id, Text& out) {
  const char* const* words = choice_words(id);
  uint64_t last = row(id).max;
  for (uint64_t i = 0; i <= last; i++) out << (i == 0 ? "" : i == last ? " or " : ", ") << words[i];
}

void print_number(Kind kind, uint64_t value, Text& out) {
  if (kind == Kind::kBytes && value != 0) {
    for (const Suffix& suffix : kSuffixes) {
      if (value & ((uint64_t{1} << suffix.shift) - 1)) continue;
      out << (value >> suffix.shift) << suffix.letter;
      return;
    }
  }
  out << value;
}

bool is_auto(Id id, const char* value, size_t length) {
  return row(id).kind == Kind::kAutoMilliseconds && text_equal(value, length, kAuto);
}

// Resets the option to its default, as if no value had been given.
void reset_to_default(Id id) {
  explicitly_set[static_cast<size_t>(id)].store(false, std::memory_order_relaxed);
  detail::values[static_cast<size_t>(id)].store(row(id).default_value, std::memory_order_relaxed);
}

bool set_text(Id id, const char* value, size_t length, Text& problem) {
  if (length >= kMaxTextBytes) {
    problem << "fewer than " << uint64_t{kMaxTextBytes} << " bytes";
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
#define OPTION(name, kind, default_value, min, max, when, help) {default_value},
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
  for (const Alias& alias : kAliases) {
    if (text_equal(name, length, alias.name)) return *id = alias.id, true;
  }
  return false;
}

const char* word(Id id, uint64_t value) { return choice_words(id)[value]; }

bool is_explicitly_set(Id id) {
  return explicitly_set[static_cast<size_t>(id)].load(std::memory_order_relaxed);
}

uint64_t last_sample_interval() { return last_interval.load(std::memory_order_relaxed); }
void remember_sample_interval(uint64_t bytes) {
  last_interval.store(bytes, std::memory_order_relaxed);
}

const char* get_text(Id id) { return texts[static_cast<size_t>(id)]; }

bool set(Id id, const char* value, size_t length, Text& problem) {
  const Row& r = row(id);
  if (r.kind == Kind::kText) return set_text(id, value, length, problem);
  if (is_auto(id, value, length)) return reset_to_default(id), true;
  uint64_t number = 0;
  if (!parse_value(id, value, length, &number) || number < r.min || number > r.max) {
    print_expected(id, problem);
    return false;
  }
  detail::values[static_cast<size_t>(id)].store(number, std::memory_order_relaxed);
  if (id == Id::sample && number != 0) remember_sample_interval(number);
  explicitly_set[static_cast<size_t>(id)].store(true, std::memory_order_relaxed);
  return true;
}

namespace {
void print_value(Id id, uint64_t value, Text& out) {
  if (row(id).kind == Kind::kChoice) {
    out << word(id, value);
  } else {
    print_number(row(id).kind, value, out);
  }
}
}  // namespace

void print(Id id, Text& out) {
  if (row(id).kind == Kind::kText) {
    out << get_text(id);
  } else if (row(id).kind == Kind::kAutoMilliseconds && !is_explicitly_set(id)) {
    out << kAuto;
  } else {
    print_value(id, get(id), out);
  }
}

void print_default(Id id, Text& out) {
  if (row(id).kind == Kind::kText) return;
  if (row(id).kind == Kind::kAutoMilliseconds) {
    out << kAuto;
  } else {
    print_value(id, row(id).default_value, out);
  }
}

void print_expected(Id id, Text& out) {
  const Row& r = row(id);
  switch (r.kind) {
    case Kind::kSwitch: out << "0 or 1"; return;
    case Kind::kChoice: print_words(id, out); return;
    case Kind::kText: out << "text"; return;
    case Kind::kBytes:
    case Kind::kMilliseconds:
    case Kind::kAutoMilliseconds:
    case Kind::kCount:
      out << (r.kind == Kind::kBytes   ? "bytes"
              : r.kind == Kind::kCount ? "a number"
                                       : "milliseconds")
          << " from ";
      print_number(r.kind, r.min, out);
      out << " to ";
      print_number(r.kind, r.max, out);
      if (r.kind == Kind::kAutoMilliseconds) out << ", or " << kAuto;
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
      // Ignore an empty item, for example after a trailing comma.
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
        line.append(value, static_cast<size_t>(end - value))
            << "\" for " << row(id).name << " ignored; expected ";
        line << expected.c_str();
        report(line.c_str());
      }
    }
    at = *end == ',' ? end + 1 : end;
  }
}

}  // namespace seemalloc::options
