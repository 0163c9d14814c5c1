// Elements as numbers: bit patterns to values and back, for every dtype that stores plain or packed
// elements, derived from the columns of dtype.def. The interpreter, literals, importers and the
// kernel level share this one meaning of the casts of numerics.md.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ir/dtype.h"
#include "scalar/scalar.h"

namespace rlx {

// What one element consists of: the float of a complex number's parts, otherwise the dtype itself.
constexpr DType partOf(DType t) {
  if (!isComplex(t)) return t;
  return info(t).bits == 64 ? DType::F32 : DType::F64;
}

// The value of a float's bit pattern; exact.
double decodeFloat(DType t, uint64_t bits);
// Nearest even, rounded once. Beyond the largest number: infinity, or that number for dtypes of 8
// bits and less. NaN stays NaN; it is 0 where the dtype has none.
uint64_t encodeFloat(DType t, double value);
// A value as the float dtype would hold it.
double roundTo(DType t, double value);

// Modulo 2^n, sign-extended for signed dtypes (the pattern of a u64); for Bool, not equal to 0.
int64_t wrapInteger(DType t, scalar::Wide value);
// Toward zero, saturating; NaN to 0; for Bool, not equal to 0. As wrapInteger.
int64_t saturateInteger(DType t, double value);

// Distance from 1 to the next number, and the smallest positive number; 0 for other than floats and
// complex numbers.
inline double epsilon(DType t) {
  return info(t).mantissaBits > 0 ? std::ldexp(1.0, -info(t).mantissaBits) : 0;
}
inline double smallestPositive(DType t) {
  const DTypeInfo& i = info(t);
  if (i.mantissaBits == 0) return 0;
  return std::ldexp(1.0, 2 - (1 << (i.exponentBits - 1)) - i.mantissaBits);
}

// Element k of row-major storage as raw bits, zero-extended. For dtypes of at most 64 bits, alone
// in their bytes or packed two to a byte; `k` lies inside.
uint64_t elementBits(DType t, std::span<const std::byte> bytes, int64_t k);
void setElementBits(DType t, std::span<std::byte> bytes, int64_t k, uint64_t bits);

}  // namespace rlx
