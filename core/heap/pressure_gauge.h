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
  static constexpr unsigned kLevels = 4;  // of cgroups; each counts for itself how often its limit was met

  struct Reading {
    uint64_t now_ns;
    size_t limit;  // SIZE_MAX: none
    size_t bytes;
    uint64_t hits;  // of the limit, so far
    bool stalled;   // by the kernel's account, since the last reading
    unsigned level = 0;  // whose limit and hits these are
  };

  bool update(const Reading& r) {
    bool limited = r.limit != SIZE_MAX;
    // Hits are read near the limit only: the first number is where counting begins.
    uint64_t& hits = hits_[r.level % kLevels];
    bool hit = r.hits > hits && hits != 0;
    if (r.hits != 0) hits = r.hits;
    bool begins = r.stalled || (limited && (r.bytes > part(r.limit, 90) || (hit && r.bytes > part(r.limit, 75))));
    bool goes_on = short_ && limited && r.bytes > part(r.limit, 80);
    if (begins || goes_on) last_sign_ns_ = r.now_ns;
    if (begins && !short_) times_++;
    short_ = begins || goes_on || (short_ && r.now_ns - last_sign_ns_ < kLasts_ns);
    return short_;
  }

  // The levels are others now.
  void forget_hits() {
    for (uint64_t& hits : hits_) hits = 0;
  }

  bool memory_is_short() const { return short_; }
  uint64_t times() const { return times_; }

 private:
  static size_t part(size_t limit, unsigned percent) { return limit / 100 * percent; }

  bool short_ = false;
  uint64_t last_sign_ns_ = 0;
  uint64_t hits_[kLevels] = {};
  uint64_t times_ = 0;
};

// Giving everything back while memory is short: what it costs, and what it costs the program to fault in what it wants again, is
// to stay below a few percent of one processor. Where the alternative is to be killed, more: there a few rounds, one close behind
// the other, may each give back what the program has freed meanwhile, as long as their share is kept in the long run.
class PurgePace {
 public:
  static constexpr uint64_t kShortest_ns = 20 * kMillisecond_ns;
  static constexpr uint64_t kLongest_ns = 60 * kSecond_ns;
  static constexpr uint64_t kLongestScarce_ns = 10 * kSecond_ns;
  static constexpr uint64_t kRefault_ns = 1000;  // per 4 KiB
  static constexpr uint64_t kShare = 50, kScarceShare = 10;
  static constexpr uint64_t kScarceAhead_ns = kSecond_ns;  // so much cost after a rest, before the share counts
  // A round that gives back less was not worth it; the next one waits for at least so long.
  static constexpr size_t kLittle_bytes = 64 * KiB;
  static constexpr uint64_t kAfterLittle_ns = 500 * kMillisecond_ns;
  static constexpr uint64_t kAfterLittleScarce_ns = 100 * kMillisecond_ns;

  bool due(uint64_t now_ns) const { return now_ns >= next_ns_; }
  bool due_when_scarce(uint64_t now_ns) const { return now_ns >= next_scarce_ns_; }
  uint64_t next_ns() const { return next_ns_; }
  uint64_t next_scarce_ns() const { return next_scarce_ns_; }

  void done(uint64_t now_ns, uint64_t took_ns, size_t bytes) {
    uint64_t cost = took_ns + bytes / 4096 * kRefault_ns;
    bool little = bytes < kLittle_bytes;
    next_ns_ = now_ns + within(cost * kShare, little ? kAfterLittle_ns : kShortest_ns, kLongest_ns);
    paid_until_ns_ = (paid_until_ns_ > now_ns ? paid_until_ns_ : now_ns) + cost * kScarceShare;
    uint64_t ahead = paid_until_ns_ - now_ns, free = kScarceAhead_ns * kScarceShare;
    if (ahead > free + kLongestScarce_ns) paid_until_ns_ = now_ns + (ahead = free + kLongestScarce_ns);
    next_scarce_ns_ = now_ns + within(minus(ahead, free), little ? kAfterLittleScarce_ns : 0, kLongestScarce_ns);
  }

 private:
  static uint64_t within(uint64_t wait, uint64_t least, uint64_t most) { return wait < least ? least : wait > most ? most : wait; }

  uint64_t next_ns_ = 0;
  uint64_t paid_until_ns_ = 0;  // what it has cost would be its share of the time until then
  uint64_t next_scarce_ns_ = 0;
};

}  // namespace seemalloc::heap
