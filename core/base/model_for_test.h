// Model: runs the shipped code of a lock-free protocol in every interleaving, on a machine with
// weak memory.
//
// A protocol is a template over its machine (core/os/kernel/real_machine.h). The test instantiates
// it with ModelMachine, whose atomic words are variables of a Model, and gives each thread a body.
// explore() visits every reachable state once.
//
// How: a thread's next operation is a function of the results of its earlier operations. So a state
// holds, per thread, these results since its body began. To find the next operation, the body runs
// from its beginning on a stack of its own with these results, up to the first operation without a
// result. There it is abandoned. A body must therefore be deterministic, and have no effect but
// through the model.
//
// Memory: per variable the stores in order, each with the view of its thread if it releases. A load
// may return any store that its thread has not seen a later one of; an acquiring load takes over
// the view of the store. A read-modify-write reads the last store, and continues its release
// sequence. Sequentially consistent accesses of a variable never return a store older than an
// earlier one of them saw. A fence in all threads joins all views. Left out: loads that see stores
// of the future (load buffering), and stores that are ordered before earlier ones.
// stores_continue_releases adds what our processors promise beyond C++.
//
// explore() reports a failed check(), a data race on a Plain, and a state from which not all
// threads can end.
// Orders are tested too: weaken() replaces one order of the shipped code by a weaker one, and
// unneeded_orders() (model_machine_for_test.h) tries this for each. model_test.cc checks the memory
// by known litmus tests.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <source_location>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace seemalloc {

// Per variable, the number of the oldest store that may still be read.
using View = std::vector<uint32_t>;

inline void join(View& into, const View& other) {
  for (size_t i = 0; i < other.size(); i++) into[i] = std::max(into[i], other[i]);
}
inline bool acquires(std::memory_order order) {
  return order == std::memory_order_acquire || order == std::memory_order_acq_rel ||
         order == std::memory_order_seq_cst;
}
inline bool releases(std::memory_order order) {
  return order == std::memory_order_release || order == std::memory_order_acq_rel ||
         order == std::memory_order_seq_cst;
}

class Model {
 public:
  // A place in the code that accesses an atomic word, fences or wakes.
  struct Site {
    std::string file;
    unsigned line = 0, column = 0;
    auto operator<=>(const Site&) const = default;
    std::string text() const {
      return file.substr(file.rfind('/') + 1) + ":" + std::to_string(line);
    }
  };
  enum class Kind {
    kLoad,
    kStore,
    kExchange,
    kAdd,
    kCas,
    kPlainLoad,
    kPlainStore,
    kFenceAll,
    kWait,
    kWake,
    kPause,
    kEnd,
    kProblem
  };
  struct Op {
    Kind kind = Kind::kEnd;
    unsigned variable = 0;
    uint64_t value = 0, expected = 0;
    std::memory_order order = std::memory_order_relaxed, failure = std::memory_order_relaxed;
    bool times_out = false;
    std::string problem{}, where{};
  };

  explicit Model(unsigned threads) : threads_(threads) { current_ = this; }
  ~Model() { current_ = nullptr; }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  static Model& current() { return *current_; }

  // Adds a thread, which runs its body this many times. A body may consist of phases: what a phase
  // does must not depend on the results of earlier ones, so these are forgotten, and fewer states
  // differ.
  using Phases = std::vector<std::function<void()>>;
  void thread(Phases body, unsigned times) { bodies_.push_back({std::move(body), times}); }
  // Called in a body: leaves out its other phases.
  void end_body() { perform({.kind = Kind::kEnd, .value = 1}); }
  // The code under test calls fence_all_threads().
  bool has_fences = false;
  // A thread's store to a word that it has stored last, with release, releases the same again.
  // C++20 does not promise that (C++11 did), but our processors do it: x86-64 keeps stores in
  // order, ARMv8 orders a releasing store before the thread's next store to the same word.
  bool stores_continue_releases = false;
  // Called before each run of a body: resets variables that are private to a thread.
  std::function<void()> before_run;
  // Called when all threads have ended; returns a problem, or "".
  std::function<std::string()> at_end;

