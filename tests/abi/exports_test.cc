// Checks the symbols of the shared libraries: they export only the documented names, and import
// only from libc.
//
// Reads the files named by SEEMALLOC_LIB, SEEMALLOC_MINIMAL_LIB and SEEMALLOC_COMPAT_LIB with nm
// and readelf; runs none of their code.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "harness/child.h"

namespace {

// Code that is unloaded with dlclose keeps its name in profiles
// (core/profile/code/unloaded_modules.h).
const char* kProfiled = "dlclose";
// fork calls take turns and run with signals blocked (core/api/helper/fork_call.cc).
const char* kWrapped = "fork __register_atfork";

const char* kFamily =
    "malloc free calloc realloc reallocarray memalign posix_memalign aligned_alloc valloc pvalloc malloc_usable_size "
    "malloc_trim malloc_stats malloc_info mallinfo mallinfo2 mallopt cfree free_sized free_aligned_sized "
    "__libc_malloc __libc_free __libc_calloc __libc_realloc __libc_memalign __libc_valloc __libc_pvalloc __posix_memalign";
// These calls notice a seccomp filter that the program installs (docs/sandboxes.md), and calls that
// need a process with one thread.
const char* kFilterCalls = "prctl syscall capset unshare setns";
// These calls let the helper thread have the program's credentials
// (core/api/helper/identity_calls_shared.cc).
const char* kIdentityCalls =
    "setuid setgid seteuid setegid setreuid setregid setresuid setresgid setgroups initgroups setfsuid setfsgid";
// The last key belongs to the program (core/api/malloc/key_calls_shared.cc).
const char* kKeyCalls = "pthread_key_create";
// The twenty operators of the standard.
const char* kOperators =
    "_Znwm _Znam _ZnwmRKSt9nothrow_t _ZnamRKSt9nothrow_t _ZnwmSt11align_val_t _ZnamSt11align_val_t "
    "_ZnwmSt11align_val_tRKSt9nothrow_t _ZnamSt11align_val_tRKSt9nothrow_t _ZdlPv _ZdaPv _ZdlPvm _ZdaPvm "
    "_ZdlPvRKSt9nothrow_t _ZdaPvRKSt9nothrow_t _ZdlPvSt11align_val_t _ZdaPvSt11align_val_t _ZdlPvmSt11align_val_t "
    "_ZdaPvmSt11align_val_t _ZdlPvSt11align_val_tRKSt9nothrow_t _ZdaPvSt11align_val_tRKSt9nothrow_t";
// Spellings that some other allocators export; they do no harm (sized and nothrow together is in no
// standard).
const char* kTolerated =
    "_ZdlPvmRKSt9nothrow_t _ZdaPvmRKSt9nothrow_t _ZdlPvmSt11align_val_tRKSt9nothrow_t "
    "_ZdaPvmSt11align_val_tRKSt9nothrow_t __libc_cfree __libc_reallocarray __libc_mallopt __libc_mallinfo";

// The additional exports of libseemalloc_compat.so: the calls of docs/compat.md.
const char* kJemalloc =
    "mallctl mallctlnametomib mallctlbymib mallocx rallocx xallocx sallocx dallocx sdallocx nallocx malloc_stats_print "
    "malloc_message malloc_conf";
// These exist also with the prefixes je_ and _rjem_.
const char* kPrefixed =
    "malloc calloc realloc free free_sized free_aligned_sized posix_memalign aligned_alloc memalign valloc malloc_usable_size";
const char* kTcmalloc =
    "tc_version tc_malloc tc_malloc_skip_new_handler tc_free tc_free_sized tc_realloc tc_calloc tc_cfree tc_memalign "
    "tc_posix_memalign tc_valloc tc_pvalloc tc_malloc_size tc_nallocx tc_malloc_stats tc_mallopt tc_mallinfo tc_mallinfo2 "
    "tc_set_new_mode tc_query_new_mode tc_new tc_newarray tc_new_nothrow tc_newarray_nothrow tc_new_aligned tc_newarray_aligned "
    "tc_new_aligned_nothrow tc_newarray_aligned_nothrow tc_delete tc_deletearray tc_delete_sized tc_deletearray_sized "
    "tc_delete_nothrow tc_deletearray_nothrow tc_delete_aligned tc_deletearray_aligned tc_delete_sized_aligned "
    "tc_deletearray_sized_aligned tc_delete_aligned_nothrow tc_deletearray_aligned_nothrow";
const char* kProfilers =
    "HeapProfilerStart HeapProfilerStop HeapProfilerDump IsHeapProfilerRunning GetHeapProfile ProfilerStart "
    "ProfilerStartWithOptions ProfilerStop ProfilerFlush ProfilerEnable ProfilerDisable ProfilerRegisterThread "
    "ProfilingIsEnabledForAllThreads ProfilerGetCurrentState ProfilerGetStackTrace";
const char* kExtensionForC =
    "VerifyAllMemory VerifyNewMemory VerifyArrayNewMemory VerifyMallocMemory MallocMemoryStats GetStats GetNumericProperty "
    "SetNumericProperty MarkThreadIdle MarkThreadBusy MarkThreadTemporarilyIdle ReleaseToSystem ReleaseFreeMemory "
    "SetMemoryReleaseRate GetMemoryReleaseRate GetEstimatedAllocatedSize GetAllocatedSize GetThreadCacheSize GetOwnership";
// Members of the class MallocExtension; its other names are mangled names of the class or of
// SysAllocator.
const char* kExtension =
    "_ZN15MallocExtension8instanceEv _ZN15MallocExtension8RegisterEPS_ _ZN15MallocExtension10InitializeEv "
    "_ZTV15MallocExtension _ZTI15MallocExtension _ZTS15MallocExtension _ZTV12SysAllocator _ZTI12SysAllocator _ZTS12SysAllocator "
    "_ZN15MallocExtensionD2Ev _ZN12SysAllocatorD2Ev _ZN15MallocExtension18GetNumericPropertyEPKcPm";

std::set<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  std::set<std::string> result;
  for (std::string word; stream >> word;) result.insert(word);
  return result;
}

