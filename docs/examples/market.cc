// A market whose connections leave a subscription behind: the leak of docs/cpp.md. Both channels are one template.
#include <chrono>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <thread>
#include <vector>

namespace market {

struct Quote {
  char symbol[16];
  double bid, ask;
};

struct Order {
  char symbol[16];
  long count;
};

// The subscribers of one type of message, each with the last messages that it has received.
template <class Message>
class Channel {
 public:
  int subscribe() {
    inboxes_.emplace(++last_, std::vector<Message>(kMessages));
    return last_;
  }

  void cancel(int subscriber) { inboxes_.erase(subscriber); }

 private:
  static constexpr size_t kMessages = 500;

  std::map<int, std::vector<Message>> inboxes_;
  int last_ = 0;
};

Channel<Quote> quotes;
Channel<Order> orders;

class Connection {
 public:
  Connection() : quotes_(quotes.subscribe()), orders_(orders.subscribe()) {}
  ~Connection() { orders.cancel(orders_); }  // quotes_ is forgotten

 private:
  int quotes_, orders_;
};

}  // namespace market

int main() {
  std::deque<std::unique_ptr<market::Connection>> open;
  puts("ready");
  fflush(stdout);
  for (;;) {
    open.push_back(std::make_unique<market::Connection>());
    if (open.size() > 500) open.pop_front();
    std::this_thread::sleep_for(std::chrono::milliseconds(4));
  }
}
