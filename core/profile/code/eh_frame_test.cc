#include "core/profile/code/eh_frame.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "core/base/seed_for_test.h"
#include "core/profile/unwind/expression.h"
#include "core/profile/unwind/unwind_rule.h"

namespace seemalloc::profile {
namespace {

using Bytes = std::vector<uint8_t>;

// A synthetic module: header and table, one CIE, and one FDE for a function of 64 KiB that follows
// them.
class FakeModule {
 public:
  static constexpr size_t kFunctionBytes = 65536;

  explicit FakeModule(const Bytes& program, const char* augmentation = "zR",
                      const Bytes& common_program = {}) {
    memory_.resize(4096 + kFunctionBytes);
    put8(1), put8(0x1B), put8(0x03), put8(0x3B);
    put32(0);
    put32(1);
    put32(4096);  // offset of the function from the header
    size_t entry_field = at_;
    put32(0);

    size_t common = at_;
    size_t length_field = at_;
    put32(0), put32(0), put8(1);
    for (const char* c = augmentation; *c != 0; c++) put8(static_cast<uint8_t>(*c));
    put8(0);
    put8(1), put8(0x78), put8(kReturn);  // code alignment 1, data alignment -8
    put8(1), put8(0x1B);
    put({0x0C, kSp, 8});  // CFA = sp + 8
    put({static_cast<uint8_t>(0x80 | kReturn), 1});
    put(common_program);
    close(length_field);

    set32(entry_field, static_cast<uint32_t>(at_));
    length_field = at_;
    put32(0);
    put32(static_cast<uint32_t>(at_ - common));
    put32(static_cast<uint32_t>(4096 - at_));
    put32(kFunctionBytes);
    put8(0);
    put(program);
    close(length_field);
    module_.start = reinterpret_cast<uintptr_t>(memory_.data());
    module_.end = module_.start + memory_.size();
    module_.tables_start = module_.start;
    module_.tables_end = module_.end;
    module_.eh_frame_header = module_.start;
  }

  bool row_at(size_t offset, Row* row, bool trusted = true) const {
    return find_row(module_, module_.start + 4096 + offset, trusted, row);
  }

#if defined(__x86_64__)
  static constexpr uint8_t kReturn = kPc;
#else
  static constexpr uint8_t kReturn = kLr;
#endif

 private:
  void put8(uint8_t byte) { memory_[at_++] = byte; }
  void put(const Bytes& bytes) {
    for (uint8_t byte : bytes) put8(byte);
  }
  void put32(uint32_t value) { set32(at_, value), at_ += 4; }
  void set32(size_t where, uint32_t value) { memcpy(&memory_[where], &value, 4); }
  void close(size_t length_field) {
    set32(length_field, static_cast<uint32_t>(at_ - length_field - 4));
  }

