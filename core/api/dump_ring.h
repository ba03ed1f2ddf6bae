// DumpRing: the files that automatic dumps have left, oldest first, so that older ones can be removed.
//
// A file is known by its name and its identity: a name that stands for another file by now (the program has changed its folder,
// somebody has moved files) is left alone. Threads: one at a time.
#pragma once

#include "core/api/dump_names.h"
#include "core/os/os.h"
#include "core/os/socket.h"

namespace seemalloc {

class DumpRing {
 public:
  static constexpr unsigned kMost = 1000;

  // False when there is no memory for names.
  bool make_room();
  // Remembers the newest. Requires: make_room(). Beyond kMost the oldest is forgotten.
  void add(const char* path, os::FileIdentity identity);
  // Removes the oldest files until there are `most`. Returns how many.
  unsigned shrink_to(unsigned most);
  unsigned size() const { return count_; }
  // In a forked child: the files are its parent's.
  void forget() { count_ = 0; }

 private:
  struct File {
    os::FileIdentity identity;
    char path[kDumpPathBytes];
  };
  File& at(unsigned i) const { return files_[(first_ + i) % kMost]; }
  void drop_oldest();

  File* files_ = nullptr;
  unsigned first_ = 0, count_ = 0;
};

}  // namespace seemalloc
