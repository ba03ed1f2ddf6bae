#include "core/profile/pprof/proto.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <string>

#include "core/os/kernel/syscall.h"

namespace seemalloc::profile {
namespace {

std::string hex(ProtoWriter& writer) {
  std::string text;
  for (size_t i = 0; i < writer.bytes().size(); i++) {
    char digits[3];
    snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned char>(writer.bytes()[i]));
    text += digits;
  }
  return text;
}

TEST(ProtoWriter, EncodesNumbers) {
  ProtoWriter writer;
  writer.number(1, 150);
  writer.number(2, 0);
  writer.number(16, 1);
  writer.number(3, UINT64_MAX);
  EXPECT_EQ(hex(writer),
            "089601"
            "800101"
            "18ffffffffffffffffff01");
}

TEST(ProtoWriter, EncodesTextsAndMessages) {
  ProtoWriter writer;
  writer.text(2, "testing", 7);
  writer.begin(3);
  writer.number(1, 150);
  writer.begin(4);
  writer.varint(3);
  writer.varint(270);
  writer.end();
  writer.end();
  writer.begin(5);
  writer.end();
  EXPECT_EQ(hex(writer),
            "120774657374696e67"
            "1a08"
            "089601"
            "2203"
            "038e02"
            "2a00");
}

TEST(ProtoWriter, ReservesBytesForLongLengths) {
  for (size_t length : {127, 128, 300, 16383, 16384, 300000}) {
    ProtoWriter writer;
    writer.begin(1);
    for (size_t i = 0; i < length; i++) writer.varint(i % 100);
    writer.end();
    writer.number(2, 7);
    ASSERT_FALSE(writer.failed());
    const unsigned char* at = reinterpret_cast<unsigned char*>(writer.bytes().data());
    EXPECT_EQ(*at++, 0x0a);
    size_t decoded = 0;
    for (int shift = 0;; shift += 7) {
      decoded |= static_cast<size_t>(*at & 0x7f) << shift;
      if ((*at++ & 0x80) == 0) break;
    }
    EXPECT_EQ(decoded, length);
    for (size_t i = 0; i < length; i++) ASSERT_EQ(at[i], i % 100);
    EXPECT_EQ(at[length], 0x10);
    EXPECT_EQ(at[length + 1], 7);
  }
}

TEST(ProtoWriter, ReportsRefusedMemory) {
  ProtoWriter writer;
  writer.number(1, 1);
  os::fault_hook = [](long number) -> long {
    return number == SYS_mmap || number == SYS_mremap ? -12 : 0;
  };
  for (int i = 0; i < 100000; i++) {
    writer.begin(1);
    writer.text(2, "0123456789", 10);
    writer.end();
  }
  os::fault_hook = nullptr;
  EXPECT_TRUE(writer.failed());
  writer.number(1, 1);
  EXPECT_TRUE(writer.failed());
}

}  // namespace
}  // namespace seemalloc::profile
