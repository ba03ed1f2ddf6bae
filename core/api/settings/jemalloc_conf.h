// JemallocConf: parses a MALLOC_CONF, "name:value,name:value", as described in jemalloc's manual
// (5.3, and 3.6 for options removed since). It only parses; foreign_options.cc applies the
// settings.
//
// Threads: its owner's. Allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/options.h"

namespace seemalloc {

// The options that have an effect here.
enum class JemallocName : unsigned {
  abort_conf,
  confirm_conf,
  prof,
  prof_active,
  prof_gdump,
  prof_final,
  prof_leak,
  prof_leak_error,
  stats_print,
  background_thread,
  lg_prof_sample,
  lg_prof_interval,
  dirty_decay_ms,
  muzzy_decay_ms,
  lg_dirty_mult,
  prof_prefix,
  kCount
};

class JemallocConf {
 public:
  // The last of duplicate names counts. Invalid pairs are reported and skipped; options without
  // effect here are passed to `idle`. False when something was reported.
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
  // Each returns a text with the expected value, or null on success.
  const char* set(const char* name, size_t name_length, const char* value, size_t length,
                  void (*idle)(const char* name));
  const char* set_known(unsigned row, const char* value, size_t length);

  Setting settings_[static_cast<unsigned>(JemallocName::kCount)];
  char prefix_[options::kMaxTextBytes] = {};
};

}  // namespace seemalloc
