#include "core/api/dumps/dump_ring.h"

#include "core/base/units.h"
#include "core/os/kernel/files.h"
#include "core/os/kernel/memory.h"

namespace seemalloc {

bool DumpRing::allocate_storage() {
  // Pages are touched as it fills.
  size_t bytes = round_up(sizeof(File) * kCapacity, os::page_bytes());
  if (files_ == nullptr) files_ = static_cast<File*>(os::map(bytes, os::Reason::kReport));
  return files_ != nullptr;
}

void DumpRing::drop_oldest() {
  first_ = (first_ + 1) % kCapacity;
  count_--;
}

void DumpRing::add(const char* path, os::FileIdentity identity) {
  if (count_ == kCapacity) drop_oldest();
  File& file = at(count_++);
  file.identity = identity;
  Text(file.path, sizeof(file.path)) << path;
}

unsigned DumpRing::shrink_to(unsigned most) {
  unsigned removed = 0;
  while (count_ > most) {
    const File& oldest = at(0);
    bool known =
        !(oldest.identity == os::FileIdentity{}) && os::identity(oldest.path) == oldest.identity;
    if (known && os::remove_file(oldest.path) == 0) removed++;
    drop_oldest();
  }
  return removed;
}

}  // namespace seemalloc
