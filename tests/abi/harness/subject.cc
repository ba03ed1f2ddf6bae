#include "subject.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace conform {

namespace {
const char* expected() {
  const char* name = getenv("EXPECT_SEEMALLOC");
  return name == nullptr ? "" : name;
}

void* base_of(const void* address) {
  Dl_info info;
  return address != nullptr && dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

std::string file_of(const void* address) {
  Dl_info info;
  if (address == nullptr || dladdr(address, &info) == 0) return "nowhere";
  const char* slash = strrchr(info.dli_fname, '/');
  return slash == nullptr ? info.dli_fname : slash + 1;
}
}  // namespace

bool is_seemalloc() { return *expected() != 0; }
bool is_static() { return strcmp(expected(), "static") == 0; }
void* find(const char* name) { return dlsym(RTLD_DEFAULT, name); }

bool is_defined_by_subject(const char* name) {
  if (is_static()) return base_of(find(name)) == base_of(reinterpret_cast<void*>(&is_static));
  return file_of(find(name)) == expected();
}

size_t resident_bytes() {
  FILE* file = fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  unsigned long all = 0, resident = 0;
  if (fscanf(file, "%lu %lu", &all, &resident) != 2) resident = 0;
  fclose(file);
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace conform

int main(int argc, char** argv) {
  if (conform::is_seemalloc() && !conform::is_defined_by_subject("malloc")) {
    fprintf(stderr, "malloc comes from %s, not from %s\n",
            conform::file_of(conform::find("malloc")).c_str(), conform::expected());
    return 1;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
