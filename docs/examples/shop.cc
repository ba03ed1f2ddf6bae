// A web shop with a cache that never evicts: the leak of docs/find-a-leak.md. Its sessions end, and its catalogue stays.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace shop {

struct Page {
  std::string html;
  std::vector<std::string> links;
};

template <class Key, class Value>
class Cache {
 public:
  template <class Make>
  const Value& get(const Key& key, Make make) {
    auto found = entries_.find(key);
    if (found == entries_.end()) found = entries_.emplace(key, std::make_shared<Value>(make())).first;
    return *found->second;
  }

 private:
  std::unordered_map<Key, std::shared_ptr<Value>> entries_;  // nothing is ever removed
};

Page render(uint64_t id) {
  Page page{std::string(6000 + id % 3000, 'x'), {}};
  for (int i = 0; i < 20; i++) page.links.push_back("https://shop.example/item/" + std::to_string(id * 20 + i));
  return page;
}

size_t handle_request(Cache<uint64_t, Page>& cache, uint64_t id) {
  // Each visitor has an id of its own in the key: no entry is ever used again.
  return cache.get(id, [&] { return render(id); }).html.size();
}

std::vector<std::string> load_catalogue() {
  std::vector<std::string> items;
  for (int i = 0; i < 60000; i++) items.push_back("item " + std::to_string(i) + std::string(800, '.'));
  return items;
}

}  // namespace shop

int main() {
  std::vector<std::string> catalogue = shop::load_catalogue();
  shop::Cache<uint64_t, shop::Page> cache;
  std::deque<std::string> sessions;
  puts("ready");
  fflush(stdout);
  size_t sent = 0;
  for (uint64_t id = 0;; id++) {
    sent += shop::handle_request(cache, id);
    sessions.push_back(std::string(2000, 's'));
    if (sessions.size() > 5000) sessions.pop_front();
    std::this_thread::sleep_for(std::chrono::microseconds(4000));
    if (catalogue.size() + sent == 0) puts("nothing");
  }
}
