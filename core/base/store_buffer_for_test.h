// A processor's store buffer, for models of what threads do without locks: stores wait in it in their order, each until it drains,
// at any time; the thread itself sees them at once. A part of a model's state, so it can be compared and copied.
#pragma once

#include <deque>
#include <utility>

namespace seemalloc {

template <class Variable, class Value>
class StoreBuffer {
 public:
  void store(Variable variable, Value value) { waiting_.emplace_back(variable, value); }

  template <class Memory>
  Value load(const Memory& memory, Variable variable) const {
    Value value = memory[variable];
    for (const auto& [which, stored] : waiting_) {
      if (which == variable) value = stored;
    }
    return value;
  }

  // False when nothing waits.
  template <class Memory>
  bool drain_one(Memory& memory) {
    if (waiting_.empty()) return false;
    memory[waiting_.front().first] = waiting_.front().second;
    waiting_.pop_front();
    return true;
  }
  // A fence, or an atomic step.
  template <class Memory>
  void drain(Memory& memory) {
    while (drain_one(memory)) {
    }
  }

  bool has(Variable variable) const {
    for (const auto& [which, stored] : waiting_) {
      if (which == variable) return true;
    }
    return false;
  }

  auto operator<=>(const StoreBuffer&) const = default;

 private:
  std::deque<std::pair<Variable, Value>> waiting_;  // oldest first
};

}  // namespace seemalloc
