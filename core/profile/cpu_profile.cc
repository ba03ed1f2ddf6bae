#include "core/profile/cpu_profile.h"

#include "core/profile/profile_encoder.h"

namespace seemalloc::profile {

namespace {
constexpr size_t kFirstSlots = 4096;
}

CpuSums::Row* CpuSums::find(const CpuSample& sample) {
  if (slots_.size() == 0) return nullptr;
  for (size_t i = slot_of(sample.hash); slots_[i] != 0; i = (i + 1) & (slots_.size() - 1)) {
    Row& row = rows_[slots_[i] - 1];
    bool same = row.hash == sample.hash && row.depth == sample.depth && row.truncated == sample.truncated && row.broken == sample.broken;
    for (uint32_t f = 0; same && f < row.depth; f++) same = frames_[row.first + f] == sample.pcs[f];
    if (same) return &row;
  }
  return nullptr;
}

// Room for one more row, in all three. At most half of the slots are taken.
bool CpuSums::make_room() {
  if (frames_.size() + kMaxStackDepth > kMaxFrames) return false;
  if (!rows_.reserve(rows_.size() + 1) || !frames_.reserve(frames_.size() + kMaxStackDepth)) return false;
  if ((rows_.size() + 1) * 2 <= slots_.size()) return true;
  size_t slots = slots_.size() == 0 ? kFirstSlots : slots_.size() * 2;
  if (!slots_.reserve(slots)) return false;
  slots_.set_size(slots);
  for (size_t i = 0; i < slots; i++) slots_[i] = 0;
  for (size_t r = 0; r < rows_.size(); r++) {
    size_t i = slot_of(rows_[r].hash);
    while (slots_[i] != 0) i = (i + 1) & (slots - 1);
    slots_[i] = static_cast<uint32_t>(r + 1);
  }
  return true;
}

bool CpuSums::insert(const CpuSample& sample) {
  if (!make_room()) return false;
  Row row{sample.hash, sample.interrupts, sample.ticks, frames_.size(), sample.depth, sample.truncated, sample.broken};
  for (uint32_t f = 0; f < sample.depth; f++) frames_.push(sample.pcs[f]);
  rows_.push(row);
  size_t i = slot_of(sample.hash);
  while (slots_[i] != 0) i = (i + 1) & (slots_.size() - 1);
  slots_[i] = static_cast<uint32_t>(rows_.size());
  return true;
}

void CpuSums::add(const CpuSample& sample) {
  if (Row* row = find(sample)) {
    row->interrupts += sample.interrupts;
    row->ticks += sample.ticks;
  } else if (!insert(sample)) {
    lost_ += sample.interrupts;
    lost_ticks_ += sample.ticks;
  }
}

namespace {

struct Totals {
  uint64_t interrupts = 0, ticks = 0, truncated = 0, broken = 0;
};

Totals totals_of(const CpuSums& sums) {
  Totals totals;
  for (size_t i = 0; i < sums.size(); i++) {
    const CpuSums::Row& row = sums[i];
    totals.interrupts += row.interrupts;
    totals.ticks += row.ticks;
    if (row.truncated) totals.truncated += row.interrupts;
    if (row.broken) totals.broken += row.interrupts;
  }
  return totals;
}

// What a reader must know to trust the figures, or not.
void write_comments(ProfileEncoder& encoder, const CpuSums& sums, const CpuProfileFacts& facts) {
  Totals totals = totals_of(sums);
  bool wall = facts.clock == os::ThreadClock::kWall;
  FixedText<256> text;
  text << "seemalloc: " << (wall ? "wall" : "CPU") << " time, each thread interrupted every " << facts.period_ns
       << " ns of it; interrupts " << facts.interrupts << ", evictions " << facts.evictions << ", lost " << facts.lost + sums.lost();
  encoder.comment(text);
  text.clear();
  text << "cpu: the process used " << facts.process_cpu_ns << " ns; the samples stand for " << totals.ticks * facts.period_ns
       << " ns" << (wall ? " of wall time" : "") << ", the lost ones for "
       << (facts.lost_ticks + sums.lost_ticks()) * facts.period_ns << " ns";
  encoder.comment(text);
  text.clear();
  text << "stacks: " << uint64_t{sums.size()} << " distinct; " << totals.truncated << " samples with a truncated stack, " << totals.broken
       << " samples with a broken unwind";
  encoder.comment(text);
  text.clear();
  text << "threads: " << facts.threads << " had a timer, " << facts.without_timer << " were refused one";
  encoder.comment(text);
  if (facts.ended == nullptr) return;
  text.clear();
  text << "ended early: " << facts.ended;
  encoder.comment(text);
}

}  // namespace

bool write_cpu_profile(const CpuSums& sums, const CpuProfileFacts& facts, Buffer* out) {
  ValueType time{facts.clock == os::ThreadClock::kWall ? "wall" : "cpu", "nanoseconds"};
  const ValueType types[] = {{"samples", "count"}, time};
  ProfileEncoder encoder;
  encoder.show_allocator();
  if (!encoder.begin(types, 2, time, facts.period_ns)) return false;
  encoder.duration(facts.duration_ns);
  write_comments(encoder, sums, facts);
  for (size_t i = 0; i < sums.size(); i++) {
    const CpuSums::Row& row = sums[i];
    int64_t values[] = {static_cast<int64_t>(row.interrupts), static_cast<int64_t>(row.ticks * facts.period_ns)};
    encoder.row(sums.frames(row), row.depth, values, nullptr, 0);
  }
  return encoder.finish(out);
}

}  // namespace seemalloc::profile
