#include "base/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace rlx {
namespace {

TEST(Text, EditDistance) {
  EXPECT_EQ(editDistance("", ""), 0);
  EXPECT_EQ(editDistance("abc", ""), 3);
  EXPECT_EQ(editDistance("kitten", "sitting"), 3);
  EXPECT_EQ(editDistance("cup", "cpu"), 1);
  EXPECT_EQ(editDistance(std::string(1000, 'a'), std::string(1000, 'a')), 0);
}

TEST(Text, NearestName) {
  const std::string_view names[] = {"cpu", "vulkan", "reference", "cuda"};
  EXPECT_EQ(nearestName("vulcan", names), "vulkan");
  EXPECT_EQ(nearestName("CPU", names), "cpu");
  EXPECT_EQ(nearestName("cup", names), "cpu");
  EXPECT_EQ(nearestName("metal", names), "");
  EXPECT_EQ(didYouMean("vulkn", names), "; did you mean 'vulkan'?");
  EXPECT_EQ(didYouMean("zzz", names), "");
  EXPECT_EQ(nearestName("x", {}), "");
}

TEST(Text, HumanBytes) {
  EXPECT_EQ(humanBytes(0), "0 B");
  EXPECT_EQ(humanBytes(1023), "1023 B");
  EXPECT_EQ(humanBytes(1536), "1.50 KiB");
  EXPECT_EQ(humanBytes(91435008), "87.2 MiB");
  EXPECT_EQ(humanBytes((uint64_t{1} << 20) - 1), "1.00 MiB");
  EXPECT_EQ(humanBytes(UINT64_MAX), "16.0 EiB");
}

TEST(Text, HumanSeconds) {
  EXPECT_EQ(humanSeconds(0), "0 s");
  EXPECT_EQ(humanSeconds(850e-9), "850 ns");
  EXPECT_EQ(humanSeconds(12.5e-6), "12.5 us");
  EXPECT_EQ(humanSeconds(3.4e-3), "3.40 ms");
  EXPECT_EQ(humanSeconds(0.9999), "1.00 s");
  EXPECT_EQ(humanSeconds(245), "4 min 05 s");
  EXPECT_EQ(humanSeconds(7260), "2 h 01 min");
  EXPECT_EQ(humanSeconds(-0.002), "-2.00 ms");
  EXPECT_EQ(humanSeconds(std::nan("")), "unknown");
  EXPECT_EQ(humanSeconds(std::numeric_limits<double>::infinity()), "forever");
}

TEST(Text, GroupDigits) {
  EXPECT_EQ(groupDigits(0), "0");
  EXPECT_EQ(groupDigits(999), "999");
  EXPECT_EQ(groupDigits(1000), "1,000");
  EXPECT_EQ(groupDigits(UINT64_MAX), "18,446,744,073,709,551,615");
}

TEST(Text, Utf8) {
  EXPECT_TRUE(isUtf8("plain \xc3\xa4 \xe4\xb8\xad \xf0\x9f\x98\x80"));
  EXPECT_TRUE(isUtf8(""));
  EXPECT_TRUE(isUtf8(std::string_view("\0", 1)));
  EXPECT_TRUE(isUtf8("\xf4\x8f\xbf\xbf"));
  const std::string_view bad[] = {"\x80",
                                  "\xc3",
                                  "\xc0\xaf",
                                  "\xe0\x80\x80",
                                  "\xed\xa0\x80",
                                  "\xf4\x90\x80\x80",
                                  "\xf0\x80\x80\x80",
                                  "\xff",
                                  "\xe4\xb8",
                                  "\xc3("};
  for (const std::string_view text : bad) EXPECT_FALSE(isUtf8(text));
}

TEST(Text, ShortenCutsBetweenCodePoints) {
  EXPECT_EQ(shorten("abc", 3), "abc");
  EXPECT_EQ(shorten("abcdefgh", 6), "abc...");
  EXPECT_EQ(shorten("ab\xc3\xa4xyz", 6), "ab...");
}

TEST(Text, TableAligns) {
  Table table({"op", "count"}, {Table::Align::Left, Table::Align::Right});
  table.row({"matmul", "12"});
  table.row({"\xe4\xb8\xad", "3"});
  table.row({"x"});
  EXPECT_EQ(table.text(),
            "op      count\n"
            "matmul     12\n"
            "\xe4\xb8\xad          3\n"
            "x\n");
}

}  // namespace
}  // namespace rlx
