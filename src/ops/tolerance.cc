#include "ops/tolerance.h"

#include <algorithm>
#include <cmath>

#include "ops/attrs.h"
#include "ops/op.h"

namespace rlx {
namespace {

// Units in the last place of the arithmetic's type, expressed in the storage type: narrow floats
// compute in f32 and round once.
double relative(DType t, double ulps) {
  const double store = epsilon(t);
  if (store == 0) return 0;
  return t == DType::F64 ? ulps * store : ulps * 0x1p-23 + (store > 0x1p-23 ? store * 0.51 : 0);
}

constexpr double kHardCap = 1e-3;  // of the operand scale, in f32

}  // namespace

Tolerance tolerance(OpKind op, DType dtype, int64_t length) {
  Tolerance t;
  if (epsilon(dtype) == 0) return t;
  const auto index = static_cast<std::size_t>(op);
  double ulps = 4;
  if (index < kScalarCount) ulps = std::max(kScalars[index].ulp, 0.0);
  if (opDef(op).indexOnly) ulps = 0;
  if (opDef(op).info.composite) ulps = 16;
  const double root = std::sqrt(static_cast<double>(std::max<int64_t>(length, 1)));
  t.relative = relative(dtype, ulps);
  t.absolute = length > 1 || opDef(op).info.composite
                   ? std::min(relative(dtype, 2 * root), std::max(kHardCap, epsilon(dtype)))
                   : 0;
  return t;
}

Tolerance graphTolerance(DType dtype, int64_t depth, int64_t length) {
  Tolerance t;
  if (epsilon(dtype) == 0) return t;
  const double root = std::sqrt(static_cast<double>(std::max<int64_t>(depth, 1))) *
                      std::sqrt(static_cast<double>(std::max<int64_t>(length, 1)));
  t.relative = relative(dtype, 16);
  // Narrow floats round once more at every op on the way.
  const double rounding =
      epsilon(dtype) > 0x1p-23
          ? epsilon(dtype) * std::sqrt(static_cast<double>(std::max<int64_t>(depth, 1)))
          : 0;
  t.absolute =
      std::min(relative(dtype, 2 * root) + rounding, std::max(kHardCap, 4 * epsilon(dtype)));
  return t;
}

int64_t termsOf(const Graph& graph, const Node& n, const Bindings& bindings) {
  if (n.inputs.empty() || !n.inputs[0]) return 1;
  auto extent = [&](const Shape& s, int64_t axis) -> int64_t {
    auto v = s[static_cast<std::size_t>(axis < 0 ? axis + static_cast<int64_t>(s.size()) : axis)]
                 .evaluate(bindings);
    return v ? std::max<int64_t>(*v, 1) : 1;
  };
  const Shape& s = graph.type(n.inputs[0]).shape;
  std::vector<int64_t> axes;
  if (n.op == OpKind::DotGeneral) axes = n.attrs.as<DotAttrs>().lhsContract;
  if (n.op == OpKind::Reduce) axes = n.attrs.as<ReduceAttrs>().axes;
  if (n.op == OpKind::Scan) axes = {n.attrs.as<ScanAttrs>().axis};
  int64_t terms = 1;
  for (const int64_t a : axes) terms *= extent(s, a);
  if (n.op == OpKind::Conv) {
    const Shape& w = graph.type(n.inputs[1]).shape;
    for (std::size_t k = 1; k < w.size(); ++k) terms *= extent(w, static_cast<int64_t>(k));
  }
  return terms;
}

int64_t longestSum(const Graph& graph, const Bindings& bindings) {
  int64_t longest = 1;
  for (const Node& n : graph.nodes) longest = std::max(longest, termsOf(graph, n, bindings));
  return longest;
}

Difference compare(const RefTensor& got, const RefTensor& want, Tolerance t, double scale) {
  Difference d;
  if (got.dtype != want.dtype || got.shape != want.shape) {
    d.equal = false;
    d.worst = HUGE_VAL;
    return d;
  }
  if (got.isInt()) {
    for (int64_t k = 0; k < want.elements(); ++k) {
      if (got.integer(k) == want.integer(k)) continue;
      const double e = std::fabs(static_cast<double>(got.integer(k) - want.integer(k)));
      if (d.equal) d.at = k, d.got = got.number(k), d.want = want.number(k), d.error = e;
      d.equal = false;
      d.worst = HUGE_VAL;
      d.maxAbs = std::max(d.maxAbs, e);
    }
    return d;
  }
  double dot = 0, gg = 0, ww = 0, largest = 0;
  for (const double w : want.f)
    if (std::isfinite(w)) largest = std::max(largest, std::fabs(w));
  if (scale == 0) scale = largest;
  // Below the normal range errors are steps of the dtype, not units of the value.
  const double ulps =
      info(want.dtype).bits < 32 ? 0.51 : std::max(1.0, t.relative / epsilon(want.dtype) * 0.5);
  const double subnormal = t.relative > 0 ? smallestPositive(want.dtype) * ulps : 0;
  for (std::size_t k = 0; k < want.f.size(); ++k) {
    const double g = got.f[k], w = want.f[k];
    if ((std::isnan(g) && std::isnan(w)) || g == w) {
      if (std::isfinite(g)) dot += g * w, gg += g * g, ww += w * w;
      continue;
    }
    const double allowed = t.relative * std::fabs(w) + t.absolute * scale + subnormal;
    double error = std::fabs(g - w);
    double ratio = allowed > 0 ? error / allowed : HUGE_VAL;
    if (!std::isfinite(g) || !std::isfinite(w)) {
      // Overflow at the border of the dtype: an infinity against a value within tolerance of it.
      const double top = roundTo(want.dtype, w);
      ratio = !std::isnan(g) && !std::isnan(w) && top == g ? 0 : HUGE_VAL;
      error = HUGE_VAL;
    } else {
      dot += g * w, gg += g * g, ww += w * w;
      d.maxAbs = std::max(d.maxAbs, error);
    }
    if (ratio > 1) d.equal = false;
    if (ratio > d.worst || d.at < 0) {
      d.worst = std::max(d.worst, ratio);
      d.at = static_cast<int64_t>(k), d.got = g, d.want = w, d.error = error;
    }
  }
  d.cosine = gg > 0 && ww > 0 ? dot / std::sqrt(gg * ww) : gg == ww ? 1 : 0;
  return d;
}

}  // namespace rlx
