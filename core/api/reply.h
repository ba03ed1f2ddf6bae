// Reply: the answer to one request, kept until the client has taken all of it.
//
// Commands fill it; the control socket sends it a part at a time, as the client reads, and never waits for the client.
// What is long lies in memory of its own, which the reply gives back. Threads: the helper; forget() in the child of fork.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/api/dump_names.h"
#include "core/api/mapped_text.h"
#include "core/api/sampling.h"
#include "core/base/options.h"
#include "core/base/text.h"

namespace seemalloc {

class Reply {
 public:
  enum class Sent { kAll, kSome, kGone };

  // What is cut off: errors only. Requires, for all of these: nothing is pending.
  void text(const char* text) { text_of(text, text_length(text)); }
  void text(const Text& text) { text_of(text.c_str(), text.size()); }
  void error(const char* what, const char* detail = "");
  // The first bytes of this memory, which is the reply's from here on.
  void memory(MappedText& memory, size_t bytes);
  void profile(const ProfileBytes& profile);

  bool is_pending() const { return head_bytes_ != 0; }
  // Sends what the client takes now. *bytes: how much that was.
  Sent send(int fd, size_t* bytes);
  // Drops what has not been sent.
  void clear();

 private:
  static constexpr size_t kHeadBytes = 1024;
  static_assert(kHeadBytes >= kDumpPathBytes + 32 && kHeadBytes >= options::kMaxTextBytes + 32);

  void text_of(const char* text, size_t bytes);
  void long_answer(char* memory, size_t mapped_bytes, size_t bytes);

  char head_[kHeadBytes] = {};  // `ok N` or `error …`, and all of a short answer
  size_t head_bytes_ = 0;
  char* memory_ = nullptr;
  size_t mapped_bytes_ = 0;
  size_t bytes_ = 0;
  size_t sent_ = 0;  // of head and memory together
};

}  // namespace seemalloc
