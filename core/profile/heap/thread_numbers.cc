#include "core/profile/heap/thread_numbers.h"

#include "core/os/kernel/ids.h"
#include "core/os/process/threads.h"
#include "core/profile/heap/records.h"

namespace seemalloc::profile {

constinit thread_local uint32_t thread_number_cache = 0;

namespace {

// The number of the thread that called fork, in the child, if it is an unnamed one. Written while
// there is only one thread.
struct ForkedThreadNumber {
  uint32_t recorded, now;
};
constinit ForkedThreadNumber renumbered{};

// Makes numbers available again: those of threads that have exited and have no live samples. Walks
// the live table.
void recycle_thread_numbers(ThreadTable::When when) {
  if (!records.threads.begin_recycling(when)) return;
  ThreadTable::SlotSet marks;
  records.live.for_each_alive([&](const LiveSample& sample) {
    if (is_thread_number(sample.thread)) marks.set(ThreadTable::slot_of(sample.thread));
  });
  records.threads.recycle(marks);
}

}  // namespace

SEEMALLOC_NOINLINE uint32_t assign_thread_number() {
  uint32_t id = static_cast<uint32_t>(os::thread_id());
  char name[os::kThreadNameBytes] = {};
  os::own_thread_name(name);
  // Threads that have exited and have no live samples take up records, so that profiles of
  // lifetimes cannot distinguish other threads.
  size_t most = max_thread_lifetimes();
  if (records.thread_lifetimes.is_full(most) && records.threads.should_recycle(most / 4))
    recycle_thread_numbers(ThreadTable::When::kEarly);
  uint32_t number = records.threads.add(id, name);
  if (number == 0) {
    recycle_thread_numbers(ThreadTable::When::kAllTaken);
    number = records.threads.add(id, name);
  }
  // If a signal handler that sampled meanwhile has assigned another number to this thread, that one
  // is kept.
  uint32_t mine = number != 0 ? number : kIsThreadId | id, earlier = 0;
  if (__atomic_compare_exchange_n(&thread_number_cache, &earlier, mine, false, __ATOMIC_RELAXED,
                                  __ATOMIC_RELAXED))
    return mine;
  if (is_thread_number(earlier)) {
    records.threads.keep_first_number(earlier, number);
  } else if (number != 0) {
    records.threads.mark_exited(number);
  }
  return earlier;
}

uint32_t kernel_thread_id(uint32_t thread) {
  if (thread == renumbered.recorded) return renumbered.now;
  if ((thread & kIsThreadId) != 0) return thread & ~kIsThreadId;
  return is_thread_number(thread) ? records.threads.get(thread).id : 0;
}

// The number stays in the cache, because blocks that the thread frees from now on may be its own.
void retire_thread_number() {
  if (is_thread_number(thread_number_cache)) records.threads.thread_exits(thread_number_cache);
}

void reset_thread_numbers_in_child() {
  uint32_t id = static_cast<uint32_t>(os::thread_id());
  records.threads.reset_in_child(thread_number_cache, id);
  if ((thread_number_cache & kIsThreadId) != 0) renumbered = {thread_number_cache, id};
}

}  // namespace seemalloc::profile
