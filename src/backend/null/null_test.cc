#include <gtest/gtest.h>

#include "kir/kernels_for_test.h"
#include "runtime/device.h"

namespace rlx::backend {
const Backend& nullBackend();
}

namespace rlx {
namespace {

TEST(Null, keepsMemoryAndCountsLaunches) {
  const Backend& backend = backend::nullBackend();
  auto device = backend.open({});
  ASSERT_TRUE(device);
  const auto s = kir::test::map(
      "id", DType::F32, DType::F32, kir::test::bytesOf(kir::test::ramp(8)),
      [](const kir::Expr& v) { return v; }, 1);
  auto code = backend.emit(s.kernel, (*device)->caps());
  ASSERT_TRUE(code) << code.error().text();
  EXPECT_NE(code->text.find("extern \"C\" void k_id("), std::string::npos);
  auto kernel = (*device)->load(*code);
  auto x = (*device)->allocate(32), y = (*device)->allocate(32);
  ASSERT_TRUE(kernel && x && y);
  ASSERT_TRUE((*device)->upload(*x, 0, s.globals[0]));
  const BufferSlice slices[] = {{*x, 0, 32}, {*y, 0, 32}};
  ASSERT_TRUE((*device)->launch(*kernel, s.grid, slices, s.params));
  EXPECT_FALSE((*device)->launch(*kernel, s.grid, {}, s.params));
  ASSERT_TRUE((*device)->synchronize());
  EXPECT_NE((*device)->description().find("1 launches"), std::string::npos);
  auto back = s.globals[0];
  ASSERT_TRUE((*device)->download(*x, 0, back));
  EXPECT_EQ(back, s.globals[0]);
  EXPECT_FALSE((*device)->upload(*x, 8, s.globals[0]));
  (*device)->release(*x);
  EXPECT_FALSE((*device)->download(*x, 0, back));
}

}  // namespace
}  // namespace rlx
