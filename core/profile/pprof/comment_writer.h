// CommentWriter: lines that state the coverage and the gaps of a profile: comments of a
// profile.proto, `#` lines of a text.
#pragma once

#include <cstdint>

#include "core/base/text.h"

namespace seemalloc::profile {

struct CommentWriter {
  void (*line)(void* context, const Text& text);
  void* context;

  void add(const Text& text) const { line(context, text); }
  // The number of stacks, and of samples with an incomplete stack.
  void add_stacks(uint64_t distinct, uint64_t truncated_samples, uint64_t broken_samples) const {
    FixedText<256> text;
    text << "stacks: " << distinct << " distinct; " << truncated_samples
         << " samples with a truncated stack, " << broken_samples
         << " samples with a broken unwind";
    add(text);
  }
};

}  // namespace seemalloc::profile
