#include "core/profile/cpu/cpu_profile.h"

#include "core/os/runtime/scratch.h"
#include "core/profile/heap/thread_rows.h"
#include "core/profile/pprof/profile_encoder.h"

namespace seemalloc::profile {

namespace {
constexpr size_t kFirstSlots = 4096;
}

CpuProfile::Row* CpuProfile::find(const CpuSample& sample, uint32_t thread) {
  if (slots_.size() == 0) return nullptr;
  for (size_t i = slot_of(sample.hash, thread); slots_[i] != 0; i = (i + 1) & (slots_.size() - 1)) {
    Row& row = rows_[slots_[i] - 1];
    bool same = row.hash == sample.hash && row.thread == thread && row.depth == sample.depth;
    same = same && row.truncated == sample.truncated && row.broken == sample.broken;
    for (uint32_t f = 0; same && f < row.depth; f++) same = frames_[row.first + f] == sample.pcs[f];
    if (same) return &row;
  }
  return nullptr;
}

// Makes room for one more row in all three arrays. At most half of the slots are in use.
bool CpuProfile::reserve_row(size_t frames) {
  if (frames_.size() + frames > kMaxFrames) return false;
  if (!rows_.reserve(rows_.size() + 1) || !frames_.reserve(frames_.size() + frames)) return false;
  if ((rows_.size() + 1) * 2 <= slots_.size()) return true;
  size_t slots = slots_.size() == 0 ? kFirstSlots : slots_.size() * 2;
  if (!slots_.reserve(slots)) return false;
  slots_.set_size(slots);
  for (size_t i = 0; i < slots; i++) slots_[i] = 0;
  for (size_t r = 0; r < rows_.size(); r++) {
    size_t i = slot_of(rows_[r].hash, rows_[r].thread);
    while (slots_[i] != 0) i = (i + 1) & (slots - 1);
    slots_[i] = static_cast<uint32_t>(r + 1);
  }
  return true;
}

// Requires: reserve_row().
void CpuProfile::insert(const Row& row) {
  rows_.push(row);
  size_t i = slot_of(row.hash, row.thread);
  while (slots_[i] != 0) i = (i + 1) & (slots_.size() - 1);
  slots_[i] = static_cast<uint32_t>(rows_.size());
}

// Inserts the row of the other threads. Returns null if there is no memory.
CpuProfile::Row* CpuProfile::insert_stack(const CpuSample& sample) {
  if (!reserve_row(kMaxStackDepth)) return nullptr;
  insert({sample.hash, 0, 0, frames_.size(), 0, sample.depth, sample.truncated, sample.broken});
  for (uint32_t f = 0; f < sample.depth; f++) frames_.push(sample.pcs[f]);
  stacks_++;
  return &rows_[rows_.size() - 1];
}

// Inserts a thread's row of a known stack. Returns null if there is no room.
CpuProfile::Row* CpuProfile::insert_thread(const CpuSample& sample, const Row& stack) {
  Row row = stack;  // a copy, because making room may move the row
  row.thread = sample.thread;
  row.interrupts = row.ticks = 0;
  if (sample.thread == 0 || rows_.size() - stacks_ == kMaxThreadRows || !reserve_row(0))
    return nullptr;
  insert(row);
  return &rows_[rows_.size() - 1];
}

void CpuProfile::add(const CpuSample& sample) {
  Row* row = find(sample, sample.thread);
  if (row == nullptr) {
    Row* stack = sample.thread != 0 ? find(sample, 0) : nullptr;
    if (stack == nullptr) stack = insert_stack(sample);
    if (stack == nullptr) {
      lost_ += sample.interrupts;
      lost_ticks_ += sample.ticks;
      return;
    }
    size_t at = static_cast<size_t>(stack - rows_.data());
    row = insert_thread(sample, *stack);
    if (row == nullptr) row = &rows_[at];
  }
  row->interrupts += sample.interrupts;
  row->ticks += sample.ticks;
}

bool CpuProfile::any_in(const RelocatedCode& code) const {
  for (size_t i = 0; i < frames_.size(); i++) {
    if (code.contains(frames_[i])) return true;
  }
  return false;
}

// Hashes are not changed. A stack that has the old addresses, in the code that is there now, gets
// another row because its frames differ.
void CpuProfile::relocate_code(const RelocatedCode& moved) {
  for (size_t i = 0; i < frames_.size(); i++) frames_[i] = moved(frames_[i]);
}

namespace {

struct Totals {
  uint64_t interrupts = 0, ticks = 0, truncated = 0, broken = 0, others = 0;
};

Totals totals_of(const CpuProfile& sums) {
  Totals totals;
  for (size_t i = 0; i < sums.size(); i++) {
    const CpuProfile::Row& row = sums[i];
    totals.interrupts += row.interrupts;
    totals.ticks += row.ticks;
    if (row.thread == 0) totals.others += row.interrupts;
    if (row.truncated) totals.truncated += row.interrupts;
    if (row.broken) totals.broken += row.interrupts;
  }
  return totals;
}

// Writes the facts that a reader needs to judge the figures.
void write_comments(ProfileEncoder& encoder, const CpuProfile& sums, const CpuProfileStats& facts) {
  Totals totals = totals_of(sums);
  bool wall = facts.clock == os::ThreadClock::kWall;
  FixedText<256> text;
  text << "seemalloc: " << (wall ? "wall" : "CPU") << " time, each thread interrupted every "
       << facts.period_ns << " ns of it; interrupts " << facts.interrupts << ", evictions "
       << facts.evictions << ", lost " << facts.lost + sums.lost();
  encoder.comment(text);
  text.clear();
  text << "cpu: the process used " << facts.process_cpu_ns << " ns; the samples stand for "
       << totals.ticks * facts.period_ns << " ns" << (wall ? " of wall time" : "")
       << ", the lost ones for " << (facts.lost_ticks + sums.lost_ticks()) * facts.period_ns
       << " ns";
  encoder.comment(text);
  encoder.notes().add_stacks(sums.stacks(), totals.truncated, totals.broken);
  text.clear();
  text << "threads: " << facts.threads << " had a timer, " << facts.threads_without_timer
       << " were refused one";
  encoder.comment(text);
  if (totals.others != 0) {
    text.clear();
    text << "thread labels: " << totals.others << " samples are of " << kOtherThreads
         << ": at most " << uint64_t{ThreadTable::kMaxThreads} << " threads, and "
         << uint64_t{CpuProfile::kMaxThreadRows}
         << " pairs of a thread and a stack, are distinguished";
    encoder.comment(text);
  }
  if (facts.end_reason == nullptr) return;
  text.clear();
  text << "ended early: " << facts.end_reason;
  encoder.comment(text);
}

// The labels of rows, made once per thread.
class ThreadLabels {
 public:
  explicit ThreadLabels(ThreadTable* threads) : threads_(threads) {}

