// ONNX reductions, arg-reductions, scans, top-k.
#include <algorithm>
#include <limits>

#include "import/onnx_import.h"

namespace rlx::onnx {
namespace {

// What comes before and after the reduction.
struct Reduction {
  std::string_view name;
  ReduceKind kind;
  Value (*before)(Value) = nullptr;
  Value (*after)(Value) = nullptr;
};
Value absolute(Value x) {
  return apply(ScalarOp::Abs, x);
}
Value square(Value x) {
  return x * x;
}
Value logarithm(Value x) {
  return apply(ScalarOp::Log, x);
}
Value root(Value x) {
  return apply(ScalarOp::Sqrt, x);
}

constexpr Reduction kReductions[] = {
    {"ReduceSum", ReduceKind::Sum},
    {"ReduceMean", ReduceKind::Sum},
    {"ReduceProd", ReduceKind::Prod},
    {"ReduceMax", ReduceKind::Max},
    {"ReduceMin", ReduceKind::Min},
    {"ReduceL1", ReduceKind::Sum, absolute},
    {"ReduceL2", ReduceKind::Sum, square, root},
    {"ReduceSumSquare", ReduceKind::Sum, square},
    {"ReduceLogSum", ReduceKind::Sum, nullptr, logarithm},
    {"ReduceLogSumExp", ReduceKind::Sum},
};

// log(sum(exp(x - max))) + max, where a row of -inf has maximum 0.
Value logSumExp(Value x, const std::vector<int64_t>& axes, KeepDims keep) {
  const Value top = reduce(x, ReduceKind::Max, axes, KeepDims::Yes);
  const Value m = choose(apply(ScalarOp::IsInf, top), literal(top, 0), top);
  const Value sum = reduce(apply(ScalarOp::Exp, x - m), ReduceKind::Sum, axes, KeepDims::Yes);
  Value y = logarithm(sum) + m;
  if (keep == KeepDims::No) {
    Shape s;
    for (int64_t k = 0; k < x.rank(); ++k)
      if (!std::binary_search(axes.begin(), axes.end(), k)) s.push_back(extent(x, k));
    y = reshape(y, std::move(s));
  }
  return y;
}

Status reduceOp(Call& c) {
  Value x = c.in(0);
  RLX_TRY(auto given, c.axes(1, "axes", x.rank()));
  const KeepDims keep = c.attr("keepdims", int64_t{1}) != 0 ? KeepDims::Yes : KeepDims::No;
  const bool none = !given || given->empty();
  const std::vector<int64_t> axes = !none ? *given
                                    : c.attr("noop_with_empty_axes", int64_t{0}) != 0
                                        ? std::vector<int64_t>{}
                                        : range(0, x.rank());
  const Reduction* r = kReductions;
  while (r->name != c.node.op) ++r;
  if (r->name == "ReduceLogSumExp")
    return c.out(0, axes.empty() ? x : logSumExp(x, axes, keep)), Ok{};
  if (r->before) x = r->before(x);
  if (r->name == "ReduceMean") {
    x = mean(x, axes, keep);
  } else if (!axes.empty()) {
    ReduceKind kind = r->kind;
    if (x.dtype() == DType::Bool)
      kind = kind == ReduceKind::Max ? ReduceKind::Any : ReduceKind::All;
    x = reduce(x, kind, axes, keep);
  }
  return c.out(0, r->after ? r->after(x) : x), Ok{};
}

Status argReduce(Call& c) {
  const Value x = c.in(0);
  RLX_TRY(const int64_t axis, c.axis("axis", 0, x.rank()));
  const ArgReduceAttrs a{c.node.op == "ArgMax" ? ArgKind::Max : ArgKind::Min, axis,
                         c.attr("keepdims", int64_t{1}) != 0,
                         c.attr("select_last_index", int64_t{0}) != 0};
  return c.out(0, c.b.emit(OpKind::ArgReduce, {x}, Attrs::of(a))), Ok{};
}

Status topK(Call& c) {
  const Value x = c.in(0);
  RLX_TRY(const int64_t axis, c.axis("axis", -1, x.rank()));
  Dim k(c.attr("k", int64_t{0}));
  if (c.opset >= 10) {
    if (!c.has(1)) return c.bad("k is missing");
    RLX_TRY(const auto given, c.dims(1));
    if (given.size() != 1) return c.bad("k must be one number");
    k = given[0];
  }
  const TopKAttrs a{axis, k, c.attr("largest", int64_t{1}) != 0};
  const auto r = c.b.emitAll(OpKind::TopK, {x}, Attrs::of(a));
  for (std::size_t n = 0; n < r.size(); ++n) c.out(n, r[n]);
  return Ok{};
}

Status cumulative(Call& c) {
  const Value x = c.in(0);
  RLX_TRY(const int64_t given, c.integer(1));
  RLX_TRY(const int64_t axis, normalizeAxis(c.node.op, given, x.shape().size()));
  const ScanAttrs a{c.node.op == "CumSum" ? ReduceKind::Sum : ReduceKind::Prod, axis,
                    c.attr("exclusive", int64_t{0}) != 0, c.attr("reverse", int64_t{0}) != 0};
  return c.out(0, c.b.emit(OpKind::Scan, {x}, Attrs::of(a))), Ok{};
}

constexpr OpRow kOps[] = {
    {"ReduceSum", reduceOp, 1, 2},
    {"ReduceMean", reduceOp, 1, 2},
    {"ReduceProd", reduceOp, 1, 2},
    {"ReduceMax", reduceOp, 1, 2},
    {"ReduceMin", reduceOp, 1, 2},
    {"ReduceL1", reduceOp, 1, 2},
    {"ReduceL2", reduceOp, 1, 2},
    {"ReduceSumSquare", reduceOp, 1, 2},
    {"ReduceLogSum", reduceOp, 1, 2},
    {"ReduceLogSumExp", reduceOp, 1, 2},
    {"ArgMax", argReduce},
    {"ArgMin", argReduce},
    {"TopK", topK, 1, 2, 2},
    {"CumSum", cumulative, 2, 2},
    {"CumProd", cumulative, 2, 2},
};

}  // namespace

std::span<const OpRow> reductionOps() {
  return kOps;
}

}  // namespace rlx::onnx
