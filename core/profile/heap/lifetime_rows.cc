#include "core/profile/heap/lifetime_rows.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/base/units.h"
#include "core/profile/heap/held.h"
#include "core/profile/heap/sampled_threads.h"
#include "core/profile/heap/thread_rows.h"
#include "core/profile/sampling/deaths.h"
#include "core/profile/sampling/lifetimes.h"
#include "core/profile/sampling/square_root.h"

namespace seemalloc::profile {

namespace {

constexpr unsigned kMostLabels = kBucketLabels + 6 + kThreadLabels;

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
    more.least = lifetimes->least_ns(), more.most = lifetimes->most_ns();
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
  static FreedSums rest(const FreedSums& all, const FreedSums& part) {
    FreedSums rest = all;
    rest.count = 0;
    for (unsigned c = 0; c < kAgeClasses; c++)
      rest.count += rest.counts[c] = minus(all.counts[c], part.counts[c]);
    rest.sum -= part.sum;
    rest.squares -= part.squares;
    return rest.count != 0 ? rest : FreedSums{};
  }

  // For a rest(), least and most are only bounds, and the sums have rounding errors. So ages are
  // clamped to the age classes with a count.
  uint64_t least_age() const { return std::clamp(least, least_of(first()), most_of(first())); }
  uint64_t most_age() const {
    return std::max(least_age(), std::clamp(most, least_of(last()), most_of(last())));
  }
  double mean() const {
    return std::clamp(sum / static_cast<double>(count), static_cast<double>(least_age()),
                      static_cast<double>(most_age()));
  }
  double deviation() const {
    double most_possible = static_cast<double>(most_age() - least_age()) / 2;
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
    return age_class == 0 ? 0 : kAgeClassEnds_ns[age_class - 1];
  }
  static uint64_t most_of(unsigned age_class) { return kAgeClassEnds_ns[age_class] - 1; }
};

// The sums for one bucket's blocks of one thread, or of the other threads.
struct Lives {
  uint64_t alive = 0;
  FreedSums same, another;  // freed by the thread that allocated them, or by another one
};

// The rows of one bucket.
class LifeRows {
 public:
  LifeRows(ProfileEncoder& encoder, const BucketRow& row, uint64_t interval_bytes)
      : encoder_(encoder), row_(row) {
    common_ = bucket_labels(row.bucket->key, interval_bytes, labels_);
  }
  void write(const Lives& lives, const ThreadNames::Thread& thread) {
    if (lives.same.count != 0) write_freed(lives.same, "same thread", thread);
    if (lives.another.count != 0) write_freed(lives.another, "another thread", thread);
    if (lives.alive == 0) return;
    labels_[common_] = {"lifetime", 0, nullptr, "alive"};
    write(lives.alive, 0, common_ + 1 + thread_labels(thread, labels_ + common_ + 1));
  }

 private:
  void write_freed(const FreedSums& freed, const char* by, const ThreadNames::Thread& thread) {
    unsigned count = common_ + 1;
    labels_[count++] = {"freed_by", 0, nullptr, by};
    labels_[count++] = {"mean", rounded(freed.mean()), "nanoseconds"};
    labels_[count++] = {"deviation", rounded(freed.deviation()), "nanoseconds"};
    labels_[count++] = {"least", static_cast<int64_t>(freed.least_age()), "nanoseconds"};
    labels_[count++] = {"most", static_cast<int64_t>(freed.most_age()), "nanoseconds"};
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
  Label labels_[kMostLabels];
  unsigned common_;
};

// Records by thread, sorted by bucket and thread. `thread` is the record's thread when it was read;
// the record may be given to another thread at any time.
struct OfThread {
  const Bucket* bucket;
  uint32_t thread;
  const ThreadLives* record;
};
bool before(const OfThread& a, const OfThread& b) {
  return a.bucket != b.bucket ? a.bucket < b.bucket : a.thread < b.thread;
}

// A sorted list of data by thread, consumed from the front while buckets are visited in the order
// of their addresses.
template <typename Each>
struct Queue {
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
  // counts for all threads; see count_left_slow().
  bool take() {
    records.threads.refresh();
    records.thread_lives.for_each([&](const ThreadLives& record) {
      uint32_t thread = record.thread.load(std::memory_order_acquire);
      if (thread != 0) of_threads_.push({record.bucket, thread, &record});
    });
    if (of_threads_.failed() || !held_.take(HeldCounts::Order::kByBucket)) return false;
    if (of_threads_.size() != 0)
      std::sort(of_threads_.data(), of_threads_.data() + of_threads_.size(), before);
    lives_ = {of_threads_.data(), of_threads_.data() + of_threads_.size()};
    alive_ = {held_.begin(), held_.end()};
    return true;
  }

