// A hash that is the same on every machine and in every run, for names of files and checksums. It
// resists accidents, not intent: whoever trusts what a hash finds compares it as well.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace rlx {

// FNV-1a. The hash of several texts: each is given that of the texts before it.
constexpr uint64_t stableHash(std::string_view text, uint64_t before = 0xcbf29ce484222325ull) {
  for (const char c : text) before = (before ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return before;
}

// 16 hexadecimal digits.
inline std::string hexDigits(uint64_t value) {
  std::string out(16, '0');
  for (std::size_t k = 16; k-- > 0; value >>= 4) out[k] = "0123456789abcdef"[value & 15];
  return out;
}

}  // namespace rlx
