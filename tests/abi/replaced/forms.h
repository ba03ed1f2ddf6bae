// The 20 replaceable operators, numbered, and the operator that each of them calls by default
// ([new.delete.single], [new.delete.array]).
#pragma once

#include <cstddef>
#include <new>

enum Form {
  // The other forms call these.
  kNew,
  kNewArray,
  kNewAligned,
  kNewArrayAligned,
  kDelete,
  kDeleteArray,
  kDeleteAligned,
  kDeleteArrayAligned,
  kNewNothrow,
  kNewArrayNothrow,
  kNewAlignedNothrow,
  kNewArrayAlignedNothrow,
  kDeleteSized,
  kDeleteArraySized,
  kDeleteNothrow,
  kDeleteArrayNothrow,
  kDeleteSizedAligned,
  kDeleteArraySizedAligned,
  kDeleteAlignedNothrow,
  kDeleteArrayAlignedNothrow,
  kForms
};

// The form that a form's default version calls; the form itself if it calls none.
constexpr Form kCalls[kForms] = {
    kNew,           kNew,
    kNewAligned,    kNewAligned,
    kDelete,        kDelete,
    kDeleteAligned, kDeleteAligned,
    kNew,           kNewArray,
    kNewAligned,    kNewArrayAligned,
    kDelete,        kDeleteArray,
    kDelete,        kDeleteArray,
    kDeleteAligned, kDeleteArrayAligned,
    kDeleteAligned, kDeleteArrayAligned,
};

// Records the calls of the program's own operators (own_operators.cc) since it was last cleared.
struct CallRecord {
  int calls;
  Form last;
  void* block;       // returned or taken by the last call
  size_t bytes;      // requested size
  size_t alignment;  // 0: none
};
extern CallRecord seen;
extern bool refuse;     // the program's operators new throw Refused
extern unsigned freed;  // blocks of the program's pool that were freed
struct Refused {};
bool is_of_pool(const void* block);
