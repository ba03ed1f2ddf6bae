// The rows of a threads profile: the live samples of each bucket, by allocating thread. Also the
// labels that identify a thread in all kinds of profiles.
//
// Live samples are counted from the live table (live_counts.h). Freed samples are known by thread
// only together with their age (lifetime_rows.h). Threads: one.
#pragma once

#include <cstdint>

#include "core/profile/pprof/profile_encoder.h"
#include "core/profile/sampling/thread_table.h"

namespace seemalloc::profile {

// The labels of a row of one thread: "thread", its name, and "tid". For one of the other threads,
// only "thread": kOtherThreads. Returns the number of labels. They point into `thread`.
inline constexpr unsigned kThreadLabels = 2;
unsigned thread_labels(const ThreadTable::Thread& thread, Label* labels);
inline constexpr const char* kOtherThreads = "(other threads)";
// Pprof treats a label without text as a number.
inline constexpr const char* kNamelessThread = "(no name)";

// Values: inuse_objects, inuse_space. Labels: those of the bucket (lifetime_rows.h) and of the
// thread; threads beyond ThreadTable::kMax are among the other threads. Returns false if memory
// was refused.
bool write_thread_rows(ProfileEncoder& encoder, uint64_t interval_bytes);

}  // namespace seemalloc::profile
