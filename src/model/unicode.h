// The character classes and the normal form that BERT's tokenizer is defined by. ICU supplies the
// data; this is the only file that talks to it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rlx::unicode {

// The code point at `at`, which moves behind it. The text is UTF-8 (base/text.h checks that).
char32_t next(std::string_view text, std::size_t& at);
void append(std::string& text, char32_t c);

bool isWhitespace(char32_t c);
// A letter, mark, digit or connector: \w of regular expressions.
bool isWord(char32_t c);

// The classes as the `tokenizers` package has them: its tables are those of Unicode 8, so that a
// later character is neither a control character, nor a mark, nor punctuation.
bool isBertControl(char32_t c);
bool isBertPunctuation(char32_t c);
bool isBertMark(char32_t c);
// The ideographs that get blanks around them.
bool isBertChinese(char32_t c);

// Appends the lower case of one character, without regard to its neighbours.
void appendLower(std::string& text, char32_t c);

// Canonical decomposition.
Result<std::string> decompose(std::string_view text);

}  // namespace rlx::unicode
