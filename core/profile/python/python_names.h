// PythonNames: the Python functions found in stacks. Their names and files outlive the code objects
// from which they were read.
//
// Written by samplers, also in signal handlers; read by the profile writer. Threads: any number; no
// waiting, no lock, no system call. Everything is in one zeroed mapping, whose pages are backed as
// it fills. Nothing is ever freed. Invariants: 1. a record is complete before a slot refers to it,
// and never changes afterwards; 2. at least half of the slots are free, so every search ends; 3. if
// two threads insert one key at the same time, both get the record of the first.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace seemalloc::profile {

// Records by key, numbered from 1. Only the key is compared, so it must be a good 64-bit hash.
template <typename Record, uint32_t kMax>
class LockFreeInternTable {
 public:
  // Returns 0 if the key is not in the table.
  uint32_t find(uint64_t key) const {
    for (size_t i = key & kMask;; i = (i + 1) & kMask) {
      uint32_t number = slots_[i].load(std::memory_order_acquire);  // pairs with insert()
      if (number == 0 || records_[number].key == key) return number;
    }
  }
  // Returns 0 if there is no room or fill(record) returned false. Otherwise the record is in the
  // table, inserted by this or another thread.
  template <typename Fill>
  uint32_t insert(uint64_t key, Fill fill) {
    uint32_t mine = 0;
    for (size_t i = key & kMask;; i = (i + 1) & kMask) {
      uint32_t number = slots_[i].load(std::memory_order_acquire);
      if (number == 0) {
        if (mine == 0 && (mine = claim()) == 0) return 0;
        if (records_[mine].key != key) {
          if (!fill(records_[mine])) return 0;  // this record number stays unused
          records_[mine].key = key;
        }
        if (slots_[i].compare_exchange_strong(number, mine, std::memory_order_acq_rel,
                                              std::memory_order_acquire))
          return mine;
      }
      if (records_[number].key == key) return number;
    }
  }
  const Record& operator[](uint32_t number) const { return records_[number]; }
  uint32_t size() const { return claimed_.load(std::memory_order_relaxed); }

 private:
  static constexpr size_t kMask = 2 * size_t{kMax} - 1;
  static_assert((kMax & (kMax - 1)) == 0);

  uint32_t claim() {
    uint32_t claimed = claimed_.load(std::memory_order_relaxed);
    do {
      if (claimed == kMax) return 0;
    } while (!claimed_.compare_exchange_weak(claimed, claimed + 1, std::memory_order_relaxed));
    return claimed + 1;
  }

  std::atomic<uint32_t> claimed_;
  std::atomic<uint32_t> slots_[kMask + 1];
  Record records_[kMax + 1];  // [0] is unused
};

// Zeroed memory is an empty table. Keys are not 0.
template <uint32_t kMaxFunctions, uint32_t kMaxFiles, size_t kTextBytes>
class PythonNameTable {
 public:
  static constexpr size_t kMaxBytes = 512;  // longest name, and longest file name

  struct Text {
    const char* data;
    size_t bytes;
  };
  struct Function {
    Text name, file;
    int32_t first_line;
  };

  // Return 0 if the key is unknown.
  uint32_t find_function(uint64_t key) const { return functions_.find(key); }
  uint32_t find_file(uint64_t key) const { return files_.find(key); }
  // Return 0 if there is no room. Require: UTF-8, at most kMaxBytes.
  uint32_t add_file(uint64_t key, const char* text, size_t bytes) {
    return files_.insert(key, [&](Name& file) { return store_text(file, text, bytes); });
  }
  uint32_t add_function(uint64_t key, const char* name, size_t bytes, uint32_t file,
                        int32_t first_line) {
    return functions_.insert(key, [&](Code& code) {
      code.file = file;
      code.first_line = first_line;
      return store_text(code.name, name, bytes);
    });
  }
  // Number 0 stands for all functions for which there was no room.
  Function function(uint32_t number) const {
    static constexpr char kOthers[] = "(other Python functions)";
    if (number == 0 || number > kMaxFunctions) return {{kOthers, sizeof(kOthers) - 1}, {"", 0}, 0};
    const Code& code = functions_[number];
    return {text(code.name), text(files_[code.file]), code.first_line};
  }
  uint32_t functions() const { return functions_.size(); }

  // Finds the line of a place in code, by a hash of the place. Returns false if it is not cached.
  // Places with the same slot replace each other.
  bool find_line(uint64_t place, uint32_t* line) const {
    uint64_t kept = lines_[place % kLines].load(std::memory_order_relaxed);
    *line = static_cast<uint32_t>(kept & kLineMask);
    return kept != 0 && (kept ^ place) <= kLineMask;
  }
  void cache_line(uint64_t place, uint32_t line) {
    lines_[place % kLines].store((place & ~kLineMask) | (line & kLineMask),
                                 std::memory_order_relaxed);
  }

  // The last known addresses of the objects that a code object refers to, so that they can be read
  // together with it. The caller must verify them, since the addresses may no longer be mapped. All
  // 0: not cached.
  struct CodeAddresses {
    uintptr_t file, name, lines;
    bool operator==(const CodeAddresses&) const = default;
  };
  CodeAddresses find_addresses(uintptr_t code) const {
    const CachedAddresses& kept = places_[place_of(code)];
    return {kept.file.load(std::memory_order_relaxed), kept.name.load(std::memory_order_relaxed),
            kept.lines.load(std::memory_order_relaxed)};
  }
  void cache_addresses(uintptr_t code, const CodeAddresses& places) {
    CachedAddresses& kept = places_[place_of(code)];
    kept.file.store(places.file, std::memory_order_relaxed);
    kept.name.store(places.name, std::memory_order_relaxed);
    kept.lines.store(places.lines, std::memory_order_relaxed);
  }

 private:
  // Slots; code objects with the same slot replace each other.
  static constexpr size_t kPlaces = 1024;
  struct CachedAddresses {
    std::atomic<uintptr_t> file, name, lines;
  };
  static size_t place_of(uintptr_t code) { return (code * 0x9E3779B97F4A7C15u) >> 54; }
  static_assert(kPlaces == size_t{1} << (64 - 54));

  // The lower bits of a place select one, the upper 40 are compared.
  static constexpr size_t kLines = 4096;
  static constexpr uint64_t kLineMask = (uint64_t{1} << 24) - 1;

  struct Name {
    uint64_t key;
    uint32_t at;
    uint32_t bytes;
  };
  struct Code {
    uint64_t key;
    Name name;  // without a key
    uint32_t file;
    int32_t first_line;
  };

  bool store_text(Name& name, const char* text, size_t bytes) {
    size_t at = text_used_.load(std::memory_order_relaxed);
    do {
      if (bytes > kTextBytes - at) return false;
    } while (!text_used_.compare_exchange_weak(at, at + bytes, std::memory_order_relaxed));
    memcpy(texts_ + at, text, bytes);
    name.at = static_cast<uint32_t>(at);
    name.bytes = static_cast<uint32_t>(bytes);
    return true;
  }
  Text text(const Name& name) const { return {texts_ + name.at, name.bytes}; }

  LockFreeInternTable<Code, kMaxFunctions> functions_;
  LockFreeInternTable<Name, kMaxFiles> files_;
  std::atomic<uint64_t> lines_[kLines];
  CachedAddresses places_[kPlaces];
  std::atomic<size_t> text_used_;
  char texts_[kTextBytes];
};

// 7 MiB of address space, of which the functions of a large program use a few hundred KiB.
using PythonNames = PythonNameTable<32768, 8192, size_t{4} << 20>;

}  // namespace seemalloc::profile
