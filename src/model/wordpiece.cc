#include "model/wordpiece.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "base/file.h"
#include "base/text.h"
#include "model/unicode.h"

namespace rlx {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{64} << 20;
constexpr int64_t kMaxId = int64_t{1} << 24;
constexpr int64_t kMaxTokens = int64_t{1} << 20;
constexpr int64_t kDefaultWordChars = 100;

struct Hash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>()(text);
  }
};
using Vocabulary = std::unordered_map<std::string, int32_t, Hash, std::equal_to<>>;

struct Normalizer {
  bool cleanText = true;
  bool chineseChars = true;
  bool stripAccents = true;
  bool lowercase = true;
};

// A token that is found in the text before the text is taken apart.
struct AddedToken {
  std::string content;  // normalised, for a token that is looked for in normalised text
  int32_t id = 0;
  bool singleWord = false;
  bool stripLeft = false;
  bool stripRight = false;
};

// Which tokens begin with which byte, the longest first.
class AddedTokens {
 public:
  void add(AddedToken token) {
    if (token.content.empty()) return;
    auto& list = byFirst_[static_cast<unsigned char>(token.content[0])];
    const auto at = std::find_if(list.begin(), list.end(), [&](const AddedToken& other) {
      return other.content.size() < token.content.size();
    });
    list.insert(at, std::move(token));
    any_ = true;
  }
  bool any() const { return any_; }
  // The longest token that `text` starts with, or null.
  const AddedToken* match(std::string_view text) const {
    for (const AddedToken& token : byFirst_[static_cast<unsigned char>(text[0])])
      if (text.starts_with(token.content)) return &token;
    return nullptr;
  }

 private:
  std::array<std::vector<AddedToken>, 256> byFirst_;
  bool any_ = false;
};

// A part of the result's layout: special tokens, or one of the texts.
struct Slot {
  enum class Kind : uint8_t { Special, First, Second } kind = Kind::First;
  std::vector<int32_t> ids;
  int32_t typeId = 0;
};

enum class Strategy : uint8_t { LongestFirst, OnlyFirst, OnlySecond };
enum class Side : uint8_t { Left, Right };

struct Truncation {
  int64_t maxLength = 0;  // 0: none
  Strategy strategy = Strategy::LongestFirst;
  Side side = Side::Right;
};

struct PaddingRule {
  bool enabled = false;
  int64_t fixed = 0;  // 0: the longest of the batch
  int64_t multipleOf = 1;
  Side side = Side::Right;
  int32_t id = 0;
  int32_t typeId = 0;
};

Error badEntry(const JsonRef& ref, std::string_view why) {
  return Error(Errc::BadFile, "'" + ref.path() + "': " + std::string(why));
}

Result<int32_t> toId(const JsonRef& ref) {
  RLX_TRY(const int64_t id, ref.asInt());
  if (id < 0 || id >= kMaxId)
    return badEntry(
        ref, "token id " + std::to_string(id) + " is not in 0 to " + std::to_string(kMaxId - 1));
  return static_cast<int32_t>(id);
}

Result<int32_t> typeIdOf(const JsonRef& ref, std::string_view key, int64_t fallback) {
  RLX_TRY(const int64_t id, ref.intOr(key, fallback));
  if (id < 0 || id > 255) return badEntry(ref, "type id " + std::to_string(id));
  return static_cast<int32_t>(id);
}

Result<int64_t> tokenCount(const JsonRef& ref) {
  RLX_TRY(const int64_t count, ref.asInt());
  if (count < 0 || count > kMaxTokens)
    return badEntry(ref, "token count " + std::to_string(count) + " is not in 0 to " +
                             std::to_string(kMaxTokens));
  return count;
}

