// The guards themselves: a device that writes past a buffer is caught.
#include "support/guarded_backends.h"

#include <gtest/gtest.h>

#include "runtime/registry.h"

namespace rlx {
namespace {

TEST(GuardedBackends, FindAWriteBehindABuffer) {
  const Backend* cpu = nullptr;
  for (const Backend* b : backends())
    if (b->name == "cpu") cpu = b;
  if (!cpu) GTEST_SKIP() << "a build without the cpu";
  auto device = cpu->open(OpenOptions{1, {}, 0});
  ASSERT_TRUE(device) << device.error().text();
  auto buffer = (*device)->allocate(10);
  ASSERT_TRUE(buffer);
  std::byte* p = (*device)->hostPointer(*buffer);
  std::vector<std::byte> out(10);
  p[9] = std::byte{1};
  EXPECT_TRUE((*device)->download(*buffer, 0, out));
  EXPECT_EQ(out[0], std::byte{0xff});
  EXPECT_FALSE((*device)->download(*buffer, 1, out));
  p[10] = std::byte{1};
  const Status s = (*device)->download(*buffer, 0, out);
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().message(), "a buffer of 10 bytes was written at byte 10");
  EXPECT_GT(test::guardsChecked(), 0);
}

}  // namespace
}  // namespace rlx
