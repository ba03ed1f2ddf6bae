// The calls of <seemalloc/seemalloc.h> that write profiles: each kind by its name, the baseline,
// and invalid requests.
#include <errno.h>
#include <gtest/gtest.h>
#include <seemalloc/seemalloc.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/api/dumps/profile_kinds.h"
#include "core/api/helper/without_helper_for_test.h"
#include "core/api/malloc/test_api.h"
#include "core/base/text.h"
#include "core/profile/pprof/decoder_for_test.h"

namespace seemalloc {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::vector<std::string> kinds() {
  FixedText<1024> listed;
  list_profile_kinds(listed);
  std::istringstream in(listed.c_str());
  std::vector<std::string> names;
  for (std::string name; std::getline(in >> std::ws, name, ',');) names.push_back(name);
  return names;
}

class ProfileCalls : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/seemalloc_profile_calls." + std::to_string(getpid());
    ASSERT_EQ(seemalloc_profile_start(1), 0);
  }
  void TearDown() override {
    seemalloc_profile_stop();
    for (void* block : blocks_) sm_free(block);
    for (const std::string& path : written_) unlink(path.c_str());
  }
  std::string path_of(const std::string& name) {
    written_.insert(folder_ + "." + name);
    return folder_ + "." + name;
  }
  std::string dump(const char* kind) {
    std::string path = path_of(kind);
    EXPECT_EQ(seemalloc_profile_dump_kind(kind, path.c_str()), 0)
        << kind << ": " << strerror(errno);
    return read_file(path);
  }
  void hold(size_t bytes, int count) {
    for (int i = 0; i < count; i++) blocks_.push_back(sm_malloc(bytes));
  }
  // The value of this type, by block size.
  static std::map<std::string, int64_t> by_size(const std::string& bytes, const std::string& type) {
    std::vector<std::string> types = profile::decode(bytes).types;
    size_t at = static_cast<size_t>(std::find(types.begin(), types.end(), type) - types.begin());
    std::map<std::string, int64_t> sums;
    for (const profile::DecodedRow& row : profile::rows_of(bytes))
      sums[row.labels.at("bytes")] += row.values.at(at);
    return sums;
  }

  std::vector<void*> blocks_;

 private:
  std::string folder_;
  std::set<std::string> written_;
};

TEST_F(ProfileCalls, WriteEachKindByItsName) {
  hold(1024, 20);
  for (int i = 0; i < 20; i++) sm_free(sm_malloc(1024));
  ASSERT_EQ(seemalloc_cpu_start(0), 0);
  ASSERT_EQ(seemalloc_cpu_stop(), 0);
  // The characteristic sample type of each kind; the writers' own tests check the figures.
  const std::map<std::string, std::string> wanted = {
      {"heap", "inuse_space/bytes"},   {"allocs", "alloc_space/bytes"},
      {"peak", "peak_space/bytes"},    {"since", "inuse_space/bytes"},
      {"churn", "alloc_space/bytes"},  {"lifetime", "alive_space/bytes"},
      {"deaths", "freed_space/bytes"}, {"threads", "inuse_space/bytes"},
      {"remote", "space/bytes"},       {"expansion", "growth_space/bytes"},
      {"pools", "inuse_space/bytes"},  {"fragmentation", "fragmentation_space/bytes"},
      {"cpu", "cpu/nanoseconds"},
  };
  ASSERT_EQ(kinds().size(), wanted.size());
  for (const std::string& kind : kinds()) {
    ASSERT_EQ(wanted.count(kind), 1u) << kind;
    profile::Profile decoded = profile::decode(dump(kind.c_str()));
    std::string types;
    for (const std::string& type : decoded.types) types += type + " ";
    EXPECT_NE(types.find(wanted.at(kind)), std::string::npos) << kind << " has " << types;
  }
  EXPECT_EQ(by_size(dump("heap"), "inuse_objects/count")["1024"], 20);
  EXPECT_EQ(by_size(dump("allocs"), "alloc_objects/count")["1024"], 40);
}

TEST_F(ProfileCalls, WriteTheSameAsTheHeapProfile) {
  hold(2048, 7);
  std::string path = path_of("plain");
  ASSERT_EQ(seemalloc_profile_dump(path.c_str()), 0);
  EXPECT_EQ(by_size(read_file(path), "inuse_objects/count")["2048"], 7);
}

TEST_F(ProfileCalls, CountFromTheBaseline) {
  hold(4096, 30);
  ASSERT_EQ(seemalloc_profile_baseline(), 0);
  hold(8192, 5);
  hold(4096, 2);
  sm_free(blocks_[0]);
  blocks_.erase(blocks_.begin());
  std::string since = dump("since");
  EXPECT_EQ(by_size(since, "inuse_objects/count")["8192"], 5);
  EXPECT_EQ(by_size(since, "inuse_objects/count")["4096"], 1);
  EXPECT_EQ(by_size(since, "alloc_objects/count")["4096"], 2);
  ASSERT_EQ(seemalloc_profile_baseline(), 0);
  EXPECT_EQ(by_size(dump("since"), "inuse_objects/count")["8192"], 0) << "it counts anew";
}

TEST_F(ProfileCalls, SayWhyNot) {
  auto error_of = [](int result) { return result == -1 ? errno : 0; };
  std::string path = path_of("never");
  EXPECT_EQ(error_of(seemalloc_profile_dump_kind("heaps", path.c_str())), EINVAL);
  EXPECT_EQ(error_of(seemalloc_profile_dump_kind(nullptr, path.c_str())), EINVAL);
  EXPECT_EQ(error_of(seemalloc_profile_dump_kind("heap", nullptr)), EINVAL);
  EXPECT_EQ(error_of(seemalloc_profile_dump(nullptr)), EINVAL);
  EXPECT_EQ(access(path.c_str(), F_OK), -1);
  EXPECT_EQ(error_of(seemalloc_profile_dump_kind("peak", "/no/such/folder/peak.pb")), ENOENT);
}

}  // namespace
}  // namespace seemalloc
