#include "core/heap/reports/fragmentation.h"

#include "core/heap/spans/homes.h"
#include "core/heap/spans/sampled.h"
#include "core/pages/page_heap/page_heap.h"

namespace seemalloc::heap {

using pages::SpanKind;

namespace {

struct Walk {
  void (*f)(void* context, const SampleCharge& share);
  void* context;
};

void pass_on(void* context, const SampledBlock& sampled) {
  const Walk& walk = *static_cast<Walk*>(context);
  SampleCharge share{sampled.block, sampled.id, sampled.home != 0, 0, sampled.charge_bytes};
  if (sampled.home != 0) share.home_bytes = home_charge_bytes(sampled.home);
  walk.f(walk.context, share);
}

SEEMALLOC_NO_TSAN void add_free(void* context, Span* span) {
  if (span->kind != SpanKind::kSmall && span->kind != SpanKind::kSampled) return;
  size_t carved = span->carved, live = span->live_acquire(), holes = span->hole_blocks();
  if (live > carved) live = carved;
  if (live > holes) *static_cast<size_t*>(context) += (carved - live) * span->block_bytes;
}

}  // namespace

void for_each_sample_charge(void (*f)(void* context, const SampleCharge& share), void* context) {
  Walk walk{f, context};
  for_each_sampled_block(pass_on, &walk);
}

size_t fragmented_bytes() {
  size_t bytes = 0;
  pages::for_each_span(add_free, &bytes);
  return bytes;
}

}  // namespace seemalloc::heap
