// ycsb FOLDER [THREADS] [OPERATIONS]: the load of YCSB's workload A on RocksDB: half reads, half
// updates of one field, with a Zipf distribution of keys (0.99); records have 20 fields of 100
// bytes. Each operation parses a record into a map of its fields, as YCSB's binding does.
// OPERATIONS in total. Prints operations_per_s, p50_us, p99_us.
//
// ycsb FOLDER THREADS OPERATIONS WARM PAIRS ON OFF: the same in WARM + 2 * PAIRS slices, for each
// of which an option of seemalloc is set: ON and OFF ("name:value") alternate, and each comes first
// equally often. Prints for each slice of a pair: slice ON-or-OFF operations_per_s p99_us, CPU time
// per operation in µs.
#include <rocksdb/db.h>
#include <rocksdb/options.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

extern "C" __attribute__((weak)) int seemalloc_option_set(const char* name, const char* value);

namespace {

constexpr int kFields = 20, kFieldBytes = 100, kRecords = 20'000;
using Record = std::map<std::string, std::string>;
using Clock = std::chrono::steady_clock;

void check(const rocksdb::Status& status) {
  if (status.ok()) return;
  fprintf(stderr, "ycsb: %s\n", status.ToString().c_str());
  exit(1);
}

std::string key_of(long number) {
  return "user" + std::to_string(number * 2654435761 % 10'000'000'000);
}

std::string value_of(std::mt19937_64& random) {
  std::string value(kFieldBytes, 0);
  for (char& letter : value) letter = static_cast<char>('a' + random() % 26);
  return value;
}

// Length and bytes of each name and each value.
std::string packed(const Record& record) {
  std::string all;
  for (const auto& [name, value] : record) {
    for (const std::string* part : {&name, &value}) {
      all += std::to_string(part->size()) + ':';
      all += *part;
    }
  }
  return all;
}

Record unpacked(const std::string& all) {
  Record record;
  auto next = [&all](size_t* at) {
    size_t colon = all.find(':', *at), length = std::stoul(all.substr(*at, colon - *at));
    *at = colon + 1 + length;
    return all.substr(colon + 1, length);
  };
  for (size_t at = 0; at < all.size();) {
    std::string name = next(&at);
    record[name] = next(&at);
  }
  return record;
}

// Gray and others, "Quickly generating billion-record synthetic databases", as in YCSB.
class Zipf {
 public:
  long next(std::mt19937_64& random) const {
    double u = std::generate_canonical<double, 53>(random), uz = u * zeta_;
    if (uz < 1) return 0;
    if (uz < 1 + std::pow(0.5, kTheta)) return 1;
    return std::min<long>(kRecords - 1, static_cast<long>(kRecords * std::pow(eta_ * u - eta_ + 1,
                                                                              1 / (1 - kTheta))));
  }

 private:
  static constexpr double kTheta = 0.99;
  static double zeta(long n) {
    double sum = 0;
    for (long i = 1; i <= n; ++i) sum += 1 / std::pow(i, kTheta);
    return sum;
  }
  double zeta_ = zeta(kRecords),
         eta_ = (1 - std::pow(2.0 / kRecords, 1 - kTheta)) / (1 - zeta(2) / zeta_);
};

void load(rocksdb::DB& db) {
  std::mt19937_64 random(1);
  for (long number = 0; number < kRecords; ++number) {
    Record record;
    for (int field = 0; field < kFields; ++field)
      record["field" + std::to_string(field)] = value_of(random);
    check(db.Put({}, key_of(number), packed(record)));
  }
}

class Worker {
 public:
  Worker(rocksdb::DB& db, const Zipf& zipf, unsigned seed) : db_(db), zipf_(zipf), random_(seed) {}
  std::vector<float> took_us;  // of each operation since it was cleared

  void work(long operations) {
    for (long i = 0; i < operations; ++i) {
      const std::string key = key_of(zipf_.next(random_));
      const auto begin = Clock::now();
      std::string value;
      check(db_.Get({}, key, &value));
      Record record = unpacked(value);
      if (record.size() != kFields) exit(1);
      if (i % 2 != 0) {
        record["field" + std::to_string(random_() % kFields)] = value_of(random_);
        check(db_.Put({}, key, packed(record)));
      }
      took_us.push_back(std::chrono::duration<float, std::micro>(Clock::now() - begin).count());
    }
  }

 private:
  rocksdb::DB& db_;
  const Zipf& zipf_;
  std::mt19937_64 random_;
};

double cpu_seconds() {
  timespec used;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

// A part of the run, from begin() to end().
class Slice {
 public:
  void begin() { began_ = Clock::now(), cpu_began_ = cpu_seconds(); }

  void end(std::vector<Worker>& workers) {
    const double seconds = std::chrono::duration<double>(Clock::now() - began_).count(),
                 cpu = cpu_seconds() - cpu_began_;
    std::vector<float> all;
    for (Worker& worker : workers) {
      all.insert(all.end(), worker.took_us.begin(), worker.took_us.end());
      worker.took_us.clear();
    }
    std::sort(all.begin(), all.end());
    const auto count = static_cast<double>(all.size());
    operations_per_s = count / seconds, cpu_us = cpu / count * 1e6;
    p50_us = static_cast<double>(all[all.size() / 2]),
    p99_us = static_cast<double>(all[all.size() / 100 * 99]);
  }

  double operations_per_s = 0, p50_us = 0, p99_us = 0, cpu_us = 0;

 private:
  Clock::time_point began_;
  double cpu_began_ = 0;
};

struct Turns {
  long warm = 0, pairs = 0;
  const char* values[2] = {};

  long slices() const { return warm + 2 * pairs; }
  const char* value(long slice) const { return values[(slice % 2) ^ (slice / 2 % 2)]; }
};

void begin_turn(const Turns& turns, long number) {
  const std::string option = turns.value(number);
  const size_t colon = option.find(':');
  if (colon != std::string::npos && seemalloc_option_set != nullptr &&
      seemalloc_option_set(option.substr(0, colon).c_str(), option.substr(colon + 1).c_str()) ==
          0) {
    return;
  }
  fprintf(stderr, "ycsb: %s cannot be set\n", option.c_str());
  exit(1);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) return 2;
  const long threads = count > 2 ? atol(arguments[2]) : 200,
             operations = count > 3 ? atol(arguments[3]) : 400'000;
  rocksdb::Options options;
  options.create_if_missing = true;
  rocksdb::DB* opened = nullptr;
  check(rocksdb::DB::Open(options, arguments[1], &opened));
  std::unique_ptr<rocksdb::DB> db(opened);
  load(*db);
  const Zipf zipf;
  Turns turns;
  if (count > 7)
    turns = {.warm = atol(arguments[4]),
             .pairs = atol(arguments[5]),
             .values = {arguments[6], arguments[7]}};
  const long slices = std::max(1L, turns.slices()), each = operations / threads / slices;
  std::vector<Worker> workers;
  for (long i = 0; i < threads; ++i)
    workers.emplace_back(*db, zipf, static_cast<unsigned>(i + 1)).took_us.reserve(each);
  Slice slice;
  long number = 0;
  auto next = [&]() noexcept {  // while all threads wait
    if (number > 0) {
      slice.end(workers);
      if (number > turns.warm && turns.pairs > 0)
        printf("slice %s %.1f %.1f %.3f\n", turns.value(number - 1), slice.operations_per_s,
               slice.p99_us, slice.cpu_us);
    }
    if (number < slices && turns.pairs > 0) begin_turn(turns, number);
    ++number;
    slice.begin();
  };
  std::barrier barrier(threads, next);
  std::vector<std::thread> all;
  for (Worker& worker : workers) {
    all.emplace_back([&] {
      barrier.arrive_and_wait();
      for (long i = 0; i < slices; ++i) {
        worker.work(each);
        barrier.arrive_and_wait();
      }
    });
  }
  for (std::thread& thread : all) thread.join();
  printf("operations_per_s %.1f\np50_us %.1f\np99_us %.1f\n", slice.operations_per_s, slice.p50_us,
         slice.p99_us);
  db->Close();
}
