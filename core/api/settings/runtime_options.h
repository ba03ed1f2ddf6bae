// Sets an option while the program runs, and makes it take effect.
#pragma once

#include <cstddef>

#include "core/base/options.h"
#include "core/base/text.h"

namespace seemalloc {

enum class SetOption { kDone, kUnknown, kBadValue, kOnlyAtStart };

// Appends the problem to `problem`. Threads: any; the last call wins.
SetOption set_option(const char* name, size_t name_length, const char* value, Text& problem);

// Called when an option has been set. Defined by a folder above: core/api/dumps/auto_dump.cc.
void dump_option_changed(options::Id id);

// Appends the value of a text option that may be set concurrently; or of any option, in the format
// of SEEMALLOC_CONF.
void copy_text_option(options::Id id, Text& out);
void print_option(options::Id id, Text& out);

// Called when the code at `pc` calls pthread_key_create: it may be a Python that the program has
// loaded (option python_frames).
void check_python_loaded(uintptr_t pc);

void lock_options_for_fork();
void unlock_options_after_fork();

}  // namespace seemalloc
