#include "core/heap/thread/helper_link.h"

namespace seemalloc::heap {

constinit std::atomic<void (*)()> on_slow_free{nullptr};
std::atomic<const void*> hole_helper_thread{nullptr};

}  // namespace seemalloc::heap
