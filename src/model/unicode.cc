#include "model/unicode.h"

#include <unicode/uchar.h>
#include <unicode/unorm2.h>
#include <unicode/utf16.h>
#include <unicode/utf8.h>

namespace rlx::unicode {
namespace {

constexpr int kTablesOfVersion = 8;

bool isAscii(char32_t c) {
  return c < 0x80;
}

bool isKnown(char32_t c) {
  UVersionInfo age = {};
  u_charAge(static_cast<UChar32>(c), age);
  return age[0] <= kTablesOfVersion;
}

uint32_t category(char32_t c) {
  return U_GET_GC_MASK(static_cast<UChar32>(c));
}

}  // namespace

char32_t next(std::string_view text, std::size_t& at) {
  UChar32 c = 0;
  U8_NEXT(text.data(), at, text.size(), c);
  return static_cast<char32_t>(c);
}

void append(std::string& text, char32_t c) {
  char bytes[U8_MAX_LENGTH];
  std::size_t length = 0;
  U8_APPEND_UNSAFE(bytes, length, c);
  text.append(bytes, length);
}

bool isWhitespace(char32_t c) {
  return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_WHITE_SPACE);
}

bool isWord(char32_t c) {
  return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_ALPHABETIC) ||
         u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_JOIN_CONTROL) ||
         (category(c) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0;
}

bool isBertControl(char32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  if (isAscii(c)) return c < 0x20 || c == 0x7f;
  return (category(c) & (U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK)) != 0 && isKnown(c);
}

bool isBertPunctuation(char32_t c) {
  if (isAscii(c))
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
           (c >= '{' && c <= '~');
  // Reclassified after Unicode 8.
  if (c == 0x166d || c == 0x111c9) return true;
  return (category(c) & U_GC_P_MASK) != 0 && isKnown(c);
}

bool isBertMark(char32_t c) {
  if (isAscii(c)) return false;
  // Reclassified after Unicode 8.
  if (c == 0x1734) return true;
  if (c == 0x1885 || c == 0x1886 || c == 0xa9bd || c == 0x111c9) return false;
  return (category(c) & U_GC_MN_MASK) != 0 && isKnown(c);
}

bool isBertChinese(char32_t c) {
  // Extension E begins at 2B820; the package's range begins 256 later.
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
         (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
         (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

void appendLower(std::string& text, char32_t c) {
  if (c == 0x130) {  // the one character whose lower case has two, whatever the language
    text += "i\xcc\x87";
    return;
  }
  append(text, static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))));
}

Result<std::string> decompose(std::string_view text) {
  bool ascii = true;
  for (const char c : text) ascii = ascii && static_cast<unsigned char>(c) < 0x80;
  if (ascii) return std::string(text);

  std::u16string wide;
  wide.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next(text, at);
    if (c < 0x10000) {
      wide += static_cast<char16_t>(c);
    } else {
      wide += static_cast<char16_t>(U16_LEAD(c));
      wide += static_cast<char16_t>(U16_TRAIL(c));
    }
  }
  if (wide.size() > (std::size_t{1} << 28))
    return Error(Errc::InvalidArgument,
                 "text of " + std::to_string(text.size()) + " bytes is too long to normalise");
  UErrorCode failure = U_ZERO_ERROR;
  const UNormalizer2* nfd = unorm2_getNFDInstance(&failure);
  // No character grows to more than four units.
  std::u16string out(wide.size() * 4, u'\0');
  const int32_t length =
      U_FAILURE(failure) ? 0
                         : unorm2_normalize(nfd, wide.data(), static_cast<int32_t>(wide.size()),
                                            out.data(), static_cast<int32_t>(out.size()), &failure);
  if (U_FAILURE(failure))
    return Error(Errc::Internal,
                 std::string("Unicode normalisation failed: ") + u_errorName(failure));
  std::string narrow;
  narrow.reserve(text.size() + text.size() / 2);
  for (int32_t at = 0; at < length;) {
    UChar32 c = 0;
    U16_NEXT(out.data(), at, length, c);
    append(narrow, static_cast<char32_t>(c));
  }
  return narrow;
}

}  // namespace rlx::unicode
