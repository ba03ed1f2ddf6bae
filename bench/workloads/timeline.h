// A program's memory over time: resident size, page faults and mappings, read at regular times by a
// thread that does nothing else, and printed at the end for the runner, as lines "series NAME
// SECONDS VALUE" and figures derived from them. The thread does hardly any work: an idle program
// must stay idle.
//
// Reading allocates nothing. When the array is full, every second reading is dropped and the
// interval doubles, so a run may be arbitrarily long.
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "workload.h"

namespace workload {

// Lines of /proc/self/maps; 0 when it cannot be read.
inline long mappings() {
  const int file = open("/proc/self/maps", O_RDONLY);
  char text[4096];
  long lines = 0;
  for (ssize_t length; file >= 0 && (length = read(file, text, sizeof text)) > 0;)
    lines += std::count(text, text + length, '\n');
  if (file >= 0) close(file);
  return lines;
}

// Page faults of this process so far that needed no disk.
inline long faults() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

class Timeline {
 public:
  // Reads until done() is true.
  template <class Done>
  void watch(Done done) {
    for (; !done(); wait_ms(interval_ms_)) read();
  }

  // Runs work(0), work(1) … in this many threads, and reads until the first of them has ended.
  template <class Work>
  void watch_threads(long threads, Work work) {
    std::atomic<bool> ended = false;
    std::vector<std::thread> all;
    for (long i = 0; i < threads; ++i) {
      all.emplace_back([&ended, &work, i] {
        work(i);
        ended = true;
      });
    }
    watch([&ended] { return ended.load(); });
    for (auto& thread : all) thread.join();
  }

  void print() const {
    double rss_most = 0, mappings_most = 0;
    for (size_t i = 0; i < count_; ++i) {
      const Reading& one = readings_[i];
      printf("series rss_kib %.3f %.0f\nseries mappings %.3f %ld\n", one.seconds, one.rss_kib,
             one.seconds, one.mappings);
      printf("series faults %.3f %ld\n", one.seconds, one.faults);
      rss_most = std::max(rss_most, one.rss_kib);
      mappings_most = std::max<double>(mappings_most, one.mappings);
    }
    metric("rss_most_kib", rss_most);
    metric("mappings_most", mappings_most);
    metric("watched_s", count_ ? readings_[count_ - 1].seconds : 0);
  }

 private:
  struct Reading {
    double seconds, rss_kib;
    long faults, mappings;
  };

  void read() {
    if (count_ == readings_.size()) {
      for (size_t i = 0; i < count_ / 2; ++i) readings_[i] = readings_[2 * i];
      count_ /= 2;
      interval_ms_ *= 2;
    }
    readings_[count_++] = {clock_.seconds(), approximate_resident_kib(), faults(), mappings()};
  }

  Clock clock_;
  long interval_ms_ = 20;
  size_t count_ = 0;
  std::array<Reading, 128> readings_;
};

}  // namespace workload
