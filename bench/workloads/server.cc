// server [THREADS] [LIVE] [OPERATIONS] [GENERATIONS]: each thread has an array of LIVE blocks of
// 16–1015 bytes and replaces random ones; after its share of OPERATIONS it passes the array to a
// thread that it starts, and ends. GENERATIONS of threads follow each other on each array. The main
// thread allocates the first blocks.
//
// Stands for: servers with a thread per connection or request (after Larson and Krishnan's
// simulation of them). Blocks outlive the threads that allocated them, so heaps are abandoned,
// adopted and freed into all the time; memory must not grow with each generation. The work is
// fixed, not the time.
#include <latch>
#include <thread>
#include <vector>

#include "workload.h"

namespace {

struct Session {
  std::vector<char*> blocks;
  workload::Random random;
  long operations;  // of each generation
  long generations;
  std::latch& ended;
};

void serve(Session* session) {
  workload::Random random = session->random;
  std::vector<char*>& blocks = session->blocks;
  for (long i = 0; i < session->operations; ++i) {
    char*& block = blocks[random.below(blocks.size())];
    free(block);
    block = workload::allocate_touched(random.between(16, 1015));
  }
  session->random = random;
  if (--session->generations > 0) {
    std::thread(serve, session).detach();
  } else {
    session->ended.count_down();
  }
}

}  // namespace

int main(int count, char** arguments) {
  const long threads = workload::argument(count, arguments, 1, 4);
  const long live = workload::argument(count, arguments, 2, 5'000);
  const long operations = workload::argument(count, arguments, 3, 30'000'000);
  const long generations = workload::argument(count, arguments, 4, 100);
  workload::Clock clock;
  std::latch ended(threads);
  std::vector<Session> sessions;
  for (long i = 0; i < threads; ++i) {
    sessions.push_back({std::vector<char*>(live), workload::Random(i + 1),
                        operations / threads / generations, generations, ended});
    for (char*& block : sessions[i].blocks)
      block = workload::allocate_touched(sessions[i].random.between(16, 1015));
  }
  for (Session& session : sessions) std::thread(serve, &session).detach();
  ended.wait();
  workload::metric("ns_per_operation", clock.seconds() * 1e9 / operations);
  for (Session& session : sessions)
    for (char* block : session.blocks) free(block);
  workload::report();
}