Status requireType(const JsonRef& root, std::string_view key, std::string_view type) {
  RLX_TRY(const JsonRef part, root.member(key));
  if (part.isNull())
    return Error(Errc::Unsupported,
                 "'" + std::string(key) + "' is null, supported is " + std::string(type));
  RLX_TRY(const JsonRef typeRef, part.member("type"));
  RLX_TRY(const std::string_view found, typeRef.asString());
  if (found == type) return Ok{};
  return Error(Errc::Unsupported, "'" + std::string(key) + "' is a " + shorten(found, 40) +
                                      ", supported is " + std::string(type));
}

Result<Side> parseSide(const JsonRef& ref) {
  RLX_TRY(const std::string text, ref.stringOr("direction", "Right"));
  if (text == "Right") return Side::Right;
  if (text == "Left") return Side::Left;
  return badEntry(ref, "direction '" + shorten(text, 40) + "' is neither Left nor Right");
}

Result<Normalizer> parseNormalizer(const JsonRef& root) {
  RLX_OK(requireType(root, "normalizer", "BertNormalizer"));
  RLX_TRY(const JsonRef ref, root.member("normalizer"));
  Normalizer out;
  RLX_TRY(out.cleanText, ref.boolOr("clean_text", true));
  RLX_TRY(out.chineseChars, ref.boolOr("handle_chinese_chars", true));
  RLX_TRY(out.lowercase, ref.boolOr("lowercase", true));
  RLX_TRY(out.stripAccents, ref.boolOr("strip_accents", out.lowercase));
  return out;
}

Result<Truncation> parseTruncation(const JsonRef& root) {
  Truncation out;
  if (!root.has("truncation")) return out;
  RLX_TRY(const JsonRef ref, root.member("truncation"));
  RLX_TRY(const JsonRef length, ref.member("max_length"));
  RLX_TRY(out.maxLength, tokenCount(length));
  if (out.maxLength == 0) return badEntry(length, "a limit of 0 tokens");
  RLX_TRY(const std::string strategy, ref.stringOr("strategy", "LongestFirst"));
  if (strategy == "OnlyFirst")
    out.strategy = Strategy::OnlyFirst;
  else if (strategy == "OnlySecond")
    out.strategy = Strategy::OnlySecond;
  else if (strategy != "LongestFirst")
    return badEntry(ref, "unknown strategy '" + shorten(strategy, 40) + "'");
  RLX_TRY(out.side, parseSide(ref));
  return out;
}

Result<PaddingRule> parsePadding(const JsonRef& root) {
  PaddingRule out;
  if (!root.has("padding")) return out;
  RLX_TRY(const JsonRef ref, root.member("padding"));
  out.enabled = true;
  RLX_TRY(const JsonRef strategy, ref.member("strategy"));
  if (strategy.isObject()) {
    RLX_TRY(const JsonRef fixed, strategy.member("Fixed"));
    RLX_TRY(out.fixed, tokenCount(fixed));
  } else {
    RLX_TRY(const std::string_view text, strategy.asString());
    if (text != "BatchLongest")
      return badEntry(strategy, "unknown strategy '" + shorten(text, 40) + "'");
  }
  if (ref.has("pad_to_multiple_of")) {
    RLX_TRY(const JsonRef multiple, ref.member("pad_to_multiple_of"));
    RLX_TRY(out.multipleOf, tokenCount(multiple));
    out.multipleOf = std::max<int64_t>(1, out.multipleOf);
  }
  RLX_TRY(out.side, parseSide(ref));
  if (ref.has("pad_id")) {
    RLX_TRY(const JsonRef id, ref.member("pad_id"));
    RLX_TRY(out.id, toId(id));
  }
  RLX_TRY(out.typeId, typeIdOf(ref, "pad_type_id", 0));
  return out;
}

Slot special(int32_t id, int32_t typeId) {
  return {Slot::Kind::Special, {id}, typeId};
}
Slot text(Slot::Kind kind, int32_t typeId) {
  return {kind, {}, typeId};
}

