// ycsb FOLDER [THREADS] [OPERATIONS]: the load of YCSB's workload A on RocksDB: half reads, half updates of one field, by keys of
// which few are asked for often (Zipf, 0.99); records have 20 fields of 100 bytes. Each operation takes a record apart into a map
// of its fields, as YCSB's binding does. OPERATIONS in all. Prints operations_per_s, p50_us, p99_us.
#include <rocksdb/db.h>
#include <rocksdb/options.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kFields = 20, kFieldBytes = 100, kRecords = 20'000;
using Record = std::map<std::string, std::string>;
using Clock = std::chrono::steady_clock;

void check(const rocksdb::Status& status) {
  if (status.ok()) return;
  fprintf(stderr, "ycsb: %s\n", status.ToString().c_str());
  exit(1);
}

std::string key_of(long number) { return "user" + std::to_string(number * 2654435761 % 10'000'000'000); }

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
    return std::min<long>(kRecords - 1, static_cast<long>(kRecords * std::pow(eta_ * u - eta_ + 1, 1 / (1 - kTheta))));
  }

 private:
  static constexpr double kTheta = 0.99;
  static double zeta(long n) {
    double sum = 0;
    for (long i = 1; i <= n; ++i) sum += 1 / std::pow(i, kTheta);
    return sum;
  }
  double zeta_ = zeta(kRecords), eta_ = (1 - std::pow(2.0 / kRecords, 1 - kTheta)) / (1 - zeta(2) / zeta_);
};

void load(rocksdb::DB& db) {
  std::mt19937_64 random(1);
  for (long number = 0; number < kRecords; ++number) {
    Record record;
    for (int field = 0; field < kFields; ++field) record["field" + std::to_string(field)] = value_of(random);
    check(db.Put({}, key_of(number), packed(record)));
  }
}

void work(rocksdb::DB& db, const Zipf& zipf, unsigned seed, long operations, std::vector<float>& took_us) {
  std::mt19937_64 random(seed);
  took_us.reserve(operations);
  for (long i = 0; i < operations; ++i) {
    const std::string key = key_of(zipf.next(random));
    const auto begin = Clock::now();
    std::string value;
    check(db.Get({}, key, &value));
    Record record = unpacked(value);
    if (record.size() != kFields) exit(1);
    if (i % 2 != 0) {
      record["field" + std::to_string(random() % kFields)] = value_of(random);
      check(db.Put({}, key, packed(record)));
    }
    took_us.push_back(std::chrono::duration<float, std::micro>(Clock::now() - begin).count());
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) return 2;
  const long threads = count > 2 ? atol(arguments[2]) : 200, operations = count > 3 ? atol(arguments[3]) : 400'000;
  rocksdb::Options options;
  options.create_if_missing = true;
  rocksdb::DB* opened = nullptr;
  check(rocksdb::DB::Open(options, arguments[1], &opened));
  std::unique_ptr<rocksdb::DB> db(opened);
  load(*db);
  const Zipf zipf;
  std::vector<std::vector<float>> took_us(threads);
  std::vector<std::thread> all;
  const auto begin = Clock::now();
  for (long i = 0; i < threads; ++i)
    all.emplace_back([&, i] { work(*db, zipf, static_cast<unsigned>(i + 1), operations / threads, took_us[i]); });
  for (std::thread& thread : all) thread.join();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  std::vector<float> merged;
  for (const auto& some : took_us) merged.insert(merged.end(), some.begin(), some.end());
  std::sort(merged.begin(), merged.end());
  printf("operations_per_s %.1f\np50_us %.1f\np99_us %.1f\n", static_cast<double>(merged.size()) / seconds,
         static_cast<double>(merged[merged.size() / 2]), static_cast<double>(merged[merged.size() / 100 * 99]));
  db->Close();
}