std::set<std::string> compatibility_names() {
  std::set<std::string> names =
      words(std::string(kJemalloc) + " " + kTcmalloc + " " + kProfilers + " " + kExtension);
  names.insert("je_get_defrag_hint");
  for (const std::string& name : words(std::string(kJemalloc) + " " + kPrefixed)) {
    names.insert("je_" + name);
    names.insert("_rjem_" + name);
  }
  for (const std::string& name : words(kExtensionForC)) names.insert("MallocExtension_" + name);
  return names;
}

std::string output_of(std::vector<std::string> argv) {
  conform::Outcome outcome = conform::run({argv, {"LC_ALL=C"}, 20});
  EXPECT_TRUE(outcome.exited(0)) << outcome.all();
  return outcome.out;
}

struct Symbol {
  std::string name;
  char kind;
};

std::vector<Symbol> symbols(const std::string& library, const char* which) {
  std::vector<Symbol> result;
  for (const std::string& line : conform::lines_of(
           output_of({"nm", "-D", "-P", "--without-symbol-versions", which, library}))) {
    std::istringstream stream(line);
    Symbol symbol;
    if (stream >> symbol.name >> symbol.kind) result.push_back(symbol);
  }
  return result;
}

class Exports : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const char* path = getenv(GetParam());
    ASSERT_NE(path, nullptr) << GetParam() << " is not set";
    library_ = path;
  }
  bool is_compatibility() const { return library_.find("_compat") != std::string::npos; }
  bool is_minimal() const { return library_.find("_minimal") != std::string::npos; }
  std::string library_;
};