// One list of a TemplateProcessing: {"SpecialToken": {...}} and {"Sequence": {...}} entries.
Result<std::vector<Slot>> parseTemplate(const JsonRef& processor, std::string_view key) {
  RLX_TRY(const JsonRef list, processor.member(key));
  RLX_TRY(const auto pieces, list.elements());
  std::vector<Slot> out;
  for (const JsonRef& piece : pieces) {
    const bool isSpecial = piece.has("SpecialToken");
    RLX_TRY(const JsonRef body, piece.member(isSpecial ? "SpecialToken" : "Sequence"));
    RLX_TRY(const JsonRef idRef, body.member("id"));
    RLX_TRY(const std::string_view id, idRef.asString());
    Slot slot;
    RLX_TRY(slot.typeId, typeIdOf(body, "type_id", 0));
    if (isSpecial) {
      slot.kind = Slot::Kind::Special;
      RLX_TRY(const JsonRef tokens, processor.member("special_tokens"));
      RLX_TRY(const JsonRef token, tokens.member(id));
      RLX_TRY(const JsonRef ids, token.member("ids"));
      RLX_TRY(const auto numbers, ids.elements());
      for (const JsonRef& number : numbers) {
        RLX_TRY(const int32_t value, toId(number));
        slot.ids.push_back(value);
      }
    } else if (id == "A") {
      slot.kind = Slot::Kind::First;
    } else if (id == "B") {
      slot.kind = Slot::Kind::Second;
    } else {
      return badEntry(idRef, "a sequence is called A or B");
    }
    out.push_back(std::move(slot));
  }
  return out;
}

struct Layout {
  std::vector<Slot> single = {text(Slot::Kind::First, 0)};
  std::vector<Slot> pair = {text(Slot::Kind::First, 0), text(Slot::Kind::Second, 1)};
};

Layout bertLayout(int32_t cls, int32_t sep) {
  return {{special(cls, 0), text(Slot::Kind::First, 0), special(sep, 0)},
          {special(cls, 0), text(Slot::Kind::First, 0), special(sep, 0),
           text(Slot::Kind::Second, 1), special(sep, 1)}};
}

Result<int32_t> namedToken(const JsonRef& processor, std::string_view key) {
  RLX_TRY(const JsonRef ref, processor.member(key));
  RLX_TRY(const auto pair, ref.elements());
  if (pair.size() != 2) return badEntry(ref, "expected a token and its id");
  return toId(pair[1]);
}

Result<Layout> parseProcessor(const JsonRef& root) {
  if (!root.has("post_processor")) return Layout();
  RLX_TRY(const JsonRef ref, root.member("post_processor"));
  RLX_TRY(const JsonRef typeRef, ref.member("type"));
  RLX_TRY(const std::string_view type, typeRef.asString());
  if (type == "BertProcessing") {
    RLX_TRY(const int32_t cls, namedToken(ref, "cls"));
    RLX_TRY(const int32_t sep, namedToken(ref, "sep"));
    return bertLayout(cls, sep);
  }
  if (type != "TemplateProcessing")
    return Error(Errc::Unsupported, "'post_processor' is a " + shorten(type, 40) +
                                        ", supported are TemplateProcessing and BertProcessing");
  Layout out;
  RLX_TRY(out.single, parseTemplate(ref, "single"));
  RLX_TRY(out.pair, parseTemplate(ref, "pair"));
  return out;
}

}  // namespace

struct WordPiece::State {
  Vocabulary vocabulary;
  // Added tokens that the vocabulary lacks: they are found as a whole, never as a part of a word.
  Vocabulary beside;
  std::vector<std::string> tokens;  // by id; empty where there is none
  std::string prefix = "##";
  int32_t unknown = 0;
  int64_t maxWordChars = kDefaultWordChars;
  Normalizer normalizer;
  AddedTokens rawTokens;
  AddedTokens normalizedTokens;
  Layout layout;
  Truncation truncation;
  PaddingRule padding;

