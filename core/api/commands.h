// The commands of the control socket. A client may use them after it has proved its right to (control.h).
//
// Each command gets its arguments and writes a reply. Threads: the helper.
#pragma once

#include "core/api/reply.h"

namespace seemalloc {

// `COMMAND [ARGS]`, NUL-terminated; it is taken apart. Requires: nothing is pending in the reply; afterwards something is.
void run_command(Reply& reply, char* line);

}  // namespace seemalloc
