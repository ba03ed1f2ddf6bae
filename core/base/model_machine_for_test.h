// ModelMachine: the machine on which a Model (model_for_test.h) runs lock-free protocols; and
// checks that many model tests make.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <source_location>
#include <string>
#include <type_traits>
#include <utility>

#include "core/base/model_for_test.h"

namespace seemalloc {

// The part of std::atomic that the protocols use. A word of a Model.
template <typename T>
class ModelAtomic {
  using Order = std::memory_order;
  using Where = std::source_location;
  using Kind = Model::Kind;

 public:
  ModelAtomic(T initial = T{}) : variable_(Model::current().new_variable(encode(initial))) {}
  ModelAtomic(const ModelAtomic&) = delete;
  ModelAtomic& operator=(const ModelAtomic&) = delete;

  T load(Order order = Order::seq_cst, Where where = Where::current()) const {
    return decode(perform(Kind::kLoad, 0, 0, order, Order::relaxed, where));
  }
  void store(T value, Order order = Order::seq_cst, Where where = Where::current()) {
    perform(Kind::kStore, encode(value), 0, order, Order::relaxed, where);
  }
  T exchange(T value, Order order = Order::seq_cst, Where where = Where::current()) {
    return decode(perform(Kind::kExchange, encode(value), 0, order, Order::relaxed, where));
  }
  T fetch_add(T by, Order order = Order::seq_cst, Where where = Where::current()) {
    return decode(perform(Kind::kAdd, encode(by), 0, order, Order::relaxed, where));
  }
  T fetch_sub(T by, Order order = Order::seq_cst, Where where = Where::current()) {
    return decode(perform(Kind::kAdd, 0 - encode(by), 0, order, Order::relaxed, where));
  }
  bool compare_exchange_strong(T& expected, T value, Order order, Order failure,
                               Where where = Where::current()) {
    uint64_t wanted = encode(expected);
    uint64_t found = perform(Kind::kCas, encode(value), wanted, order, failure, where);
    expected = decode(found);
    return found == wanted;
  }
  bool compare_exchange_weak(T& expected, T value, Order order, Order failure,
                             Where where = Where::current()) {
    return compare_exchange_strong(expected, value, order, failure, where);
  }
  unsigned variable() const { return variable_; }

 private:
  static uint64_t encode(T value) {
    uint64_t word = 0;
    memcpy(&word, &value, sizeof(value));
    return word;
  }
  static T decode(uint64_t word) {
    T value;
    memcpy(&value, &word, sizeof(value));
    return value;
  }
  uint64_t perform(Kind kind, uint64_t value, uint64_t expected, Order order, Order failure,
                   const Where& where) const {
    Model& model = Model::current();
    Model::Op op{.kind = kind, .variable = variable_, .value = value, .expected = expected};
    op.order = model.order_at(order, where, kind);
    op.failure = failure;
    op.where = Model::Site{where.file_name(), where.line(), where.column()}.text();
    return model.perform(std::move(op));
  }
  unsigned variable_;
};

// ---- the functions of shared_words.h and arch_words.h, for the words of a model ----
// A site is the place in the protocol that calls the function.

template <typename T>
T load_own(const ModelAtomic<T>& word) {
  return word.load(std::memory_order_relaxed);
}
template <typename T>
T load_relaxed(const ModelAtomic<T>& word) {
  return word.load(std::memory_order_relaxed);
}
template <typename T>
T racy_load(const ModelAtomic<T>& word) {
  return word.load(std::memory_order_relaxed);
}
template <typename T>
T load_acquire(const ModelAtomic<T>& word,
               std::source_location where = std::source_location::current()) {
  return word.load(std::memory_order_acquire, where);
}
template <typename T>
void store_relaxed(ModelAtomic<T>& word, std::type_identity_t<T> value) {
  word.store(value, std::memory_order_relaxed);
}
template <typename T>
void racy_store(ModelAtomic<T>& word, std::type_identity_t<T> value) {
  word.store(value, std::memory_order_relaxed);
}
template <typename T>
void store_release(ModelAtomic<T>& word, std::type_identity_t<T> value,
                   std::source_location where = std::source_location::current()) {
  word.store(value, std::memory_order_release, where);
}
// A load and a store: another thread's write in between is lost.
inline bool decrement_release(ModelAtomic<uint32_t>& word,
                              std::source_location where = std::source_location::current()) {
  uint32_t left = word.load(std::memory_order_relaxed) - 1;
  word.store(left, std::memory_order_release, where);
  return left == 0;
}

// A word that is not atomic. Accesses without synchronisation are reported.
template <typename T>
class Plain {
 public:
  Plain(T initial = T{}) : variable_(Model::current().new_plain((uint64_t)(initial))) {}
  operator T() const { return read(); }
  void operator=(T value) { write(value); }
  T read() const {
    return (T)(Model::current().perform({.kind = Model::Kind::kPlainLoad, .variable = variable_}));
  }
  void write(T value) {
    Model::current().perform(
        {.kind = Model::Kind::kPlainStore, .variable = variable_, .value = (uint64_t)(value)});
  }

