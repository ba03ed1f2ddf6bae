// PressureGauge and PurgePace: decide from readings whether memory is short, and how often
// returning everything is worth its cost.
//
// Pure arithmetic; times and bytes come from the caller. Caller: core/heap/maintenance/pressure.cc,
// one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/units.h"

namespace seemalloc::heap {

// Memory becomes short when more than nine tenths of the limit are used; or when the limit was hit
// again while more than 75 % of it are the program's own (a group that reads files hits its limit
// all the time); or when the kernel reports that tasks wait for memory. It stops being short after
// two seconds below eight tenths and without any such sign.
class PressureGauge {
 public:
  static constexpr uint64_t kHoldNs = 2 * kSecondNs;
  // Levels of cgroups; each has its own count of limit hits.
  static constexpr unsigned kLevels = 4;

  struct Reading {
    uint64_t now_ns;
    size_t limit;  // SIZE_MAX: no limit
    size_t bytes;
    uint64_t hits;       // how often the limit was hit so far
    bool stalled;        // the kernel has reported a stall since the last reading
    unsigned level = 0;  // the cgroup level that limit and hits belong to
  };

  bool update(const Reading& r) {
    bool limited = r.limit != SIZE_MAX;
    // Hits are read only near the limit: the first number is the baseline.
    uint64_t& hits = hits_[r.level % kLevels];
    bool hit = r.hits > hits && hits != 0;
    if (r.hits != 0) hits = r.hits;
    bool begins =
        r.stalled ||
        (limited && (r.bytes > part(r.limit, 90) || (hit && r.bytes > part(r.limit, 75))));
    bool goes_on = short_ && limited && r.bytes > part(r.limit, 80);
    if (begins || goes_on) last_sign_ns_ = r.now_ns;
    if (begins && !short_) times_++;
    short_ = begins || goes_on || (short_ && r.now_ns - last_sign_ns_ < kHoldNs);
    return short_;
  }

  // The process has moved to other cgroups.
  void forget_hits() {
    for (uint64_t& hits : hits_) hits = 0;
  }

  bool under_memory_pressure() const { return short_; }
  uint64_t times() const { return times_; }

 private:
  static size_t part(size_t limit, unsigned percent) { return limit / 100 * percent; }

  bool short_ = false;
  uint64_t last_sign_ns_ = 0;
  uint64_t hits_[kLevels] = {};
  uint64_t times_ = 0;
};

// The pace at which everything is returned while memory is short. Its cost, and the cost of the
// program's faults on memory that it reuses, stays below a few percent of one processor. If the
// alternative is being killed, it may be more: then a few rounds in quick succession may each
// return the memory that the program has freed meanwhile, as long as the long-run share is kept.
class PurgePace {
 public:
  static constexpr uint64_t kMinNs = 20 * kMillisecondNs;
  static constexpr uint64_t kMaxNs = 60 * kSecondNs;
  static constexpr uint64_t kMaxScarceNs = 10 * kSecondNs;
  static constexpr uint64_t kRefaultNs = 1000;  // per 4 KiB
  static constexpr uint64_t kShare = 50, kScarceShare = 10;
  // This much cost is allowed after a rest, before the share applies.
  static constexpr uint64_t kScarceBurstNs = kSecondNs;
  // A round that returns less was not worth it; the next one waits for at least
  // kWaitAfterSmallRoundNs.
  static constexpr size_t kMinWorthwhileBytes = 64 * KiB;
  static constexpr uint64_t kWaitAfterSmallRoundNs = 500 * kMillisecondNs;
  static constexpr uint64_t kWaitAfterSmallRoundScarceNs = 100 * kMillisecondNs;

  bool due(uint64_t now_ns) const { return now_ns >= next_ns_; }
  bool due_when_scarce(uint64_t now_ns) const { return now_ns >= next_scarce_ns_; }
  uint64_t next_ns() const { return next_ns_; }
  uint64_t next_scarce_ns() const { return next_scarce_ns_; }

  void done(uint64_t now_ns, uint64_t took_ns, size_t bytes) {
    uint64_t cost = took_ns + bytes / 4096 * kRefaultNs;
    bool little = bytes < kMinWorthwhileBytes;
    next_ns_ = now_ns + within(cost * kShare, little ? kWaitAfterSmallRoundNs : kMinNs, kMaxNs);
    paid_until_ns_ = (paid_until_ns_ > now_ns ? paid_until_ns_ : now_ns) + cost * kScarceShare;
    uint64_t ahead = paid_until_ns_ - now_ns, free = kScarceBurstNs * kScarceShare;
    if (ahead > free + kMaxScarceNs) paid_until_ns_ = now_ns + (ahead = free + kMaxScarceNs);
    next_scarce_ns_ = now_ns + within(saturating_subtract(ahead, free),
                                      little ? kWaitAfterSmallRoundScarceNs : 0, kMaxScarceNs);
  }

 private:
  static uint64_t within(uint64_t wait, uint64_t least, uint64_t most) {
    return wait < least ? least : wait > most ? most : wait;
  }

  uint64_t next_ns_ = 0;
  // The cost so far, at the allowed share, is paid off at this time.
  uint64_t paid_until_ns_ = 0;
  uint64_t next_scarce_ns_ = 0;
};

}  // namespace seemalloc::heap
