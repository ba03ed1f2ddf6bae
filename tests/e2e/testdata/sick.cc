// Programs with one problem each, for `seemalloc doctor`: sick WAY runs until standard input ends.
// Each function that a test names is a separate function.
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#define KNOWN extern "C" __attribute__((noinline))

static constexpr size_t kKiB = 1024, kMiB = 1024 * kKiB;
static std::atomic<bool> ended{false};

// The calls are not the last ones of their functions: the compiler would turn those into jumps.
template <typename T>
static T* keep(T* p) {
  asm volatile("" : "+r"(p) : : "memory");
  return p;
}

static bool over() {
  pollfd in{0, POLLIN, 0};
  char c;
  if (poll(&in, 1, 0) == 1 && read(0, &c, 1) <= 0) {
    ended = true;
    ended.notify_all();
  }
  return ended;
}

static void ready() {
  puts("ready");
  fflush(stdout);
}

static void rest() {
  ready();
  while (!over()) usleep(20000);
}

// ---- storm: 32 MiB are allocated, touched and freed, again and again ----

KNOWN char* receive_buffer() { return keep(static_cast<char*>(malloc(256 * kKiB))); }

static void use_buffers() {
  char* buffers[128];
  for (char*& buffer : buffers) memset(buffer = receive_buffer(), 1, 256 * kKiB);
  for (char* buffer : buffers) free(buffer);
}

static void storm() {
  ready();
  while (!over()) {
    use_buffers();
    usleep(2000);
  }
}

// ---- trims: the same, and each time the program calls malloc_trim ----

static void trims() {
  ready();
  while (!over()) {
    use_buffers();
    malloc_trim(0);
    usleep(2000);
  }
}

// ---- videos: the same with 24 blocks of 2 MiB ----

KNOWN char* next_picture() { return keep(static_cast<char*>(malloc(2 * kMiB))); }

static void videos() {
  ready();
  while (!over()) {
    char* pictures[24];
    for (char*& picture : pictures) memset(picture = next_picture(), 1, 2 * kMiB);
    for (char* picture : pictures) free(picture);
    usleep(2000);
  }
}

// ---- fragments: of 100 MiB every eighth block stays, one on each page ----

KNOWN char* remember_session(size_t bytes) { return keep(static_cast<char*>(malloc(bytes))); }

static void fragments() {
  std::vector<char*> sessions(200 * kKiB);
  for (char*& session : sessions) memset(session = remember_session(512), 1, 512);
  for (size_t i = 0; i < sessions.size(); i++) {
    if (i % 8 != 0) free(sessions[i]);
  }
  rest();
}

// ---- scatters: the same in 62 sizes, none of which has much ----

static void scatters() {
  std::vector<char*> sessions(400 * kKiB);
  for (size_t i = 0; i < sessions.size(); i++) {
    size_t bytes = 16 + i / 8 % 62 * 8;
    memset(sessions[i] = i % 8 == 0 ? remember_session(bytes) : static_cast<char*>(malloc(bytes)),
           1, bytes);
  }
  for (size_t i = 0; i < sessions.size(); i++) {
    if (i % 8 != 0) free(sessions[i]);
  }
  rest();
}

// ---- pins: a full table of a size, and sessions of that size that keep spans of their own ----

KNOWN char* fill_table() { return keep(static_cast<char*>(malloc(512))); }

static void pins() {
  for (size_t i = 0; i < 200 * kKiB; i++) memset(fill_table(), 1, 512);
  fragments();
}

// ---- frees: one thread allocates, another one frees, a batch at a time ----

KNOWN char* make_message() { return keep(static_cast<char*>(malloc(96))); }

static constexpr size_t kBatch = 4096, kBatches = 4;
static char* batches[kBatches][kBatch];
static std::atomic<bool> full[kBatches];

static void wait_until(const std::atomic<bool>& flag, bool value) {
  while (flag != value && !ended) std::this_thread::yield();
}