TEST_P(Exports, AreTheDocumentedSurface) {
  std::set<std::string> allowed =
      words(std::string(kFamily) + " " + kFilterCalls + " " + kIdentityCalls + " " + kKeyCalls +
            " " + kOperators + " " + kWrapped + " " + kTolerated +
            (is_minimal() ? "" : std::string(" ") + kProfiled));
  std::set<std::string> more = is_compatibility() ? compatibility_names() : std::set<std::string>{};
  allowed.insert(more.begin(), more.end());
  std::set<std::string> found;
  for (const Symbol& symbol : symbols(library_, "--defined-only")) {
    found.insert(symbol.name);
    bool ours = symbol.name.rfind("seemalloc_", 0) == 0;
    bool of_class = symbol.name.rfind("_ZN15MallocExtension", 0) == 0 ||
                    symbol.name.rfind("_ZN12SysAllocator", 0) == 0;
    ours = ours || (is_compatibility() && of_class);
    EXPECT_TRUE(ours || allowed.count(symbol.name))
        << symbol.name << " (" << symbol.kind << ") must not be exported";
  }
  std::set<std::string> wanted =
      words(std::string(kFamily) + " " + kFilterCalls + " " + kIdentityCalls + " " + kKeyCalls +
            " " + kOperators + " " + kWrapped + (is_minimal() ? "" : std::string(" ") + kProfiled));
  wanted.insert(more.begin(), more.end());
  for (const std::string& name : wanted) EXPECT_TRUE(found.count(name)) << name << " is missing";
}

TEST_P(Exports, NeedOnlyLibc) {
  for (const std::string& line : conform::lines_of(output_of({"readelf", "-dW", library_}))) {
    if (line.find("(NEEDED)") != std::string::npos) {
      EXPECT_NE(line.find("[libc.so.6]"), std::string::npos) << line;
    }
    EXPECT_EQ(line.find("TEXTREL"), std::string::npos) << line;
    EXPECT_EQ(line.find("RPATH"), std::string::npos) << line;
    EXPECT_EQ(line.find("RUNPATH"), std::string::npos) << line;
  }
}

TEST_P(Exports, NeverGoAwayAndAreBoundAtOnce) {
  std::string dynamic = output_of({"readelf", "-dW", library_});
  EXPECT_NE(dynamic.find("NODELETE"), std::string::npos);
  EXPECT_NE(dynamic.find("NOW"), std::string::npos);
  EXPECT_NE(dynamic.find("(SONAME)"), std::string::npos)
      << "without a name of its own, linking records the build's path";
  std::string segments = output_of({"readelf", "-lW", library_});
  EXPECT_NE(segments.find("GNU_RELRO"), std::string::npos);
  EXPECT_EQ(segments.find("RWE"), std::string::npos) << segments;
}

TEST_P(Exports, ImportOnlyFromLibc) {
  std::string libc;
  for (const std::string& line : conform::lines_of(output_of({"ldd", library_}))) {
    size_t arrow = line.find("libc.so.6 => ");
    if (arrow != std::string::npos) libc = line.substr(arrow + 13, line.find(" (") - arrow - 13);
  }
  ASSERT_NE(libc, "");
  std::set<std::string> known;
  for (const Symbol& symbol : symbols(libc, "--defined-only")) known.insert(symbol.name);
  for (const Symbol& symbol : symbols(library_, "--undefined-only")) {
    bool weak = symbol.kind == 'w' || symbol.kind == 'v';
    EXPECT_TRUE(weak || known.count(symbol.name)) << symbol.name << " is not libc's";
  }
}

