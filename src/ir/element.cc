#include "ir/element.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/half.h"
#include "base/result.h"

namespace rlx {
namespace {

// The exponent of the smallest normal number.
int leastExponent(const DTypeInfo& f) {
  return 2 - (1 << (f.exponentBits - 1));
}
uint64_t mask(int bits) {
  return (uint64_t{1} << bits) - 1;
}
// The pattern, without sign, of the largest finite number.
uint64_t largestFinite(const DTypeInfo& f) {
  const uint64_t all = mask(f.exponentBits + f.mantissaBits);
  if (f.specials == Specials::None) return all;
  if (f.specials == Specials::NanOnly) return all - 1;
  return (mask(f.exponentBits) << f.mantissaBits) - 1;
}

}  // namespace

double decodeFloat(DType t, uint64_t bits) {
  if (t == DType::F64) return std::bit_cast<double>(bits);
  if (t == DType::F32)
    return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  if (t == DType::F16) return static_cast<double>(f16ToF32(static_cast<uint16_t>(bits)));
  if (t == DType::BF16) return static_cast<double>(bf16ToF32(static_cast<uint16_t>(bits)));
  const DTypeInfo& f = info(t);
  RLX_CHECK(isFloat(t), "not a float dtype");
  const uint64_t magnitude = bits & mask(f.exponentBits + f.mantissaBits);
  const bool negative = ((bits >> (f.exponentBits + f.mantissaBits)) & 1) != 0;
  double v = 0;
  if (magnitude > largestFinite(f)) {
    const bool infinite = f.specials == Specials::Ieee && magnitude == largestFinite(f) + 1;
    v = infinite ? HUGE_VAL : std::nan("");
  } else {
    const auto exponent = static_cast<int>(magnitude >> f.mantissaBits);
    const uint64_t fraction = magnitude & mask(f.mantissaBits);
    const uint64_t whole = exponent > 0 ? fraction | (mask(f.mantissaBits) + 1) : fraction;
    v = std::ldexp(static_cast<double>(whole),
                   leastExponent(f) + std::max(exponent, 1) - 1 - f.mantissaBits);
  }
  return negative ? -v : v;
}

uint64_t encodeFloat(DType t, double value) {
  if (t == DType::F64) return std::bit_cast<uint64_t>(value);
  if (t == DType::F32) return std::bit_cast<uint32_t>(static_cast<float>(value));
  if (t == DType::F16) return f64ToF16(value);
  if (t == DType::BF16) return f64ToBf16(value);
  const DTypeInfo& f = info(t);
  RLX_CHECK(isFloat(t), "not a float dtype");
  const uint64_t sign = uint64_t{std::signbit(value)} << (f.exponentBits + f.mantissaBits);
  if (std::isnan(value))
    return f.specials == Specials::None ? 0 : sign | mask(f.exponentBits + f.mantissaBits);
  const double a = std::fabs(value), top = decodeFloat(t, largestFinite(f));
  // Where the next number would stand if the exponent went on: half way rounds to even.
  const bool even = (largestFinite(f) & 1) == 0;
  const double step = top - decodeFloat(t, largestFinite(f) - 1), edge = top + step / 2;
  if (a > edge || (a == edge && !even))
    return sign |
           (f.specials == Specials::Ieee && f.bits > 8 ? largestFinite(f) + 1 : largestFinite(f));
  if (a >= top) return sign | largestFinite(f);
  if (a == 0) return sign;
  const int exponent = std::max(std::ilogb(a), leastExponent(f));
  const double units = std::nearbyint(std::ldexp(a, f.mantissaBits - exponent));
  // A carry out of the fraction runs into the exponent, as it should.
  const auto base = static_cast<uint64_t>(exponent - leastExponent(f)) << f.mantissaBits;
  return sign | (base + static_cast<uint64_t>(units));
}

double roundTo(DType t, double value) {
  return decodeFloat(t, encodeFloat(t, value));
}

int64_t wrapInteger(DType t, scalar::Wide v) {
  if (t == DType::Bool) return v != 0;
  const int w = info(t).bits;
  if (w >= 64) return static_cast<int64_t>(v);
  v &= (scalar::Wide{1} << w) - 1;
  if (isSigned(t) && (v >> (w - 1)) != 0) v -= scalar::Wide{1} << w;
  return static_cast<int64_t>(v);
}

int64_t saturateInteger(DType t, double value) {
  if (t == DType::Bool) return value != 0;
  if (std::isnan(value)) return 0;
  const int w = info(t).bits - (isSigned(t) ? 1 : 0);
  const double end = std::ldexp(1.0, w);  // one past the largest
  const double v = std::trunc(value);
  if (v >= end) return wrapInteger(t, (scalar::Wide{1} << w) - 1);
  if (v <= (isSigned(t) ? -end : 0))
    return wrapInteger(t, isSigned(t) ? -(scalar::Wide{1} << w) : 0);
  return wrapInteger(t, static_cast<scalar::Wide>(v));
}

uint64_t elementBits(DType t, std::span<const std::byte> bytes, int64_t k) {
  const auto at = static_cast<std::size_t>(k);
  if (info(t).blockElements == 2)
    return (static_cast<uint64_t>(bytes[at / 2]) >> (at % 2 * 4)) & 15;
  uint64_t out = 0;
  const auto size = static_cast<std::size_t>(rlx::bytes(t));
  std::memcpy(&out, bytes.data() + at * size, size);
  return out;
}

void setElementBits(DType t, std::span<std::byte> bytes, int64_t k, uint64_t bits) {
  const auto at = static_cast<std::size_t>(k);
  if (info(t).blockElements == 2) {
    const auto shift = at % 2 * 4;
    const auto rest = static_cast<unsigned>(bytes[at / 2]) & ~(15u << shift);
    bytes[at / 2] = static_cast<std::byte>(rest | ((static_cast<unsigned>(bits) & 15u) << shift));
    return;
  }
  const auto size = static_cast<std::size_t>(rlx::bytes(t));
  std::memcpy(bytes.data() + at * size, &bits, size);
}

}  // namespace rlx
