#include <atomic>

#include "core/api/sampling/memory_report.h"
#include "core/api/sampling/sample_backoff.h"
#include "core/api/sampling/sampling.h"
#include "core/base/options.h"
#include "core/heap/reports/fragmentation.h"
#include "core/heap/reports/statistics.h"
#include "core/heap/thread/sample_distance.h"
#include "core/heap/thread/sample_growth.h"
#include "core/heap/thread/thread_heap.h"
#include "core/os/runtime/scratch.h"
#include "core/pages/page_heap/page_heap.h"
#include "core/pages/span/growth.h"
#include "core/profile/code/module_table.h"
#include "core/profile/code/modules.h"
#include "core/profile/code/unloaded_modules.h"
#include "core/profile/heap/fragmentation_profile.h"
#include "core/profile/heap/growth_profile.h"
#include "core/profile/heap/heap_profile.h"
#include "core/profile/heap/pool_profile.h"
#include "core/profile/heap/recorder.h"
#include "core/profile/heap/records.h"
#include "core/profile/heap/sample_reset.h"
#include "core/profile/heap/thread_numbers.h"
#include "core/profile/python/python.h"
#include "core/profile/python/python_pc.h"
#include "core/profile/sampling/sampler.h"
#include "core/profile/sampling/stack.h"
#include "core/profile/unwind/unwind.h"

namespace seemalloc {

namespace {

std::atomic<uint64_t> backed_off_samples{0};

profile::Recorder* recorder_of(const heap::ThreadHeap& heap) {
  return static_cast<profile::Recorder*>(heap.recorder);
}

// Samples of a growing heap do not count: the growth limits their number.
unsigned backoff_log2_of(heap::ThreadHeap& heap, bool sampled) {
  profile::SampleRateLimiter::Limit limit;
  if (!has_sample_rate_limit(heap.sample_base, &limit)) return 0;
  size_t in_spans = pages::bytes_in_spans();
  if (heap::must_draw_without_backoff(heap, in_spans)) return 0;
  profile::SampleRateLimiter new_thread,
      &pace = heap.recorder != nullptr ? recorder_of(heap)->rate_limiter : new_thread;
  return next_backoff_log2(pace, limit, sampled,
                           max_backoff_log2(in_spans, heap::growth_watch.most()));
}

void draw(heap::ThreadHeap& heap, heap::DrawReason reason) {
  if (reason == heap::DrawReason::kIntervalChanged)
    heap.sample_base = options::get(options::Id::sample);
  heap.sample_backoff_log2 =
      static_cast<uint8_t>(backoff_log2_of(heap, reason == heap::DrawReason::kSampled));
  profile::Random random{heap.random_state};
  int64_t distance =
      profile::draw_distance_bytes(random, heap.sample_base << heap.sample_backoff_log2);
  heap.sample_at = heap.allocated_bytes + static_cast<uint64_t>(distance);
  heap.random_state = random.state;
}

// The bytes that one sample of a block of `bytes` stands for: bytes/(1-exp(-bytes/interval)),
// within 3 %.
int64_t estimated_bytes_of_sample(uint64_t bytes, uint64_t interval) {
  if (interval <= 1 || bytes >= 4 * interval) return static_cast<int64_t>(bytes);
  double x = static_cast<double>(bytes), mean = static_cast<double>(interval);
  return static_cast<int64_t>(mean + x / 2 + x * x / (12 * mean));
}

// Estimates the bytes that the calling thread has freed: its allocated bytes minus the bytes it
// holds according to its samples. A block that another thread frees counts for that thread.
struct ThreadFreeEstimate {
  int64_t live_bytes;    // of its samples, minus those of other threads that it freed
  uint64_t freed_bytes;  // never decreases
  // Of net(): its maximum before freed_bytes last grew, and its value at the reset.
  int64_t highest_bytes, zero_bytes;

