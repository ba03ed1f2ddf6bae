// Compiled with run-time type information, for programs that derive from these classes.
//
// The library does not link the C++ runtime; the program has its own. So the operations on its
// types that we need are implemented here, by the layout that the types have had since gcc 5, with
// the program's operators new and delete.
#include "core/compat/malloc_extension.h"

#include <bit>
#include <climits>
#include <cstring>
#include <new>

#include "core/api/malloc/malloc_calls.h"
#include "core/api/sampling/sampling.h"
#include "core/base/compiler.h"
#include "core/base/text.h"
#include "core/compat/control_settings.h"
#include "core/compat/heap_text.h"
#include "core/compat/mallctl.h"
#include "core/compat/numeric_properties.h"
#include "core/compat/stats_snapshot.h"
#include "core/heap/reports/statistics.h"
#include "core/heap/slow_paths/owner_paths.h"
#include "core/heap/thread/thread_cache.h"
#include "core/heap/thread/thread_heap.h"
#include "core/os/kernel/ids.h"
#include "core/os/runtime/report_memory.h"
#include "core/pages/span/page_map.h"

// The type descriptions refer to these. They are null in a C program, which never uses the
// descriptions.
__asm__(
    ".weak _ZTVN10__cxxabiv117__class_type_infoE\n"
    ".weak __cxa_pure_virtual\n");

using namespace seemalloc;
using namespace seemalloc::compat;

namespace {

// ---- types of the C++ runtime ----

struct StringLayout {
  char* data;
  size_t length;
  union {
    char local[16];
    size_t capacity;
  };

  bool is_local() const { return data == local; }
  size_t room() const { return is_local() ? sizeof(local) - 1 : capacity; }
};
static_assert(sizeof(StringLayout) == sizeof(std::string));

// Throws as the program's operator new does.
void append(std::string* to, const char* text, size_t length) {
  StringLayout& s = *reinterpret_cast<StringLayout*>(to);
  size_t all = s.length + length;
  if (all > s.room()) {
    size_t capacity = all > 2 * s.room() ? all : 2 * s.room();
    char* fresh = static_cast<char*>(::operator new(capacity + 1));
    memcpy(fresh, s.data, s.length);
    if (!s.is_local()) ::operator delete(s.data);
    s.data = fresh;
    s.capacity = capacity;
  }
  memcpy(s.data + s.length, text, length);
  s.data[all] = 0;
  s.length = all;
}

using FreeList = MallocExtension::FreeListInfo;
struct VectorLayout {
  FreeList *begin, *end, *limit;
};
static_assert(sizeof(VectorLayout) == sizeof(std::vector<FreeList>));

// Empties the vector and reserves space for `count` elements.
void reserve(VectorLayout& v, size_t count) {
  v.end = v.begin;
  if (static_cast<size_t>(v.limit - v.begin) >= count) return;
  auto* fresh = static_cast<FreeList*>(::operator new(count * sizeof(FreeList)));
  ::operator delete(v.begin);
  v = {fresh, fresh, fresh + count};
}

// ---- texts ----

void append_heap_text(HeapText form, std::string* out) {
  ProfileBytes text{};
  if (!heap_text(form, &text)) return;
  append(out, text.data, text.bytes);
  os::unmap_report(text.data, text.mapped_bytes);
}

// "MALLOC: + 123 ( 0.1 MiB) what": the form that scripts for gperftools' statistics expect.
void append_bytes(Text& out, char sign, size_t bytes, const char* what) {
  FixedText<32> number, megabytes;
  number << uint64_t{bytes};
  uint64_t tenths = uint64_t{bytes} / (MiB / 10);
  megabytes << tenths / 10 << "." << tenths % 10;
  out << "MALLOC: " << sign << " ";
  for (size_t i = number.size(); i < 12; i++) out << ' ';
  out << number.c_str() << " (";
  for (size_t i = megabytes.size(); i < 7; i++) out << ' ';
  out << megabytes.c_str() << " MiB) " << what << "\n";
}

void append_statistics(Text& out, const Snapshot& s) {
  constexpr char kLine[] = "------------------------------------------------\n";
  constexpr char kSum[] = "MALLOC:   ------------\n";
  out << kLine;
  append_bytes(out, ' ', s.allocated, "Bytes in use by application");
  append_bytes(out, '+', s.free_dirty, "Bytes in page heap freelist");
  append_bytes(out, '+', s.fragmentation, "Bytes in central cache freelist");
  append_bytes(out, '+', 0, "Bytes in transfer cache freelist");
  append_bytes(out, '+', s.cached, "Bytes in thread cache freelists");
  append_bytes(out, '+', s.metadata, "Bytes in malloc metadata");
  out << kSum;
  append_bytes(out, '=', s.active() + s.free_dirty + s.metadata,
               "Actual memory used (physical + swap)");
  append_bytes(out, '+', s.free_clean, "Bytes released to OS (aka unmapped)");
  out << kSum;
  append_bytes(out, '=', s.heap + s.metadata, "Virtual address space used");
  out << "MALLOC:\nMALLOC:   " << uint64_t{s.threads}
      << " Thread heaps in use\nMALLOC:   " << uint64_t{kPageBytes} << " Page size\n"
      << kLine << "seemalloc " SEEMALLOC_VERSION "\n";
}

// ---- samples as words: count, bytes, depth, return addresses ----

struct StackTraceArray {
  void** out;  // null: only counts
  size_t room;
  uint64_t interval;
  size_t count = 0;

