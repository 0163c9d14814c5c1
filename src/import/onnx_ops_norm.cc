// ONNX normalisations: batch, layer, instance, group, RMS, local response, softmax and friends.
#include <algorithm>
#include <limits>

#include "import/onnx_import.h"

namespace rlx::onnx {
namespace {

Value rsqrt(Value v) {
  return apply(ScalarOp::Rsqrt, v);
}

Status requireFloat(Call& c, const Value& x) {
  if (!isFloat(x.dtype())) return c.unsupported("dtype " + std::string(name(x.dtype())));
  return Ok{};
}

// (x - mean) / sqrt(variance + epsilon) over axes, in f32 for narrower floats.
Value standardize(Value x, const std::vector<int64_t>& axes, double epsilon) {
  const Value d = x - mean(x, axes, KeepDims::Yes);
  const Value variance = mean(d * d, axes, KeepDims::Yes);
  return d * rsqrt(variance + literal(variance, epsilon));
}

Status batchNorm(Call& c) {
  const Value x = c.in(0);
  RLX_OK(requireFloat(c, x));
  const double epsilon = c.attr("epsilon", 1e-5);
  if (c.opset < 9 && c.attr("spatial", int64_t{1}) == 0) return c.unsupported("spatial=0");
  const bool training = c.opset >= 14
                            ? c.attr("training_mode", int64_t{0}) != 0
                            : c.opset < 7 && c.attr("is_test", int64_t{0}) == 0 && c.wants(1);
  if (!training) {
    for (std::size_t k = 1; k < c.outputs(); ++k)
      if (c.wants(k)) return c.unsupported("outputs of the training mode");
    c.out(0, c.b.emit(OpKind::BatchNorm, {x, c.in(1), c.in(2), c.in(3), c.in(4)},
                      Attrs::of(EpsilonAttrs{epsilon})));
    return Ok{};
  }
  const double momentum = c.attr("momentum", 0.9);
  std::vector<int64_t> axes = range(0, x.rank());
  if (axes.size() > 1) axes.erase(axes.begin() + 1);
  const Value m = mean(x, axes, KeepDims::No);
  const Value d = x - perChannel(m, x.rank());
  const Value v = mean(d * d, axes, KeepDims::No);
  auto running = [&](Value before, Value now) {
    now = convert(now, before.dtype());
    return before * literal(before, momentum) + now * literal(now, 1 - momentum);
  };
  c.out(0,
        c.b.emit(OpKind::BatchNorm, {x, c.in(1), c.in(2), m, v}, Attrs::of(EpsilonAttrs{epsilon})));
  c.out(1, running(c.in(3), m));
  c.out(2, running(c.in(4), v));
  return Ok{};
}

Status instanceNorm(Call& c) {
  const Value x = c.in(0);
  RLX_OK(requireFloat(c, x));
  const Value y = standardize(x, range(2, x.rank()), c.attr("epsilon", 1e-5));
  c.out(0, y * perChannel(c.in(1), x.rank()) + perChannel(c.in(2), x.rank()));
  return Ok{};
}

Status groupNorm(Call& c) {
  const Value x = c.in(0);
  RLX_OK(requireFloat(c, x));
  const int64_t groups = c.attr("num_groups", int64_t{0});
  const Dim channels = extent(x, 1);
  if (groups < 1 || !channels.isConst() || channels.value() % groups != 0 || x.rank() < 3)
    return c.bad(channels.text() + " channels in " + std::to_string(groups) + " groups");
  const Dim each(channels.value() / groups);
  Shape split{extent(x, 0), Dim(groups), each};
  const Shape rest = part(x.shape(), 2, x.shape().size());
  split.insert(split.end(), rest.begin(), rest.end());
  const auto rank = static_cast<int64_t>(split.size());
  Value y = standardize(reshape(x, split), range(2, rank), c.attr("epsilon", 1e-5));
  Value scale = c.in(1), bias = c.in(2);
  if (c.opset < 21) {  // one of each a group
    y = y * perChannel(scale, rank) + perChannel(bias, rank);
    return c.out(0, reshape(y, x.shape())), Ok{};
  }
  y = reshape(y, x.shape());
  return c.out(0, y * perChannel(scale, x.rank()) + perChannel(bias, x.rank())), Ok{};
}

Status layerNorm(Call& c) {
  const Value x = c.in(0);
  RLX_OK(requireFloat(c, x));
  RLX_TRY(const int64_t axis, c.axis("axis", -1, x.rank()));
  const double epsilon = c.attr("epsilon", 1e-5);
  std::vector<Value> in{x, c.in(1)};
  if (c.has(2)) in.push_back(c.in(2));
  c.out(0, c.b.emit(OpKind::LayerNorm, std::move(in), Attrs::of(NormAttrs{axis, epsilon})));
  if (c.wants(1) || c.wants(2)) {
    const std::vector<int64_t> axes = range(axis, x.rank());
    const Value wide = convert(x, computeType(x.dtype()));
    const Value m = mean(wide, axes, KeepDims::Yes), d = wide - m;
    const Value v = mean(d * d, axes, KeepDims::Yes);
    c.out(1, m);
    c.out(2, rsqrt(v + literal(v, epsilon)));
  }
  return Ok{};
}

Status rmsNorm(Call& c) {
  const Value x = c.in(0);
  RLX_OK(requireFloat(c, x));
  RLX_TRY(const int64_t axis, c.axis("axis", -1, x.rank()));
  const Attrs a = Attrs::of(NormAttrs{axis, c.attr("epsilon", 1e-5)});
  if (c.in(1).dtype() == x.dtype())
    return c.out(0, c.b.emit(OpKind::RmsNorm, {x, c.in(1)}, a)), Ok{};
  return c.out(0, convert(c.b.emit(OpKind::RmsNorm, {x}, a), c.in(1).dtype()) * c.in(1)), Ok{};
}

Status meanVariance(Call& c) {
  const Value x = c.in(0);
  RLX_OK(requireFloat(c, x));
  std::vector<int64_t> axes;
  for (const int64_t a : c.hasAttr("axes") ? c.ints("axes") : std::vector<int64_t>{0, 2, 3}) {
    RLX_TRY(const int64_t axis, normalizeAxis(c.node.op, a, x.shape().size()));
    axes.push_back(axis);
  }
  const Value d = x - mean(x, axes, KeepDims::Yes);
  const Value deviation = apply(ScalarOp::Sqrt, mean(d * d, axes, KeepDims::Yes));
  return c.out(0, d / (deviation + literal(deviation, 1e-9))), Ok{};
}

Status lpNorm(Call& c) {
  const Value x = c.in(0);
  RLX_OK(requireFloat(c, x));
  RLX_TRY(const int64_t axis, c.axis("axis", -1, x.rank()));
  const int64_t p = c.attr("p", int64_t{2});
  if (p != 1 && p != 2) return c.bad("p must be 1 or 2, it is " + std::to_string(p));
  Value n =
      reduce(p == 1 ? apply(ScalarOp::Abs, x) : x * x, ReduceKind::Sum, {axis}, KeepDims::Yes);
  if (p == 2) n = apply(ScalarOp::Sqrt, n);
  // A row of zeros stays zeros.
  n = choose(apply(ScalarOp::Eq, n, literal(n, 0)), literal(n, 1), n);
  return c.out(0, x / n), Ok{};
}

// The sum of squares over neighbouring channels is a pool over axis 1.
Status localResponse(Call& c) {
  const Value x = c.in(0);
  RLX_OK(requireFloat(c, x));
  const int64_t size = c.attr("size", int64_t{0});
  if (size < 1 || size > (1 << 20) || x.rank() < 2) return c.bad("size " + std::to_string(size));
  const double alpha = c.attr("alpha", 0.0001), beta = c.attr("beta", 0.75),
               bias = c.attr("bias", 1.0);
  const Shape folded{extent(x, 0), Dim(1), extent(x, 1),
                     elements(part(x.shape(), 2, x.shape().size()))};
  PoolAttrs a;
  a.kind = PoolKind::Average;
  a.window = {size, 1}, a.strides = {1, 1}, a.dilations = {1, 1};
  a.padLow = {(size - 1) / 2, 0}, a.padHigh = {size - 1 - (size - 1) / 2, 0};
  a.countPadding = true;
  const Value squares = reshape(x * x, folded);
  const Value avg = reshape(c.b.emit(OpKind::Pool, {squares}, Attrs::of(std::move(a))), x.shape());
  // alpha / size times the sum is alpha times the average.
  const Value base = avg * literal(avg, alpha) + literal(avg, bias);
  return c.out(0, x / apply(ScalarOp::Pow, base, literal(base, beta))), Ok{};
}

Value hardmax(Value x, int64_t axis) {
  const Value best = x.builder->emit(OpKind::ArgReduce, {x},
                                     Attrs::of(ArgReduceAttrs{ArgKind::Max, axis, true, false}));
  Shape line(x.shape().size(), Dim(1));
  if (axis < x.rank()) line[static_cast<std::size_t>(axis)] = extent(x, axis);
  const Value at = iota(*x.builder, DType::I64, line, axis);
  return convert(apply(ScalarOp::Eq, at, best), x.dtype());
}

Status softmaxLike(Call& c) {
  const Value x = c.in(0);
  RLX_OK(requireFloat(c, x));
  const bool flat = c.opset < 13;  // over the product of the axes from `axis` on
  RLX_TRY(const int64_t axis, c.axis("axis", flat ? 1 : -1, x.rank()));
  auto along = [&](Value v, int64_t a) {
    if (c.node.op == "Hardmax") return hardmax(v, a);
    return c.b.emit(c.node.op == "Softmax" ? OpKind::Softmax : OpKind::LogSoftmax, {v},
                    Attrs::of(SoftmaxAttrs{a}));
  };
  if (!flat || axis == x.rank() - 1) return c.out(0, along(x, axis)), Ok{};
  const auto cut = static_cast<std::size_t>(axis);
  const Value rows = reshape(
      x, {elements(part(x.shape(), 0, cut)), elements(part(x.shape(), cut, x.shape().size()))});
  return c.out(0, reshape(along(rows, 1), x.shape())), Ok{};
}

constexpr OpRow kOps[] = {
    {"BatchNormalization", batchNorm, 5, 5, 5},
    {"InstanceNormalization", instanceNorm, 3, 3},
    {"GroupNormalization", groupNorm, 3, 3},
    {"LayerNormalization", layerNorm, 2, 3, 3},
    {"RMSNormalization", rmsNorm, 2, 2},
    {"MeanVarianceNormalization", meanVariance},
    {"LpNormalization", lpNorm},
    {"LRN", localResponse},
    {"Softmax", softmaxLike},
    {"LogSoftmax", softmaxLike},
    {"Hardmax", softmaxLike},
};

}  // namespace

std::span<const OpRow> normalizationOps() {
  return kOps;
}

}  // namespace rlx::onnx
