// What the sampler recorded: stacks, the live table, and the profile made of them.
//
// Called by core/api only, on the sampled path (about once per 512 KiB allocated), so locks are allowed; but nothing
// here calls malloc, the dynamic linker or anything that could. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/profile/buffer.h"
#include "core/profile/notes.h"
#include "core/profile/stack.h"

namespace seemalloc::profile {

// Handle of one sampled block that is alive; 0 is "not recorded".
using SampleId = uint32_t;

struct Allocation {
  size_t requested_bytes;  // what the program asked for
  size_t allocated_bytes;  // what the block really takes (its size class, or whole pages)
  uint64_t interval_bytes;  // mean sampling interval the sample was drawn with; 1: every allocation is recorded (weight 1)
  bool moved = false;       // in place of a block that realloc had to copy
};

// A thread's memory of what it sampled (recorder.h); null when memory is refused, and everything works without.
struct Recorder;
Recorder* make_recorder();
// Another thread will use it from now on; its last one may have vanished anywhere in the middle (fork).
void adopt_recorder(Recorder& recorder);

// Records a sampled allocation with the caller's stack, at most `max_depth` frames of it. Returns 0, and counts a
// dropped sample, when there is no memory for the record. `site`: see StackMemo::find.
SampleId record_alloc(Recorder* recorder, const Allocation& allocation, uintptr_t site, size_t max_depth);
// The same with a stack captured before.
SampleId record_alloc(const Allocation& allocation, const Stack& stack);
// Counts a sample whose block could not be had.
void drop_sample();
// What a sample that is gone stood for.
struct FreedSample {
  size_t allocated_bytes;
  uint64_t interval_bytes;
};
struct DeathStacks {
  size_t max_depth = 0;      // frames kept of the stack that frees; 0: it is not recorded
  bool of_all = false;       // also of blocks that were recorded because all are; and by which thread they were allocated
};
// The sampled block is gone. Requires: id ≠ 0, returned by record_alloc, not yet freed.
FreedSample record_free(Recorder* recorder, SampleId id, DeathStacks wanted = {});
inline void record_free(SampleId id) { record_free(nullptr, id); }
// The sampled block was resized in place: in-use bytes follow, allocated totals do not change.
void record_resize(SampleId id, size_t requested_bytes, size_t allocated_bytes);

struct SampleTotals {
  uint64_t samples;          // recorded since the process began
  uint64_t live_samples;     // still alive
  uint64_t dropped;          // lost for want of memory
  uint64_t stacks;           // distinct stacks of samples
  uint64_t truncated_samples, broken_samples;  // of those recorded: their stack was cut, or could not be followed to its end
  // Unbiased estimates of everything allocated, by weights 1/(1-exp(-allocated/interval)).
  double alloc_objects, alloc_bytes, inuse_objects, inuse_bytes;
  double alloc_bytes_stderr;  // standard error of alloc_bytes
  double inuse_bytes_stderr;  // likewise
  double inuse_requested_bytes, inuse_requested_bytes_stderr;  // of what is in use, as the program asked for it
};
SampleTotals sample_totals();

// Where a profile is written to; false when the destination failed (writing stops).
struct Sink {
  bool (*write)(void* context, const void* data, size_t bytes);
  void* context;
};

enum class Kind {
  kHeap,         // alloc_objects/count, alloc_space/bytes, inuse_objects/count, inuse_space/bytes; default inuse_space
  kRemoteFrees,  // remote_free_objects/count, remote_free_space/bytes: blocks that another thread has freed, since the start
  kAllocs,       // alloc_objects/count, alloc_space/bytes
  kPeak,         // peak_objects/count, peak_space/bytes: in use at the high-water mark (peak.h)
  kSince,        // the types of kHeap, less what there was at the baseline
  kChurn,        // alloc_, requested_, moved_ (by realloc) and short_ (freed within 10 ms) objects and space
  kLifetime,     // alive_ and freed_ objects and space, by age and who freed them (lifetime_rows.h)
  kDeaths,       // freed_objects/count, freed_space/bytes, by where they were allocated and where freed (lifetime_rows.h)
  kThreads,      // inuse_objects/count, inuse_space/bytes, by the thread that allocated (thread_rows.h)
  kCount,
};

// Writes a profile as an uncompressed profile.proto (period_type space/bytes). Each row has the label "bytes", the
// blocks' size; rows of blocks that have less than half of their size in use by the program also "asked", what was asked for,
// rounded up to a power of two; rows of blocks that realloc moved to also "moved", 1; rows of samples that were drawn at
// another size, since when realloc has resized them in place, also "drawn", that size; at another interval than interval_bytes, the
// profile's, also "interval".
// False when the sink failed or memory for the snapshot was refused.
bool write_heap_profile(const Sink& sink, uint64_t interval_bytes);

// What the estimates are estimates of, by the heap's own counts; 0: not known.
struct ExactBytes {
  uint64_t live = 0;
  uint64_t allocated = 0;  // since the process began, freed or not
  uint64_t freed = 0;      // since then, as large as they were in the end
};

// The same into memory that the caller gives back. False when memory was refused.
bool heap_profile_to_buffer(Buffer* out, uint64_t interval_bytes, Kind kind = Kind::kHeap, ExactBytes exact = {});

// What a profile of the kind kHeap says about itself.
void heap_profile_notes(const Notes& notes, uint64_t interval_bytes, ExactBytes exact);

// From now on kSince counts from here.
void set_baseline(ExactBytes exact = {});

// Fork: taken before, released after in the parent and the child.
void lock_for_fork();
void unlock_after_fork();

}  // namespace seemalloc::profile
