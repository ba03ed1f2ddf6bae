// Seccomp filters for the programs of lifecycle/: a list of allowed system calls, and the action
// for all others.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "expect.h"

enum { kMaxCalls = 100 };

struct Filter {
  struct sock_filter code[kMaxCalls + 3];
  struct sock_fprog program;
};

// `listed` is the action for calls of the list, `others` for all other calls.
static inline void make_filter(struct Filter* filter, const int* calls, size_t count,
                               unsigned listed, unsigned others) {
  EXPECT(count <= kMaxCalls);
  struct sock_filter* at = filter->code;
  *at++ = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (size_t i = 0; i < count; i++) {
    *at++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i],
                                         (unsigned char)(count - i), 0);
  }
  *at++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, others);
  *at++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, listed);
  filter->program.len = (unsigned short)(at - filter->code);
  filter->program.filter = filter->code;
}

// As in a program that calls the kernel directly: no library sees the call.
static inline long raw_syscall(long number, long a, long b, long c) {
  long result;
#if defined(__x86_64__)
  register long r10 __asm__("r10") = 0;
  register long r8 __asm__("r8") = 0;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                   : "rcx", "r11", "memory");
#elif defined(__aarch64__)
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = 0;
  register long x4 __asm__("x4") = 0;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
  result = x0;
#endif
  return result;
}

static inline void no_new_privileges(void) {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) cannot("no_new_privs is not allowed");
}

// Ways to install a filter.
enum InstallMethod {
  kByPrctl,
  kBySeccomp,
  kBySeccompForAll,
  kBySeccompWithListener,
  kBare,
  kBareForAll
};

static inline void install(struct Filter* filter, enum InstallMethod method) {
  no_new_privileges();
  long result = -1;
  struct sock_fprog* program = &filter->program;
  switch (method) {
    case kByPrctl: result = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program); break;
    case kBySeccomp: result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, program); break;
    case kBySeccompForAll:
      result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, program);
      break;
    case kBySeccompWithListener:
      result =
          syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, program);
      if (result >= 0) result = 0;
      break;
    case kBare: result = raw_syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)program); break;
    case kBareForAll:
      result = raw_syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC,
                           (long)program);
      break;
  }
  if (result != 0) cannot("seccomp filters are not allowed");
}
