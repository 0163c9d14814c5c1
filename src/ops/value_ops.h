// Arithmetic on graph values, so that decompositions, importers and models read as formulas.
#pragma once
#include "ir/builder.h"
#include "ops/attrs.h"
#include "scalar/scalar.h"

namespace rlx {

// Domain 4: graph values. A literal waits for the operand it meets and takes its dtype.
struct GraphExpr {
  Value v;
  double literal = 0;
  GraphExpr(double c) : literal(c) {}
  GraphExpr(Value value) : v(value) {}
  static GraphExpr apply(ScalarOp op, const GraphExpr& a, const GraphExpr& b, const GraphExpr& c);
};
static_assert(Domain<GraphExpr>);

// The scalar op as a graph op; operands broadcast right-aligned.
Value emitScalar(ScalarOp op, std::initializer_list<Value> operands);
Value operator+(Value a, Value b);
Value operator-(Value a, Value b);
Value operator*(Value a, Value b);
Value operator/(Value a, Value b);
// A rank-0 constant of the dtype of `like`.
Value literal(Value like, double value);

Value convert(Value x, DType to);  // x itself when it already has that dtype
Value reshape(Value x, Shape shape);
Value transpose(Value x, std::vector<int64_t> perm);
Value broadcastTo(Value x, Shape shape);
Value slice(Value x, Shape start, Shape size, std::vector<int64_t> step = {});
Value concat(std::vector<Value> parts, int64_t axis);
Value reduce(Value x, ReduceKind kind, std::vector<int64_t> axes, KeepDims keep);
Value iota(Builder& b, DType dtype, Shape shape, int64_t axis);
// A dim as a rank-0 value.
Value dimValue(Builder& b, DType dtype, const Dim& dim);
Value dotGeneral(Value a, Value b, DotAttrs attrs);
Value gather(Value data, Value indices, int64_t axis);
Value gatherElements(Value data, Value indices, int64_t axis);
Value softmax(Value x, int64_t axis);
Value matmul(Value a, Value b);
// The same of i8 and u8 operands, in i32: dot_general with a result dtype.
Value matmulInteger(Value a, Value b);
Value layerNorm(Value x, Value scale, Value bias, int64_t axis, double epsilon);
// [..., k] x [n, k] (rows of w are outputs) + bias; bias may be absent.
Value linear(Value x, Value w, Value bias, TransposeWeight transposed);

}  // namespace rlx
