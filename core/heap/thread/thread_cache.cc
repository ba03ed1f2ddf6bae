#include "core/heap/thread/thread_cache.h"

namespace seemalloc::heap {

constinit thread_local ThreadCache thread_cache __attribute__((tls_model("initial-exec")));

}  // namespace seemalloc::heap
