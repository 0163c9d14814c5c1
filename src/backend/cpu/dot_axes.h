// The axes of a dot_general seen as [batch..., m, k] x [batch..., k, n]: what the native
// contractions of all dtypes share.
#pragma once
#include <array>
#include <vector>

#include "backend/cpu/cpu.h"
#include "ops/attrs.h"
#include "schedule/native.h"

namespace rlx::cpu {

inline constexpr std::size_t kBatchAxes = 8;

struct DotAxes {
  explicit DotAxes(const NativeQuery& q);
  DotAttrs attrs;
  std::vector<int64_t> lhsFree, rhsFree;
  std::vector<int64_t> resultRows;  // where lhsFree went
  bool constantRight = false;       // one matrix that never changes
};

// Strides and extents of one call, in elements.
struct DotMatrices {
  Axis m, n, ka, kb;
  int64_t cRow = 0;  // stride of C along m; along n it is 1
  int64_t batch = 1;
  std::size_t batchAxes = 0;
  std::array<int64_t, kBatchAxes> batchExtents{}, aBatch{}, bBatch{}, cBatch{};

  DotMatrices() = default;
  DotMatrices(const DotAxes& axes, const NativeCall& call);
  // Where matrix i of the batch starts, by one of the three strides above.
  int64_t batchOffset(int64_t i, const std::array<int64_t, kBatchAxes>& strides) const;
  // True when there is nothing to add up; fills the result with zeros where it has elements.
  bool empty(std::byte* result, int64_t elementBytes) const;
};

// One call: where its matrices of elements A, B and C lie, and what follows.
template <class A, class B, class C>
struct DotProblem : DotMatrices {
  const A* a = nullptr;
  const B* b = nullptr;
  C* c = nullptr;
  const NativeEpilogue* epilogue = nullptr;
  int64_t row = 0, column = 0;  // of the whole result where C starts

  DotProblem(const DotAxes& axes, const NativeCall& call)
      : DotMatrices(axes, call),
        a(reinterpret_cast<const A*>(call.operands[0].data)),
        b(reinterpret_cast<const B*>(call.operands[1].data)),
        c(reinterpret_cast<C*>(call.result.data)),
        epilogue(call.epilogue) {}
  bool empty() const { return DotMatrices::empty(reinterpret_cast<std::byte*>(c), sizeof(C)); }
  // From all matrices to matrix i of the batch.
  void select(int64_t i) {
    a += batchOffset(i, aBatch);
    b += batchOffset(i, bBatch);
    c += batchOffset(i, cBatch);
    row += i * m.extent;
  }
  // Rows [r0, r1) x columns [c0, c1) from C on are complete.
  void finish(int64_t r0, int64_t r1, int64_t c0, int64_t c1) const {
    if (epilogue && r1 > r0 && c1 > c0)
      epilogue->apply(row + r0, row + r1, column + c0, column + c1);
  }
};

// Unsupported where axes that must be one have no one stride.
Status acceptsAxes(const NativeQuery& q);
// The members of NativeKernel of these names.
std::size_t leadingOfDot(const NativeQuery& q);
bool dotWrites(const NativeQuery& q, const StridedView& result);
std::size_t columnsOfDot(const NativeQuery& q);

}  // namespace rlx::cpu
