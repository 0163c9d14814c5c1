// F32 elementary functions built from add, fma, compare, shift and bitcast, for targets whose
// instruction set lacks them. They stand apart from the op table so that the CPU emitter and every
// dialect share one definition and one error bound. All keep NaN, infinities, signed zero and
// subnormals; all need Fma to round once and Min and Max to propagate NaN (numerics.md).
//
// Error against the exact value is within the `ulp` column of scalar.def. Polynomials are minimax
// fits of the relative error on the reduced range.
#pragma once
#include <limits>
#include <numbers>
#include <optional>

#include "kir/expand_real.h"
#include "scalar/scalar.h"

namespace rlx::kir {

// Beyond this magnitude the argument reduction of sin and cos loses accuracy: use a library there.
inline constexpr double kTrigLimit = 1e5;

namespace expand_detail {

inline Expr f32(double v) { return constant(DType::F32, v); }
inline Expr i32(int64_t v) { return integer(DType::I32, v); }
inline Expr bits(const Expr& x) { return bitcast(DType::I32, x); }
inline Expr floats(const Expr& x) { return bitcast(DType::F32, x); }
inline Expr infinity() { return f32(std::numeric_limits<double>::infinity()); }

// Adding 1.5 * 2^23 rounds to the nearest integer, which then stands in the low bits.
inline constexpr double kRounder = 12582912.0;

// p * 4^n where the low bits of `rounded` hold n: two factors, so that neither overflow nor gradual
// underflow happens before the last multiplication.
inline Expr scaleBy4(const Expr& p, const Expr& rounded) {
  const Expr s = floats(add(shl(bits(rounded), i32(23)), i32(0x3f800000)));
  return mul(mul(p, s), s);
}

// x = 2^e * m with m in [sqrt(1/2), sqrt(2)); subnormals included. Other x give garbage.
struct Split {
  Expr m, e;
};
inline Split split(const Expr& x) {
  const Expr tiny = lt(x, f32(1.17549435e-38));
  const Expr b = bits(select(tiny, mul(x, f32(8388608.0)), x));
  const Expr t = sub(b, i32(0x3f3504f3));
  const Expr e = shr(t, i32(23));
  const Expr m = floats(sub(b, shl(e, i32(23))));
  return {m, sub(cast(DType::F32, e), select(tiny, f32(23), f32(0)))};
}

// log(m) for m near 1, as f + tail with f = m - 1 exact.
struct LogParts {
  Expr f, tail;
};
inline LogParts logParts(const Expr& m) {
  const Expr f = sub(m, f32(1)), z = mul(f, f);
  const Expr p = polynomial(
      f, {7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
          -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1});
  return {f, mul(z, fma(f, p, f32(-0.5)))};
}

// Puts the values of a logarithm at 0, below 0, at infinity and NaN over y.
inline Expr logEdges(const Expr& x, const Expr& y) {
  const Expr zero = like(x, 0);
  const Expr edge = select(eq(x, zero), like(x, -std::numeric_limits<double>::infinity()),
                           select(lt(x, zero), nanOf(x), x));
  return select(bit_and(gt(x, zero), lt(x, infinityOf(x))), y, edge);
}

}  // namespace expand_detail

// Below log(2^-150) the result rounds to 0. Such operands are set aside, not computed: masked scores
// are -inf, and arithmetic with subnormal results costs a processor a hundred cycles.
inline Expr expandExp(const Expr& a) {
  using namespace expand_detail;
  const Expr zero = lt(a, f32(-103.98));
  const Expr x = min(select(zero, f32(0), a), f32(89.5));
  const Expr t = fma(x, f32(0.5 * std::numbers::log2e), f32(kRounder));
  const Expr n = sub(t, f32(kRounder));
  const Expr r = fma(n, f32(-2 * 1.42860682e-6), fma(n, f32(-2 * 0.693145752), x));
  const Expr y = scaleBy4(polynomial(r, {0.000195776579, 0.00141230456, 0.0083369489, 0.0416598708,
                                         0.166665698, 0.500000617, 1.00000006, 1.0}),
                          t);
  return select(zero, f32(0), y);
}

inline Expr expandExp2(const Expr& a) {
  using namespace expand_detail;
  const Expr x = min(max(a, f32(-151)), f32(129));
  const Expr t = fma(x, f32(0.5), f32(kRounder));
  const Expr n = sub(t, f32(kRounder));
  const Expr r = fma(n, f32(-2), x);
  return scaleBy4(polynomial(r, {1.50500854e-05, 0.000156632228, 0.00133393432, 0.00961656038,
                                 0.055503786, 0.240226804, 0.693147222, 1.0}),
                  t);
}

// 2^n * (e^r - 1) + (2^n - 1), both halved so that 2^n does not overflow before the result does.
inline Expr expandExpm1(const Expr& a) {
  using namespace expand_detail;
  const Expr x = min(max(a, f32(-30)), f32(89));
  const Expr t = fma(x, f32(std::numbers::log2e), f32(kRounder));
  const Expr n = sub(t, f32(kRounder));
  const Expr r = fma(n, f32(-1.42860682e-6), fma(n, f32(-0.693145752), x));
  const Expr p = polynomial(r, {0.00139460894, 0.0083663961, 0.0416662892, 0.166665451, 0.5});
  const Expr q = fma(mul(r, r), p, r);
  const Expr s = floats(add(shl(bits(t), i32(23)), i32(0x3f000000)));
  const Expr y = fma(s, q, sub(s, f32(0.5)));
  return select(eq(a, f32(0)), a, select(eq(n, f32(0)), q, add(y, y)));
}

inline Expr expandLog(const Expr& x) {
  using namespace expand_detail;
  const Split s = split(x);
  const LogParts l = logParts(s.m);
  const Expr low = fma(s.e, f32(-2.12194440e-4), l.tail);
  return logEdges(x, fma(s.e, f32(0.693359375), add(low, l.f)));
}

inline Expr expandLog2(const Expr& x) {
  using namespace expand_detail;
  const Split s = split(x);
  const LogParts l = logParts(s.m);
  return logEdges(x, fma(add(l.f, l.tail), f32(std::numbers::log2e), s.e));
}

inline Expr expandLog10(const Expr& x) {
  using namespace expand_detail;
  const Split s = split(x);
  const LogParts l = logParts(s.m);
  const Expr y = mul(add(l.f, l.tail), f32(std::numbers::log10e));
  return logEdges(x, fma(s.e, f32(0.301025391), fma(s.e, f32(4.60503e-6), y)));
}

// log(u) + (x - (u - 1)) / u with u = 1 + x as rounded: the quotient restores what u lost.
inline Expr expandLog1p(const Expr& x) {
  using namespace expand_detail;
  const Expr u = add(x, f32(1));
  const Expr lost = div(sub(x, sub(u, f32(1))), u);
  const Expr y = add(expandLog(u), lost);
  const Expr plain = bit_and(gt(u, f32(0)), lt(u, infinity()));
  return select(eq(x, f32(0)), x, select(plain, y, expandLog(u)));
}

inline Expr expandTanh(const Expr& a) {
  using namespace expand_detail;
  const Expr x = min(max(a, f32(-9.01)), f32(9.01)), u = mul(x, x);
  const Expr p = polynomial(
      u, {1.33368743e-08, 2.05962937e-05, 0.00349481227, 0.133803726, 0.999999979});
  const Expr q = polynomial(u, {7.76929402e-07, 0.000328436522, 0.0258740314, 0.46713688, 1.0});
  const Expr y = min(max(div(mul(x, p), q), f32(-1)), f32(1));
  // Exactly 1 where the rounded value is: 1 - tanh(x) decides the sign of what follows.
  const Expr one = select(lt(x, f32(0)), f32(-1), f32(1));
  return select(lt(u, f32(1e-8)), x, select(le(f32(81), u), one, y));
}

inline Expr expandErf(const Expr& a) {
  using namespace expand_detail;
  const Expr x = min(max(a, f32(-3.95)), f32(3.95)), u = mul(x, x);
  const Expr p = polynomial(u, {2.02590457e-06, 0.000284688715, 0.00380819719, 0.0528755594,
                                0.191551111, 1.12837914});
  const Expr q = polynomial(u, {3.78318164e-05, 0.0011707347, 0.0150551619, 0.114559961,
                                0.503090428, 1.0});
  const Expr one = select(lt(x, f32(0)), f32(-1), f32(1));
  return select(le(f32(15.4), u), one, min(max(div(mul(x, p), q), f32(-1)), f32(1)));
}

namespace expand_detail {

enum class Phase : uint8_t { Sine, Cosine };

// For |x| <= kTrigLimit. Three fma steps subtract the multiple of pi/2; the first is exact.
inline Expr trig(const Expr& x, Phase phase) {
  const Expr t = fma(x, f32(2 * std::numbers::inv_pi), f32(kRounder));
  const Expr n = sub(t, f32(kRounder));
  Expr r = fma(n, f32(-1.57079637050628662109375), x);
  r = fma(n, f32(4.37113900018624283e-8), r);
  r = fma(n, f32(1.71512449e-15), r);
  const Expr z = mul(r, r);
  const Expr s = fma(
      mul(r, z), polynomial(z, {-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1}), r);
  const Expr c = fma(
      z, fma(z, polynomial(z, {2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2}),
             f32(-0.5)),
      f32(1));
  const Expr k = phase == Phase::Sine ? bits(t) : add(bits(t), i32(1));
  const Expr odd = ne(bit_and(k, i32(1)), i32(0));
  const Expr sign = shl(bit_and(k, i32(2)), i32(30));
  return floats(bit_xor(bits(select(odd, c, s)), sign));
}

}  // namespace expand_detail

// Right for |x| <= kTrigLimit and NaN only. sin(-0) is -0.
inline Expr expandSin(const Expr& x) {
  using namespace expand_detail;
  return select(eq(x, f32(0)), x, trig(x, Phase::Sine));
}
inline Expr expandCos(const Expr& x) {
  using namespace expand_detail;
  return trig(x, Phase::Cosine);
}

// The expansion of a unary F32 op, or nothing when there is none here.
inline std::optional<Expr> expandUnary(ScalarOp op, const Expr& x) {
  if (op == ScalarOp::Exp) return expandExp(x);
  if (op == ScalarOp::Exp2) return expandExp2(x);
  if (op == ScalarOp::Expm1) return expandExpm1(x);
  if (op == ScalarOp::Log) return expandLog(x);
  if (op == ScalarOp::Log2) return expandLog2(x);
  if (op == ScalarOp::Log10) return expandLog10(x);
  if (op == ScalarOp::Log1p) return expandLog1p(x);
  if (op == ScalarOp::Tanh) return expandTanh(x);
  if (op == ScalarOp::Erf) return expandErf(x);
  if (op == ScalarOp::Sin) return expandSin(x);
  if (op == ScalarOp::Cos) return expandCos(x);
  return std::nullopt;
}

}  // namespace rlx::kir
