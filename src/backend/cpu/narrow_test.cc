// The vector code for f16 and bf16 against base/half.h.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "backend/cpu/cpu.h"
#include "backend/cpu/vector_code.h"
#include "base/half.h"

namespace rlx::cpu {
namespace {

float value(F16 x) {
  return f16ToF32(x.bits);
}
float value(BF16 x) {
  return bf16ToF32(x.bits);
}
uint16_t rounded(float x, F16) {
  return f32ToF16(x);
}
uint16_t rounded(float x, BF16) {
  return f32ToBf16(x);
}

template <class T>
class Narrow : public testing::Test {
 protected:
  void SetUp() override {
    if (!activeIsa()) GTEST_SKIP() << "no vector instructions";
  }
};
using Types = testing::Types<F16, BF16>;
TYPED_TEST_SUITE(Narrow, Types);

TYPED_TEST(Narrow, EveryPatternWidens) {
  std::vector<TypeParam> from(0x10000);
  for (std::size_t k = 0; k < from.size(); ++k) from[k].bits = static_cast<uint16_t>(k);
  std::vector<float> to(from.size());
  widenRow(from.data(), to.data(), static_cast<int64_t>(from.size()));
  for (std::size_t k = 0; k < from.size(); ++k) {
    const float want = value(from[k]);
    ASSERT_TRUE(std::isnan(want) ? std::isnan(to[k])
                                 : std::bit_cast<uint32_t>(to[k]) == std::bit_cast<uint32_t>(want))
        << k;
  }
}

// Every value of the narrow type, what lies a little beside it, and what lies halfway to the next.
TYPED_TEST(Narrow, RoundsToNearestEven) {
  std::vector<float> from;
  for (uint32_t k = 0; k < 0x10000; ++k) {
    const TypeParam at{static_cast<uint16_t>(k)}, next{static_cast<uint16_t>(k ^ 1)};
    const auto halfway = static_cast<float>((double{value(at)} + double{value(next)}) / 2);
    for (const float x : {value(at), halfway})
      for (const float beside : {-HUGE_VALF, HUGE_VALF})
        from.push_back(x), from.push_back(std::nextafter(x, beside));
  }
  std::vector<TypeParam> to(from.size());
  narrowRow(from.data(), to.data(), static_cast<int64_t>(from.size()));
  for (std::size_t k = 0; k < from.size(); ++k)
    ASSERT_EQ(to[k].bits, rounded(from[k], TypeParam{})) << from[k];
}

TYPED_TEST(Narrow, TouchesNothingBehind) {
  constexpr uint16_t kUntouched = 0x1234;
  for (std::size_t count = 0; count < 20; ++count) {
    const std::vector<TypeParam> narrow(count, TypeParam{0x3f80});
    std::vector<float> wide(count + 8, 7.0f);
    widenRow(narrow.data(), wide.data(), static_cast<int64_t>(count));
    const std::vector<float> exact(wide.begin(), wide.begin() + static_cast<int>(count));
    std::vector<TypeParam> back(count + 8, TypeParam{kUntouched});
    narrowRow(exact.data(), back.data(), static_cast<int64_t>(count));
    for (std::size_t k = 0; k < count + 8; ++k) {
      ASSERT_EQ(wide[k], k < count ? value(TypeParam{0x3f80}) : 7.0f) << k;
      ASSERT_EQ(back[k].bits, k < count ? 0x3f80 : kUntouched) << k;
    }
  }
}

}  // namespace
}  // namespace rlx::cpu
