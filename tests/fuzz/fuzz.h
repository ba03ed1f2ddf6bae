// For fuzz targets: the checks between operations, and the start of a target.
//
// A target's bytes are read with FuzzedDataProvider: texts from the front, so that a seed of the
// corpus is a readable file, and numbers from the end.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <fuzzer/FuzzedDataProvider.h>

#include "core/base/check.h"
#include "core/base/options.h"
#include "core/base/text.h"

// Called by libFuzzer for each input. Must not keep state that changes the result of later inputs.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace seemalloc::fuzz {

// Ends the process when a walk of verify.h has found a broken invariant.
inline void require_sound(const char* broken) {
  if (broken == nullptr) return;
  fprintf(stderr, "%s\n", broken);
  abort();
}

// For a target's initialisation: the option keeps this value.
inline void choose(options::Id id, const char* value) {
  FixedText<256> problem;
  CHECK(options::set(id, value, text_length(value), problem));
}

}  // namespace seemalloc::fuzz
