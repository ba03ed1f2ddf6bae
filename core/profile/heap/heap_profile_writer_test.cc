// The profile is decoded by a reader written for this test and, if Go is installed, by pprof
// itself.
#include <gtest/gtest.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/os/kernel/clock.h"
#include "core/os/kernel/files.h"
#include "core/os/kernel/memory.h"
#include "core/os/kernel/syscall.h"
#include "core/profile/heap/heap_profile.h"
#include "core/profile/pprof/decoder_for_test.h"
#include "core/profile/sampling/sampler.h"

namespace seemalloc::profile {
namespace {

std::string written(uint64_t interval, Kind kind = Kind::kHeap) {
  Buffer buffer;
  if (!heap_profile_to_buffer(&buffer, interval, kind)) return "";
  std::string bytes(buffer.data, buffer.bytes);
  os::unmap(buffer.data, buffer.mapped_bytes, os::Reason::kReport);
  return bytes;
}

Stack make_stack(std::initializer_list<uintptr_t> pcs) {
  Stack stack;
  for (uintptr_t pc : pcs) stack.pcs[stack.depth++] = pc;
  return stack;
}

// The values of the only sample with this innermost address and block size.
std::vector<uint64_t> values(const Profile& profile, uint64_t address, uint64_t bytes) {
  std::vector<uint64_t> found;
  for (const Message& sample : profile.samples) {
    Message label = message_of(sample.at(3).bytes);
    std::vector<uint64_t> stack = addresses(profile, sample);
    if (stack.empty() || stack[0] != address || label[3].value != bytes) continue;
    EXPECT_TRUE(found.empty()) << "two rows for one stack and size";
    EXPECT_EQ(profile.string(label[1].value), "bytes");
    EXPECT_EQ(profile.string(label[4].value), "bytes");
    found = numbers_of(sample.at(2).bytes);
  }
  return found;
}

TEST(HeapProfileWriter, HasTheShapeOfAHeapProfile) {
  uint64_t before_ns = os::realtime_ns();
  Profile profile = decode(written(524288));
  EXPECT_EQ(profile.strings.at(0), "");
  EXPECT_EQ(profile.types, (std::vector<std::string>{"alloc_objects/count", "alloc_space/bytes",
                                                     "inuse_objects/count", "inuse_space/bytes"}));
  EXPECT_EQ(profile.period_type, "space/bytes");
  EXPECT_EQ(profile.numbers[12], 524288u);
  EXPECT_EQ(profile.string(profile.numbers[14]), "inuse_space");
  EXPECT_GE(profile.numbers[9], before_ns);
  EXPECT_NE(profile.string(profile.numbers[7]).find("operator new"), std::string::npos);
  EXPECT_EQ(profile.numbers.count(8), 0u);  // keep_frames: none
  EXPECT_GE(profile.comments.size(), 3u);
}

TEST(HeapProfileWriter, DropsTheAllocatorsFramesOnly) {
  Profile profile = decode(written(1));
  // pprof anchors the expression and matches names without their parameters.
  std::regex drop("^(" + profile.string(profile.numbers[7]) + ")$");
  for (const char* name :
       {"malloc", "calloc", "realloc", "reallocarray", "memalign", "posix_memalign",
        "aligned_alloc", "valloc", "pvalloc", "__libc_malloc", "__libc_memalign",
        "__posix_memalign", "operator new", "operator new[]", "_Znwm", "_ZnamRKSt9nothrow_t",
        "_ZnwmSt11align_val_t", "seemalloc::heap::refill", "_ZN9seemalloc4heap6refillEv"}) {
    EXPECT_TRUE(std::regex_match(name, drop)) << name;
  }
  for (const char* name :
       {"main", "my_malloc", "malloc_caller", "xmalloc", "operator newer", "strdup", "_Znot",
        "app::seemalloc::f", "std::vector<seemalloc::X>::push_back"}) {
    EXPECT_FALSE(std::regex_match(name, drop)) << name;
  }
}

TEST(HeapProfileWriter, ValuesAreUnbiasedSums) {
  constexpr uintptr_t kPc = uintptr_t{1} << 44;
  Stack stack = make_stack({kPc + 10, kPc + 20, kPc + 30});
  SampleId ids[5];
  for (SampleId& id : ids) id = record_alloc({100, 112, 524288}, stack);
  record_alloc({4000, 4096, 524288}, stack);
  record_free(record_alloc({7, 8, 1}, stack));
  record_free(ids[0]);
  record_free(ids[1]);
  Profile profile = decode(written(524288));
  double weight = sample_weight(112, 524288);
  auto whole = [](double x) { return static_cast<uint64_t>(std::llround(x)); };
  EXPECT_EQ(values(profile, kPc + 9, 112),
            (std::vector<uint64_t>{whole(5 * weight), whole(5 * weight * 112), whole(3 * weight),
                                   whole(3 * weight * 112)}));
  weight = sample_weight(4096, 524288);
  EXPECT_EQ(values(profile, kPc + 9, 4096),
            (std::vector<uint64_t>{whole(weight), whole(weight * 4096), whole(weight),
                                   whole(weight * 4096)}));
  // All freed, but still listed.
  EXPECT_EQ(values(profile, kPc + 9, 8), (std::vector<uint64_t>{1, 8, 0, 0}));
  for (SampleId id : {ids[2], ids[3], ids[4]}) record_free(id);
  EXPECT_EQ(values(decode(written(524288)), kPc + 9, 112).at(3), 0u);
}

// The strings and locations of a profile. decode() reads only one label per row.
Profile tables_of(const std::string& bytes) {
  Profile profile;
  for (const Field& field : fields_of(bytes)) {
    if (field.number == 6) profile.strings.push_back(field.bytes);
    if (field.number == 4)
      profile.locations.emplace(message_of(field.bytes)[1].value, message_of(field.bytes));
  }
  return profile;
}

// The labels of the only live sample with this innermost address.
std::map<std::string, uint64_t> labels(const Profile& profile, const std::string& bytes,
                                       uint64_t address) {
  std::map<std::string, uint64_t> found;
  for (const Field& field : fields_of(bytes)) {
    if (field.number != 2) continue;
    std::map<std::string, uint64_t> here;
    uint64_t innermost = 0, in_use = 0;
    for (const Field& part : fields_of(field.bytes)) {
      if (part.number == 2) in_use = numbers_of(part.bytes).at(2);
      if (part.number == 1)
        innermost = profile.locations.at(numbers_of(part.bytes).at(0)).at(3).value;
      if (part.number != 3) continue;
      Message label = message_of(part.bytes);
      here[profile.string(label[1].value)] = label[3].value;
    }
    if (innermost == address && in_use != 0) found = here;
  }
  return found;
}

TEST(HeapProfileWriter, LabelsOversizedAndReallocatedBlocks) {
  constexpr uintptr_t kPc = uintptr_t{3} << 44;
  record_alloc({100, 4096, 1}, make_stack({kPc + 10}));
  record_alloc({100, 112, 1, true}, make_stack({kPc + 20}));
  record_alloc({1, 16, 1}, make_stack({kPc + 30}));  // small blocks have no smaller size class
  record_alloc({2048, 4096, 1}, make_stack({kPc + 40}));
  SampleId grows = record_alloc({100, 4096, 1}, make_stack({kPc + 50}));
  record_resize(grows, 4000, 4096);
  std::string bytes = written(1);
  Profile profile = tables_of(bytes);
  using Labels = std::map<std::string, uint64_t>;
  EXPECT_EQ(labels(profile, bytes, kPc + 9), (Labels{{"bytes", 4096}, {"asked", 128}}));
  EXPECT_EQ(labels(profile, bytes, kPc + 19), (Labels{{"bytes", 112}, {"moved", 1}}));
  EXPECT_EQ(labels(profile, bytes, kPc + 29), (Labels{{"bytes", 16}}));
  EXPECT_EQ(labels(profile, bytes, kPc + 39), (Labels{{"bytes", 4096}}));
  EXPECT_EQ(labels(profile, bytes, kPc + 49), (Labels{{"bytes", 4096}}))
      << "the row that it has become";
}

// The probability of a sample is determined by the block's size at that time, and so is its
// contribution to the error.
TEST(HeapProfileWriter, LabelsSamplesOfAnotherSize) {
  constexpr uintptr_t kPc = uintptr_t{6} << 44;
  using Labels = std::map<std::string, uint64_t>;
  SampleId grows = record_alloc({112, 112, 65536}, make_stack({kPc + 10}));
  record_resize(grows, 4096, 4096);
  SampleId returns = record_alloc({112, 112, 65536}, make_stack({kPc + 20}));
  record_resize(returns, 4096, 4096);
  record_resize(returns, 112, 112);
  SampleId all = record_alloc({112, 112, 1}, make_stack({kPc + 30}));
  record_resize(all, 4096, 4096);
  std::string bytes = written(65536);
  Profile profile = tables_of(bytes);
  EXPECT_EQ(labels(profile, bytes, kPc + 9), (Labels{{"bytes", 4096}, {"drawn", 112}}));
  EXPECT_EQ(labels(profile, bytes, kPc + 19), (Labels{{"bytes", 112}}));
  EXPECT_EQ(labels(profile, bytes, kPc + 29), (Labels{{"bytes", 4096}, {"interval", 1}}))
      << "recorded whatever its size";
  bool found = false;
  for (const DecodedRow& row : rows_of(written(65536, Kind::kLifetime))) {
    if (row.stack.at(0) != kPc + 9) continue;
    found = true;
    EXPECT_EQ(row.labels.at("drawn"), "112");
  }
  EXPECT_TRUE(found);
}

// This label tells a reader the sampling error of a row, regardless of the option `sample` at the
// time of the profile.
TEST(HeapProfileWriter, LabelsRowsOfAnotherInterval) {
  constexpr uintptr_t kPc = uintptr_t{5} << 44;
  record_alloc({112, 112, 65536}, make_stack({kPc + 10}));
  record_alloc({100, 4096, 524288, true}, make_stack({kPc + 20}));
  using Labels = std::map<std::string, uint64_t>;
  struct {
    uint64_t interval;
    Labels first, second;
  } cases[] = {
      {65536,
       {{"bytes", 112}},
       {{"bytes", 4096}, {"asked", 128}, {"moved", 1}, {"interval", 524288}}},
      {524288,
       {{"bytes", 112}, {"interval", 65536}},
       {{"bytes", 4096}, {"asked", 128}, {"moved", 1}}},
      {0,
       {{"bytes", 112}, {"interval", 65536}},
       {{"bytes", 4096}, {"asked", 128}, {"moved", 1}, {"interval", 524288}}},
  };
  for (const auto& expected : cases) {
    std::string bytes = written(expected.interval);
    Profile profile = tables_of(bytes);
    EXPECT_EQ(labels(profile, bytes, kPc + 9), expected.first) << "at " << expected.interval;
    EXPECT_EQ(labels(profile, bytes, kPc + 19), expected.second) << "at " << expected.interval;
  }
  bool found = false;
  for (const DecodedRow& row : rows_of(written(0, Kind::kLifetime))) {
    if (row.stack.at(0) != kPc + 9) continue;
    found = true;
    EXPECT_EQ(row.labels.at("interval"), "65536");
    EXPECT_EQ(row.labels.at("lifetime"), "alive");
  }
  EXPECT_TRUE(found);
}

TEST(HeapProfileWriter, RemoteFreesAreThoseOfOtherThreads) {
  constexpr uintptr_t kPc = uintptr_t{4} << 44;
  SampleId ids[5];
  for (SampleId& id : ids) id = record_alloc({100, 112, 1}, make_stack({kPc + 10}));
  record_free(ids[0]);
  record_free(record_alloc({100, 112, 1}, make_stack({kPc + 20})));
  SampleId grown = record_alloc({100, 4096, 1}, make_stack({kPc + 30}));
  record_resize(grown, 4000, 4096);
  std::thread([&] {
    for (int i = 1; i < 4; i++) record_free(ids[i]);
    record_free(grown);
  }).join();
  Profile profile = decode(written(1, Kind::kRemoteFrees));
  EXPECT_EQ(profile.types,
            (std::vector<std::string>{"remote_free_objects/count", "remote_free_space/bytes"}));
  EXPECT_EQ(values(profile, kPc + 9, 112), (std::vector<uint64_t>{3, 3 * 112}));
  EXPECT_EQ(values(profile, kPc + 19, 112), (std::vector<uint64_t>{})) << "freed by its own thread";
  EXPECT_EQ(values(profile, kPc + 29, 4096), (std::vector<uint64_t>{1, 4096}))
      << "by another one, after it had grown";
  record_free(ids[4]);
}

TEST(HeapProfileWriter, LocationsAreDistinctAndInTheirMappings) {
  uintptr_t entry = getauxval(AT_ENTRY);
  uintptr_t libc = reinterpret_cast<uintptr_t>(&fopen);
  record_alloc({1, 16, 1},
               make_stack({entry + 5, libc + 9, entry + 5, 0x123, (uintptr_t{2} << 44)}));
  record_alloc({1, 16, 1}, make_stack({entry + 6, libc + 9}));
  Profile profile = decode(written(1));

  std::set<uint64_t> ids;
  for (size_t i = 0; i < profile.mappings.size(); i++) {
    Message& mapping = profile.mappings[i];
    EXPECT_EQ(mapping[1].value, i + 1);
    EXPECT_LT(mapping[2].value, mapping[3].value);
    EXPECT_EQ(mapping.count(7), 0u);  // has_functions
    ids.insert(mapping[1].value);
  }
  ASSERT_GE(profile.mappings.size(), 2u);
  char exe[4096] = {};
  ASSERT_GT(readlink("/proc/self/exe", exe, sizeof(exe) - 1), 0);
  EXPECT_EQ(profile.string(profile.mappings[0][5].value), exe);

  std::set<uint64_t> seen;
  for (auto& [id, location] : profile.locations) {
    EXPECT_NE(id, 0u);
    EXPECT_TRUE(seen.insert(location[3].value).second) << "one address, two locations";
    uint64_t mapping_id = location.count(2) != 0 ? location[2].value : 0;
    if (mapping_id == 0) continue;
    ASSERT_EQ(ids.count(mapping_id), 1u);
    Message& mapping = profile.mappings[mapping_id - 1];
    EXPECT_GE(location[3].value, mapping[2].value);
    EXPECT_LT(location[3].value, mapping[3].value);
  }
  bool found = false;
  for (const Message& sample : profile.samples) {
    found = found ||
            addresses(profile, sample) == std::vector<uint64_t>{entry + 4, libc + 8, entry + 4,
                                                                0x122, (uintptr_t{2} << 44) - 1};
  }
  EXPECT_TRUE(found);
}

TEST(HeapProfileWriter, ReportsTruncatedStacks) {
  Stack stack = make_stack({uintptr_t{3} << 44});
  stack.truncated = true;
  record_alloc({1, 16, 1}, stack);
  record_alloc({1, 16, 1}, stack);
  stack = make_stack({(uintptr_t{3} << 44) + 1});
  stack.broken = true;
  record_alloc({1, 16, 1}, stack);
  record_alloc({1, 16, 1}, Stack());  // unwinding failed: a sample without locations
  SampleTotals totals = sample_totals();
  Profile profile = decode(written(1));
  std::string all;
  for (const std::string& comment : profile.comments) all += comment + "\n";
  EXPECT_NE(all.find("2 samples with a truncated stack, 1 samples with a broken unwind"),
            std::string::npos)
      << all;
  EXPECT_NE(all.find(std::to_string(totals.samples) + " samples recorded"), std::string::npos)
      << all;
  EXPECT_NE(
      all.find("in use: " + std::to_string(std::llround(totals.inuse_bytes)) + " bytes estimated"),
      std::string::npos)
      << all;
  EXPECT_NE(all.find("standard error " + std::to_string(std::llround(totals.inuse_bytes_stderr))),
            std::string::npos);
}

TEST(HeapProfileWriter, WorksWithoutProc) {
  os::fault_hook = [](long number) -> long { return number == SYS_openat ? -2 : 0; };
  std::string bytes = written(1);
  os::fault_hook = nullptr;
  ASSERT_FALSE(bytes.empty());
  Profile profile = decode(bytes);
  EXPECT_TRUE(profile.mappings.empty());
  EXPECT_EQ(profile.types.size(), 4u);
  for (auto& [id, location] : profile.locations) EXPECT_EQ(location.count(2), 0u);
}

TEST(HeapProfileWriter, ReturnsTheResultOfTheSink) {
  std::string kept;
  auto keep = [](void* context, const void* data, size_t bytes) {
    static_cast<std::string*>(context)->append(static_cast<const char*>(data), bytes);
    return true;
  };
  EXPECT_TRUE(write_heap_profile({keep, &kept}, 1));
  EXPECT_EQ(decode(kept).types.size(), 4u);
  EXPECT_FALSE(write_heap_profile({[](void*, const void*, size_t) { return false; }, nullptr}, 1));
}

TEST(HeapProfileWriter, ManyRows) {
  size_t before = decode(written(1)).samples.size();
  for (uintptr_t i = 0; i < 50000; i++) {
    Stack stack;
    stack.depth = 20;
    for (uint32_t f = 0; f < stack.depth; f++)
      stack.pcs[f] = (uintptr_t{4} << 44) + (i >> (f / 2)) * 16 + f;
    record_free(record_alloc({1, 16, 1}, stack));
  }
  Profile profile = decode(written(1));
  EXPECT_EQ(profile.samples.size(), before + 50000);
}

std::string output_of(const std::string& command, int* status) {
  std::string output;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  char block[4096];
  for (size_t n; pipe != nullptr && (n = fread(block, 1, sizeof(block), pipe)) != 0;)
    output.append(block, n);
  *status = pipe == nullptr ? -1 : pclose(pipe);
  return output;
}

// go tool pprof cannot symbolise C++ (github.com/google/pprof can); it checks the profile and names
// the mappings.
TEST(HeapProfileWriter, PprofReadsIt) {
  int status = 0;
  output_of("go tool pprof -h", &status);
  if (status != 0) GTEST_SKIP() << "no go tool pprof";
  uintptr_t entry = getauxval(AT_ENTRY);
  auto in_libc = reinterpret_cast<uintptr_t>(&fopen) + 4;
  record_alloc({3 << 20, 3 << 20, 1}, make_stack({in_libc, entry + 4}));

  char path[] = "/tmp/seemalloc_profile_XXXXXX";
  int fd = mkstemp(path);
  ASSERT_GE(fd, 0);
  auto to_file = [](void* context, const void* data, size_t bytes) {
    return os::write_all(*static_cast<int*>(context), data, bytes) == 0;
  };
  ASSERT_TRUE(write_heap_profile({to_file, &fd}, 524288));
  close(fd);

  std::string raw = output_of(std::string("go tool pprof -symbolize=none -raw ") + path, &status);
  EXPECT_EQ(status, 0) << raw;
  auto shows = [&](const std::string& output, const std::string& text) {
    EXPECT_NE(output.find(text), std::string::npos) << text << "\n" << output.substr(0, 3000);
  };
  shows(raw, "PeriodType: space bytes");
  shows(raw, "Period: 524288");
  shows(raw, "alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes[dflt]");
  shows(raw, "bytes:[3145728 bytes]");
  shows(raw, "Comment: in use: ");
  std::string top = output_of(std::string("go tool pprof -symbolize=none -top ") + path, &status);
  EXPECT_EQ(status, 0) << top;
  shows(top, "Type: inuse_space");
  char exe[4096] = {};
  ASSERT_GT(readlink("/proc/self/exe", exe, sizeof(exe) - 1), 0);
  shows(top, "[" + std::string(exe).substr(std::string(exe).rfind('/') + 1) + "]");
  unlink(path);
}

}  // namespace
}  // namespace seemalloc::profile
