// What the expansions of F32 and F64 share: argument reduction, identities and edge cases over
// kernel expressions, with the type taken from the operand and only the coefficients apart. Nothing
// here needs a fused fma, a library function or, for F32, a 64-bit type.
#pragma once
#include <initializer_list>
#include <limits>
#include <numbers>
#include <vector>

#include "kir/kernel.h"

namespace rlx::kir::expand_detail {

// A float type and the integers of its width.
struct Layout {
  DType real, whole, word;
  int bits, fraction, bias;
};
inline Layout layout(DType t) {
  if (t == DType::F64) return {t, DType::I64, DType::U64, 64, 52, 1023};
  return {t, DType::I32, DType::U32, 32, 23, 127};
}
inline Layout layout(const Expr& x) {
  return layout(x->type);
}

inline Expr like(const Expr& x, double v) {
  return constant(x->type, v);
}
inline Expr like(const Expr& x, double ofF32, double ofF64) {
  return constant(x->type, x->type == DType::F64 ? ofF64 : ofF32);
}
inline Expr infinityOf(const Expr& x) {
  return like(x, std::numeric_limits<double>::infinity());
}
inline Expr nanOf(const Expr& x) {
  return like(x, std::numeric_limits<double>::quiet_NaN());
}
inline Expr wholeBits(const Expr& x) {
  return bitcast(layout(x).whole, x);
}
inline Expr signBit(const Expr& x) {
  const Layout f = layout(x);
  return bit_and(bitcast(f.word, x), shl(integer(f.word, 1), integer(f.word, f.bits - 1)));
}
inline Expr flipSign(const Expr& x, const Expr& sign) {
  const Layout f = layout(x);
  return bitcast(f.real, bit_xor(bitcast(f.word, x), sign));
}

using Coefficients = std::initializer_list<double>;

// Coefficients from the highest power down.
inline Expr polynomial(const Expr& x, Coefficients c) {
  auto it = c.begin();
  Expr y = like(x, *it);
  for (++it; it != c.end(); ++it) y = fma(y, x, like(x, *it));
  return y;
}
inline Expr polynomial(const Expr& x, Coefficients ofF32, Coefficients ofF64) {
  return polynomial(x, x->type == DType::F64 ? ofF64 : ofF32);
}

// 2^e for an integer e of the width of the float, in the normal range.
inline Expr powerOfTwo(DType real, const Expr& e) {
  const Layout f = layout(real);
  return bitcast(real, shl(e + integer(f.whole, f.bias), integer(f.whole, f.fraction)));
}
// p * 2^e by two factors: neither overflow nor gradual underflow before the last multiplication.
inline Expr scale(const Expr& p, const Expr& e) {
  const Expr half = shr(e, integer(e->type, 1));
  return p * powerOfTwo(p->type, half) * powerOfTwo(p->type, e - half);
}

// Odd and even parts by the sign bit: f(|x|) with the sign of x.
inline Expr withSign(const Expr& magnitude, const Expr& x) {
  return copysign(magnitude, x);
}

// 2/pi after the binary point, 64 bits a word: what F64 at its largest exponent needs.
inline constexpr uint64_t kTwoOverPi[] = {
    0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
    0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484,
    0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f,
    0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d, 0x7527bac7ebe5f17b,
    0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab};

// `count` of those bits (at most 64) from `position` on; positions below 0 are zeros.
constexpr uint64_t twoOverPiBits(int position, int count) {
  uint64_t y = 0;
  for (int i = position; i < position + count; ++i) {
    const uint64_t word = i < 0 ? 0 : kTwoOverPi[i / 64];
    y = (y << 1) | (i < 0 ? 0 : (word >> (63 - i % 64)) & 1);
  }
  return y;
}

// The upper half of an unsigned product, from halves of the operands.
inline Expr productHigh(const Expr& a, const Expr& b) {
  const DType t = a->type;
  const int half = info(t).bits / 2;
  const Expr shift = integer(t, half), mask = integer(t, (int64_t{1} << half) - 1);
  const Expr al = bit_and(a, mask), ah = shr(a, shift), bl = bit_and(b, mask), bh = shr(b, shift);
  const Expr middle = al * bh + shr(al * bl, shift);
  const Expr other = ah * bl + bit_and(middle, mask);
  return ah * bh + shr(middle, shift) + shr(other, shift);
}

// |x| = quadrant * pi/2 + r modulo 2 pi, |r| <= pi/4; the quadrant is a word of which the low two
// bits count. Exact but for the rounding of r, at every magnitude (Payne and Hanek): the mantissa
// times those three words of 2/pi that decide the product modulo 4. NaN for NaN and infinities.
//
// There is one path for all magnitudes, since a select evaluates both sides: some 95 operations, 12
// of them multiplications, of 32 bits for F32, and 115 of 64 bits for F64.
struct Quadrant {
  Expr r, quadrant;
};
inline Quadrant reduceQuadrant(const Expr& x) {
  const Layout f = layout(x);
  const int w = f.bits;
  auto word = [&](int64_t v) { return integer(f.word, v); };
  const Expr a = abs(x), b = bitcast(f.word, a);
  const int64_t one = int64_t{1} << f.fraction;
  const Expr e = shr(b, word(f.fraction)), m = bit_or(bit_and(b, word(one - 1)), word(one));
  // |x| = mantissa * 2^(skip - fraction - 1).
  const Expr large = ge(e, word(f.bias));
  const Expr mantissa = select(large, m + m, m);
  const Expr skip = select(large, e - word(f.bias), word(0));
  // Words from bit `skip` on of 2/pi behind fraction + 3 zeros: first whole words, then bits.
  const int steps = w == 64 ? 4 : 2;
  std::vector<Expr> window;
  for (int i = 0; i < (1 << steps) + 3; ++i)
    window.push_back(word(static_cast<int64_t>(twoOverPiBits(i * w - f.fraction - 3, w))));
  for (int s = steps - 1; s >= 0; --s) {
    const std::size_t step = std::size_t{1} << s;
    const Expr ahead = ne(bit_and(skip, word(int64_t{w} << s)), word(0));
    for (std::size_t i = 0; i < step + 3; ++i)
      window[i] = select(ahead, window[i + step], window[i]);
  }
  const Expr up = bit_and(skip, word(w - 1)), down = bit_and(bit_not(skip), word(w - 1));
  for (std::size_t i = 0; i < 3; ++i)
    window[i] = bit_or(shl(window[i], up), shr(shr(window[i + 1], word(1)), down));
  // The upper two words of the product of three, modulo 4 * 2^(2 w - 2).
  const Expr carried = productHigh(mantissa, window[2]);
  const Expr low = mantissa * window[1] + carried;
  const Expr high = mantissa * window[0] + productHigh(mantissa, window[1]) +
                    select(lt(low, carried), word(1), word(0));
  // The fraction as a signed number in [-1/2, 1/2).
  const Expr top = bit_or(shl(high, word(2)), shr(low, word(w - 2)));
  const Expr quadrant = shr(high, word(w - 2)) + shr(top, word(w - 1));
  const double unit = w == 64 ? 0x1p-64 : 0x1p-32;
  const Expr part =
      cast(f.real, cast(f.whole, top)) + cast(f.real, shl(low, word(2))) * like(x, unit);
  const Expr r = part * like(x, std::numbers::pi / 2 * unit);
  const Expr near = lt(a, like(x, std::numbers::pi / 4));
  return {select(near, a, select(lt(a, infinityOf(x)), r, x - x)), select(near, word(0), quadrant)};
}

// Sine and cosine on [-pi/4, pi/4].
inline Expr sineNear(const Expr& r, const Expr& z) {
  return r * z *
             polynomial(z, {-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1},
                        {1.5918115263265747e-10, -2.5051131650235178e-08, 2.7557316101617874e-06,
                         -0.00019841269836756774, 0.008333333333330948, -0.16666666666666666}) +
         r;
}
inline Expr cosineNear(const Expr& z) {
  const Expr tail =
      z * z *
      polynomial(z, {2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2},
                 {-1.138262364746036e-11, 2.087614614655837e-09, -2.7557317271145144e-07,
                  2.480158729876456e-05, -0.0013888888888887398, 0.041666666666666664});
  return tail - like(z, 0.5) * z + like(z, 1);
}

inline Expr sinFull(const Expr& x) {
  const Layout f = layout(x);
  const auto [r, quadrant] = reduceQuadrant(x);
  const Expr z = r * r, one = integer(f.word, 1);
  const Expr y =
      select(ne(bit_and(quadrant, one), integer(f.word, 0)), cosineNear(z), sineNear(r, z));
  const Expr turned = shl(shr(quadrant, one), integer(f.word, f.bits - 1));
  return flipSign(y, bit_xor(turned, signBit(x)));
}
inline Expr cosFull(const Expr& x) {
  const Layout f = layout(x);
  const auto [r, quadrant] = reduceQuadrant(x);
  const Expr z = r * r, one = integer(f.word, 1);
  const Expr y =
      select(ne(bit_and(quadrant, one), integer(f.word, 0)), sineNear(r, z), cosineNear(z));
  return flipSign(y, shl(shr(quadrant + one, one), integer(f.word, f.bits - 1)));
}
inline Expr tanFull(const Expr& x) {
  const Layout f = layout(x);
  const auto [r, quadrant] = reduceQuadrant(x);
  const Expr z = r * r, odd = bit_and(quadrant, integer(f.word, 1));
  const Expr s = sineNear(r, z), c = cosineNear(z), turn = ne(odd, integer(f.word, 0));
  const Expr y = select(turn, c, s) / select(turn, s, c);
  return flipSign(y, bit_xor(shl(odd, integer(f.word, f.bits - 1)), signBit(x)));
}

inline Expr atanPositive(const Expr& a) {
  const Expr large = gt(a, like(a, 2.414213562373095)), middle = gt(a, like(a, 0.4142135623730950));
  const Expr one = like(a, 1), zero = like(a, 0);
  const Expr x = select(large, like(a, -1), select(middle, a - one, a)) /
                 select(large, a, select(middle, a + one, one));
  const Expr base = select(large, like(a, std::numbers::pi / 2),
                           select(middle, like(a, std::numbers::pi / 4), zero));
  const Expr z = x * x;
  const Expr p = polynomial(
      z, {8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1},
      {-0.01917540471101196, 0.039230447784709195, -0.050854078345862384, 0.058581409048656254,
       -0.06664510525508843, 0.07692183125376885, -0.09090904575306488, 0.11111111015187018,
       -0.14285714284665682, 0.19999999999995516, -0.3333333333333333});
  return base + (p * z * x + x);
}

// NaN and the signed zeros come out by themselves but for x = 0 and both infinite.
inline Expr atan2Full(const Expr& y, const Expr& x) {
  const Expr ay = abs(y), ax = abs(x), inf = infinityOf(x);
  const Expr bothInf = bit_and(eq(ay, inf), eq(ax, inf));
  const Expr ratio = select(bothInf, like(x, 1), select(eq(ay, like(x, 0)), like(x, 0), ay / ax));
  const Expr base = atanPositive(ratio);
  const Expr negative = lt(wholeBits(x), integer(layout(x).whole, 0));
  const Expr angle = select(negative, like(x, std::numbers::pi) - base, base);
  const Expr nan = bit_or(is_nan(x), is_nan(y));
  return select(nan, x + y, withSign(angle, y));
}

// asin on [0, 1/2] by polynomial, elsewhere through the half angle.
inline Expr asinPolynomial(const Expr& z, const Expr& x) {
  const Expr p = polynomial(
      z, {4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1},
      {0.02877844261277394, -0.0148814093931001, 0.017419357965078285, 0.005450878187643824,
       0.010324318288763578, 0.011478952690254089, 0.013971235301124917, 0.0173523912659092,
       0.0223721730020056, 0.030381944137085216, 0.04464285714637338, 0.07499999999998425,
       0.16666666666666669});
  return p * z * x + x;
}
inline Expr asinFull(const Expr& x) {
  const Expr a = abs(x), half = like(x, 0.5), outer = gt(a, half);
  const Expr z = select(outer, half * (like(x, 1) - a), a * a);
  const Expr p = asinPolynomial(z, select(outer, sqrt(z), a));
  return withSign(select(outer, like(x, std::numbers::pi / 2) - (p + p), p), x);
}
inline Expr acosFull(const Expr& x) {
  const Expr a = abs(x), half = like(x, 0.5), outer = gt(a, half);
  const Expr z = select(outer, half * (like(x, 1) - a), a * a);
  const Expr p = asinPolynomial(z, select(outer, sqrt(z), x));
  const Expr twice = p + p;
  const Expr far = select(lt(x, like(x, 0)), like(x, std::numbers::pi) - twice, twice);
  return select(outer, far, like(x, std::numbers::pi / 2) - p);
}

// e^x - 1 keeps sinh accurate near 0; large x halve before they overflow.
inline Expr sinhFull(const Expr& x) {
  const Expr a = abs(x), e = expm1(a), half = like(x, 0.5);
  const Expr small = half * (e + e / (e + like(x, 1)));
  const Expr root = exp(half * a);
  return withSign(select(gt(a, like(x, 60)), half * root * root, small), x);
}
inline Expr coshFull(const Expr& x) {
  const Expr a = abs(x), half = like(x, 0.5), root = exp(half * a), e = exp(a);
  return select(gt(a, like(x, 60)), half * root * root, half * (e + like(x, 1) / e));
}
// From the given magnitude on, log(2 a) is as good as the exact formula.
inline Expr logarithmic(const Expr& a) {
  return gt(a, like(a, 1e6, 1e9));
}
inline Expr asinhFull(const Expr& x) {
  const Expr a = abs(x), z = a * a, one = like(x, 1);
  const Expr small = log1p(a + z / (one + sqrt(z + one)));
  const Expr large = log(a) + like(x, std::numbers::ln2);
  return withSign(select(logarithmic(a), large, small), x);
}
inline Expr acoshFull(const Expr& x) {
  const Expr one = like(x, 1), t = x - one;
  const Expr small = log1p(t + sqrt(t + t + t * t));
  const Expr inside = select(lt(x, one), nanOf(x), small);
  return select(logarithmic(x), log(x) + like(x, std::numbers::ln2), inside);
}
inline Expr atanhFull(const Expr& x) {
  const Expr a = abs(x);
  return withSign(like(x, 0.5) * log1p((a + a) / (like(x, 1) - a)), x);
}

// A product as an unevaluated sum (Dekker), exact but for the last bit of the product of the low
// parts in F64: the low part of a * b.
inline Expr productLow(const Expr& a, const Expr& b, const Expr& p) {
  auto high = [](const Expr& v) {
    const DType t = layout(v).whole;
    const int64_t mask = v->type == DType::F64 ? -(int64_t{1} << 27) : -4096;
    return bitcast(v->type, bit_and(wholeBits(v), integer(t, mask)));
  };
  const Expr ah = high(a), al = a - ah, bh = high(b), bl = b - bh;
  return al * bl + (al * bh + ah * bl - (p - ah * bh));
}

// x = 2^e * m with m in [sqrt(1/2), sqrt(2)); subnormals included. Other x give garbage.
struct Binary {
  Expr m, e;
};
inline Binary binary(const Expr& x) {
  const Layout f = layout(x);
  const bool wide = f.bits == 64;
  auto whole = [&](int64_t v) { return integer(f.whole, v); };
  const Expr tiny = lt(x, like(x, 0x1p-126, 0x1p-1022));
  const Expr b = wholeBits(select(tiny, x * like(x, 0x1p23, 0x1p52), x));
  const Expr t = b - whole(wide ? 0x3fe6a09e667f3bcd : 0x3f3504f3);
  const Expr e = shr(t, whole(f.fraction));
  const Expr m = bitcast(f.real, b - shl(e, whole(f.fraction)));
  return {m, cast(f.real, e) - select(tiny, like(x, f.fraction), like(x, 0))};
}

// 2^(b * log2 a) with the logarithm and the product as sums of two floats.
inline Expr powPositive(const Expr& a, const Expr& b) {
  const Binary s = binary(a);
  // log2(m) = log2(c) + 2/ln2 * atanh(w), w = (m - c) / (m + c) as a sum of two floats, |w| <
  // 0.072. e + log2(c) without its low part is exact.
  const Expr left = lt(s.m, like(a, 0.866)), right = gt(s.m, like(a, 1.118));
  auto centre = [&](double l, double m, double r) {
    return select(left, like(a, l), select(right, like(a, r), like(a, m)));
  };
  const bool wide = a->type == DType::F64;
  const Expr c = centre(0.75, 1, 1.25);
  const Expr base = s.e + centre(wide ? -0.4150374997407198 : -0.4150390625, 0,
                                 wide ? 0.32192809507250786 : 0.322021484375);
  const Expr baseLow = centre(wide ? 4.618759766807897e-10 : 1.5632211561814537e-06, 0,
                              wide ? -1.8514551040604777e-10 : -9.338948763765212e-05);
  const Expr up = s.m - c, down = s.m + c;
  const Expr w = up / down;
  const Expr wd = w * down;
  const Expr downLow = s.m - (down - c);
  const Expr remainder = up - wd - productLow(w, down, wd) - w * downLow;
  const Expr wLow = remainder / down;
  const Expr z = w * w;
  const Expr series = w * z *
                      polynomial(z, {0.41219858311113244, 0.57707801635558534, 0.96179669392597556},
                                 {0.22503860833039882, 0.2622897395338643, 0.320598948745321,
                                  0.41219858304802265, 0.5770780163556141, 0.9617966939259756});
  const Expr factor = like(a, 2.885390043258667, 2.8853900817779268);
  const Expr factorLow = like(a, 2.8853900817779268 - 2.885390043258667, 4.0710547481862066e-17);
  const Expr first = w * factor;
  const Expr firstLow = productLow(w, factor, first) + (w * factorLow + wLow * factor);
  const Expr low0 = firstLow + series + baseLow;
  // (base + first) + low0, renormalised: base is 0 or larger than first.
  const Expr sum = base + first;
  const Expr carried = select(eq(base, like(a, 0)), base, first - (sum - base));
  const Expr low1 = carried + low0;
  const Expr high = sum + low1, low = low1 - (high - sum);
  const Expr y = high * b;
  const Expr yLow = productLow(high, b, y) + low * b;
  const Expr limit = like(a, 200, 1100);
  const Expr clamped = min(max(y, -limit), limit);
  // 2^(y + yLow) = 2^y * (1 + yLow ln2).
  const Expr correction = select(lt(abs(y), limit), yLow * like(a, std::numbers::ln2), like(a, 0));
  const Expr n = round(clamped);
  const Expr power = exp2(clamped - n);
  return scale(power + power * correction, cast(layout(a).whole, n));
}

inline Expr powFull(const Expr& a, const Expr& b) {
  const Expr magnitude = abs(a), inf = infinityOf(a), zero = like(a, 0), one = like(a, 1);
  const Expr whole = eq(trunc(b), b);
  const Expr halfB = b * like(a, 0.5);
  const Expr odd =
      bit_and(whole, bit_and(ne(trunc(halfB), halfB), lt(abs(b), like(a, 0x1p24, 0x1p53))));
  const Expr negative = lt(wholeBits(a), integer(layout(a).whole, 0));
  // Powers of 0 and infinity, then the general case.
  const Expr grows = bit_xor(gt(magnitude, one), lt(b, zero));
  const Expr edge = select(grows, inf, zero);
  const Expr special = bit_or(bit_or(eq(magnitude, zero), eq(magnitude, inf)), eq(abs(b), inf));
  Expr y = select(special, edge, powPositive(magnitude, b));
  y = select(eq(magnitude, one), one, y);
  y = select(bit_and(negative, odd), -y, y);
  const Expr undefined = bit_and(bit_and(lt(a, zero), gt(a, -inf)),
                                 bit_and(bit_xor(whole, eq(b, b)), lt(abs(b), inf)));
  y = select(undefined, nanOf(a), y);
  y = select(bit_or(is_nan(a), is_nan(b)), a + b, y);
  return select(bit_or(eq(a, one), eq(b, zero)), one, y);
}

}  // namespace rlx::kir::expand_detail
