// The outcome of each misuse of misuse.c, with seemalloc and, for comparison, with glibc.
//
// Reads MISUSE_PROGRAM and SEEMALLOC_LIB. A size under `must` that is not caught fails the test;
// the others are counted and printed, so that a change in either direction is visible. "Caught"
// means an end by SIGABRT; the line on stderr is checked for seemalloc only.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "../harness/child.h"

namespace {

using conform::Outcome;

struct Row {
  const char* kind;
  std::vector<size_t> must;    // caught, or the test fails
  std::vector<size_t> wanted;  // counted only; but never a hang
  const char* line;            // the allowed kinds of the line, separated by '|'
};

// Small sizes by class, then sizes of several pages, large and huge ones.
using Sizes = std::vector<size_t>;
const Sizes kSmall = {16, 48, 64, 256, 1024}, kPaged = {8192, 30000}, kLarge = {200000, 5 << 20};
const Sizes kWithInterior = {48, 64, 256, 1024, 8192, 30000};

Sizes operator+(Sizes a, const Sizes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
const Sizes kAll = kSmall + kPaged + kLarge;

// By the second free, the pages of a large block may have been released or reused.
const char* kDouble = "double free|invalid free";
const char* kUse = "double free|invalid free|invalid pointer|use of a freed block";

// Misuse that free and realloc can see on their slow paths must be caught; misuse that only the
// fast path could detect is counted only.
const std::vector<Row>& table() {
  static const std::vector<Row> rows = {
      {"double_now", kAll, {}, kDouble},
      {"double_with_one_between", kPaged + kLarge, kSmall, kDouble},
      {"double_after_others", kPaged + Sizes{200000}, kSmall + Sizes{5 << 20}, kDouble},
      {"double_in_thread", {5 << 20}, kSmall + kPaged + Sizes{200000}, kDouble},
      {"double_from_thread", kLarge, kSmall + kPaged, kDouble},
      {"double_in_two_threads", kLarge, kSmall + kPaged, kDouble},
      {"double_of_exited_threads", kLarge, kSmall + kPaged, kDouble},
      {"double_aligned", kAll, {}, kDouble},
      {"double_after_realloc", kSmall + kPaged + Sizes{200000}, {5 << 20}, kDouble},
      {"interior_16", kLarge, kWithInterior, "invalid free"},
      {"interior_middle", {200000}, kWithInterior + Sizes{5 << 20}, "invalid free"},
      {"interior_page", kLarge, {30000}, "invalid free"},
      {"interior_in_thread", {48, 256, 8192, 200000}, {}, "invalid free"},
      {"misaligned_1", kLarge, kSmall + kPaged, "invalid free"},
      {"misaligned_8", kLarge, kSmall + kPaged, "invalid free"},
      {"realloc_interior", kWithInterior + kLarge, {}, "invalid free|invalid pointer"},
      {"overwritten_by_text", kSmall, {}, "corrupted free list"},
      {"overwritten_in_list", kSmall, {}, "corrupted free list"},
      {"overwritten_by_stack_pointer", kSmall, {}, "corrupted free list"},
      {"overwritten_low_byte", kSmall, {}, "corrupted free list"},
      {"overwritten_by_zero", {}, kSmall, "corrupted free list"},
      {"realloc_freed", kAll, {}, kUse},
      {"usable_size_of_freed", kLarge, kSmall + kPaged, kUse},
      {"overflow", {}, kSmall, "corrupted free list|double free|invalid free"},
  };
  return rows;
}

std::string variable(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

Outcome misuse(const char* kind, size_t size, std::vector<std::string> environment,
               const char* operation = "free") {
  return conform::run(
      {{variable("MISUSE_PROGRAM"), kind, std::to_string(size), operation}, environment, 4});
}

std::vector<std::string> preloaded(const std::string& options = "") {
  return {"LD_PRELOAD=" + variable("SEEMALLOC_LIB"), "SEEMALLOC_CONF=" + options};
}

std::string pointer_of(const Outcome& outcome) {
  for (const std::string& line : conform::lines_of(outcome.out)) {
    if (line.rfind("pointer ", 0) == 0) return line.substr(8);
  }
  return "";
}

bool survived(const Outcome& outcome) {
  return outcome.exited(0) && outcome.out.find("survived") != std::string::npos;
}

// Requires exactly one line "seemalloc: KIND POINTER", first on stderr, with KIND one of `allowed`;
// indented lines may follow. Returns the problem, or "".
std::string line_problem(const Outcome& outcome, const std::string& allowed, bool with_pointer) {
  std::vector<std::string> lines = conform::lines_of(outcome.err);
  if (lines.empty()) return "no line on stderr";
  for (size_t i = 1; i < lines.size(); i++) {
    if (lines[i].empty() || lines[i][0] != ' ') return "more than one line: " + lines[i];
  }
  for (size_t from = 0; from <= allowed.size();) {
    size_t to = allowed.find('|', from);
    if (to == std::string::npos) to = allowed.size();
    std::string start = "seemalloc: " + allowed.substr(from, to - from) + " ";
    from = to + 1;
    if (lines[0].rfind(start + "0x", 0) != 0) continue;
    std::string rest = lines[0].substr(start.size());
    std::string pointer = pointer_of(outcome);
    bool same = rest.rfind(pointer, 0) == 0 &&
                (rest.size() == pointer.size() || !isxdigit(rest[pointer.size()]));
    return !with_pointer || same ? "" : "another pointer than " + pointer + ": " + lines[0];
  }
  return "expected \"seemalloc: " + allowed + " 0x…\", got: " + lines[0];
}

// One letter per size: A aborted, s survived, S died of another signal, T timed out.
char letter(const Outcome& outcome) {
  if (outcome.timed_out) return 'T';
  if (outcome.killed_by(SIGABRT)) return 'A';
  if (survived(outcome)) return 's';
  return 'S';
}

void expect_caught(const Row& row, const Outcome& outcome) {
  EXPECT_TRUE(outcome.killed_by(SIGABRT)) << "expected SIGABRT, got " << outcome.all();
  if (!outcome.killed_by(SIGABRT)) return;
  // An overwritten link leads to a pointer other than the one that was overwritten.
  EXPECT_EQ(line_problem(outcome, row.line, std::string(row.line) != "corrupted free list"), "");
}

// A pointer that no allocator in the process knows, and the expected description of the memory that
// it points to.
struct Foreign {
  const char* kind;
  const char* place;
};
const char* const kAnonymous =
    ": anonymous memory (mmap, another thread's stack, thread-local data)";
const std::vector<Foreign>& foreign_kinds() {
  static const std::vector<Foreign> kinds = {
      {"stack", ": this thread's stack"},
      {"stack_of_thread", ": this thread's stack or thread-local data"},
      {"main_stack_in_thread", ": the main thread's stack"},
      {"stack_of_other_thread", kAnonymous},
      {"thread_local_data", kAnonymous},
      {"thread_local_data_in_thread", ": this thread's stack or thread-local data"},
      {"static_data", ": static data of /"},
      {"static_initialised_data", ": static data of /"},
      {"constant_data", ": constant data of /"},
      {"library_data", ": static data of /"},
      {"code", ": code of /"},
      {"own_mapping", kAnonymous},
      {"start_of_own_mapping", kAnonymous},
      {"no_access", ": unreadable memory"},
      {"mapped_file", ": mapped file of /"},
      {"brk_memory", ": the C library's heap, but not an allocated block"},
      {"unmapped", ": nothing is mapped there"},
      {"low_address", ": nothing is mapped there"},
      {"small_number", ": nothing is mapped there"},
      {"last_address", ": nothing is mapped there"},
      {"not_canonical", ": nothing is mapped there"},
      {"kernel_address", ": nothing is mapped there"},
      {"libc_interior", ": the C library's heap, but not an allocated block"},
      {"libc_misaligned", ": the C library's heap, but not an allocated block"},
  };
  return kinds;
}
const char* const kOperations[] = {"free",   "realloc",      "malloc_usable_size",
                                   "delete", "sized_delete", "aligned_delete"};

TEST(Misuse, Table) {
  ASSERT_NE(variable("MISUSE_PROGRAM"), "");
  ASSERT_EQ(access(variable("SEEMALLOC_LIB").c_str(), R_OK), 0) << "no library at SEEMALLOC_LIB";
  int all = 0, aborted = 0, glibc = 0;
  std::vector<std::string> missed;
  printf("A aborted, s survived unseen, S crashed, T hung; one letter per size,\n");
  printf("the musts first, then | and what is wanted besides\n");
  printf("%-30s %-12s %-12s\n", "", "seemalloc", "glibc");
  for (const Row& row : table()) {
    std::string ours, theirs;
    for (size_t size : row.must + row.wanted) {
      std::string name = std::string(row.kind) + " " + std::to_string(size);
      SCOPED_TRACE(name);
      bool must = ours.size() < row.must.size();
      if (ours.size() == row.must.size() && !row.must.empty()) ours += '|', theirs += '|';
      Outcome outcome = misuse(row.kind, size, preloaded());
      Outcome other = misuse(row.kind, size, {"LD_PRELOAD", "SEEMALLOC_CONF"});
      char mine = letter(outcome);
      ours += mine;
      theirs += letter(other);
      all++;
      aborted += mine == 'A';
      glibc += letter(other) == 'A';
      if (must) {
        expect_caught(row, outcome);
      } else {
        if (mine != 'A') missed.push_back(name);
        EXPECT_FALSE(outcome.timed_out)
            << "not caught is one thing, hanging another: " << outcome.all();
      }
    }
    printf("%-30s %-12s %-12s\n", row.kind, ours.c_str(), theirs.c_str());
  }
  printf("%d of %d misuses caught; glibc: %d\n", aborted, all, glibc);
  printf("not yet caught (%zu):", missed.size());
  for (const std::string& name : missed) printf(" %s,", name.c_str());
  printf("\n");
}

// glibc, too, ends the program on such a free or realloc; its malloc_usable_size may return
// anything.
TEST(Misuse, ForeignPointersEndTheProgram) {
  for (const Foreign& foreign : foreign_kinds()) {
    for (const char* operation : kOperations) {
      SCOPED_TRACE(std::string(foreign.kind) + " " + operation);
      Outcome outcome = misuse(foreign.kind, 64, preloaded(), operation);
      EXPECT_TRUE(outcome.killed_by(SIGABRT)) << outcome.all();
      EXPECT_EQ(line_problem(outcome, "foreign pointer", true), "");
      EXPECT_NE(outcome.err.find(foreign.place), std::string::npos) << outcome.err;
    }
    Outcome strict = misuse(foreign.kind, 64, preloaded("foreign:fatal"));
    EXPECT_TRUE(strict.killed_by(SIGABRT)) << foreign.kind << strict.all();
    Outcome other = misuse(foreign.kind, 64, {"LD_PRELOAD", "SEEMALLOC_CONF"});
    EXPECT_FALSE(survived(other)) << foreign.kind << ": glibc continues: " << other.all();
  }
}

TEST(Misuse, ForeignPointersAreReportedByOption) {
  for (const Foreign& foreign : foreign_kinds()) {
    for (const char* operation : kOperations) {
      SCOPED_TRACE(std::string(foreign.kind) + " " + operation);
      Outcome outcome = misuse(foreign.kind, 64, preloaded("foreign:report"), operation);
      EXPECT_TRUE(survived(outcome)) << outcome.all();
      EXPECT_EQ(line_problem(outcome, "foreign pointer", true), "") << outcome.all();
      EXPECT_NE(outcome.err.find(foreign.place), std::string::npos) << outcome.err;
    }
  }
}

// Small, large and mapped blocks of glibc's main arena and of another arena: a block that glibc's
// malloc allocated is passed to glibc.
TEST(Misuse, BlocksOfGlibcArePassedOn) {
  for (const char* kind : {"libc_blocks", "libc_blocks_in_thread"}) {
    for (const char* operation : kOperations) {
      for (const char* options : {"", "foreign:pass", "foreign:report"}) {
        SCOPED_TRACE(std::string(kind) + " " + operation + " " + options);
        Outcome outcome = misuse(kind, 8000, preloaded(options), operation);
        EXPECT_TRUE(survived(outcome)) << outcome.all();
        EXPECT_EQ(outcome.err, "");
      }
    }
    Outcome strict = misuse(kind, 8000, preloaded("foreign:fatal"));
    EXPECT_TRUE(strict.killed_by(SIGABRT)) << strict.all();
    EXPECT_EQ(line_problem(strict, "foreign pointer", true), "");
  }
}

// Either allocator may detect it: glibc leaves small freed blocks marked as in use.
TEST(Misuse, FreedBlocksOfGlibcEndTheProgram) {
  for (size_t size : {size_t{64}, size_t{1000}, size_t{5000}, size_t{1} << 20}) {
    Outcome outcome = misuse("libc_freed", size, preloaded());
    EXPECT_TRUE(outcome.killed_by(SIGABRT)) << size << outcome.all();
  }
}

// Sampled blocks are in spans of their own: the same must hold for them.
TEST(Misuse, IsCaughtInSampledBlocksToo) {
  for (const char* kind : {"double_now", "double_in_thread", "interior_16", "misaligned_1"}) {
    for (size_t size : {size_t{64}, size_t{1024}, size_t{30000}, size_t{5} << 20}) {
      SCOPED_TRACE(std::string(kind) + " " + std::to_string(size));
      Outcome outcome = misuse(kind, size, preloaded("sample:1"));
      EXPECT_TRUE(outcome.killed_by(SIGABRT)) << outcome.all();
      EXPECT_EQ(line_problem(outcome, "double free|invalid free", true), "");
    }
  }
}

}  // namespace