  Bytes memory_;
  size_t at_ = 0;
  Module module_;
};

Row row_of(const Bytes& program, size_t offset) {
  Row row{}, untrusted{};
  FakeModule module(program);
  EXPECT_TRUE(module.row_at(offset, &row));
  EXPECT_TRUE(module.row_at(offset, &untrusted, false));
  EXPECT_EQ(row.cfa_value, untrusted.cfa_value);
  EXPECT_EQ(row.cfa_register, untrusted.cfa_register);
  EXPECT_EQ(memcmp(row.rules, untrusted.rules, sizeof(row.rules)), 0);
  return row;
}

TEST(EhFrame, StartsWithTheCommonRow) {
  Row row = row_of({}, 0);
  EXPECT_EQ(row.cfa_register, kSp);
  EXPECT_EQ(row.cfa_value, 8);
  EXPECT_EQ(row.rules[FakeModule::kReturn], RegisterRule::kAtOffset);
  EXPECT_EQ(row.value[FakeModule::kReturn], -8);
  EXPECT_EQ(row.rules[kFp], RegisterRule::kSame);
  EXPECT_FALSE(row.signal_frame);
}

TEST(EhFrame, HoldsARowUpToTheNextAdvance) {
  // +1: CFA 16, fp saved; +4: CFA = fp + 16; +0x104, +0x20104: two- and four-byte advances
  Bytes program = {0x41, 0x0E, 16,   static_cast<uint8_t>(0x80 | kFp),
                   2,    0x43, 0x0D, kFp,
                   0x03, 0x00, 0x01, 0x0E,
                   32,   0x04, 0x00, 0x10,
                   0x00, 0x00, 0x0C, kSp,
                   64};
  EXPECT_EQ(row_of(program, 0).cfa_value, 8);
  EXPECT_EQ(row_of(program, 1).cfa_value, 16);
  EXPECT_EQ(row_of(program, 1).value[kFp], -16);
  EXPECT_EQ(row_of(program, 3).cfa_register, kSp);
  EXPECT_EQ(row_of(program, 4).cfa_register, kFp);
  EXPECT_EQ(row_of(program, 0x103).cfa_value, 16);
  EXPECT_EQ(row_of(program, 0x104).cfa_value, 32);
  EXPECT_EQ(row_of(program, 0x1103).cfa_register, kFp);
  EXPECT_EQ(row_of(program, 0x1104).cfa_register, kSp);
  EXPECT_EQ(row_of(program, FakeModule::kFunctionBytes - 1).cfa_value, 64);
}

TEST(EhFrame, RemembersAndRestores) {
  // remember; +2: CFA 48, fp saved, restored one by one; +4: restore all; nested twice
  Bytes program = {0x0A,
                   0x42,
                   0x0E,
                   48,
                   static_cast<uint8_t>(0x80 | kFp),
                   3,
                   0x41,
                   static_cast<uint8_t>(0xC0 | kFp),
                   0x41,
                   0x0B,
                   0x0A,
                   0x0E,
                   24,
                   0x0A,
                   0x0E,
                   32,
                   0x41,
                   0x0B,
                   0x41,
                   0x0B};
  EXPECT_EQ(row_of(program, 2).cfa_value, 48);
  EXPECT_EQ(row_of(program, 2).rules[kFp], RegisterRule::kAtOffset);
  EXPECT_EQ(row_of(program, 3).rules[kFp], RegisterRule::kSame);
  EXPECT_EQ(row_of(program, 3).cfa_value, 48);
  EXPECT_EQ(row_of(program, 4).cfa_value, 32);
  EXPECT_EQ(row_of(program, 5).cfa_value, 24);
  EXPECT_EQ(row_of(program, 6).cfa_value, 8);
}

TEST(EhFrame, ReadsTheRarerRules) {
  Bytes program = {0x07, FakeModule::kReturn,  // undefined
                   0x05, kFp,
                   200,  1,  // offset_extended 200
                   0x11, 0,
                   0x7E,  // offset_extended_sf -2
                   0x14, 1,
                   3,  // val_offset 3
                   0x09, 2,
                   kSp,         // register
                   0x13, 0x7C,  // def_cfa_offset_sf -4
                   0x2E, 16,    // GNU_args_size
                   0x10, 3,
                   2,    0x76,
                   0x00,  // expression
                   0x05, 100,
                   1};  // an untracked register
  Row row = row_of(program, 0);
  EXPECT_EQ(row.rules[FakeModule::kReturn], RegisterRule::kUndefined);
  EXPECT_EQ(row.value[kFp], -200 * 8);
  EXPECT_EQ(row.value[0], 16);
  EXPECT_EQ(row.rules[1], RegisterRule::kIsOffset);
  EXPECT_EQ(row.value[1], -24);
  EXPECT_EQ(row.rules[2], RegisterRule::kInRegister);
  EXPECT_EQ(row.value[2], kSp);
  EXPECT_EQ(row.cfa_value, 32);
  EXPECT_EQ(row.rules[3], RegisterRule::kAtExpression);
}

TEST(EhFrame, ReadsSignalFramesAndRejectsUnreadableData) {
  Row row;
  FakeModule signal({}, "zRS");
  ASSERT_TRUE(signal.row_at(0, &row));
  EXPECT_TRUE(row.signal_frame);
  EXPECT_FALSE(pack(row, 0).exists());
  EXPECT_FALSE(FakeModule({0x3F}).row_at(0, &row));    // unknown instruction
  EXPECT_FALSE(FakeModule({0x0B}).row_at(0, &row));    // restore without remember
  EXPECT_FALSE(FakeModule({0x0E}).row_at(0, &row));    // operand missing
  EXPECT_FALSE(FakeModule({}, "eh").row_at(0, &row));  // augmentation of GCC 2
  EXPECT_FALSE(FakeModule({}).row_at(FakeModule::kFunctionBytes, &row));
  EXPECT_FALSE(FakeModule({}).row_at(static_cast<size_t>(-1), &row));
}

TEST(EhFrame, NeverFaultsOnNonsense) {
  std::mt19937 random(seed_for_test());
  for (int i = 0; i < 20000; i++) {
    Bytes program(random() % 40);
    for (uint8_t& byte : program) byte = static_cast<uint8_t>(random());
    FakeModule module(program);
    Row row{}, untrusted{};
    size_t offset = random() % 300;
    bool found = module.row_at(offset, &row);
    if (i % 50 == 0) {
      EXPECT_EQ(module.row_at(offset, &untrusted, false), found);
    }
    if (!found) continue;
    pack(row, 0);
    if (row.cfa_is_expression) {
      Registers registers{};
      registers.known = (uint64_t{1} << kRegisterCount) - 1;
      for (uintptr_t& value : registers.value) value = random();
      StackMemory memory(reinterpret_cast<uintptr_t>(__builtin_frame_address(0)));
      uintptr_t result;
      evaluate_expression(static_cast<uintptr_t>(row.cfa_value), true, registers, memory, nullptr,
                          &result);
    }
  }
}

// ---- expressions ----

struct Evaluated {
  bool ok;
  uintptr_t value;
};
Evaluated evaluate(Bytes operations, const Registers& registers = {},
                   const uintptr_t* pushed = nullptr) {
  operations.insert(operations.begin(), static_cast<uint8_t>(operations.size()));
  StackMemory memory(reinterpret_cast<uintptr_t>(__builtin_frame_address(0)));
  Evaluated result{};
  auto block = reinterpret_cast<uintptr_t>(operations.data());
  result.ok = evaluate_expression(block, true, registers, memory, pushed, &result.value);
  Evaluated checked{};
  checked.ok = evaluate_expression(block, false, registers, memory, pushed, &checked.value);
  EXPECT_EQ(result.ok, checked.ok);
  EXPECT_EQ(result.value, checked.value);
  return result;
}

TEST(Expression, Calculates) {
  EXPECT_EQ(evaluate({0x35, 0x33, 0x1C}).value, 2u);                                // 5 - 3
  EXPECT_EQ(evaluate({0x35, 0x33, 0x16, 0x1C}).value, static_cast<uintptr_t>(-2));  // swapped
  EXPECT_EQ(evaluate({0x09, 0xFF, 0x31, 0x2A}).value, 0u);                          // -1 ≥ 1
  EXPECT_EQ(evaluate({0x0A, 0x34, 0x12, 0x23, 0x01}).value, 0x1235u);  // const2u, plus_uconst
  EXPECT_EQ(evaluate({0x09, 0xF8, 0x32, 0x26}).value, static_cast<uintptr_t>(-2));  // -8 >> 2
  EXPECT_EQ(evaluate({0x31, 0x32, 0x33, 0x17}).value, 2u);                          // rot: 3 1 2
  EXPECT_EQ(evaluate({0x31, 0x28, 0x01, 0x00, 0x32, 0x33}).value, 3u);              // bra over lit2
  EXPECT_EQ(evaluate({0x31, 0x2F, 0x01, 0x00, 0x32}).value, 1u);  // skip to the end
}

TEST(Expression, RejectsInvalidData) {
  EXPECT_FALSE(evaluate({0x22}).ok);              // plus without operands
  EXPECT_FALSE(evaluate({}).ok);                  // nothing on the stack
  EXPECT_FALSE(evaluate({0x31, 0x30, 0x1B}).ok);  // division by zero
  EXPECT_FALSE(evaluate({0x77, 0x00}).ok);        // a register that is not known
  EXPECT_FALSE(evaluate({0x38, 0x06}).ok);        // dereference of 8
  EXPECT_FALSE(evaluate({0x2F, 0xFD, 0xFF}).ok);  // an endless loop
  EXPECT_FALSE(evaluate({0xFF}).ok);              // unknown
  EXPECT_FALSE(evaluate(Bytes(20, 0x31)).ok);     // too deep
}

#if defined(__x86_64__)
TEST(Expression, EvaluatesAPltStub) {
  // rsp + 8 + ((rip & 15) >= 11) * 8
  Bytes plt = {0x77, 0x08, 0x80, 0x00, 0x3F, 0x1A, 0x3B, 0x2A, 0x33, 0x24, 0x22};
  Registers registers{};
  registers.set(kSp, 1000);
  registers.set(kPc, 0x400006);
  EXPECT_EQ(evaluate(plt, registers).value, 1008u);
  registers.set(kPc, 0x40000B);
  EXPECT_EQ(evaluate(plt, registers).value, 1016u);
}

// ---- rules ----

TEST(UnwindRule, HoldsTheCommonRows) {
  Row row = row_of({0x0E, 112, 0x83, 7, 0x86, 6, 0x8C, 5, 0x8D, 4, 0x8E, 3, 0x8F, 2}, 0);
  UnwindRule rule = pack(row, 0xABCD);
  ASSERT_TRUE(rule.exists());
  EXPECT_EQ(rule.cfa_register(), kSp);
  EXPECT_EQ(rule.cfa_offset(), 112);
  EXPECT_EQ(rule.slots(), 0x234567u);
  EXPECT_EQ(rule.tag(), 0xABCD);
  EXPECT_FALSE(rule.is_first_frame());
  EXPECT_TRUE(pack(row_of({0x07, kPc}, 0), 0).is_first_frame());
  EXPECT_EQ(pack(row_of({0x0C, kFp, 16}, 0), 0).cfa_register(), kFp);
  EXPECT_EQ(pack(row_of({0x0E, 0xF8, 0xFF, 0x0F}, 0), 0).cfa_offset(), 262136);
}

TEST(UnwindRule, RefusesRowsThatDoNotFit) {
  EXPECT_FALSE(pack(row_of({0x0E, 12}, 0), 0).exists());                // not a multiple of 8
  EXPECT_FALSE(pack(row_of({0x0E, 0x80, 0x80, 0x10}, 0), 0).exists());  // 256 KiB
  EXPECT_FALSE(pack(row_of({0x86, 16}, 0), 0).exists());                // too far from the CFA
  EXPECT_FALSE(pack(row_of({0x14, kFp, 2}, 0), 0).exists());            // not in memory
  EXPECT_FALSE(pack(row_of({0x90, 2}, 0), 0).exists());  // the return address elsewhere
  EXPECT_FALSE(pack(row_of({0x0F, 3, 0x76, 0x78, 0x06}, 0), 0).exists());  // a realigned stack
}
#endif

}  // namespace
}  // namespace seemalloc::profile
