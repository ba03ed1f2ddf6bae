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

// A code object, as far as samples need it.
struct PythonCode {
  uintptr_t address;
  uintptr_t lines;  // address of its table of lines
  uint64_t units;
  int32_t first_line;
  uint32_t function;  // its number in PythonNames; 0: there was no room
  bool hidden;        // Python does not show it anywhere
};

// Code objects by address. An entry is valid until a code object at its address is freed; objects
// with the same slot replace each other. A slot is read and written without waiting: a reader that
// meets a writer finds nothing, and a writer that meets another one leaves.
template <size_t kSlots>
class PythonCodeCache {
 public:
  // Returns false if the object is not in the cache.
  bool find(uintptr_t address, PythonCode* out) const {
    const Slot& slot = slots_[slot_of(address)];
    uint64_t sequence = slot.sequence.load(std::memory_order_acquire);
    uint64_t frees = slot.valid_for.load(std::memory_order_relaxed);
    out->address = slot.address.load(std::memory_order_relaxed);
    out->lines = slot.lines.load(std::memory_order_relaxed);
    uint64_t units = slot.units.load(std::memory_order_relaxed);
    uint64_t function = slot.function.load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (out->address != address || sequence % 2 != 0 ||
        slot.sequence.load(std::memory_order_relaxed) != sequence ||
        slot.frees.load(std::memory_order_acquire) != frees)
      return false;
    out->units = units & ~kHidden;
    out->hidden = (units & kHidden) != 0;
    out->first_line = static_cast<int32_t>(function >> 32);
    out->function = static_cast<uint32_t>(function);
    return true;
  }
  // The value of `frees` for insert(), from before the object was read.
  uint64_t frees(uintptr_t address) const {
    return slots_[slot_of(address)].frees.load(std::memory_order_acquire);
  }
  void insert(const PythonCode& code, uint64_t frees) {
    Slot& slot = slots_[slot_of(code.address)];
    uint64_t sequence = slot.sequence.load(std::memory_order_relaxed);
    if (sequence % 2 != 0 ||
        !slot.sequence.compare_exchange_strong(sequence, sequence + 1, std::memory_order_acquire,
                                               std::memory_order_relaxed))
      return;
    std::atomic_thread_fence(std::memory_order_release);
    slot.valid_for.store(frees, std::memory_order_relaxed);
    slot.address.store(code.address, std::memory_order_relaxed);
    slot.lines.store(code.lines, std::memory_order_relaxed);
    slot.units.store(code.units | (code.hidden ? kHidden : 0), std::memory_order_relaxed);
    slot.function.store(uint64_t{static_cast<uint32_t>(code.first_line)} << 32 | code.function,
                        std::memory_order_relaxed);
    slot.sequence.store(sequence + 2, std::memory_order_release);
  }
  // The object at this address is being freed.
  void forget(uintptr_t address) {
    slots_[slot_of(address)].frees.fetch_add(1, std::memory_order_acq_rel);
  }

 private:
  static constexpr uint64_t kHidden = uint64_t{1} << 63;
  // Words of an entry, and how many objects with this slot had been freed when they were read.
  struct Slot {
    std::atomic<uint64_t> frees, sequence, valid_for;
    std::atomic<uint64_t> address, lines, units, function;
  };
  static constexpr unsigned kBits = __builtin_ctzll(kSlots);
  static_assert(kSlots == size_t{1} << kBits);
  static size_t slot_of(uintptr_t address) {
    return (address * 0x9E3779B97F4A7C15u) >> (64 - kBits);
  }

  Slot slots_[kSlots];
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

  PythonCodeCache<4096> codes;

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

 private:
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
  std::atomic<size_t> text_used_;
  char texts_[kTextBytes];
};

// 7 MiB of address space, of which the functions of a large program use a few hundred KiB.
using PythonNames = PythonNameTable<32768, 8192, size_t{4} << 20>;

}  // namespace seemalloc::profile
