// ScopedHelperStop: there is no helper thread while this object exists, so that a call that changes
// credentials or namespaces affects all threads. Keeps errno.
#pragma once

#include <errno.h>

#include "core/api/helper/helper.h"

namespace seemalloc {

class ScopedHelperStop {
 public:
  // kIfAlone is for calls that affect the calling thread only: if the program has other threads,
  // they keep their credentials, and so does the helper thread.
  enum When { kNever, kIfAlone, kAlways };
  explicit ScopedHelperStop(When when) : is_away_(when != kNever && steps_aside(when)) {}
  ScopedHelperStop(const ScopedHelperStop&) = delete;
  ScopedHelperStop& operator=(const ScopedHelperStop&) = delete;
  ~ScopedHelperStop() {
    if (!is_away_) return;
    int saved_errno = errno;
    restart_helper();
    errno = saved_errno;
  }

 private:
  static bool steps_aside(When when) {
    int saved_errno = errno;
    bool is_away = (when == kAlways || helper_is_only_other_thread()) && stop_helper_temporarily();
    errno = saved_errno;
    return is_away;
  }

  bool is_away_;
};

}  // namespace seemalloc
