#include "base/result.h"

#include <gtest/gtest.h>

namespace rlx {
namespace {

Result<int> half(int number) {
  if (number % 2 != 0) return Error(Errc::InvalidArgument, std::to_string(number) + " is odd");
  return number / 2;
}
Result<int> quarter(int number) {
  RLX_TRY(const int once, half(number));
  RLX_TRY(const int twice, half(once));
  return twice;
}
Status evenOnly(int number) {
  RLX_OK(half(number));
  return Ok{};
}

TEST(Result, ValuesAndErrorsPassThroughTheMacros) {
  EXPECT_EQ(*quarter(12), 3);
  auto failed = quarter(6);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message(), "3 is odd");
  EXPECT_TRUE(evenOnly(2));
  EXPECT_FALSE(evenOnly(3));
}

TEST(Result, TextShowsEveryFrame) {
  const Error error = Error(Errc::ShapeMismatch, "matmul: 128 against 64")
                          .note("while compiling 'f'")
                          .hint("transpose it")
                          .node("mm_1");
  EXPECT_EQ(error.text(),
            "error E0301: matmul: 128 against 64 [node mm_1]\n"
            "  note: while compiling 'f'\n  hint: transpose it");
  EXPECT_EQ(error.clone().text(), error.text());
  EXPECT_GT(error.where().line, 0);
}

TEST(Result, CodesAreFoundByTheirSpellings) {
  for (const std::string_view text : {"E0412", "e0412", "0412", "412"}) {
    const ErrcInfo* found = findErrc(text);
    ASSERT_NE(found, nullptr) << text;
    EXPECT_EQ(found->code, Errc::NotDispatchable);
  }
  for (const std::string_view text : {"", "E", "E9999", "12x", "E00412"})
    EXPECT_EQ(findErrc(text), nullptr) << text;
  EXPECT_EQ(spelling(Errc::Usage), "E0102");
  EXPECT_EQ(info(Errc::Internal).exitCode, 70);
}

TEST(ResultDeathTest, ReadingAFailedResultIsACheck) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH((void)*half(1), "value of a failed Result");
}

}  // namespace
}  // namespace rlx
