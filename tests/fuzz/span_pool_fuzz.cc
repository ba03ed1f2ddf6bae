// The pool of span records under random operations and refused system calls. A record that is taken
// is not taken twice, and keeps its contents until it is given back.
#include <sys/syscall.h>

#include <optional>
#include <set>
#include <vector>

#include "core/os/kernel/fault.h"
#include "core/pages/span/span_pool.h"
#include "tests/fuzz/fuzz.h"

namespace seemalloc::pages {
namespace {

class Model {
 public:
  ~Model() {
    for (Span* span : taken_) free_span_record(span);
    while (purge_old_span_records(SIZE_MAX) != 0) {
    }
    purge_span_records();
    fuzz::require_sound(verify_span_pool());
  }

  void step(FuzzedDataProvider& input) {
    std::optional<os::FailCalls> refuse;
    switch (input.ConsumeIntegralInRange<unsigned>(0, 15)) {
      case 0: refuse.emplace(SYS_mmap, 12); break;
      case 1:
        refuse.emplace(SYS_madvise, 12, 1, input.ConsumeIntegralInRange<unsigned>(0, 3));
        break;
      default: break;
    }
    switch (input.ConsumeIntegralInRange<unsigned>(0, 5)) {
      case 0:
      case 1:
        for (unsigned count = input.ConsumeIntegralInRange<unsigned>(1, 200); count != 0; count--)
          take();
        break;
      case 2:
      case 3: give(input); break;
      case 4: purge_old_span_records(input.ConsumeIntegralInRange<size_t>(0, 100)); break;
      default: purge_span_records();
    }
    refuse.reset();
    fuzz::require_sound(verify_span_pool());
    for (Span* span : taken_) CHECK(span->bytes == reinterpret_cast<uintptr_t>(span));
  }

 private:
  void take() {
    Span* span = allocate_span_record(SpanKind::kLarge);
    if (span == nullptr) return;
    CHECK(span->kind == SpanKind::kLarge && span->live() == 0 && span->next == nullptr &&
          span->prev == nullptr);
    CHECK(known_.insert(span).second);
    span->bytes = reinterpret_cast<uintptr_t>(span);
    taken_.push_back(span);
  }
  // From one end of the records, or spread over all of them.
  void give(FuzzedDataProvider& input) {
    size_t count = input.ConsumeIntegralInRange<size_t>(1, 300),
           stride = input.ConsumeIntegralInRange<size_t>(0, 97);
    for (size_t at = 0; count != 0 && !taken_.empty(); count--, at += stride) {
      size_t index = at % taken_.size();
      Span* span = taken_[index];
      taken_[index] = taken_.back();
      taken_.pop_back();
      known_.erase(span);
      free_span_record(span);
    }
  }

  std::vector<Span*> taken_;
  std::set<Span*> known_;
};

}  // namespace
}  // namespace seemalloc::pages

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  seemalloc::pages::Model model;
  for (unsigned step = 0; step < 100 && input.remaining_bytes() != 0; step++) model.step(input);
  return 0;
}
