// StateSearch: visits every state that a model of some threads can reach, each once. A state that
// no schedule reaches cannot happen.
#pragma once

#include <cstddef>
#include <set>
#include <string>

namespace seemalloc {

template <class State>
class StateSearch {
 public:
  virtual ~StateSearch() = default;

  // Explores from the initial state. Returns an empty string when no path has a problem, else the
  // first problem found.
  std::string explore() {
    visit(State{});
    return problem_;
  }
  size_t states() const { return seen_.size(); }

 protected:
  void visit(const State& s) {
    if (problem_.empty() && seen_.insert(s).second) expand(s);
  }
  std::string problem_;

 private:
  // Checks a new state, and visits all states that one step leads to.
  virtual void expand(const State& s) = 0;

  std::set<State> seen_;
};

}  // namespace seemalloc
