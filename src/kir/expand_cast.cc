#include "kir/expand_cast.h"

#include <cmath>

#include "kir/number.h"

namespace rlx::kir {
namespace {

Expr u32(uint32_t v) {
  return integer(DType::U32, v);
}

// An F32 of 2^-24, the unit of subnormal halves.
constexpr double kHalfUnit = 5.9604644775390625e-08;

}  // namespace

Expr halfToFloat(const Expr& bits) {
  const Expr sign = shl(bit_and(bits, u32(0x8000)), u32(16));
  const Expr m = bit_and(bits, u32(0x7fff));
  const Expr shifted = shl(m, u32(13));
  const Expr normal = shifted + u32(0x38000000);
  const Expr special = shifted + u32(0x70000000);
  const Expr small = bitcast(DType::U32, cast(DType::F32, m) * constant(DType::F32, kHalfUnit));
  const Expr magnitude =
      select(ge(m, u32(0x7c00)), special, select(lt(m, u32(0x400)), small, normal));
  return bitcast(DType::F32, bit_or(magnitude, sign));
}

Expr floatToHalf(const Expr& x) {
  const Expr bits = bitcast(DType::U32, x);
  const Expr sign = bit_and(shr(bits, u32(16)), u32(0x8000));
  const Expr m = bit_and(bits, u32(0x7fffffff));
  const Expr odd = bit_and(shr(m, u32(13)), u32(1));
  const Expr normal = shr(m + odd + u32(0xfff) - u32(0x38000000), u32(13));
  // Adding one half lines the unit of subnormal halves up with the last bit: the addition rounds.
  const Expr half = constant(DType::F32, 0.5);
  const Expr small = bitcast(DType::U32, bitcast(DType::F32, m) + half) - u32(0x3f000000);
  const Expr nan = bit_or(bit_and(shr(m, u32(13)), u32(0x3ff)), u32(0x7e00));
  const Expr finite = select(lt(m, u32(0x38800000)), small, normal);
  const Expr magnitude =
      select(gt(m, u32(0x7f800000)), nan, select(ge(m, u32(0x47800000)), u32(0x7c00), finite));
  return bit_or(magnitude, sign);
}

Expr brainToFloat(const Expr& bits) {
  return bitcast(DType::F32, shl(bits, u32(16)));
}

Expr floatToBrain(const Expr& x) {
  const Expr bits = bitcast(DType::U32, x);
  const Expr odd = bit_and(shr(bits, u32(16)), u32(1));
  const Expr nan = gt(bit_and(bits, u32(0x7fffffff)), u32(0x7f800000));
  return select(nan, bit_or(shr(bits, u32(16)), u32(0x40)), shr(bits + odd + u32(0x7fff), u32(16)));
}

Expr oddFloat(const Expr& x) {
  const Expr nearest = cast(DType::F32, x);
  const Expr back = cast(DType::F64, nearest);
  const Expr bits = bitcast(DType::U32, nearest);
  const Expr truncated = select(gt(abs(back), abs(x)), bits - u32(1), bits);
  return bitcast(DType::F32, select(ne(back, x), bit_or(truncated, u32(1)), bits));
}

Expr stickyInteger(const Expr& x) {
  const DType t = x->type;
  const Expr rest = ne(bit_and(x, integer(t, 0xff)), integer(t, 0));
  const Expr folded = bit_or(bit_and(x, integer(t, ~int64_t{0xff})),
                             select(rest, integer(t, 0x100), integer(t, 0)));
  Expr large = ge(x, integer(t, 1 << 24));
  if (isSigned(t)) large = bit_or(large, le(x, integer(t, -(1 << 24))));
  return select(large, folded, x);
}

Expr saturate(DType to, const Expr& x) {
  const int w = info(to).bits;
  const bool isSignedType = isSigned(to);
  const double limit = std::ldexp(1.0, isSignedType ? w - 1 : w);
  const Expr zero(0.0);
  Expr above = ge(x, zero);
  // The nearest number below the range that the type of x holds exactly.
  if (isSignedType && x->type == DType::F64 && w == 32) above = gt(x, Expr(-limit - 1));
  if (isSignedType && !(x->type == DType::F64 && w == 32)) above = ge(x, Expr(-limit));
  const Expr inside = bit_and(above, lt(x, Expr(limit)));
  const int64_t top = isSignedType ? static_cast<int64_t>((uint64_t{1} << (w - 1)) - 1) : -1;
  const int64_t bottom = isSignedType ? static_cast<int64_t>(~((uint64_t{1} << (w - 1)) - 1)) : 0;
  const Expr outside = select(gt(x, zero), integer(to, top),
                              select(lt(x, zero), integer(to, bottom), integer(to, 0)));
  return select(inside, cast(to, select(inside, x, zero)), outside);
}

Expr isNanByBits(const Expr& x) {
  if (x->type == DType::F64) {
    const Expr bits = bit_and(bitcast(DType::U64, x), integer(DType::U64, INT64_MAX));
    return gt(bits, integer(DType::U64, int64_t{0x7ff} << 52));
  }
  return gt(bit_and(bitcast(DType::U32, x), u32(0x7fffffff)), u32(0x7f800000));
}

}  // namespace rlx::kir