  // Leaves a row out if there is no space for it and for the 0 after the last row.
  void row(uint64_t objects, uint64_t bytes, const uintptr_t* return_addresses, unsigned depth) {
    if (objects == 0 || (out != nullptr && count + 3 + depth >= room)) return;
    for (uint64_t word : {objects, bytes, uint64_t{depth}}) put(word);
    for (unsigned i = 0; i < depth; i++) put(return_addresses[i]);
  }
  void put(uintptr_t word) {
    if (out != nullptr) out[count] = reinterpret_cast<void*>(word);
    count++;
  }
};

void put_live(StackTraceArray& words) {
  for_each_sample_row(
      [](void* context, const SampleRow& row) {
        StackTraceArray& to = *static_cast<StackTraceArray*>(context);
        uint64_t live = row.live_samples != 0 ? rescaled_live_samples(row, to.interval) : 0;
        to.row(live, live * row.bytes, row.return_addresses, row.depth);
      },
      &words);
}

void put_growth(StackTraceArray& words) {
  for_each_growth_stack(
      [](void* context, const GrowthStack& row) {
        static_cast<StackTraceArray*>(context)->row(row.count, row.bytes, row.return_addresses,
                                                    row.depth);
      },
      &words);
}

void** stack_trace_array(void (*put)(StackTraceArray&)) {
  StackTraceArray counted{nullptr, 0, header_interval()};
  put(counted);
  // Rows that are added meanwhile use the spare space or are left out.
  size_t room = counted.count + counted.count / 4 + 1024;
  auto** out = static_cast<void**>(::operator new[](room * sizeof(void*)));
  StackTraceArray words{out, room, counted.interval};
  put(words);
  words.put(0);
  return out;
}

// ---- returning memory to the OS ----

// Bytes that earlier requests released beyond what they asked for: later requests are satisfied by
// them without another purge.
std::atomic<size_t> released_excess{0};

bool take_from_excess(size_t bytes) {
  size_t ahead = released_excess.load(std::memory_order_relaxed);
  while (ahead >= bytes) {
    if (released_excess.compare_exchange_weak(ahead, ahead - bytes, std::memory_order_relaxed))
      return true;
  }
  return false;
}

// ---- the calling thread ----

struct ThreadCacheBytes {
  int thread_id;
  size_t bytes;
};

void add_own(void* context, const heap::ThreadStatistics& t) {
  ThreadCacheBytes& own = *static_cast<ThreadCacheBytes*>(context);
  if (t.thread_id == own.thread_id)
    own.bytes += t.list_bytes + t.empty_bytes + t.free_bytes + t.large_bytes;
}

void empty_thread_cache() {
  if (heap::ThreadHeap* mine = heap::thread_cache.heap) heap::collect(*mine, true);
}

void put_list(VectorLayout& v, size_t least, size_t most, size_t bytes, const char* type) {
  if (bytes != 0 && v.end != v.limit) *v.end++ = {least, most, bytes, type};
}

}  // namespace

