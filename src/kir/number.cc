#include "kir/number.h"

#include <bit>

#include "ir/element.h"

namespace rlx::kir {
namespace {

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

Bits wrapBits(DType t, scalar::Wide v) {
  if (t == DType::Bool) return static_cast<Bits>(v & 1);
  return static_cast<Bits>(wrapInteger(t, v));
}

scalar::Wide wideInteger(DType t, Bits bits) {
  if (t == DType::U64) return static_cast<scalar::Wide>(bits);
  return static_cast<int64_t>(bits);
}

Bits fromDouble(DType t, double v) {
  return encodeFloat(t, v);
}

double toDouble(DType t, Bits bits) {
  return isFloat(t) ? decodeFloat(t, bits) : static_cast<double>(wideInteger(t, bits));
}

Bits castBits(DType to, DType from, Bits bits) {
  if (to == from) return bits;
  if (to == DType::Bool)
    return isFloat(from) ? toDouble(from, bits) != 0 : wideInteger(from, bits) != 0;
  if (isFloat(from)) {
    const double v = toDouble(from, bits);
    return isFloat(to) ? fromDouble(to, v) : static_cast<Bits>(saturateInteger(to, v));
  }
  const scalar::Wide v = wideInteger(from, bits);
  return isFloat(to) ? fromWide(to, v) : wrapBits(to, v);
}

Bits recastBits(DType to, Bits bits) {
  if (isFloat(to)) {
    const int w = info(to).bits;
    return w == 64 ? bits : bits & ((Bits{1} << w) - 1);
  }
  return wrapBits(to, static_cast<scalar::Wide>(static_cast<int64_t>(bits)));
}

}  // namespace rlx::kir
