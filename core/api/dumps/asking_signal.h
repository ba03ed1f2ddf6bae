// Signals by which a user requests work from the helper thread: options dump_signal and cpu_signal.
#pragma once

namespace seemalloc {

// Installs the handler of such a signal. Returns false if the program uses the signal, or if it
// cannot be caught.
bool take_asking_signal(int signal, void (*handler)(int));
// Called by the helper thread: consumes such a signal that is pending for the process, because all
// threads have blocked it. Returns false if none is pending, or if it has another handler by now.
bool takes_blocked_signal(int signal, void (*handler)(int));

}  // namespace seemalloc
