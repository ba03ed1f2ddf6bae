// jemalloc's control names: the values they return and change, and its rules about errors and
// numbers.
#include "core/compat/mallctl.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "core/api/dumps/dump.h"
#include "core/api/dumps/dump_names.h"
#include "core/api/malloc/test_api.h"
#include "core/api/settings/foreign_options.h"
#include "core/base/option_for_test.h"
#include "core/base/options.h"
#include "core/base/seed_for_test.h"
#include "core/base/units.h"
#include "core/compat/control_names.h"
#include "core/compat/control_settings.h"
#include "core/heap/thread/sample_distance.h"
#include "core/heap/thread/size_class.h"

namespace seemalloc::compat {
namespace {

template <typename T>
T value(const char* name) {
  T out{};
  size_t bytes = sizeof(out);
  EXPECT_EQ(control(name, &out, &bytes, nullptr, 0), 0) << name;
  EXPECT_EQ(bytes, sizeof(out)) << name;
  return out;
}

template <typename T>
int set(const char* name, T to) {
  return control(name, nullptr, nullptr, &to, sizeof(to));
}

int done(const char* name) { return control(name, nullptr, nullptr, nullptr, 0); }

void new_epoch() { EXPECT_EQ(set<uint64_t>("epoch", 1), 0); }

TEST(Mallctl, FiguresFollowTheHeapFromEpochToEpoch) {
  new_epoch();
  size_t before = value<size_t>("stats.allocated");
  void* block = sm_malloc(8 * MiB);
  memset(block, 1, 8 * MiB);
  EXPECT_EQ(value<size_t>("stats.allocated"), before) << "stands still until the next epoch";
  uint64_t epoch = value<uint64_t>("epoch");
  new_epoch();
  EXPECT_EQ(value<uint64_t>("epoch"), epoch + 1);
  size_t allocated = value<size_t>("stats.allocated"), active = value<size_t>("stats.active");
  EXPECT_GE(allocated, before + 8 * MiB);
  EXPECT_LT(allocated, before + 9 * MiB);
  EXPECT_GE(active, allocated);
  EXPECT_GE(value<size_t>("stats.resident"), size_t{8 * MiB});
  EXPECT_GE(value<size_t>("stats.mapped"), active);
  EXPECT_GT(value<size_t>("stats.metadata"), 0u);
  EXPECT_EQ(value<size_t>("stats.arenas.4096.large.allocated") +
                value<size_t>("stats.arenas.0.small.allocated"),
            allocated);
  sm_free(block);
}

TEST(Mallctl, AReadEpochIsTheNewOne) {
  uint64_t wanted = 1, got = 0;
  size_t bytes = sizeof(got);
  uint64_t before = value<uint64_t>("epoch");
  EXPECT_EQ(control("epoch", &got, &bytes, &wanted, sizeof(wanted)), 0);
  EXPECT_EQ(got, before + 1);
}

TEST(Mallctl, ErrorsAreJemallocs) {
  char small = 0;
  size_t bytes = 1, number = 0;
  EXPECT_EQ(control("stats.nothing", nullptr, nullptr, nullptr, 0), ENOENT);
  EXPECT_EQ(control("stats", nullptr, nullptr, nullptr, 0), ENOENT);
  EXPECT_EQ(control("stats.allocated.more", nullptr, nullptr, nullptr, 0), ENOENT);
  EXPECT_EQ(control("", nullptr, nullptr, nullptr, 0), ENOENT);
  EXPECT_EQ(control(nullptr, nullptr, nullptr, nullptr, 0), ENOENT);
  EXPECT_EQ(control("stats.allocated", &small, &bytes, nullptr, 0), EINVAL)
      << "a value of the wrong size";
  EXPECT_EQ(set<size_t>("stats.allocated", 1), EPERM);
  EXPECT_EQ(set<bool>("epoch", true), EINVAL);
  bytes = sizeof(number);
  EXPECT_EQ(control("arena.0.purge", &number, &bytes, nullptr, 0), EPERM);
  EXPECT_EQ(done("arena.7.purge"), EFAULT);
  EXPECT_EQ(done("arena.x.purge"), ENOENT);
  EXPECT_EQ(done("arena..purge"), ENOENT);
  EXPECT_EQ(done("arena.99999999999999999999999.purge"), ENOENT);
  EXPECT_EQ(done("arena.0.destroy"), EFAULT);
}

TEST(Mallctl, AValueOfTheWrongSizeIsCopiedAsFarAsItFits) {
  uint64_t wide[2] = {0, ~uint64_t{0}};
  size_t bytes = sizeof(wide);
  EXPECT_EQ(control("arenas.quantum", wide, &bytes, nullptr, 0), EINVAL);
  EXPECT_EQ(bytes, sizeof(size_t));
  EXPECT_EQ(wide[0], 16u);
  EXPECT_EQ(wide[1], ~uint64_t{0});
}

TEST(Mallctl, NumbersInAMibCanBeExchanged) {
  size_t mib[4] = {}, length = 4, size = 0, bytes = sizeof(size);
  ASSERT_EQ(name_to_mib("arenas.bin.0.size", mib, &length), 0);
  EXPECT_EQ(length, 4u);
  EXPECT_EQ(mib[2], 0u);
  for (size_t i = 0; i < heap::kClassCount; i++) {
    mib[2] = i;
    ASSERT_EQ(control_by_mib(mib, length, &size, &bytes, nullptr, 0), 0);
    EXPECT_EQ(size, heap::kClasses[i].bytes);
  }
  mib[2] = heap::kClassCount;
  EXPECT_EQ(control_by_mib(mib, length, &size, &bytes, nullptr, 0), ENOENT);
  EXPECT_EQ(control_by_mib(mib, 3, &size, &bytes, nullptr, 0), ENOENT);
  mib[0] = 100000;
  EXPECT_EQ(control_by_mib(mib, 4, &size, &bytes, nullptr, 0), ENOENT);
  mib[0] = 0;
  EXPECT_EQ(control_by_mib(mib, 4, &size, &bytes, nullptr, 0), ENOENT);
}

TEST(Mallctl, MibIsTruncatedToItsBuffer) {
  size_t mib[2] = {7, 7}, length = 1;
  ASSERT_EQ(name_to_mib("arena.5.purge", mib, &length), 0);
  EXPECT_EQ(length, 1u);
  EXPECT_NE(mib[0], 7u);
  EXPECT_EQ(mib[1], 7u);
  length = 2;
  EXPECT_EQ(name_to_mib("arena.5.nothing", mib, &length), ENOENT);
}

// The size of each name's value by jemalloc's manual; 0 if it cannot be read.
struct TypeRow {
  const char* names;  // separated by spaces; a prefix that ends in a colon applies to each
  size_t bytes;
};
constexpr size_t kPointer = sizeof(void*);
constexpr TypeRow kTypes[] = {
    {"version thread.prof.name arena.#.dss stats.arenas.#.dss config.malloc_conf opt.metadata_thp opt.dss opt.percpu_arena "
     "opt.stats_print_opts opt.stats_interval_opts opt.junk opt.thp opt.prof_prefix opt.zero_realloc opt.hpa_hugify_style "
     "opt.prof_time_resolution",
     kPointer},
    {"epoch thread.allocated thread.deallocated thread.allocatedp thread.deallocatedp prof.interval stats.arenas.#.uptime thread.peak.read "
     "stats.arenas.#.dirty_nmadvise stats.arenas.#.dirty_purged stats.arenas.#.muzzy_npurge stats.arenas.#.muzzy_nmadvise "
     "stats.arenas.#.muzzy_purged opt.mutex_max_spin opt.hpa_hugify_delay_ms opt.hpa_min_purge_interval_ms opt.hpa_min_purge_delay_ms",
     8},
    {"background_thread thread.tcache.enabled thread.prof.active arena.#.initialized prof.active prof.thread_active_init prof.gdump "
     "config.cache_oblivious config.debug config.fill config.lazy_lock config.opt_safety_checks config.opt_size_checks config.prof "
     "config.thp config.prof_frameptr config.prof_libgcc config.prof_libunwind config.stats config.utrace config.xmalloc opt.abort opt.abort_conf opt.confirm_conf "
     "opt.cache_oblivious opt.trust_madvise opt.retain opt.background_thread opt.stats_print opt.zero opt.utrace opt.xmalloc opt.tcache "
     "opt.prof opt.prof_active opt.prof_thread_active_init opt.prof_accum opt.prof_gdump opt.prof_final opt.prof_leak "
     "opt.prof_leak_error opt.hpa opt.hpa_hugify_sync opt.huge_arena_pac_thp opt.disable_large_size_classes "
     "opt.experimental_infallible_new opt.prof_pid_namespace opt.prof_stats opt.prof_sys_thread_name",
     sizeof(bool)},
    {"thread.arena tcache.create arenas.narenas arenas.nbins arenas.nhbins arenas.nlextents arenas.create opt.narenas "
     "stats.arenas.#.nthreads arenas.bin.#.nregs arenas.bin.#.nshards opt.debug_double_free_max_scan opt.tcache_nslots_small_min "
     "opt.tcache_nslots_small_max opt.tcache_nslots_large opt.lg_tcache_flush_small_div opt.lg_tcache_flush_large_div "
     "opt.hpa_dirty_mult opt.prof_bt_max",
     sizeof(unsigned)},
    {"arena.#.dirty_decay_ms arena.#.muzzy_decay_ms arenas.dirty_decay_ms arenas.muzzy_decay_ms stats.arenas.#.dirty_decay_ms "
     "stats.arenas.#.muzzy_decay_ms opt.dirty_decay_ms opt.muzzy_decay_ms opt.lg_prof_interval opt.stats_interval "
     "opt.lg_san_uaf_align opt.lg_tcache_nslots_mul opt.prof_recent_alloc_max",
     sizeof(ssize_t)},
    {"max_background_threads arenas.quantum arenas.page arenas.tcache_max arenas.bin.#.size arenas.bin.#.slab_size prof.lg_sample "
     "stats.allocated stats.active stats.metadata stats.metadata_thp stats.resident stats.mapped stats.retained stats.zero_reallocs "
     "stats.background_thread.num_threads stats.arenas.#.pactive stats.arenas.#.pdirty stats.arenas.#.pmuzzy stats.arenas.#.mapped "
     "stats.arenas.#.retained stats.arenas.#.resident stats.arenas.#.base stats.arenas.#.internal stats.arenas.#.metadata_thp "
     "stats.arenas.#.tcache_bytes stats.arenas.#.small.allocated stats.arenas.#.large.allocated stats.arenas.#.bins.#.curregs "
     "stats.arenas.#.bins.#.curslabs opt.oversize_threshold opt.max_background_threads opt.tcache_max opt.lg_tcache_max opt.lg_extent_max_active_fit "
     "opt.lg_prof_sample thread.tcache.max arena.#.oversize_threshold arena.#.retain_grow_limit arenas.hugepage approximate_stats.active "
     "stats.arenas.#.abandoned_vm stats.arenas.#.hpa_sec_bytes stats.arenas.#.tcache_stashed_bytes opt.process_madvise_max_batch "
     "opt.tcache_gc_incr_bytes opt.tcache_gc_delay_bytes opt.hpa_slab_max_alloc opt.hpa_hugification_threshold opt.hpa_purge_threshold "
     "opt.hpa_sec_nshards opt.hpa_sec_max_alloc opt.hpa_sec_max_bytes opt.hpa_sec_bytes_after_flush opt.hpa_sec_batch_fill_extra",
     sizeof(size_t)},
    {"thread.idle thread.peak.reset thread.tcache.flush tcache.flush tcache.destroy arena.#.purge arena.#.decay arena.#.reset arena.#.destroy arenas.lookup "
     "prof.dump prof.prefix prof.reset",
     0},
};

std::map<std::string, size_t> sizes_by_name() {
  std::map<std::string, size_t> sizes;
  for (const TypeRow& row : kTypes) {
    std::istringstream names(row.names);
    for (std::string name; names >> name;) sizes[name] = row.bytes;
  }
  return sizes;
}

// Each name of the table has a value of the type in jemalloc's manual, by name and by MIB.
TEST(Mallctl, EveryNameHasAValueOfItsType) {
  std::map<std::string, size_t> sizes = sizes_by_name();
  std::set<std::string> seen;
  new_epoch();
  for (size_t i = 0; i < control_names(); i++) {
    std::string name = control_name(i);
    EXPECT_TRUE(seen.insert(name).second) << name << " is there twice";
    ASSERT_TRUE(sizes.contains(name)) << name;
    size_t size = sizes[name];
    while (name.find('#') != std::string::npos) name.replace(name.find('#'), 1, "0");
    size_t mib[8], length = 8;
    ASSERT_EQ(name_to_mib(name.c_str(), mib, &length), 0) << name;
    unsigned char by_name[16], by_mib[16];
    for (size_t wanted : {size_t{1}, size_t{4}, size_t{8}, size_t{16}}) {
      memset(by_name, 0x5A, sizeof(by_name));
      memset(by_mib, 0x5A, sizeof(by_mib));
      size_t bytes = wanted, mib_bytes = wanted;
      int error = control(name.c_str(), by_name, &bytes, nullptr, 0);
      EXPECT_EQ(control_by_mib(mib, length, by_mib, &mib_bytes, nullptr, 0), error) << name;
      if (size == 0) {
        EXPECT_TRUE(error == EPERM || error == EFAULT || error == EINVAL) << name << ": " << error;
        continue;
      }
      EXPECT_EQ(error, wanted == size ? 0 : EINVAL) << name << " in " << wanted;
      EXPECT_EQ(bytes, std::min(wanted, size)) << name;
      EXPECT_EQ(by_name[bytes], bytes < sizeof(by_name) ? 0x5A : by_name[bytes])
          << name << ": no byte too many";
      if (name.find("allocated") == std::string::npos)
        EXPECT_EQ(memcmp(by_name, by_mib, bytes), 0) << name;
    }
  }
  EXPECT_EQ(seen.size(), sizes.size());
}

// As in jemalloc, opt.… does not follow changes at run time.
TEST(Mallctl, OptionsAreThoseOfTheStart) {
  auto expect_defaults = [] {
    EXPECT_EQ(value<ssize_t>("opt.lg_prof_interval"), -1);
    EXPECT_EQ(value<size_t>("opt.lg_prof_sample"), 19u);
    EXPECT_EQ(value<ssize_t>("opt.dirty_decay_ms"), 1000);
    EXPECT_EQ(value<unsigned>("opt.prof_bt_max"), 64u);
    EXPECT_STREQ(value<const char*>("opt.prof_prefix"), "jeprof");
    EXPECT_TRUE(value<bool>("opt.prof_active"));
    EXPECT_TRUE(value<bool>("opt.background_thread"));
    for (const char* name :
         {"opt.prof_final", "opt.prof_gdump", "opt.prof_leak", "opt.stats_print"})
      EXPECT_FALSE(value<bool>(name)) << name;
  };
  expect_defaults();  // kept from when they were read
  EXPECT_EQ(value<uint64_t>("prof.interval"), 0u);
  EXPECT_FALSE(value<bool>("prof.gdump"));
  {
    options::OptionForTest final(options::Id::dump_final, "1"),
        interval(options::Id::dump_alloc_interval, "1G"), sample(options::Id::sample, "0"),
        leaks(options::Id::leak_summary, "1"), print(options::Id::stats_print, "1"),
        growth(options::Id::dump_growth_interval, "2M"), delay(options::Id::purge_delay, "77"),
        depth(options::Id::stack_depth, "7"), helper(options::Id::helper, "0");
    EXPECT_EQ(value<uint64_t>("prof.interval"), uint64_t{1} << 30);
    EXPECT_TRUE(value<bool>("prof.gdump"));
    EXPECT_FALSE(value<bool>("prof.active"));
    expect_defaults();
    save_start_options();  // as if the program had been started with them
    EXPECT_EQ(value<ssize_t>("opt.lg_prof_interval"), 30);
    EXPECT_EQ(value<ssize_t>("opt.dirty_decay_ms"), 77);
    EXPECT_EQ(value<unsigned>("opt.prof_bt_max"), 7u);
    EXPECT_FALSE(value<bool>("opt.prof_active"));
    EXPECT_FALSE(value<bool>("opt.background_thread"));
    for (const char* name :
         {"opt.prof_final", "opt.prof_gdump", "opt.prof_leak", "opt.stats_print"})
      EXPECT_TRUE(value<bool>(name)) << name;
  }
  save_start_options();
  expect_defaults();
}

// Settings that none of our options stores are returned as well. Even with prof:false, prof_leak
// turns profiling on.
TEST(Mallctl, OptionsReportMallocConf) {
  options::OptionForTest verbose(options::Id::verbose, "0"), free(options::Id::purge_free, "0"),
      names(options::Id::dump_names, "seemalloc");
  auto start_with = [](const std::string& conf) {
    std::string variable = "MALLOC_CONF=" + conf;
    char* environment[] = {variable.data(), nullptr};
    read_foreign_options(conf.empty() ? environment + 1 : environment,
                         [](const char* line) { ADD_FAILURE() << line; });
    save_start_options();
  };
  struct Said {
    bool abort_conf, confirm_conf, prof, prof_leak, prof_leak_error;
    ssize_t muzzy_decay_ms;
    bool operator==(const Said&) const = default;
  };
  auto said = [] {
    return Said{value<bool>("opt.abort_conf"),
                value<bool>("opt.confirm_conf"),
                value<bool>("opt.prof"),
                value<bool>("opt.prof_leak"),
                value<bool>("opt.prof_leak_error"),
                value<ssize_t>("opt.muzzy_decay_ms")};
  };
  const Said nothing{false, false, true, false, false, 0};
  EXPECT_EQ(said(), nothing);
  start_with("abort_conf:true,confirm_conf:true,prof:false,prof_leak_error:true,muzzy_decay_ms:-1");
  EXPECT_EQ(said(), (Said{true, true, true, true, true, -1}));
  start_with("prof:false,muzzy_decay_ms:500");
  EXPECT_EQ(said(), (Said{false, false, false, false, false, 500}));
  EXPECT_TRUE(value<bool>("opt.prof_active")) << "sampled all the same";
  start_with("prof:true,prof_leak:true");
  EXPECT_EQ(said(), (Said{false, false, true, true, false, 0}));
  start_with("muzzy_decay_ms:-1");
  // As SEEMALLOC_CONF, which has precedence.
  options::OptionForTest ours(options::Id::purge_free, "0");
  save_start_options();
  EXPECT_EQ(said(), nothing);
  start_with("");
  EXPECT_EQ(said(), nothing);
}

TEST(Mallctl, ProfilesNamesAndGrowthAreSet) {
  EXPECT_EQ(set("prof.gdump", true), 0);
  EXPECT_EQ(options::get(options::Id::dump_growth_interval), kRegionBytes);
  EXPECT_EQ(set("prof.gdump", false), 0);
  EXPECT_EQ(options::get(options::Id::dump_growth_interval), 0u);
  set_option_to("dump_names", "seemalloc");
  const char* before = value<const char*>("opt.prof_prefix");
  std::string was = before;
  ASSERT_EQ(set("prof.prefix", "/tmp/another"), 0);
  EXPECT_EQ(value<const char*>("opt.prof_prefix"), before);
  EXPECT_EQ(before, was) << "the text stays valid for callers that keep the pointer";
  ASSERT_EQ(set("prof.prefix", ""), 0);
}

// A fixed setting may be written with its current value, without effect; other values are refused.
TEST(Mallctl, FixedSettingsAcceptTheirValue) {
  for (const char* name :
       {"thread.tcache.max", "arena.0.oversize_threshold", "arena.4096.retain_grow_limit"}) {
    size_t now = value<size_t>(name);
    EXPECT_EQ(set<size_t>(name, now), 0) << name;
    EXPECT_EQ(set<size_t>(name, now / 2 + 1), EPERM) << name;
    EXPECT_EQ(set<uint32_t>(name, 0), EINVAL) << name;
    EXPECT_EQ(value<size_t>(name), now);
  }
  EXPECT_EQ(done("arena.7.oversize_threshold"), EFAULT);
}

TEST(Mallctl, ListLengthsMatchOptions) {
  unsigned fewest = ~0u, most = 0;
  for (const heap::SizeClass& c : heap::kClasses) {
    unsigned blocks =
        static_cast<unsigned>(heap::kMaxSpanPages * kPageBytes / (c.bytes < KiB ? 2 : 1) / c.bytes);
    fewest = std::min(fewest, blocks);
    most = std::max(most, blocks);
  }
  EXPECT_EQ(value<unsigned>("opt.tcache_nslots_small_min"), fewest);
  EXPECT_EQ(value<unsigned>("opt.tcache_nslots_small_max"), most);
  EXPECT_EQ(value<unsigned>("opt.prof_bt_max"), options::get(options::Id::stack_depth));
}

TEST(Mallctl, ActivePagesAreKnownWithoutAnEpoch) {
  size_t before = value<size_t>("approximate_stats.active");
  void* block = sm_malloc(64 * MiB);
  EXPECT_GE(value<size_t>("approximate_stats.active"), before + 64 * MiB);
  sm_free(block);
  new_epoch();
  EXPECT_NEAR(static_cast<double>(value<size_t>("approximate_stats.active")),
              static_cast<double>(value<size_t>("stats.active")), 4.0 * MiB);
}

TEST(Mallctl, PurgedBytesAreCounted) {
  new_epoch();
  uint64_t calls = value<uint64_t>("stats.arenas.0.dirty_nmadvise"),
           pages = value<uint64_t>("stats.arenas.0.dirty_purged");
  uint64_t uptime = value<uint64_t>("stats.arenas.0.uptime");
  std::vector<void*> blocks;
  for (int i = 0; i < 1024; i++) {
    blocks.push_back(sm_malloc(16 * KiB));
    memset(blocks.back(), 1, 16 * KiB);
  }
  for (void* p : blocks) sm_free(p);
  EXPECT_EQ(done("arena.0.purge"), 0);
  EXPECT_EQ(value<uint64_t>("stats.arenas.0.dirty_purged"), pages)
      << "stands still until the next epoch";
  new_epoch();
  EXPECT_GT(value<uint64_t>("stats.arenas.0.dirty_nmadvise"), calls);
  EXPECT_GE((value<uint64_t>("stats.arenas.0.dirty_purged") - pages) * value<size_t>("arenas.page"),
            8 * MiB);
  EXPECT_GT(value<uint64_t>("stats.arenas.0.uptime"), uptime);
}

TEST(Mallctl, DecayIsTheDelay) {
  EXPECT_EQ(value<ssize_t>("arenas.dirty_decay_ms"), 1000);
  EXPECT_EQ(set<ssize_t>("arena.0.dirty_decay_ms", 250), 0);
  EXPECT_EQ(options::get(options::Id::purge_delay), 250u);
  EXPECT_EQ(set<ssize_t>("arenas.dirty_decay_ms", -1), 0);
  EXPECT_EQ(value<ssize_t>("stats.arenas.0.dirty_decay_ms"), -1);
  EXPECT_EQ(value<ssize_t>("opt.dirty_decay_ms"), 1000) << "as at the start";
  EXPECT_EQ(set<ssize_t>("arenas.dirty_decay_ms", -2), EFAULT);
  EXPECT_EQ(set<ssize_t>("arenas.dirty_decay_ms", 1000), 0);
  EXPECT_EQ(value<ssize_t>("arena.0.dirty_decay_ms"), 1000);
}

TEST(Mallctl, SamplingIsSwitchedAndKeepsItsInterval) {
  EXPECT_EQ(set<size_t>("prof.reset", 17), 0);
  EXPECT_TRUE(value<bool>("prof.active"));
  EXPECT_EQ(set("prof.active", false), 0);
  EXPECT_EQ(options::get(options::Id::sample), 0u);
  EXPECT_FALSE(value<bool>("prof.active"));
  EXPECT_TRUE(value<bool>("opt.prof_active")) << "as at the start";
  EXPECT_EQ(value<size_t>("prof.lg_sample"), 17u);
  EXPECT_EQ(set("prof.active", true), 0);
  EXPECT_EQ(options::get(options::Id::sample), size_t{1} << 17);
  EXPECT_EQ(set<size_t>("prof.reset", 64), EINVAL);
  EXPECT_EQ(set<size_t>("prof.reset", 19), 0);
}

// All dumps that jemalloc's options cause are named alike, with one common count.
TEST(Mallctl, DumpsWithoutANameTakeTheNextOne) {
  namespace fs = std::filesystem;
  char pattern[] = "/tmp/mallctl_test.XXXXXX";
  std::string folder = mkdtemp(pattern), prefix = folder + "/j";
  ASSERT_EQ(set("prof.prefix", prefix.c_str()), 0);
  ASSERT_TRUE(set_option_to("dump_names", "jemalloc"));
  for (int i = 0; i < 3; i++) {
    FixedText<kDumpPathBytes> path;
    EXPECT_EQ(dump_by_prefix(DumpReason::kRequested, path), 0);
    EXPECT_EQ(done("prof.dump"), 0);
  }
  ASSERT_TRUE(set_option_to("dump_names", "seemalloc"));
  EXPECT_EQ(done("prof.dump"), 0) << "jemalloc's form all the same";
  ASSERT_EQ(set("prof.prefix", ""), 0);
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::string name = entry.path().filename();
    EXPECT_EQ(name.rfind("j." + std::to_string(getpid()) + ".", 0), 0u) << name;
    EXPECT_NE(name.find(".m"), std::string::npos) << name;
    std::ifstream file(entry.path());
    std::string header, totals;
    std::getline(file, header);
    std::getline(file, totals);
    EXPECT_EQ(header, "heap_v2/524288")
        << name << ": in jemalloc's form, whichever call requested it";
    EXPECT_EQ(totals.rfind("  t*: ", 0), 0u) << totals;
    files++;
  }
  EXPECT_EQ(files, 7u) << "none is written over another";
  fs::remove_all(folder);
}

TEST(Mallctl, AllocationSizesMatchBlocks) {
  for (size_t bytes : {0u, 1u, 8u, 9u, 100u, 1024u, 1025u, 32768u, 32769u, 5000000u}) {
    void* p = sm_malloc(bytes);
    EXPECT_EQ(allocation_size(bytes, 1), sm_malloc_usable_size(p)) << bytes;
    sm_free(p);
  }
  void* p = sm_memalign(256, 300);
  EXPECT_EQ(allocation_size(300, 256), sm_malloc_usable_size(p));
  sm_free(p);
  EXPECT_EQ(allocation_size(SIZE_MAX, 1), 0u);
}

// ---- a thread's allocated and freed bytes ----

struct ThreadFigures {
  uint64_t allocated, freed;
};
ThreadFigures figures() {
  return {value<uint64_t>("thread.allocated"), value<uint64_t>("thread.deallocated")};
}

// Estimates are as exact as samples are frequent. A test allocates for milliseconds, in which a
// rate limit would leave few samples.
struct Unlimited {
  Unlimited() { heap::invalidate_sample_distances(); }
  options::OptionForTest limit{options::Id::sample_limit, "0"};
};

TEST(ThreadFigures, AllocatedIsExact) {
  std::thread([] {
    const uint64_t* counter = value<const uint64_t*>("thread.allocatedp");
    EXPECT_EQ(figures().allocated, 0u)
        << "a thread begins at nothing, whatever became of its heap before";
    uint64_t wanted = 0;
    std::vector<void*> blocks;
    for (size_t i = 0; i < 200000; i++) {
      size_t bytes = 1 + i * 7919 % 3000;
      if (i % 1000 == 0) bytes = 100000;
      blocks.push_back(sm_malloc(bytes));
      wanted += sm_malloc_usable_size(blocks.back());
      if (i % 3 == 0) {
        sm_free(blocks[blocks.size() / 2]);
        blocks[blocks.size() / 2] = nullptr;
      }
    }
    // A due sample of each class is counted ahead.
    EXPECT_GE(figures().allocated, wanted);
    EXPECT_LE(figures().allocated, wanted + heap::kClassCount * heap::kMaxSmallBytes);
    EXPECT_GE(*counter, figures().allocated);
    EXPECT_LE(*counter, figures().allocated + 4 * MiB);
    for (void* p : blocks) sm_free(p);
  }).join();
}

TEST(ThreadFigures, ALargeBlockIsSeenAtOnce) {
  const uint64_t* counter = value<const uint64_t*>("thread.allocatedp");
  uint64_t before = *counter;
  void* p = sm_malloc(1 * MiB);
  EXPECT_EQ(*counter - before, 1 * MiB);
  sm_free(p);
}

TEST(ThreadFigures, FreedIsAnEstimate) {
  Unlimited samples;
  std::thread([] {
    const uint64_t* counter = value<const uint64_t*>("thread.deallocatedp");
    EXPECT_EQ(*counter, 0u);
    // 312 MiB: 625 samples, of which 4 standard errors are 16 %.
    constexpr size_t kBlocks = 20000, kBytes = 16 * KiB;
    for (size_t i = 0; i < kBlocks; i++) sm_free(sm_malloc(kBytes));
    uint64_t allocated = figures().allocated;
    EXPECT_NEAR(static_cast<double>(*counter), static_cast<double>(allocated), 16.0 * MiB)
        << "nothing is alive";
    std::vector<void*> kept;
    for (size_t i = 0; i < kBlocks; i++) kept.push_back(sm_malloc(kBytes));
    allocated = figures().allocated;
    EXPECT_NEAR(static_cast<double>(*counter) / (kBlocks * kBytes), 1, 0.2)
        << "half of it is alive";
    for (void* p : kept) sm_free(p);
  }).join();
}

TEST(ThreadFigures, FreesAreCountedByFreeingThread) {
  Unlimited samples;
  std::vector<void*> blocks;
  for (size_t i = 0; i < 20000; i++) blocks.push_back(sm_malloc(16 * KiB));
  std::thread([&] {
    for (void* p : blocks) sm_free(p);
    // It has allocated nothing: all blocks it has freed are other threads'.
    EXPECT_NEAR(static_cast<double>(figures().freed) / (20000 * 16.0 * KiB), 1, 0.2);
  }).join();
}

// ---- a thread's peak ----

uint64_t peak() { return value<uint64_t>("thread.peak.read"); }

TEST(ThreadPeak, PeakIsKeptUntilReset) {
  std::thread([] {
    EXPECT_EQ(peak(), 0u);
    for (size_t round_bytes : {64 * MiB, 16 * MiB}) {
      std::vector<void*> held;
      for (size_t i = 0; i < round_bytes / (16 * KiB); i++) held.push_back(sm_malloc(16 * KiB));
      for (void* p : held) sm_free(p);
      // While nothing is freed, nothing is estimated: the error is the size of the thread's lists.
      EXPECT_NEAR(static_cast<double>(peak()), static_cast<double>(round_bytes), 1.0 * MiB);
      EXPECT_EQ(done("thread.peak.reset"), 0);
      EXPECT_EQ(peak(), 0u);
    }
  }).join();
}

TEST(ThreadPeak, FreedBlocksDoNotAddToPeak) {
  Unlimited samples;
  std::thread([] {
    for (size_t i = 0; i < 20000; i++) sm_free(sm_malloc(16 * KiB));
    EXPECT_LT(peak(), 16 * MiB) << "of 312 MiB one block at a time";
  }).join();
}

TEST(ThreadPeak, FreeingOnlyThreadHasNoPeak) {
  std::vector<void*> blocks;
  for (size_t i = 0; i < 4000; i++) blocks.push_back(sm_malloc(16 * KiB));
  std::thread([&] {
    sm_free(sm_malloc(16 * KiB));
    EXPECT_EQ(done("thread.peak.reset"), 0);
    for (void* p : blocks) sm_free(p);
    EXPECT_EQ(peak(), 0u);
  }).join();
}

// With every allocation recorded nothing is estimated.
TEST(ThreadPeak, IsExactWhereAllIsRecorded) {
  options::OptionForTest all(options::Id::sample, "1");
  heap::invalidate_sample_distances();
  std::thread([] {
    std::mt19937 random(seed_for_test());
    std::vector<void*> held;
    int64_t now = 0, most = 0;
    auto bytes_of = [](void* p) { return static_cast<int64_t>(sm_malloc_usable_size(p)); };
    for (int i = 0; i < 30000; i++) {
      if (i % 10000 == 5000) {
        ASSERT_EQ(done("thread.peak.reset"), 0);
        now = most = 0;
      }
      bool grows = i / 3000 % 2 == 0;
      if (held.empty() || random() % 10 < (grows ? 7u : 3u)) {
        held.push_back(sm_malloc(1 + random() % 60000));
        now += bytes_of(held.back());
        most = std::max(most, now);
      } else {
        size_t at = random() % held.size();
        now -= bytes_of(held[at]);
        sm_free(held[at]);
        held[at] = held.back();
        held.pop_back();
      }
      // rarely: reading updates the peak too.
      if (i % 997 == 0) ASSERT_EQ(static_cast<int64_t>(peak()), most) << i;
    }
    for (void* p : held) sm_free(p);
  }).join();
  heap::invalidate_sample_distances();
}

TEST(ThreadPeak, ErrorsAreJemallocs) {
  uint64_t number = 0;
  size_t bytes = sizeof(number);
  EXPECT_EQ(set<uint64_t>("thread.peak.read", 1), EPERM);
  EXPECT_EQ(set<uint64_t>("thread.peak.reset", 1), EPERM);
  EXPECT_EQ(control("thread.peak.reset", &number, &bytes, nullptr, 0), EPERM);
}

}  // namespace
}  // namespace seemalloc::compat
