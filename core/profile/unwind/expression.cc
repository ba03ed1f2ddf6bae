#include "core/profile/unwind/expression.h"

#include "core/profile/code/dwarf_cursor.h"

namespace seemalloc::profile {
namespace {

// Operations (DW_OP_*) that compilers and hand-written assembly use in unwind tables.
enum : uint8_t {
  kAddress = 0x03,
  kDereference = 0x06,
  kConst1u = 0x08,
  kConst8s = 0x0F,
  kConstU = 0x10,
  kConstS = 0x11,
  kDuplicate = 0x12,
  kDrop = 0x13,
  kOver = 0x14,
  kPick = 0x15,
  kSwap = 0x16,
  kRotate = 0x17,
  kAbsolute = 0x19,
  kAnd = 0x1A,
  kDivide = 0x1B,
  kMinus = 0x1C,
  kModulo = 0x1D,
  kMultiply = 0x1E,
  kNegate = 0x1F,
  kNot = 0x20,
  kOr = 0x21,
  kPlus = 0x22,
  kPlusConstant = 0x23,
  kShiftLeft = 0x24,
  kShiftRight = 0x25,
  kShiftRightSigned = 0x26,
  kXor = 0x27,
  kBranch = 0x28,
  kEqual = 0x29,
  kGreaterEqual = 0x2A,
  kGreater = 0x2B,
  kLessEqual = 0x2C,
  kLess = 0x2D,
  kNotEqual = 0x2E,
  kSkip = 0x2F,
  kLiteral0 = 0x30,
  kLiteral31 = 0x4F,
  kBaseRegister0 = 0x70,
  kBaseRegister31 = 0x8F,
  kBaseRegisterAny = 0x92,
  kDereferenceSize = 0x94,
  kNothing = 0x96,
};

class Evaluator {
 public:
  Evaluator(DwarfCursor& cursor, const Registers& registers, StackMemory& memory)
      : cursor_(cursor), start_(cursor.address()), registers_(registers), memory_(memory) {}

  void push(uint64_t value) { depth_ < kMaxDepth ? void(stack_[depth_++] = value) : fail(); }
  bool run(uintptr_t* result);

 private:
  static constexpr unsigned kMaxDepth = 12;
  static constexpr unsigned kMaxOperations = 256;  // stops endless loops

  void fail() { ok_ = false; }
  uint64_t pop() {
    if (depth_ == 0) fail();
    return depth_ == 0 ? 0 : stack_[--depth_];
  }
  void pick(uint64_t index) { index < depth_ ? push(stack_[depth_ - 1 - index]) : fail(); }
  void push_register(uint64_t number, int64_t offset);
  void dereference(unsigned bytes);
  void jump(bool taken);
  void rotate();
  void constant(uint8_t operation);
  bool shuffle(uint8_t operation);
  bool one_operand(uint8_t operation);
  bool two_operands(uint8_t operation);
  void operate(uint8_t operation);

