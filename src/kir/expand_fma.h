// A multiplication and addition rounded once, for targets whose fma may round the product. Long, so
// only for the op a user wrote; expansions on such targets do without.
#pragma once
#include "kir/expand_real.h"

namespace rlx::kir {
namespace expand_detail {

// x = m * 2^e with 1 <= |m| < 2, for finite x other than 0.
struct Scaled {
  Expr m, e;
};
inline Scaled scaled(const Expr& x) {
  const Layout f = layout(x);
  auto whole = [&](int64_t v) { return integer(f.whole, v); };
  const int64_t exponents = (int64_t{1} << (f.bits - 1 - f.fraction)) - 1;
  const Expr tiny = lt(abs(x), like(x, 0x1p-126, 0x1p-1022));
  const Expr b = wholeBits(select(tiny, x * like(x, 0x1p23, 0x1p52), x));
  const Expr e = bit_and(shr(b, whole(f.fraction)), whole(exponents)) - whole(f.bias) -
                 select(tiny, whole(f.fraction), whole(0));
  const Expr m =
      bit_or(bit_and(b, whole(~(exponents << f.fraction))), whole(int64_t{f.bias} << f.fraction));
  return {bitcast(f.real, m), e};
}

// An exact sum or product as high + low, high the rounded one.
struct TwoParts {
  Expr high, low;
};
inline TwoParts twoSum(const Expr& a, const Expr& b) {
  const Expr s = a + b, t = s - a;
  return {s, (a - (s - t)) + (b - t)};
}
// Dekker, with Veltkamp's split; no overflow for operands near 1.
inline TwoParts twoProduct(const Expr& a, const Expr& b) {
  auto high = [](const Expr& v) {
    const Expr t = v * like(v, 4097, 134217729);
    return t - (t - v);
  };
  const Expr p = a * b, ah = high(a), al = a - ah, bh = high(b), bl = b - bh;
  return {p, al * bl - (p - ah * bh - al * bh - ah * bl)};
}

// a + b rounded to odd: a later rounding to fewer bits is then rounding once (Boldo and Melquiond).
inline Expr oddSum(const Expr& a, const Expr& b) {
  const Layout f = layout(a);
  auto whole = [&](int64_t v) { return integer(f.whole, v); };
  const TwoParts s = twoSum(a, b);
  const Expr high = wholeBits(s.high);
  const Expr beyond = lt(bit_xor(high, wholeBits(s.low)), whole(0));
  const Expr truncated = select(beyond, high - whole(1), high);
  const Expr odd = bitcast(f.real, bit_or(truncated, whole(1)));
  return select(eq(s.low, like(a, 0)), s.high, odd);
}

// a * b + c for finite operands other than 0. The factors are scaled to [1, 2) and c with them; an
// operand far below the other one is moved to where it still only breaks ties.
inline Expr fmaFinite(const Expr& a, const Expr& b, const Expr& c) {
  const Layout f = layout(a);
  auto whole = [&](int64_t v) { return integer(f.whole, v); };
  const int64_t reach = 2 * f.fraction + 14, least = -reach - f.fraction - 1;
  const Scaled x = scaled(a), y = scaled(b), z = scaled(c);
  const TwoParts p = twoProduct(x.m, y.m);
  const Expr ahead = z.e - (x.e + y.e);
  const Expr above = min(ahead, whole(reach)), exponent = z.e - above;
  const Expr addend = z.m * powerOfTwo(f.real, max(above, whole(-reach)));
  const TwoParts low = twoSum(addend, p.low), high = twoSum(p.high, low.high);
  const Expr rest = oddSum(high.low, low.low);
  const Expr sum = high.high + rest;
  // Below the normal range the sum is rounded where the unit of subnormal numbers stands: adding
  // the least normal number, whose last bit that is.
  const Expr normal = powerOfTwo(f.real, max(whole(1 - f.bias) - exponent, whole(least)));
  const Expr grid = withSign(normal, sum);
  const TwoParts raised = twoSum(grid, high.high);
  const Expr subnormal = withSign(raised.high + oddSum(raised.low, rest) - grid, sum);
  return scale(select(lt(abs(sum), normal), subnormal, sum), exponent);
}

}  // namespace expand_detail

// Any operands of F32 or F64. Some 160 operations.
inline Expr expandFma(const Expr& a, const Expr& b, const Expr& c) {
  using namespace expand_detail;
  const Expr zero = like(a, 0), inf = infinityOf(a), product = a * b;
  const Expr factors = bit_and(lt(abs(a), inf), lt(abs(b), inf));
  const Expr vanishes = bit_or(eq(a, zero), eq(b, zero));
  const Expr finite =
      select(vanishes, product + c, select(eq(c, zero), product, fmaFinite(a, b, c)));
  return select(factors, select(lt(abs(c), inf), finite, c), product + c);
}

}  // namespace rlx::kir
