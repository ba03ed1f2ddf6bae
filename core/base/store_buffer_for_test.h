// StoreBuffer: a processor's store buffer, for models of lock-free protocols. Stores wait in it in
// order; each may drain at any time, and the thread itself sees them immediately. It is a part of a
// model's state, so it can be compared and copied.
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

  // Returns false when the buffer is empty.
  template <class Memory>
  bool drain_one(Memory& memory) {
    if (waiting_.empty()) return false;
    memory[waiting_.front().first] = waiting_.front().second;
    waiting_.pop_front();
    return true;
  }
  // A fence, or an atomic read-modify-write.
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
