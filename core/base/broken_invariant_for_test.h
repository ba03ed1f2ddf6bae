// For tests of the walks that check invariants (verify.h): breaks one field, and expects that the
// walk names the invariant.
#pragma once

#include <gtest/gtest.h>
#include <string.h>

#include <utility>

namespace seemalloc {

// Sets a field for as long as this lives.
template <typename T>
class Broken {
 public:
  Broken(T& field, T value) : field_(field), before_(std::exchange(field, value)) {}
  ~Broken() { field_ = before_; }

 private:
  T& field_;
  T before_;
};
template <typename T, typename V>
Broken(T&, V) -> Broken<T>;

#define EXPECT_BROKEN(invariant, found) \
  EXPECT_NE(strstr(text_of(found), "invariant " invariant ":"), nullptr) << text_of(found)
inline const char* text_of(const char* broken) {
  return broken != nullptr ? broken : "nothing is broken";
}

}  // namespace seemalloc
