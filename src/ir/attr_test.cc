#include "ir/attr.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace rlx {
namespace {

template <class T>
T readBack(const std::string& text) {
  T value{};
  std::string_view rest = text;
  EXPECT_TRUE(fromText(rest, value)) << text;
  EXPECT_TRUE(rest.empty()) << text << " leaves " << rest;
  return value;
}

TEST(AttrText, NumbersReadBackToTheSameBits) {
  for (const double v :
       {0.0, -0.0, 1.0, 0.1, -1e-5, 5e-324, 1.7976931348623157e308, 1.0 / 3,
        std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()}) {
    const double back = readBack<double>(toText(v));
    EXPECT_EQ(std::memcmp(&back, &v, sizeof v), 0) << v;
  }
  EXPECT_NE(readBack<double>(toText(std::nan(""))), readBack<double>("nan"));
  for (const int64_t v : {int64_t{0}, int64_t{-1}, INT64_MAX, INT64_MIN})
    EXPECT_EQ(readBack<int64_t>(toText(v)), v);
  EXPECT_TRUE(readBack<bool>("true"));
  EXPECT_FALSE(readBack<bool>("false"));
}

TEST(AttrText, StringsOfAnyBytes) {
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  for (const std::string& v : {std::string(), std::string("a\"b\\c\n"), all})
    EXPECT_EQ(readBack<std::string>(toText(v)), v);
}

TEST(AttrText, Lists) {
  EXPECT_EQ(toText(std::vector<int64_t>{}), "[]");
  EXPECT_EQ(readBack<std::vector<int64_t>>("[]"), std::vector<int64_t>{});
  EXPECT_EQ(readBack<std::vector<int64_t>>("[1,-2,3]"), (std::vector<int64_t>{1, -2, 3}));
  const Shape s{Dim(2), *parseDim("max(n, 4) + 1"), Dim::symbol("m")};
  EXPECT_EQ(readBack<Shape>(toText(s)), s);
}

TEST(AttrText, MalformedTextIsRefused) {
  for (const std::string_view text : {"", "x", "-", "99999999999999999999"}) {
    std::string_view t = text;
    int64_t v = 0;
    EXPECT_FALSE(fromText(t, v)) << text;
  }
  for (const std::string_view text : {"[", "[1", "[1,", "[,]", "1", "[1 2]"}) {
    std::string_view t = text;
    std::vector<int64_t> v;
    EXPECT_FALSE(fromText(t, v)) << text;
  }
  for (const std::string_view text : {"", "\"", "a", "\"\\x0", "\"\\xzz\"", "\"abc\\"}) {
    std::string_view t = text;
    std::string v;
    EXPECT_FALSE(fromText(t, v)) << text;
  }
  for (const std::string_view text : {"", "f31", "F32", "f32x"}) {
    std::string_view t = text;
    DType v{};
    EXPECT_FALSE(fromText(t, v)) << text;
  }
}

struct Optional {
  int64_t first = 0;
  std::optional<DType> middle = {};
  int64_t last = 0;
  RLX_FIELDS(first, middle, last)
};

TEST(AttrText, OptionalFieldsStandOnlyWithAValue) {
  const AttrsInfo& info = attrsInfo<Optional>();
  const auto readBackText = [&](std::string_view text) {
    const auto read = info.parse(text);
    return read ? info.print(read.get()) + std::string(text) : "";
  };
  const std::string without = Attrs::of(Optional{1, {}, 2}).text();
  const std::string with = Attrs::of(Optional{1, DType::I32, 2}).text();
  EXPECT_EQ(without, "{first=1 last=2}");
  EXPECT_EQ(with, "{first=1 middle=i32 last=2}");
  EXPECT_EQ(readBackText(without), without);
  EXPECT_EQ(readBackText(with), with);
  for (const std::string_view text :
       {"{first=1 middle= last=2}", "{first=1  last=2}", "{first=1 last=2 middle=i32}",
        "{first=1 middle=i32}", "{first=1 middle=i32 middle=i32 last=2}", "{middle=i32 last=2}"})
    EXPECT_EQ(readBackText(text), "") << text;
}

TEST(LiteralText, ReadsBackExactly) {
  const float inf = std::numeric_limits<float>::infinity();
  float payload = 0;
  const uint32_t bits = 0x7fc01234;
  std::memcpy(&payload, &bits, 4);
  const std::vector<float> many(65, 1.5f);
  const Literal cases[] = {
      Literal::of<float>(DType::F32, {4}, {0.1f, -0.0f, inf, -inf}),
      Literal::of<float>(DType::F32, {2}, {payload, 1}),
      Literal::of<float>(DType::F32, {65}, many),
      Literal::of<float>(DType::F32, {0, 3}, {}),
      Literal::of<float>(DType::F32, {}, {2}),
      Literal::of<double>(DType::F64, {2}, {std::nan("5"), -0.0}),
      Literal::of<double>(DType::F64, {2}, {5e-324, 1e308}),
      Literal::of<int64_t>(DType::I64, {2}, {INT64_MIN, INT64_MAX}),
      Literal::of<int32_t>(DType::I32, {2}, {INT32_MIN, INT32_MAX}),
      Literal::of<uint8_t>(DType::Bool, {3}, {1, 0, 1}),
      Literal::of<uint8_t>(DType::U8, {3}, {0, 128, 255}),
      Literal::of<uint8_t>(DType::I4, {3}, {0x21, 0x0f}),
      Literal::of<uint16_t>(DType::BF16, {1, 2}, {0x3f80, 0x7fc1}),
      Literal::of<uint64_t>(DType::C64, {1}, {0x4000000040400000u}),
      Literal::of<uint8_t>(DType::Q4_0, {32}, std::vector<uint8_t>(18, 7)),
  };
  for (const Literal& v : cases) EXPECT_EQ(readBack<Literal>(toText(v)), v) << toText(v);
}

TEST(LiteralText, SizesAreCheckedBeforeMemoryIsTaken) {
  for (const std::string_view text :
       {"f32[1099511627776]#00", "f32[-1]()", "f32[4294967296,4294967296]#", "f32[2](1)",
        "f32[2](1,2,3)", "f32[1]#0000", "f32[1]#zzzzzzzz", "f32[65](1)", "f16[1](1)", "f32[2",
        "f32[n](1)", "f32", "f32[1](1"}) {
    std::string_view t = text;
    Literal v;
    EXPECT_FALSE(fromText(t, v) && t.empty()) << text;
  }
}

TEST(Literal, ScalarsFollowTheCastRules) {
  const auto bytes = [](DType t, double v) {
    const Literal l = Literal::scalar(t, v);
    int64_t out = 0;
    std::memcpy(&out, l.bytes.data(), l.bytes.size());
    return out;
  };
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(bytes(DType::U8, -3), 0);
  EXPECT_EQ(bytes(DType::U8, 300), 255);
  EXPECT_EQ(bytes(DType::I64, inf), INT64_MAX);
  EXPECT_EQ(bytes(DType::I64, -inf), INT64_MIN);
  EXPECT_EQ(bytes(DType::I32, std::nan("")), 0);
  EXPECT_EQ(bytes(DType::I32, -2.9) & 0xffffffff, 0xfffffffe);
  EXPECT_EQ(bytes(DType::Bool, std::nan("")), 1);
  EXPECT_EQ(bytes(DType::F16, 65536) & 0xffff, 0x7c00);
  EXPECT_EQ(bytes(DType::U64, inf), -1);
}

}  // namespace
}  // namespace rlx
