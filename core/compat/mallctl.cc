#include "core/compat/mallctl.h"

#include "core/api/malloc/process.h"
#include "core/base/units.h"
#include "core/compat/control_names.h"
#include "core/heap/maintenance/purge_all.h"
#include "core/heap/slow_paths/large.h"
#include "core/heap/slow_paths/owner_paths.h"
#include "core/heap/thread/size_class.h"
#include "core/heap/thread/thread_cache.h"
#include "core/heap/thread/thread_heap.h"

namespace seemalloc::compat {

namespace {

// Parses a number in a name: digits only, within size_t, ended by a dot or the end of the name.
bool take_number(const char** at, size_t* number) {
  const char* s = *at;
  size_t n = 0;
  if (*s < '0' || *s > '9') return false;
  for (; *s >= '0' && *s <= '9'; s++) {
    if (__builtin_mul_overflow(n, size_t{10}, &n)) return false;
    if (__builtin_add_overflow(n, static_cast<size_t>(*s - '0'), &n)) return false;
  }
  *at = s;
  *number = n;
  return *s == '.' || *s == 0;
}

bool matches(const char* pattern, const char* name, size_t* numbers) {
  for (; *pattern != 0; pattern++) {
    if (*pattern == '#') {
      if (!take_number(&name, numbers++)) return false;
    } else if (*pattern != *name++) {
      return false;
    }
  }
  return *name == 0;
}

const ControlRow* find(const char* name, size_t* numbers) {
  for (const ControlRow& row : control_rows()) {
    if (matches(row.name, name, numbers)) return &row;
  }
  return nullptr;
}

// A MIB has one element for each part of the name: the number itself, or 1 + the row's index.
template <typename Visit>
size_t for_each_part(const char* pattern, Visit visit) {
  size_t parts = 0;
  for (const char* at = pattern;; at++) {
    visit(parts, *at == '#');
    parts++;
    while (*at != 0 && *at != '.') at++;
    if (*at == 0) return parts;
  }
}

}  // namespace

// A call before the first allocation must still see the options, so it reads them first.
int control(const char* name, void* old_value, size_t* old_bytes, const void* new_value,
            size_t new_bytes) {
  start_process();
  ControlCall call{old_value, old_bytes, new_value, new_bytes, {}};
  const ControlRow* row = name != nullptr ? find(name, call.numbers) : nullptr;
  return row != nullptr ? row->handle(call) : ENOENT;
}

int name_to_mib(const char* name, size_t* mib, size_t* length) {
  size_t numbers[ControlCall::kMaxNumbers] = {};
  const ControlRow* row = name != nullptr ? find(name, numbers) : nullptr;
  if (row == nullptr || mib == nullptr || length == nullptr) return ENOENT;
  size_t room = *length, next_number = 0;
  size_t parts = for_each_part(row->name, [&](size_t part, bool is_number) {
    size_t element =
        is_number ? numbers[next_number++] : 1 + static_cast<size_t>(row - control_rows().first);
    if (part < room) mib[part] = element;
  });
  if (parts < room) *length = parts;
  return 0;
}

int control_by_mib(const size_t* mib, size_t length, void* old_value, size_t* old_bytes,
                   const void* new_value, size_t new_bytes) {
  start_process();
  if (mib == nullptr || length == 0 || mib[0] == 0 || mib[0] > control_rows().count) return ENOENT;
  const ControlRow& row = control_rows().first[mib[0] - 1];
  ControlCall call{old_value, old_bytes, new_value, new_bytes, {}};
  size_t next_number = 0;
  size_t parts = for_each_part(row.name, [&](size_t part, bool is_number) {
    if (is_number && part < length) call.numbers[next_number++] = mib[part];
  });
  return parts == length ? row.handle(call) : ENOENT;
}

size_t control_names() { return control_rows().count; }
const char* control_name(size_t index) { return control_rows().first[index].name; }

size_t allocation_size(size_t bytes, size_t alignment) {
  if (bytes > static_cast<size_t>(PTRDIFF_MAX) || alignment > static_cast<size_t>(PTRDIFF_MAX) / 2)
    return 0;
  if (alignment <= kPageBytes && bytes <= heap::kMaxSmallBytes) {
    unsigned size_class = heap::class_of(bytes < alignment ? alignment : bytes);
    while (size_class < heap::kClassCount && heap::kClasses[size_class].bytes % alignment != 0)
      size_class++;
    if (size_class < heap::kClassCount) return heap::kClasses[size_class].bytes;
  }
  return heap::large_bytes(bytes == 0 ? 1 : bytes);
}

size_t purge_everything() {
  if (heap::ThreadHeap* mine = heap::thread_cache.heap) heap::collect(*mine, true);
  return heap::purge_all();
}

}  // namespace seemalloc::compat