  void name(std::string_view token, int32_t id) {
    if (static_cast<std::size_t>(id) >= tokens.size())
      tokens.resize(static_cast<std::size_t>(id) + 1);
    tokens[static_cast<std::size_t>(id)] = std::string(token);
  }
  void define(std::string_view token, int32_t id) {
    vocabulary.insert_or_assign(std::string(token), id);
    name(token, id);
  }
  Status addToken(std::string_view content, int32_t id, bool normalized, AddedToken token);
  Result<std::string> normalize(std::string_view text) const;
  void wordIds(std::string_view word, std::vector<int32_t>& ids) const;
  void splitWords(std::string_view text, std::vector<int32_t>& ids) const;
  Status plainIds(std::string_view text, std::vector<int32_t>& ids) const;
  Result<std::vector<int32_t>> textIds(std::string_view text) const;
  Status truncate(std::vector<int32_t>& first, std::vector<int32_t>* second, int64_t limit) const;
  Result<Encoding> encode(const EncodeInput& input, const EncodeOptions& options) const;
  void pad(std::span<Encoding> batch, const EncodeOptions& options) const;
};

namespace {

// Cuts `text` at the added tokens: `plain` gets the pieces between them, `found` the tokens.
template <class Plain, class Found>
Status splitAtTokens(const AddedTokens& tokens, std::string_view text, Plain plain, Found found) {
  std::size_t begin = 0;  // of the piece that no token has taken yet
  for (std::size_t at = 0; tokens.any() && at < text.size();) {
    const AddedToken* token = tokens.match(text.substr(at));
    if (!token) {
      ++at;
      continue;
    }
    std::size_t start = at;
    std::size_t stop = at + token->content.size();
    at = stop;
    if (token->singleWord) {
      std::size_t before = start;
      while (before > 0 && (static_cast<unsigned char>(text[--before]) & 0xc0) == 0x80) {
      }
      std::size_t ignored = before;
      if (start > 0 && unicode::isWord(unicode::next(text, ignored))) continue;
      ignored = stop;
      if (stop < text.size() && unicode::isWord(unicode::next(text, ignored))) continue;
    }
    while (token->stripLeft && start > begin) {
      std::size_t before = start - 1;
      while (before > begin && (static_cast<unsigned char>(text[before]) & 0xc0) == 0x80) --before;
      std::size_t end = before;
      if (!unicode::isWhitespace(unicode::next(text, end))) break;
      start = before;
    }
    while (token->stripRight && stop < text.size()) {
      std::size_t end = stop;
      if (!unicode::isWhitespace(unicode::next(text, end))) break;
      stop = end;
    }
    if (start > begin) RLX_OK(plain(text.substr(begin, start - begin)));
    found(*token);
    begin = stop;
    at = std::max(at, stop);
  }
  if (begin < text.size()) RLX_OK(plain(text.substr(begin)));
  return Ok{};
}

}  // namespace

Status WordPiece::State::addToken(std::string_view content, int32_t id, bool normalized,
                                  AddedToken token) {
  if (vocabulary.find(content) == vocabulary.end()) {
    beside.insert_or_assign(std::string(content), id);
    name(content, id);
  }
  token.id = id;
  token.content = std::string(content);
  if (!normalized) {
    rawTokens.add(std::move(token));
    return Ok{};
  }
  RLX_TRY(token.content, normalize(content));
  normalizedTokens.add(std::move(token));
  return Ok{};
}

Result<std::string> WordPiece::State::normalize(std::string_view text) const {
  std::string out;
  out.reserve(text.size() + text.size() / 4);
  for (std::size_t at = 0; at < text.size();) {
    char32_t c = unicode::next(text, at);
    if (normalizer.cleanText) {
      if (c == 0 || c == 0xfffd || unicode::isBertControl(c)) continue;
      if (unicode::isWhitespace(c)) c = ' ';
    }
    const bool spaced = normalizer.chineseChars && unicode::isBertChinese(c);
    if (spaced) out += ' ';
    unicode::append(out, c);
    if (spaced) out += ' ';
  }
  if (!normalizer.stripAccents && !normalizer.lowercase) return out;
  if (normalizer.stripAccents) {
    RLX_TRY(out, unicode::decompose(out));
  }
  std::string folded;
  folded.reserve(out.size());
  for (std::size_t at = 0; at < out.size();) {
    const char32_t c = unicode::next(out, at);
    if (normalizer.stripAccents && unicode::isBertMark(c)) continue;
    if (normalizer.lowercase)
      unicode::appendLower(folded, c);
    else
      unicode::append(folded, c);
  }
  return folded;
}

