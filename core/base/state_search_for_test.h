// Visits every state that a model of some threads can reach, each once: what no schedule reaches cannot happen.
#pragma once

#include <cstddef>
#include <set>
#include <string>

namespace seemalloc {

template <class State>
class StateSearch {
 public:
  virtual ~StateSearch() = default;

  // From the first state on; empty when no path has a problem, else the first that was found.
  std::string explore() {
    visit(State{});
    return problem_;
  }
  size_t states() const { return seen_.size(); }

 protected:
  void visit(const State& s) {
    if (problem_.empty() && seen_.insert(s).second) go_on(s);
  }
  std::string problem_;

 private:
  // Judges a state that is new, and visits all that one step makes of it.
  virtual void go_on(const State& s) = 0;

  std::set<State> seen_;
};

}  // namespace seemalloc
