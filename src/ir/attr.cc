#include "ir/attr.h"

#include <cfloat>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

namespace rlx {
namespace {

constexpr int64_t kInlineElements = 64;  // literals up to this size print as a list of numbers

bool eat(std::string_view& t, std::string_view word) {
  if (t.substr(0, word.size()) != word) return false;
  t.remove_prefix(word.size());
  return true;
}

template <class T>
bool parseList(std::string_view& t, std::vector<T>& v) {
  v.clear();
  if (!eat(t, "[")) return false;
  if (eat(t, "]")) return true;
  do {
    if (!fromText(t, v.emplace_back())) return false;
  } while (eat(t, ","));
  return eat(t, "]");
}

template <class T>
std::string printList(const std::vector<T>& v) {
  std::string s = "[";
  for (std::size_t i = 0; i < v.size(); ++i) s += (i ? "," : "") + toText(v[i]);
  return s + "]";
}

template <class T>
T readAt(const Literal& v, int64_t i) {
  T x;
  std::memcpy(&x, v.bytes.data() + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return x;
}

}  // namespace

std::string toText(int64_t v) {
  return std::to_string(v);
}
std::string toText(bool v) {
  return v ? "true" : "false";
}
std::string toText(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  char buffer[32];
  const auto r = std::to_chars(buffer, buffer + sizeof buffer, v);
  return std::string(buffer, r.ptr);
}
std::string toText(const std::string& v) {
  std::string s = "\"";
  constexpr char kHex[] = "0123456789abcdef";
  for (const char c : v) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      s += '\\', s += c;
    else if (u < 32 || u == 127)
      s += "\\x", s += kHex[u >> 4], s += kHex[u & 15];
    else
      s += c;
  }
  return s + "\"";
}
std::string toText(DType v) {
  return std::string(name(v));
}
std::string toText(const Dim& v) {
  return v.text();
}
std::string toText(const std::vector<int64_t>& v) {
  return printList(v);
}
std::string toText(const std::vector<Dim>& v) {
  return text(v);
}

bool fromText(std::string_view& t, int64_t& v) {
  const auto [p, e] = std::from_chars(t.data(), t.data() + t.size(), v);
  if (e != std::errc{}) return false;
  t.remove_prefix(static_cast<std::size_t>(p - t.data()));
  return true;
}
bool fromText(std::string_view& t, double& v) {
  if (eat(t, "nan")) return v = std::numeric_limits<double>::quiet_NaN(), true;
  const auto [p, e] = std::from_chars(t.data(), t.data() + t.size(), v);
  if (e != std::errc{}) return false;
  t.remove_prefix(static_cast<std::size_t>(p - t.data()));
  return true;
}
bool fromText(std::string_view& t, bool& v) {
  v = eat(t, "true");
  return v || eat(t, "false");
}
bool fromText(std::string_view& t, std::string& v) {
  v.clear();
  if (!eat(t, "\"")) return false;
  auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  while (!t.empty() && t[0] != '"') {
    if (t[0] != '\\') {
      v += t[0], t.remove_prefix(1);
    } else if (t.size() >= 4 && t[1] == 'x') {
      const int hi = digit(t[2]), lo = digit(t[3]);
      if (hi < 0 || lo < 0) return false;
      v += static_cast<char>(hi * 16 + lo), t.remove_prefix(4);
    } else if (t.size() >= 2) {
      v += t[1], t.remove_prefix(2);
    } else {
      return false;
    }
  }
  return eat(t, "\"");
}
bool fromText(std::string_view& t, DType& v) {
  std::size_t n = 0;
  while (n < t.size() && (std::isalnum(static_cast<unsigned char>(t[n])) || t[n] == '_')) ++n;
  const auto d = parseDType(t.substr(0, n));
  if (!d) return false;
  return v = *d, t.remove_prefix(n), true;
}
bool fromText(std::string_view& t, Dim& v) {
  // A dim ends at a comma or bracket outside parentheses, or at a blank before a field name or
  // brace.
  std::size_t n = 0;
  int depth = 0;
  for (; n < t.size(); ++n) {
    if (t[n] == '(') ++depth;
    if (t[n] == ')' && --depth < 0) break;
    if (depth == 0 && (t[n] == ',' || t[n] == ']' || t[n] == '}')) break;
    if (depth == 0 && t[n] == ' ' && n + 1 < t.size() &&
        std::isalpha(static_cast<unsigned char>(t[n + 1])) && n > 0 && t[n - 1] != '+' &&
        t[n - 1] != '-' && t[n - 1] != '*')
      break;
  }
  auto d = parseDim(t.substr(0, n));
  if (!d) return false;
  return v = *std::move(d), t.remove_prefix(n), true;
}
bool fromText(std::string_view& t, std::vector<int64_t>& v) {
  return parseList(t, v);
}
bool fromText(std::string_view& t, std::vector<Dim>& v) {
  return parseList(t, v);
}

// f32[2,2](1,2,3,4) for small literals of common dtypes, f32[2,2]#hex bytes otherwise.
std::string toText(const Literal& v) {
  std::string s = std::string(name(v.dtype)) + toText(v.shape);
  const int64_t n = v.elements();
  const bool listed = n <= kInlineElements &&
                      (v.dtype == DType::F32 || v.dtype == DType::F64 || v.dtype == DType::I64 ||
                       v.dtype == DType::I32 || v.dtype == DType::Bool);
  if (listed) {
    bool nan = false;  // payload bits of a NaN would be lost
    std::string list;
    for (int64_t i = 0; i < n; ++i) {
      if (i) list += ",";
      if (v.dtype == DType::F32) {
        const float x = readAt<float>(v, i);
        nan |= std::isnan(x);
        char buffer[32];
        const auto r = std::to_chars(buffer, buffer + sizeof buffer, x);
        list += std::isinf(x) ? (x < 0 ? "-inf" : "inf") : std::string(buffer, r.ptr);
      } else if (v.dtype == DType::F64) {
        nan |= std::isnan(readAt<double>(v, i));
        list += toText(readAt<double>(v, i));
      } else if (v.dtype == DType::I64) {
        list += std::to_string(readAt<int64_t>(v, i));
      } else if (v.dtype == DType::I32) {
        list += std::to_string(readAt<int32_t>(v, i));
      } else {
        list += std::to_string(readAt<uint8_t>(v, i));
      }
    }
    if (!nan) return s + "(" + list + ")";
  }
  s += "#";
  constexpr char kHex[] = "0123456789abcdef";
  s.reserve(s.size() + v.bytes.size() * 2);
  for (const std::byte b : v.bytes) {
    s += kHex[static_cast<unsigned>(b) >> 4];
    s += kHex[static_cast<unsigned>(b) & 15];
  }
  return s;
}

bool fromText(std::string_view& t, Literal& v) {
  DType d{};
  std::vector<int64_t> shape;
  if (!fromText(t, d) || !fromText(t, shape)) return false;
  int64_t n = 1;
  for (const int64_t e : shape)
    if (e < 0 || __builtin_mul_overflow(n, e, &n) || n > (int64_t{1} << 40)) return false;
  const int64_t size = storageBytes(d, n);
  if (eat(t, "(")) {
    if (n > kInlineElements) return false;
    std::vector<std::byte> bytes(static_cast<std::size_t>(size));
    for (int64_t i = 0; i < n; ++i) {
      if (i && !eat(t, ",")) return false;
      std::byte* at = bytes.data() + i * (size / std::max<int64_t>(n, 1));
      if (d == DType::F32) {
        float x = 0;
        const auto [p, e] = std::from_chars(t.data(), t.data() + t.size(), x);
        if (e != std::errc{}) return false;
        t.remove_prefix(static_cast<std::size_t>(p - t.data()));
        std::memcpy(at, &x, 4);
      } else if (d == DType::F64) {
        double x = 0;
        if (!fromText(t, x)) return false;
        std::memcpy(at, &x, 8);
      } else if (d == DType::I64 || d == DType::I32 || d == DType::Bool) {
        int64_t x = 0;
        if (!fromText(t, x)) return false;
        std::memcpy(at, &x, static_cast<std::size_t>(bytes.size() / static_cast<std::size_t>(n)));
      } else {
        return false;
      }
    }
    if (!eat(t, ")")) return false;
    return v = Literal::copy(d, std::move(shape), bytes), true;
  }
  if (!eat(t, "#")) return false;
  if (t.size() < static_cast<std::size_t>(size) * 2) return false;
  auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  std::span<std::byte> out;
  Literal made = Literal::zeros(d, std::move(shape), &out);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const int hi = digit(t[2 * i]), lo = digit(t[2 * i + 1]);
    if (hi < 0 || lo < 0) return false;
    out[i] = static_cast<std::byte>(hi * 16 + lo);
  }
  t.remove_prefix(out.size() * 2);
  return v = std::move(made), true;
}

}  // namespace rlx
