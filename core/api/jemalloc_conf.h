// JemallocConf: what a MALLOC_CONF says, "name:value,name:value", as jemalloc's manual (5.3, and 3.6 where it has been removed
// since) describes it. Only reads; foreign_options.cc knows what it means here.
//
// Threads: its owner's. Makes no memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/options.h"

namespace seemalloc {

// Those that have an effect here.
enum class JemallocName : unsigned {
  abort_conf, confirm_conf, prof, prof_active, prof_gdump, prof_final, prof_leak, prof_leak_error, stats_print, background_thread,
  lg_prof_sample, lg_prof_interval, dirty_decay_ms, muzzy_decay_ms, lg_dirty_mult, prof_prefix,
  kCount
};

class JemallocConf {
 public:
  // Of a name given twice the last counts. What is not understood is reported and skipped; what has no effect here is told to
  // `idle`. False when there was something to report.
  bool parse(const char* text, void (*report)(const char* line), void (*idle)(const char* name));

  bool given(JemallocName name) const { return settings_[static_cast<unsigned>(name)].given; }
  int64_t number(JemallocName name) const { return settings_[static_cast<unsigned>(name)].number; }
  // A switch that was given and is true.
  bool is_on(JemallocName name) const { return given(name) && number(name) != 0; }
  const char* prefix() const { return prefix_; }

 private:
  struct Setting {
    bool given = false;
    int64_t number = 0;
  };
  // Each returns what was expected instead, or null.
  const char* set(const char* name, size_t name_length, const char* value, size_t length, void (*idle)(const char* name));
  const char* set_known(unsigned row, const char* value, size_t length);

  Setting settings_[static_cast<unsigned>(JemallocName::kCount)];
  char prefix_[options::kMaxTextBytes] = {};
};

}  // namespace seemalloc
