// Scalar functions written once, run over any Domain: double, dual numbers, graph values, kernel
// expressions. The table scalar.def is the only list of them.
#pragma once
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace rlx {

enum class ScalarOp : uint8_t {
#define RLX_SCALAR(Id, ...) Id,
#include "scalar/scalar.def"
#undef RLX_SCALAR
};

enum class ScalarResult : uint8_t { Same, Bool };

struct ScalarInfo {
  std::string_view name;
  int arity;
  std::string_view types;  // f float, i integer, b bool; "bx": a bool, then two of any one type
  ScalarResult result;
  std::string_view c;  // C-family spelling; empty: no common spelling, a legaliser expands it
  double ulp;          // largest device error in f32 units in the last place
  double lo, hi;       // where tests sample
};

inline constexpr auto kScalars = std::to_array<ScalarInfo>({
#define RLX_SCALAR(Id, fn, n, types, result, c, ulp, lo, hi, ...) \
  {#fn, n, types, ScalarResult::result, c, ulp, lo, hi},
#include "scalar/scalar.def"
#undef RLX_SCALAR
});
inline constexpr std::size_t kScalarCount = kScalars.size();
constexpr const ScalarInfo& info(ScalarOp op) {
  return kScalars[static_cast<std::size_t>(op)];
}
constexpr std::optional<ScalarOp> parseScalarOp(std::string_view text) {
  for (std::size_t i = 0; i < kScalarCount; ++i)
    if (kScalars[i].name == text) return static_cast<ScalarOp>(i);
  return std::nullopt;
}

// A Domain interprets scalar ops. Unused operands are ignored.
template <class S>
concept Domain = std::constructible_from<S, double> && requires(const S s) {
  { S::apply(ScalarOp::Add, s, s, s) } -> std::same_as<S>;
};

#define RLX_FN1(Id, fn)                           \
  template <Domain S>                             \
  S fn(const S& a) {                              \
    return S::apply(ScalarOp::Id, a, S(0), S(0)); \
  }
#define RLX_FN2(Id, fn)                        \
  template <Domain S>                          \
  S fn(const S& a, const S& b) {               \
    return S::apply(ScalarOp::Id, a, b, S(0)); \
  }
#define RLX_FN3(Id, fn)                      \
  template <Domain S>                        \
  S fn(const S& a, const S& b, const S& c) { \
    return S::apply(ScalarOp::Id, a, b, c);  \
  }
#define RLX_SCALAR(Id, fn, n, ...) RLX_FN##n(Id, fn)
#include "scalar/scalar.def"
#undef RLX_SCALAR
template <Domain S>
S operator+(const S& a, const S& b) {
  return add(a, b);
}
template <Domain S>
S operator-(const S& a, const S& b) {
  return sub(a, b);
}
template <Domain S>
S operator*(const S& a, const S& b) {
  return mul(a, b);
}
template <Domain S>
S operator/(const S& a, const S& b) {
  return div(a, b);
}
template <Domain S>
S operator-(const S& a) {
  return neg(a);
}

namespace scalar {
__extension__ typedef __int128 Wide;
// floor-mod of doubles; takes the sign of the divisor.
inline double floorMod(double a, double b) {
  const double r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
// Product modulo 2^128: wider than any of our integers, so wrapping it later is exact.
inline Wide wrapMul(Wide a, Wide b) {
  __extension__ typedef unsigned __int128 UWide;
  return static_cast<Wide>(static_cast<UWide>(a) * static_cast<UWide>(b));
}
// Negative exponent: 0 except for bases 1 and -1. Wraps.
inline Wide integerPow(Wide a, Wide b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : 0;
  Wide y = 1;
  for (; b > 0; b >>= 1) {
    if (b & 1) y = wrapMul(y, a);
    a = wrapMul(a, a);
  }
  return y;
}
// The reference value over doubles, and over integers of `w` bits before wrapping.
double value(ScalarOp op, double a, double b, double c);
Wide integerValue(ScalarOp op, Wide a, Wide b, Wide c, int w);
}  // namespace scalar

// Domain 1: double, the reference semantics.
struct F64 {
  double v;
  F64(double x) : v(x) {}
  static F64 apply(ScalarOp op, F64 a, F64 b, F64 c) {
    return F64(scalar::value(op, a.v, b.v, c.v));
  }
};

// d(op)/d(operand i), over any domain.
template <Domain S>
S partial(ScalarOp op, int i, const S& a, const S& b, const S& c, const S& y) {
  const S zero(0), one(1);
  (void)a, (void)b, (void)c, (void)y;
  switch (op) {
#define RLX_SCALAR(Id, fn, n, types, result, sp, ulp, lo, hi, value, ivalue, da, db, dc) \
  case ScalarOp::Id:                                                                     \
    return i == 0 ? S(da) : i == 1 ? S(db) : S(dc);
#include "scalar/scalar.def"
#undef RLX_SCALAR
  }
  return zero;
}

// Domain 2: dual numbers over any other domain: forward mode, and with it every elementwise vjp.
template <Domain S>
struct Dual {
  S v, d;
  Dual(double x) : v(x), d(0) {}
  Dual(S value, S tangent) : v(std::move(value)), d(std::move(tangent)) {}
  static Dual apply(ScalarOp op, const Dual& a, const Dual& b, const Dual& c) {
    const int n = info(op).arity;
    S y = S::apply(op, a.v, b.v, c.v);
    S d = a.d * partial(op, 0, a.v, b.v, c.v, y);
    if (n > 1) d = d + b.d * partial(op, 1, a.v, b.v, c.v, y);
    if (n > 2) d = d + c.d * partial(op, 2, a.v, b.v, c.v, y);
    return {std::move(y), std::move(d)};
  }
};

}  // namespace rlx