  // Returns "" or the first problem, with the steps that lead to it.
  std::string explore() {
    if (bodies_.size() != threads_) return "another number of threads than announced";
    State first;
    for (uint64_t value : initial_) first.stores.push_back({{value, {}}});
    first.threads.resize(bodies_.size());
    for (Thread& thread : first.threads) thread.view.assign(initial_.size(), 0);
    first.sc.assign(initial_.size(), 0);
    visit(std::move(first), 0, "");
    while (!work_.empty() && problem_.empty()) {
      auto [state, index] = std::move(work_.back());
      work_.pop_back();
      step_all(state, index);
      if (nodes_.size() > kMaxStates) problem_ = "too many states";
    }
    if (problem_.empty()) check_that_all_can_end();
    return problem_;
  }
  size_t states() const { return nodes_.size(); }

  // Replaces the order at this site by relaxed, or a seq_cst by acq_rel; fences and wakes do
  // nothing.
  void weaken(const Site& site, bool only_seq_cst) {
    weakened_ = site;
    only_seq_cst_ = only_seq_cst;
  }
  struct Met {
    bool orders, seq_cst;  // whether it can be weakened
    std::string name;      // function and operation
  };
  // The sites that were met.
  const std::map<Site, Met>& sites() const { return sites_; }

  // ---- called by the code under test ----

  unsigned new_plain(uint64_t initial) {
    unsigned variable = new_variable(initial);
    for (unsigned i = 0; i < threads_; i++) new_variable(0);
    return variable;
  }
  unsigned new_variable(uint64_t initial) {
    initial_.push_back(initial);
    return static_cast<unsigned>(initial_.size() - 1);
  }
  std::memory_order order_at(std::memory_order order, const std::source_location& where,
                             Kind kind) {
    Site site =
        note(where, kind, order != std::memory_order_relaxed, order == std::memory_order_seq_cst);
    if (site != weakened_) return order;
    if (!only_seq_cst_) return std::memory_order_relaxed;
    return order == std::memory_order_seq_cst ? std::memory_order_acq_rel : order;
  }
  bool acts_at(const std::source_location& where, Kind kind) {
    return note(where, kind, true, false) != weakened_;
  }
  uint64_t perform(Op op) {
    if (!in_fiber_) return outside(op);
    if (next_result_ < results_->size()) return (*results_)[next_result_++];
    op_ = std::move(op);
    swapcontext(&fiber_, &main_);
    abort();  // an abandoned body is never resumed
  }
  void check(bool holds, const char* problem) {
    if (!holds) perform({.kind = Kind::kProblem, .problem = problem});
  }

 private:
  static constexpr size_t kMaxStates = 3'000'000;
  static constexpr size_t kMaxResults = 100;
  static constexpr unsigned kEarlyTimeouts = 1;

  struct Store {
    uint64_t value;
    View view;                 // empty: does not release anything
    size_t thread = SIZE_MAX;  // with stores_continue_releases: of a releasing store
  };
  struct Thread {
    unsigned runs = 0, phase = 0, timeouts = 0;
    unsigned asleep_on = 0;  // variable + 1
    // Number of results up to the last operation that other threads can notice.
    size_t effect = 0;
    bool done = false;
    std::vector<uint64_t> results;
    View view;
  };
  struct State {
    std::vector<std::vector<Store>> stores;  // per variable, oldest first
    std::vector<Thread> threads;
    View sc;  // per variable, the newest store that a sequentially consistent access has seen
  };
  struct Body {
    Phases phases;
    unsigned times;
  };
  struct Node {
    std::string step;
    size_t parent;
    std::vector<size_t> before;
    bool ends = false;
  };

