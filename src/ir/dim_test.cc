#include "ir/dim.h"

#include <gtest/gtest.h>

namespace rlx {
namespace {

Dim dim(std::string_view text) {
  auto d = parseDim(text);
  EXPECT_TRUE(d) << text << (d ? "" : ": " + d.error().text());
  return d ? *std::move(d) : Dim(-1);
}

Bindings bind(std::initializer_list<std::pair<const char*, int64_t>> values) {
  Bindings b;
  for (const auto& [symbol, value] : values) b.set(symbol, value);
  return b;
}

TEST(Dim, HasOneNormalForm) {
  const struct {
    const char *a, *b, *text;
  } cases[] = {
      {"n + 1", "1 + n", "n + 1"},
      {"n + n", "2*n", "2*n"},
      {"(a + b) * (a + b)", "a*a + 2*a*b + b*b", "a*a + 2*a*b + b*b"},
      {"n - n", "0", "0"},
      {"n*0 + 3", "3", "3"},
      {"-n + 2", "2 - n", "-n + 2"},
      {"(n)", "n", "n"},
      {"2*(n + 1) - 2", "n*2", "2*n"},
      {"floordiv(4*n + 1, 2)", "2*n + floordiv(1, 2)", "2*n"},
      {"floordiv(2*n, 2)", "n", "n"},
      {"floordiv(n + 7, 2)", "floordiv(7 + n, 2)", "floordiv(n + 7, 2)"},
      {"mod(6*n, 3)", "0", "0"},
      {"mod(7, 4)", "3", "3"},
      {"mod(-7, 4)", "1", "1"},
      {"floordiv(-7, 2)", "-4", "-4"},
      {"floordiv(n, -1)", "-n", "-n"},
      {"max(n, n + 1)", "n + 1", "n + 1"},
      {"min(n, n + 1)", "n", "n"},
      {"max(n, 4)", "max(n, 4)", "max(n, 4)"},
      {"min(a, b) + min(a, b)", "2*min(a, b)", "2*min(a, b)"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(dim(c.a), dim(c.b)) << c.a << " and " << c.b;
    EXPECT_EQ(dim(c.a).text(), c.text) << c.a;
    EXPECT_EQ(dim(dim(c.a).text()), dim(c.a)) << c.a;
  }
  EXPECT_FALSE(dim("n") == dim("m"));
  EXPECT_FALSE(dim("n") == dim("n + 1"));
  EXPECT_FALSE(dim("max(n, 4)") == dim("max(n, 5)"));
}

TEST(Dim, Evaluates) {
  const struct {
    const char* text;
    int64_t want;
  } cases[] = {
      {"n", 5},
      {"2*n + 1", 11},
      {"n*m", 15},
      {"n - 7", -2},
      {"floordiv(n, 2)", 2},
      {"floordiv(n - 10, 2)", -3},
      {"mod(n, 3)", 2},
      {"mod(n - 7, 3)", 1},
      {"max(n, m)", 5},
      {"min(n, m)", 3},
      {"floordiv(n - 8, m)", -1},
      {"floordiv(n + 1, m) * m", 6},
      {"mod(0 - n, m)", 1},
  };
  for (const auto& c : cases) {
    auto v = dim(c.text).evaluate(bind({{"n", 5}, {"m", 3}}));
    ASSERT_TRUE(v) << c.text;
    EXPECT_EQ(*v, c.want) << c.text;
  }
}

TEST(Dim, EvaluationFailsWithAReason) {
  const int64_t big = int64_t{1} << 40;
  const struct {
    const char *text, *reason;
  } cases[] = {
      {"k", "'k' has no value"},
      {"n*n", "overflows"},
      {"n + 9223372036854775807", "overflows"},
      {"floordiv(n, z)", "division by zero"},
      {"mod(n, z)", "division by zero"},
  };
  for (const auto& c : cases) {
    auto v = dim(c.text).evaluate(bind({{"n", big}, {"z", 0}}));
    ASSERT_FALSE(v) << c.text;
    EXPECT_EQ(v.error().code(), Errc::InvalidArgument);
    EXPECT_NE(v.error().message().find(c.reason), std::string::npos) << v.error().message();
  }
}

TEST(Dim, DividesExactly) {
  const struct {
    const char *a, *b, *quotient;  // null: does not divide
  } cases[] = {
      {"6*n", "3", "2*n"},       {"n*m", "n", "m"},       {"n*m + n", "n", "m + 1"},
      {"2*n + 2", "n + 1", "2"}, {"n", "n", "1"},         {"0", "n", "0"},
      {"n", "2", nullptr},       {"n + 1", "n", nullptr}, {"n", "0", nullptr},
      {"n", "n + 1", nullptr},   {"12", "5", nullptr},    {"-12", "4", "-3"},
  };
  for (const auto& c : cases) {
    Dim q;
    EXPECT_EQ(divideExactly(dim(c.a), dim(c.b), &q), c.quotient != nullptr) << c.a << " / " << c.b;
    if (c.quotient) {
      EXPECT_EQ(q, dim(c.quotient)) << c.a << " / " << c.b;
    }
  }
}

TEST(Dim, Substitutes) {
  const Dim d = dim("floordiv(n + 2, 2) * m + max(n, m)");
  EXPECT_EQ(d.substitute({{"n", Dim(4)}}), dim("3*m + max(4, m)"));
  EXPECT_EQ(d.substitute({{"n", dim("2*k")}, {"m", Dim(3)}}), dim("3*k + 3 + max(2*k, 3)"));
  EXPECT_EQ(d.substitute({{"x", Dim(4)}}), d);
}

TEST(Dim, ListsSymbolsSortedOnce) {
  std::vector<std::string> symbols;
  dim("z*a + mod(b, z) + a").symbols(symbols);
  EXPECT_EQ(symbols, (std::vector<std::string>{"a", "b", "z"}));
  EXPECT_EQ(dim("a").symbolName(), "a");
  EXPECT_EQ(dim("2*a").symbolName(), "");
  EXPECT_EQ(dim("a*a").symbolName(), "");
  EXPECT_EQ(dim("max(a, b)").symbolName(), "");
}

TEST(Dim, ArithmeticBeyond64BitsIsNeverASize) {
  const Dim big(INT64_MAX), half(int64_t{1} << 62), n = Dim::symbol("n");
  const struct {
    const char* what;
    Dim value;
  } cases[] = {
      {"sum", big + Dim(1)},
      {"product", half * Dim(2)},
      {"coefficient", half * n * Dim(4)},
      {"like terms", big * n + n},
      {"extents", elements({half, Dim(16)})},
      {"negated", Dim(0) - Dim(INT64_MIN)},
      {"carried on", (big + Dim(1)) * Dim(0)},
      {"divided", floorDiv(big + Dim(1), Dim(2))},
      {"compared", max(big + Dim(1), n)},
  };
  for (const auto& c : cases) {
    EXPECT_TRUE(c.value.overflows()) << c.what;
    EXPECT_FALSE(c.value.isConst()) << c.what;
    EXPECT_FALSE(c.value == c.value) << c.what;
    EXPECT_FALSE(c.value.evaluate(bind({{"n", 1}}))) << c.what;
    EXPECT_FALSE(parseDim(c.value.text())) << c.what;
  }
  EXPECT_EQ(big + Dim(-1), Dim(INT64_MAX - 1));
}

TEST(Dim, RefusesHostileText) {
  std::string deep(200, '('), wide = "a + b + c + d + e + f", chain;
  deep += "n" + std::string(200, ')');
  std::string power = "(" + wide + ")";
  for (int k = 0; k < 40; ++k) power += "*(" + wide + ")";
  std::string nested = "n";
  for (int k = 0; k < 100; ++k) nested = "max(" + nested + ", 1)";
  for (int k = 0; k < 3000; ++k) chain += "n*";
  const std::string cases[] = {
      "",
      "+",
      "n +",
      "n n",
      "2 n",
      "n)",
      "(n",
      "max(n)",
      "max(n, 1",
      "pow(n, 2)",
      "n - ",
      "n^2",
      "99999999999999999999",
      "9223372036854775807 + 1",
      "9223372036854775807*9223372036854775807",
      "floordiv(0 - 9223372036854775807 - 1, 0 - 1)",
      deep,
      power,
      nested,
      chain + "n",
      std::string(5000, 'n'),
      "n\xff",
      std::string("n\0", 2),
  };
  for (const std::string& c : cases) {
    auto d = parseDim(c);
    EXPECT_FALSE(d) << c.substr(0, 60) << " became " << (d ? d->text().substr(0, 60) : "");
  }
}

}  // namespace
}  // namespace rlx
