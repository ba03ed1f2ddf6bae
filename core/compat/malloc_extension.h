// gperftools' class MallocExtension, with the layout of its header (2.x). Programs compiled against
// that header call through our virtual function table, so the order of the functions is fixed, and
// so are the names of the types.
//
// What each function does here: docs/compat.md. Threads: any, except Initialize and Register, which
// do nothing.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace base {
struct MallocRange;
}

// A program may make one and offer it, but this allocator always gets its memory from the OS
// itself.
class SysAllocator {
 public:
  SysAllocator() {}
  virtual ~SysAllocator();
  virtual void* Alloc(size_t bytes, size_t* actual_bytes, size_t alignment) = 0;
};

class MallocExtension {
 public:
  using RangeFunction = void(void*, const base::MallocRange*);
  enum Ownership { kUnknownOwnership = 0, kOwned, kNotOwned };
  struct FreeListInfo {
    size_t min_object_size;
    size_t max_object_size;
    size_t total_bytes_free;
    const char* type;
  };

  static void Initialize();
  static MallocExtension* instance();
  static void Register(MallocExtension* implementation);

  // The order matters from here on.
  virtual ~MallocExtension();
  virtual bool VerifyAllMemory();
  virtual bool VerifyNewMemory(const void* p);
  virtual bool VerifyArrayNewMemory(const void* p);
  virtual bool VerifyMallocMemory(const void* p);
  virtual bool MallocMemoryStats(int* blocks, size_t* total, int histogram[64]);
  virtual void GetStats(char* buffer, int length);
  virtual void GetHeapSample(std::string* writer);
  virtual void GetHeapGrowthStacks(std::string* writer);
  virtual void Ranges(void* argument, RangeFunction* function);
  virtual bool GetNumericProperty(const char* property, size_t* value);
  virtual bool SetNumericProperty(const char* property, size_t value);
  virtual void MarkThreadIdle();
  virtual void MarkThreadBusy();
  virtual SysAllocator* GetSystemAllocator();
  virtual void SetSystemAllocator(SysAllocator* allocator);
  virtual void ReleaseToSystem(size_t bytes);
  virtual void ReleaseFreeMemory();
  virtual void SetMemoryReleaseRate(double rate);
  virtual double GetMemoryReleaseRate();
  virtual size_t GetEstimatedAllocatedSize(size_t bytes);
  virtual size_t GetAllocatedSize(const void* p);
  virtual Ownership GetOwnership(const void* p);
  virtual void GetFreeListSizes(std::vector<FreeListInfo>* out);
  virtual void** ReadStackTraces(int* sample_period);
  virtual void** ReadHeapGrowthStackTraces();
  virtual size_t GetThreadCacheSize();
  virtual void MarkThreadTemporarilyIdle();
};

#pragma GCC visibility pop
