#include "ir/element.h"

#include <gtest/gtest.h>

#include <vector>

namespace rlx {
namespace {

const double kInf = HUGE_VAL, kNan = std::nan("");

TEST(Element, EveryNarrowPatternRoundTrips) {
  for (const DType t : {DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2, DType::F4E2M1})
    for (uint64_t bits = 0; bits < uint64_t{1} << info(t).bits; ++bits) {
      const double v = decodeFloat(t, bits);
      if (std::isfinite(v)) {
        EXPECT_EQ(encodeFloat(t, v), bits) << name(t) << " " << bits;
      }
    }
}

TEST(Element, RoundsHalfWayToEvenBetweenAllNeighbours) {
  for (const DType t : {DType::F8E4M3, DType::F8E5M2, DType::F4E2M1})
    for (uint64_t bits = 0;
         std::isfinite(decodeFloat(t, bits + 1)) && bits + 1 < uint64_t{1} << (info(t).bits - 1);
         ++bits) {
      const double a = decodeFloat(t, bits), b = decodeFloat(t, bits + 1), half = (a + b) / 2;
      EXPECT_EQ(encodeFloat(t, half), bits + (bits & 1)) << name(t) << " " << bits;
      EXPECT_EQ(encodeFloat(t, std::nextafter(half, 0.0)), bits) << name(t) << " " << bits;
      EXPECT_EQ(encodeFloat(t, std::nextafter(half, kInf)), bits + 1) << name(t) << " " << bits;
    }
}

// Published patterns of the formats (OCP 8-bit floating point; OCP microscaling).
TEST(Element, KnownValues) {
  EXPECT_EQ(decodeFloat(DType::F8E4M3, 0x7e), 448);
  EXPECT_EQ(decodeFloat(DType::F8E4M3, 0x01), 0x1p-9);
  EXPECT_TRUE(std::isnan(decodeFloat(DType::F8E4M3, 0xff)));
  EXPECT_EQ(encodeFloat(DType::F8E4M3, 464), 0x7eu);
  EXPECT_EQ(encodeFloat(DType::F8E4M3, -kInf), 0xfeu);
  EXPECT_EQ(encodeFloat(DType::F8E4M3, kNan) & 0x7f, 0x7fu);
  EXPECT_EQ(decodeFloat(DType::F8E5M2, 0x7b), 57344);
  EXPECT_EQ(decodeFloat(DType::F8E5M2, 0xfc), -kInf);
  EXPECT_EQ(encodeFloat(DType::F8E5M2, 1e9), 0x7bu);
  EXPECT_TRUE(std::isnan(roundTo(DType::F8E5M2, kNan)));
  const std::vector<double> f4 = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (std::size_t k = 0; k < f4.size(); ++k) {
    EXPECT_EQ(decodeFloat(DType::F4E2M1, k), f4[k]);
    EXPECT_EQ(decodeFloat(DType::F4E2M1, k | 8), -f4[k]);
  }
  EXPECT_EQ(roundTo(DType::F4E2M1, 100), 6);
}

TEST(Element, LimitsAgreeWithTheLanguage) {
  EXPECT_EQ(epsilon(DType::F32), static_cast<double>(std::numeric_limits<float>::epsilon()));
  EXPECT_EQ(epsilon(DType::F64), std::numeric_limits<double>::epsilon());
  EXPECT_EQ(smallestPositive(DType::F32),
            static_cast<double>(std::numeric_limits<float>::denorm_min()));
  EXPECT_EQ(smallestPositive(DType::F64), std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(smallestPositive(DType::F8E4M3), decodeFloat(DType::F8E4M3, 1));
  EXPECT_EQ(smallestPositive(DType::F4E2M1), 0.5);
  EXPECT_EQ(epsilon(DType::I32), 0);
}

TEST(Element, IntegersSaturateAndWrap) {
  struct Case {
    DType t;
    double v;
    int64_t want;
  };
  for (const Case& c : std::vector<Case>{{DType::I8, 300, 127},
                                         {DType::I8, -300, -128},
                                         {DType::U8, -1, 0},
                                         {DType::U8, 255.9, 255},
                                         {DType::I4, 9, 7},
                                         {DType::U4, 99, 15},
                                         {DType::I64, 1e30, INT64_MAX},
                                         {DType::I64, -1e30, INT64_MIN},
                                         {DType::U64, 1e30, -1},
                                         {DType::I32, kNan, 0},
                                         {DType::Bool, kNan, 1},
                                         {DType::I16, -2.9, -2}})
    EXPECT_EQ(saturateInteger(c.t, c.v), c.want) << name(c.t) << " " << c.v;
  EXPECT_EQ(wrapInteger(DType::I8, 200), -56);
  EXPECT_EQ(wrapInteger(DType::I4, 8), -8);
  EXPECT_EQ(wrapInteger(DType::U16, -1), 65535);
}

TEST(Element, PackedElementsShareBytes) {
  std::vector<std::byte> bytes(2);
  for (int64_t k = 0; k < 3; ++k) setElementBits(DType::U4, bytes, k, static_cast<uint64_t>(k + 9));
  EXPECT_EQ(bytes[0], std::byte{0xa9});
  for (int64_t k = 0; k < 3; ++k)
    EXPECT_EQ(elementBits(DType::U4, bytes, k), static_cast<uint64_t>(k + 9));
  setElementBits(DType::U4, bytes, 0, 1);
  EXPECT_EQ(bytes[0], std::byte{0xa1});
}

}  // namespace
}  // namespace rlx
