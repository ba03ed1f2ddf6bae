#include "core/profile/lifetime_rows.h"

#include "core/base/units.h"
#include "core/profile/deaths.h"
#include "core/profile/lifetimes.h"

namespace seemalloc::profile {

namespace {

constexpr unsigned kMostLabels = kBucketLabels + 6;

// Blocks that one who frees has freed: the sums of at most two records.
struct FreedSums {
  uint64_t counts[kAgeClasses] = {};
  uint64_t count = 0;
  double sum = 0, squares = 0;
  uint64_t least = UINT64_MAX, most = 0;

  void add(const Lifetimes* lifetimes) {
    if (lifetimes == nullptr) return;
    uint64_t added = 0;
    for (unsigned c = 0; c < kAgeClasses; c++) {
      uint64_t n = lifetimes->count(c);
      counts[c] += n;
      added += n;
    }
    if (added == 0) return;
    count += added;
    double n = static_cast<double>(added), mean = lifetimes->mean_ns(), deviation = lifetimes->deviation_ns();
    sum += n * mean;
    squares += n * (deviation * deviation + mean * mean);
    if (lifetimes->least_ns() < least) least = lifetimes->least_ns();
    if (lifetimes->most_ns() > most) most = lifetimes->most_ns();
  }
  double mean() const { return sum / static_cast<double>(count); }
  double deviation() const { return square_root(squares / static_cast<double>(count) - mean() * mean()); }
};

void write(ProfileEncoder& encoder, const BucketRow& row, uint64_t alive, uint64_t freed, const Label* labels, unsigned count) {
  int64_t values[4] = {};
  double bytes = row.bytes();
  values[0] = rounded(row.weight * static_cast<double>(alive));
  values[1] = rounded(row.weight * static_cast<double>(alive) * bytes);
  values[2] = rounded(row.weight * static_cast<double>(freed));
  values[3] = rounded(row.weight * static_cast<double>(freed) * bytes);
  encoder.row(row.bucket->stack->pcs(), row.bucket->stack->depth, values, labels, count);
}

void write_freed(ProfileEncoder& encoder, const BucketRow& row, uint64_t interval_bytes, const FreedSums& freed, const char* by) {
  Label labels[kMostLabels];
  unsigned common = bucket_labels(row.bucket->key, interval_bytes, labels);
  unsigned count = common + 1;
  labels[count++] = {"freed_by", 0, nullptr, by};
  labels[count++] = {"mean", rounded(freed.mean()), "nanoseconds"};
  labels[count++] = {"deviation", rounded(freed.deviation()), "nanoseconds"};
  labels[count++] = {"least", static_cast<int64_t>(freed.least), "nanoseconds"};
  labels[count++] = {"most", static_cast<int64_t>(freed.most), "nanoseconds"};
  for (unsigned c = 0; c < kAgeClasses; c++) {
    if (freed.counts[c] == 0) continue;
    labels[common] = {"lifetime", 0, nullptr, age_class_name(c)};
    write(encoder, row, 0, freed.counts[c], labels, count);
  }
}

// The deaths first: they are counted after what they are part of.
DeathCounts count_deaths(const Lifetimes& lifetimes) {
  DeathCounts counts;
  for (const Death* each = lifetimes.deaths(); each != nullptr; each = each->next) counts.known += each->count.load(std::memory_order_acquire);
  counts.all = lifetimes.count();
  return counts;
}

void write_deaths(ProfileEncoder& encoder, const BucketRow& row, uint64_t interval_bytes, const Lifetimes& lifetimes, const char* by) {
  Label labels[kBucketLabels + 1];
  unsigned count = bucket_labels(row.bucket->key, interval_bytes, labels);
  labels[count++] = {"freed_by", 0, nullptr, by};
  const InternedStack* made = row.bucket->stack;
  auto write_pair = [&](const InternedStack* freed, uint64_t samples) {
    if (samples == 0) return;
    double objects = row.weight * static_cast<double>(samples);
    int64_t values[2] = {rounded(objects), rounded(objects * row.bytes())};
    encoder.joined_row(freed != nullptr ? freed->pcs() : nullptr, freed != nullptr ? freed->depth : 0, made->pcs(), made->depth, values,
                       labels, count);
  };
  uint64_t known = 0;
  for (const Death* each = lifetimes.deaths(); each != nullptr; each = each->next) {
    uint64_t samples = each->count.load(std::memory_order_acquire);
    known += samples;
    write_pair(each->stack, samples);
  }
  write_pair(nullptr, minus(lifetimes.count(), known));
}

}  // namespace

DeathCounts count_deaths(const Bucket& bucket) {
  DeathCounts sum;
  for (const std::atomic<Lifetimes*>& place : bucket.lifetimes) {
    const Lifetimes* lifetimes = place.load(std::memory_order_acquire);
    if (lifetimes == nullptr) continue;
    DeathCounts counts = count_deaths(*lifetimes);
    sum.known += counts.known;
    sum.all += counts.all;
  }
  return sum;
}

void write_death_rows(ProfileEncoder& encoder, const BucketRow& row, uint64_t interval_bytes) {
  for (unsigned by = 0; by < kFreedBys; by++) {
    const Lifetimes* lifetimes = row.bucket->lifetimes[by].load(std::memory_order_acquire);
    if (lifetimes == nullptr) continue;
    const char* name = static_cast<FreedBy>(by) == FreedBy::kAnother ? "another thread" : "same thread";
    write_deaths(encoder, row, interval_bytes, *lifetimes, name);
  }
}

void write_lifetime_rows(ProfileEncoder& encoder, const BucketRow& row, uint64_t interval_bytes) {
  auto of = [&](FreedBy by) { return row.bucket->lifetimes[static_cast<unsigned>(by)].load(std::memory_order_acquire); };
  FreedSums same, another;
  same.add(of(FreedBy::kOwner));
  same.add(of(FreedBy::kSame));
  another.add(of(FreedBy::kAnother));
  if (same.count != 0) write_freed(encoder, row, interval_bytes, same, "same thread");
  if (another.count != 0) write_freed(encoder, row, interval_bytes, another, "another thread");
  if (row.live_samples == 0) return;
  Label labels[kMostLabels];
  unsigned count = bucket_labels(row.bucket->key, interval_bytes, labels);
  labels[count++] = {"lifetime", 0, nullptr, "alive"};
  write(encoder, row, row.live_samples, 0, labels, count);
}

}  // namespace seemalloc::profile
