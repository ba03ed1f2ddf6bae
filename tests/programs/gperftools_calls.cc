// The calls that programs written against gperftools' own headers make: the C++ class, called
// through its vtable, the C calls, tc_malloc and related functions, the heap profiler and the CPU
// profiler. Each step checks the behaviour that gperftools documents and prints a line. Compiled
// with Debian's headers and linked with its libraries; run on seemalloc and on gperftools.
// Arguments: a directory to write to, and `heap` or `cpu` for one part.
#include <gperftools/heap-profiler.h>
#include <gperftools/malloc_extension.h>
#include <gperftools/malloc_extension_c.h>
#include <gperftools/nallocx.h>
#include <gperftools/profiler.h>
#include <gperftools/tcmalloc.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace {

#define EXPECT(condition)                                             \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition); \
      exit(1);                                                        \
    }                                                                 \
  } while (0)

constexpr size_t MiB = size_t{1} << 20;

// On gperftools itself the rest has to hold as well.
bool is_ours() { return strstr(tc_version(nullptr, nullptr, nullptr), "seemalloc") != nullptr; }

size_t property(const char* name) {
  size_t value = 0;
  EXPECT(MallocExtension::instance()->GetNumericProperty(name, &value));
  size_t again = 0;
  EXPECT(MallocExtension_GetNumericProperty(name, &again) != 0);
  return value;
}

void properties() {
  size_t before = property("generic.current_allocated_bytes");
  std::vector<char> held(64 * MiB, 1);
  size_t grown = property("generic.current_allocated_bytes") - before;
  EXPECT(grown >= 64 * MiB && grown < 65 * MiB);
  EXPECT(property("generic.heap_size") >= 64 * MiB);
  for (const char* name :
       {"tcmalloc.current_total_thread_cache_bytes", "tcmalloc.central_cache_free_bytes",
        "tcmalloc.transfer_cache_free_bytes", "tcmalloc.thread_cache_free_bytes",
        "tcmalloc.pageheap_free_bytes", "tcmalloc.pageheap_unmapped_bytes"}) {
    EXPECT(property(name) < property("generic.heap_size"));
  }
  MallocExtension* extension = MallocExtension::instance();
  size_t value = 1;
  EXPECT(!extension->GetNumericProperty("no.such.property", &value));
  EXPECT(!extension->SetNumericProperty("generic.heap_size", 1));
  size_t limit = property("tcmalloc.max_total_thread_cache_bytes");
  EXPECT(extension->SetNumericProperty("tcmalloc.max_total_thread_cache_bytes", 8 * MiB));
  EXPECT(property("tcmalloc.max_total_thread_cache_bytes") == 8 * MiB);
  EXPECT(extension->SetNumericProperty("tcmalloc.max_total_thread_cache_bytes", limit));
  puts("properties");
}

size_t resident_bytes() {
  unsigned long all = 0, resident = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  EXPECT(file != nullptr && fscanf(file, "%lu %lu", &all, &resident) == 2);
  fclose(file);
  return resident * 4096;
}

void release() {
  std::vector<std::unique_ptr<char[]>> blocks;
  for (int i = 0; i < 64 * 1024; i++)
    blocks.emplace_back(new char[1024]), memset(blocks.back().get(), 1, 1024);
  size_t full = resident_bytes();
  blocks.clear();
  blocks.shrink_to_fit();
  MallocExtension::instance()->ReleaseFreeMemory();
  EXPECT(resident_bytes() + 48 * MiB < full);
  MallocExtension::instance()->ReleaseToSystem(1 * MiB);
  MallocExtension::instance()->MarkThreadIdle();
  MallocExtension::instance()->MarkThreadBusy();
  MallocExtension::instance()->MarkThreadTemporarilyIdle();
  double rate = MallocExtension::instance()->GetMemoryReleaseRate();
  EXPECT(rate > 0);
  MallocExtension::instance()->SetMemoryReleaseRate(5);
  EXPECT(MallocExtension::instance()->GetMemoryReleaseRate() == 5);
  MallocExtension::instance()->SetMemoryReleaseRate(0);
  EXPECT(MallocExtension::instance()->GetMemoryReleaseRate() == 0);
  MallocExtension::instance()->SetMemoryReleaseRate(rate);
  puts("release");
}

