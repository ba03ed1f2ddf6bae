// A service whose memory is allocated by the C++ library: make_session owns most of it, behind two
// templates and in a thread. Prints "ready" and waits for the end of its standard input.
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>
struct Session {
  std::string user;
  std::vector<int> data;
};
template <class K, class V>
class Cache {
 public:
  template <class F>
  V& get(const K& k, F make) {
    auto it = map_.find(k);
    if (it == map_.end()) it = map_.emplace(k, make()).first;
    return it->second;
  }

 private:
  std::unordered_map<K, V> map_;
};
static Cache<std::string, std::shared_ptr<Session>> cache;
__attribute__((noinline)) std::shared_ptr<Session> make_session(int i) {
  auto s = std::make_shared<Session>();
  s->user = "user with a long name number " + std::to_string(i);
  s->data.resize(100 + i % 50);
  return s;
}
__attribute__((noinline)) void handle(int i) {
  cache.get("session key which is long " + std::to_string(i), [i] { return make_session(i); });
}
std::vector<std::string> lines;
__attribute__((noinline)) void read_config() {
  for (int i = 0; i < 2000; i++)
    lines.push_back("this is a long configuration line " + std::to_string(i));
}
int main() {
  read_config();
  std::thread t([] {
    for (int i = 0; i < 20000; i++) handle(i);
  });
  t.join();
  puts("ready");
  fflush(stdout);
  getchar();
}
