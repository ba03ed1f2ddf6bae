#include "core/os/kernel/auxiliary_vector.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/auxv.h>

namespace seemalloc::os {
namespace {

TEST(AuxiliaryVector, HasTheValuesOfGetauxval) {
  for (unsigned long type = 1; type < 64; type++) {
    if (type == AT_HWCAP) continue;  // the C library returns its own selection
    EXPECT_EQ(auxiliary_value(type), getauxval(type)) << type;
  }
  EXPECT_NE(auxiliary_value(AT_PAGESZ), 0u);
  EXPECT_EQ(auxiliary_value(12345), 0u);
}

}  // namespace
}  // namespace seemalloc::os
