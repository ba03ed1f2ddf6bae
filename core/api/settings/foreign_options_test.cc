// Each variable against its owner's documentation (docs/migrating.md): the options it sets, and the
// messages for invalid values.
#include "core/api/settings/foreign_options.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "core/base/options.h"
#include "core/base/units.h"

namespace seemalloc {
namespace {

using options::Id;

std::vector<std::string> lines;
void keep(const char* line) { lines.push_back(line); }

std::string printed(Id id) {
  FixedText<512> text;
  options::print(id, text);
  return text.c_str();
}

// All options have their defaults before and after.
class ForeignOptions : public testing::Test {
 protected:
  void SetUp() override { restore(); }
  void TearDown() override { restore(); }
  static void restore() {
    for (size_t i = 0; i < options::kCount; i++) {
      FixedText<256> value, problem;
      options::print_default(static_cast<Id>(i), value);
      ASSERT_TRUE(options::set(static_cast<Id>(i), value.c_str(), value.size(), problem));
    }
  }
  // Reads an environment; returns "name:value …" of each option that no longer has its default, in
  // table order.
  std::string changed_by(std::vector<std::string> environment) {
    lines.clear();
    restore();
    std::vector<char*> pointers;
    for (std::string& variable : environment) pointers.push_back(variable.data());
    pointers.push_back(nullptr);
    read_foreign_options(pointers.data(), keep);
    std::string changed;
    for (size_t i = 0; i < options::kCount; i++) {
      FixedText<256> value;
      options::print_default(static_cast<Id>(i), value);
      std::string now = printed(static_cast<Id>(i));
      if (now == value.c_str()) continue;
      changed += (changed.empty() ? "" : " ") + std::string(options::row(static_cast<Id>(i)).name) +
                 ":" + now;
    }
    return changed;
  }
  std::string changed_by_conf(const std::string& conf) {
    return changed_by({"MALLOC_CONF=" + conf});
  }
};

struct Case {
  std::vector<std::string> environment;
  const char* changes;
};

const char* kHeapProfile =
    "sample:1 dump_prefix:/tmp/p dump_names:gperftools dump_alloc_interval:1G dump_inuse_interval:100M dump_final:1";

TEST_F(ForeignOptions, Gperftools) {
  const Case kCases[] = {
      {{"PATH=/bin", "HOME=/", "TERM=x", "MAIL", "HEAPPROFILER=x", "MALLOC_CONFIG=prof:true"}, ""},
      {{"HEAPPROFILE="}, ""},
      {{"HEAPPROFILE=/tmp/p"}, kHeapProfile},
      {{"HEAP_PROFILE_ALLOCATION_INTERVAL=1048576", "HEAP_PROFILE_TIME_INTERVAL=5",
        "HEAPPROFILESIGNAL=12"},
       ""},
      {{"HEAP_PROFILE_ALLOCATION_INTERVAL=1048576", "HEAP_PROFILE_INUSE_INTERVAL=0",
        "HEAP_PROFILE_TIME_INTERVAL=5", "HEAPPROFILESIGNAL=12", "HEAPPROFILE=/tmp/p"},
       "sample:1 dump_signal:12 dump_prefix:/tmp/p dump_names:gperftools dump_alloc_interval:1M dump_time_interval:5 dump_final:1"},
      {{"TCMALLOC_SAMPLE_PARAMETER=65536"}, "sample:64K"},
      {{"TCMALLOC_SAMPLE_PARAMETER=0"}, "sample:0"},
      {{"HEAPPROFILE=/tmp/p", "TCMALLOC_SAMPLE_PARAMETER=524288"}, kHeapProfile},
      {{"TCMALLOC_SAMPLE_PARAMETER=65536", "HEAPPROFILE="}, "sample:64K"},
      {{"TCMALLOC_AGGRESSIVE_DECOMMIT=true"}, "purge:eager"},
      {{"TCMALLOC_AGGRESSIVE_DECOMMIT=yes"}, "purge:eager"},
      {{"TCMALLOC_AGGRESSIVE_DECOMMIT=1"}, "purge:eager"},
      {{"TCMALLOC_AGGRESSIVE_DECOMMIT=0"}, ""},
      {{"TCMALLOC_AGGRESSIVE_DECOMMIT=false"}, ""},
      {{"TCMALLOC_RELEASE_RATE=0"}, "purge:never"},
      {{"TCMALLOC_RELEASE_RATE=0.0"}, "purge:never"},
      {{"TCMALLOC_RELEASE_RATE=1.0"}, ""},
      {{"TCMALLOC_RELEASE_RATE=10"}, "purge_delay:100"},
      {{"TCMALLOC_RELEASE_RATE=0.25"}, "purge_delay:4000"},
      {{"TCMALLOC_RELEASE_RATE=.5"}, "purge_delay:2000"},
      {{"TCMALLOC_DISABLE_MEMORY_RELEASE=1"}, "purge:never"},
      {{"TCMALLOC_HEAP_LIMIT_MB=512"}, "heap_limit:512M"},
      {{"TCMALLOC_HEAP_LIMIT_MB=0"}, ""},
      {{"TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES=67108864"}, "thread_cache:64M"},
      {{"TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES=1"}, "thread_cache:64K"},
      {{"PERFTOOLS_VERBOSE=1"}, "verbose:1"},
      {{"PERFTOOLS_VERBOSE=0"}, ""},
  };
  for (const Case& c : kCases) {
    EXPECT_EQ(changed_by(c.environment), c.changes) << c.environment[0];
    EXPECT_TRUE(lines.empty()) << c.environment[0] << ": " << lines[0];
  }
}

TEST_F(ForeignOptions, ChildrenOfAProfiledProgramPutTheirIdBehind) {
  std::string own = "dump_prefix:/tmp/p_" + std::to_string(getpid()) + " ";
  EXPECT_NE(changed_by({"HEAPPROFILE=/tmp/p", "HEAPPROFILE_USE_PID=1"}).find(own),
            std::string::npos);
  EXPECT_EQ(changed_by({"HEAPPROFILE=/tmp/p", "HEAPPROFILE_USE_PID=0"}), kHeapProfile);
  char** before = environ;
  register_child_mark("CPUPROFILE");
  mark_child_environment();
  ASSERT_NE(environ, before);
  EXPECT_STREQ(getenv("HEAPPROFILE_USE_PID"), "1");
  EXPECT_STREQ(getenv("CPUPROFILE_USE_PID"), "1");
  environ = before;
  EXPECT_NE(changed_by({"HEAPPROFILE=/tmp/p", "HEAPPROFILE_USE_PID=1"}), "");
  mark_child_environment();
  EXPECT_EQ(environ, before) << "it is there already";
}

// gperftools until 2.10 marks children by the highest bit of the first byte.
TEST_F(ForeignOptions, TheOlderMarkOfChildrenIsUnderstood) {
  std::string own = "dump_prefix:/tmp/p_" + std::to_string(getpid()) + " ";
  EXPECT_NE(changed_by({"HEAPPROFILE=\xAFtmp/p"}).find(own), std::string::npos);
  EXPECT_NE(changed_by({"HEAPPROFILE=\xC3\xA9/p"}).find("dump_prefix:\xC3\xA9/p "),
            std::string::npos)
      << "a letter of two bytes";
}

TEST_F(ForeignOptions, HeapCheckIsNotThereYet) {
  EXPECT_EQ(changed_by({"HEAPCHECK=normal", "TCMALLOC_SAMPLE_PARAMETER=524288"}),
            "sample:1 leak_summary:1");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("no leak checker"), std::string::npos) << lines[0];
}

TEST_F(ForeignOptions, NonsenseIsOneLineEach) {
  const Case kCases[] = {
      {{"TCMALLOC_SAMPLE_PARAMETER=often"}, ""},
      {{"TCMALLOC_SAMPLE_PARAMETER="}, ""},
      {{"TCMALLOC_SAMPLE_PARAMETER=99999999999999999999"}, ""},
      {{"TCMALLOC_RELEASE_RATE=fast"}, ""},
      {{"TCMALLOC_RELEASE_RATE=1.0.0"}, ""},
      {{"TCMALLOC_HEAP_LIMIT_MB=-1"}, ""},
      {{"TCMALLOC_HEAP_LIMIT_MB=18446744073709551615"}, ""},
      {{"HEAP_PROFILE_INUSE_INTERVAL=100MB", "HEAPPROFILE=/tmp/p"}, kHeapProfile},
      {{"HEAPPROFILESIGNAL=1000", "HEAPPROFILE=/tmp/p"}, kHeapProfile},
  };
  for (const Case& c : kCases) {
    EXPECT_EQ(changed_by(c.environment), c.changes) << c.environment[0];
    ASSERT_EQ(lines.size(), 1u) << c.environment[0];
    std::string name = c.environment[0].substr(0, c.environment[0].find('='));
    EXPECT_EQ(lines[0].find(name + ": bad value "), 0u) << lines[0];
  }
  std::string prefix = changed_by({"HEAPPROFILE=" + std::string(300, 'x')});
  EXPECT_EQ(prefix.find("dump_prefix"), std::string::npos);
  EXPECT_EQ(lines.size(), 1u);
}

struct ConfCase {
  const char* conf;
  const char* changes;
};

TEST_F(ForeignOptions, Jemalloc) {
  const ConfCase kCases[] = {
      {"", ""},
      {"prof:true", "dump_names:jemalloc"},
      {"prof:false,prof_final:true", ""},
      {"prof_final:true,lg_prof_interval:30,prof_prefix:/tmp/j,lg_prof_sample:10,prof_active:false,prof_gdump:true",
       ""},
      {"prof:true,lg_prof_sample:16", "sample:64K dump_names:jemalloc"},
      {"prof:true,lg_prof_sample:0", "sample:1 dump_names:jemalloc"},
      {"prof:true,lg_prof_sample:63", "sample:1T dump_names:jemalloc"},
      {"prof:true,prof_active:false", "sample:0 dump_names:jemalloc"},
      {"prof:true,prof_active:true", "dump_names:jemalloc"},
      {"lg_prof_interval:30,prof:true", "dump_names:jemalloc dump_alloc_interval:1G"},
      {"prof:true,lg_prof_interval:-1", "dump_names:jemalloc"},
      {"prof:true,lg_prof_interval:0x14", "dump_names:jemalloc dump_alloc_interval:1M"},
      {"prof:true,prof_gdump:true", "dump_names:jemalloc dump_growth_interval:2M"},
      {"prof:true,prof_prefix:/tmp/j,prof_final:true",
       "dump_prefix:/tmp/j dump_names:jemalloc dump_final:1"},
      {"prof:true,prof_prefix:,prof_final:true,lg_prof_interval:20,prof_gdump:true,prof_leak:true",
       "dump_names:jemalloc"},
      {"prof:true,prof_leak:true", "dump_names:jemalloc"},
      {"prof:true,prof_leak:true,prof_final:true",
       "dump_names:jemalloc dump_final:1 leak_summary:1"},
      {"prof_leak:true,prof_final:true,lg_prof_interval:20",
       "dump_names:jemalloc dump_final:1 leak_summary:1"},
      {"prof_leak_error:true,prof_final:true", "dump_names:jemalloc dump_final:1 leak_summary:1"},
      {"prof:true,prof:false", ""},
      {"dirty_decay_ms:5000", "purge_delay:5000"},
      {"dirty_decay_ms:0", "purge_delay:0"},
      {"dirty_decay_ms:-1", "purge:never"},
      {"dirty_decay_ms:9223372036854775807", "purge_delay:3600000"},
      {"muzzy_decay_ms:0", ""},
      {"muzzy_decay_ms:10000", ""},
      {"muzzy_decay_ms:-1", "purge_free:1"},
      {"lg_dirty_mult:-1", "purge:never"},
      {"lg_dirty_mult:3", "free_ratio:8"},
      {"lg_dirty_mult:0", "free_ratio:1"},
      {"lg_dirty_mult:63", "free_ratio:1000000000"},
      {"background_thread:true", ""},
      {"background_thread:false", "helper:0"},
      {"stats_print:true", "stats_print:1"},
      {"stats_print:false", ""},
      {"confirm_conf:true", "verbose:1"},
      {"narenas:4,tcache:false,lg_tcache_max:13,percpu_arena:percpu,metadata_thp:auto,hpa_slab_max_alloc:65536,junk:true",
       ""},
      {"experimental_infallible_new:true", ""},
      {"abort_conf:true,dirty_decay_ms:7", "purge_delay:7"},
  };
  for (const ConfCase& c : kCases) {
    EXPECT_EQ(changed_by_conf(c.conf), c.changes) << c.conf;
    EXPECT_TRUE(lines.empty()) << c.conf << ": " << lines[0];
  }
}

// Sampling is switched on again with this interval.
TEST_F(ForeignOptions, AnIntervalOutlastsProfActive) {
  EXPECT_EQ(changed_by_conf("prof:true,prof_active:false,lg_prof_sample:12"),
            "sample:0 dump_names:jemalloc");
  EXPECT_EQ(options::last_sample_interval(), 4 * KiB);
  restore();
  EXPECT_EQ(options::last_sample_interval(), 512 * KiB);
}

TEST_F(ForeignOptions, ReportsInvalidJemallocPairs) {
  EXPECT_EQ(
      changed_by_conf(
          "prof:yes,colour:red,lg_prof_sample:64,dirty_decay_ms:-2,dirty_decay_ms:soon,dirty_decay_ms:,"
          "background_thread:1,lg_dirty_mult:0x,stats_print:true"),
      "stats_print:1");
  ASSERT_EQ(lines.size(), 8u);
  EXPECT_EQ(lines[0], "MALLOC_CONF: bad pair \"prof:yes\" ignored; expected true or false");
  EXPECT_EQ(lines[1],
            "MALLOC_CONF: bad pair \"colour:red\" ignored; unknown option; see docs/migrating.md");
  // Like jemalloc, it stops where it cannot separate names from values.
  for (const char* rest : {"prof", "pr of:true,stats_print:true", ":1", ",stats_print:true",
                           "prof;true,stats_print:true"}) {
    EXPECT_EQ(changed_by_conf("dirty_decay_ms:7," + std::string(rest)), "purge_delay:7") << rest;
    ASSERT_EQ(lines.size(), 1u) << rest;
    EXPECT_NE(lines[0].find("\"" + std::string(rest) + "\""), std::string::npos) << lines[0];
  }
  EXPECT_EQ(changed_by_conf("prof:true,prof_prefix:" + std::string(300, 'x')),
            "dump_names:jemalloc");
  EXPECT_EQ(lines.size(), 1u);
}

TEST_F(ForeignOptions, AbortConfEndsTheProcess) {
  EXPECT_DEATH(changed_by_conf("colour:red,abort_conf:true"), "abort_conf:true");
}

TEST_F(ForeignOptions, VerboseNamesIgnoredSettings) {
  changed_by({"MALLOC_CONF=narenas:4,tcache:false,hpa_dirty_mult:0.1,lg_chunk:22",
              "HEAP_PROFILE_MMAP=1", "HEAP_PROFILE_BUFFER_SIZE=1", "CPUPROFILE_PER_THREAD_TIMERS=1",
              "CPUPROFILE_TIMER_SIGNAL=12"});
  report_ignored_settings(keep);
  EXPECT_TRUE(lines.empty()) << "not requested";
  FixedText<64> problem;
  ASSERT_TRUE(options::set(Id::verbose, "1", 1, problem));
  report_ignored_settings(keep);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(
      lines[0],
      "settings without effect: HEAP_PROFILE_MMAP, HEAP_PROFILE_BUFFER_SIZE, CPUPROFILE_PER_THREAD_TIMERS, "
      "CPUPROFILE_TIMER_SIGNAL, narenas, tcache, hpa_, lg_chunk");
}

}  // namespace
}  // namespace seemalloc
