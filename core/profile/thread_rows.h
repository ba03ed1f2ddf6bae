// The rows of a threads profile: what is in use of each bucket, by the thread that allocated it. And the labels that tell of a thread in
// all kinds.
//
// What is in use is counted from the live table (held.h); what has been freed is known by thread with its age only (lifetime_rows.h). Threads: one.
#pragma once

#include <cstdint>

#include "core/profile/profile_encoder.h"
#include "core/profile/thread_names.h"

namespace seemalloc::profile {

// The labels of a row of one thread: "thread", its name, and "tid"; of one of the other threads "thread" alone, kOtherThreads. Returns their
// number. They point into `thread`.
inline constexpr unsigned kThreadLabels = 2;
unsigned thread_labels(const ThreadNames::Thread& thread, Label* labels);
inline constexpr const char* kOtherThreads = "(other threads)";
inline constexpr const char* kNamelessThread = "(no name)";  // pprof takes a label without a text for a number

// Values: inuse_objects, inuse_space. Labels besides those of the bucket (lifetime_rows.h) the thread's; threads beyond
// ThreadNames::kMost are the other ones. False when memory was refused.
bool write_thread_rows(ProfileEncoder& encoder, uint64_t interval_bytes);

}  // namespace seemalloc::profile