void sizes() {
  MallocExtension* extension = MallocExtension::instance();
  for (size_t bytes : {1, 100, 5000, 200000}) {
    void* p = malloc(bytes);
    EXPECT(extension->GetAllocatedSize(p) >= bytes);
    EXPECT(extension->GetAllocatedSize(p) == extension->GetEstimatedAllocatedSize(bytes));
    EXPECT(tc_malloc_size(p) == extension->GetAllocatedSize(p) &&
           nallocx(bytes, 0) == tc_malloc_size(p));
    EXPECT(extension->GetOwnership(p) == MallocExtension::kOwned);
    EXPECT(MallocExtension_GetOwnership(p) == MallocExtension_kOwned);
    free(p);
  }
  int local = 0;
  EXPECT(extension->GetOwnership(&local) == MallocExtension::kNotOwned);
  EXPECT(extension->GetOwnership(nullptr) == MallocExtension::kNotOwned);
  EXPECT(extension->VerifyAllMemory());
  EXPECT(!is_ours() || extension->GetSystemAllocator() == nullptr);
  int blocks = 0, histogram[kMallocHistogramSize];
  size_t total = 0;
  EXPECT(extension->MallocMemoryStats(&blocks, &total, histogram));
  EXPECT(extension->GetThreadCacheSize() < 512 * MiB);
  std::vector<MallocExtension::FreeListInfo> lists;
  extension->GetFreeListSizes(&lists);
  EXPECT(!lists.empty());
  for (const auto& list : lists)
    EXPECT(list.min_object_size <= list.max_object_size && list.type != nullptr);
  puts("sizes");
}

// The same through the C calls.
void c_calls() {
  MallocExtension* extension = MallocExtension::instance();
  void* p = malloc(5000);
  char *one = new char, *many = new char[100];
  EXPECT(MallocExtension_VerifyAllMemory() && MallocExtension_VerifyMallocMemory(p));
  EXPECT(MallocExtension_VerifyNewMemory(one) && MallocExtension_VerifyArrayNewMemory(many));
  EXPECT(MallocExtension_GetAllocatedSize(p) == extension->GetAllocatedSize(p));
  EXPECT(MallocExtension_GetEstimatedAllocatedSize(5000) ==
         extension->GetEstimatedAllocatedSize(5000));
  EXPECT(MallocExtension_GetThreadCacheSize() < 512 * MiB);
  free(p);
  delete one;
  delete[] many;
  int blocks = 0, histogram[kMallocHistogramSize];
  size_t total = 0;
  EXPECT(MallocExtension_MallocMemoryStats(&blocks, &total, histogram));
  const char* name = "tcmalloc.max_total_thread_cache_bytes";
  size_t limit = property(name);
  EXPECT(MallocExtension_SetNumericProperty(name, 16 * MiB) && property(name) == 16 * MiB);
  EXPECT(MallocExtension_SetNumericProperty(name, limit) &&
         !MallocExtension_SetNumericProperty("no.such.property", 1));
  std::vector<std::unique_ptr<char[]>> held;
  for (int i = 0; i < 64 * 1024; i++)
    held.emplace_back(new char[1024]), memset(held.back().get(), 1, 1024);
  size_t full = resident_bytes();
  held.clear();
  held.shrink_to_fit();
  MallocExtension_ReleaseToSystem(1 * MiB);
  MallocExtension_ReleaseFreeMemory();
  EXPECT(resident_bytes() + 48 * MiB < full);
  MallocExtension_MarkThreadIdle();
  MallocExtension_MarkThreadBusy();
  MallocExtension_MarkThreadTemporarilyIdle();
  puts("C calls");
}

void texts() {
  std::vector<char> buffer(4096, 'x');
  MallocExtension::instance()->GetStats(buffer.data(), static_cast<int>(buffer.size()));
  std::string stats = buffer.data();
  EXPECT(stats.find("Bytes in use by application") != std::string::npos);
  EXPECT(stats.find("Bytes released to OS") != std::string::npos);
  char tiny[4] = {'x', 'x', 'x', 'x'};
  MallocExtension_GetStats(tiny, 3);
  EXPECT(tiny[2] == 0 && tiny[3] == 'x');

  std::vector<std::string> held(40000, std::string(1000, 'y'));
  std::string sample = "before";
  MallocExtension::instance()->GetHeapSample(&sample);
  EXPECT(sample.rfind("beforeheap profile: ", 0) == 0 &&
         sample.find("@ heap_v2/") != std::string::npos);
  EXPECT(sample.find("MAPPED_LIBRARIES:") != std::string::npos);
  std::string growth;
  MallocExtension::instance()->GetHeapGrowthStacks(&growth);
  EXPECT(growth.rfind("heap profile: ", 0) == 0);
  int period = 0;
  void** entries = MallocExtension::instance()->ReadStackTraces(&period);
  EXPECT(entries != nullptr && period > 0);
  size_t rows = 0;
  for (void** at = entries; at[0] != nullptr; at += 3 + reinterpret_cast<uintptr_t>(at[2])) rows++;
  EXPECT(rows > 0);
  delete[] entries;
  puts("texts");
}

