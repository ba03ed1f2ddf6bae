#include "core/profile/heap/fragmentation_profile.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/os/runtime/scratch.h"
#include "core/profile/heap/records.h"
#include "core/profile/pprof/profile_encoder.h"
#include "core/profile/sampling/sampler.h"
#include "core/profile/sampling/square_root.h"

namespace seemalloc::profile {

bool FragmentationProfile::begin() {
  constexpr size_t kMore = 4096;  // samples that may be added meanwhile
  return charges_.reserve(records.live.capacity() + kMore);
}

void FragmentationProfile::add(SampleId id, double home_bytes, double own_bytes, bool has_home) {
  if (charges_.size() == charges_.capacity()) {
    skipped_samples_++;
    return;
  }
  const Bucket* bucket = records.live.get(id).bucket;
  if (!has_home && bucket->key.interval_bytes > 1) samples_without_home_++;
  charges_.push({bucket, id, static_cast<float>(home_bytes), static_cast<float>(own_bytes)});
}

// Returns the standard error as estimated from the samples. With few samples that estimate may be
// far too small: if they missed the blocks that keep most of the memory, they all agree. In that
// case the known deviation from the heap's counters is returned.
double FragmentationProfile::standard_error(uint64_t free_bytes) const {
  constexpr double kMaxStandardErrors = 3;
  double error = square_root(variance_), off = charged_bytes_ - static_cast<double>(free_bytes);
  if (off < 0) off = -off;
  return is_sampled_ && off > kMaxStandardErrors * error ? off : error;
}

// Writes the row of a bucket, whose charges start at `first`. Returns the index of the next
// bucket's first charge.
size_t FragmentationProfile::write_row(ProfileEncoder& encoder, size_t first) {
  const Bucket& bucket = *charges_[first].bucket;
  double weight = sample_weight(bucket.key.sampled_bytes, bucket.key.interval_bytes);
  double objects = 0, bytes = 0;
  size_t i = first;
  for (SampleId last = 0; i < charges_.size() && charges_[i].bucket == &bucket;
       last = charges_[i].id, i++) {
    if (charges_[i].id == last) continue;  // seen twice: it has moved between two lists
    double others = charges_[i].home_bytes, own = charges_[i].own_bytes;
    objects += (others > 0 ? weight - 1 : 0) + (own > 0 ? 1 : 0);
    bytes += (weight - 1) * others + own;
    is_sampled_ = is_sampled_ || weight > 1;
    truncated_ += bucket.stack->truncated;
    broken_ += bucket.stack->broken;
    variance_ += (1 - 1 / weight) * (weight - 1) * (weight - 1) * others * others;
  }
  charged_bytes_ += bytes;
  int64_t values[] = {rounded(objects), rounded(bytes)};
  Label label{"bytes", static_cast<int64_t>(bucket.key.allocated_bytes), "bytes"};
  if (values[1] != 0) encoder.row(bucket.stack->pcs(), bucket.stack->depth, values, &label, 1);
  return i;
}

void FragmentationProfile::write_comments(ProfileEncoder& encoder,
                                          const FragmentationTotals& totals) const {
  FixedText<400> text;
  text << "fragmentation: " << totals.free_bytes
       << " bytes free in spans that live blocks keep, by heap metadata; "
       << rounded(charged_bytes_) << " bytes charged to the stacks of these blocks, standard error "
       << rounded(standard_error(totals.free_bytes)) << " bytes; the rest is kept by blocks "
       << (is_sampled_ ? "without a sample, or " : "") << "in threads' free lists";
  encoder.comment(text);
  text.clear();
  text << "resident: " << totals.resident_bytes
       << " bytes between live blocks, as in the statistics; may be off by up to "
       << totals.uncertain_bytes << " bytes";
  encoder.comment(text);
  text.clear();
  text << "samples: " << uint64_t{charges_.size()} << " in use; " << samples_without_home_
       << " with an unknown place in the heap, " << skipped_samples_ << " recorded too late, "
       << records.dropped.load(std::memory_order_relaxed) << " more dropped for lack of memory";
  encoder.comment(text);
  encoder.notes().add_stacks(records.buckets.stacks(), truncated_, broken_);
}

bool FragmentationProfile::finish(Buffer* out, uint64_t interval_bytes,
                                  const FragmentationTotals& totals) {
  *out = Buffer{};
  static constexpr ValueType kTypes[] = {{"fragmentation_objects", "count"},
                                         {"fragmentation_space", "bytes"}};
  os::Scratch<ProfileEncoder> memory;
  if (!memory) return false;
  ProfileEncoder& encoder = *memory;
  if (!encoder.begin(kTypes, 2, {"space", "bytes"}, interval_bytes)) return false;
  is_sampled_ = interval_bytes != 1;
  auto before = [](const Charge& a, const Charge& b) {
    return a.bucket != b.bucket ? a.bucket < b.bucket : a.id < b.id;
  };
  std::sort(charges_.data(), charges_.data() + charges_.size(), before);
  for (size_t i = 0; i < charges_.size();) i = write_row(encoder, i);
  write_comments(encoder, totals);
  return encoder.finish(out);
}

}  // namespace seemalloc::profile
