// Literal: the bytes of a constant tensor, shared and immutable; often a view into a mapped file.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "ir/dim.h"
#include "ir/dtype.h"

namespace rlx {

struct Literal {
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;   // storageBytes(dtype, elements), row-major, little endian
  std::shared_ptr<const void> owner;  // keeps `bytes` alive

  int64_t elements() const;
  bool operator==(const Literal& o) const;  // by dtype, shape and bytes

  // Copies `bytes`. The size must agree with the shape.
  static Literal copy(DType dtype, std::vector<int64_t> shape, std::span<const std::byte> bytes);
  // A zero-filled literal whose bytes the caller writes through the returned span.
  static Literal zeros(DType dtype, std::vector<int64_t> shape, std::span<std::byte>* writable);
  // The same with bytes of any value, on a cache line of its own.
  static Literal uninitialized(DType dtype, std::vector<int64_t> shape,
                               std::span<std::byte>* writable);
  template <class T>
  static Literal of(DType dtype, std::vector<int64_t> shape, const std::vector<T>& values) {
    return copy(dtype, std::move(shape), std::as_bytes(std::span<const T>(values)));
  }
  // A scalar of any plain dtype, converted by the cast rules; rank 0.
  static Literal scalar(DType dtype, double value);
};

}  // namespace rlx