  DwarfCursor& cursor_;
  uintptr_t start_;
  const Registers& registers_;
  StackMemory& memory_;
  uint64_t stack_[kMaxDepth];
  unsigned depth_ = 0;
  bool ok_ = true;
};

void Evaluator::push_register(uint64_t number, int64_t offset) {
  if (number >= kRegisterCount || !registers_.has(static_cast<unsigned>(number))) return fail();
  push(registers_.value[number] + static_cast<uint64_t>(offset));
}

void Evaluator::dereference(unsigned bytes) {
  uintptr_t address = pop();
  uintptr_t word = 0;
  if (bytes == 0 || bytes > sizeof(word)) return fail();
  // Reads the aligned word that contains the value; little-endian.
  uintptr_t shift = address % sizeof(word);
  if (shift + bytes > sizeof(word) || !memory_.read(address - shift, &word)) return fail();
  word >>= shift * 8;
  push(bytes == sizeof(word) ? word : word & ((uint64_t{1} << bytes * 8) - 1));
}

void Evaluator::jump(bool taken) {
  int64_t distance = cursor_.fixed_signed(2);
  uintptr_t target = cursor_.address() + static_cast<uint64_t>(distance);
  if (!taken) return;
  target == cursor_.end() ? cursor_.skip(cursor_.end() - cursor_.address())
                          : cursor_.seek(target, start_);
}

void Evaluator::rotate() {
  if (depth_ < 3) return fail();
  uint64_t top = stack_[depth_ - 1];
  stack_[depth_ - 1] = stack_[depth_ - 2];
  stack_[depth_ - 2] = stack_[depth_ - 3];
  stack_[depth_ - 3] = top;
}

// const1u, const1s, const2u … const8s: the width doubles, unsigned first.
void Evaluator::constant(uint8_t operation) {
  unsigned index = operation - kConst1u;
  unsigned width = 1u << (index / 2);
  push(index % 2 == 0 ? cursor_.fixed(width) : static_cast<uint64_t>(cursor_.fixed_signed(width)));
}

bool Evaluator::shuffle(uint8_t operation) {
  switch (operation) {
    case kDuplicate: pick(0); return true;
    case kDrop: pop(); return true;
    case kOver: pick(1); return true;
    case kPick: pick(cursor_.u8()); return true;
    case kSwap: {
      uint64_t top = pop(), next = pop();
      push(top), push(next);
      return true;
    }
    case kRotate: rotate(); return true;
    default: return false;
  }
}

bool Evaluator::one_operand(uint8_t operation) {
  switch (operation) {
    case kAbsolute: {
      uint64_t value = pop();
      push(static_cast<int64_t>(value) < 0 ? 0 - value : value);
      return true;
    }
    case kNegate: push(0 - pop()); return true;
    case kNot: push(~pop()); return true;
    case kPlusConstant: {
      uint64_t added = cursor_.uleb();
      push(pop() + added);
      return true;
    }
    default: return false;
  }
}

bool Evaluator::two_operands(uint8_t operation) {
  if (operation < kAnd || operation > kNotEqual) return false;
  uint64_t right = pop(), left = pop();
  auto signed_right = static_cast<int64_t>(right), signed_left = static_cast<int64_t>(left);
  if ((operation == kDivide || operation == kModulo) && right == 0) return false;
  if (operation == kDivide && signed_right == -1) return push(0 - left), true;
  switch (operation) {
    case kAnd: push(left & right); return true;
    case kDivide: push(static_cast<uint64_t>(signed_left / signed_right)); return true;
    case kMinus: push(left - right); return true;
    case kModulo: push(left % right); return true;
    case kMultiply: push(left * right); return true;
    case kOr: push(left | right); return true;
    case kPlus: push(left + right); return true;
    case kShiftLeft: push(right < 64 ? left << right : 0); return true;
    case kShiftRight: push(right < 64 ? left >> right : 0); return true;
    case kShiftRightSigned:
      push(static_cast<uint64_t>(signed_left >> (right < 64 ? right : 63)));
      return true;
    case kXor: push(left ^ right); return true;
    case kEqual: push(left == right); return true;
    case kGreaterEqual: push(signed_left >= signed_right); return true;
    case kGreater: push(signed_left > signed_right); return true;
    case kLessEqual: push(signed_left <= signed_right); return true;
    case kLess: push(signed_left < signed_right); return true;
    case kNotEqual: push(left != right); return true;
    default: return false;
  }
}

void Evaluator::operate(uint8_t operation) {
  if (operation >= kLiteral0 && operation <= kLiteral31) return push(operation - kLiteral0);
  if (operation >= kBaseRegister0 && operation <= kBaseRegister31) {
    return push_register(operation - kBaseRegister0, cursor_.sleb());
  }
  if (operation >= kConst1u && operation <= kConst8s) return constant(operation);
  switch (operation) {
    case kNothing: return;
    case kAddress: return push(cursor_.fixed(8));
    case kConstU: return push(cursor_.uleb());
    case kConstS: return push(static_cast<uint64_t>(cursor_.sleb()));
    case kBaseRegisterAny: {
      uint64_t number = cursor_.uleb();
      return push_register(number, cursor_.sleb());
    }
    case kDereference: return dereference(sizeof(uintptr_t));
    case kDereferenceSize: return dereference(cursor_.u8());
    case kSkip: return jump(true);
    case kBranch: return jump(pop() != 0);
    default: break;
  }
  if (!shuffle(operation) && !one_operand(operation) && !two_operands(operation)) fail();
}

bool Evaluator::run(uintptr_t* result) {
  for (unsigned operations = 0; !cursor_.at_end() && ok_; operations++) {
    if (operations == kMaxOperations) return false;
    operate(cursor_.u8());
  }
  *result = pop();
  return ok_ && cursor_.ok();
}

}  // namespace

bool evaluate_expression(uintptr_t block, bool trusted, const Registers& registers,
                         StackMemory& memory, const uintptr_t* pushed, uintptr_t* result) {
  // The length takes at most two bytes in practice. It has been read once already, so its end is in
  // the module.
  DwarfCursor cursor(block, block + 10, trusted);
  uint64_t bytes = cursor.uleb();
  if (!cursor.ok()) return false;
  cursor.reset(cursor.address(), cursor.address() + bytes);
  Evaluator evaluator(cursor, registers, memory);
  if (pushed != nullptr) evaluator.push(*pushed);
  return evaluator.run(result);
}

}  // namespace seemalloc::profile
