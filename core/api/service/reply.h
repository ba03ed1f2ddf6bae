// Reply: the answer to one request, kept until the client has received all of it.
//
// Commands fill it. The control socket sends it in parts, as the client reads, and never waits for
// the client. A long answer has memory of its own, which the reply unmaps.
// Threads: the helper thread; clear() also in a child of fork.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/api/dumps/dump_names.h"
#include "core/api/sampling/sampling.h"
#include "core/api/service/mapped_text.h"
#include "core/base/options.h"
#include "core/base/text.h"

namespace seemalloc {

class Reply {
 public:
  enum class SendResult { kAll, kPartial, kDisconnected };

  // A text that is too long is truncated; only errors can be. All of these require that nothing is
  // pending.
  void text(const char* text) { text_of(text, text_length(text)); }
  void text(const Text& text) { text_of(text.c_str(), text.size()); }
  void error(const char* what, const char* detail = "");
  // Answers with the first bytes of this memory, and takes it over.
  void memory(MappedText& memory, size_t bytes);
  void profile(const ProfileBytes& profile);

  bool is_pending() const { return head_bytes_ != 0; }
  // Sends as many bytes as the client accepts now, and sets *bytes to their number.
  SendResult send(int fd, size_t* bytes);
  // Drops the rest of the answer.
  void clear();

 private:
  static constexpr size_t kHeadBytes = 1024;
  static_assert(kHeadBytes >= kDumpPathBytes + 32 && kHeadBytes >= options::kMaxTextBytes + 32);

  void text_of(const char* text, size_t bytes);
  void set_body(char* memory, size_t mapped_bytes, size_t bytes);

  char head_[kHeadBytes] = {};  // `ok N` or `error …`, and all of a short answer
  size_t head_bytes_ = 0;
  char* memory_ = nullptr;
  size_t mapped_bytes_ = 0;
  size_t bytes_ = 0;
  size_t sent_ = 0;  // of head and memory together
};

}  // namespace seemalloc
