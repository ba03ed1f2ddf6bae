// The place of the control socket: the first of these folders that belongs to this user alone, or can be made so.
//
//   1. the option socket_dir     3. $XDG_RUNTIME_DIR/seemalloc-UID (of when the library was loaded)
//   2. /tmp/seemalloc-UID        4. /dev/shm/seemalloc-UID
// The tool looks in the same places (tool/attach/process.go). The reason why a place failed is kept for the
// statistics. If there is no socket, the helper's thread tells the tool: it is then named after the reason, `seemalloc:30` (an errno)
// or `seemalloc:other`.
// Threads: the helper; write_socket_json() any.
#pragma once

#include "core/base/text.h"

namespace seemalloc {

// At load.
void remember_runtime_folder(const char* path);

// Makes the socket of this process, and appends its path: a listening descriptor, or -1 where no place can be had.
int open_socket(Text& path);
// It is closed; or, in the child of fork, it is the parent's.
void forget_socket();

// {"path":"/tmp/…/12.sock","refused":[{"folder":"/tmp/…","why":"no space left"}]}; no path where there is no socket.
void write_socket_json(Text& out);

}  // namespace seemalloc
