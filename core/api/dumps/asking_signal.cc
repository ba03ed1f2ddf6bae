#include "core/api/dumps/asking_signal.h"

#include <signal.h>

#include "core/os/kernel/signal_mask.h"
#include "core/os/process/socket.h"

namespace seemalloc {

bool take_asking_signal(int signal, void (*handler)(int)) {
  os::SignalAction old;
  if (!os::get_action(signal, &old) || !old.is_default()) return false;
  return os::set_action(signal, {reinterpret_cast<void*>(handler), SA_RESTART, os::all_signals()});
}

bool takes_blocked_signal(int signal, void (*handler)(int)) {
  os::SignalAction now;
  if (!os::is_signal_pending(signal) || !os::get_action(signal, &now) ||
      now.handler != reinterpret_cast<void*>(handler))
    return false;
  return os::take_signal(signal);
}

}  // namespace seemalloc