static void frees() {
  std::thread consumer([] {
    for (size_t i = 0; !ended; i = (i + 1) % kBatches) {
      wait_until(full[i], true);
      if (ended) return;
      for (char* message : batches[i]) free(message);
      full[i] = false;
    }
  });
  ready();
  for (size_t i = 0; !over(); i = (i + 1) % kBatches) {
    wait_until(full[i], false);
    for (char*& message : batches[i]) *(message = make_message()) = 1;
    full[i] = true;
  }
  consumer.join();
}

// ---- hoards: threads use blocks of all sizes once, free them and sleep ----

static void use_all_sizes() {
  constexpr size_t kEach = 512 * kKiB;
  for (size_t size = 64; size <= 32 * kKiB; size += size / 8) {
    std::vector<char*> blocks(kEach / size);
    for (char*& block : blocks) memset(block = static_cast<char*>(malloc(size)), 1, size);
    for (char* block : blocks) free(block);
    // The thread's free list has its maximum length.
    free(keep(static_cast<char*>(malloc(size))));
  }
}

static void hoards() {
  constexpr int kThreads = 24;
  std::vector<std::thread> threads;
  std::atomic<int> asleep{0};
  for (int i = 0; i < kThreads; i++) {
    threads.emplace_back([&] {
      use_all_sizes();
      asleep++;
      ended.wait(false);
    });
  }
  while (asleep != kThreads) usleep(1000);
  rest();
  for (std::thread& thread : threads) thread.join();
}

// ---- bloat: sparse memory for which the program itself has requested huge pages ----

static void bloat() {
  constexpr size_t kBytes = 96 * kKiB, kHuge = 2 * kMiB, kKept = 20;
  std::vector<char*> blocks(1000);
  for (char*& block : blocks) block = static_cast<char*>(malloc(kBytes));
  std::vector<char*> kept;
  for (size_t i = 0; i < blocks.size(); i++) {
    if (i % kKept == 0) {
      kept.push_back(blocks[i]);
    } else {
      free(blocks[i]);
    }
  }
  malloc_trim(0);
  for (char* block : kept) {
    uintptr_t region = reinterpret_cast<uintptr_t>(block) & ~(kHuge - 1);
    madvise(reinterpret_cast<void*>(region), kHuge, MADV_HUGEPAGE);
    *block = 1;
  }
  rest();
}

// ---- copies: text that grows in small steps ----

KNOWN char* append_line(char* text, size_t bytes) {
  return keep(static_cast<char*>(realloc(text, bytes)));
}

static void copies() {
  ready();
  while (!over()) {
    for (int round = 0; round < 200; round++) {
      char* text = nullptr;
      for (size_t bytes = 64; bytes < 30 * kKiB; bytes += 512) {
        text = append_line(text, bytes);
        text[bytes - 1] = 1;
      }
      free(text);
    }
  }
}

// ---- aligned: small objects, each on a page of its own ----

KNOWN void* make_aligned_counter() { return keep(aligned_alloc(4096, 64)); }

static void aligned() {
  std::vector<void*> counters(20000);
  for (void*& counter : counters) memset(counter = make_aligned_counter(), 1, 64);
  rest();
}

// ---- limit: the caller has put the process into a memory cgroup of 128 MiB ----

KNOWN char* load_table() { return keep(static_cast<char*>(malloc(kMiB))); }

static void limit() {
  for (int i = 0; i < 120; i++) memset(load_table(), 1, kMiB);
  rest();
}

// ---- drops: no address space is left for records, but free blocks exist; sample:1 ----

