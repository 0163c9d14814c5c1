#include "ir/dtype.h"

#include <gtest/gtest.h>

namespace rlx {
TEST(DType, NamesRoundTrip) {
  for (std::size_t i = 0; i < kDTypeCount; ++i)
    EXPECT_EQ(parseDType(kDTypes[i].name), static_cast<DType>(i));
  EXPECT_FALSE(parseDType("f31"));
}
TEST(DType, StorageCountsWholeBlocks) {
  EXPECT_EQ(storageBytes(DType::F32, 3), 12);
  EXPECT_EQ(storageBytes(DType::I4, 3), 2);
  EXPECT_EQ(storageBytes(DType::Q4_0, 33), 36);
}
}  // namespace rlx
