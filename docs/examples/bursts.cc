// A service that works in bursts: the example of the pages about the system calls, purging and CPU time. The thread
// `loader` reads documents of 100 MB, drops them and rests, again and again. The thread `indexer` sorts words.
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace bursts {

using Document = std::unique_ptr<char[]>;

Document read_document() {
  constexpr size_t kBytes = 4000;
  Document document(new char[kBytes]);
  memset(document.get(), 'd', kBytes);
  return document;
}

long checksum(const std::vector<Document>& documents) {
  long sum = 0;
  for (const Document& document : documents)
    for (size_t i = 0; i < 4000; i++) sum = sum * 31 + document[i];
  return sum;
}

void load() {
  pthread_setname_np(pthread_self(), "loader");
  for (long sum = 0;;) {
    {
      std::vector<Document> documents;
      for (int i = 0; i < 25000; i++) documents.push_back(read_document());
      sum += checksum(documents);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1600));
    if (sum == 1) puts("one");
  }
}

void index() {
  pthread_setname_np(pthread_self(), "indexer");
  std::mt19937 random(1);
  std::vector<std::string> words;
  for (int i = 0; i < 50000; i++) words.push_back("a long word with the number " + std::to_string(i));
  for (;;) {
    std::shuffle(words.begin(), words.end(), random);
    std::sort(words.begin(), words.end());
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
}

}  // namespace bursts

int main() {
  puts("ready");
  fflush(stdout);
  std::thread loader(bursts::load), indexer(bursts::index);
  loader.join();
}