static void drops() {
  constexpr size_t kCount = 400000;
  std::vector<char*> blocks(kCount);
  for (char*& block : blocks) memset(block = static_cast<char*>(malloc(256)), 1, 256);
  ready();
  while (getchar() != '\n') {  // sampling is being turned on
  }
  rlimit now{};
  getrlimit(RLIMIT_AS, &now);
  FILE* statm = fopen("/proc/self/statm", "r");
  unsigned long pages = 0;
  if (fscanf(statm, "%lu", &pages) != 1) abort();
  fclose(statm);
  rlimit tight = now;
  tight.rlim_cur = pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  setrlimit(RLIMIT_AS, &tight);
  // Every second block, so that freeing them releases no address space that records could use.
  for (size_t i = 0; i < kCount; i += 2) free(blocks[i]);
  for (size_t i = 0; i < kCount; i += 2) blocks[i] = static_cast<char*>(malloc(256));
  setrlimit(RLIMIT_AS, &now);  // so that the answers to the tool have memory
  rest();
}

// ---- splits: the program's own mappings, with alternating protections, up to nine tenths of the
// kernel's limit ----

static void splits() {
  FILE* file = fopen("/proc/sys/vm/max_map_count", "r");
  size_t limit = 0;
  if (file == nullptr || fscanf(file, "%zu", &limit) != 1) abort();
  fclose(file);
  size_t pages = limit / 10 * 9, page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  char* area = static_cast<char*>(
      mmap(nullptr, pages * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  for (size_t i = 0; i < pages; i += 2) mprotect(area + i * page, page, PROT_READ);
  // The helper thread starts when the heap grows.
  for (int i = 0; i < 20; i++) memset(load_table(), 1, kMiB);
  rest();
}

// ---- clean: what ordinary programs do ----

static void clean() {
  std::vector<std::string> words(100000);
  unsigned seed = 1;
  auto random = [&] { return seed = seed * 1664525 + 1013904223; };
  std::thread helper([&] {
    unsigned own = 7;
    std::vector<std::string> mine(1000);
    while (!ended) {
      for (std::string& word : mine)
        word.assign(16 + (own = own * 1664525 + 1013904223) % 2000, 'x');
      usleep(1000);
    }
  });
  ready();
  while (!over()) {
    for (int i = 0; i < 2000; i++)
      words[random() % words.size()] = std::string(16 + random() % 400, 'y');
    char* buffer = static_cast<char*>(malloc(100 * kKiB));
    memset(buffer, 1, 100 * kKiB);
    free(buffer);
    usleep(1000);
  }
  helper.join();
}

// ---- grows: tables that fill up, with vectors and strings that grow, and are dropped ----

static void grows() {
  ready();
  while (!over()) {
    std::vector<std::string> table;
    for (int i = 0; i < 20000; i++) table.push_back(std::string(16 + i % 300, 'x'));
    usleep(2000);
  }
}

// ---- workers: each makes messages for the next one and frees those of the previous one ----

static void workers() {
  constexpr int kWorkers = 4, kMessages = 512;
  static std::atomic<char*> inbox[kWorkers][kMessages];
  std::vector<std::thread> threads;
  for (int me = 0; me < kWorkers; me++) {
    threads.emplace_back([me] {
      while (!ended) {
        for (int i = 0; i < kMessages; i++) {
          char* message = static_cast<char*>(malloc(64 + i % 8 * 100));
          *message = 1;
          free(inbox[(me + 1) % kWorkers][i].exchange(message));
          free(inbox[me][i].exchange(nullptr));
        }
        usleep(500);
      }
    });
  }
  rest();
  for (std::thread& thread : threads) thread.join();
}

int main(int, char** argv) {
  static const struct {
    const char* name;
    void (*run)();
  } kWays[] = {{"storm", storm},         {"trims", trims},       {"videos", videos},
               {"fragments", fragments}, {"scatters", scatters}, {"pins", pins},
               {"frees", frees},         {"hoards", hoards},     {"bloat", bloat},
               {"copies", copies},       {"aligned", aligned},   {"limit", limit},
               {"drops", drops},         {"clean", clean},       {"grows", grows},
               {"workers", workers},     {"splits", splits}};
  for (const auto& way : kWays) {
    if (strcmp(argv[1], way.name) == 0) way.run();
  }
}
