// PythonPc: a Python function and a line in it, encoded in one word that can be among the return
// addresses of a stack.
//
// There is no code at these addresses: addresses of programs end below 2^56. Functions are numbered
// by PythonNames (python_names.h). Like all addresses, these words are meaningful in their own
// process only; a profile includes the names.
#pragma once

#include <cstdint>

namespace seemalloc::profile {

struct PythonPc {
  static constexpr unsigned kTagShift = 56, kFunctionShift = 24;
  static constexpr uintptr_t kTag = uintptr_t{0x70} << kTagShift;
  static constexpr uint32_t kMaxLine = (1u << kFunctionShift) - 1;

  uint32_t function;
  uint32_t line;  // 0: unknown
};

inline bool is_python_pc(uintptr_t pc) {
  return pc >> PythonPc::kTagShift == PythonPc::kTag >> PythonPc::kTagShift;
}

inline uintptr_t encode_python_pc(PythonPc pc) {
  uint32_t line = pc.line <= PythonPc::kMaxLine ? pc.line : 0;
  return PythonPc::kTag | uintptr_t{pc.function} << PythonPc::kFunctionShift | line;
}

// Requires: is_python_pc(pc).
inline PythonPc decode_python_pc(uintptr_t pc) {
  return {static_cast<uint32_t>(pc >> PythonPc::kFunctionShift),
          static_cast<uint32_t>(pc) & PythonPc::kMaxLine};
}

}  // namespace seemalloc::profile
