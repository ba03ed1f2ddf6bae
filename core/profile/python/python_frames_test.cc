// A simulated CPython: objects in the layout of each version, and C functions that have an anchor
// as its interpreter has.
#include "core/profile/python/python_frames.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/base/seed_for_test.h"
#include "core/os/kernel/fault.h"
#include "core/os/kernel/memory.h"
#include "core/profile/code/modules.h"
#include "core/profile/heap/heap_profile.h"
#include "core/profile/heap/recorder.h"
#include "core/profile/heap/records.h"
#include "core/profile/pprof/decoder_for_test.h"
#include "core/profile/pprof/profile_encoder.h"
#include "core/profile/python/python_pc.h"

namespace seemalloc::profile {
namespace {

#define NOINLINE __attribute__((noipa))
#define KEEP_FRAME __asm__ volatile("" ::: "memory")

thread_local void* state_of_thread = nullptr;
void* thread_state() { return state_of_thread; }

class FakePython {
 public:
  explicit FakePython(unsigned minor)
      : layout(*python_layout(minor)), python{&layout,
                                              address(code_type),
                                              address(text_type),
                                              address(bytes_type),
                                              thread_state,
                                              nullptr,
                                              0,
                                              0,
                                              false} {
    use_python_for_test(&python);
    state = object(256);
    root = object(64);
    if (layout.has_cframes) put(state, layout.state_top, root);
    state_of_thread = reinterpret_cast<void*>(state);
  }
  ~FakePython() {
    state_of_thread = nullptr;
    use_python_for_test(nullptr);
  }

  static uintptr_t address(const void* p) { return reinterpret_cast<uintptr_t>(p); }
  template <typename T>
  static void put(uintptr_t object, size_t offset, T value) {
    memcpy(reinterpret_cast<char*>(object) + offset, &value, sizeof(value));
  }

  uintptr_t object(size_t bytes) {
    memory.emplace_back(bytes);
    return address(memory.back().data());
  }
  uintptr_t text(const std::u32string& characters, unsigned width, bool ascii = false,
                 int64_t hash = -1) {
    size_t start = ascii ? layout.ascii_bytes : layout.compact_bytes;
    uintptr_t str = object(start + (characters.size() + 1) * width);
    put(str, 8, address(text_type));
    put(str, 16, static_cast<int64_t>(characters.size()));
    put(str, 24, hash);
    put(str, 32, static_cast<uint32_t>(width << 2 | 1u << 5 | (ascii ? 1u << 6 : 0)));
    for (size_t i = 0; i < characters.size(); i++) {
      memcpy(reinterpret_cast<char*>(str) + start + i * width, &characters[i], width);
    }
    return str;
  }
  uintptr_t ascii(const std::string& characters) {
    return text(std::u32string(characters.begin(), characters.end()), 1, true,
                static_cast<int64_t>(std::hash<std::string>()(characters)));
  }
  // 16 code units, four on each line, starting with the first line.
  uintptr_t code(uintptr_t name, uintptr_t file, int32_t first_line) {
    uintptr_t lines = object(64);
    put(lines, 8, address(bytes_type));
    std::string table;
    for (int i = 0; i < 4; i++)
      table += std::string{static_cast<char>(0x80 | (i == 0 ? 10 : 11) << 3 | 3), 0, 0};
    put(lines, 16, static_cast<int64_t>(table.size()));
    memcpy(reinterpret_cast<char*>(lines) + 32, table.data(), table.size());
    uintptr_t made = object(256);
    put(made, 0, uint64_t{1});
    put(made, 8, address(code_type));
    put(made, 16, int64_t{16});
    put(made, 112, file);
    put(made, 128, name);
    put(made, 136, lines);
    put(made, layout.code_first_line, first_line);
    return made;
  }
  uintptr_t code(const std::string& name, int32_t first_line) {
    return code(ascii(name), ascii("/srv/app.py"), first_line);
  }
  // Runs the code at one of its units. `previous` is the caller's frame.
  uintptr_t frame(uintptr_t of_code, int unit, uintptr_t previous) {
    uintptr_t made = object(128);
    put(made, layout.frame_code, of_code);
    put(made, layout.frame_previous, previous);
    put(made, layout.frame_instruction,
        of_code + layout.code_bytes + static_cast<uintptr_t>(unit * 2));
    return made;
  }
  uintptr_t top() const {
    uintptr_t value;
    memcpy(&value, reinterpret_cast<char*>(state) + layout.state_top, sizeof(value));
    return value;
  }

