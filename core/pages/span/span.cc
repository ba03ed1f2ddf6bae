#include "core/pages/span/span.h"

namespace seemalloc::pages {

constinit Span foreign_span{.owner_ = Span::kNobody, .kind = SpanKind::kForeign};
constinit Span free_span{.owner_ = Span::kNobody, .kind = SpanKind::kFree};

}  // namespace seemalloc::pages