// A program may define functions of its own in front of the C library's, and these may allocate or
// take locks (libfaketime's clock_gettime calls dlsym). So this list holds each name that the
// library imports, with the reason why it does no harm. A new import needs a reason, or a system
// call in core/os instead.
struct Asked {
  const char* names;
  const char* reason;
};
const Asked kRequested[] = {
    {"environ __environ __libc_single_threaded __libc_stack_end _PyRuntime Py_Version PyBytes_Type PyCode_Type PyUnicode_Type "
     "_ZTVN10__cxxabiv117__class_type_infoE _ZTISt9bad_alloc _ZTVSt9bad_alloc _r_debug",
     "data"},
    {"memcpy memset",
     "the copy of realloc and the zeros of calloc, without a lock: the core has its own for the rest"},
    {"getauxval", "only without glibc's dynamic linker: in static programs"},
    {"__errno_location", "a distance from the thread pointer"},
    {"dlopen dlsym",
     "called at load, in dlclose, and when memory is out, without a lock of this library"},
    {"dl_iterate_phdr",
     "under a lock that is only tried for a while, and that malloc and free do not take"},
    {"_dl_find_object",
     "only in static programs; otherwise glibc's own is called by its address, without a lock"},
    {"pthread_setspecific __cxa_thread_atexit_impl",
     "a thread's first allocation, when it has its heap: without a lock"},
    {"__pthread_key_create", "the process's first allocation: without a lock"},
    {"pthread_key_delete", "in our pthread_key_create, when no key is left: without a lock"},
    {"__fork", "in our fork, where the dynamic linker knows no other: without a lock"},
    {"_IO_list_lock _IO_list_unlock _IO_list_resetlock",
     "glibc's lock of its list of streams, which its fork takes itself; taken before the locks of this library"},
    {"fwrite", "malloc_info, to the file that the program gives: without a lock"},
    {"PyGILState_GetThisThreadState", "the interpreter's: it reads a variable"},
    {"ProfilerStart", "never called: whether the program has brought gperftools' profiler"},
    {"_ZSt15get_new_handlerv _ZNSt9bad_allocD1Ev __cxa_allocate_exception __cxa_throw __cxa_begin_catch __cxa_end_catch __gxx_personality_v0 __cxa_pure_virtual",
     "the C++ runtime's, when memory is out: without a lock"},
    {"__cxa_finalize __gmon_start__ _ITM_registerTMCloneTable _ITM_deregisterTMCloneTable",
     "of the compiler's start files"},
};

TEST_P(Exports, AskOnlyForNamesThatMayBeReplaced) {
  std::set<std::string> allowed;
  for (const Asked& asked : kRequested) {
    for (const std::string& name : words(asked.names))
      EXPECT_TRUE(allowed.insert(name).second) << name << " stands here twice";
  }
  std::vector<Symbol> asked = symbols(library_, "--undefined-only");
  EXPECT_GT(asked.size(), 20u);
  for (const Symbol& symbol : asked) {
    EXPECT_TRUE(allowed.count(symbol.name))
        << symbol.name << ": may a program replace it by one that allocates?";
  }
}

// Each name in the list is imported by a library.
TEST(ListOfNames, HasNoUnusedEntries) {
  std::set<std::string> found;
  for (const char* variable : {"SEEMALLOC_LIB", "SEEMALLOC_MINIMAL_LIB", "SEEMALLOC_COMPAT_LIB"}) {
    for (const Symbol& symbol : symbols(getenv(variable), "--undefined-only"))
      found.insert(symbol.name);
  }
  for (const Asked& asked : kRequested) {
    for (const std::string& name : words(asked.names)) EXPECT_TRUE(found.count(name)) << name;
  }
}

