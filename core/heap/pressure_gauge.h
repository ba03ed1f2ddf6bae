// PressureGauge and PurgePace: whether memory is short, by what was read, and how often that is worth giving everything back.
//
// Pure arithmetic; times and bytes come from the caller. Who calls: core/heap/pressure.cc, one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/units.h"

namespace seemalloc::heap {

// Memory is short once more than nine tenths of the limit are used; or the limit was met again while most of it is the program's
// own (a group that reads files meets its limit all the time); or the kernel says that tasks wait for memory. It is short
// no more when it has been below eight tenths for two seconds, without such a sign.
class PressureGauge {
 public:
  static constexpr uint64_t kLasts_ns = 2 * kSecond_ns;

  struct Reading {
    uint64_t now_ns;
    size_t limit;  // SIZE_MAX: none
    size_t bytes;
    uint64_t hits;  // of the limit, so far
    bool stalled;   // by the kernel's account, since the last reading
  };

  bool update(const Reading& r) {
    bool limited = r.limit != SIZE_MAX;
    // Hits are read near the limit only: the first number is where counting begins.
    bool hit = r.hits > hits_ && hits_ != 0;
    if (r.hits != 0) hits_ = r.hits;
    bool begins = r.stalled || (limited && (r.bytes > part(r.limit, 90) || (hit && r.bytes > part(r.limit, 75))));
    bool goes_on = short_ && limited && r.bytes > part(r.limit, 80);
    if (begins || goes_on) last_sign_ns_ = r.now_ns;
    if (begins && !short_) times_++;
    short_ = begins || goes_on || (short_ && r.now_ns - last_sign_ns_ < kLasts_ns);
    return short_;
  }

  bool memory_is_short() const { return short_; }
  uint64_t times() const { return times_; }

 private:
  static size_t part(size_t limit, unsigned percent) { return limit / 100 * percent; }

  bool short_ = false;
  uint64_t last_sign_ns_ = 0;
  uint64_t hits_ = 0;
  uint64_t times_ = 0;
};

// Giving everything back while memory is short: what it costs, and what it costs the program to fault in what it wants again, is
// to stay below a few percent of one processor. Where the alternative is to be killed, more.
class PurgePace {
 public:
  static constexpr uint64_t kShortest_ns = 20 * kMillisecond_ns;
  static constexpr uint64_t kLongest_ns = kSecond_ns;
  static constexpr uint64_t kRefault_ns = 1000;  // per 4 KiB
  static constexpr uint64_t kShare = 50, kScarceShare = 10;
  static constexpr size_t kLittle_bytes = 64 * KiB;  // a round that gives back less was not worth it

  bool due(uint64_t now_ns) const { return now_ns >= next_ns_; }
  bool due_when_scarce(uint64_t now_ns) const { return now_ns >= next_scarce_ns_; }
  uint64_t next_ns() const { return next_ns_; }

  void done(uint64_t now_ns, uint64_t took_ns, size_t bytes) {
    uint64_t cost = took_ns + bytes / 4096 * kRefault_ns;
    uint64_t wait = bytes < kLittle_bytes ? kLongest_ns / 2 : cost * kShare;
    next_ns_ = now_ns + (wait < kShortest_ns ? kShortest_ns : wait > kLongest_ns ? kLongest_ns : wait);
    wait = cost * kScarceShare;
    next_scarce_ns_ = now_ns + (wait > kLongest_ns / 5 ? kLongest_ns / 5 : wait);
  }

 private:
  uint64_t next_ns_ = 0;
  uint64_t next_scarce_ns_ = 0;
};

}  // namespace seemalloc::heap
