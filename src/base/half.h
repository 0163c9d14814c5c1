// Narrow floats as bit patterns: f16 and bf16 to f32 and back, in plain integer code. Every
// conversion to a narrower type rounds to nearest even and keeps NaN a NaN with its sign. This is
// the meaning that vector code and devices are compared with.
#pragma once
#include <bit>
#include <cstdint>
#include <span>

namespace rlx {
namespace detail {

// An IEEE-like format: sign, exponent bits, mantissa bits, exponent bias.
struct NarrowFormat {
  int exponentBits;
  int mantissaBits;
  int bias;
};
inline constexpr NarrowFormat kF16{5, 10, 15};

constexpr float decodeNarrow(uint32_t bits, NarrowFormat f) {
  const uint32_t sign = (bits >> (f.exponentBits + f.mantissaBits)) & 1u;
  const uint32_t exponentMask = (1u << f.exponentBits) - 1;
  const uint32_t exponent = (bits >> f.mantissaBits) & exponentMask;
  uint32_t mantissa = bits & ((1u << f.mantissaBits) - 1);
  uint32_t out = sign << 31;
  if (exponent == exponentMask) {
    out |= 0x7f800000u | (mantissa << (23 - f.mantissaBits));
  } else if (exponent != 0) {
    out |= (exponent + 127u - static_cast<uint32_t>(f.bias)) << 23;
    out |= mantissa << (23 - f.mantissaBits);
  } else if (mantissa != 0) {
    // Subnormal there, normal in f32: shift the leading one to the hidden bit.
    const int shift = f.mantissaBits + 1 - static_cast<int>(std::bit_width(mantissa));
    mantissa = (mantissa << shift) & ((1u << f.mantissaBits) - 1);
    out |= static_cast<uint32_t>(1 - f.bias - shift + 127) << 23;
    out |= mantissa << (23 - f.mantissaBits);
  }
  return std::bit_cast<float>(out);
}

// `magnitude` is the f32 pattern without sign, finite and not NaN. The result is exponent and
// mantissa of the narrow format, rounded; a carry past the largest finite number runs into the
// exponent of inf.
constexpr uint32_t roundNarrow(uint32_t magnitude, NarrowFormat f) {
  const int drop = 23 - f.mantissaBits;
  const int exponent = static_cast<int>(magnitude >> 23) - 127 + f.bias;
  if (exponent >= (1 << f.exponentBits)) return ((1u << f.exponentBits) - 1) << f.mantissaBits;
  if (exponent <= 0) {
    const int shift = drop + 1 - exponent;
    if (shift > 24) return 0;  // below half of the smallest subnormal
    const uint32_t full = (magnitude & 0x7fffffu) | 0x800000u;
    const uint32_t kept = full >> shift;
    const uint32_t rest = full & ((1u << shift) - 1);
    const uint32_t half = 1u << (shift - 1);
    return kept + (rest > half || (rest == half && (kept & 1u)) ? 1u : 0u);
  }
  const uint32_t full =
      (static_cast<uint32_t>(exponent) << f.mantissaBits) | ((magnitude & 0x7fffffu) >> drop);
  const uint32_t rest = magnitude & ((1u << drop) - 1);
  const uint32_t half = 1u << (drop - 1);
  return full + (rest > half || (rest == half && (full & 1u)) ? 1u : 0u);
}

constexpr uint32_t encodeNarrow(float value, NarrowFormat f) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 31) << (f.exponentBits + f.mantissaBits);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t inf = ((1u << f.exponentBits) - 1) << f.mantissaBits;
  if (magnitude > 0x7f800000u) {
    const uint32_t payload = (magnitude & 0x7fffffu) >> (23 - f.mantissaBits);
    return sign | inf | payload | (1u << (f.mantissaBits - 1));
  }
  const uint32_t rounded = roundNarrow(magnitude, f);
  return sign | (rounded > inf ? inf : rounded);
}

}  // namespace detail

constexpr float f16ToF32(uint16_t bits) {
  return detail::decodeNarrow(bits, detail::kF16);
}
constexpr uint16_t f32ToF16(float value) {
  return static_cast<uint16_t>(detail::encodeNarrow(value, detail::kF16));
}

constexpr float bf16ToF32(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
constexpr uint16_t f32ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// Rounding f64 through f32 rounds twice; these round once.
uint16_t f64ToF16(double value);
uint16_t f64ToBf16(double value);

// Whole arrays; `dst` has at least the size of `src`.
void f16ToF32(std::span<const uint16_t> src, std::span<float> dst);
void f32ToF16(std::span<const float> src, std::span<uint16_t> dst);
void bf16ToF32(std::span<const uint16_t> src, std::span<float> dst);
void f32ToBf16(std::span<const float> src, std::span<uint16_t> dst);

}  // namespace rlx
