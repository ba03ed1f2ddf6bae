// idle_return [SECONDS] [OBJECTS] [KEPT_OF] [LEAST] [MOST]: allocates OBJECTS of LEAST to MOST
// bytes (16 to 1,015), writes all bytes of each, frees all but each KEPT_OFth, and is idle for
// SECONDS: no malloc, no free. Then ten mallocs and frees, as an idle program makes occasionally.
//
// Stands for: a server after its load peak. Memory that it does not need must be returned
// automatically, although live blocks are between the freed ones. Prints, in KiB: rss_full_kib with
// all blocks live, rss_freed_kib, rss_after_kib after the idle time, rss_stirred_kib after the ten
// calls; dead_kib and live_kib (requested sizes), returned_percent (of the dead bytes, during the
// idle time).
#include <vector>

#include "timeline.h"

int main(int count, char** arguments) {
  const double seconds = static_cast<double>(workload::argument(count, arguments, 1, 5));
  const long objects = workload::argument(count, arguments, 2, 600'000);
  const long kept_of = workload::argument(count, arguments, 3, 200);
  const size_t least = workload::argument(count, arguments, 4, 16),
               most = workload::argument(count, arguments, 5, 1015);
  workload::Random random(1);
  std::vector<char*> all(objects);
  size_t live = 0, dead = 0;
  for (long i = 0; i < objects; ++i) {
    const size_t bytes = random.between(least, most);
    all[i] = workload::allocate_touched(bytes);
    memset(all[i], 1, bytes);
    (i % kept_of == 0 ? live : dead) += bytes;
  }
  const double full = workload::resident_kib();
  for (long i = 0; i < objects; ++i) {
    if (i % kept_of == 0) continue;
    free(all[i]);
  }
  const double freed = workload::resident_kib();
  workload::Timeline timeline;
  workload::Clock silence;
  timeline.watch([&] { return silence.seconds() >= seconds; });
  const double after = workload::resident_kib();
  for (int i = 0; i < 10; ++i) free(workload::allocate_touched(100));
  const double stirred = workload::resident_kib();
  timeline.print();
  workload::metric("rss_full_kib", full);
  workload::metric("rss_freed_kib", freed);
  workload::metric("rss_after_kib", after);
  workload::metric("rss_stirred_kib", stirred);
  workload::metric("dead_kib", dead / 1024.0);
  workload::metric("live_kib", live / 1024.0);
  workload::metric("returned_percent", 100 * (full - after) / (dead / 1024.0));
  workload::report();
}