  static const char* name_of(Kind kind) {
    static const char* const kNames[] = {"load",  "store", "exchange", "add",  "cas",
                                         "read",  "write", "fence",    "wait", "wake",
                                         "pause", "end",   "problem"};
    return kNames[static_cast<int>(kind)];
  }
  Site note(const std::source_location& where, Kind kind, bool orders, bool seq_cst) {
    Site site{where.file_name(), where.line(), where.column()};
    Met& met = sites_[site];
    if (met.name.empty()) {
      std::string function = where.function_name();
      function.erase(function.find('('));
      size_t before = function.find_last_of(": ");
      met.name =
          function.substr(before == std::string::npos ? 0 : before + 1) + " " + name_of(kind);
    }
    met.orders |= orders;
    met.seq_cst |= seq_cst;
    return site;
  }

  // at_end() reads the last values.
  uint64_t outside(const Op& op) { return (*last_)[op.variable].back().value; }

  // ---- the next operation of a thread ----

  const Op& next_op(const State& state, size_t thread) {
    std::string key{static_cast<char>(thread), static_cast<char>(state.threads[thread].phase)};
    const auto& results = state.threads[thread].results;
    key.append(reinterpret_cast<const char*>(results.data()), results.size() * sizeof(uint64_t));
    auto found = ops_.find(key);
    if (found != ops_.end()) return found->second;
    if (before_run) before_run();
    results_ = &results;
    next_result_ = 0;
    running_ = &bodies_[thread].phases[state.threads[thread].phase];
    op_ = Op{};
    getcontext(&fiber_);
    fiber_.uc_stack.ss_sp = stack_;
    fiber_.uc_stack.ss_size = sizeof(stack_);
    fiber_.uc_link = &main_;
    makecontext(&fiber_, run_body, 0);
    in_fiber_ = true;
    swapcontext(&main_, &fiber_);
    in_fiber_ = false;
    return ops_.emplace(std::move(key), std::move(op_)).first->second;
  }
  static void run_body() {
    Model& model = current();
    (*model.running_)();
    model.op_ = Op{};  // kEnd
  }

  // ---- states ----

