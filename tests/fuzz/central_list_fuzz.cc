// The central list under random operations of one thread, against a model: the set of blocks that
// are live, and those in batches. It owns spans as a thread heap would. The walks of verify.h check
// spans, lists and pages after each step.
#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "core/heap/reports/verify.h"
#include "core/heap/spans/central.h"
#include "core/heap/spans/publish.h"
#include "core/heap/spans/remote_batch.h"
#include "core/heap/spans/small_span.h"
#include "core/heap/thread/size_class.h"
#include "core/heap/thread/thread_heap.h"
#include "core/pages/page_heap/page_heap.h"
#include "core/pages/page_heap/verify.h"
#include "core/pages/span/page_map.h"
#include "tests/fuzz/fuzz.h"

namespace seemalloc::heap {
namespace {

using pages::SpanState;

const unsigned kUsedClasses[] = {class_of(16), class_of(320), class_of(1024), class_of(8192)};
ThreadHeap owner;  // only its address is used

Span* span_of(const Block* block) { return pages::page_map.span_of(block); }
bool is_owned(const Span* span) { return span->remote.load(std::memory_order_relaxed) != kUnowned; }

class Model {
 public:
  ~Model() {
    put_back_all();
    publish_central_lists(true);
    batches_.clear();
    while (!live_.empty()) free_some(*live_.begin(), live_.size());
    for (int i = 0; i < 2; i++) central_release_empty_shared();
    check();
    CHECK(pages::bytes_in_spans() == 0);
  }

  void step(FuzzedDataProvider& input) {
    unsigned size_class = input.PickValueInArray(kUsedClasses);
    switch (input.ConsumeIntegralInRange<unsigned>(0, 11)) {
      case 0:
      case 1: take_shared(size_class, input.ConsumeIntegralInRange<uint32_t>(1, 40)); break;
      case 2:
      case 3:
        if (!live_.empty())
          free_some(any_block(input), input.ConsumeIntegralInRange<size_t>(1, 50));
        break;
      case 4: take(size_class); break;
      case 5:
        if (!owned_.empty()) put_back(any_owned(input));
        break;
      case 6:
        if (!live_.empty()) claim(span_of(any_block(input)));
        break;
      case 7:
        if (!owned_.empty())
          allocate(owned_[any_owned(input)], input.ConsumeIntegralInRange<uint32_t>(1, 60));
        break;
      case 8: give_batch(size_class, input); break;
      case 9: take_batch(size_class); break;
      case 10:
        input.ConsumeBool() ? publish(input.ConsumeBool()) : central_release_empty_shared();
        break;
      default: detach(size_class, input);
    }
    check();
  }

 private:
  using Batch = std::vector<Block*>;

  // Blocks are picked by their order in memory, which is the same in each run of an input.
  Block* any_block(FuzzedDataProvider& input) {
    auto at = live_.begin();
    std::advance(at,
                 input.ConsumeIntegralInRange<size_t>(0, std::min<size_t>(live_.size() - 1, 300)));
    return *at;
  }
  size_t any_owned(FuzzedDataProvider& input) {
    return input.ConsumeIntegralInRange<size_t>(0, owned_.size() - 1);
  }

  void add_live(Block* block, const Span* span) {
    CHECK(span->is_carved_block(block));
    CHECK(!in_batch(block) && live_.insert(block).second);
    // The first word is the list's link.
    reinterpret_cast<uintptr_t*>(block)[1] = reinterpret_cast<uintptr_t>(block);
  }
  void remove_live(Block* block) {
    CHECK(live_.erase(block) == 1);
    CHECK(reinterpret_cast<uintptr_t*>(block)[1] == reinterpret_cast<uintptr_t>(block));
  }
  bool in_batch(const Block* block) const {
    for (auto& [size_class, batches] : batches_) {
      for (const Batch& batch : batches) {
        if (std::count(batch.begin(), batch.end(), block) != 0) return true;
      }
    }
    return false;
  }

  void take_shared(unsigned size_class, uint32_t count) {
    Block* block = nullptr;
    uint32_t lent = central_take_shared_blocks(size_class, count, &block);
    CHECK(lent != 0 && lent <= count);
    for (; lent != 0; lent--) {
      Block* next = block->next;
      Span* span = span_of(block);
      CHECK(span->size_class == size_class && span->blocks_are_shared());
      add_live(block, span);
      block = next;
    }
    CHECK(block == nullptr);
  }

  // Frees `block` and up to `most` - 1 others of its span.
  void free_some(Block* block, size_t most) {
    Span* span = span_of(block);
    std::vector<Block*> blocks;
    for (auto at = live_.find(block);
         at != live_.end() && blocks.size() < most && span->contains(*at); ++at)
      blocks.push_back(*at);
    for (Block* each : blocks) remove_live(each);
    if (is_owned(span)) {
      for (Block* each : blocks) {
        span->push_local_free(each);
        span->set_live(span->live() - 1);
      }
      return;
    }
    for (size_t i = 0; i + 1 < blocks.size(); i++) blocks[i]->next = blocks[i + 1];
    CHECK(central_free(span, blocks.front(), blocks.back(), static_cast<uint32_t>(blocks.size())));
  }

