// Values of kernel IR types as raw 64 bits, and their conversions by the rules of numerics.md. The
// interpreter, the folding rules and the tests share them.
#pragma once
#include <cstdint>

#include "ir/dtype.h"
#include "scalar/scalar.h"

namespace rlx::kir {

// Floats by their bit pattern, zero-extended; integers sign- or zero-extended; Bool 0 or 1.
using Bits = uint64_t;

// The types a kernel may mention.
constexpr bool isKernelType(DType t) {
  return t == DType::F64 || t == DType::F32 || t == DType::F16 || t == DType::BF16 ||
         t == DType::Bool || (isInteger(t) && isPlain(t));
}
// The types of an Apply.
constexpr bool isArithmetic(DType t) {
  return isKernelType(t) && (t == DType::Bool || info(t).bits >= 32);
}
constexpr bool isIntegral(DType t) {
  return isInteger(t) || t == DType::Bool;
}
// Bits of a value: 1 for Bool.
constexpr int valueBits(DType t) {
  return t == DType::Bool ? 1 : info(t).bits;
}

// Modulo 2^n, as the type represents it.
Bits wrapBits(DType t, scalar::Wide value);
scalar::Wide wideInteger(DType t, Bits bits);
// Nearest even; overflow to infinity. Float types only.
Bits fromDouble(DType t, double value);
double toDouble(DType t, Bits bits);
// The Cast of the kernel IR.
Bits castBits(DType to, DType from, Bits bits);
// The Bitcast of the kernel IR.
Bits recastBits(DType to, Bits bits);

}  // namespace rlx::kir
