#include "core/profile/heap/lifetime_rows.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/base/units.h"
#include "core/profile/heap/live_counts.h"
#include "core/profile/heap/thread_numbers.h"
#include "core/profile/heap/thread_rows.h"
#include "core/profile/sampling/free_stacks.h"
#include "core/profile/sampling/lifetimes.h"
#include "core/profile/sampling/square_root.h"

namespace seemalloc::profile {

namespace {

constexpr unsigned kMaxLabels = kBucketLabels + 6 + kThreadLabels;

// Sums over the freed blocks of some records.
struct FreedSums {
  uint64_t counts[kAgeClasses] = {};
  uint64_t count = 0;
  double sum = 0, squares = 0;
  uint64_t least = UINT64_MAX, most = 0;

  void add(const Lifetimes* lifetimes) {
    if (lifetimes == nullptr) return;
    FreedSums more;
    for (unsigned c = 0; c < kAgeClasses; c++) more.count += more.counts[c] = lifetimes->count(c);
    if (more.count == 0) return;
    more.sum = lifetimes->sum_ns();
    more.squares = lifetimes->sum_of_squares();
    more.least = lifetimes->min_ns(), more.most = lifetimes->max_ns();
    add(more);
  }
  void add(const FreedSums& more) {
    for (unsigned c = 0; c < kAgeClasses; c++) counts[c] += more.counts[c];
    count += more.count;
    sum += more.sum;
    squares += more.squares;
    least = std::min(least, more.least);
    most = std::max(most, more.most);
  }
  // The rest of `all` without `part`.
  static FreedSums difference(const FreedSums& all, const FreedSums& part) {
    FreedSums difference = all;
    difference.count = 0;
    for (unsigned c = 0; c < kAgeClasses; c++)
      difference.count += difference.counts[c] = saturating_subtract(all.counts[c], part.counts[c]);
    difference.sum -= part.sum;
    difference.squares -= part.squares;
    return difference.count != 0 ? difference : FreedSums{};
  }

  // For a difference(), least and most are only bounds, and the sums have rounding errors. So ages
  // are clamped to the age classes with a count.
  uint64_t min_age() const { return std::clamp(least, least_of(first()), most_of(first())); }
  uint64_t max_age() const {
    return std::max(min_age(), std::clamp(most, least_of(last()), most_of(last())));
  }
  double mean() const {
    return std::clamp(sum / static_cast<double>(count), static_cast<double>(min_age()),
                      static_cast<double>(max_age()));
  }
  double deviation() const {
    double most_possible = static_cast<double>(max_age() - min_age()) / 2;
    return std::min(square_root(squares / static_cast<double>(count) - mean() * mean()),
                    most_possible);
  }

 private:
  // Requires: count ≠ 0.
  unsigned first() const {
    unsigned c = 0;
    while (counts[c] == 0) c++;
    return c;
  }
  unsigned last() const {
    unsigned c = kAgeClasses - 1;
    while (counts[c] == 0) c--;
    return c;
  }
  static uint64_t least_of(unsigned age_class) {
    return age_class == 0 ? 0 : kAgeClassEndsNs[age_class - 1];
  }
  static uint64_t most_of(unsigned age_class) { return kAgeClassEndsNs[age_class] - 1; }
};

// The sums for one bucket's blocks of one thread, or of the other threads.
struct ThreadLifetimeSums {
  uint64_t alive = 0;
  FreedSums same, another;  // freed by the thread that allocated them, or by another one
};

// The rows of one bucket.
class LifetimeRows {
 public:
  LifetimeRows(ProfileEncoder& encoder, const BucketRow& row, uint64_t interval_bytes)
      : encoder_(encoder), row_(row) {
    common_ = bucket_labels(row.bucket->key, interval_bytes, labels_);
  }
  void write(const ThreadLifetimeSums& lives, const ThreadTable::Thread& thread) {
    if (lives.same.count != 0) write_freed(lives.same, "same thread", thread);
    if (lives.another.count != 0) write_freed(lives.another, "another thread", thread);
    if (lives.alive == 0) return;
    labels_[common_] = {"lifetime", 0, nullptr, "alive"};
    write(lives.alive, 0, common_ + 1 + thread_labels(thread, labels_ + common_ + 1));
  }

 private:
  void write_freed(const FreedSums& freed, const char* by, const ThreadTable::Thread& thread) {
    unsigned count = common_ + 1;
    labels_[count++] = {"freed_by", 0, nullptr, by};
    labels_[count++] = {"mean", rounded(freed.mean()), "nanoseconds"};
    labels_[count++] = {"deviation", rounded(freed.deviation()), "nanoseconds"};
    labels_[count++] = {"least", static_cast<int64_t>(freed.min_age()), "nanoseconds"};
    labels_[count++] = {"most", static_cast<int64_t>(freed.max_age()), "nanoseconds"};
    count += thread_labels(thread, labels_ + count);
    for (unsigned c = 0; c < kAgeClasses; c++) {
      if (freed.counts[c] == 0) continue;
      labels_[common_] = {"lifetime", 0, nullptr, age_class_name(c)};
      write(0, freed.counts[c], count);
    }
  }
  void write(uint64_t alive, uint64_t freed, unsigned label_count) {
    int64_t values[4] = {};
    add(alive, alive_, values);
    add(freed, freed_, values + 2);
    encoder_.row(row_.bucket->stack->pcs(), row_.bucket->stack->depth, values, labels_,
                 label_count);
  }