  void own(Span* span) {
    CHECK(span->owner() == &owner && !is_owned_by_model(span) && !span->blocks_are_shared());
    CHECK(span->next == nullptr && span->prev == nullptr);
    owned_.push_back(span);
  }
  bool is_owned_by_model(const Span* span) const {
    return std::count(owned_.begin(), owned_.end(), span) != 0;
  }
  void take(unsigned size_class) {
    Span* span = central_take(size_class, &owner);
    if (span == nullptr) return;
    CHECK(span->size_class == size_class);
    CHECK(span->free_blocks() != 0 || span->carved < span->capacity || span->holes != 0);
    own(span);
  }
  void claim(Span* span) {
    if (is_owned(span) || span->blocks_are_shared()) return;
    CHECK(central_claim(span, &owner));
    CHECK(!central_claim(span, &owner));
    own(span);
  }
  void put_back(size_t index) {
    Span* span = owned_[index];
    owned_.erase(owned_.begin() + static_cast<long>(index));
    // As a heap does: the central list keeps no empty spans but shared ones.
    if (span->is_empty()) return release_empty_span(span);
    CHECK(central_put(span));
    CHECK(!central_put_is_needed(span));
  }
  static bool central_put_is_needed(const Span* span) {
    return is_owned(span) || span->owner() == &owner;
  }
  void put_back_all() {
    while (!owned_.empty()) put_back(0);
  }

  void allocate(Span* span, uint32_t count) {
    for (; count != 0; count--) {
      Block* block = span->local_free;
      if (block != nullptr) {
        span->local_free = block->next;
      } else if (span->carved < span->capacity) {
        block = span->block_at(span->carved++);
      } else {
        return;
      }
      span->set_live(span->live() + 1);
      add_live(block, span);
    }
  }

  void give_batch(unsigned size_class, FuzzedDataProvider& input) {
    size_t most = input.ConsumeIntegralInRange<size_t>(1, kMaxGatheredBlocks),
           stride = input.ConsumeIntegralInRange<size_t>(1, 20);
    Batch batch;
    size_t at = 0;
    for (Block* block : live_) {
      if (span_of(block)->size_class == size_class && at++ % stride == 0) batch.push_back(block);
      if (batch.size() == most) break;
    }
    if (batch.empty() ||
        !central_put_batch(size_class, batch.data(), static_cast<uint32_t>(batch.size())))
      return;
    for (Block* block : batch) remove_live(block);
    batches_[size_class].push_back(batch);
  }
  void take_batch(unsigned size_class) {
    Block* blocks[kMaxGatheredBlocks];
    uint32_t count = central_take_batch(size_class, blocks);
    std::vector<Batch>& batches = batches_[size_class];
    CHECK((count == 0) == batches.empty());
    if (count == 0) return;
    CHECK(batches.back() == Batch(blocks, blocks + count));
    batches.pop_back();
    for (Block* block : Batch(blocks, blocks + count)) add_live(block, span_of(block));
  }
  // Without owners, the blocks are freed into their spans.
  void publish(bool all) {
    put_back_all();
    publish_central_lists(all);
    for (auto& [size_class, batches] : batches_) {
      size_t left = central_batch_blocks(size_class);
      CHECK(!all || left == 0);
      while (listed(batches) > left) batches.pop_back();
    }
  }
  static size_t listed(const std::vector<Batch>& batches) {
    size_t blocks = 0;
    for (const Batch& batch : batches) blocks += batch.size();
    return blocks;
  }

  void detach(unsigned size_class, FuzzedDataProvider& input) {
    bool more = false;
    Span* span = central_detach(size_class, 0, &more);
    if (span == nullptr) return;
    CHECK(span->state == SpanState::kDetached && span->size_class == size_class);
    CHECK(!central_claim(span, &owner));
    size_t most = input.ConsumeIntegralInRange<size_t>(0, 60);
    for (Block* block : live_) {
      if (!span->contains(block)) continue;
      if (most != 0) free_some(block, most);
      break;
    }
    central_reattach(span);
  }

  void check() const {
    std::map<const Span*, uint32_t> live;
    for (const Span* span : owned_) live[span] = 0;
    for (const Block* block : live_) live[span_of(block)]++;
    for (auto& [size_class, batches] : batches_) {
      CHECK(central_batch_blocks(size_class) == listed(batches));
      for (const Batch& batch : batches) {
        for (const Block* block : batch) live[span_of(block)]++;
      }
    }
    for (auto& [span, count] : live) {
      CHECK(span->live() - span->hole_blocks() == count);
      CHECK(is_owned(span) == is_owned_by_model(span));
      if (is_owned(span)) fuzz::require_sound(verify_span(*span));
    }
    for (unsigned size_class : kUsedClasses)
      fuzz::require_sound(verify_central(size_class, verify_span));
    fuzz::require_sound(pages::verify_pages());
  }

  std::set<Block*> live_;
  std::vector<Span*> owned_;
  std::map<unsigned, std::vector<Batch>> batches_;
};

}  // namespace
}  // namespace seemalloc::heap

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  seemalloc::fuzz::choose(seemalloc::options::Id::helper, "0");
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  seemalloc::heap::Model model;
  for (unsigned step = 0; step < 100 && input.remaining_bytes() != 0; step++) model.step(input);
  return 0;
}
