#include "core/pages/span/span.h"

namespace seemalloc::pages {

constinit Span foreign_span{.owner_ = Span::kNoOwner, .kind = SpanKind::kForeign};
constinit Span free_span{.owner_ = Span::kNoOwner, .kind = SpanKind::kFree};

}  // namespace seemalloc::pages