  // Adds objects and bytes. A row may have a single sample, so rounding is cumulative: the rows add
  // up to the rounded total.
  void add(uint64_t samples, uint64_t& before, int64_t* values) {
    auto both = [&](int sign) {
      double objects = row_.weight * static_cast<double>(before);
      values[0] += sign * rounded(objects);
      values[1] += sign * rounded(objects * row_.bytes());
    };
    both(-1);
    before += samples;
    both(+1);
  }

  ProfileEncoder& encoder_;
  const BucketRow& row_;
  uint64_t alive_ = 0, freed_ = 0;  // samples written
  Label labels_[kMaxLabels];
  unsigned common_;
};

// Records by thread, sorted by bucket and thread. `thread` is the record's thread when it was read;
// the record may be given to another thread at any time.
struct ThreadRecord {
  const Bucket* bucket;
  uint32_t thread;
  const ThreadLifetimes* record;
};
bool before(const ThreadRecord& a, const ThreadRecord& b) {
  return a.bucket != b.bucket ? a.bucket < b.bucket : a.thread < b.thread;
}

// A sorted list of data by thread, consumed from the front while buckets are visited in the order
// of their addresses.
template <typename Each>
struct SortedCursor {
  const Each* next;
  const Each* end;

  // The next entry of the bucket; null if there is none.
  const Each* of(const Bucket* bucket) {
    while (next != end && next->bucket < bucket) next++;
    return next != end && next->bucket == bucket ? next : nullptr;
  }
};

class LifetimeWriter {
 public:
  LifetimeWriter(ProfileEncoder& encoder, uint64_t interval_bytes)
      : encoder_(encoder), interval_bytes_(interval_bytes) {}

  // Collects the records by thread and the live samples. Records by thread are read before the
  // counts for all threads; see count_free_slow().
  bool collect() {
    records.threads.refresh();
    records.thread_lifetimes.for_each([&](const ThreadLifetimes& record) {
      uint32_t thread = record.thread.load(std::memory_order_acquire);
      if (thread != 0) of_threads_.push({record.bucket, thread, &record});
    });
    if (of_threads_.failed() || !held_.collect(LiveCounts::Order::kByBucket)) return false;
    if (of_threads_.size() != 0)
      std::sort(of_threads_.data(), of_threads_.data() + of_threads_.size(), before);
    lives_ = {of_threads_.data(), of_threads_.data() + of_threads_.size()};
    alive_ = {held_.begin(), held_.end()};
    return true;
  }

  // Requires: the bucket's address is above that of the previous call.
  void write(const BucketRow& row) {
    const Bucket* bucket = row.bucket;
    LifetimeRows rows(encoder_, row, interval_bytes_);
    ThreadLifetimeSums others;
    FreedSums same, another;  // sums over known threads, without the bucket's record for kOwner
    bool owner_done = !is_thread_number(bucket->owner);
    for (;;) {
      const ThreadRecord* freed = lives_.of(bucket);
      const LiveCount* held = alive_.of(bucket);
      uint32_t number = UINT32_MAX;
      if (freed != nullptr) number = freed->thread;
      if (held != nullptr) number = std::min(number, held->thread);
      if (!owner_done) number = std::min(number, bucket->owner);
      if (number == UINT32_MAX) break;
      ThreadLifetimeSums lives;  // without the bucket's record for kOwner
      if (held != nullptr && held->thread == number) lives.alive = held->samples, alive_.next++;
      for (; freed != nullptr && freed->thread == number; freed = lives_.of(bucket)) {
        bool by_same = freed->record->freed_by == static_cast<unsigned>(FreedBy::kSameThread);
        add_if_unchanged(*freed, by_same ? lives.same : lives.another);
        lives_.next++;
      }
      ThreadTable::Thread thread;
      if (number != 0) thread = records.threads.get(number);
      bool known = thread.id != 0;
      if (known) {
        same.add(lives.same);
        another.add(lives.another);
      } else {
        others.alive += lives.alive;
      }
      if (number == bucket->owner) {
        owner_done = true;
        (known ? lives : others).same.add(bucket->lifetimes(FreedBy::kBucketOwner));
      }
      if (known) rows.write(lives, thread);
    }
    if (!is_thread_number(bucket->owner)) others.same.add(bucket->lifetimes(FreedBy::kBucketOwner));
    others.same.add(unattributed(bucket, FreedBy::kSameThread, same));
    others.another = unattributed(bucket, FreedBy::kOtherThread, another);
    rows.write(others, ThreadTable::Thread{});
    other_samples_ += others.same.count + others.another.count;
  }

