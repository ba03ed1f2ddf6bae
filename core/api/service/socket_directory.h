// The directory of the control socket: the first of these that belongs to this user alone, or can
// be created so.
//
//   1. the option socket_dir     3. $XDG_RUNTIME_DIR/seemalloc-UID (its value when the library was
//      loaded)
//   2. /tmp/seemalloc-UID        4. /dev/shm/seemalloc-UID
// The tool looks in the same directories (tool/attach/process.go). The reason why a directory was
// refused is kept for the statistics. If there is no socket, the helper thread informs the tool: it
// is then named after the reason, `seemalloc:30` (an errno) or `seemalloc:other`.
// Threads: the helper thread; write_socket_json() any.
#pragma once

#include "core/base/text.h"

namespace seemalloc {

// Called at load.
void set_runtime_directory(const char* path);

// Creates the socket of this process, and appends its path: returns a listening descriptor, or -1
// if every directory is refused.
int open_socket(Text& path);
// Called when it is closed; and in the child of fork, where it is the parent's.
void forget_socket();

// {"path":"/tmp/…/12.sock","refused":[{"directory":"/tmp/…","reason":"no space left"}]}; no path
// where there is no socket.
void write_socket_json(Text& out);

}  // namespace seemalloc
