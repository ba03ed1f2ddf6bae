// Destructors of thread-local objects that allocate and free: C++ thread_local objects and pthread
// keys in all four rounds, in threads that end and in the main thread. Other threads free the
// blocks of the last round.
#include <pthread.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "expect.h"

namespace {

constexpr int kThreads = 200;
pthread_key_t keys[3];
std::atomic<int> rounds_run{0};
std::atomic<int> objects_gone{0};

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
std::vector<void*>* left;  // of 333 bytes, allocated in the very last round

struct Round {
  int number;
  void* block;
};

void in_destructor(void* value) {
  auto round = static_cast<Round*>(value);
  free_marked(round->block, 100 + 1000 * static_cast<size_t>(round->number));
  for (size_t size = 8; size < 100000; size *= 3) free_marked(marked(malloc(size), size), size);
  rounds_run++;
  int next = round->number + 1;
  delete round;
  if (next < PTHREAD_DESTRUCTOR_ITERATIONS) {
    auto again = new Round{next, nullptr};
    size_t size = 100 + 1000 * static_cast<size_t>(next);
    again->block = marked(malloc(size), size);
    for (pthread_key_t key : keys) {
      if (pthread_getspecific(key) == nullptr) {
        pthread_setspecific(key, again);
        return;
      }
    }
    EXPECT(false);
  }
  void* last = marked(malloc(333), 333);
  pthread_mutex_lock(&lock);
  left->push_back(last);
  pthread_mutex_unlock(&lock);
}

struct Talkative {
  std::vector<std::string> words;
  void* block;
  Talkative() : words(20, std::string(100, 'x')), block(marked(malloc(2000), 2000)) {}
  ~Talkative() {
    words.resize(300, std::string(50, 'y'));
    free_marked(block, 2000);
    auto other = std::make_unique<std::string>(100000, 'z');
    objects_gone++;
  }
};
thread_local Talkative talkative;

struct LateUser {
  // Its destructor runs first (it is constructed last) and constructs a thread_local of its own.
  ~LateUser() {
    static thread_local Talkative born_in_a_destructor;
    EXPECT(born_in_a_destructor.words.size() == 20);
  }
};

void* thread_main(void*) {
  static thread_local LateUser late;
  asm volatile("" : : "r"(&late) : "memory");
  EXPECT(talkative.words.size() == 20);
  for (pthread_key_t key : keys) pthread_setspecific(key, new Round{0, marked(malloc(100), 100)});
  return nullptr;
}

}  // namespace

int main() {
  expect_subject();
  left = new std::vector<void*>;
  for (pthread_key_t& key : keys) EXPECT(pthread_key_create(&key, in_destructor) == 0);
  for (int i = 0; i < kThreads; i += 4) {
    pthread_t threads[4];
    for (pthread_t& thread : threads)
      EXPECT(pthread_create(&thread, nullptr, thread_main, nullptr) == 0);
    for (pthread_t thread : threads) pthread_join(thread, nullptr);
  }
  EXPECT(objects_gone == 2 * kThreads);
  EXPECT(rounds_run >= 3 * kThreads);
  EXPECT(!left->empty());
  for (void* block : *left) free_marked(block, 333);
  delete left;
  left = new std::vector<void*>;
  thread_main(nullptr);  // and in the main thread, whose thread_locals are destroyed in exit()
  return ok();
}