// The longest known beginning, then the longest known continuation, and so on; a word that cannot
// be covered so is one unknown token.
void WordPiece::State::wordIds(std::string_view word, std::vector<int32_t>& ids) const {
  int64_t chars = 0;
  for (const char c : word) chars += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  if (chars > maxWordChars) {
    ids.push_back(unknown);
    return;
  }
  const std::size_t before = ids.size();
  std::string piece;
  for (std::size_t begin = 0; begin < word.size();) {
    const std::size_t lead = begin == 0 ? 0 : prefix.size();
    piece.assign(prefix, 0, lead);
    piece += word.substr(begin);
    auto found = vocabulary.end();
    while (piece.size() > lead) {
      found = vocabulary.find(std::string_view(piece));
      if (found != vocabulary.end()) break;
      while ((static_cast<unsigned char>(piece.back()) & 0xc0) == 0x80) piece.pop_back();
      piece.pop_back();
    }
    if (found == vocabulary.end()) {
      ids.resize(before);
      ids.push_back(unknown);
      return;
    }
    ids.push_back(found->second);
    begin += piece.size() - lead;
  }
}

void WordPiece::State::splitWords(std::string_view text, std::vector<int32_t>& ids) const {
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t here = at;
    const char32_t c = unicode::next(text, at);
    const bool blank = unicode::isWhitespace(c);
    if (!blank && !unicode::isBertPunctuation(c)) continue;
    if (here > begin) wordIds(text.substr(begin, here - begin), ids);
    if (!blank) wordIds(text.substr(here, at - here), ids);
    begin = at;
  }
  if (begin < text.size()) wordIds(text.substr(begin), ids);
}

Status WordPiece::State::plainIds(std::string_view text, std::vector<int32_t>& ids) const {
  RLX_TRY(const std::string normalized, normalize(text));
  return splitAtTokens(
      normalizedTokens, normalized,
      [&](std::string_view piece) -> Status {
        splitWords(piece, ids);
        return Ok{};
      },
      [&](const AddedToken& token) { ids.push_back(token.id); });
}

Result<std::vector<int32_t>> WordPiece::State::textIds(std::string_view text) const {
  for (std::size_t at = 0; at < text.size();) {
    const int length = utf8Length(text.substr(at));
    if (length == 0)
      return Error(Errc::InvalidArgument, "the text is not UTF-8 at byte " + std::to_string(at));
    at += static_cast<std::size_t>(length);
  }
  std::vector<int32_t> ids;
  RLX_OK(splitAtTokens(
      rawTokens, text, [&](std::string_view piece) { return plainIds(piece, ids); },
      [&](const AddedToken& token) { ids.push_back(token.id); }));
  return ids;
}

