// rpc_echo [CONNECTIONS] [REQUESTS] [LARGEST_KIB]: a server on loopback with one thread per
// connection reads each request of 4 KiB to LARGEST_KIB into a new block, sends it back and frees
// it. REQUESTS in total, the same number in each octave of sizes.
//
// Stands for: the report of an RPC server that lost 20 % of its throughput because memory was
// returned to the OS too early: 220,000 madvise calls and 500,000 page faults a second. Each
// request is a block of another size, and the memory of the last one is needed again at once.
//
// The client is this program too, but a separate process without LD_PRELOAD: its cost is the same
// for every allocator. It allocates its buffers before it begins. Printed: by the client
// requests_per_s, mb_per_s (both directions), p50_us, p99_us; by the server its own faults and
// processor time.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <string>
#include <vector>

#include "timeline.h"

namespace {

constexpr double kSmallest = 4 << 10;

[[noreturn]] void fail(const char* what) {
  perror(what);
  exit(1);
}

bool read_all(int socket, void* to, size_t bytes) {
  return bytes == 0 || recv(socket, to, bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
}

void write_all(int socket, const char* from, size_t bytes) {
  while (bytes > 0) {
    const ssize_t sent = send(socket, from, bytes, MSG_NOSIGNAL);
    if (sent < 0) fail("send");
    from += sent;
    bytes -= sent;
  }
}

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

void answer_at_once(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// ---- the server ----

// A request is its size, followed by that many bytes.
void serve(int socket) {
  answer_at_once(socket);
  for (uint32_t bytes; read_all(socket, &bytes, sizeof bytes);) {
    char* block = static_cast<char*>(malloc(bytes));
    if (!block || !read_all(socket, block, bytes)) fail("recv");
    write_all(socket, block, bytes);
    free(block);
  }
  close(socket);
}

int listen_on_loopback(sockaddr_in& address) {
  socklen_t length = sizeof address;
  address = loopback(0);
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0 || bind(listener, reinterpret_cast<sockaddr*>(&address), length) ||
      listen(listener, 64))
    fail("listen");
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  return listener;
}

// This program again, as its own client; nothing is preloaded into it.
pid_t start_client(int port, char** arguments, int count) {
  std::vector<std::string> words{arguments[0], "client", std::to_string(port)};
  for (int i = 1; i < count; ++i) words.push_back(arguments[i]);
  std::vector<char*> command, environment;
  for (std::string& word : words) command.push_back(word.data());
  command.push_back(nullptr);
  for (char** variable = environ; *variable; ++variable)
    if (strncmp(*variable, "LD_PRELOAD=", 11) != 0) environment.push_back(*variable);
  environment.push_back(nullptr);
  pid_t client;
  if (posix_spawn(&client, "/proc/self/exe", nullptr, nullptr, command.data(), environment.data()))
    fail("posix_spawn");
  return client;
}

int server(int count, char** arguments, long connections) {
  sockaddr_in address;
  const int listener = listen_on_loopback(address);
  const pid_t client = start_client(ntohs(address.sin_port), arguments, count);
  workload::Clock clock;
  std::vector<std::thread> threads;
  for (long i = 0; i < connections; ++i) {
    const int socket = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) fail("accept");
    threads.emplace_back(serve, socket);
  }
  for (std::thread& thread : threads) thread.join();
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const double seconds = clock.seconds();
  int status = 1;
  waitpid(client, &status, 0);
  workload::metric("server_faults", workload::faults());
  workload::metric("server_faults_per_s", workload::faults() / seconds);
  const long microseconds = usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
  workload::metric("server_cpu_s",
                   usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + microseconds / 1e6);
  workload::report();
  return status != 0;
}

// ---- the client ----

struct Connection {
  int socket;
  long requests;
  double largest;
  uint64_t seed;
  std::vector<float> latencies;  // µs
  uint64_t bytes = 0;
};

int connect_to(int port) {
  sockaddr_in address = loopback(port);
  const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (made < 0 || connect(made, reinterpret_cast<sockaddr*>(&address), sizeof address))
    fail("connect");
  answer_at_once(made);
  return made;
}

// One request; its latency in µs.
float ask(int socket, char* message, uint32_t bytes, uint64_t stamp) {
  memcpy(message, &bytes, sizeof bytes);
  memcpy(message + bytes - sizeof stamp, &stamp, sizeof stamp);
  workload::Clock clock;
  write_all(socket, message, sizeof bytes + bytes);
  memset(message + bytes - sizeof stamp, 0, sizeof stamp);
  if (!read_all(socket, message + sizeof bytes, bytes)) fail("recv");
  const double seconds = clock.seconds();
  if (memcmp(message + bytes - sizeof stamp, &stamp, sizeof stamp) != 0) {
    fputs("an answer is not what was asked\n", stderr);
    exit(1);
  }
  return static_cast<float>(seconds * 1e6);
}

// A tenth more requests than are counted come first: connections, windows and heaps are then in
// their steady state.
void drive(Connection& own, std::barrier<>& warm) {
  workload::Random random(own.seed);
  std::vector<char> message(sizeof(uint32_t) + static_cast<size_t>(own.largest) + 1, 'x');
  const double octaves = std::log(own.largest / kSmallest);
  for (long i = -own.requests / 10; i < own.requests; ++i) {
    if (i == 0) warm.arrive_and_wait();
    const auto bytes =
        static_cast<uint32_t>(kSmallest * std::exp(octaves * random.below(1 << 20) / (1 << 20)));
    const float latency = ask(own.socket, message.data(), bytes, random.next());
    if (i < 0) continue;
    own.latencies.push_back(latency);
    own.bytes += 2 * bytes;
  }
}

int client(int port, long connections, long requests, double largest) {
  std::vector<Connection> all;
  for (long i = 0; i < connections; ++i) {
    all.push_back({connect_to(port),
                   std::max(requests / connections, 1L),
                   largest,
                   static_cast<uint64_t>(i + 1),
                   {}});
    all.back().latencies.reserve(all.back().requests);
  }
  std::barrier warm(connections + 1);
  std::vector<std::thread> threads;
  for (Connection& one : all) threads.emplace_back(drive, std::ref(one), std::ref(warm));
  warm.arrive_and_wait();
  workload::Clock clock;
  for (std::thread& thread : threads) thread.join();
  const double seconds = clock.seconds();
  std::vector<float> latencies;
  uint64_t bytes = 0;
  for (Connection& one : all) {
    latencies.insert(latencies.end(), one.latencies.begin(), one.latencies.end());
    bytes += one.bytes;
    close(one.socket);
  }
  std::sort(latencies.begin(), latencies.end());
  workload::metric("requests_per_s", latencies.size() / seconds);
  workload::metric("mb_per_s", bytes / 1e6 / seconds);
  workload::metric("p50_us", latencies[latencies.size() / 2]);
  workload::metric("p99_us", latencies[latencies.size() * 99 / 100]);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const bool asks = count > 2 && strcmp(arguments[1], "client") == 0;
  const int first = asks ? 3 : 1;
  const long connections = workload::argument(count, arguments, first, 8);
  const long requests = workload::argument(count, arguments, first + 1, 20'000);
  const long largest_kib = workload::argument(count, arguments, first + 2, 4096);
  if (asks) return client(atoi(arguments[2]), connections, requests, largest_kib * 1024.0);
  return server(count, arguments, connections);
}