 private:
  unsigned variable_;
};

template <typename T>
T load_own(const Plain<T>& word) {
  return word.read();
}

// A lock of which lock_model_test.cc has shown that it is one.
struct ModelLock {
  ModelAtomic<uint32_t> held;
  bool try_lock() {
    uint32_t free = 0;
    return held.compare_exchange_strong(free, 1, std::memory_order_acquire,
                                        std::memory_order_relaxed);
  }
  inline void lock();
  void unlock() { held.store(0, std::memory_order_release); }
};

// The machine of models: see os::RealMachine.
struct ModelMachine {
  using Where = std::source_location;
  template <typename T>
  using Atomic = ModelAtomic<T>;
  static constexpr int kSpinsBeforeSleep = 1;

  static void compiler_fence() {}
  static bool fence_all_threads(Where where = Where::current()) {
    Model& model = Model::current();
    return !model.acts_at(where, Model::Kind::kFenceAll) ||
           model.perform({.kind = Model::Kind::kFenceAll, .where = "fence"}) != 0;
  }
  template <typename T>
  static bool futex_wait(const ModelAtomic<T>* word, uint32_t expected, uint64_t timeout_ns) {
    return Model::current().perform({.kind = Model::Kind::kWait,
                                     .variable = word->variable(),
                                     .expected = expected,
                                     .times_out = timeout_ns != 0}) != 0;
  }
  template <typename T>
  static void futex_wake(const ModelAtomic<T>* word, int, Where where = Where::current()) {
    Model& model = Model::current();
    if (model.acts_at(where, Model::Kind::kWake))
      model.perform({.kind = Model::Kind::kWake, .variable = word->variable()});
  }
  static void pause(uint64_t) { Model::current().perform({.kind = Model::Kind::kPause}); }
  static uint64_t monotonic_ns() { return 0; }
};

inline void ModelLock::lock() {
  while (!try_lock()) ModelMachine::pause(1);
}

// A critical section: reports a second thread in it, and one that does not see what the last one
// wrote.
class ModelSection {
 public:
  void use(unsigned thread) {
    unsigned uses = uses_.read();
    inside_.write(thread);
    Model::current().check(inside_.read() == thread, "two threads are in");
    uses_.write(uses + 1);
  }
  unsigned uses() const { return uses_.read(); }

 private:
  Plain<unsigned> inside_, uses_;
};

// Explores a world: what the threads of a model share, made after the model. It has `kThreads`, and
// start(model), which adds the threads and sets the model's options. Returns the problem, or "".
// `change` may change the model before the exploration; `inspect` is called after it.
using ModelChange = std::function<void(Model&)>;
template <class World>
std::string explore(
    const ModelChange& change = [](Model&) {},
    const std::function<void(const Model&, const World&)>& inspect = [](const Model&,
                                                                        const World&) {}) {
  auto model = std::make_unique<Model>(World::kThreads);
  auto world = std::make_unique<World>();
  world->start(*model);
  change(*model);
  std::string problem = model->explore();
  inspect(*model, *world);
  return problem;
}

// The problem of a broken variant, without the steps that lead to it.
template <class World>
std::string problem_of() {
  std::string problem = explore<World>();
  return problem.substr(0, problem.find('\n'));
}

// Explores the world with each order of the shipped code weakened, one at a time: seq_cst to
// acq_rel, each order to relaxed, a fence or a wake to nothing. Returns the sites in `file` for
// which no problem was found.
template <class World>
std::string unneeded_orders(const std::string& file, unsigned* tried) {
  std::map<Model::Site, Model::Met> sites;
  std::string unneeded = explore<World>(
      [](Model&) {}, [&](const Model& model, const World&) { sites = model.sites(); });
  for (const auto& [site, met] : sites) {
    if (!met.orders || !site.file.ends_with(file)) continue;
    for (bool only_seq_cst : {true, false}) {
      if (only_seq_cst && !met.seq_cst) continue;
      ++*tried;
      std::string problem = explore<World>([&](Model& model) { model.weaken(site, only_seq_cst); });
      if (problem.empty())
        unneeded += met.name + (only_seq_cst ? ": acq_rel is enough\n" : ": relaxed is enough\n");
      if (problem == "too many states") unneeded += met.name + ": too many states\n";
    }
  }
  return unneeded;
}

}  // namespace seemalloc
