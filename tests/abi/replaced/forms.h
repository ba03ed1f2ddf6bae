// The 20 replaceable operators, numbered, and which of them each calls by default ([new.delete.single], [new.delete.array]).
#pragma once

#include <cstddef>
#include <new>

enum Form {
  kNew, kNewArray, kNewAligned, kNewArrayAligned, kDelete, kDeleteArray, kDeleteAligned, kDeleteArrayAligned,  // others call these
  kNewNothrow, kNewArrayNothrow, kNewAlignedNothrow, kNewArrayAlignedNothrow,
  kDeleteSized, kDeleteArraySized, kDeleteNothrow, kDeleteArrayNothrow,
  kDeleteSizedAligned, kDeleteArraySizedAligned, kDeleteAlignedNothrow, kDeleteArrayAlignedNothrow,
  kForms
};

// The one that a form calls; itself: none.
constexpr Form kCalls[kForms] = {
    kNew, kNew, kNewAligned, kNewAligned, kDelete, kDelete, kDeleteAligned, kDeleteAligned,
    kNew, kNewArray, kNewAligned, kNewArrayAligned,
    kDelete, kDeleteArray, kDelete, kDeleteArray,
    kDeleteAligned, kDeleteArrayAligned, kDeleteAligned, kDeleteArrayAligned,
};

// A record of the calls of the program's own operators (own_operators.cc) since it was last cleared.
struct Seen {
  int calls;
  Form last;
  void* block;      // given or taken by the last
  size_t bytes;     // asked of it
  size_t alignment; // 0: none
};
extern Seen seen;
extern bool refuse;     // the program's operators new throw Refused
extern unsigned freed;  // blocks of the program's pool that came back
struct Refused {};
bool is_of_pool(const void* block);