  int64_t net(const heap::ThreadHeap& mine) const {
    return static_cast<int64_t>(mine.allocated_bytes - freed_bytes);
  }
  void update_peak(const heap::ThreadHeap& mine) {
    if (net(mine) > highest_bytes) highest_bytes = net(mine);
  }
  void left(const heap::ThreadHeap& mine, int64_t bytes) {
    live_bytes -= bytes;
    int64_t freed = static_cast<int64_t>(mine.allocated_bytes) - live_bytes;
    if (freed <= static_cast<int64_t>(freed_bytes)) return;
    update_peak(mine);  // allocated bytes never decrease: net() decreases only here
    freed_bytes = static_cast<uint64_t>(freed);
  }
};
constinit thread_local ThreadFreeEstimate thread_samples
    __attribute__((tls_model("initial-exec"))) = {};

}  // namespace

void start_sampling() {
  profile::find_dynamic_linker_lookup();
  heap::draw_sample_distance = draw;
}

void attach_recorder(heap::ThreadHeap& mine) {
  if (mine.recorder != nullptr) profile::adopt_recorder(*recorder_of(mine));
}

void end_sampling_of_thread(heap::ThreadHeap* mine) {
  profile::retire_thread_number();
  profile::SampleRateLimiter::Limit limit;
  if (mine != nullptr && mine->recorder != nullptr &&
      has_sample_rate_limit(mine->sample_base, &limit))
    recorder_of(*mine)->rate_limiter.thread_exits(limit);
}

SEEMALLOC_NOINLINE uint32_t record_sample(heap::ThreadHeap& mine, size_t requested_bytes,
                                          size_t allocated_bytes, const void* site) {
  if (SEEMALLOC_UNLIKELY(mine.recorder == nullptr)) {
    if (os::in_nested_call) return 0;
    mine.recorder = profile::make_recorder();
  }
  if (mine.drawn_interval != mine.sample_base)
    backed_off_samples.fetch_add(1, std::memory_order_relaxed);
  uint64_t interval = mine.drawn_interval;
  int64_t bytes = estimated_bytes_of_sample(allocated_bytes, interval);
  thread_samples.live_bytes += bytes;
  uint32_t id = profile::record_alloc(
      recorder_of(mine), {requested_bytes, allocated_bytes, interval, reallocating},
      reinterpret_cast<uintptr_t>(site), profile::chosen_stack_depth());
  if (SEEMALLOC_UNLIKELY(dumps_armed.load(std::memory_order_relaxed)))
    check_dump_due(static_cast<uint64_t>(bytes));
  return id;
}

uint64_t estimated_live_bytes() {
  int64_t bytes = profile::records.peak.in_use_bytes();
  return bytes > 0 ? static_cast<uint64_t>(bytes) : 0;
}

void count_dropped_sample() { profile::count_dropped_sample(); }

namespace {
// In the order of the words in options.cc.
enum : uint64_t { kFreeStacksOff, kFreeStacksSampled, kFreeStacksAll };
}  // namespace

void record_sampled_free(heap::ThreadHeap* mine, uint32_t id) {
  uint64_t stacks = options::get(options::Id::free_stacks);
  profile::FreeStackOptions wanted{stacks != kFreeStacksOff ? profile::chosen_stack_depth() : 0,
                                   stacks == kFreeStacksAll};
  profile::FreedSampleInfo freed =
      profile::record_free(mine != nullptr ? recorder_of(*mine) : nullptr, id, wanted);
  if (mine != nullptr)
    thread_samples.left(*mine,
                        estimated_bytes_of_sample(freed.allocated_bytes, freed.interval_bytes));
}

const uint64_t* thread_freed_bytes_estimate() { return &thread_samples.freed_bytes; }
uint64_t thread_peak_bytes(const heap::ThreadHeap& mine) {
  thread_samples.update_peak(mine);
  return static_cast<uint64_t>(thread_samples.highest_bytes - thread_samples.zero_bytes);
}
void reset_thread_peak(const heap::ThreadHeap& mine) {
  thread_samples.highest_bytes = thread_samples.zero_bytes = thread_samples.net(mine);
}

void resize_sample(uint32_t id, size_t requested_bytes, size_t allocated_bytes) {
  profile::record_resize(id, requested_bytes, allocated_bytes);
  if (SEEMALLOC_UNLIKELY(dumps_armed.load(std::memory_order_relaxed))) check_dump_due(0);
}

SamplingReport sampling_report() {
  profile::SampleTotals totals = profile::sample_totals();
  return {.available = true,
          .samples = totals.samples,
          .live_samples = totals.live_samples,
          .dropped = totals.dropped,
          .truncated = totals.truncated_samples,
          .broken = totals.broken_samples,
          .stacks = totals.stacks,
          .backed_off = backed_off_samples.load(std::memory_order_relaxed),
          .estimate_bytes = static_cast<uint64_t>(totals.inuse_bytes),
          .estimate_stderr_bytes = static_cast<uint64_t>(totals.inuse_bytes_stderr),
          .requested_bytes = static_cast<uint64_t>(totals.inuse_requested_bytes),
          .requested_stderr_bytes = static_cast<uint64_t>(totals.inuse_requested_bytes_stderr)};
}

namespace {
bool move_to(const profile::Buffer& buffer, ProfileBytes* out) {
  *out = {buffer.data, buffer.bytes, buffer.mapped_bytes};
  return true;
}
// Neither total includes blocks in threads' free lists, which the program has not received yet.
profile::ExactBytes exact_bytes() {
  struct Taken {
    heap::Statistics statistics = heap::statistics();
  };
  os::Scratch<Taken> taken;
  if (!taken) return {};
  const heap::Statistics& s = taken->statistics;
  return {s.live_bytes,
          s.allocated_bytes > s.unused_list_bytes ? s.allocated_bytes - s.unused_list_bytes : 0,
          heap::freed_bytes(s)};
}
bool profile_of(profile::Kind kind, ProfileBytes* out) {
  profile::Buffer buffer{};
  // The exact figures first: encoding takes time, and they are shown beside the estimates.
  profile::ExactBytes exact = exact_bytes();
  if (!profile::heap_profile_to_buffer(&buffer, options::get(options::Id::sample), kind, exact))
    return false;
  return move_to(buffer, out);
}
}  // namespace

bool heap_profile(ProfileBytes* out) { return profile_of(profile::Kind::kHeap, out); }
bool remote_free_profile(ProfileBytes* out) { return profile_of(profile::Kind::kRemoteFrees, out); }
bool allocs_profile(ProfileBytes* out) { return profile_of(profile::Kind::kAllocs, out); }
bool peak_profile(ProfileBytes* out) { return profile_of(profile::Kind::kPeak, out); }
bool since_profile(ProfileBytes* out) { return profile_of(profile::Kind::kSince, out); }
bool churn_profile(ProfileBytes* out) { return profile_of(profile::Kind::kChurn, out); }
bool lifetime_profile(ProfileBytes* out) { return profile_of(profile::Kind::kLifetime, out); }
bool deaths_profile(ProfileBytes* out) { return profile_of(profile::Kind::kDeaths, out); }
bool threads_profile(ProfileBytes* out) { return profile_of(profile::Kind::kThreads, out); }

void sampling_loaded(const char* python_allocator) {
  profile::record_start_modules();
  profile::set_python_allocator(python_allocator);
}
void python_option_changed() {
  using enum profile::PythonFrames;
  bool on = options::get(options::Id::python_frames) != 0;
  profile::set_python_frames(!on ? kOff
                             : options::is_explicitly_set(options::Id::python_frames)
                                 ? kRequired
                                 : kIfSupported);
}
bool note_loaded_python(uintptr_t pc) { return profile::note_loaded_python(pc); }
size_t python_name_bytes() { return profile::python_name_bytes(); }

bool set_profile_baseline() {
  profile::set_baseline(exact_bytes());
  return true;
}

SEEMALLOC_NOINLINE void record_growth() {
  if (os::in_nested_call) return;  // the outer slow path does it
  pages::Growth growth = pages::take_and_reset_growth();
  profile::record_growth(growth.bytes, growth.count, profile::chosen_stack_depth());
}

bool growth_profile(ProfileBytes* out) {
  profile::Buffer buffer{};
  return profile::growth_profile_to_buffer(&buffer) && move_to(buffer, out);
}

bool pool_profile(ProfileBytes* out) {
  profile::Buffer buffer{};
  return profile::pool_profile_to_buffer(&buffer, options::get(options::Id::sample)) &&
         move_to(buffer, out);
}

bool fragmentation_profile(ProfileBytes* out) {
  profile::FragmentationProfile charges;
  if (!charges.begin()) return false;
  heap::for_each_sample_charge(
      [](void* context, const heap::SampleCharge& share) {
        if (share.sample_id == 0) return;
        static_cast<profile::FragmentationProfile*>(context)->add(share.sample_id, share.home_bytes,
                                                                  share.own_bytes, share.has_home);
      },
      &charges);
  MemoryReport memory = memory_report(heap::statistics(), true);
  profile::FragmentationTotals totals{heap::fragmented_bytes(), memory.fragmentation,
                                      memory.uncertain};
  profile::Buffer buffer{};
  return charges.finish(&buffer, options::get(options::Id::sample), totals) && move_to(buffer, out);
}

namespace {
unsigned copy_frames(const profile::Stack& stack, uintptr_t* frames, unsigned most) {
  unsigned depth = stack.depth < most ? stack.depth : most;
  for (unsigned i = 0; i < depth; i++) frames[i] = stack.pcs[i];
  return depth;
}
}  // namespace

unsigned call_stack(uintptr_t* frames, unsigned most) {
  os::Scratch<profile::Stack> stack;
  if (!stack) return 0;
  // In full: a truncated stack would be counted as truncated.
  profile::capture_native_stack(&*stack, profile::kMaxStackDepth);
  return copy_frames(*stack, frames, most);
}

unsigned interrupted_call_stack(const void* ucontext, uintptr_t* frames, unsigned most) {
  profile::Stack stack;
  profile::capture_native_stack_from(ucontext, &stack, profile::kMaxStackDepth);
  unsigned depth = copy_frames(stack, frames, most);
  if (depth != 0) frames[0]--;  // not a return address
  return depth;
}

bool python_location(uintptr_t return_address, PythonLocation* out) {
  const profile::PythonNames* names = profile::python_names();
  if (!profile::is_python_pc(return_address) || names == nullptr) return false;
  profile::PythonPc place = profile::decode_python_pc(return_address);
  profile::PythonNames::Function function = names->function(place.function);
  *out = {function.name.data, function.file.data, function.name.bytes, function.file.bytes,
          place.line};
  return true;
}

void for_each_unloaded_code_range(void (*f)(void* context, const UnloadedCodeRange& range),
                                  void* context) {
  for (size_t i = 0; i < profile::unloaded_count(); i++) {
    const profile::UnloadedCode& code = profile::unloaded_code(i);
    f(context, {code.start, code.limit, code.file_offset, code.path, code.path_bytes});
  }
}

bool view_sample(uint32_t id, SampleView* out) {
  if (id == 0) return false;
  profile::LiveSample sample = profile::records.live.get_if_alive(id);
  if (sample.bucket == nullptr) return false;
  const profile::InternedStack& stack = *sample.bucket->stack;
  *out = {stack.pcs(), stack.depth, reinterpret_cast<uint64_t>(&stack), sample.birth_ns,
          profile::kernel_thread_id(sample.thread)};
  return true;
}

namespace {
struct RowVisitor {
  void (*f)(void* context, const SampleRow& row);
  void* context;
  void visit(const profile::BucketRow& row) const {
    const profile::Bucket& bucket = *row.bucket;
    if (row.alloc_samples == 0 && row.live_samples == 0) return;
    f(context, {.return_addresses = bucket.stack->pcs(),
                .depth = bucket.stack->depth,
                .bytes = bucket.key.allocated_bytes,
                .interval_bytes = bucket.key.interval_bytes,
                .samples = row.alloc_samples,
                .live_samples = row.live_samples,
                .objects = row.alloc_objects(),
                .live_objects = row.live_objects()});
  }
};
}  // namespace

void for_each_sample_row(void (*f)(void* context, const SampleRow& row), void* context) {
  RowVisitor visitor{f, context};
  profile::records.buckets.for_each(
      [&](const profile::Bucket& bucket) { visitor.visit(profile::read_bucket(bucket)); });
}
void for_each_sample_row_since(void (*f)(void* context, const SampleRow& row), void* context) {
  RowVisitor visitor{f, context};
  profile::for_each_row_since_reset(
      [](void* to, const profile::BucketRow& row) {
        static_cast<const RowVisitor*>(to)->visit(row);
      },
      &visitor);
}
bool reset_samples() { return profile::reset_samples(); }
uint64_t samples_reset_ns() { return profile::samples_reset_ns(); }

void for_each_heap_note(uint64_t interval_bytes, void (*line)(void* context, const Text& text),
                        void* context) {
  profile::write_heap_comments({line, context}, interval_bytes, exact_bytes());
}
void for_each_growth_note(void (*line)(void* context, const Text& text), void* context) {
  profile::write_growth_comments({line, context});
}

void for_each_growth_stack(void (*f)(void* context, const GrowthStack& row), void* context) {
  struct Visitor {
    void (*f)(void* context, const GrowthStack& row);
    void* context;
  } visitor{f, context};
  profile::for_each_growth(
      [](void* to, const profile::GrowthRow& row) {
        const Visitor& v = *static_cast<Visitor*>(to);
        v.f(v.context, {row.return_addresses, row.depth, row.count, row.bytes});
      },
      &visitor);
}

double chance_of_sample(size_t bytes, uint64_t interval_bytes) {
  return 1 / profile::sample_weight(bytes, interval_bytes);
}

void lock_sampling_for_fork() {
  profile::lock_pools_for_fork();
  profile::lock_growth_for_fork();
  profile::lock_sample_reset_for_fork();
  profile::lock_for_fork();
}
void unlock_sampling_after_fork(bool in_child) {
  profile::unlock_after_fork();
  profile::unlock_sample_reset_after_fork();
  profile::unlock_growth_after_fork();
  profile::unlock_pools_after_fork();
  if (!in_child) return;
  profile::reset_thread_numbers_in_child();
  profile::SampleRateLimiter::reset_in_child();
  // A thread that does not exist here may have been refreshing it.
  profile::reset_module_table();
  profile::reset_static_program();
}

}  // namespace seemalloc
