// Setting an option while the program runs, and what has to happen for it to take effect.
#pragma once

#include <cstddef>

#include "core/base/text.h"

namespace seemalloc {

enum class SetOption { kDone, kUnknown, kBadValue, kOnlyAtStart };

// Appends to `problem` what was wrong. Threads: any; the last one wins.
SetOption set_option(const char* name, size_t name_length, const char* value, Text& problem);

void lock_options_for_fork();
void unlock_options_after_fork();

}  // namespace seemalloc
