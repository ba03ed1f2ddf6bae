// RealMachine: atomic words, fences and waiting, for lock-free protocols. A protocol is a template
// over this type.
// The library instantiates it with RealMachine. Its model test instantiates the same code with
// ModelMachine (core/base/model_machine_for_test.h), and so visits every interleaving of the code
// that ships.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/compiler.h"
#include "core/os/kernel/clock.h"
#include "core/os/kernel/wait.h"

namespace seemalloc::os {

struct RealMachine {
  template <typename T>
  using Atomic = std::atomic<T>;
  // Long enough for a critical section on another CPU, short enough to be harmless with priorities
  // or on one CPU.
  static constexpr int kSpinsBeforeSleep = 64;

  SEEMALLOC_ALWAYS_INLINE static void compiler_fence() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  SEEMALLOC_ALWAYS_INLINE static bool fence_all_threads() { return os::fence_all_threads(); }
  SEEMALLOC_ALWAYS_INLINE static bool futex_wait(const std::atomic<uint32_t>* word,
                                                 uint32_t expected, uint64_t timeout_ns) {
    return os::futex_wait(word, expected, timeout_ns);
  }
  SEEMALLOC_ALWAYS_INLINE static void futex_wake(const std::atomic<uint32_t>* word, int count) {
    os::futex_wake(word, count);
  }
  SEEMALLOC_ALWAYS_INLINE static void pause(uint64_t ns) { os::pause(ns); }
  SEEMALLOC_ALWAYS_INLINE static uint64_t monotonic_ns() { return os::monotonic_ns(); }
};

}  // namespace seemalloc::os
