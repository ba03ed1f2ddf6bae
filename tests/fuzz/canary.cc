// Planted faults: a short run of tests/fuzz/run fails unless libFuzzer and the sanitizers find
// them. So a fuzz build that instruments nothing, or a run that explores nothing, is noticed.
#include <string.h>

#include "tests/fuzz/fuzz.h"

namespace seemalloc::fuzz {
namespace {

// Copies the value of "sm:VALUE;" into a fixed buffer.
int parse(const char* text, size_t length) {
  if (length < 4 || text[0] != 's' || text[1] != 'm' || text[2] != ':') return 0;
  const void* end = memchr(text, ';', length);
  if (end == nullptr) return 0;
  size_t bytes = static_cast<size_t>(static_cast<const char*>(end) - text) - 3;
#ifdef CANARY_MEMORY
  char value[8] = {};
  memcpy(value, text + 3, bytes);  // the fault: longer values write behind the buffer
  return value[0];
#else
  int number = 1;
  // The fault: long numbers overflow.
  for (size_t i = 0; i < bytes; i++) number = number * 10 + text[3 + i];
  return number;
#endif
}

}  // namespace
}  // namespace seemalloc::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static volatile int sink;
  sink = seemalloc::fuzz::parse(reinterpret_cast<const char*>(data), size);
  return 0;
}
