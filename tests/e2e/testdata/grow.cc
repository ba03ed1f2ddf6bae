// Programs whose growth is known: grow WAY [RATE [HELD]] runs until standard input ends. RATE is in
// bytes a second. HELD is the memory in MiB that each program holds from its start, 64 by default.
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#define KNOWN __attribute__((noinline))

using Clock = std::chrono::steady_clock;

static bool over() {
  pollfd in{0, POLLIN, 0};
  char c;
  return poll(&in, 1, 10) == 1 && read(0, &c, 1) <= 0;
}

template <typename T>
static T* keep(T* p) {
  asm volatile("" : "+r"(p) : : "memory");
  return p;
}

static std::vector<std::unique_ptr<char[]>> held;

KNOWN static void hold(size_t bytes) {
  for (size_t had = 0; had < bytes; had += 1000) held.emplace_back(keep(new char[1000]));
}

// Temporary blocks: 16 MiB a second, which live for one request.
KNOWN static void serve() {
  std::vector<std::string> parts;
  for (int i = 0; i < 160; i++) parts.emplace_back(1000, 'x');
  keep(parts.data());
}

// ---- leak: behind two templates ----

template <typename Value>
struct Registry {
  std::vector<Value*> values;
  template <typename... Arguments>
  KNOWN void remember(Arguments... arguments) {
    values.push_back(keep(new Value(arguments...)));
  }
};

struct Session {
  std::string text;
  explicit Session(size_t bytes) : text(bytes, 'x') {}
};

static Registry<Session> registry;
KNOWN static void handle_login() { registry.remember(size_t{800}); }

// ---- cache: without eviction, and with eviction at a constant or a growing size ----

static std::unordered_map<long, std::string> entries;
static std::deque<long> order;
KNOWN static void cache_put(long key) {
  entries.emplace(key, std::string(900, 'x'));
  order.push_back(key);
}
KNOWN static void cache_evict() {
  entries.erase(order.front());
  order.pop_front();
}

// ---- churn: a queue of a constant length on average, whose blocks live for about a second ----

static std::deque<std::unique_ptr<char[]>> queue;
KNOWN static void enqueue() { queue.emplace_back(keep(new char[900])); }

// ---- pool: takes chunks from malloc, and never gets its objects back ----

struct Order {
  char text[200];
};

struct Pool {
  std::vector<std::unique_ptr<Order[]>> chunks;
  size_t left = 0;
  KNOWN Order* take() {
    constexpr size_t kChunk = 32;
    if (left == 0) {
      chunks.push_back(std::make_unique<Order[]>(kChunk));
      left = kChunk;
    }
    return &chunks.back()[--left];
  }
};

static Pool pool;
KNOWN static void take_order() { keep(pool.take())->text[0] = 'x'; }

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::string way = argv[1];
  const double rate = argc > 2 ? atof(argv[2]) : 0;
  constexpr size_t kMiB = 1 << 20;
  hold((argc > 3 ? strtoul(argv[3], nullptr, 10) : 64) * kMiB);
  if (way == "evict" || way == "growing-evict")
    for (long i = 0; i < 40000; i++) cache_put(-1 - i);
  if (way == "churn")
    for (int i = 0; i < 20000; i++) enqueue();
  puts("ready");
  fflush(stdout);
  const Clock::time_point began = Clock::now();
  constexpr double kBlock = 1000;  // about: the exact figure is the allocator's
  long made = 0;
  while (!over()) {
    serve();
    const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
    const long due = static_cast<long>(seconds * rate / kBlock);
    for (; made < due; made++) {
      if (way == "leak") handle_login();
      if (way == "pool")
        for (int i = 0; i < 5; i++) take_order();
      if (way == "cache" || way == "evict" || way == "growing-evict") cache_put(made);
      if (way == "evict" || (way == "growing-evict" && made % 2 == 0)) cache_evict();
      if (way == "churn") {
        enqueue();
        queue.pop_front();
      }
      if (way == "burst" && seconds > 3 && seconds < 4) hold(kBlock);
    }
  }
}
