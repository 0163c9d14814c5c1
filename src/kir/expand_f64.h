// F64 elementary functions built from add, mul, div, sqrt, compare, shift and bitcast, for
// languages that have none (GLSL). They need no fused fma: where a product must be exact its
// factors are short (Cody and Waite). Errors are within the `ulp` column of scalar.def in units of
// 2^-52. Polynomials are Chebyshev interpolants on the reduced range. What F32 and F64 compute
// alike stands in expand_real.h.
#pragma once
#include <limits>
#include <numbers>
#include <optional>

#include "kir/expand_gpu.h"

namespace rlx::kir {
namespace expand_detail {

inline Expr f64(double v) {
  return constant(DType::F64, v);
}
inline Expr i64(int64_t v) {
  return integer(DType::I64, v);
}

// Adding 1.5 * 2^52 rounds to the nearest integer, which then stands in the low bits.
inline constexpr double kRounder64 = 6755399441055744.0;

// x = n * ln2 + r with |r| <= ln2 / 2; n as a float and as an I64. n * kLn2High is exact.
inline constexpr double kLn2High = 0.693147180559663, kLn2Low = 2.8235290563031577e-13;
struct ExpParts {
  Expr r, n, whole;
};
inline Expr roundedWhole(const Expr& t) {
  return sub(bitcast(DType::I64, t), bitcast(DType::I64, f64(kRounder64)));
}
inline ExpParts expParts(const Expr& x) {
  const Expr t = x * f64(std::numbers::log2e) + f64(kRounder64);
  const Expr n = t - f64(kRounder64);
  return {x - n * f64(kLn2High) - n * f64(kLn2Low), n, roundedWhole(t)};
}
// e^r - 1 for |r| <= ln2 / 2.
inline Expr expm1Near(const Expr& r) {
  const Expr p =
      polynomial(r, {1.6087177234380782e-10, 2.0918961837795778e-09, 2.5052069594795685e-08,
                     2.755726102934377e-07, 2.7557319248633827e-06, 2.4801587338565345e-05,
                     0.00019841269841262761, 0.0013888888888878269, 0.008333333333333333,
                     0.04166666666666668, 0.16666666666666666, 0.5});
  return r + r * r * p;
}

inline Expr exp64(const Expr& a) {
  const ExpParts s = expParts(min(max(a, f64(-746)), f64(710)));
  return scale(f64(1) + expm1Near(s.r), s.whole);
}
inline Expr exp2_64(const Expr& a) {
  const Expr x = min(max(a, f64(-1076)), f64(1025));
  const Expr t = x + f64(kRounder64);
  const Expr r = (x - (t - f64(kRounder64))) * f64(std::numbers::ln2);
  return scale(f64(1) + expm1Near(r), roundedWhole(t));
}
// 2^n * (e^r - 1) + (2^n - 1), both halved so that 2^n does not overflow before the result does.
inline Expr expm1_64(const Expr& a) {
  const ExpParts s = expParts(min(max(a, f64(-40)), f64(710)));
  const Expr q = expm1Near(s.r), half = powerOfTwo(DType::F64, s.whole - i64(1));
  const Expr y = half * q + (half - f64(0.5));
  return select(eq(a, f64(0)), a, select(eq(s.n, f64(0)), q, y + y));
}

// log(m) for m near 1 as f - less, f = m - 1 exact: with s = f / (2 + f), log(m) = 2 atanh(s) and
// 2 s = f - s f.
struct LogParts64 {
  Expr f, square, product;  // log(m) = f - (square - product)
};
inline LogParts64 logParts64(const Expr& m) {
  const Expr f = m - f64(1), s = f / (f64(2) + f), z = s * s, square = f64(0.5) * f * f;
  const Expr p = polynomial(
      z, {0.14617807153462828, 0.15331611722050653, 0.18182892432537032, 0.22222211089379493,
          0.28571428626253836, 0.3999999999989889, 0.666666666666667});
  return {f, square, s * (square + z * p)};
}

inline Expr log64(const Expr& x) {
  const Binary s = binary(x);
  const LogParts64 l = logParts64(s.m);
  const Expr low = l.square - (l.product + s.e * f64(kLn2Low)) - l.f;
  return logEdges(x, s.e * f64(kLn2High) - low);
}
inline Expr log2_64(const Expr& x) {
  const Binary s = binary(x);
  const LogParts64 l = logParts64(s.m);
  return logEdges(x, (l.f - (l.square - l.product)) * f64(std::numbers::log2e) + s.e);
}
inline Expr log10_64(const Expr& x) {
  const Binary s = binary(x);
  const LogParts64 l = logParts64(s.m);
  const Expr y = (l.f - (l.square - l.product)) * f64(std::numbers::log10e);
  return logEdges(x, s.e * f64(0.30102999566383914) + (s.e * f64(1.42050232272661e-13) + y));
}
// log(u) + (x - (u - 1)) / u with u = 1 + x as rounded: the quotient restores what u lost.
inline Expr log1p64(const Expr& x) {
  const Expr u = x + f64(1), y = log(u);
  const Expr lost = (x - (u - f64(1))) / u;
  const Expr plain = bit_and(gt(u, f64(0)), lt(u, infinityOf(u)));
  return select(eq(x, f64(0)), x, select(plain, y + lost, y));
}

inline Expr tanh64(const Expr& x) {
  const Expr a = min(abs(x), f64(22)), e = expm1(a + a);
  return withSign(e / (e + f64(2)), x);
}

// Below 1 by polynomial, from there on as 1 - erfc(a), erfc(a) = e^(-a^2) * q(t) / (1 + 2 a).
inline Expr erf64(const Expr& x) {
  const Expr a = min(abs(x), f64(6)), z = a * a;
  const Expr near = polynomial(
      z, {5.957176147746114e-11, -1.1372848856789924e-09, 1.4659775274046955e-08,
          -1.6350312701054618e-07, 1.6461000484121361e-06, -1.4925595266831182e-05,
          0.0001205533111164271, -0.000854832698083379, 0.0052239776248180145,
          -0.026866170645076792, 0.11283791670954879, -0.3761263890318375, 1.1283791670955126});
  const Expr t = (a - f64(3)) / (a + f64(3));
  const Expr q =
      polynomial(t, {-3.941434579212148e-06, -1.9946386266158316e-05, 6.120647749371338e-06,
                     0.00012533420054777904, -0.00010532108845047966, -0.0007798805620518153,
                     0.001888700988139963, 0.002529395728905082, -0.02377051526428797,
                     0.0683080271973104, -0.11927366341012202, 0.12964515870508256,
                     -0.047562294353480875, -0.13562110612459163, 1.2530080582697296});
  const Expr far = f64(1) - exp(-z) * q / (f64(1) + a + a);
  return withSign(select(lt(a, f64(1)), a * near, far), x);
}

// A guess from a third of the exponent, within 3.2 %, then Newton steps; subnormals are scaled
// first.
inline Expr cbrt64(const Expr& x) {
  const Expr a = abs(x), tiny = lt(a, f64(0x1p-1022));
  const Expr m = select(tiny, a * f64(0x1p54), a);
  const Expr upper = cast(DType::U32, shr(bitcast(DType::U64, m), integer(DType::U64, 32)));
  const Expr third = upper / integer(DType::U32, 3) + integer(DType::U32, 715094000);
  Expr y = bitcast(DType::F64, shl(cast(DType::U64, third), integer(DType::U64, 32)));
  for (int i = 0; i < 4; ++i) y = y - (y - m / (y * y)) * f64(1.0 / 3);
  y = select(tiny, y * f64(0x1p-18), y);
  const Expr plain = bit_and(gt(a, f64(0)), lt(a, infinityOf(a)));
  return select(plain, withSign(y, x), x);
}

}  // namespace expand_detail

// The expansion of an F64 op, or nothing when there is none here.
inline std::optional<Expr> expandDouble(ScalarOp op, const Expr& a, const Expr& b) {
  using namespace expand_detail;
  if (op == ScalarOp::Exp) return exp64(a);
  if (op == ScalarOp::Exp2) return exp2_64(a);
  if (op == ScalarOp::Expm1) return expm1_64(a);
  if (op == ScalarOp::Log) return log64(a);
  if (op == ScalarOp::Log2) return log2_64(a);
  if (op == ScalarOp::Log10) return log10_64(a);
  if (op == ScalarOp::Log1p) return log1p64(a);
  if (op == ScalarOp::Tanh) return tanh64(a);
  if (op == ScalarOp::Erf) return erf64(a);
  if (op == ScalarOp::Cbrt) return cbrt64(a);
  return expandPortable(op, a, b);
}

}  // namespace rlx::kir