  void comment() const {
    if (other_samples_ == 0) return;
    FixedText<512> text;
    text
        << "lifetime by thread: " << other_samples_ << " samples freed are of " << kOtherThreads
        << ". At most " << uint64_t{ThreadTable::kMaxThreads} << " threads, and "
        << uint64_t{max_thread_lifetimes()}
        << " records of a stack, a size and a thread, are distinguished; records of ended threads are reused.";
    if (interval_bytes_ <= 1)
      text
          << " With sample:1, only frees by the first thread with a stack are known by thread, unless free_stacks:all is set.";
    encoder_.comment(text);
  }

 private:
  static FreedSums unattributed(const Bucket* bucket, FreedBy by, const FreedSums& part) {
    FreedSums all;
    all.add(bucket->lifetimes(by));
    return FreedSums::difference(all, part);
  }
  static void add_if_unchanged(const ThreadRecord& of, FreedSums& sums) {
    FreedSums more;
    more.add(&of.record->lifetimes);
    if (of.record->thread.load(std::memory_order_acquire) == of.thread) sums.add(more);
  }

  ProfileEncoder& encoder_;
  uint64_t interval_bytes_;
  GrowArray<ThreadRecord> of_threads_;
  LiveCounts held_;
  SortedCursor<ThreadRecord> lives_{};
  SortedCursor<LiveCount> alive_{};
  uint64_t other_samples_ = 0;
};

// Reads the deaths first: each is counted after the record that includes it.
FreeStackCounts count_deaths(const Lifetimes& lifetimes) {
  FreeStackCounts counts;
  for (const FreeStack* each = lifetimes.free_stacks(); each != nullptr; each = each->next)
    counts.known += each->count.load(std::memory_order_acquire);
  counts.all = lifetimes.count();
  return counts;
}

void write_deaths(ProfileEncoder& encoder, const BucketRow& row, uint64_t interval_bytes,
                  const Lifetimes& lifetimes, const char* by) {
  Label labels[kBucketLabels + 1];
  unsigned count = bucket_labels(row.bucket->key, interval_bytes, labels);
  labels[count++] = {"freed_by", 0, nullptr, by};
  const InternedStack* made = row.bucket->stack;
  auto write_pair = [&](const InternedStack* freed, uint64_t samples) {
    if (samples == 0) return;
    double objects = row.weight * static_cast<double>(samples);
    int64_t values[2] = {rounded(objects), rounded(objects * row.bytes())};
    encoder.joined_row(freed != nullptr ? freed->pcs() : nullptr,
                       freed != nullptr ? freed->depth : 0, made->pcs(), made->depth, values,
                       labels, count);
  };
  uint64_t known = 0;
  for (const FreeStack* each = lifetimes.free_stacks(); each != nullptr; each = each->next) {
    uint64_t samples = each->count.load(std::memory_order_acquire);
    known += samples;
    write_pair(each->stack, samples);
  }
  write_pair(nullptr, saturating_subtract(lifetimes.count(), known));
}

}  // namespace

FreeStackCounts count_deaths(const Bucket& bucket) {
  FreeStackCounts sum;
  for (FreedBy by : kFreedBys) {
    const Lifetimes* lifetimes = bucket.lifetimes(by);
    if (lifetimes == nullptr) continue;
    FreeStackCounts counts = count_deaths(*lifetimes);
    sum.known += counts.known;
    sum.all += counts.all;
  }
  return sum;
}

void write_death_rows(ProfileEncoder& encoder, const BucketRow& row, uint64_t interval_bytes) {
  for (FreedBy by : kFreedBys) {
    const Lifetimes* lifetimes = row.bucket->lifetimes(by);
    if (lifetimes == nullptr) continue;
    const char* name = by == FreedBy::kOtherThread ? "another thread" : "same thread";
    write_deaths(encoder, row, interval_bytes, *lifetimes, name);
  }
}

bool write_lifetime_rows(ProfileEncoder& encoder, const GrowArray<BucketRow>& rows,
                         uint64_t interval_bytes) {
  LifetimeWriter writer(encoder, interval_bytes);
  GrowArray<const BucketRow*> sorted;
  for (size_t i = 0; i < rows.size(); i++) sorted.push(&rows[i]);
  if (sorted.failed() || !writer.collect()) return false;
  if (sorted.size() != 0) {
    std::sort(sorted.data(), sorted.data() + sorted.size(),
              [](const BucketRow* a, const BucketRow* b) { return a->bucket < b->bucket; });
  }
  for (size_t i = 0; i < sorted.size(); i++) writer.write(*sorted[i]);
  writer.comment();
  return true;
}

}  // namespace seemalloc::profile
