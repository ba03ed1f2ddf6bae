// The unwinder, for programs in C.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct captured {
  int depth, truncated, broken;
  uintptr_t pcs[128];
};

// Like capture_stack() and capture_stack_from() in core/profile.
void capture(struct captured* out);
void capture_from(const void* ucontext, struct captured* out);

#ifdef __cplusplus
}
#endif
