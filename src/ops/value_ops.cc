#include "ops/value_ops.h"

#include "ops/op.h"

namespace rlx {

Value emitScalar(ScalarOp op, std::initializer_list<Value> operands) {
  Builder* b = nullptr;
  for (const Value& v : operands) b = v.builder ? v.builder : b;
  RLX_CHECK(b, "a scalar op without a built operand");
  return b->emit(static_cast<OpKind>(op), std::vector<Value>(operands));
}

Value operator+(Value a, Value b) {
  return emitScalar(ScalarOp::Add, {a, b});
}
Value operator-(Value a, Value b) {
  return emitScalar(ScalarOp::Sub, {a, b});
}
Value operator*(Value a, Value b) {
  return emitScalar(ScalarOp::Mul, {a, b});
}
Value operator/(Value a, Value b) {
  return emitScalar(ScalarOp::Div, {a, b});
}
Value literal(Value like, double value) {
  return like.builder->scalar(like.dtype(), value);
}

GraphExpr GraphExpr::apply(ScalarOp op, const GraphExpr& a, const GraphExpr& b,
                           const GraphExpr& c) {
  const int n = info(op).arity;
  const GraphExpr* x[3] = {&a, &b, &c};
  Builder* builder = nullptr;
  Value like;
  for (int k = n - 1; k >= 0; --k)
    if (x[k]->v.builder) builder = x[k]->v.builder, like = x[k]->v;
  // The dtype of literals: that of a built operand, of the branches for select.
  if (op == ScalarOp::Select) like = b.v.builder ? b.v : c.v.builder ? c.v : like;
  if (!builder) return GraphExpr(scalar::value(op, a.literal, b.literal, c.literal));
  std::vector<Value> operands;
  for (int k = 0; k < n; ++k)
    operands.push_back(x[k]->v.builder ? x[k]->v : builder->scalar(like.dtype(), x[k]->literal));
  return GraphExpr(builder->emit(static_cast<OpKind>(op), std::move(operands)));
}

Value convert(Value x, DType to) {
  return x.dtype() == to ? x : x.builder->emit(OpKind::Convert, {x}, Attrs::of(ConvertAttrs{to}));
}
Value reshape(Value x, Shape shape) {
  return x.shape() == shape
             ? x
             : x.builder->emit(OpKind::Reshape, {x}, Attrs::of(ShapeAttrs{std::move(shape)}));
}
Value transpose(Value x, std::vector<int64_t> perm) {
  return x.builder->emit(OpKind::Transpose, {x}, Attrs::of(TransposeAttrs{std::move(perm)}));
}
Value broadcastTo(Value x, Shape shape) {
  return x.shape() == shape
             ? x
             : x.builder->emit(OpKind::Broadcast, {x}, Attrs::of(ShapeAttrs{std::move(shape)}));
}
Value slice(Value x, Shape start, Shape size, std::vector<int64_t> step) {
  if (step.empty()) step.assign(start.size(), 1);
  return x.builder->emit(OpKind::Slice, {x},
                         Attrs::of(SliceAttrs{std::move(start), std::move(size), std::move(step)}));
}
Value concat(std::vector<Value> parts, int64_t axis) {
  Builder* b = parts.at(0).builder;
  return b->emit(OpKind::Concat, std::move(parts), Attrs::of(AxisAttrs{axis}));
}
Value reduce(Value x, ReduceKind kind, std::vector<int64_t> axes, KeepDims keep) {
  return x.builder->emit(OpKind::Reduce, {x},
                         Attrs::of(ReduceAttrs{kind, std::move(axes), keep == KeepDims::Yes}));
}
Value iota(Builder& b, DType dtype, Shape shape, int64_t axis) {
  return b.emit(OpKind::Iota, {}, Attrs::of(IotaAttrs{dtype, std::move(shape), axis}));
}
Value dimValue(Builder& b, DType dtype, const Dim& dim) {
  if (dim.isConst()) return b.scalar(dtype, static_cast<double>(dim.value()));
  return b.emit(OpKind::DimValue, {}, Attrs::of(DimAttrs{dtype, dim}));
}
Value dotGeneral(Value a, Value b, DotAttrs attrs) {
  return a.builder->emit(OpKind::DotGeneral, {a, b}, Attrs::of(std::move(attrs)));
}
Value gather(Value data, Value indices, int64_t axis) {
  return data.builder->emit(OpKind::Gather, {data, indices}, Attrs::of(AxisAttrs{axis}));
}
Value gatherElements(Value data, Value indices, int64_t axis) {
  return data.builder->emit(OpKind::GatherElements, {data, indices}, Attrs::of(AxisAttrs{axis}));
}
Value softmax(Value x, int64_t axis) {
  return x.builder->emit(OpKind::Softmax, {x}, Attrs::of(SoftmaxAttrs{axis}));
}
Value matmul(Value a, Value b) {
  return a.builder->emit(OpKind::MatMul, {a, b});
}
Value layerNorm(Value x, Value scale, Value bias, int64_t axis, double epsilon) {
  return x.builder->emit(OpKind::LayerNorm, {x, scale, bias}, Attrs::of(NormAttrs{axis, epsilon}));
}
Value linear(Value x, Value w, Value bias, TransposeWeight transposed) {
  std::vector<Value> in{x, w};
  if (bias) in.push_back(bias);
  return x.builder->emit(OpKind::Linear, std::move(in),
                         Attrs::of(LinearAttrs{transposed == TransposeWeight::Yes}));
}

}  // namespace rlx
