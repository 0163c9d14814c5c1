// ONNX losses, window functions and other small formulas.
#include <algorithm>
#include <cmath>

#include "import/onnx_import.h"

namespace rlx::onnx {
namespace {

constexpr double kPi = 3.14159265358979323846;

// -weight[target] * input[target] along axis 1; `ignore_index` counts as weight 0.
Status negativeLogLikelihood(Call& c, Value logs) {
  const Value target = convert(c.in(1), DType::I64), weight = c.in(2);
  const std::string how = c.attr("reduction", std::string_view("mean"));
  Shape s = target.shape();
  s.insert(s.begin() + std::min<std::ptrdiff_t>(1, static_cast<std::ptrdiff_t>(s.size())), Dim(1));
  Value ignored, at = target;
  if (c.hasAttr("ignore_index")) {
    const Value index =
        c.b.constant(Literal::of(DType::I64, {}, std::vector{c.attr("ignore_index", int64_t{0})}));
    ignored = apply(ScalarOp::Eq, target, index);
    at = choose(ignored, literal(target, 0), target);
  }
  Value loss = reshape(gatherElements(logs, reshape(at, s), 1), target.shape());
  loss = apply(ScalarOp::Neg, loss);
  Value w;
  if (weight) w = gather(weight, at, 0);
  if (ignored) {
    const Value one = w ? w : broadcastTo(literal(loss, 1), loss.shape());
    w = choose(ignored, literal(loss, 0), one);
  }
  if (w) loss = loss * w;
  const std::vector<int64_t> axes = range(0, loss.rank());
  if (how == "sum") loss = reduce(loss, ReduceKind::Sum, axes, KeepDims::No);
  if (how == "mean")
    loss = w ? reduce(loss, ReduceKind::Sum, axes, KeepDims::No) /
                   reduce(w, ReduceKind::Sum, axes, KeepDims::No)
             : mean(loss, axes, KeepDims::No);
  if (how != "sum" && how != "mean" && how != "none") return c.bad("reduction '" + how + "'");
  return c.out(0, loss), Ok{};
}

Status nllLoss(Call& c) {
  if (c.in(0).rank() < 2) return c.bad("input of rank " + std::to_string(c.in(0).rank()));
  return negativeLogLikelihood(c, c.in(0));
}

Status crossEntropy(Call& c) {
  if (c.in(0).rank() < 2) return c.bad("scores of rank " + std::to_string(c.in(0).rank()));
  const Value logs = c.b.emit(OpKind::LogSoftmax, {c.in(0)}, Attrs::of(SoftmaxAttrs{1}));
  c.out(1, logs);
  return negativeLogLikelihood(c, logs);
}

// a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N).
Status window(Call& c) {
  RLX_TRY(const auto size, c.dims(0));
  if (size.size() != 1) return c.bad("size must be one number");
  DType t{};
  const int64_t code = c.attr("output_datatype", int64_t{1});
  if (!findDType(code, &t)) return c.unsupported("dtype " + dtypeName(code));
  struct Row {
    std::string_view name;
    double a0, a1, a2;
  };
  constexpr Row kRows[] = {{"HannWindow", 0.5, 0.5, 0},
                           {"HammingWindow", 25.0 / 46, 21.0 / 46, 0},
                           {"BlackmanWindow", 0.42, 0.5, 0.08}};
  const Row* r = kRows;
  while (r->name != c.node.op) ++r;
  const bool periodic = c.attr("periodic", int64_t{1}) != 0;
  const Dim n = periodic ? size[0] : size[0] - Dim(1);
  const DType wide = isFloat(t) ? computeType(t) : DType::F32;
  const Value angle =
      iota(c.b, wide, {size[0]}, 0) * c.b.scalar(wide, 2 * kPi) / dimValue(c.b, wide, n);
  Value y = c.b.scalar(wide, r->a0) - apply(ScalarOp::Cos, angle) * c.b.scalar(wide, r->a1);
  if (r->a2 != 0)
    y = y + apply(ScalarOp::Cos, angle * c.b.scalar(wide, 2)) * c.b.scalar(wide, r->a2);
  return c.out(0, convert(y, t)), Ok{};
}

constexpr OpRow kOps[] = {
    {"NegativeLogLikelihoodLoss", nllLoss, 2, 3},
    {"SoftmaxCrossEntropyLoss", crossEntropy, 2, 3, 2},
    {"HannWindow", window},
    {"HammingWindow", window},
    {"BlackmanWindow", window},
};

}  // namespace

std::span<const OpRow> lossOps() {
  return kOps;
}

}  // namespace rlx::onnx