void other_names() {
  int major = 0, minor = 0;
  const char* patch = nullptr;
  printf("version %s\n", tc_version(&major, &minor, &patch));
  EXPECT(major == TC_VERSION_MAJOR && patch != nullptr);
  void* p = tc_malloc(100);
  p = tc_realloc(p, 1000);
  tc_free(p);
  p = tc_calloc(10, 10);
  for (int i = 0; i < 100; i++) EXPECT(static_cast<char*>(p)[i] == 0);
  tc_free_sized(p, 100);
  EXPECT(tc_posix_memalign(&p, 4096, 10) == 0 && reinterpret_cast<uintptr_t>(p) % 4096 == 0);
  tc_cfree(p);
  tc_delete(tc_new(10));
  tc_deletearray(tc_newarray(10));
  tc_delete_nothrow(tc_new_nothrow(10, std::nothrow), std::nothrow);
  EXPECT(tc_new_nothrow(SIZE_MAX / 2 + 1, std::nothrow) == nullptr);
  bool thrown = false;
  try {
    tc_new(SIZE_MAX / 2 + 1);
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  EXPECT(thrown);
  puts("names");
}

// A program may derive from the classes and register its objects.
class MySystem : public SysAllocator {
 public:
  void* Alloc(size_t, size_t*, size_t) override { return nullptr; }
};
class MyExtension : public MallocExtension {
 public:
  size_t GetThreadCacheSize() override { return 7; }
};

void derived() {
  static MySystem system;
  MallocExtension::instance()->SetSystemAllocator(&system);
  MyExtension mine;
  MallocExtension* as_base = &mine;
  EXPECT(as_base->GetThreadCacheSize() == 7);
  size_t bytes = 0;
  EXPECT(as_base->GetNumericProperty("generic.heap_size", &bytes) || true);
  EXPECT(dynamic_cast<MyExtension*>(as_base) == &mine);
  puts("derived");
}

void heap_profiler(const std::string& folder) {
  EXPECT(!IsHeapProfilerRunning());
  char* nothing = GetHeapProfile();
  EXPECT(nothing != nullptr && *nothing == 0);
  free(nothing);
  HeapProfilerDump("not running: nothing is written");
  HeapProfilerStart((folder + "/heap").c_str());
  EXPECT(IsHeapProfilerRunning());
  std::vector<std::string> held(40000, std::string(1000, 'z'));
  HeapProfilerDump("first");
  HeapProfilerDump("second");
  char* text = GetHeapProfile();
  EXPECT(strncmp(text, "heap profile:", 13) == 0);
  free(text);
  HeapProfilerStop();
  EXPECT(!IsHeapProfilerRunning());
  puts("heap profiler");
}

__attribute__((noinline)) unsigned burn(double seconds) {
  unsigned sum = 0;
  for (clock_t until = clock() + static_cast<clock_t>(seconds * CLOCKS_PER_SEC); clock() < until;) {
    for (unsigned i = 0; i < 10000; i++) sum = sum * 31 + i;
  }
  return sum;
}

void cpu_profiler(const std::string& folder) {
  ProfilerState state;
  ProfilerGetCurrentState(&state);
  EXPECT(!state.enabled && !ProfilingIsEnabledForAllThreads());
  ProfilerFlush();
  if (!ProfilerStart((folder + "/cpu.prof").c_str())) {
    puts("no CPU profiler");
    return;
  }
  EXPECT(!ProfilerStart((folder + "/other.prof").c_str()));
  ProfilerRegisterThread();
  unsigned sum = burn(0.5);
  ProfilerGetCurrentState(&state);
  EXPECT(state.enabled && state.start_time != 0 &&
         strstr(state.profile_name, "cpu.prof") != nullptr && sum != 1);
  ProfilerFlush();
  std::thread([] { burn(0.2); }).join();
  ProfilerStop();
  ProfilerGetCurrentState(&state);
  EXPECT(!state.enabled);
  puts("CPU profiler");
}

// seemalloc's trace begins with the caller; gperftools' begins with the function that calls it.
__attribute__((noinline)) int trace(void** pcs, int most, int skip) {
  int depth = ProfilerGetStackTrace(pcs, most, skip, nullptr);
  __asm__ volatile("");
  return depth;
}

void stack_trace() {
  void *pcs[16], *rest[16];
  int depth = trace(pcs, 16, 0);
  EXPECT(depth >= 3);
  size_t into = reinterpret_cast<size_t>(pcs[0]) - reinterpret_cast<size_t>(&trace);
  EXPECT(into > 0 && into < 200);
  EXPECT(trace(rest, 16, 2) == depth - 2 && rest[0] == pcs[2]);
}

}  // namespace

int main(int argc, char** argv) {
  std::string part = argc > 2 ? argv[2] : "";
  if (part == "cpu") {
    cpu_profiler(argv[1]);
    return 0;
  }
  properties();
  release();
  sizes();
  c_calls();
  texts();
  other_names();
  derived();
  stack_trace();
  heap_profiler(argv[1]);
  if (part != "heap") cpu_profiler(argv[1]);
}
