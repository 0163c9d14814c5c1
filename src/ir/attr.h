// Attributes of an op: a plain struct with its fields named once (RLX_FIELDS); printing, parsing
// and comparison follow. `Attrs` holds any such struct, immutable and shared.
#pragma once
#include <algorithm>
#include <cctype>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "ir/dim.h"
#include "ir/dtype.h"
#include "ir/literal.h"

namespace rlx {

#define RLX_FIELDS(...)                                        \
  static constexpr std::string_view fieldNames = #__VA_ARGS__; \
  auto fields() {                                              \
    return std::tie(__VA_ARGS__);                              \
  }                                                            \
  auto fields() const {                                        \
    return std::tie(__VA_ARGS__);                              \
  }

// Text of a field value, and back. `t` is advanced past what was read. Enums that list their
// spellings in an ADL function `spellings(E)` (a null-terminated array) are covered too. A field
// that is a std::optional stands in the text only when it has a value; a struct needs another
// field.
std::string toText(int64_t v);
std::string toText(double v);  // shortest text that reads back to the same bits; inf, -inf, nan
std::string toText(bool v);
std::string toText(const std::string& v);
std::string toText(DType v);
std::string toText(const Dim& v);
std::string toText(const std::vector<int64_t>& v);
std::string toText(const std::vector<Dim>& v);
std::string toText(const Literal& v);
bool fromText(std::string_view& t, int64_t& v);
bool fromText(std::string_view& t, double& v);
bool fromText(std::string_view& t, bool& v);
bool fromText(std::string_view& t, std::string& v);
bool fromText(std::string_view& t, DType& v);
bool fromText(std::string_view& t, Dim& v);
bool fromText(std::string_view& t, std::vector<int64_t>& v);
bool fromText(std::string_view& t, std::vector<Dim>& v);
bool fromText(std::string_view& t, Literal& v);

template <class E>
requires std::is_enum_v<E> && requires(E e) {
  spellings(e);
}
std::string toText(E v) {
  return spellings(v)[static_cast<std::size_t>(v)];
}
template <class E>
requires std::is_enum_v<E> && requires(E e) {
  spellings(e);
}
bool fromText(std::string_view& t, E& v) {
  const auto* all = spellings(v);
  for (std::size_t i = 0; all[i]; ++i) {
    const std::string_view s = all[i];
    if (t.substr(0, s.size()) != s) continue;
    if (t.size() > s.size() &&
        (std::isalnum(static_cast<unsigned char>(t[s.size()])) || t[s.size()] == '_'))
      continue;
    return t.remove_prefix(s.size()), v = static_cast<E>(i), true;
  }
  return false;
}

// An op without attributes.
struct NoAttrs {
  static constexpr std::string_view fieldNames = "";
  auto fields() { return std::tie(); }
  auto fields() const { return std::tie(); }
};

// What the graph knows about one attribute struct.
struct AttrsInfo {
  std::string (*print)(const void*);  // "{axes=[0] keepDims=true}"; "" without fields
  // Reads what print wrote; advances `t`. Null when it does not parse, and `t` stands at the place.
  std::shared_ptr<const void> (*parse)(std::string_view& t);
  std::string_view fieldNames;
};

template <class A>
constexpr const AttrsInfo& attrsInfo();

class Attrs {
 public:
  Attrs() = default;
  template <class A>
  static Attrs of(A a) {
    Attrs x;
    x.value_ = std::make_shared<const A>(std::move(a));
    x.info_ = &attrsInfo<A>();
    return x;
  }
  Attrs(const AttrsInfo& info, std::shared_ptr<const void> value)
      : value_(std::move(value)), info_(&info) {}
  // Requires that A is the struct it was made from.
  template <class A>
  const A& as() const {
    RLX_CHECK(info_ == &attrsInfo<A>(), "attributes of another op");
    return *static_cast<const A*>(value_.get());
  }
  bool has() const { return info_ != nullptr; }
  std::string text() const { return info_ ? info_->print(value_.get()) : std::string(); }

 private:
  std::shared_ptr<const void> value_;
  const AttrsInfo* info_ = nullptr;
};

namespace detail {
template <class T>
inline constexpr bool kOptional = false;
template <class T>
inline constexpr bool kOptional<std::optional<T>> = true;

inline std::string_view nextField(std::string_view& names) {
  const std::size_t cut = std::min(names.find(','), names.size());
  const std::string_view name = names.substr(0, cut);
  names = names.substr(std::min(names.find_first_not_of(", ", cut), names.size()));
  return name;
}
template <class A>
std::string printAttrs(const void* p) {
  std::string out;
  std::string_view names = A::fieldNames;
  std::apply(
      [&](const auto&... f) {
        [[maybe_unused]] auto one = [&](const auto& v) {
          const std::string_view name = nextField(names);
          const auto print = [&](const auto& value) {
            out += (out.empty() ? "{" : " ") + std::string(name) + "=" + toText(value);
          };
          if constexpr (!kOptional<std::remove_cvref_t<decltype(v)>>)
            print(v);
          else if (v)
            print(*v);
        };
        (one(f), ...);
      },
      static_cast<const A*>(p)->fields());
  return out.empty() ? out : out + "}";
}
template <class A>
std::shared_ptr<const void> parseAttrs(std::string_view& t) {
  auto a = std::make_shared<A>();
  std::string_view names = A::fieldNames;
  if (names.empty()) return a;
  bool ok = t.substr(0, 1) == "{";
  if (ok) t.remove_prefix(1);
  std::apply(
      [&](auto&... f) {
        [[maybe_unused]] auto one = [&](auto& v) {
          const std::string key = std::string(nextField(names)) + "=";
          const bool there = t.substr(0, key.size()) == key;
          if constexpr (kOptional<std::remove_reference_t<decltype(v)>>) {
            if (!there) return;
            if (ok) t.remove_prefix(key.size()), ok = fromText(t, v.emplace());
          } else {
            ok = ok && there;
            if (ok) t.remove_prefix(key.size()), ok = fromText(t, v);
          }
          if (ok && t.substr(0, 1) == " ") t.remove_prefix(1);
        };
        (one(f), ...);
      },
      a->fields());
  if (!ok || t.substr(0, 1) != "}") return nullptr;
  t.remove_prefix(1);
  return a;
}
}  // namespace detail

template <class A>
inline constexpr AttrsInfo kAttrsInfo{&detail::printAttrs<A>, &detail::parseAttrs<A>,
                                      A::fieldNames};
template <class A>
constexpr const AttrsInfo& attrsInfo() {
  return kAttrsInfo<A>;
}

}  // namespace rlx