// Leaves at most `limit` ids in both texts together.
Status WordPiece::State::truncate(std::vector<int32_t>& first, std::vector<int32_t>* second,
                                  int64_t limit) const {
  const auto cut = [&](std::vector<int32_t>& ids, int64_t length) {
    const int64_t excess = static_cast<int64_t>(ids.size()) - length;
    if (excess <= 0) return;
    if (truncation.side == Side::Right)
      ids.resize(static_cast<std::size_t>(length));
    else
      ids.erase(ids.begin(), ids.begin() + excess);
  };
  const auto n1 = static_cast<int64_t>(first.size());
  const int64_t n2 = second ? static_cast<int64_t>(second->size()) : 0;
  const int64_t excess = n1 + n2 - limit;
  if (excess <= 0) return Ok{};
  if (truncation.strategy == Strategy::LongestFirst) {
    if (!second) {
      cut(first, limit);
      return Ok{};
    }
    // The longer one gives first; when both have to, the second keeps the odd token, or the first
    // when it is the longer one.
    int64_t shorter = std::min(n1, n2);
    int64_t longer = shorter > limit ? shorter : std::max(shorter, limit - shorter);
    if (shorter + longer > limit) {
      shorter = limit / 2;
      longer = shorter + limit % 2;
    }
    cut(first, n1 > n2 ? longer : shorter);
    cut(*second, n1 > n2 ? shorter : longer);
    return Ok{};
  }
  std::vector<int32_t>* target = truncation.strategy == Strategy::OnlyFirst ? &first : second;
  if (!target)
    return Error(Errc::InvalidArgument, "only the second text may be cut, and there is none");
  const int64_t kept = static_cast<int64_t>(target->size()) - excess;
  if (kept <= 0)
    return Error(Errc::InvalidArgument, "the text that may be cut has " +
                                            std::to_string(target->size()) + " tokens, " +
                                            std::to_string(excess) + " too many in all");
  cut(*target, kept);
  return Ok{};
}

Result<Encoding> WordPiece::State::encode(const EncodeInput& input,
                                          const EncodeOptions& options) const {
  RLX_TRY(std::vector<int32_t> first, textIds(input.first));
  std::vector<int32_t> second;
  if (input.second) {
    RLX_TRY(second, textIds(*input.second));
  }
  const std::vector<Slot>& slots = input.second ? layout.pair : layout.single;
  const int64_t limit =
      options.maxLength == EncodeOptions::kAsFile ? truncation.maxLength : options.maxLength;
  if (limit > 0) {
    int64_t specials = 0;
    if (options.specialTokens)
      for (const Slot& slot : slots) specials += static_cast<int64_t>(slot.ids.size());
    if (limit < specials)
      return Error(Errc::InvalidArgument, "a limit of " + std::to_string(limit) +
                                              " tokens leaves no room for " +
                                              std::to_string(specials) + " special tokens");
    RLX_OK(truncate(first, input.second ? &second : nullptr, limit - specials));
  }
  Encoding out;
  for (const Slot& slot : slots) {
    if (slot.kind == Slot::Kind::Special && !options.specialTokens) continue;
    const std::vector<int32_t>& ids = slot.kind == Slot::Kind::Special ? slot.ids
                                      : slot.kind == Slot::Kind::First ? first
                                                                       : second;
    out.ids.insert(out.ids.end(), ids.begin(), ids.end());
    out.typeIds.insert(out.typeIds.end(), ids.size(), slot.typeId);
  }
  out.attentionMask.assign(out.ids.size(), 1);
  return out;
}

void WordPiece::State::pad(std::span<Encoding> batch, const EncodeOptions& options) const {
  const bool asFile = options.padding == Padding::AsFile;
  if (options.padding == Padding::None || (asFile && !padding.enabled)) return;
  std::size_t length = 0;
  for (const Encoding& encoding : batch) length = std::max(length, encoding.ids.size());
  if (asFile && padding.fixed > 0) length = static_cast<std::size_t>(padding.fixed);
  if (asFile) {
    const auto multiple = static_cast<std::size_t>(padding.multipleOf);
    length = (length + multiple - 1) / multiple * multiple;
  }
  for (Encoding& encoding : batch) {
    if (encoding.ids.size() >= length) continue;
    const std::size_t missing = length - encoding.ids.size();
    const auto fill = [&](std::vector<int32_t>& list, int32_t value) {
      list.insert(padding.side == Side::Right ? list.end() : list.begin(), missing, value);
    };
    fill(encoding.ids, padding.id);
    fill(encoding.typeIds, padding.typeId);
    fill(encoding.attentionMask, 0);
  }
}

WordPiece::WordPiece(std::unique_ptr<const State> state) : state_(std::move(state)) {}
WordPiece::WordPiece(WordPiece&&) noexcept = default;
WordPiece& WordPiece::operator=(WordPiece&&) noexcept = default;
WordPiece::~WordPiece() = default;

