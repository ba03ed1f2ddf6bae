// The commands of the control socket. A client may use them after it has authenticated itself
// (control.h).
//
// Each command gets its arguments and writes a reply. Threads: the helper thread.
#pragma once

#include "core/api/service/reply.h"

namespace seemalloc {

// `COMMAND [ARGS]`, NUL-terminated; the line is modified. Requires: nothing is pending in the
// reply; afterwards an answer is.
void run_command(Reply& reply, char* line);

}  // namespace seemalloc
