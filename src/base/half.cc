#include "base/half.h"

#include <cmath>
#include <limits>

#include "base/result.h"

namespace rlx {
namespace {

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
