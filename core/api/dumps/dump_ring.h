// DumpRing: the files written by automatic dumps, oldest first, so that older ones can be removed.
//
// A file is identified by its name and its inode: a name that now refers to another file (the
// program has changed its directory, a user has moved files) is left alone.
// Threads: one at a time.
#pragma once

#include "core/api/dumps/dump_names.h"
#include "core/os/kernel/files.h"
#include "core/os/process/socket.h"

namespace seemalloc {

class DumpRing {
 public:
  static constexpr unsigned kCapacity = 1000;

  // False when there is no memory for names.
  bool allocate_storage();
  // Adds the newest file. Requires: allocate_storage(). Beyond kCapacity the oldest is forgotten.
  void add(const char* path, os::FileIdentity identity);
  // Removes the oldest files until `most` are left. Returns the number of removed files.
  unsigned shrink_to(unsigned most);
  unsigned size() const { return count_; }
  // In a forked child: the files belong to the parent.
  void forget() { count_ = 0; }

 private:
  struct File {
    os::FileIdentity identity;
    char path[kDumpPathBytes];
  };
  File& at(unsigned i) const { return files_[(first_ + i) % kCapacity]; }
  void drop_oldest();

  File* files_ = nullptr;
  unsigned first_ = 0, count_ = 0;
};

}  // namespace seemalloc
