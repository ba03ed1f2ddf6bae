// The heap sampler's interface: recording allocations and frees, totals, and writing profiles.
//
// Called by core/api only, on the sampled path (about once per 512 KiB allocated), so locks are
// allowed. Nothing here calls malloc, the dynamic linker, or a function that could call them.
// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/profile/heap/sample_totals.h"
#include "core/profile/pprof/buffer.h"
#include "core/profile/pprof/comment_writer.h"
#include "core/profile/sampling/sample_id.h"
#include "core/profile/sampling/stack.h"

namespace seemalloc::profile {

struct Allocation {
  size_t requested_bytes;  // bytes that the program requested
  size_t allocated_bytes;  // size of the block (its size class, or whole pages)
  // Mean sampling interval when the sample was drawn; 1: every allocation is recorded (weight 1).
  uint64_t interval_bytes;
  bool by_realloc = false;  // realloc copied another block into this one
};

// A thread's state for sampling (recorder.h). Null if memory is refused; everything works without
// it.
struct Recorder;
Recorder* make_recorder();
// Passes the recorder to another thread. Its former thread may have vanished at any point inside
// the recorder (fork).
void adopt_recorder(Recorder& recorder);

// Records a sampled allocation with the caller's stack, at most `max_depth` frames. Returns 0 and
// counts a dropped sample if there is no memory for the record. `site`: see StackCache::find.
SampleId record_alloc(Recorder* recorder, const Allocation& allocation, uintptr_t site,
                      size_t max_depth);
// The same with a stack that was captured before.
SampleId record_alloc(const Allocation& allocation, const Stack& stack);
// Counts a sample for which no block could be allocated.
void count_dropped_sample();
// The properties of a freed sample.
struct FreedSampleInfo {
  size_t allocated_bytes;
  uint64_t interval_bytes;
};
struct FreeStackOptions {
  size_t max_depth = 0;  // frames recorded of the stack that frees; 0: the stack is not recorded
  // Also for blocks sampled with interval 1 (every block recorded). Then lifetimes by allocating
  // thread are recorded for them, too.
  bool of_all = false;
};
// Records the free of a sampled block. Requires: id ≠ 0, returned by record_alloc, not yet freed.
FreedSampleInfo record_free(Recorder* recorder, SampleId id, FreeStackOptions wanted = {});
inline void record_free(SampleId id) { record_free(nullptr, id); }
// Records that a sampled block was resized in place. Live bytes follow; allocated totals do not
// change.
void record_resize(SampleId id, size_t requested_bytes, size_t allocated_bytes);

SampleTotals sample_totals();

// The destination of a profile. write() returns false if it failed; then writing stops.
struct Sink {
  bool (*write)(void* context, const void* data, size_t bytes);
  void* context;
};

enum class Kind {
  // alloc_objects/count, alloc_space/bytes, inuse_objects/count, inuse_space/bytes; default
  // inuse_space.
  kHeap,
  // remote_free_objects/count, remote_free_space/bytes: blocks freed by another thread, since the
  // start.
  kRemoteFrees,
  kAllocs,  // alloc_objects/count, alloc_space/bytes
  kPeak,    // peak_objects/count, peak_space/bytes: live at the high-water mark (peak.h)
  kSince,   // the types of kHeap, minus their values at the baseline
  // alloc_, requested_, moved_ (by realloc) and short_ (freed within 10 ms) objects and space.
  kChurn,
  // alive_ and freed_ objects and space, by age and by which thread freed them (lifetime_rows.h).
  kLifetime,
  // freed_objects/count, freed_space/bytes, by allocating and freeing stack (lifetime_rows.h).
  kDeaths,
  kThreads,  // inuse_objects/count, inuse_space/bytes, by allocating thread (thread_rows.h)
  kCount,
};

// Writes a profile as an uncompressed profile.proto (period_type space/bytes). Labels of a row:
// "bytes": the size of its blocks; "asked": the requested size, rounded up to a power of two, if it
// is less than half of the blocks' size; "moved", 1: realloc moved other blocks into these;
// "drawn": the size at which the blocks were sampled, if realloc has resized them in place since;
// "interval": the sampling interval, if it is not interval_bytes, the profile's.
// Returns false if the sink failed or memory for the snapshot was refused.
bool write_heap_profile(const Sink& sink, uint64_t interval_bytes);

// The exact values of the estimated quantities, from the heap's own counters; 0: unknown.
struct ExactBytes {
  uint64_t live = 0;
  uint64_t allocated = 0;  // since the process started, freed or not
  uint64_t freed = 0;      // since then, with the sizes at the time of the free
};

// The same into memory that the caller unmaps. Returns false if memory was refused.
bool heap_profile_to_buffer(Buffer* out, uint64_t interval_bytes, Kind kind = Kind::kHeap,
                            ExactBytes exact = {});

// Writes the comments of a profile of kind kHeap.
void write_heap_comments(const CommentWriter& notes, uint64_t interval_bytes, ExactBytes exact);

// Sets the baseline of kSince to now.
void set_baseline(ExactBytes exact = {});

// For fork: taken before it, released after it in the parent and the child.
void lock_for_fork();
void unlock_after_fork();

}  // namespace seemalloc::profile
