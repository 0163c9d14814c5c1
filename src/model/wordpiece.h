// The WordPiece tokenizer of BERT models: text to token ids, as the `tokenizers` package gives them
// for the same files. It reads `tokenizer.json`, or `vocab.txt` with `tokenizer_config.json`; what
// such a file asks for and this does not do is an error when it is read, never a different
// tokenisation.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace rlx {

struct Encoding {
  std::vector<int32_t> ids;
  std::vector<int32_t> typeIds;        // 0 for the first text, 1 for the second
  std::vector<int32_t> attentionMask;  // 1 for tokens, 0 for padding
};

// To which length the encodings of a call are filled up.
enum class Padding : uint8_t { AsFile, None, Longest };

struct EncodeOptions {
  static constexpr int kAsFile = 0;
  static constexpr int kNoLimit = -1;
  // The largest number of tokens, special ones counted.
  int maxLength = kAsFile;
  Padding padding = Padding::AsFile;
  bool specialTokens = true;
};

// A text, or a pair of texts.
struct EncodeInput {
  std::string_view first;
  std::optional<std::string_view> second = {};
};

// Immutable after construction: threads may share one.
class WordPiece {
 public:
  // A folder with tokenizer.json, or else with vocab.txt and perhaps tokenizer_config.json.
  static Result<WordPiece> load(const std::string& folder);
  static Result<WordPiece> fromJson(const JsonDocument& tokenizer);
  // The text of a vocab.txt; `config`, the tokenizer_config.json, may be null.
  static Result<WordPiece> fromVocab(std::string_view vocab, const JsonDocument* config);

  WordPiece(WordPiece&&) noexcept;
  WordPiece& operator=(WordPiece&&) noexcept;
  ~WordPiece();

  // InvalidArgument when a text is not UTF-8 (with the offset) or when the limit leaves no room.
  Result<Encoding> encode(EncodeInput input, const EncodeOptions& options = {}) const;
  Result<std::vector<Encoding>> encodeBatch(std::span<const EncodeInput> inputs,
                                            const EncodeOptions& options = {}) const;

  // Tokens that have an id, added ones counted.
  std::size_t size() const;
  std::optional<int32_t> id(std::string_view token) const;
  // The text of a token, or empty when the id has none.
  std::string_view token(int32_t id) const;

 private:
  struct State;
  explicit WordPiece(std::unique_ptr<const State> state);
  std::unique_ptr<const State> state_;
};

}  // namespace rlx
