#include "core/profile/heap/sampled_threads.h"

#include "core/os/kernel/ids.h"
#include "core/os/process/threads.h"
#include "core/profile/heap/records.h"

namespace seemalloc::profile {

constinit thread_local uint32_t sampled_thread_cache = 0;

namespace {

// The number of the thread that called fork, in the child, if it is an unnamed one. Written while
// there is only one thread.
struct Renumbered {
  uint32_t recorded, now;
};
constinit Renumbered renumbered{};

// Makes numbers available again: those of threads that have exited and have no live samples. Walks
// the live table.
void recycle_numbers(ThreadNames::When when) {
  if (!records.threads.begin_recycling(when)) return;
  ThreadNames::Marks marks;
  records.live.for_each_alive([&](const LiveSample& sample) {
    if (has_number(sample.thread)) marks.set(ThreadNames::place_of(sample.thread));
  });
  records.threads.recycle(marks);
}

}  // namespace

SEEMALLOC_NOINLINE uint32_t find_sampled_thread() {
  uint32_t id = static_cast<uint32_t>(os::thread_id());
  char name[os::kThreadNameBytes] = {};
  os::own_thread_name(name);
  // Threads that have exited and have no live samples take up records, so that profiles of
  // lifetimes cannot distinguish other threads.
  size_t most = most_thread_lives();
  if (records.thread_lives.is_full(most) && records.threads.may_recycle(most / 4))
    recycle_numbers(ThreadNames::When::kEarly);
  uint32_t number = records.threads.add(id, name);
  if (number == 0) {
    recycle_numbers(ThreadNames::When::kAllTaken);
    number = records.threads.add(id, name);
  }
  // If a signal handler that sampled meanwhile has assigned another number to this thread, that one
  // is kept.
  uint32_t mine = number != 0 ? number : kUnnamed | id, earlier = 0;
  if (__atomic_compare_exchange_n(&sampled_thread_cache, &earlier, mine, false, __ATOMIC_RELAXED,
                                  __ATOMIC_RELAXED))
    return mine;
  if (has_number(earlier)) {
    records.threads.keep_first(earlier, number);
  } else if (number != 0) {
    records.threads.note_end(number);
  }
  return earlier;
}

uint32_t thread_id_of(uint32_t thread) {
  if (thread == renumbered.recorded) return renumbered.now;
  if ((thread & kUnnamed) != 0) return thread & ~kUnnamed;
  return has_number(thread) ? records.threads.get(thread).id : 0;
}

// The number stays in the cache, because blocks that the thread frees from now on may be its own.
void end_sampled_thread() {
  if (has_number(sampled_thread_cache)) records.threads.end(sampled_thread_cache);
}

void renumber_threads_in_child() {
  uint32_t id = static_cast<uint32_t>(os::thread_id());
  records.threads.keep_only(sampled_thread_cache, id);
  if ((sampled_thread_cache & kUnnamed) != 0) renumbered = {sampled_thread_cache, id};
}

}  // namespace seemalloc::profile