Result<WordPiece> WordPiece::load(const std::string& folder) {
  const std::string json = joinPath(folder, "tokenizer.json");
  if (pathKind(json) != PathKind::Missing) {
    RLX_TRY(const JsonDocument document, readJson(json, {.maxBytes = kMaxFileBytes}));
    auto tokenizer = fromJson(document);
    if (!tokenizer) return std::move(tokenizer).error().note("while reading '" + json + "'");
    return tokenizer;
  }
  const std::string path = joinPath(folder, "vocab.txt");
  auto vocab = readFile(path, kMaxFileBytes);
  if (!vocab) return std::move(vocab).error().note("'" + folder + "' has no tokenizer.json either");
  const std::string configPath = joinPath(folder, "tokenizer_config.json");
  std::optional<JsonDocument> config;
  if (pathKind(configPath) != PathKind::Missing) {
    RLX_TRY(config, readJson(configPath, {.maxBytes = kMaxFileBytes}));
  }
  auto tokenizer = fromVocab(*vocab, config ? &*config : nullptr);
  if (!tokenizer) return std::move(tokenizer).error().note("while reading '" + path + "'");
  return tokenizer;
}

Result<WordPiece> WordPiece::fromJson(const JsonDocument& tokenizer) {
  const JsonRef root = tokenizer.root();
  RLX_OK(requireType(root, "model", "WordPiece"));
  RLX_OK(requireType(root, "pre_tokenizer", "BertPreTokenizer"));
  auto state = std::make_unique<State>();
  RLX_TRY(state->normalizer, parseNormalizer(root));
  RLX_TRY(state->layout, parseProcessor(root));
  RLX_TRY(state->truncation, parseTruncation(root));
  RLX_TRY(state->padding, parsePadding(root));

  RLX_TRY(const JsonRef model, root.member("model"));
  RLX_TRY(state->prefix, model.stringOr("continuing_subword_prefix", "##"));
  RLX_TRY(state->maxWordChars, model.intOr("max_input_chars_per_word", kDefaultWordChars));
  RLX_TRY(const JsonRef vocab, model.member("vocab"));
  RLX_TRY(const auto entries, vocab.members());
  for (const JsonMember& entry : entries) {
    RLX_TRY(const int32_t id, toId(entry.value));
    state->define(entry.key, id);
  }
  RLX_TRY(const std::string unknown, model.stringOr("unk_token", "[UNK]"));
  const auto found = state->vocabulary.find(std::string_view(unknown));
  if (found == state->vocabulary.end())
    return Error(Errc::BadFile,
                 "the unknown token '" + shorten(unknown, 40) + "' is not in the vocabulary");
  state->unknown = found->second;

  if (root.has("added_tokens")) {
    RLX_TRY(const JsonRef list, root.member("added_tokens"));
    RLX_TRY(const auto added, list.elements());
    for (const JsonRef& ref : added) {
      RLX_TRY(const JsonRef idRef, ref.member("id"));
      RLX_TRY(const int32_t id, toId(idRef));
      RLX_TRY(const JsonRef contentRef, ref.member("content"));
      RLX_TRY(const std::string_view content, contentRef.asString());
      RLX_TRY(const bool isSpecial, ref.boolOr("special", false));
      RLX_TRY(const bool normalized, ref.boolOr("normalized", !isSpecial));
      AddedToken token;
      RLX_TRY(token.singleWord, ref.boolOr("single_word", false));
      RLX_TRY(token.stripLeft, ref.boolOr("lstrip", false));
      RLX_TRY(token.stripRight, ref.boolOr("rstrip", false));
      RLX_OK(state->addToken(content, id, normalized, std::move(token)));
    }
  }
  return WordPiece(std::move(state));
}

