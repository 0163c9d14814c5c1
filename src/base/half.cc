#include "base/half.h"

#include <cmath>
#include <limits>

#include "base/result.h"

namespace rlx {
namespace {

constexpr detail::NarrowFormat kF8E4M3{4, 3, 7};
constexpr uint32_t kF8E4M3Nan = 0x7f;
constexpr uint32_t kF8E4M3Max = 0x7e;

// f64 to f32 with the last bit sticky (round to odd): rounding the result again to a format of at
// most 22 mantissa bits gives what one rounding of the f64 gives.
float toOddF32(double value) {
  const float nearest = static_cast<float>(value);
  if (std::isnan(value) || std::isinf(value) || static_cast<double>(nearest) == value)
    return nearest;
  float truncated = nearest;
  if (std::abs(static_cast<double>(nearest)) > std::abs(value))
    truncated = std::nextafter(nearest, 0.0f);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(truncated) | 1u);
}

}  // namespace

uint16_t f64ToF16(double value) {
  return f32ToF16(toOddF32(value));
}
uint16_t f64ToBf16(double value) {
  return f32ToBf16(toOddF32(value));
}

uint8_t f32ToF8e5m2(float value, F8Overflow overflow) {
  const uint32_t bits = detail::encodeNarrow(value, detail::kF8E5M2);
  if (overflow == F8Overflow::Saturate && (bits & 0x7fu) == 0x7cu)
    return static_cast<uint8_t>((bits & 0x80u) | 0x7bu);
  return static_cast<uint8_t>(bits);
}

float f8e4m3fnToF32(uint8_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x80u) << 24;
  const uint32_t magnitude = bits & 0x7fu;
  if (magnitude == kF8E4M3Nan) return std::bit_cast<float>(sign | 0x7fc00000u);
  // One exponent bit more than the format has: its top exponent is then an ordinary one.
  const float value = detail::decodeNarrow(magnitude, {5, 3, 7});
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}

uint8_t f32ToF8e4m3fn(float value, F8Overflow overflow) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 24) & 0x80u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint8_t>(sign | kF8E4M3Nan);
  const uint32_t rounded = detail::roundNarrow(magnitude, {5, kF8E4M3.mantissaBits, kF8E4M3.bias});
  if (rounded <= kF8E4M3Max) return static_cast<uint8_t>(sign | rounded);
  return static_cast<uint8_t>(sign | (overflow == F8Overflow::Saturate ? kF8E4M3Max : kF8E4M3Nan));
}

void f16ToF32(std::span<const uint16_t> src, std::span<float> dst) {
  RLX_CHECK(dst.size() >= src.size(), "destination too small");
  for (std::size_t i = 0; i < src.size(); ++i) dst[i] = f16ToF32(src[i]);
}
void f32ToF16(std::span<const float> src, std::span<uint16_t> dst) {
  RLX_CHECK(dst.size() >= src.size(), "destination too small");
  for (std::size_t i = 0; i < src.size(); ++i) dst[i] = f32ToF16(src[i]);
}
void bf16ToF32(std::span<const uint16_t> src, std::span<float> dst) {
  RLX_CHECK(dst.size() >= src.size(), "destination too small");
  for (std::size_t i = 0; i < src.size(); ++i) dst[i] = bf16ToF32(src[i]);
}
void f32ToBf16(std::span<const float> src, std::span<uint16_t> dst) {
  RLX_CHECK(dst.size() >= src.size(), "destination too small");
  for (std::size_t i = 0; i < src.size(); ++i) dst[i] = f32ToBf16(src[i]);
}

}  // namespace rlx
