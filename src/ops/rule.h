// What the op families share: error texts, reference loops, index arithmetic.
#pragma once
#include "ops/attrs.h"
#include "ops/op.h"
#include "ops/value_ops.h"

namespace rlx::ops {

using Types = std::vector<TensorType>;
using Infer = Result<Types>;

inline Error shapeError(const InferContext& c, std::string what) {
  return Error(Errc::ShapeMismatch, std::string(name(c.op)) + ": " + std::move(what));
}
inline Error typeError(const InferContext& c, std::string what) {
  return Error(Errc::TypeMismatch, std::string(name(c.op)) + ": " + std::move(what));
}
inline Error attributeError(const InferContext& c, std::string what) {
  return Error(Errc::BadAttribute, std::string(name(c.op)) + ": " + std::move(what));
}
// TypeMismatch unless operand k has one of the kinds f (float), i (integer), b (bool), c (complex).
Status requireKind(const InferContext& c, std::size_t k, std::string_view kinds);
Status requireRank(const InferContext& c, std::size_t k, std::size_t rank);
inline Infer one(DType dtype, Shape shape) {
  return Types{TensorType{dtype, std::move(shape)}};
}
inline RefResult single(RefTensor t) {
  std::vector<RefTensor> v;
  v.push_back(std::move(t));
  return v;
}

// Calls fn(multi-index, flat position) for every element of a shape.
template <class F>
void forEach(std::span<const int64_t> shape, F&& fn) {
  if (product(shape) == 0) return;
  std::vector<int64_t> at(shape.size(), 0);
  int64_t flat = 0;
  do {
    fn(std::as_const(at), flat++);
  } while (nextIndex(at, shape));
}
// The flat element of an operand that element `at` of the broadcast result reads.
int64_t broadcastOffset(std::span<const int64_t> at, std::span<const int64_t> operand);
// Copies element `from` of x to element `to` of y; equal dtypes.
void copyElement(RefTensor& y, int64_t to, const RefTensor& x, int64_t from);

// ---- Index expressions
// -----------------------------------------------------------------------------
inline kir::Expr add(const kir::Expr& a, const kir::Expr& b) {
  return kir::Expr::apply(ScalarOp::Add, a, b, {});
}
inline kir::Expr sub(const kir::Expr& a, const kir::Expr& b) {
  return kir::Expr::apply(ScalarOp::Sub, a, b, {});
}
inline kir::Expr mul(const kir::Expr& a, const kir::Expr& b) {
  return kir::Expr::apply(ScalarOp::Mul, a, b, {});
}
inline kir::Expr less(const kir::Expr& a, const kir::Expr& b) {
  return kir::Expr::apply(ScalarOp::Lt, a, b, {});
}
inline kir::Expr atLeast(const kir::Expr& a, const kir::Expr& b) {
  return kir::Expr::apply(ScalarOp::Ge, a, b, {});
}
inline kir::Expr both(const kir::Expr& a, const kir::Expr& b) {
  return kir::Expr::apply(ScalarOp::And, a, b, {});
}
inline kir::Expr equal(const kir::Expr& a, const kir::Expr& b) {
  return kir::Expr::apply(ScalarOp::Eq, a, b, {});
}
inline kir::Expr choose(const kir::Expr& c, const kir::Expr& a, const kir::Expr& b) {
  return kir::Expr::apply(ScalarOp::Select, c, a, b);
}
inline kir::Expr always() {
  return kir::integer(DType::Bool, 1);
}
// The operand index that result index `at` reads under right-aligned broadcasting.
Index broadcastIndex(const Index& at, const Shape& operand);
// The index into `from` of the element that has index `at` in `to`; both row-major, equally many
// elements.
Index reshapeIndex(LowerContext& c, const Index& at, const Shape& to, const Shape& from);
// A gather or scatter index (any integer dtype) as I32 with negatives counted from the end.
kir::Expr wrapIndex(LowerContext& c, const kir::Expr& i, const kir::Expr& extent);
// The same, clamped into the axis.
kir::Expr clampIndex(LowerContext& c, const kir::Expr& i, const kir::Expr& extent);

}  // namespace rlx::ops
