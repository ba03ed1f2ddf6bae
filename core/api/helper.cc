#include "core/api/helper.h"
namespace seemalloc {
void start_helper_if_due() {}
void start_helper_at_load() {}
void stop_helper_at_exit() {}
void lock_helper_for_fork() {}
void unlock_helper_after_fork(bool) {}
}