  unsigned of(uint32_t number, Label* labels) {
    if (number != known_) thread_ = number != 0 ? threads_->get(number) : ThreadTable::Thread{};
    known_ = number;
    return thread_labels(thread_, labels);
  }

 private:
  ThreadTable* threads_;
  ThreadTable::Thread thread_;
  uint32_t known_ = 0;
};

}  // namespace

bool write_cpu_profile(const CpuProfile& sums, ThreadTable* threads, const CpuProfileStats& facts,
                       Buffer* out) {
  ValueType time{facts.clock == os::ThreadClock::kWall ? "wall" : "cpu", "nanoseconds"};
  const ValueType types[] = {{"samples", "count"}, time};
  os::Scratch<ProfileEncoder> memory;
  if (!memory) return false;
  ProfileEncoder& encoder = *memory;
  encoder.show_allocator();
  if (!encoder.begin(types, 2, time, facts.period_ns)) return false;
  encoder.duration(facts.duration_ns);
  write_comments(encoder, sums, facts);
  ThreadLabels known(threads);
  for (size_t i = 0; i < sums.size(); i++) {
    const CpuProfile::Row& row = sums[i];
    if (row.interrupts == 0) continue;
    int64_t values[] = {static_cast<int64_t>(row.interrupts),
                        static_cast<int64_t>(row.ticks * facts.period_ns)};
    Label labels[kThreadLabels];
    unsigned count = known.of(row.thread, labels);
    encoder.row(sums.frames(row), row.depth, values, labels, count);
  }
  return encoder.finish(out);
}

}  // namespace seemalloc::profile
