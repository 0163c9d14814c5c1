#include "model/wordpiece.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/env.h"
#include "base/file.h"

namespace rlx {
namespace {

// tests/golden/wordpiece.json: texts, and the ids that the `tokenizers` package gives them. How it
// is made stands in tests/python/make_wordpiece_golden.py.
const Json& golden() {
  static const JsonDocument document =
      *readJson(joinPath(RLX_GOLDEN_DIR, "wordpiece.json"), {.maxBytes = 1 << 20});
  return document.json();
}

Json tokenizerOf(const Json& variant) {
  Json config = golden().at("variants").at("uncased").at("config");
  for (const auto& [key, value] : variant.at("config").items()) config[key] = value;
  Json vocab = Json::object();
  int id = 0;
  for (const Json& token : golden().at("vocab")) vocab[token.get<std::string>()] = id++;
  config["model"]["vocab"] = std::move(vocab);
  return config;
}

Result<WordPiece> make(const Json& tokenizer) {
  RLX_TRY(const JsonDocument document, parseJson(tokenizer.dump()));
  return WordPiece::fromJson(document);
}

void expectSame(const Result<Encoding>& found, const Json& expected, const std::string& what) {
  if (expected.contains("error")) {
    EXPECT_FALSE(found) << what;
    return;
  }
  ASSERT_TRUE(found) << what << ": " << found.error().text();
  const auto ids = expected.at("ids").get<std::vector<int32_t>>();
  EXPECT_EQ((*found).ids, ids) << what;
  EXPECT_EQ((*found).typeIds, expected.contains("types")
                                  ? expected.at("types").get<std::vector<int32_t>>()
                                  : std::vector<int32_t>(ids.size(), 0))
      << what;
  EXPECT_EQ((*found).attentionMask, expected.contains("mask")
                                        ? expected.at("mask").get<std::vector<int32_t>>()
                                        : std::vector<int32_t>(ids.size(), 1))
      << what;
}

void compareAll(const WordPiece& tokenizer, const Json& expected, const std::string& name,
                const EncodeOptions& options = {}) {
  std::size_t i = 0;
  for (const Json& text : golden().at("texts")) {
    const auto& first = text.get_ref<const std::string&>();
    expectSame(tokenizer.encode({.first = first}, options), expected.at("texts").at(i),
               name + ", text " + std::to_string(i));
    ++i;
  }
  i = 0;
  for (const Json& pair : golden().at("pairs")) {
    const auto& first = pair.at(0).get_ref<const std::string&>();
    const auto& second = pair.at(1).get_ref<const std::string&>();
    expectSame(tokenizer.encode({.first = first, .second = second}, options),
               expected.at("pairs").at(i), name + ", pair " + std::to_string(i));
    ++i;
  }
}

TEST(WordPiece, AgreesWithTheReferenceImplementation) {
  for (const auto& [name, variant] : golden().at("variants").items()) {
    auto tokenizer = make(tokenizerOf(variant));
    ASSERT_TRUE(tokenizer) << name << ": " << tokenizer.error().text();
    compareAll(*tokenizer, variant, name);
  }
}

TEST(WordPiece, VocabTxtGivesTheSame) {
  std::string vocab;
  for (const Json& token : golden().at("vocab")) vocab += token.get<std::string>() + "\n";
  auto uncased = WordPiece::fromVocab(vocab, nullptr);
  ASSERT_TRUE(uncased) << uncased.error().text();
  compareAll(*uncased, golden().at("variants").at("uncased"), "vocab.txt");
  EXPECT_EQ(uncased->size(), golden().at("vocab").size());
  EXPECT_EQ(uncased->token(2), "[CLS]");
  EXPECT_EQ(uncased->id("[SEP]"), 3);
  EXPECT_EQ(uncased->id("not a token"), std::nullopt);
  EXPECT_EQ(uncased->token(-1), "");
  EXPECT_EQ(uncased->token(1 << 20), "");

  auto config = parseJson(
      R"({"do_lower_case": false, "cls_token": {"content": "[CLS]"}, "model_max_length": 1e30})");
  ASSERT_TRUE(config);
  auto cased = WordPiece::fromVocab(vocab, &*config);
  ASSERT_TRUE(cased) << cased.error().text();
  compareAll(*cased, golden().at("variants").at("cased"), "vocab.txt, cased");

  auto limited = parseJson(R"({"model_max_length": 6})");
  ASSERT_TRUE(limited);
  auto cut = WordPiece::fromVocab(vocab, &*limited);
  ASSERT_TRUE(cut);
  compareAll(*cut, golden().at("variants").at("cut"), "vocab.txt, cut");
}

TEST(WordPiece, OptionsOverrideTheFile) {
  auto tokenizer = make(tokenizerOf(golden().at("variants").at("padded")));
  ASSERT_TRUE(tokenizer);
  compareAll(*tokenizer, golden().at("variants").at("uncased"), "overridden",
             {.maxLength = EncodeOptions::kNoLimit, .padding = Padding::None});
  auto bare = tokenizer->encode({.first = "hello world"},
                                {.padding = Padding::None, .specialTokens = false});
  ASSERT_TRUE(bare);
  EXPECT_EQ(bare->ids.size(), 2u);
  auto short2 = tokenizer->encode({.first = "hello world"}, {.maxLength = 2});
  ASSERT_TRUE(short2);
  EXPECT_EQ(short2->ids.size(), 12u);
  auto none = tokenizer->encode({.first = "hello"}, {.maxLength = 1});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message(), "a limit of 1 tokens leaves no room for 2 special tokens");
}

TEST(WordPiece, BatchesArePaddedToTheLongest) {
  auto tokenizer = make(tokenizerOf(golden().at("variants").at("uncased")));
  ASSERT_TRUE(tokenizer);
  const EncodeInput inputs[] = {{.first = "hello"}, {.first = "hello world the dog"}};
  auto batch = tokenizer->encodeBatch(inputs, {.padding = Padding::Longest});
  ASSERT_TRUE(batch);
  ASSERT_EQ(batch->size(), 2u);
  EXPECT_EQ((*batch)[0].ids.size(), 6u);
  EXPECT_EQ((*batch)[0].attentionMask, (std::vector<int32_t>{1, 1, 1, 0, 0, 0}));
  EXPECT_EQ((*batch)[1].attentionMask, (std::vector<int32_t>{1, 1, 1, 1, 1, 1}));
}

TEST(WordPiece, RefusesInvalidUtf8) {
  auto tokenizer = make(tokenizerOf(golden().at("variants").at("uncased")));
  ASSERT_TRUE(tokenizer);
  for (const std::string_view text : {"ab\xff", "ab\xed\xa0\x80", "ab\xc3"}) {
    const EncodeInput input{.first = text};
    auto encoding = tokenizer->encodeBatch(std::span(&input, 1));
    ASSERT_FALSE(encoding);
    EXPECT_EQ(encoding.error().code(), Errc::InvalidArgument);
    EXPECT_EQ(encoding.error().message(), "the text is not UTF-8 at byte 2");
  }
}

TEST(WordPiece, RefusesWhatItDoesNotImplement) {
  const Json good = tokenizerOf(golden().at("variants").at("uncased"));
  struct Case {
    const char* pointer;
    const char* value;
    Errc code;
  };
  const Case cases[] = {
      {"/model/type", R"("BPE")", Errc::Unsupported},
      {"/normalizer", "null", Errc::Unsupported},
      {"/normalizer/type", R"("NFC")", Errc::Unsupported},
      {"/pre_tokenizer/type", R"("ByteLevel")", Errc::Unsupported},
      {"/post_processor/type", R"("RobertaProcessing")", Errc::Unsupported},
      {"/post_processor/special_tokens", "{}", Errc::NotFound},
      {"/post_processor/single/1/Sequence/id", R"("C")", Errc::BadFile},
      {"/model/unk_token", R"("[NONE]")", Errc::BadFile},
      {"/model/vocab", "[]", Errc::BadFile},
      {"/model/vocab/hello", "-1", Errc::BadFile},
      {"/model/vocab/hello", "4000000000", Errc::BadFile},
      {"/model/vocab/hello", "1.5", Errc::BadFile},
      {"/truncation", R"({"max_length":99999999999,"strategy":"LongestFirst"})", Errc::BadFile},
      {"/truncation", R"({"max_length":8,"strategy":"Shortest"})", Errc::BadFile},
      {"/padding", R"({"strategy":{"Fixed":1000000000}})", Errc::BadFile},
      {"/padding", R"({"strategy":"BatchLongest","direction":"Up"})", Errc::BadFile},
      {"/added_tokens/0/content", "7", Errc::BadFile},
  };
  for (const Case& c : cases) {
    Json bad = good;
    bad[Json::json_pointer(c.pointer)] = Json::parse(c.value);
    auto tokenizer = make(bad);
    ASSERT_FALSE(tokenizer) << c.pointer << " = " << c.value;
    EXPECT_EQ(tokenizer.error().code(), c.code) << c.pointer << ": " << tokenizer.error().text();
  }
  auto vocab = WordPiece::fromVocab("[UNK]\n[CLS]\n", nullptr);
  ASSERT_FALSE(vocab);
  EXPECT_EQ(vocab.error().message(), "the sep_token '[SEP]' is not in the vocabulary");
  auto folder = WordPiece::load("/nonexistent/folder");
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().code(), Errc::NotFound);
}

TEST(WordPiece, RealMiniLm) {
  auto env = readEnv();
  ASSERT_TRUE(env);
  const std::string folder = joinPath(env->cache, "models/minilm");
  if (pathKind(joinPath(folder, "tokenizer.json")) == PathKind::Missing)
    GTEST_SKIP() << "run scripts/models minilm first";
  auto tokenizer = WordPiece::load(folder);
  ASSERT_TRUE(tokenizer) << tokenizer.error().text();
  EXPECT_EQ(tokenizer->size(), 30522u);
  compareAll(*tokenizer, golden().at("minilm"), "MiniLM", {.padding = Padding::None});
  // The package's vocab.txt says the same; its configuration allows 512 tokens instead of 128.
  auto vocab = readFile(joinPath(folder, "vocab.txt"), 1 << 20);
  ASSERT_TRUE(vocab);
  auto fromVocab = WordPiece::fromVocab(*vocab, nullptr);
  ASSERT_TRUE(fromVocab) << fromVocab.error().text();
  compareAll(*fromVocab, golden().at("minilm"), "MiniLM, vocab.txt", {.maxLength = 128});
}

}  // namespace
}  // namespace rlx