  PythonLayout layout;
  Python python;
  uintptr_t state, root;
  std::vector<std::vector<char>> memory;
  char code_type[8], text_type[8], bytes_type[8];
};

struct Called {
  uintptr_t code;
  int unit;
};

// An interpreter that runs functions, outermost first, and then C code.
NOINLINE void interpret(FakePython& fake, const std::vector<Called>& functions,
                        const std::function<void()>& then) {
  alignas(16) char anchor[128] = {};
  const PythonLayout& layout = fake.layout;
  uintptr_t before = fake.top(), here = FakePython::address(anchor), frame = 0;
  if (layout.has_cframes)
    memcpy(&frame, reinterpret_cast<char*>(before) + layout.cframe_current, sizeof(frame));
  if (!layout.mark_is_entry) {
    // The frame on the C stack, between those of this interpreter and of the previous one.
    uintptr_t entry = layout.has_cframes ? here + 32 : here;
    FakePython::put(entry, layout.frame_previous, layout.has_cframes ? frame : before);
    FakePython::put(entry, layout.frame_mark, uint8_t{3});
    frame = entry;
  }
  bool first = true;
  for (const Called& called : functions) {
    frame = fake.frame(called.code, called.unit, frame);
    if (first && layout.mark_is_entry) FakePython::put(frame, layout.frame_mark, uint8_t{1});
    first = false;
  }
  if (layout.has_cframes) {
    FakePython::put(here, layout.cframe_current, frame);
    FakePython::put(here, layout.cframe_previous, before);
    FakePython::put(fake.state, layout.state_top, here);
  } else {
    FakePython::put(fake.state, layout.state_top, frame);
  }
  then();
  FakePython::put(fake.state, layout.state_top, before);
  KEEP_FRAME;
}

std::string shown(uintptr_t pc) {
  if (!is_python_pc(pc)) return "C";
  PythonPc place = decode_python_pc(pc);
  PythonNames::Function function = python_names()->function(place.function);
  return std::string(function.name.data, function.name.bytes) + ":" + std::to_string(place.line);
}

// One stack captured in both ways from the same place.
struct StackPair {
  Stack with, without;
  std::string text() const {
    std::string line;
    for (size_t i = 0; i < with.depth; i++) line += (i == 0 ? "" : " ") + shown(with.pcs[i]);
    return line;
  }
  // Without the Python functions, the C frames are those of the native stack except for the
  // interpreters', in the same order.
  size_t expect_same_c_frames(size_t interpreters) const {
    std::vector<uintptr_t> left;
    for (size_t i = 0; i < with.depth; i++) {
      if (!is_python_pc(with.pcs[i])) left.push_back(with.pcs[i]);
    }
    EXPECT_EQ(left.size() + interpreters, without.depth);
    size_t at = 0;
    for (size_t i = 0; i < without.depth && at < left.size(); i++) at += left[at] == without.pcs[i];
    EXPECT_EQ(at, left.size());
    return left.size();
  }
};

NOINLINE void take(StackPair* both, size_t max_depth = kMaxStackDepth) {
  // A single call for both, so that they have the same return address.
  static void (*volatile captures[])(Stack*, size_t) = {capture_native_stack, capture_stack};
  Stack* stacks[] = {&both->without, &both->with};
  for (int i = 0; i < 2; i++) {
    __asm__ volatile("" : "+r"(i));
    captures[i](stacks[i], max_depth);
  }
  KEEP_FRAME;
}

std::string python_only(const StackPair& both) {
  std::string line;
  for (size_t i = 0; i < both.with.depth; i++) {
    if (is_python_pc(both.with.pcs[i])) line += shown(both.with.pcs[i]) + " ";
  }
  return line;
}

class PythonFrames : public testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Versions, PythonFrames, testing::Values(11, 12, 13));

TEST_P(PythonFrames, ReplaceInterpreterFrames) {
  FakePython fake(GetParam());
  uintptr_t main = fake.code("<module>", 1), work = fake.code("Work.run", 10),
            key = fake.code("key", 100);
  StackPair both;
  interpret(fake, {{main, 0}, {work, 5}}, [&] {
    interpret(fake, {{key, 15}}, [&] { take(&both); });
  });
  EXPECT_EQ(python_only(both), "key:103 Work.run:11 <module>:1 ");
  both.expect_same_c_frames(2);
  EXPECT_FALSE(both.with.broken);
  EXPECT_EQ(both.with.broken, both.without.broken);
  // C between them, and on both sides.
  std::string text = both.text();
  EXPECT_NE(text.find("C key:103 C"), std::string::npos) << text;
  EXPECT_NE(text.find("C Work.run:11 <module>:1 C"), std::string::npos) << text;
}

TEST_P(PythonFrames, AreThereBeforeTheFirstInstructionToo) {
  FakePython fake(GetParam());
  StackPair both;
  interpret(fake, {{fake.code("f", 7), -1}}, [&] { take(&both); });
  EXPECT_EQ(python_only(both), "f:7 ");
}

TEST_P(PythonFrames, OfCodeThatPythonHidesAreLeftOut) {
  FakePython fake(GetParam());
  uintptr_t hidden = fake.code("cleanup", 1);
  FakePython::put(hidden, fake.layout.code_first_traceable, int32_t{16});
  StackPair both;
  interpret(fake, {{fake.code("f", 7), 0}, {hidden, 0}, {fake.code("__init__", 30), 0}},
            [&] { take(&both); });
  EXPECT_EQ(python_only(both), "__init__:30 f:7 ");
}

TEST_P(PythonFrames, AreCutAtTheDepth) {
  FakePython fake(GetParam());
  uintptr_t code = fake.code("deeper", 1);
  for (size_t depth : {4, 20, 128}) {
    StackPair both;
    interpret(fake, std::vector<Called>(500, {code, 0}), [&] { take(&both, depth); });
    EXPECT_EQ(both.with.depth, depth);
    EXPECT_TRUE(both.with.truncated);
  }
}

// Calls a function that many times through C.
NOINLINE void nest(FakePython& fake, uintptr_t code, int calls, const std::function<void()>& then) {
  if (calls == 0) return then();
  interpret(fake, {{code, 0}}, [&] { nest(fake, code, calls - 1, then); });
  KEEP_FRAME;
}

TEST_P(PythonFrames, AreNotDisplacedByTheInterpretersOwnFunctions) {
  FakePython fake(GetParam());
  uintptr_t inner = fake.code("inner", 1), outer = fake.code("outer", 1);
  constexpr int kCalls = 60;
  StackPair both;
  auto run = [&] {
    interpret(fake, {{outer, 0}}, [&] { nest(fake, inner, kCalls, [&] { take(&both); }); });
  };
  run();
  EXPECT_TRUE(both.with.truncated);
  EXPECT_EQ(python_only(both).find("outer"), std::string::npos);
  // All of this program is the interpreter.
  Module module;
  ASSERT_TRUE(find_module(FakePython::address(reinterpret_cast<void*>(nest)), &module));
  fake.python.code_start = module.start;
  fake.python.code_end = module.end;
  run();
  EXPECT_FALSE(both.with.truncated);
  std::string want;
  for (int i = 0; i < kCalls; i++) want += "inner:1 ";
  EXPECT_EQ(python_only(both), want + "outer:1 ");
  // What the innermost function calls stays.
  size_t first = 0;
  while (first < both.with.depth && !is_python_pc(both.with.pcs[first])) first++;
  EXPECT_GT(first, 2u);
  for (size_t i = 0; i < first; i++) EXPECT_EQ(both.with.pcs[i], both.without.pcs[i]);
  for (size_t i = first; i < first + kCalls; i++) EXPECT_TRUE(is_python_pc(both.with.pcs[i])) << i;
}

TEST_P(PythonFrames, AreNoneInAThreadWithoutPython) {
  FakePython fake(GetParam());
  state_of_thread = nullptr;
  StackPair both;
  interpret(fake, {{fake.code("f", 7), 0}}, [&] { take(&both); });
  both.expect_same_c_frames(0);
}

TEST_P(PythonFrames, OfAnotherStackAreIgnored) {
  FakePython fake(GetParam());
  StackPair both;
  interpret(fake, {{fake.code("f", 7), 0}}, [&] { KEEP_FRAME; });
  // An anchor that is in no C frame, as in another interpreter of the same thread.
  uintptr_t elsewhere = fake.object(256), code = fake.code("g", 1);
  uintptr_t entry = fake.object(128);
  FakePython::put(entry, fake.layout.frame_mark,
                  uint8_t{static_cast<uint8_t>(fake.layout.mark_is_entry ? 1 : 3)});
  FakePython::put(entry, fake.layout.frame_code, code);
  FakePython::put(elsewhere, fake.layout.cframe_current, entry);
  FakePython::put(elsewhere, fake.layout.cframe_previous, fake.root);
  FakePython::put(fake.state, fake.layout.state_top, fake.layout.has_cframes ? elsewhere : entry);
  take(&both);
  both.expect_same_c_frames(0);
}

TEST_P(PythonFrames, HaveNamesInAnyAlphabet) {
  FakePython fake(GetParam());
  uintptr_t file = fake.ascii("/srv/app.py");
  struct {
    std::u32string text;
    unsigned width;
    std::string utf8;
  } const names[] = {
      {U"grün", 1, "gr\u00fcn"},          {U"число", 2, "\u0447\u0438\u0441\u043b\u043e"},
      {U"𝒳𝒴", 4, "\U0001d4b3\U0001d4b4"}, {{0xD800, 'x', '\n'}, 2, "\uFFFDx?"},
      {{0x110000, 'x'}, 4, "\uFFFDx"},    {U"", 1, ""}};
  for (const auto& name : names) {
    StackPair both;
    interpret(fake, {{fake.code(fake.text(name.text, name.width), file, 3), 0}},
              [&] { take(&both); });
    EXPECT_EQ(python_only(both), name.utf8 + ":3 ");
  }
}

TEST_P(PythonFrames, KeepTheEndOfLongPathsAndTheBeginningOfLongNames) {
  FakePython fake(GetParam());
  std::string long_name(3000, 'n'), path = std::string(3000, 'p') + "/end.py";
  for (bool ascii : {true, false}) {
    std::u32string name(long_name.begin(), long_name.end()), file(path.begin(), path.end());
    StackPair both;
    interpret(fake, {{fake.code(fake.text(name, 1, ascii), fake.text(file, 1, ascii), 3), 0}},
              [&] { take(&both); });
    for (size_t i = 0; i < both.with.depth; i++) {
      if (!is_python_pc(both.with.pcs[i])) continue;
      PythonNames::Function function =
          python_names()->function(decode_python_pc(both.with.pcs[i]).function);
      std::string shown_name(function.name.data, function.name.bytes),
          shown_file(function.file.data, function.file.bytes);
      EXPECT_LE(shown_name.size(), PythonNames::kMaxBytes);
      EXPECT_GE(shown_name.size(), PythonNames::kMaxBytes / 4 - 8);
      EXPECT_EQ(shown_name.substr(shown_name.size() - 5), "nn…");
      EXPECT_EQ(shown_file.substr(0, 5), "…pp");
      EXPECT_EQ(shown_file.substr(shown_file.size() - 7), "/end.py");
    }
  }
}

// Turns the code object of a function into that of a function named `other`, at the same address.
void replace_code(FakePython& fake, uintptr_t code) {
  uintptr_t name;
  memcpy(&name, reinterpret_cast<char*>(code) + 128, sizeof(name));
  memcpy(reinterpret_cast<char*>(name) + fake.layout.ascii_bytes, "other", 5);
  FakePython::put(name, 24, int64_t{4711});
}

std::string function_of(FakePython& fake, uintptr_t code) {
  StackPair both;
  interpret(fake, {{code, 0}}, [&] { take(&both); });
  return python_only(both);
}

TEST_P(PythonFrames, AreNotThoseOfCodeThatLayThereBefore) {
  FakePython fake(GetParam());
  uintptr_t code = fake.code("first", 1);
  EXPECT_EQ(function_of(fake, code), "first:1 ");
  replace_code(fake, code);
  EXPECT_EQ(function_of(fake, code), "other:1 ");
}

TEST_P(PythonFrames, AreReadOnceWhileTheirCodeIsAlive) {
  FakePython fake(GetParam());
  fake.python.frees_are_seen = true;
  uintptr_t code = fake.code("first", 1), hidden = fake.code("cleanup", 1);
  FakePython::put(hidden, fake.layout.code_first_traceable, int32_t{16});
  EXPECT_EQ(function_of(fake, code), "first:1 ");
  EXPECT_EQ(function_of(fake, hidden), "");
  replace_code(fake, code);
  FakePython::put(hidden, fake.layout.code_first_traceable, int32_t{0});
  EXPECT_EQ(function_of(fake, code), "first:1 ") << "not read again";
  EXPECT_EQ(function_of(fake, hidden), "");
  fake.python.names->codes.forget(code);
  fake.python.names->codes.forget(hidden);
  EXPECT_EQ(function_of(fake, code), "other:1 ");
  EXPECT_EQ(function_of(fake, hidden), "cleanup:1 ");
  fake.python.names->codes.forget(code);
  fake.python.names->codes.forget(hidden);
}

std::atomic<unsigned> system_calls{0};

TEST_P(PythonFrames, OfKnownCodeNeedNoSystemCalls) {
  FakePython fake(GetParam());
  fake.python.frees_are_seen = true;
  constexpr unsigned kFunctions = 40;
  std::vector<Called> functions;
  for (unsigned i = 0; i < kFunctions; i++)
    functions.push_back({fake.code("f" + std::to_string(i), 1), 0});
  unsigned calls[2];
  os::fault_hook = [](long) -> long { return system_calls++, 0; };
  interpret(fake, functions, [&] {
    StackPair both;
    for (unsigned& some : calls) {
      unsigned before = system_calls;
      take(&both);
      some = system_calls - before;
    }
  });
  os::fault_hook = nullptr;
  EXPECT_LE(calls[1] + 2 * kFunctions, calls[0]);
  for (const Called& called : functions) fake.python.names->codes.forget(called.code);
}

// While it is being freed, its memory is as before, but the next object at its address is another.
TEST_P(PythonFrames, OfCodeThatIsBeingFreedAreNotKept) {
  FakePython fake(GetParam());
  fake.python.frees_are_seen = true;
  for (uint64_t references : {uint64_t{0}, uint64_t{0x7f0012345678}}) {
    uintptr_t code = fake.code("first", 1);
    FakePython::put(code, 0, references);
    EXPECT_EQ(function_of(fake, code), "first:1 ");
    replace_code(fake, code);
    EXPECT_EQ(function_of(fake, code), "other:1 ");
  }
}

TEST_P(PythonFrames, ThatCannotBeReadLeaveTheInterpreterAndAreCounted) {
  FakePython fake(GetParam());
  uintptr_t good = fake.code("good", 1), bad = fake.code("bad", 1);
  FakePython::put(bad, 8, uintptr_t{8});  // not a code object
  uint64_t before = python_counters().unreadable;
  StackPair both;
  interpret(fake, {{good, 0}}, [&] {
    interpret(fake, {{good, 0}, {bad, 0}}, [&] { take(&both); });
  });
  EXPECT_EQ(python_only(both), "good:1 ");
  both.expect_same_c_frames(1);
  EXPECT_EQ(python_counters().unreadable, before + 1);
}

// A signal may find any state. The C frames are correct anyway, and nothing faults.
TEST_P(PythonFrames, SurviveCorruptMemory) {
  unsigned seed = seed_for_test();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  FakePython fake(GetParam());
  void* gone = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  uintptr_t f = fake.code("f", 1), g = fake.code("g", 50);
  interpret(fake, {{f, 0}, {g, 3}, {f, 2}}, [&] {
    interpret(fake, {{g, 0}, {f, 1}}, [&] {
      for (int round = 0; round < 3000; round++) {
        std::vector<std::pair<char*, uint64_t>> undo;
        for (uint64_t n = 1 + random() % 3; n > 0; n--) {
          std::vector<char>& victim = fake.memory[random() % fake.memory.size()];
          if (victim.data() == reinterpret_cast<char*>(fake.root)) continue;
          char* word = victim.data() + random() % (victim.size() / 8) * 8;
          uint64_t old, fresh;
          memcpy(&old, word, 8);
          switch (random() % 6) {
            case 0: fresh = random(); break;
            case 1: fresh = 0; break;
            // Objects there end at address 0 or beyond.
            case 5: fresh = 0 - random() % 32 * 8; break;
            case 2: fresh = reinterpret_cast<uintptr_t>(gone) + random() % 512 * 8; break;
            case 3:
              fresh = FakePython::address(fake.memory[random() % fake.memory.size()].data());
              break;
            default: fresh = old ^ uint64_t { 1 } << random() % 64; break;
          }
          undo.emplace_back(word, old);
          memcpy(word, &fresh, 8);
        }
        StackPair both;
        take(&both);
        ASSERT_FALSE(both.with.broken && !both.without.broken);
        for (size_t i = undo.size(); i > 0; i--) memcpy(undo[i - 1].first, &undo[i - 1].second, 8);
      }
      // Lines may be those of a table that was changed in place, because lines are cached. CPython
      // never does that.
      StackPair both;
      take(&both);
      std::string functions;
      for (char c : python_only(both)) functions += c == 'f' || c == 'g' ? std::string(1, c) : "";
      EXPECT_EQ(functions, "fgfgf");
    });
  });
  munmap(gone, 4096);
}

// The C frames are equal: the stacks differ only in Python's memory.
TEST_P(PythonFrames, AreInSamplesWhoseCStackWasSampledBefore) {
  FakePython fake(GetParam());
  uintptr_t code[] = {fake.code("first", 1), fake.code("second", 1)};
  auto recorder = std::make_unique<Recorder>();
  memset(static_cast<void*>(recorder.get()), 0, sizeof(Recorder));
  std::string names;
  for (int i = 0; i < 6; i++) {
    use_python_for_test(i < 2 ? nullptr : &fake.python);  // switched on while it runs
    interpret(fake, {{code[i % 2], 0}}, [&] {
      SampleId id = record_alloc(recorder.get(), {64, 64, 1, false}, 0, kMaxStackDepth);
      ASSERT_NE(id, 0u);
      const InternedStack& stack = *records.live.get(id).bucket->stack;
      for (size_t f = 0; f < stack.depth; f++) {
        if (is_python_pc(stack.pcs()[f])) names += shown(stack.pcs()[f]) + " ";
      }
      record_free(recorder.get(), id, {0, false});
    });
  }
  EXPECT_EQ(names, "first:1 second:1 first:1 second:1 ");
}

TEST_P(PythonFrames, HaveTheirNamesInAProfile) {
  FakePython fake(GetParam());
  StackPair both;
  uintptr_t outer = fake.code("outer", 10);
  interpret(fake, {{outer, 0}, {outer, 4}, {fake.code("inner", 50), 0}}, [&] { take(&both); });
  ProfileEncoder encoder;
  constexpr ValueType kTypes[] = {{"things", "count"}};
  ASSERT_TRUE(encoder.begin(kTypes, 1, {"time", "nanoseconds"}, 1));
  int64_t value = 1;
  encoder.row(both.with.pcs, both.with.depth, &value, nullptr, 0);
  encoder.joined_row(both.with.pcs, both.with.depth, both.without.pcs, both.without.depth, &value,
                     nullptr, 0);
  Buffer buffer;
  ASSERT_TRUE(encoder.finish(&buffer));
  std::string bytes(buffer.data, buffer.bytes);
  os::unmap(buffer.data, buffer.mapped_bytes, os::Reason::kReport);
  Profile profile = decode(bytes);
  EXPECT_EQ(profile.functions.size(), 3u);  // two, and the joint
  std::string shown_lines;
  for (uint64_t id : numbers_of(profile.samples[0].at(1).bytes)) {
    const Message& location = profile.locations.at(id);
    if (location.count(4) == 0) continue;
    EXPECT_EQ(location.count(2), 0u);  // in no mapping
    EXPECT_TRUE(is_python_pc(location.at(3).value));
    Message line = message_of(location.at(4).bytes), function = profile.functions.at(line[1].value);
    shown_lines += profile.string(function[2].value) + " " + profile.string(function[4].value) +
                   ":" + std::to_string(line[2].value) + " from " +
                   std::to_string(function[5].value) + "\n";
  }
  EXPECT_EQ(
      shown_lines,
      "inner /srv/app.py:50 from 50\nouter /srv/app.py:11 from 10\nouter /srv/app.py:10 from 10\n");
  bool said = false;
  for (const std::string& comment : profile.comments) said |= comment.rfind("python: ", 0) == 0;
  EXPECT_TRUE(said);
}

}  // namespace
}  // namespace seemalloc::profile
