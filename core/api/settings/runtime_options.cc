#include "core/api/settings/runtime_options.h"

#include "core/api/sampling/sampling.h"
#include "core/base/options.h"
#include "core/heap/maintenance/pressure.h"
#include "core/heap/thread/sample_distance.h"

namespace seemalloc {

namespace {
Lock lock;
}

void lock_options_for_fork() { lock.lock_for_fork(); }
void unlock_options_after_fork() { lock.unlock_after_fork(); }

SetOption set_option(const char* name, size_t name_length, const char* value, Text& problem) {
  options::Id id;
  if (!options::find(name, name_length, &id)) {
    problem << "no such option: ";
    problem.append(name, name_length);
    return SetOption::kUnknown;
  }
  if (options::row(id).when != options::When::kAny) {
    problem << options::row(id).name << " is read at start only: set it in SEEMALLOC_CONF";
    return SetOption::kOnlyAtStart;
  }
  FixedText<256> expected;
  LockGuard guard(lock);
  if (!options::set(id, value, text_length(value), expected)) {
    problem << "bad value \"" << value << "\" for " << options::row(id).name << ", expected "
            << expected.c_str();
    return SetOption::kBadValue;
  }
  // Distances already drawn are based on the old interval.
  if (id == options::Id::sample || id == options::Id::sample_limit)
    heap::invalidate_sample_distances();
  using options::Id;
  dump_option_changed(id);
  if (id == Id::python_frames || id == Id::stack_depth) python_option_changed();
  if (id == Id::heap_limit || id == Id::heap_soft_limit || id == Id::pressure)
    heap::pressure_options_changed();
  return SetOption::kDone;
}

void check_python_loaded(uintptr_t pc) {
  if (!note_loaded_python(pc) || options::get(options::Id::python_frames) == 0) return;
  LockGuard guard(lock);
  python_option_changed();
}

void print_option(options::Id id, Text& out) {
  LockGuard guard(lock);
  options::print(id, out);
}

void copy_text_option(options::Id id, Text& out) {
  LockGuard guard(lock);
  out << options::get_text(id);
}

}  // namespace seemalloc
