#include "core/api/service/reply.h"

#include <atomic>

#include "core/base/check.h"
#include "core/os/process/socket.h"
#include "core/os/runtime/report_memory.h"

namespace seemalloc {

namespace {
constexpr long kWouldBlock = -11;  // -EAGAIN
}

void Reply::text_of(const char* text, size_t bytes) {
  DCHECK(!is_pending());
  Text head(head_, sizeof(head_));
  head << "ok " << uint64_t{bytes} << "\n";
  head.append(text, bytes);
  CHECK(!head.truncated());
  head_bytes_ = head.size();
}

void Reply::error(const char* what, const char* detail) {
  DCHECK(!is_pending());
  Text head(head_, sizeof(head_));
  head << "error " << what << detail;
  head.end_line();
  head_bytes_ = head.size();
}

void Reply::set_body(char* memory, size_t mapped_bytes, size_t bytes) {
  DCHECK(!is_pending());
  // The address is stored last, and the fence keeps the compiler from reordering the stores:
  // another thread may fork at any moment, and clear() in the child unmaps the memory if there is
  // an address.
  mapped_bytes_ = mapped_bytes;
  bytes_ = bytes;
  std::atomic_signal_fence(std::memory_order_release);
  memory_ = memory;
  Text head(head_, sizeof(head_));
  head << "ok " << uint64_t{bytes} << "\n";
  head_bytes_ = head.size();
}

void Reply::memory(MappedText& memory, size_t bytes) {
  size_t mapped_bytes = memory.bytes();
  set_body(memory.release(), mapped_bytes, bytes);
}

void Reply::profile(const ProfileBytes& profile) {
  set_body(profile.data, profile.mapped_bytes, profile.bytes);
}

Reply::SendResult Reply::send(int fd, size_t* bytes) {
  *bytes = 0;
  while (sent_ < head_bytes_ + bytes_) {
    bool of_head = sent_ < head_bytes_;
    const char* from = of_head ? head_ + sent_ : memory_ + (sent_ - head_bytes_);
    long sent =
        os::send_now(fd, from, of_head ? head_bytes_ - sent_ : head_bytes_ + bytes_ - sent_);
    if (sent == kWouldBlock) return SendResult::kPartial;
    if (sent < 0) return SendResult::kDisconnected;
    sent_ += static_cast<size_t>(sent);
    *bytes += static_cast<size_t>(sent);
  }
  clear();
  return SendResult::kAll;
}

void Reply::clear() {
  char* memory = memory_;
  memory_ = nullptr;
  if (memory != nullptr) os::unmap_report(memory, mapped_bytes_);
  head_bytes_ = bytes_ = sent_ = mapped_bytes_ = 0;
}

}  // namespace seemalloc
