// start_names: with -DLIBRARY a library whose constructor asks mallctl for the options at the
// start, and turns sampling off; without it a program linked with that library, which asks again.
// Prints a line each.
#include <cstdio>

extern "C" __attribute__((weak)) int mallctl(const char* name, void* old, size_t* old_bytes,
                                             void* fresh, size_t fresh_bytes);
extern "C" void tell_start(const char* when);

#ifdef LIBRARY
template <typename Value>
static Value asked(const char* name) {
  Value value{};
  size_t bytes = sizeof(value);
  return mallctl(name, &value, &bytes, nullptr, 0) == 0 ? value : Value{};
}

void tell_start(const char* when) {
  printf(
      "%s: decay %zd, interval %zu, active %d, final %d, background %d, prefix %s, muzzy %zd, abort %d, prof %d\n",
      when, asked<ssize_t>("opt.dirty_decay_ms"), asked<size_t>("opt.lg_prof_sample"),
      asked<bool>("opt.prof_active"), asked<bool>("opt.prof_final"),
      asked<bool>("opt.background_thread"), asked<const char*>("opt.prof_prefix"),
      asked<ssize_t>("opt.muzzy_decay_ms"), asked<bool>("opt.abort_conf"), asked<bool>("opt.prof"));
}

__attribute__((constructor)) static void load() {
  tell_start("constructor");
  bool off = false;
  mallctl("prof.active", nullptr, nullptr, &off, sizeof(off));
}
#else
int main() { tell_start("main"); }
#endif
