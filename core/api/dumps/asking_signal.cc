#include "core/api/dumps/asking_signal.h"

#include <signal.h>

#include "core/os/kernel/signal_mask.h"
#include "core/os/process/socket.h"

namespace seemalloc {

bool take_asking_signal(int signal, void (*handler)(int)) {
  struct sigaction old {
  }, action{};
  if (!os::get_action(signal, &old) || old.sa_handler != SIG_DFL) return false;
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigfillset(&action.sa_mask);
  return os::set_action(signal, action);
}

bool takes_blocked_signal(int signal, void (*handler)(int)) {
  struct sigaction now {};
  if (!os::is_signal_pending(signal) || !os::get_action(signal, &now) || now.sa_handler != handler)
    return false;
  return os::take_signal(signal);
}

}  // namespace seemalloc