// ---- the one instance: only a pointer to the function table, so it exists before any constructor
// runs ----

constexpr size_t kTableHead = 2;  // words of the table before its functions
extern "C" SEEMALLOC_HIDDEN void* const seemalloc_extension_table[kTableHead + 1];
__asm__(
    ".hidden seemalloc_extension_table\n.set seemalloc_extension_table, _ZTV15MallocExtension\n");

namespace {
constinit const void* instance_object = &seemalloc_extension_table[kTableHead];
}

SysAllocator::~SysAllocator() {}
MallocExtension::~MallocExtension() {}

void MallocExtension::Initialize() {}
MallocExtension* MallocExtension::instance() {
  return reinterpret_cast<MallocExtension*>(&instance_object);
}
// Does nothing: an allocator that registers itself here is loaded beside this one, and does not
// serve malloc.
void MallocExtension::Register(MallocExtension*) {}

bool MallocExtension::VerifyAllMemory() { return true; }
bool MallocExtension::VerifyNewMemory(const void*) { return true; }
bool MallocExtension::VerifyArrayNewMemory(const void*) { return true; }
bool MallocExtension::VerifyMallocMemory(const void*) { return true; }

bool MallocExtension::MallocMemoryStats(int* blocks, size_t* total, int histogram[64]) {
  Snapshot s;
  take_snapshot(&s);
  size_t count = 0;
  memset(histogram, 0, 64 * sizeof(histogram[0]));
  for (unsigned i = 0; i < heap::kClassCount; i++) {
    histogram[std::bit_width(heap::kClasses[i].bytes) - 1] += static_cast<int>(s.classes[i].live);
    count += s.classes[i].live;
  }
  *blocks = static_cast<int>(count);
  *total = s.allocated;
  return true;
}

void MallocExtension::GetStats(char* buffer, int length) {
  if (buffer == nullptr || length <= 0) return;
  Snapshot s;
  take_snapshot(&s);
  Text text(buffer, static_cast<size_t>(length));
  append_statistics(text, s);
}

void MallocExtension::GetHeapSample(std::string* writer) {
  append_heap_text(HeapText::kSampled, writer);
}
void MallocExtension::GetHeapGrowthStacks(std::string* writer) {
  append_heap_text(HeapText::kGrowth, writer);
}
void MallocExtension::Ranges(void*, RangeFunction*) {}

bool MallocExtension::GetNumericProperty(const char* property, size_t* value) {
  return get_property(property, value);
}
bool MallocExtension::SetNumericProperty(const char* property, size_t value) {
  return set_property(property, value);
}

void MallocExtension::MarkThreadIdle() { empty_thread_cache(); }
void MallocExtension::MarkThreadBusy() {}
void MallocExtension::MarkThreadTemporarilyIdle() { empty_thread_cache(); }

SysAllocator* MallocExtension::GetSystemAllocator() { return nullptr; }
void MallocExtension::SetSystemAllocator(SysAllocator*) {}

void MallocExtension::ReleaseToSystem(size_t bytes) {
  if (take_from_excess(bytes)) return;
  size_t released = purge_everything();
  if (released > bytes) released_excess.store(released - bytes, std::memory_order_relaxed);
}
void MallocExtension::ReleaseFreeMemory() { purge_everything(); }
void MallocExtension::SetMemoryReleaseRate(double rate) { set_release_rate(rate); }
double MallocExtension::GetMemoryReleaseRate() { return memory_release_rate(); }

size_t MallocExtension::GetEstimatedAllocatedSize(size_t bytes) {
  return allocation_size(bytes, 1);
}
size_t MallocExtension::GetAllocatedSize(const void* p) { return usable(p); }
MallocExtension::Ownership MallocExtension::GetOwnership(const void* p) {
  return pages::page_map.span_of(p)->kind == pages::SpanKind::kForeign ? kNotOwned : kOwned;
}