Result<WordPiece> WordPiece::fromVocab(std::string_view vocab, const JsonDocument* config) {
  auto state = std::make_unique<State>();
  int32_t next = 0;
  while (!vocab.empty()) {
    const std::size_t end = std::min(vocab.find('\n'), vocab.size());
    std::string_view token = vocab.substr(0, end);
    vocab.remove_prefix(std::min(end + 1, vocab.size()));
    if (token.ends_with('\r')) token.remove_suffix(1);
    if (!isUtf8(token))
      return Error(Errc::BadFile, "line " + std::to_string(next + 1) + " is not UTF-8");
    if (next == kMaxId)
      return Error(Errc::FileBudget, "more than " + std::to_string(kMaxId) + " tokens");
    state->define(token, next++);
  }

  struct Named {
    std::string_view key;
    std::string text;
    int32_t id = 0;
  };
  Named named[] = {{"unk_token", "[UNK]"},
                   {"cls_token", "[CLS]"},
                   {"sep_token", "[SEP]"},
                   {"pad_token", "[PAD]"},
                   {"mask_token", "[MASK]"}};
  if (config) {
    const JsonRef root = config->root();
    Normalizer& normalizer = state->normalizer;
    RLX_TRY(normalizer.lowercase, root.boolOr("do_lower_case", true));
    RLX_TRY(normalizer.chineseChars, root.boolOr("tokenize_chinese_chars", true));
    RLX_TRY(normalizer.stripAccents, root.boolOr("strip_accents", normalizer.lowercase));
    // A token is its text, or an object with its "content".
    for (Named& token : named) {
      if (!root.has(token.key)) continue;
      RLX_TRY(JsonRef value, root.member(token.key));
      if (value.isObject()) {
        RLX_TRY(value, value.member("content"));
      }
      RLX_TRY(const std::string_view content, value.asString());
      token.text = std::string(content);
    }
    // Exporters write a huge number for "no limit".
    if (root.has("model_max_length")) {
      RLX_TRY(const JsonRef ref, root.member("model_max_length"));
      RLX_TRY(const double length, ref.asDouble());
      if (length >= 1 && length < static_cast<double>(kMaxTokens))
        state->truncation.maxLength = static_cast<int64_t>(length);
    }
  }
  for (Named& token : named) {
    const auto found = state->vocabulary.find(std::string_view(token.text));
    if (found == state->vocabulary.end()) {
      if (token.key == "mask_token") continue;
      return Error(Errc::BadFile, "the " + std::string(token.key) + " '" + shorten(token.text, 40) +
                                      "' is not in the vocabulary");
    }
    token.id = found->second;
    RLX_OK(state->addToken(token.text, token.id, /*normalized=*/false, {}));
  }
  state->unknown = named[0].id;
  state->layout = bertLayout(named[1].id, named[2].id);
  state->padding.id = named[3].id;
  return WordPiece(std::move(state));
}

Result<Encoding> WordPiece::encode(EncodeInput input, const EncodeOptions& options) const {
  RLX_TRY(Encoding encoding, state_->encode(input, options));
  state_->pad(std::span(&encoding, 1), options);
  return encoding;
}

Result<std::vector<Encoding>> WordPiece::encodeBatch(std::span<const EncodeInput> inputs,
                                                     const EncodeOptions& options) const {
  std::vector<Encoding> out;
  out.reserve(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    auto encoding = state_->encode(inputs[i], options);
    if (!encoding)
      return std::move(encoding).error().note("in text " + std::to_string(i) + " of the batch");
    out.push_back(*std::move(encoding));
  }
  state_->pad(out, options);
  return out;
}

std::size_t WordPiece::size() const {
  return state_->vocabulary.size();
}

std::optional<int32_t> WordPiece::id(std::string_view token) const {
  for (const Vocabulary* list : {&state_->vocabulary, &state_->beside})
    if (const auto found = list->find(token); found != list->end()) return found->second;
  return std::nullopt;
}

std::string_view WordPiece::token(int32_t id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= state_->tokens.size()) return {};
  return state_->tokens[static_cast<std::size_t>(id)];
}

}  // namespace rlx
