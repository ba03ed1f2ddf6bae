// Calls each of the 20 operators in a program that replaces some of them: every_form MASK, one bit
// for each replaced operator (forms.h).
//
// The standard defines which operator serves a call: the program's, if that form is replaced;
// otherwise the operator that serves the form which the default version calls; the last default
// version calls no other. Each new is paired with each delete that may take its block.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

#include "forms.h"

namespace {

unsigned mask;
unsigned checks;

bool is_replaced(Form form) { return (mask >> form & 1) != 0; }

// The program's operator that serves a call of the form; kForms: the library's own operator.
Form serving_form(Form form) {
  if (is_replaced(form)) return form;
  return kCalls[form] == form ? kForms : serving_form(kCalls[form]);
}

#define EXPECT(condition)                                                                                 \
  do {                                                                                                    \
    checks++;                                                                                             \
    if (!(condition)) {                                                                                   \
      fprintf(                                                                                            \
          stderr,                                                                                         \
          "mask %#x, form %d, other form %d, %zu bytes, alignment %zu: expected %s; %d calls, last %d\n", \
          mask, int(form), int(other), bytes, alignment, #condition, seen.calls, int(seen.last));         \
      _Exit(1);                                                                                           \
    }                                                                                                     \
  } while (0)

void* call_new(Form form, size_t bytes, size_t alignment) {
  std::align_val_t a{alignment};
  switch (form) {
    case kNew: return ::operator new(bytes);
    case kNewArray: return ::operator new[](bytes);
    case kNewNothrow: return ::operator new(bytes, std::nothrow);
    case kNewArrayNothrow: return ::operator new[](bytes, std::nothrow);
    case kNewAligned: return ::operator new(bytes, a);
    case kNewArrayAligned: return ::operator new[](bytes, a);
    case kNewAlignedNothrow: return ::operator new(bytes, a, std::nothrow);
    case kNewArrayAlignedNothrow: return ::operator new[](bytes, a, std::nothrow);
    default: abort();
  }
}

void call_delete(Form form, void* p, size_t bytes, size_t alignment) {
  std::align_val_t a{alignment};
  switch (form) {
    case kDelete: return ::operator delete(p);
    case kDeleteArray: return ::operator delete[](p);
    case kDeleteSized: return ::operator delete(p, bytes);
    case kDeleteArraySized: return ::operator delete[](p, bytes);
    case kDeleteNothrow: return ::operator delete(p, std::nothrow);
    case kDeleteArrayNothrow: return ::operator delete[](p, std::nothrow);
    case kDeleteAligned: return ::operator delete(p, a);
    case kDeleteArrayAligned: return ::operator delete[](p, a);
    case kDeleteSizedAligned: return ::operator delete(p, bytes, a);
    case kDeleteArraySizedAligned: return ::operator delete[](p, bytes, a);
    case kDeleteAlignedNothrow: return ::operator delete(p, a, std::nothrow);
    case kDeleteArrayAlignedNothrow: return ::operator delete[](p, a, std::nothrow);
    default: abort();
  }
}

constexpr Form kNews[] = {kNew, kNewArray, kNewNothrow, kNewArrayNothrow};
constexpr Form kAlignedNews[] = {kNewAligned, kNewArrayAligned, kNewAlignedNothrow,
                                 kNewArrayAlignedNothrow};
constexpr Form kDeletes[] = {kDelete,      kDeleteSized,      kDeleteNothrow,
                             kDeleteArray, kDeleteArraySized, kDeleteArrayNothrow};
constexpr Form kAlignedDeletes[] = {kDeleteAligned,           kDeleteSizedAligned,
                                    kDeleteAlignedNothrow,    kDeleteArrayAligned,
                                    kDeleteArraySizedAligned, kDeleteArrayAlignedNothrow};

bool is_nothrow(Form form) { return form >= kNewNothrow && form <= kNewArrayAlignedNothrow; }

void* checked_new(Form form, size_t bytes, size_t alignment) {
  Form other = kForms;
  seen = {};
  void* p = call_new(form, bytes, alignment);
  Form server = serving_form(form);
  EXPECT(p != nullptr);
  EXPECT(is_of_pool(p) == (server != kForms));
  EXPECT(seen.calls == (server != kForms ? 1 : 0));
  if (server != kForms)
    EXPECT(seen.last == server && seen.block == p && seen.bytes == bytes &&
           seen.alignment == alignment);
  EXPECT(alignment == 0 || reinterpret_cast<uintptr_t>(p) % alignment == 0);
  static_cast<char*>(p)[0] = static_cast<char*>(p)[bytes - 1] = 1;
  return p;
}

void check_delete(Form form, Form other, void* p, size_t bytes, size_t alignment) {
  Form server = serving_form(form);
  seen = {};
  unsigned take_cached_large_span = freed;
  bool of_pool = is_of_pool(p);
  call_delete(form, p, bytes, alignment);
  EXPECT(seen.calls == (server != kForms ? 1 : 0));
  EXPECT(freed == take_cached_large_span + (of_pool ? 1 : 0));
  if (server != kForms) EXPECT(seen.last == server && seen.block == p);
}

// A call that the program's own operator refuses with an exception.
void check_refused(Form form, size_t bytes, size_t alignment) {
  Form other = kForms;
  if (serving_form(form) == kForms) return;
  bool caught = false;
  void* p = nullptr;
  seen = {};
  refuse = true;
  try {
    p = call_new(form, bytes, alignment);
  } catch (const Refused&) {
    caught = true;
  }
  refuse = false;
  EXPECT(p == nullptr && seen.calls == 1);
  EXPECT(caught == !is_nothrow(form));
}

void check_pairs(const Form* news, const Form* end_of_news, const Form* deletes,
                 const Form* end_of_deletes, size_t bytes, size_t alignment) {
  for (const Form* form = news; form < end_of_news; form++) {
    check_refused(*form, bytes, alignment);
    for (const Form* other = deletes; other < end_of_deletes; other++) {
      void* p = checked_new(*form, bytes, alignment);
      // The library's delete must not receive a block of the program's pool: such a program is
      // wrong under any allocator.
      if (!is_of_pool(p) || serving_form(*other) != kForms)
        check_delete(*other, *form, p, bytes, alignment);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  mask = static_cast<unsigned>(strtoul(argv[1], nullptr, 0));
  for (int round = 0; round < 2; round++) {
    for (size_t bytes :
         {size_t{1}, size_t{24}, size_t{1000}, size_t{5000}, size_t{50000}, size_t{1500000}}) {
      check_pairs(kNews, kNews + 4, kDeletes, kDeletes + 6, bytes, 0);
      for (size_t alignment : {size_t{64}, size_t{4096}}) {
        check_pairs(kAlignedNews, kAlignedNews + 4, kAlignedDeletes, kAlignedDeletes + 6, bytes,
                    alignment);
      }
    }
  }
  for (Form form : kDeletes) check_delete(form, kForms, nullptr, 1, 0);
  for (Form form : kAlignedDeletes) check_delete(form, kForms, nullptr, 1, 64);
  printf("ok %u\n", checks);
  return 0;
}
