#include "kir/number.h"

#include <bit>
#include <cmath>

#include "base/half.h"
#include "base/result.h"

namespace rlx::kir {
namespace {

Bits saturate(DType t, double v) {
  if (std::isnan(v)) return 0;
  const int w = valueBits(t);
  const double hi = std::ldexp(1.0, isSigned(t) ? w - 1 : w);
  const double lo = isSigned(t) ? -hi : 0;
  v = std::trunc(v);
  if (v >= hi) return wrapInteger(t, (scalar::Wide{1} << (isSigned(t) ? w - 1 : w)) - 1);
  if (v <= lo) return wrapInteger(t, isSigned(t) ? -(scalar::Wide{1} << (w - 1)) : 0);
  return wrapInteger(t, static_cast<scalar::Wide>(v));
}

// To nearest even in one step, whatever the width of the integer.
Bits fromWide(DType to, scalar::Wide v) {
  if (to == DType::F32) return std::bit_cast<uint32_t>(static_cast<float>(v));
  if (to == DType::F64) return std::bit_cast<uint64_t>(static_cast<double>(v));
  // A sticky bit far below the narrow mantissa keeps the second rounding exact.
  const scalar::Wide low = (scalar::Wide{1} << 24) - 1;
  const scalar::Wide a = v < 0 ? -v : v;
  if (a > (scalar::Wide{1} << 50)) v = (v & ~low) | ((v & low) != 0 ? low + 1 : 0);
  return fromDouble(to, static_cast<double>(v));
}

}  // namespace

Bits wrapInteger(DType t, scalar::Wide v) {
  const int w = valueBits(t);
  if (w >= 64) return static_cast<Bits>(v);
  const scalar::Wide mask = (scalar::Wide{1} << w) - 1;
  v &= mask;
  if (isSigned(t) && (v >> (w - 1)) != 0) v -= mask + 1;
  return static_cast<Bits>(static_cast<int64_t>(v));
}

scalar::Wide wideInteger(DType t, Bits bits) {
  if (t == DType::U64) return static_cast<scalar::Wide>(bits);
  return static_cast<int64_t>(bits);
}

Bits fromDouble(DType t, double v) {
  if (t == DType::F64) return std::bit_cast<uint64_t>(v);
  if (t == DType::F32) return std::bit_cast<uint32_t>(static_cast<float>(v));
  if (t == DType::F16) return f64ToF16(v);
  if (t == DType::BF16) return f64ToBf16(v);
  RLX_UNREACHABLE("not a float type of the kernel IR");
}

double toDouble(DType t, Bits bits) {
  if (t == DType::F64) return std::bit_cast<double>(bits);
  if (t == DType::F32)
    return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  if (t == DType::F16) return static_cast<double>(f16ToF32(static_cast<uint16_t>(bits)));
  if (t == DType::BF16) return static_cast<double>(bf16ToF32(static_cast<uint16_t>(bits)));
  return static_cast<double>(wideInteger(t, bits));
}

Bits castBits(DType to, DType from, Bits bits) {
  if (to == from) return bits;
  if (to == DType::Bool)
    return isFloat(from) ? toDouble(from, bits) != 0 : wideInteger(from, bits) != 0;
  if (isFloat(from)) {
    const double v = toDouble(from, bits);
    return isFloat(to) ? fromDouble(to, v) : saturate(to, v);
  }
  const scalar::Wide v = wideInteger(from, bits);
  return isFloat(to) ? fromWide(to, v) : wrapInteger(to, v);
}

Bits recastBits(DType to, Bits bits) {
  if (isFloat(to)) {
    const int w = info(to).bits;
    return w == 64 ? bits : bits & ((Bits{1} << w) - 1);
  }
  return wrapInteger(to, static_cast<scalar::Wide>(static_cast<int64_t>(bits)));
}

}  // namespace rlx::kir