// A name that the library also exports may resolve to another definition: the program's, or that of
// a library in front of this one. A block would then come from one allocator and be freed by
// another. So the library does not call its own exported names.
TEST_P(Exports, ReachNothingByTheirOwnNames) {
  // Exceptions, which resolve to the program's definition on purpose: the operators that other
  // operators call by the standard (core/api/malloc/operators.cc) and that std::string and
  // std::vector of the library's runtime call; jemalloc's variables; the profiler that the program
  // may bring; and the function behind pthread_atfork, which is called at load without a lock.
  std::set<std::string> theirs = words(
      "_Znwm _Znam _ZnwmSt11align_val_t _ZnamSt11align_val_t _ZdlPv _ZdaPv _ZdlPvSt11align_val_t _ZdaPvSt11align_val_t _ZdlPvm ProfilerStart __register_atfork");
  for (const char* prefix : {"", "je_", "_rjem_"})
    theirs.insert(std::string(prefix) + "malloc_message");
  std::set<std::string> own;
  for (const Symbol& symbol : symbols(library_, "--defined-only")) {
    // One per program, whichever module defines it.
    bool is_type = symbol.name.rfind("_ZT", 0) == 0;
    if (!is_type && theirs.count(symbol.name) == 0) own.insert(symbol.name);
  }
  size_t relocations = 0;
  for (const std::string& line : conform::lines_of(output_of({"readelf", "-rW", library_}))) {
    std::istringstream stream(line);
    std::string offset, info, type, value, name;
    if (!(stream >> offset >> info >> type >> value >> name) || type.rfind("R_", 0) != 0) continue;
    relocations++;
    name.resize(std::min(name.size(), name.find('@')));
    EXPECT_EQ(own.count(name), 0u) << name << " is called, or its address taken: " << line;
  }
  EXPECT_GT(relocations, 10u);
}

// malloc is called before any constructor has run, and the helper thread may start before the last:
// all state is constant-initialised.
TEST_P(Exports, ConstructNothingAtRunTime) {
  for (const std::string& line : conform::lines_of(output_of({"nm", "-C", library_}))) {
    EXPECT_EQ(line.find("_GLOBAL__sub_I"), std::string::npos) << line;
    EXPECT_EQ(line.find("__static_initialization_and_destruction"), std::string::npos) << line;
    EXPECT_EQ(line.find("guard variable for"), std::string::npos) << line;
  }
}

// Data that is not zero-initialised is stored in the file and read from it 64 KiB at a time: a
// large table with one non-zero word would cost each process the whole table.
TEST_P(Exports, KeepTablesOutOfTheFile) {
  size_t bytes = 0;
  for (const std::string& line : conform::lines_of(output_of({"readelf", "-SW", library_}))) {
    size_t at = line.find(" .data ");
    if (at == std::string::npos) continue;
    std::istringstream stream(line.substr(at));
    std::string name, type, address, offset, size;
    ASSERT_TRUE(stream >> name >> type >> address >> offset >> size) << line;
    bytes = strtoull(size.c_str(), nullptr, 16);
  }
  EXPECT_GT(bytes, 0u);
  EXPECT_LE(bytes, 24u * 1024);
}

// A library loaded late gets its initial-exec TLS from a surplus of about 1.5 KiB that all such
// libraries share.
TEST_P(Exports, UseLittleStaticTls) {
  for (const std::string& line : conform::lines_of(output_of({"readelf", "-lW", library_}))) {
    std::istringstream stream(line);
    std::string type, offset, address, physical, file_size, memory_size;
    if (!(stream >> type >> offset >> address >> physical >> file_size >> memory_size) ||
        type != "TLS")
      continue;
    size_t bytes = strtoull(memory_size.c_str(), nullptr, 16);
    RecordProperty("tls_bytes", static_cast<int>(bytes));
    EXPECT_LE(bytes, 1024u);
  }
}

// The minimal library is built from other objects, without the profiler.
TEST_P(Exports, HaveTheProfilerButForTheMinimalOne) {
  bool is_minimal = library_.find("_minimal") != std::string::npos;
  EXPECT_EQ(output_of({"nm", library_}).find("9seemalloc7profile") == std::string::npos,
            is_minimal);
}

std::string name_of(const testing::TestParamInfo<const char*>& info) {
  const char* names[] = {"full", "minimal", "compat"};
  return names[info.index];
}
INSTANTIATE_TEST_SUITE_P(Libraries, Exports,
                         testing::Values("SEEMALLOC_LIB", "SEEMALLOC_MINIMAL_LIB",
                                         "SEEMALLOC_COMPAT_LIB"),
                         name_of);

}  // namespace