void MallocExtension::GetFreeListSizes(std::vector<FreeListInfo>* out) {
  VectorLayout& v = *reinterpret_cast<VectorLayout*>(out);
  Snapshot s;
  take_snapshot(&s);
  reserve(v, heap::kClassCount + 2);
  size_t least = 1;
  for (unsigned i = 0; i < heap::kClassCount; i++) {
    size_t bytes = heap::kClasses[i].bytes;
    put_list(v, least, bytes, s.classes[i].free * bytes, "tcmalloc.central");
    least = bytes + 1;
  }
  put_list(v, kPageBytes, INT64_MAX, s.free_dirty, "tcmalloc.large");
  put_list(v, kPageBytes, INT64_MAX, s.free_clean, "tcmalloc.large_unmapped");
}

void** MallocExtension::ReadStackTraces(int* sample_period) {
  uint64_t interval = header_interval();
  *sample_period = interval < INT_MAX ? static_cast<int>(interval) : INT_MAX;
  return stack_trace_array(put_live);
}

void** MallocExtension::ReadHeapGrowthStackTraces() { return stack_trace_array(put_growth); }

size_t MallocExtension::GetThreadCacheSize() {
  ThreadCacheBytes own{os::thread_id(), 0};
  heap::for_each_thread(add_own, &own);
  return own.bytes;
}

// ---- the C interface ----

namespace {
MallocExtension* extension() { return MallocExtension::instance(); }
}  // namespace

SEEMALLOC_EXPORT int MallocExtension_VerifyAllMemory(void) {
  return extension()->VerifyAllMemory();
}
SEEMALLOC_EXPORT int MallocExtension_VerifyNewMemory(const void* p) {
  return extension()->VerifyNewMemory(p);
}
SEEMALLOC_EXPORT int MallocExtension_VerifyArrayNewMemory(const void* p) {
  return extension()->VerifyArrayNewMemory(p);
}
SEEMALLOC_EXPORT int MallocExtension_VerifyMallocMemory(const void* p) {
  return extension()->VerifyMallocMemory(p);
}
SEEMALLOC_EXPORT int MallocExtension_MallocMemoryStats(int* blocks, size_t* total,
                                                       int histogram[64]) {
  return extension()->MallocMemoryStats(blocks, total, histogram);
}
SEEMALLOC_EXPORT void MallocExtension_GetStats(char* buffer, int length) {
  extension()->GetStats(buffer, length);
}
SEEMALLOC_EXPORT int MallocExtension_GetNumericProperty(const char* name, size_t* value) {
  return extension()->GetNumericProperty(name, value);
}
SEEMALLOC_EXPORT int MallocExtension_SetNumericProperty(const char* name, size_t value) {
  return extension()->SetNumericProperty(name, value);
}
SEEMALLOC_EXPORT void MallocExtension_MarkThreadIdle(void) { extension()->MarkThreadIdle(); }
SEEMALLOC_EXPORT void MallocExtension_MarkThreadBusy(void) { extension()->MarkThreadBusy(); }
SEEMALLOC_EXPORT void MallocExtension_MarkThreadTemporarilyIdle(void) {
  extension()->MarkThreadTemporarilyIdle();
}
SEEMALLOC_EXPORT void MallocExtension_ReleaseToSystem(size_t bytes) {
  extension()->ReleaseToSystem(bytes);
}
SEEMALLOC_EXPORT void MallocExtension_ReleaseFreeMemory(void) { extension()->ReleaseFreeMemory(); }
SEEMALLOC_EXPORT void MallocExtension_SetMemoryReleaseRate(double rate) {
  extension()->SetMemoryReleaseRate(rate);
}
SEEMALLOC_EXPORT double MallocExtension_GetMemoryReleaseRate(void) {
  return extension()->GetMemoryReleaseRate();
}
SEEMALLOC_EXPORT size_t MallocExtension_GetEstimatedAllocatedSize(size_t bytes) {
  return extension()->GetEstimatedAllocatedSize(bytes);
}
SEEMALLOC_EXPORT size_t MallocExtension_GetAllocatedSize(const void* p) {
  return extension()->GetAllocatedSize(p);
}
SEEMALLOC_EXPORT size_t MallocExtension_GetThreadCacheSize(void) {
  return extension()->GetThreadCacheSize();
}
SEEMALLOC_EXPORT int MallocExtension_GetOwnership(const void* p) {
  return extension()->GetOwnership(p);
}
