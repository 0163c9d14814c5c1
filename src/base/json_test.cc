#include "base/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/fuzz.h"

int fuzzJson(const uint8_t* data, std::size_t size);

namespace rlx {
namespace {

constexpr std::string_view kConfig = R"({
  "config": {"hidden_size": 384, "eps": 1e-12, "name": "mini", "tied": false, "none": null,
             "layers": [1, 2, 3], "tags": ["a", "b"], "big": 18446744073709551615,
             "low": -9223372036854775808, "huge": 18446744073709551616, "half": 0.5},
  "a.b": 1
})";

TEST(Json, TypedReaders) {
  auto document = parseJson(kConfig);
  ASSERT_TRUE(document);
  const JsonRef root = document->root();
  EXPECT_EQ(*root.at("config.hidden_size")->asInt(), 384);
  EXPECT_EQ(*root.at("config.eps")->asDouble(), 1e-12);
  EXPECT_EQ(*root.at("config.hidden_size")->asDouble(), 384.0);
  EXPECT_EQ(*root.at("config.name")->asString(), "mini");
  EXPECT_FALSE(*root.at("config.tied")->asBool());
  EXPECT_EQ(*root.at("config.layers")->asInts(), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(*root.at("config.tags")->asStrings(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(*root.member("a.b")->asInt(), 1);
  const JsonRef config = *root.at("config");
  EXPECT_EQ(*config.intOr("hidden_size", 1), 384);
  EXPECT_EQ(*config.intOr("absent", 7), 7);
  EXPECT_EQ(*config.stringOr("none", "x"), "x");
  EXPECT_EQ(*config.doubleOr("half", 0), 0.5);
  EXPECT_TRUE(*config.boolOr("absent", true));
  EXPECT_FALSE(config.intOr("name", 1));
  EXPECT_EQ(root.members()->size(), 2u);
}

TEST(Json, SixtyFourBitIntegersAreExact) {
  auto document = parseJson(kConfig);
  ASSERT_TRUE(document);
  const JsonRef config = *document->root().at("config");
  EXPECT_EQ(*config.at("big")->asUint(), UINT64_MAX);
  EXPECT_EQ(*config.at("low")->asInt(), INT64_MIN);
  EXPECT_FALSE(config.at("big")->asInt());
  EXPECT_FALSE(config.at("low")->asUint());
  EXPECT_FALSE(config.at("huge")->asUint());
  EXPECT_FALSE(config.at("half")->asInt());
}

TEST(Json, ErrorsNameTheEntry) {
  auto document = parseJson(kConfig);
  ASSERT_TRUE(document);
  const JsonRef root = document->root();
  auto wrong = root.at("config.name")->asInt();
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message(),
            "'config.name': expected a 64-bit integer, found string \"mini\"");
  auto missing = root.at("config.hiden_size");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), Errc::NotFound);
  EXPECT_EQ(missing.error().message(), "'config' has no entry 'hiden_size'");
  EXPECT_EQ(missing.error().hint(), "did you mean 'hidden_size'?");
  auto through = root.at("config.name.x");
  ASSERT_FALSE(through);
  EXPECT_EQ(through.error().code(), Errc::BadFile);
  auto tags = root.at("config.tags")->asInts();
  ASSERT_FALSE(tags);
  EXPECT_EQ(tags.error().message(),
            "'config.tags[0]': expected a 64-bit integer, found string \"a\"");
}

TEST(Json, RefusesWhatIsNotJson) {
  struct Case {
    std::string_view text;
    std::string_view part;
  };
  const Case cases[] = {
      {"", "line 1"},
      {"{", "line 1"},
      {"{\"a\":1,}", "column 8"},
      {"[1] 2", "column 5"},
      {"\n\n[1,", "line 3"},
      {"nul", "line 1"},
      {"\"\xff\"", "UTF-8"},
      {"[1e999]", "overflow"},
      {"[NaN]", "line 1"},
      {"// x\n1", "line 1"},
      {"\"\\ud800\"", "surrogate"},
  };
  for (const Case& c : cases) {
    auto document = parseJson(c.text);
    ASSERT_FALSE(document) << c.text;
    EXPECT_EQ(document.error().code(), Errc::BadFile) << c.text;
    EXPECT_NE(document.error().message().find(c.part), std::string::npos)
        << c.text << ": " << document.error().message();
    EXPECT_EQ(document.error().message().find("json.exception"), std::string::npos);
  }
}

TEST(Json, RefusesDuplicateKeys) {
  auto document = parseJson(R"({"a":1,"b":{"c":1,"c":2}})");
  ASSERT_FALSE(document);
  EXPECT_EQ(document.error().code(), Errc::BadFile);
  EXPECT_NE(document.error().message().find("duplicate key 'c'"), std::string::npos);
  EXPECT_TRUE(parseJson(R"({"a":{"c":1},"b":{"c":2}})"));
}

TEST(Json, DepthIsLimited) {
  for (const auto& [open, close] : {std::pair("[", "]"), std::pair("{\"a\":", "}")}) {
    std::string deep;
    for (int i = 0; i < 50000; ++i) deep += open;
    deep += "1";
    for (int i = 0; i < 50000; ++i) deep += close;
    auto document = parseJson(deep);
    ASSERT_FALSE(document);
    EXPECT_EQ(document.error().code(), Errc::FileBudget);
    // Even a budget that allows it must not end in a crash.
    EXPECT_TRUE(parseJson(deep, {.maxDepth = 1 << 20}));
  }
  EXPECT_TRUE(parseJson("[[1]]", {.maxDepth = 2}));
  EXPECT_FALSE(parseJson("[[[1]]]", {.maxDepth = 2}));
}

TEST(Json, SizeIsLimited) {
  auto document = parseJson("[1, 2, 3]", {.maxBytes = 8});
  ASSERT_FALSE(document);
  EXPECT_EQ(document.error().code(), Errc::FileBudget);
}

TEST(Json, Quotes) {
  EXPECT_EQ(quoteJson("a\"b\\\n\x01"), "\"a\\\"b\\\\\\n\\u0001\"");
  EXPECT_EQ(quoteJson("\xc3\xa4"), "\"\xc3\xa4\"");
  EXPECT_EQ(quoteJson("\xff"), "\"\xef\xbf\xbd\"");
}

TEST(Json, SurvivesMutations) {
  fuzzMutations(fuzzJson, {std::string(kConfig), R"(["\u00e4\ud83d\ude00", 1e5, -0, {}])"}, 3000);
}

}  // namespace
}  // namespace rlx
