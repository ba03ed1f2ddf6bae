// The page heap and huge blocks under random operations, refused system calls and a clock that the
// input advances. No two spans overlap, contents stay, and clean memory is zero; verify.h walks all
// structures after each step.
#include <sys/syscall.h>

#include <optional>
#include <vector>

#include "core/base/units.h"
#include "core/os/kernel/fault.h"
#include "core/pages/huge/huge.h"
#include "core/pages/page_heap/page_heap.h"
#include "core/pages/page_heap/purge.h"
#include "core/pages/page_heap/verify.h"
#include "core/pages/span/page_map.h"
#include "tests/fuzz/fuzz.h"

namespace seemalloc::pages {
namespace {

class Model {
 public:
  ~Model() {
    while (!spans_.empty()) release(spans_.size() - 1);
    purge_all();
    unmap_empty_regions();
    fuzz::require_sound(verify_pages());
    CHECK(bytes_in_spans() == 0 && huge_used_bytes() == 0);
  }

  void step(FuzzedDataProvider& input) {
    std::optional<os::FailCalls> refuse;
    constexpr long kCalls[] = {SYS_mmap, SYS_madvise, SYS_mremap, SYS_munmap};
    if (input.ConsumeIntegralInRange<unsigned>(0, 7) == 0) {
      long call = input.PickValueInArray(kCalls);
      refuse.emplace(call, 12, input.ConsumeIntegralInRange<unsigned>(1, 2),
                     input.ConsumeIntegralInRange<unsigned>(0, 3));
    }
    switch (input.ConsumeIntegralInRange<unsigned>(0, 9)) {
      case 0:
      case 1:
      case 2: add_run(input); break;
      case 3: add_huge(input); break;
      case 4:
      case 5:
      case 6:
        if (!spans_.empty()) release(any(input));
        break;
      case 7: resize(input); break;
      case 8: advance(input); break;
      default: purge(input);
    }
    refuse.reset();
    fuzz::require_sound(verify_pages());
  }

 private:
  // Each OS page of a span begins with a word of the span's own.
  struct Held {
    Span* span;
    uint64_t word;
  };
  static constexpr size_t kMaxBytes = 64 * MiB;

  size_t any(FuzzedDataProvider& input) {
    return input.ConsumeIntegralInRange<size_t>(0, spans_.size() - 1);
  }

  void add_run(FuzzedDataProvider& input) {
    bool large = input.ConsumeIntegralInRange<unsigned>(0, 3) == 0;
    size_t pages = input.ConsumeIntegralInRange<size_t>(1, large ? kMaxRegionRunPages : 8);
    size_t alignment = size_t{1} << input.ConsumeIntegralInRange<unsigned>(0, 4);
    Span* span = allocate_run(input.ConsumeIntegralInRange<unsigned>(0, 1), pages, alignment,
                              SpanKind::kLarge, input.ConsumeBool());
    if (span == nullptr) return;
    CHECK(span->bytes == pages * kPageBytes && span->start % (alignment * kPageBytes) == 0 &&
          span->kind == SpanKind::kLarge);
    publish(span);
    keep(span, span->known_zero);
  }

  void add_huge(FuzzedDataProvider& input) {
    size_t bytes = input.ConsumeIntegralInRange<size_t>(MiB + 1, 8 * MiB);
    size_t alignment = kPageBytes << input.ConsumeIntegralInRange<unsigned>(0, 10);
    if (bytes_in_spans() + bytes > kMaxBytes) return;
    Span* span = allocate_huge(bytes, alignment);
    if (span == nullptr) return;
    CHECK(span->bytes >= bytes && span->start % alignment == 0 && span->kind == SpanKind::kHuge);
    keep(span, span->known_zero);
  }

  void keep(Span* span, bool zero) {
    CHECK(page_map.span_of(reinterpret_cast<void*>(span->start)) == span);
    for (const Held& other : spans_)
      CHECK(span->start + span->bytes <= other.span->start ||
            other.span->start + other.span->bytes <= span->start);
    if (zero) for_words(*span, 0, [](uint64_t& word) { CHECK(word == 0); });
    spans_.push_back({span, ++last_word_});
    fill(spans_.back(), 0);
  }

  template <typename F>
  static void for_words(const Span& span, size_t from, F f) {
    for (size_t at = from; at < span.bytes; at += 4096)
      f(*reinterpret_cast<uint64_t*>(span.start + at));
  }
  static void fill(const Held& held, size_t from) {
    for_words(*held.span, from, [&](uint64_t& word) { word = held.word; });
  }
  static void check(const Held& held) {
    for_words(*held.span, 0, [&](uint64_t& word) { CHECK(word == held.word); });
  }

  void release(size_t index) {
    Held held = spans_[index];
    check(held);
    spans_[index] = spans_.back();
    spans_.pop_back();
    held.span->kind == SpanKind::kHuge ? release_huge(held.span) : pages::release(held.span);
  }

  void resize(FuzzedDataProvider& input) {
    if (spans_.empty()) return;
    Held& held = spans_[any(input)];
    Span* span = held.span;
    size_t before = span->bytes;
    check(held);
    if (span->kind == SpanKind::kHuge) {
      size_t bytes = input.ConsumeIntegralInRange<size_t>(MiB + 1, 8 * MiB);
      if (bytes_in_spans() + bytes > kMaxBytes || !resize_huge(span, bytes)) return;
      CHECK(span->bytes >= bytes);
    } else {
      size_t pages = input.ConsumeIntegralInRange<size_t>(1, 32), now = before / kPageBytes;
      if (pages == now || pages > kMaxRegionRunPages) return;
      if (pages < now)
        shrink(span, pages);
      else if (!try_extend(span, pages))
        return;
      CHECK(span->bytes == pages * kPageBytes);
    }
    if (span->bytes > before) fill(held, before);
    check(held);
  }

  void advance(FuzzedDataProvider& input) {
    os::advance_test_clock(input.ConsumeIntegralInRange<uint64_t>(0, 3 * kSecondNs));
    tick(input.ConsumeBool());
  }

  void purge(FuzzedDataProvider& input) {
    switch (input.ConsumeIntegralInRange<unsigned>(0, 3)) {
      case 0: purge_all(); break;
      case 1: unmap_empty_regions(); break;
      case 2:
        purge_huge_oldest(input.ConsumeIntegralInRange<size_t>(0, 16 * MiB),
                          os::Reason::kRequested);
        break;
      default:
        purge_huge(UINT64_MAX, os::Reason::kRequested,
                   input.ConsumeIntegralInRange<unsigned>(0, 4));
    }
  }

  std::vector<Held> spans_;
  uint64_t last_word_ = 0;
};

}  // namespace
}  // namespace seemalloc::pages

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  seemalloc::pages::Model model;
  for (unsigned step = 0; step < 100 && input.remaining_bytes() != 0; step++) model.step(input);
  return 0;
}
