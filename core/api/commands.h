// The commands of the control socket: what a client may ask for once it has proved that it may (control.h).
//
// Each gets its arguments and leaves an answer. Threads: the helper.
#pragma once

#include "core/api/reply.h"

namespace seemalloc {

// `COMMAND [ARGS]`, NUL-terminated; it is taken apart. Requires: nothing is pending in the reply; afterwards something is.
void run_command(Reply& reply, char* line);

}  // namespace seemalloc