  // Forgets stores that no thread can read any more, so that equal states look equal.
  static void normalise(State& state) {
    for (size_t v = 0; v < state.stores.size(); v++) {
      uint32_t oldest = static_cast<uint32_t>(state.stores[v].size() - 1);
      for (const Thread& thread : state.threads) {
        if (!thread.done) oldest = std::min(oldest, thread.view[v]);
      }
      if (oldest == 0) continue;
      state.stores[v].erase(state.stores[v].begin(), state.stores[v].begin() + oldest);
      auto lower = [oldest](uint32_t& number) { number = number < oldest ? 0 : number - oldest; };
      for (Thread& thread : state.threads) lower(thread.view[v]);
      for (auto& stores : state.stores) {
        for (Store& store : stores) {
          if (!store.view.empty()) lower(store.view[v]);
        }
      }
      lower(state.sc[v]);
    }
    for (auto& stores : state.stores) {
      for (Store& store : stores) {
        if (std::all_of(store.view.begin(), store.view.end(),
                        [](uint32_t number) { return number == 0; }))
          store.view.clear();
      }
    }
  }
  static std::string key_of(const State& state) {
    std::string key;
    auto add = [&key](uint64_t word) {
      key.append(reinterpret_cast<const char*>(&word), sizeof(word));
    };
    auto add_view = [&key](const View& view) {
      for (size_t v = 0; v < view.size(); v++) {
        if (view[v] != 0) key += static_cast<char>(v + 1), key += static_cast<char>(view[v]);
      }
      key += '\0';
    };
    for (const auto& stores : state.stores) {
      key += static_cast<char>(stores.size());
      for (const Store& store : stores) {
        add(store.value), add_view(store.view);
        key += static_cast<char>(store.thread);
      }
    }
    for (const Thread& thread : state.threads) {
      key += static_cast<char>(thread.runs), key += static_cast<char>(thread.phase),
          key += static_cast<char>(thread.timeouts);
      key += static_cast<char>(thread.asleep_on), key += static_cast<char>(thread.effect);
      key += static_cast<char>(thread.results.size());
      for (uint64_t result : thread.results) add(result);
      add_view(thread.view);
    }
    add_view(state.sc);
    return key;
  }
  void visit(State state, size_t parent, std::string step) {
    normalise(state);
    auto [at, is_new] = index_.try_emplace(key_of(state), nodes_.size());
    if (is_new) {
      nodes_.push_back({std::move(step), parent, {}});
      work_.emplace_back(std::move(state), at->second);
    }
    nodes_[at->second].before.push_back(parent);
  }
  void fail(size_t index, const std::string& problem) {
    if (!problem_.empty()) return;
    std::vector<std::string> steps;
    for (; index != 0; index = nodes_[index].parent) steps.push_back(nodes_[index].step);
    problem_ = problem;
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) problem_ += "\n  " + *step;
  }
  // From every state, a path must lead to the end: else a thread sleeps or waits for ever.
  void check_that_all_can_end() {
    std::vector<bool> can_end(nodes_.size());
    std::vector<size_t> work;
    for (size_t i = 0; i < nodes_.size(); i++) {
      if (nodes_[i].ends) can_end[i] = true, work.push_back(i);
    }
    while (!work.empty()) {
      size_t i = work.back();
      work.pop_back();
      for (size_t before : nodes_[i].before) {
        if (!can_end[before]) can_end[before] = true, work.push_back(before);
      }
    }
    for (size_t i = 0; i < nodes_.size(); i++) {
      if (!can_end[i]) return fail(i, "a thread waits for ever");
    }
  }

  // ---- steps ----

  void step_all(const State& state, size_t index) {
    bool done = true, awake = false;
    for (const Thread& thread : state.threads) {
      done &= thread.done;
      awake |= !thread.done && thread.asleep_on == 0;
    }
    if (done) {
      nodes_[index].ends = true;
      last_ = &state.stores;
      std::string problem = at_end ? at_end() : "";
      last_ = nullptr;
      if (!problem.empty()) fail(index, problem);
      return;
    }
    if (step_unnoticed(state, index)) return;
    for (size_t t = 0; t < state.threads.size(); t++) {
      const Thread& thread = state.threads[t];
      if (thread.done) continue;
      const Op& op = next_op(state, t);
      set_step(index, t, op);
      if (thread.asleep_on != 0) {
        if (op.times_out && (!awake || thread.timeouts < kEarlyTimeouts)) time_out(state);
      } else {
        step(state, op);
      }
    }
  }
  void set_step(size_t index, size_t thread, const Op& op) {
    from_ = index;
    step_ = &op;
    stepping_ = thread;
  }
  // An operation that other threads cannot notice without a data race: its order among theirs does
  // not matter. A fence in all threads does notice which of a thread's stores came before it.
  bool step_unnoticed(const State& state, size_t index) {
    for (size_t t = 0; t < state.threads.size(); t++) {
      const Thread& thread = state.threads[t];
      if (thread.done || thread.asleep_on != 0) continue;
      const Op& op = next_op(state, t);
      bool plain = op.kind == Kind::kPlainLoad || op.kind == Kind::kPlainStore;
      if (op.kind != Kind::kEnd && op.kind != Kind::kProblem && (!plain || has_fences)) continue;
      set_step(index, t, op);
      step(state, op);
      return true;
    }
    return false;
  }
  void proceed(State& state, uint64_t result, bool effect) {
    Thread& thread = state.threads[stepping_];
    thread.results.push_back(result);
    if (effect) thread.effect = thread.results.size();
    if (thread.results.size() > kMaxResults) return fail(from_, "a thread does not end");
    go(state, result);
  }
  void go(State& state, uint64_t result) {
    visit(std::move(state), from_,
          std::to_string(stepping_) + ": " + step_->where + " " + name_of(step_->kind) + " v" +
              std::to_string(step_->variable) + " " + std::to_string(step_->value) + " -> " +
              std::to_string(result));
  }
  void time_out(State state) {
    Thread& thread = state.threads[stepping_];
    thread.asleep_on = 0;
    thread.timeouts = std::min(thread.timeouts + 1, kEarlyTimeouts);
    proceed(state, 1, true);
  }

  void step(const State& state, const Op& op) {
    switch (op.kind) {
      case Kind::kLoad: return load(state, op, op.order, false);
      case Kind::kCas:
        if (state.stores[op.variable].back().value == op.expected) modify(state, op, op.value);
        return load(state, op, op.failure, true);
      case Kind::kExchange: return modify(state, op, op.value);
      case Kind::kAdd: return modify(state, op, state.stores[op.variable].back().value + op.value);
      case Kind::kPlainLoad:
      case Kind::kPlainStore: return plain(state, op);
      case Kind::kStore: {
        State next = state;
        const Store& last = state.stores[op.variable].back();
        bool continues = stores_continue_releases && last.thread == stepping_;
        append(next, op, continues ? last.view : View{});
        if (stores_continue_releases && (continues || releases(op.order)))
          next.stores[op.variable].back().thread = stepping_;
        return proceed(next, 0, true);
      }
      case Kind::kFenceAll: return fence_all(state);
      case Kind::kWait: return wait(state, op);
      case Kind::kWake: return wake(state, op);
      // Back to before the loads that found nothing: another thread has to act first.
      case Kind::kPause: {
        State next = state;
        next.threads[stepping_].results.resize(next.threads[stepping_].effect);
        return go(next, 0);
      }
      case Kind::kEnd: return end(state, op);
      case Kind::kProblem: return fail(from_, op.problem);
    }
  }

  void load(const State& state, const Op& op, std::memory_order order, bool fails) {
    uint32_t first = state.threads[stepping_].view[op.variable];
    bool sc = order == std::memory_order_seq_cst;
    if (sc) first = std::max(first, state.sc[op.variable]);
    for (uint32_t i = first; i < state.stores[op.variable].size(); i++) {
      const Store& store = state.stores[op.variable][i];
      if (fails && store.value == op.expected) continue;
      State next = state;
      View& view = next.threads[stepping_].view;
      view[op.variable] = i;
      if (acquires(order)) join(view, store.view);
      if (sc) next.sc[op.variable] = i;
      proceed(next, store.value, false);
    }
  }
  // Adds a store; `before` is the view of the store that a read-modify-write has read.
  void append(State& next, const Op& op, const View& before) {
    Thread& thread = next.threads[stepping_];
    auto& stores = next.stores[op.variable];
    uint32_t number = static_cast<uint32_t>(stores.size());
    thread.view[op.variable] = number;
    View view = before;
    if (releases(op.order)) {
      view.resize(thread.view.size());
      join(view, thread.view);
    }
    stores.push_back({op.value, std::move(view)});
    if (op.order == std::memory_order_seq_cst) next.sc[op.variable] = number;
  }
  void modify(const State& state, const Op& op, uint64_t value) {
    const Store& last = state.stores[op.variable].back();
    State next = state;
    if (acquires(op.order)) join(next.threads[stepping_].view, last.view);
    Op store = op;
    store.value = value;
    append(next, store, last.view);
    proceed(next, last.value, true);
  }
  // A Plain is one variable for its value, and one per thread for that thread's reads.
  void plain(const State& state, const Op& op) {
    const View& view = state.threads[stepping_].view;
    auto sees_last = [&](unsigned variable) {
      return view[variable] + 1 == state.stores[variable].size();
    };
    bool writes = op.kind == Kind::kPlainStore, races = !sees_last(op.variable);
    for (unsigned i = 0; writes && i < state.threads.size(); i++)
      races |= !sees_last(op.variable + 1 + i);
    if (races) return fail(from_, "data race");
    State next = state;
    append_plain(next, writes ? op.variable : static_cast<unsigned>(op.variable + 1 + stepping_),
                 writes ? op.value : 0);
    proceed(next, state.stores[op.variable].back().value, writes);
  }
  // Of an access that is not atomic, only one thing matters: has a thread seen the last one?
  void append_plain(State& next, unsigned variable, uint64_t value) {
    next.stores[variable] = {{0, {}}, {value, {}}};
    for (Thread& thread : next.threads) thread.view[variable] = 0;
    for (auto& stores : next.stores) {
      for (Store& store : stores) {
        if (!store.view.empty()) store.view[variable] = 0;
      }
    }
    next.threads[stepping_].view[variable] = 1;
  }
  void fence_all(const State& state) {
    if (!has_fences) return fail(from_, "has_fences is not set");
    State next = state;
    View all(state.stores.size(), 0);
    for (const Thread& thread : state.threads) join(all, thread.view);
    for (Thread& thread : next.threads) {
      if (!thread.done) thread.view = all;
    }
    proceed(next, 1, true);
  }
  void wait(const State& state, const Op& op) {
    State next = state;
    Thread& thread = next.threads[stepping_];
    // The kernel reads the last value.
    thread.view[op.variable] = static_cast<uint32_t>(state.stores[op.variable].size() - 1);
    if (state.stores[op.variable].back().value != op.expected) return proceed(next, 1, true);
    thread.asleep_on = op.variable + 1;
    slept_ = true;
    go(next, 0);
  }
  void wake(const State& state, const Op& op) {
    bool any = false;
    for (size_t t = 0; t < state.threads.size(); t++) {
      if (state.threads[t].asleep_on != op.variable + 1) continue;
      any = true;
      State next = state;
      Thread& sleeper = next.threads[t];
      sleeper.asleep_on = 0;
      sleeper.results.push_back(1);
      sleeper.effect = sleeper.results.size();
      proceed(next, 1, true);
    }
    if (!any) {
      State next = state;
      proceed(next, 0, true);
    }
  }
  void end(const State& state, const Op& op) {
    State next = state;
    Thread& thread = next.threads[stepping_];
    thread.effect = 0;
    thread.results.clear();
    if (++thread.phase < bodies_[stepping_].phases.size() && op.value == 0) return go(next, 0);
    thread.phase = 0;
    thread.timeouts = 0;
    thread.runs++;
    // Its view stays: a fence in all threads includes ended ones.
    thread.done = thread.runs == bodies_[stepping_].times;
    go(next, 0);
  }

  static inline Model* current_ = nullptr;
  unsigned threads_;
  std::vector<uint64_t> initial_;
  std::vector<Body> bodies_;
  std::map<Site, Met> sites_;
  Site weakened_;
  bool only_seq_cst_ = false;

  // The run of a body.
  ucontext_t main_, fiber_;
  alignas(64) char stack_[256 * 1024];
  bool in_fiber_ = false;
  const std::vector<uint64_t>* results_ = nullptr;
  size_t next_result_ = 0;
  const std::function<void()>* running_ = nullptr;
  Op op_;
  std::unordered_map<std::string, Op> ops_;  // by thread and results

  // The search.
  std::unordered_map<std::string, size_t> index_;
  std::vector<Node> nodes_;
  std::vector<std::pair<State, size_t>> work_;
  const std::vector<std::vector<Store>>* last_ = nullptr;
  size_t from_ = 0, stepping_ = 0;
  const Op* step_ = nullptr;
  bool slept_ = false;
  std::string problem_;

 public:
  bool a_thread_slept() const { return slept_; }
};

}  // namespace seemalloc
