// The texts of options: SEEMALLOC_CONF, and the variables of other allocators (MALLOC_CONF,
// HEAPPROFILE, TCMALLOC_…).
//
// Input: an environment, one variable a line. Afterwards each option has a value in its range,
// which prints as a text that sets it again.
#include <string>
#include <vector>

#include "core/api/dumps/dump_names.h"
#include "core/api/settings/foreign_options.h"
#include "core/api/settings/jemalloc_conf.h"
#include "tests/fuzz/fuzz.h"

namespace seemalloc {
namespace {

using options::Id;

void check_line(const char* line) {
  size_t length = text_length(line);
  CHECK(length != 0 && length < 512);
}

void reset_options() {
  for (size_t i = 0; i < options::kCount; i++) {
    FixedText<options::kMaxTextBytes> value, problem;
    options::print_default(static_cast<Id>(i), value);
    CHECK(options::set(static_cast<Id>(i), value.c_str(), value.size(), problem));
  }
}

void check_options() {
  for (size_t i = 0; i < options::kCount; i++) {
    Id id = static_cast<Id>(i);
    const options::Row& row = options::row(id);
    if (row.kind != options::Kind::kText)
      CHECK(options::get(id) >= row.min && options::get(id) <= row.max);
    FixedText<options::kMaxTextBytes> printed, again, problem;
    options::print(id, printed);
    CHECK(!printed.truncated());
    CHECK(options::set(id, printed.c_str(), printed.size(), problem));
    options::print(id, again);
    CHECK(text_equal(printed.c_str(), again.c_str()));
  }
}

// With abort_conf an invalid MALLOC_CONF ends the process, as documented.
bool ends_the_process(const std::string& conf) {
  JemallocConf parsed;
  bool good = parsed.parse(conf.c_str(), check_line, check_line);
  return !good && parsed.is_on(JemallocName::abort_conf);
}

void run(const std::string& text) {
  std::vector<std::string> variables;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    // Ends at a NUL, as in an environment.
    variables.emplace_back(text.substr(at, end - at).c_str());
    at = end + 1;
  }
  std::vector<char*> environment;
  for (std::string& variable : variables) {
    variable.shrink_to_fit();
    constexpr char kConf[] = "MALLOC_CONF=";
    if (variable.rfind(kConf, 0) == 0 && ends_the_process(variable.substr(sizeof(kConf) - 1)))
      return;
    environment.push_back(variable.data());
  }
  environment.push_back(nullptr);
  reset_options();
  read_foreign_options(environment.data(), check_line);
  if (const char* conf = environment_value(environment.data(), "SEEMALLOC_CONF"))
    options::parse(conf, check_line);
  check_options();
  FixedText<kDumpPathBytes> path;
  if (dump_name_from(options::get_text(Id::dump_prefix), path)) CHECK(!path.truncated());
  GperftoolsPath cpu;
  FixedText<options::kMaxTextBytes> cpu_path;
  if (cpu.read(environment.data(), "CPUPROFILE")) cpu.append_to(cpu_path);
}

}  // namespace
}  // namespace seemalloc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  seemalloc::run(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