  // Requires: the bucket's address is above that of the previous call.
  void write(const BucketRow& row) {
    const Bucket* bucket = row.bucket;
    LifeRows rows(encoder_, row, interval_bytes_);
    Lives others;
    FreedSums same, another;  // sums over known threads, without the bucket's record for kOwner
    bool owner_done = !has_number(bucket->owner);
    for (;;) {
      const OfThread* freed = lives_.of(bucket);
      const Held* held = alive_.of(bucket);
      uint32_t number = UINT32_MAX;
      if (freed != nullptr) number = freed->thread;
      if (held != nullptr) number = std::min(number, held->thread);
      if (!owner_done) number = std::min(number, bucket->owner);
      if (number == UINT32_MAX) break;
      Lives lives;  // without the bucket's record for kOwner
      if (held != nullptr && held->thread == number) lives.alive = held->samples, alive_.next++;
      for (; freed != nullptr && freed->thread == number; freed = lives_.of(bucket)) {
        bool by_same = freed->record->way == static_cast<unsigned>(FreedBy::kSame);
        add_if_still(*freed, by_same ? lives.same : lives.another);
        lives_.next++;
      }
      ThreadNames::Thread thread;
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
        (known ? lives : others).same.add(bucket->lifetimes(FreedBy::kOwner));
      }
      if (known) rows.write(lives, thread);
    }
    if (!has_number(bucket->owner)) others.same.add(bucket->lifetimes(FreedBy::kOwner));
    others.same.add(rest_of(bucket, FreedBy::kSame, same));
    others.another = rest_of(bucket, FreedBy::kAnother, another);
    rows.write(others, ThreadNames::Thread{});
    other_samples_ += others.same.count + others.another.count;
  }

  void comment() const {
    if (other_samples_ == 0) return;
    FixedText<512> text;
    text << "lifetime by thread: " << other_samples_ << " samples freed are of " << kOtherThreads
         << ": ended threads make room for new ones; "
         << "at most " << uint64_t{ThreadNames::kMost} << " threads, and "
         << uint64_t{most_thread_lives()}
         << " records of a stack, a size and a thread, are distinguished";
    if (interval_bytes_ <= 1)
      text
          << "; if all blocks are recorded, only frees by the first thread with a stack are, unless free_stacks:all is set";
    encoder_.comment(text);
  }

 private:
  static FreedSums rest_of(const Bucket* bucket, FreedBy by, const FreedSums& part) {
    FreedSums all;
    all.add(bucket->lifetimes(by));
    return FreedSums::rest(all, part);
  }
  static void add_if_still(const OfThread& of, FreedSums& sums) {
    FreedSums more;
    more.add(&of.record->lives);
    if (of.record->thread.load(std::memory_order_acquire) == of.thread) sums.add(more);
  }

  ProfileEncoder& encoder_;
  uint64_t interval_bytes_;
  GrowArray<OfThread> of_threads_;
  HeldCounts held_;
  Queue<OfThread> lives_{};
  Queue<Held> alive_{};
  uint64_t other_samples_ = 0;
};

// Reads the deaths first: each is counted after the record that includes it.
DeathCounts count_deaths(const Lifetimes& lifetimes) {
  DeathCounts counts;
  for (const Death* each = lifetimes.deaths(); each != nullptr; each = each->next)
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
  for (FreedBy by : kFreedBys) {
    const Lifetimes* lifetimes = bucket.lifetimes(by);
    if (lifetimes == nullptr) continue;
    DeathCounts counts = count_deaths(*lifetimes);
    sum.known += counts.known;
    sum.all += counts.all;
  }
  return sum;
}

void write_death_rows(ProfileEncoder& encoder, const BucketRow& row, uint64_t interval_bytes) {
  for (FreedBy by : kFreedBys) {
    const Lifetimes* lifetimes = row.bucket->lifetimes(by);
    if (lifetimes == nullptr) continue;
    const char* name = by == FreedBy::kAnother ? "another thread" : "same thread";
    write_deaths(encoder, row, interval_bytes, *lifetimes, name);
  }
}

bool write_lifetime_rows(ProfileEncoder& encoder, const GrowArray<BucketRow>& rows,
                         uint64_t interval_bytes) {
  LifetimeWriter writer(encoder, interval_bytes);
  GrowArray<const BucketRow*> sorted;
  for (size_t i = 0; i < rows.size(); i++) sorted.push(&rows[i]);
  if (sorted.failed() || !writer.take()) return false;
  if (sorted.size() != 0) {
    std::sort(sorted.data(), sorted.data() + sorted.size(),
              [](const BucketRow* a, const BucketRow* b) { return a->bucket < b->bucket; });
  }
  for (size_t i = 0; i < sorted.size(); i++) writer.write(*sorted[i]);
  writer.comment();
  return true;
}

}  // namespace seemalloc::profile
