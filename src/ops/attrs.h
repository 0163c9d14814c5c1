// The attribute structs of all ops: what a reader of the text form, an importer and a rule share.
#pragma once
#include <optional>

#include "ir/attr.h"

namespace rlx {

enum class ReduceKind : uint8_t { Sum, Prod, Max, Min, Any, All };
inline const char* const* spellings(ReduceKind) {
  static constexpr const char* kAll[] = {"sum", "prod", "max", "min", "any", "all", nullptr};
  return kAll;
}
enum class ArgKind : uint8_t { Max, Min };
inline const char* const* spellings(ArgKind) {
  static constexpr const char* kAll[] = {"max", "min", nullptr};
  return kAll;
}
enum class PoolKind : uint8_t { Max, Average };
inline const char* const* spellings(PoolKind) {
  static constexpr const char* kAll[] = {"max", "average", nullptr};
  return kAll;
}
enum class PadMode : uint8_t { Constant, Edge, Reflect, Wrap };
inline const char* const* spellings(PadMode) {
  static constexpr const char* kAll[] = {"constant", "edge", "reflect", "wrap", nullptr};
  return kAll;
}
// How duplicates combine in a scatter.
enum class ScatterKind : uint8_t { None, Add, Mul, Min, Max };
inline const char* const* spellings(ScatterKind) {
  static constexpr const char* kAll[] = {"none", "add", "mul", "min", "max", nullptr};
  return kAll;
}
enum class KeepDims : bool { No, Yes };
enum class TransposeWeight : bool { No, Yes };

struct ConvertAttrs {
  DType dtype = DType::F32;
  RLX_FIELDS(dtype)
};
struct ShapeAttrs {  // reshape, broadcast
  Shape shape;
  RLX_FIELDS(shape)
};
struct TransposeAttrs {  // result axis k is operand axis perm[k]
  std::vector<int64_t> perm;
  RLX_FIELDS(perm)
};
struct SliceAttrs {  // result element i of an axis is operand element start + i * step, i < size
  Shape start, size;
  std::vector<int64_t> step;
  RLX_FIELDS(start, size, step)
};
struct PadAttrs {  // elements added before and after each axis; the constant is operand 1 (else 0)
  Shape low, high;
  PadMode mode = PadMode::Constant;
  RLX_FIELDS(low, high, mode)
};
struct AxisAttrs {  // concat, gather, gather_elements
  int64_t axis = 0;
  RLX_FIELDS(axis)
};
struct IotaAttrs {  // the index along `axis`
  DType dtype = DType::I64;
  Shape shape;
  int64_t axis = 0;
  RLX_FIELDS(dtype, shape, axis)
};
struct RollAttrs {  // elements move `shift` places up along `axis`, round the end
  int64_t axis = 0, shift = 0;
  RLX_FIELDS(axis, shift)
};
struct DimAttrs {  // a symbolic extent as a value
  DType dtype = DType::I64;
  Dim value;
  RLX_FIELDS(dtype, value)
};
struct GatherNdAttrs {
  int64_t batchDims = 0;
  RLX_FIELDS(batchDims)
};
struct ScatterAttrs {
  int64_t axis = 0;  // scatter_elements only
  ScatterKind kind = ScatterKind::None;
  RLX_FIELDS(axis, kind)
};
struct ReduceAttrs {
  ReduceKind kind = ReduceKind::Sum;
  std::vector<int64_t> axes;
  bool keepDims = false;
  RLX_FIELDS(kind, axes, keepDims)
};
struct ArgReduceAttrs {
  ArgKind kind = ArgKind::Max;
  int64_t axis = 0;
  bool keepDims = false, selectLast = false;
  RLX_FIELDS(kind, axis, keepDims, selectLast)
};
struct DotAttrs {  // result axes: batch, free axes of the left, free axes of the right
  std::vector<int64_t> lhsBatch, rhsBatch, lhsContract, rhsContract;
  // The dtype of products, sums and result, i32, for operands that are i8 or u8 each; without it
  // both operands and the result have one dtype.
  std::optional<DType> result = {};
  RLX_FIELDS(lhsBatch, rhsBatch, lhsContract, rhsContract, result)
};
struct ConvAttrs {  // per spatial axis; operands [n, c, spatial...], [o, c / groups, kernel...],
                    // bias [o]
  std::vector<int64_t> strides, dilations, padLow, padHigh;
  int64_t groups = 1;
  RLX_FIELDS(strides, dilations, padLow, padHigh, groups)
};
struct PoolAttrs {  // per spatial axis of [n, c, spatial...]
  PoolKind kind = PoolKind::Max;
  std::vector<int64_t> window, strides, dilations, padLow, padHigh;
  bool countPadding = false, ceilMode = false;
  RLX_FIELDS(kind, window, strides, dilations, padLow, padHigh, countPadding, ceilMode)
};
struct ScanAttrs {
  ReduceKind kind = ReduceKind::Sum;
  int64_t axis = 0;
  bool exclusive = false, reverse = false;
  RLX_FIELDS(kind, axis, exclusive, reverse)
};
struct SortAttrs {
  int64_t axis = 0;
  bool descending = false;
  RLX_FIELDS(axis, descending)
};
struct TopKAttrs {
  int64_t axis = 0;
  Dim k;
  bool largest = true;
  RLX_FIELDS(axis, k, largest)
};
struct SoftmaxAttrs {
  int64_t axis = -1;
  RLX_FIELDS(axis)
};
struct NormAttrs {  // layer_norm and rms_norm over the axes from `axis` on
  int64_t axis = -1;
  double epsilon = 1e-5;
  RLX_FIELDS(axis, epsilon)
};
struct EpsilonAttrs {  // batch_norm
  double epsilon = 1e-5;
  RLX_FIELDS(epsilon)
};
struct AttentionAttrs {
  double scale = 0;  // 0: 1 / sqrt(head size)
  bool causal = false;
  RLX_FIELDS(scale, causal)
};
struct LinearAttrs {
  bool transposed = false;  // the weight is [n, k], one row per output
  RLX_FIELDS(transposed)
};

// The axes of a dot_general operand that are neither batch nor contracted, in order.
std::vector<int64_t> freeAxes(std::size_t rank, const std::vector<int64_t>& batch,
                              const std::vector<int64_t>& contract);
// A possibly negative axis as 0..rank-1; BadAttribute otherwise.
Result<int64_t> normalizeAxis(std::string_view op, int64_t axis, std::size_t rank);
// Right-aligned broadcasting of two shapes: extents provably equal, or 1 on one side.
Result<Shape> broadcastShapes(std::string_view op, const Shape& a, const Shape& b);

}  // namespace rlx
