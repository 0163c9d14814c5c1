// Element types. The table dtype.def is the only list of them.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace rlx {

enum class DType : uint8_t {
#define RLX_DTYPE(Id, ...) Id,
#include "ir/dtype.def"
#undef RLX_DTYPE
};

enum class DTypeKind : uint8_t { Float, Complex, Int, UInt, Bool, Block };
enum class Specials : uint8_t { None, Ieee, NanOnly };

struct DTypeInfo {
  std::string_view name;
  int bits;  // per element, scales of a block-quantised type not counted
  DTypeKind kind;
  int blockElements;  // elements that share one block of storage
  int blockBytes;
  int exponentBits, mantissaBits;  // of a float or of the parts of a complex number; else 0
  Specials specials;
};

inline constexpr auto kDTypes = std::to_array<DTypeInfo>({
#define RLX_DTYPE(Id, name, bits, kind, elements, bytes, exponent, mantissa, specials) \
  {#name, bits, DTypeKind::kind, elements, bytes, exponent, mantissa, Specials::specials},
#include "ir/dtype.def"
#undef RLX_DTYPE
});
inline constexpr std::size_t kDTypeCount = kDTypes.size();

constexpr const DTypeInfo& info(DType t) {
  return kDTypes[static_cast<std::size_t>(t)];
}
constexpr std::string_view name(DType t) {
  return info(t).name;
}
// The dtype with that name ("f32"), or nothing.
constexpr std::optional<DType> parseDType(std::string_view text) {
  for (std::size_t i = 0; i < kDTypeCount; ++i)
    if (kDTypes[i].name == text) return static_cast<DType>(i);
  return std::nullopt;
}
constexpr bool isFloat(DType t) {
  return info(t).kind == DTypeKind::Float;
}
constexpr bool isComplex(DType t) {
  return info(t).kind == DTypeKind::Complex;
}
constexpr bool isSigned(DType t) {
  return info(t).kind == DTypeKind::Int;
}
constexpr bool isInteger(DType t) {
  return info(t).kind == DTypeKind::Int || info(t).kind == DTypeKind::UInt;
}
// One element a block: element i lies at byte i * bytes(t).
constexpr bool isPlain(DType t) {
  return info(t).blockElements == 1;
}
constexpr int bytes(DType t) {
  return info(t).blockBytes;
}
// Bytes that `elements` elements take; the last block may be partly filled.
constexpr int64_t storageBytes(DType t, int64_t elements) {
  return (elements + info(t).blockElements - 1) / info(t).blockElements * info(t).blockBytes;
}
// The type in which arithmetic on `t` is done (numerics.md): f32 for narrow floats, i32 or u32 for
// narrow integers, itself otherwise.
constexpr DType computeType(DType t) {
  if (isFloat(t) && info(t).bits < 32) return DType::F32;
  if (isInteger(t) && info(t).bits < 32) return isSigned(t) ? DType::I32 : DType::U32;
  return t;
}

}  // namespace rlx
