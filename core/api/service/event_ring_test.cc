// The ring against a model; and with many writers and readers: no event is torn or read twice, and
// every event is accounted for.
#include "core/api/service/event_ring.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <deque>
#include <random>
#include <thread>
#include <vector>

#include "core/base/seed_for_test.h"

namespace seemalloc {
namespace {

class Memory {
 public:
  Memory()
      : memory_(mmap(nullptr, EventRing::bytes(), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~Memory() { munmap(memory_, EventRing::bytes()); }
  EventRing& ring() { return *static_cast<EventRing*>(memory_); }

 private:
  void* memory_;
};

// All fields of an event are derived from its number.
TraceEvent numbered(uint64_t number, uint32_t thread) {
  TraceEvent event{};
  event.begin_ns = number;
  event.took_ns = number * 3;
  event.bytes = ~number;
  event.thread = thread;
  event.call = static_cast<uint8_t>(number % 8);
  event.depth = number % (TraceEvent::kMaxFrames + 1);
  for (unsigned i = 0; i < event.depth; i++) event.frames[i] = number + i;
  return event;
}

void expect_whole(const TraceEvent& event) {
  TraceEvent wanted = numbered(event.begin_ns, event.thread);
  ASSERT_EQ(event.took_ns, wanted.took_ns);
  ASSERT_EQ(event.bytes, wanted.bytes);
  ASSERT_EQ(event.call, wanted.call);
  ASSERT_EQ(event.depth, wanted.depth);
  for (unsigned i = 0; i < event.depth; i++) ASSERT_EQ(event.frames[i], wanted.frames[i]);
}

TEST(EventRing, IsEmptyAtFirst) {
  Memory memory;
  uint64_t position = 0, lost = 0;
  TraceEvent event;
  EXPECT_FALSE(memory.ring().read(&position, &event, &lost));
  EXPECT_EQ(lost, 0u);
}

// Random writes and reads by three readers, against a queue that drops its oldest element.
TEST(EventRing, MatchesTheModel) {
  unsigned seed = seed_for_test();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  Memory memory;
  std::deque<uint64_t> model;
  uint64_t written = 0;
  struct {
    uint64_t position = 0, lost = 0, read = 0;
  } readers[3];
  for (int step = 0; step < 300; step++) {
    for (unsigned n = random() % (step % 20 == 0 ? 3 * EventRing::kSlots : 300); n != 0; n--) {
      ASSERT_TRUE(memory.ring().put(numbered(written, 1)));
      model.push_back(written++);
      if (model.size() > EventRing::kSlots) model.pop_front();
    }
    auto& reader = readers[random() % 3];
    TraceEvent event;
    for (unsigned n = random() % 400; n != 0; n--) {
      uint64_t next =
          std::max<uint64_t>(reader.read + reader.lost, model.empty() ? 0 : model.front());
      bool any = memory.ring().read(&reader.position, &event, &reader.lost);
      ASSERT_EQ(any, next < written);
      if (!any) break;
      ASSERT_EQ(event.begin_ns, next);
      expect_whole(event);
      reader.read++;
      ASSERT_EQ(reader.read + reader.lost, next + 1);
    }
  }
  EXPECT_EQ(memory.ring().dropped(), 0u);
}

TEST(EventRing, DroppedOnesAreCounted) {
  Memory memory;
  memory.ring().drop();
  memory.ring().drop();
  EXPECT_EQ(memory.ring().dropped(), 2u);
  EXPECT_EQ(memory.ring().head(), 0u);
}

struct Tally {
  uint64_t read = 0, lost = 0;
  std::vector<uint64_t> last;  // of each writer

  explicit Tally(unsigned writers) : last(writers, 0) {}
  void read_all(const EventRing& ring, uint64_t* position) {
    TraceEvent event;
    while (ring.read(position, &event, &lost)) {
      expect_whole(event);
      ASSERT_GT(event.begin_ns, last[event.thread]) << "out of order, or twice";
      last[event.thread] = event.begin_ns;
      read++;
    }
  }
};

TEST(EventRing, ManyWritersAndReaders) {
  constexpr unsigned kWriters = 3, kReaders = 2;
  constexpr uint64_t kEach = 60000;
  Memory memory;
  EventRing& ring = memory.ring();
  std::atomic<uint64_t> put{0};
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (unsigned w = 0; w < kWriters; w++) {
    threads.emplace_back([&, w] {
      for (uint64_t i = 1; i <= kEach; i++) put += ring.put(numbered(i, w)) ? 1 : 0;
    });
  }
  std::vector<std::thread> readers;
  for (unsigned r = 0; r < kReaders; r++) {
    readers.emplace_back([&] {
      Tally tally(kWriters);
      uint64_t position = 0;
      while (!done) tally.read_all(ring, &position);
      tally.read_all(ring, &position);
      EXPECT_EQ(tally.read + tally.lost, put.load());
    });
  }
  for (std::thread& thread : threads) thread.join();
  done = true;
  for (std::thread& thread : readers) thread.join();
  EXPECT_EQ(put + ring.dropped(), kWriters * kEach);
  EXPECT_EQ(ring.head(), put.load());
}

}  // namespace
}  // namespace seemalloc
