#include "core/heap/maintenance/walk_gate.h"

namespace seemalloc::heap {

constinit WalkGate walk_gate;

}  // namespace seemalloc::heap
