// F32 functions for graphics languages, whose own have loose bounds (Vulkan allows sin an absolute
// error of 2^-11 and atan 4096 units) and whose fma need not round once. Apart from expand.h
// because that one relies on a fused fma. Same error bounds: the `ulp` column of scalar.def.
#pragma once
#include <limits>
#include <optional>

#include "kir/expand.h"
#include "kir/expand_cast.h"

namespace rlx::kir {
namespace expand_detail {

// pi/2 in three parts; the first two have trailing zeros, so that their products with a quadrant
// number below 2^12 are exact without a fused fma (Cody and Waite; the constants are those of
// Cephes).
inline Expr trigUnfused(const Expr& x, Phase phase) {
  const Expr n = round(mul(x, f32(2 * std::numbers::inv_pi)));
  Expr r = sub(x, mul(n, f32(1.5703125)));
  r = sub(r, mul(n, f32(4.837512969970703125e-4)));
  r = sub(r, mul(n, f32(7.54978995489188216e-8)));
  const Expr z = mul(r, r);
  const Expr s =
      add(mul(mul(r, z), polynomial(z, {-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1})), r);
  const Expr tail =
      mul(mul(z, z),
          polynomial(z, {2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2}));
  const Expr c = add(sub(tail, mul(f32(0.5), z)), f32(1));
  const Expr whole = cast(DType::I32, n);
  const Expr k = phase == Phase::Sine ? whole : add(whole, i32(1));
  const Expr odd = ne(bit_and(k, i32(1)), i32(0));
  const Expr sign = shl(bit_and(k, i32(2)), i32(30));
  // Infinity has no sine: r is NaN there already, by infinity minus infinity.
  return floats(bit_xor(bits(select(odd, c, s)), sign));
}

inline Expr sinUnfused(const Expr& x) {
  return select(eq(x, f32(0)), x, trigUnfused(x, Phase::Sine));
}
inline Expr cosUnfused(const Expr& x) {
  return trigUnfused(x, Phase::Cosine);
}

// Odd and even parts by the sign bit: f(|x|) with the sign of x.
inline Expr withSign(const Expr& magnitude, const Expr& x) {
  return copysign(magnitude, x);
}

inline Expr atanPositive(const Expr& a) {
  const Expr large = gt(a, f32(2.414213562373095)), middle = gt(a, f32(0.4142135623730950));
  const Expr x =
      select(large, div(f32(-1), a), select(middle, div(sub(a, f32(1)), add(a, f32(1))), a));
  const Expr base =
      select(large, f32(std::numbers::pi / 2), select(middle, f32(std::numbers::pi / 4), f32(0)));
  const Expr z = mul(x, x);
  const Expr p =
      polynomial(z, {8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1});
  return add(base, add(mul(mul(p, z), x), x));
}

// NaN and the signed zeros come out by themselves but for x = 0 and both infinite.
inline Expr atan2Full(const Expr& y, const Expr& x) {
  const Expr ay = abs(y), ax = abs(x);
  const Expr bothInf = bit_and(eq(ay, infinity()), eq(ax, infinity()));
  const Expr ratio = select(bothInf, f32(1), select(eq(ay, f32(0)), f32(0), div(ay, ax)));
  const Expr base = atanPositive(ratio);
  const Expr negative = lt(bits(x), i32(0));
  const Expr angle = select(negative, sub(f32(std::numbers::pi), base), base);
  const Expr nan = bit_or(is_nan(x), is_nan(y));
  return select(nan, add(x, y), withSign(angle, y));
}

// asin on [0, 1/2] by polynomial, elsewhere through the half angle.
inline Expr asinPolynomial(const Expr& z, const Expr& x) {
  const Expr p = polynomial(
      z, {4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1});
  return add(mul(mul(p, z), x), x);
}
inline Expr asinFull(const Expr& x) {
  const Expr a = abs(x), outer = gt(a, f32(0.5));
  const Expr z = select(outer, mul(f32(0.5), sub(f32(1), a)), mul(a, a));
  const Expr p = asinPolynomial(z, select(outer, sqrt(z), a));
  return withSign(select(outer, sub(f32(std::numbers::pi / 2), add(p, p)), p), x);
}
inline Expr acosFull(const Expr& x) {
  const Expr a = abs(x), outer = gt(a, f32(0.5));
  const Expr z = select(outer, mul(f32(0.5), sub(f32(1), a)), mul(a, a));
  const Expr p = asinPolynomial(z, select(outer, sqrt(z), x));
  const Expr twice = add(p, p);
  const Expr far = select(lt(x, f32(0)), sub(f32(std::numbers::pi), twice), twice);
  return select(outer, far, sub(f32(std::numbers::pi / 2), p));
}

// e^x - 1 keeps sinh accurate near 0; large x halve before they overflow.
inline Expr sinhFull(const Expr& x) {
  const Expr a = abs(x), e = expm1(a);
  const Expr small = mul(f32(0.5), add(e, div(e, add(e, f32(1)))));
  const Expr half = exp(mul(f32(0.5), a));
  const Expr large = mul(mul(f32(0.5), half), half);
  return withSign(select(gt(a, f32(60)), large, small), x);
}
inline Expr coshFull(const Expr& x) {
  const Expr a = abs(x), half = exp(mul(f32(0.5), a)), e = exp(a);
  const Expr large = mul(mul(f32(0.5), half), half);
  return select(gt(a, f32(60)), large, mul(f32(0.5), add(e, div(f32(1), e))));
}
inline Expr asinhFull(const Expr& x) {
  const Expr a = abs(x), z = mul(a, a);
  const Expr small = log1p(add(a, div(z, add(f32(1), sqrt(add(z, f32(1)))))));
  const Expr large = add(log(a), f32(std::numbers::ln2));
  return withSign(select(gt(a, f32(1e6)), large, small), x);
}
inline Expr acoshFull(const Expr& x) {
  const Expr t = sub(x, f32(1));
  const Expr small = log1p(add(t, sqrt(add(add(t, t), mul(t, t)))));
  return select(gt(x, f32(1e6)), add(log(x), f32(std::numbers::ln2)), small);
}
inline Expr atanhFull(const Expr& x) {
  const Expr a = abs(x);
  return withSign(mul(f32(0.5), log1p(div(add(a, a), sub(f32(1), a)))), x);
}

// A guess from a third of the exponent, then two Newton steps; subnormals are scaled first.
inline Expr cbrtFull(const Expr& x) {
  const Expr a = abs(x), tiny = lt(a, f32(1.17549435e-38));
  const Expr m = select(tiny, mul(a, f32(16777216.0)), a);
  Expr y = floats(add(div(bits(m), i32(3)), i32(709921077)));
  for (int i = 0; i < 3; ++i) y = sub(y, div(sub(y, div(m, mul(y, y))), f32(3)));
  y = select(tiny, mul(y, f32(1.0 / 256)), y);
  const Expr plain = bit_and(gt(a, f32(0)), lt(a, infinity()));
  return select(plain, withSign(y, x), x);
}

// A product as an unevaluated sum, exact (Dekker): the low part of a * b.
inline Expr productLow(const Expr& a, const Expr& b, const Expr& p) {
  auto high = [](const Expr& v) { return floats(bit_and(bits(v), i32(-4096))); };
  const Expr ah = high(a), al = sub(a, ah), bh = high(b), bl = sub(b, bh);
  return add(mul(al, bl), sub(add(mul(al, bh), mul(ah, bl)), sub(p, mul(ah, bh))));
}

// 2^(b * log2 a) with the logarithm and the product as sums of two floats.
inline Expr powPositive(const Expr& a, const Expr& b) {
  const Split s = split(a);
  // log2(m) = 2/ln2 * atanh(w), w = (m - 1) / (m + 1): w as a sum of two floats.
  const Expr up = sub(s.m, f32(1)), down = add(s.m, f32(1));
  const Expr w = div(up, down);
  const Expr wd = mul(w, down);
  const Expr downLow = sub(s.m, sub(down, f32(1)));
  const Expr remainder = sub(sub(sub(up, wd), productLow(w, down, wd)), mul(w, downLow));
  const Expr wLow = div(remainder, down);
  const Expr z = mul(w, w);
  const Expr series =
      mul(mul(w, z), polynomial(z, {0.26230818925253882, 0.32059889797532521, 0.41219858311113244,
                                    0.57707801635558534, 0.96179669392597556}));
  const double scale = 2.8853900817779268, scaleHigh = 2.885390043258667;
  const Expr first = mul(w, f32(scaleHigh));
  const Expr firstLow = add(productLow(w, f32(scaleHigh), first),
                            add(mul(w, f32(scale - scaleHigh)), mul(wLow, f32(scale))));
  const Expr low0 = add(firstLow, series);
  // (e + first) + low0, renormalised: |e| is 0 or at least 1 > |first|.
  const Expr sum = add(s.e, first);
  const Expr carried =
      select(ge(abs(s.e), abs(first)), sub(first, sub(sum, s.e)), sub(s.e, sub(sum, first)));
  const Expr low1 = add(carried, low0);
  const Expr high = add(sum, low1), low = sub(low1, sub(high, sum));
  const Expr y = mul(high, b);
  const Expr yLow = add(productLow(high, b, y), mul(low, b));
  const Expr clamped = min(max(y, f32(-200)), f32(200));
  const Expr inRange = lt(abs(y), f32(200));
  // 2^(y + yLow) = 2^y * (1 + yLow ln2).
  const Expr correction = select(inRange, mul(yLow, f32(std::numbers::ln2)), f32(0));
  const Expr n = round(clamped);
  const Expr base = exp2(sub(clamped, n));
  const Expr v = add(base, mul(base, correction));
  // Two factors: neither overflow nor gradual underflow before the last multiplication.
  const Expr k = cast(DType::I32, n), half = shr(k, i32(1));
  auto power = [](const Expr& e) { return floats(shl(add(e, i32(127)), i32(23))); };
  return mul(mul(v, power(half)), power(sub(k, half)));
}

inline Expr powFull(const Expr& a, const Expr& b) {
  const Expr magnitude = abs(a), inf = infinity();
  const Expr whole = eq(trunc(b), b);
  const Expr halfB = mul(b, f32(0.5));
  const Expr odd = bit_and(whole, bit_and(ne(trunc(halfB), halfB), lt(abs(b), f32(16777216))));
  const Expr negative = lt(bits(a), i32(0));
  // Powers of 0 and infinity, then the general case.
  const Expr grows = bit_xor(gt(magnitude, f32(1)), lt(b, f32(0)));
  const Expr edge = select(grows, inf, f32(0));
  const Expr special = bit_or(bit_or(eq(magnitude, f32(0)), eq(magnitude, inf)), eq(abs(b), inf));
  Expr y = select(special, edge, powPositive(magnitude, b));
  y = select(eq(magnitude, f32(1)), f32(1), y);
  y = select(bit_and(negative, odd), neg(y), y);
  const Expr undefined = bit_and(bit_and(lt(a, f32(0)), gt(a, neg(inf))),
                                 bit_and(bit_xor(whole, eq(b, b)), lt(abs(b), inf)));
  y = select(undefined, f32(std::numeric_limits<double>::quiet_NaN()), y);
  y = select(bit_or(is_nan(a), is_nan(b)), add(a, b), y);
  return select(bit_or(eq(a, f32(1)), eq(b, f32(0))), f32(1), y);
}

}  // namespace expand_detail

// The expansion of an F32 op that needs no fused fma, or nothing when there is none here.
inline std::optional<Expr> expandPortable(ScalarOp op, const Expr& a, const Expr& b) {
  using namespace expand_detail;
  if (op == ScalarOp::Sin) return sinUnfused(a);
  if (op == ScalarOp::Cos) return cosUnfused(a);
  if (op == ScalarOp::Tan) return div(sinUnfused(a), cosUnfused(a));
  if (op == ScalarOp::Atan) return withSign(atanPositive(abs(a)), a);
  if (op == ScalarOp::Atan2) return atan2Full(a, b);
  if (op == ScalarOp::Asin) return asinFull(a);
  if (op == ScalarOp::Acos) return acosFull(a);
  if (op == ScalarOp::Sinh) return sinhFull(a);
  if (op == ScalarOp::Cosh) return coshFull(a);
  if (op == ScalarOp::Asinh) return asinhFull(a);
  if (op == ScalarOp::Acosh) return acoshFull(a);
  if (op == ScalarOp::Atanh) return atanhFull(a);
  if (op == ScalarOp::Cbrt) return cbrtFull(a);
  if (op == ScalarOp::Pow) return powFull(a, b);
  return std::nullopt;
}

}  // namespace rlx::kir
