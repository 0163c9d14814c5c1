// OpKind: one enumerator per op of ops.def. The enumeration is data for every layer; what an op
// does is in ops/.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace rlx {

enum class OpKind : uint16_t {
#define RLX_SCALAR(Id, ...) Id,
#include "scalar/scalar.def"
#undef RLX_SCALAR
#define RLX_OP(Id, name) Id,
#include "ops/ops.def"
#undef RLX_OP
};

inline constexpr std::string_view kOpNames[] = {
#define RLX_SCALAR(Id, fn, ...) #fn,
#include "scalar/scalar.def"
#undef RLX_SCALAR
#define RLX_OP(Id, name) name,
#include "ops/ops.def"
#undef RLX_OP
};
inline constexpr std::size_t kOpCount = sizeof(kOpNames) / sizeof(kOpNames[0]);

constexpr std::string_view name(OpKind op) {
  return kOpNames[static_cast<std::size_t>(op)];
}
constexpr std::optional<OpKind> parseOpKind(std::string_view text) {
  for (std::size_t i = 0; i < kOpCount; ++i)
    if (kOpNames[i] == text) return static_cast<OpKind>(i);
  return std::nullopt;
}

}  // namespace rlx
