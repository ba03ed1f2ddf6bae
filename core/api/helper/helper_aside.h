// HelperAside: there is no helper thread while this object exists, so that a call that changes
// credentials or namespaces affects all threads. Keeps errno.
#pragma once

#include <errno.h>

#include "core/api/helper/helper.h"

namespace seemalloc {

class HelperAside {
 public:
  // kIfAlone is for calls that affect the calling thread only: if the program has other threads,
  // they keep their credentials, and so does the helper thread.
  enum When { kNever, kIfAlone, kAlways };
  explicit HelperAside(When when) : is_away_(when != kNever && steps_aside(when)) {}
  HelperAside(const HelperAside&) = delete;
  HelperAside& operator=(const HelperAside&) = delete;
  ~HelperAside() {
    if (!is_away_) return;
    int saved_errno = errno;
    helper_comes_back();
    errno = saved_errno;
  }

 private:
  static bool steps_aside(When when) {
    int saved_errno = errno;
    bool is_away = (when == kAlways || helper_is_only_other_thread()) && helper_steps_aside();
    errno = saved_errno;
    return is_away;
  }

  bool is_away_;
};

}  // namespace seemalloc
