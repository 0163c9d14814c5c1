// RefTensor: the value of the float64 reference interpreter. Floats are doubles, integers are
// 64-bit patterns of the declared width; nothing here is fast.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "ir/dtype.h"
#include "ir/element.h"
#include "ir/literal.h"

namespace rlx {

struct RefTensor {
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  std::vector<double> f;   // Float: one per element; Complex: re, im
  std::vector<int64_t> i;  // Int, UInt (bit pattern), Bool (0 or 1)

  RefTensor() = default;
  // Zero-filled.
  RefTensor(DType dtype, std::vector<int64_t> shape);
  bool isInt() const { return !isFloat(dtype) && !isComplex(dtype); }
  int64_t elements() const;
  // Element as a double, whatever the dtype (real part of a complex one).
  double number(int64_t at) const;
  // Element as an exact integer; U64 is not negative.
  using Wide = scalar::Wide;
  Wide integer(int64_t at) const;
  // Stores an integer, wrapped to the dtype.
  void setInteger(int64_t at, Wide v);
  // Stores any number by the cast rules of the numeric contract (float to int saturates, NaN to 0).
  void setNumber(int64_t at, double v);
};

int64_t product(std::span<const int64_t> shape);
std::vector<int64_t> rowMajorStrides(std::span<const int64_t> shape);
// Advances a row-major multi-index; false after the last.
bool nextIndex(std::vector<int64_t>& index, std::span<const int64_t> shape);
int64_t offsetOf(std::span<const int64_t> index, std::span<const int64_t> shape);

// Storage bytes to values and back; Unsupported for block-quantised dtypes.
Result<RefTensor> fromBytes(DType dtype, std::vector<int64_t> shape,
                            std::span<const std::byte> bytes);
Result<std::vector<std::byte>> toBytes(const RefTensor& t);
Result<RefTensor> fromLiteral(const Literal& v);

}  // namespace rlx
