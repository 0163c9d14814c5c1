// ONNX ops over sliding windows: convolutions and pools.
#include <algorithm>
#include <limits>

#include "import/onnx_import.h"

namespace rlx::onnx {
namespace {

constexpr int64_t kMaxWindow = int64_t{1} << 30;

int64_t productOf(const std::vector<int64_t>& v) {
  int64_t n = 1;
  for (const int64_t x : v)
    if (__builtin_mul_overflow(n, x, &n)) return kMaxWindow;
  return n;
}

Result<std::vector<int64_t>> kernelOf(Call& c, const Value& w, std::size_t spatial) {
  if (static_cast<std::size_t>(w.rank()) != spatial + 2)
    return c.bad("a weight of shape " + text(w.shape()) + " for " + std::to_string(spatial) +
                 " spatial axes");
  std::vector<int64_t> kernel = c.ints("kernel_shape");
  std::vector<int64_t> have;
  for (std::size_t k = 0; k < spatial; ++k) {
    const Dim d = extent(w, static_cast<int64_t>(k) + 2);
    if (!d.isConst()) return c.unsupported("a kernel of symbolic extent " + d.text());
    have.push_back(d.value());
  }
  if (!kernel.empty() && kernel != have)
    return c.bad("kernel_shape " + toText(kernel) + ", the weight has " + toText(have));
  return have;
}

Status checkRank(Call& c, const Value& x) {
  if (x.rank() < 3) return c.bad("input of shape " + text(x.shape()) + ", expected [n, c, ...]");
  if (x.rank() > 5)
    return c.unsupported("more than 3 spatial axes: input of shape " + text(x.shape()));
  return Ok{};
}

Status conv(Call& c) {
  const Value x = c.in(0), w = c.in(1);
  RLX_OK(checkRank(c, x));
  RLX_TRY(const auto kernel, kernelOf(c, w, static_cast<std::size_t>(x.rank()) - 2));
  RLX_TRY(const Window window, readWindow(c, x.shape(), kernel));
  return c.out(0, convolve(c, x, w, c.in(2), window, c.attr("group", int64_t{1}))), Ok{};
}

// x with stride - 1 zeros between the elements of each spatial axis.
Value spread(Value x, const std::vector<int64_t>& strides) {
  for (std::size_t k = 0; k < strides.size(); ++k) {
    if (strides[k] == 1 || x.builder->failed()) continue;
    const auto axis = static_cast<int64_t>(k) + 2;
    const Dim n = extent(x, axis);
    Shape apart = x.shape();
    apart.insert(apart.begin() + std::min(axis + 1, x.rank()), Dim(1));
    Shape low(apart.size(), Dim(0)), high = low;
    high[std::min(apart.size() - 1, k + 3)] = Dim(strides[k] - 1);
    const Value padded = x.builder->emit(OpKind::Pad, {reshape(x, apart)},
                                         Attrs::of(PadAttrs{low, high, PadMode::Constant}));
    Shape joined = x.shape();
    joined[std::min(joined.size() - 1, k + 2)] = n * Dim(strides[k]);
    x = sliceAxis(reshape(padded, joined), axis, Dim(0), (n - Dim(1)) * Dim(strides[k]) + Dim(1));
  }
  return x;
}

Status convTranspose(Call& c) {
  const Value x = c.in(0), w = c.in(1);
  RLX_OK(checkRank(c, x));
  const auto spatial = static_cast<std::size_t>(x.rank()) - 2;
  RLX_TRY(const auto kernel, kernelOf(c, w, spatial));
  auto sized = [&](const char* name, int64_t otherwise) -> Result<std::vector<int64_t>> {
    std::vector<int64_t> v = c.ints(name);
    if (v.empty()) v.assign(spatial, otherwise);
    if (v.size() != spatial) return c.bad(std::string(name) + " " + toText(v));
    for (const int64_t e : v)
      if (e < otherwise || e > kMaxWindow) return c.bad(std::string(name) + " " + toText(v));
    return v;
  };
  RLX_TRY(const auto strides, sized("strides", 1));
  RLX_TRY(const auto dilations, sized("dilations", 1));
  RLX_TRY(const auto extra, sized("output_padding", 0));
  std::vector<int64_t> pads = c.ints("pads");
  if (pads.empty()) pads.assign(2 * spatial, 0);
  if (pads.size() != 2 * spatial) return c.bad("pads " + toText(pads));
  const std::string automatic = c.attr("auto_pad", std::string_view("NOTSET"));
  const std::vector<int64_t> wanted = c.ints("output_shape");
  const int64_t groups = c.attr("group", int64_t{1});
  if (groups < 1 || groups > kMaxWindow) return c.bad("group " + std::to_string(groups));
  Window window{kernel, std::vector<int64_t>(spatial, 1), dilations, {}, {}};
  for (std::size_t k = 0; k < spatial; ++k) {
    const int64_t reach = dilations[k] * (kernel[k] - 1);
    int64_t begin = pads[k], end = pads[k + spatial];
    const Dim n = extent(x, static_cast<int64_t>(k) + 2);
    const bool same = automatic.starts_with("SAME");
    if (automatic == "VALID") begin = end = 0;
    if (same || !wanted.empty()) {
      if (!n.isConst())
        return c.unsupported("a given output size for the symbolic extent " + n.text());
      const std::size_t at = wanted.size() == spatial ? k : k + 2;
      if (!wanted.empty() && at >= wanted.size()) return c.bad("output_shape " + toText(wanted));
      if (n.value() > kMaxWindow) return c.bad("input of shape " + text(x.shape()));
      const int64_t target = wanted.empty() ? n.value() * strides[k] : wanted[at];
      const int64_t total = strides[k] * (n.value() - 1) + extra[k] + reach + 1 - target;
      const int64_t half = total / 2;
      begin = automatic == "SAME_UPPER" ? half : total - half;
      if (total < 0) begin = 0;  // more than the input reaches: zeros at the end
      end = total - begin;
    }
    window.low.push_back(reach - begin);
    window.high.push_back(reach - end + extra[k]);
    if (std::abs(window.low[k]) > kMaxWindow || std::abs(window.high[k]) > kMaxWindow)
      return c.bad("pads " + toText(pads));
  }
  // [c, m / g, k...] becomes [m, c / g, k...], flipped.
  const Dim cin = extent(w, 0), m = extent(w, 1);
  if (!cin.isConst() || cin.value() % groups != 0)
    return c.bad(cin.text() + " channels in " + std::to_string(groups) + " groups");
  const Dim perGroup(cin.value() / groups);
  Shape flat = part(w.shape(), 2, w.shape().size()), start(w.shape().size(), Dim(0));
  std::vector<int64_t> step(w.shape().size(), 1);
  for (std::size_t k = 0; k < spatial; ++k) start[k + 2] = Dim(kernel[k] - 1), step[k + 2] = -1;
  Value f = slice(w, start, w.shape(), step);
  Shape split{Dim(groups), perGroup, m}, merged{m * Dim(groups), perGroup};
  split.insert(split.end(), flat.begin(), flat.end());
  merged.insert(merged.end(), flat.begin(), flat.end());
  std::vector<int64_t> perm = range(0, static_cast<int64_t>(split.size()));
  std::swap(perm[1], perm[2]);
  f = reshape(transpose(reshape(f, split), perm), merged);
  return c.out(0, convolve(c, spread(x, strides), f, c.in(2), window, groups)), Ok{};
}

Status pool(Call& c, PoolKind kind) {
  const Value x = c.in(0);
  RLX_OK(checkRank(c, x));
  const std::vector<int64_t> kernel = c.ints("kernel_shape");
  RLX_TRY(const Window w, readWindow(c, x.shape(), kernel));
  if (c.wants(1)) return c.unsupported("the Indices output");
  PoolAttrs a;
  a.kind = kind;
  a.window = w.kernel, a.strides = w.strides, a.dilations = w.dilations;
  a.padLow = w.low, a.padHigh = w.high;
  a.countPadding = c.attr("count_include_pad", int64_t{0}) != 0;
  a.ceilMode = c.attr("ceil_mode", int64_t{0}) != 0;
  return c.out(0, c.b.emit(OpKind::Pool, {x}, Attrs::of(std::move(a)))), Ok{};
}
Status maxPool(Call& c) {
  return pool(c, PoolKind::Max);
}
Status averagePool(Call& c) {
  return pool(c, PoolKind::Average);
}

// (sum of |x|^p over the window)^(1/p), the sum as an average times the count.
Status lpPool(Call& c) {
  const Value x = c.in(0);
  RLX_OK(checkRank(c, x));
  if (c.attr("ceil_mode", int64_t{0}) != 0) return c.unsupported("ceil_mode");
  const std::vector<int64_t> kernel = c.ints("kernel_shape");
  RLX_TRY(const Window w, readWindow(c, x.shape(), kernel));
  const double p = c.attr("p", 2.0);
  PoolAttrs a;
  a.kind = PoolKind::Average;
  a.window = w.kernel, a.strides = w.strides, a.dilations = w.dilations;
  a.padLow = w.low, a.padHigh = w.high, a.countPadding = true;
  const Value powered = apply(ScalarOp::Pow, apply(ScalarOp::Abs, x), literal(x, p));
  const Value avg = c.b.emit(OpKind::Pool, {powered}, Attrs::of(std::move(a)));
  const Value sum = avg * literal(avg, static_cast<double>(productOf(w.kernel)));
  return c.out(0, apply(ScalarOp::Pow, sum, literal(sum, 1 / p))), Ok{};
}

Status globalPool(Call& c) {
  const Value x = c.in(0);
  const std::vector<int64_t> axes = range(2, x.rank());
  if (c.node.op == "GlobalMaxPool")
    return c.out(0, reduce(x, ReduceKind::Max, axes, KeepDims::Yes)), Ok{};
  if (c.node.op == "GlobalAveragePool") return c.out(0, mean(x, axes, KeepDims::Yes)), Ok{};
  const double p = c.attr("p", 2.0);
  const Value sum = reduce(apply(ScalarOp::Pow, apply(ScalarOp::Abs, x), literal(x, p)),
                           ReduceKind::Sum, axes, KeepDims::Yes);
  return c.out(0, apply(ScalarOp::Pow, sum, literal(sum, 1 / p))), Ok{};
}

constexpr OpRow kOps[] = {
    {"Conv", conv, 2, 3},
    {"ConvTranspose", convTranspose, 2, 3},
    {"MaxPool", maxPool, 1, 1, 2},
    {"AveragePool", averagePool},
    {"LpPool", lpPool},
    {"GlobalAveragePool", globalPool},
    {"GlobalMaxPool", globalPool},
    {"GlobalLpPool", globalPool},
};

}  // namespace

Result<Window> readWindow(Call& c, const Shape& x, std::vector<int64_t> kernel) {
  const std::size_t spatial = x.size() < 2 ? 0 : x.size() - 2;
  if (kernel.size() != spatial)
    return c.bad("kernel_shape " + toText(kernel) + " for an input of shape " + text(x));
  Window w;
  w.kernel = std::move(kernel);
  w.strides = c.ints("strides"), w.dilations = c.ints("dilations");
  if (w.strides.empty()) w.strides.assign(spatial, 1);
  if (w.dilations.empty()) w.dilations.assign(spatial, 1);
  std::vector<int64_t> pads = c.ints("pads");
  const std::string automatic = c.attr("auto_pad", std::string_view("NOTSET"));
  if (pads.empty() || automatic == "VALID") pads.assign(2 * spatial, 0);
  if (w.strides.size() != spatial || w.dilations.size() != spatial || pads.size() != 2 * spatial)
    return c.bad("strides " + toText(w.strides) + ", dilations " + toText(w.dilations) +
                 " and pads " + toText(pads) + " for " + std::to_string(spatial) + " spatial axes");
  for (std::size_t k = 0; k < spatial; ++k) {
    for (const int64_t v : {w.kernel[k], w.strides[k], w.dilations[k]})
      if (v < 1 || v > kMaxWindow)
        return c.bad("kernel " + toText(w.kernel) + ", strides " + toText(w.strides) +
                     ", dilations " + toText(w.dilations));
    int64_t low = pads[k], high = pads[k + spatial];
    if (std::min(low, high) < -kMaxWindow || std::max(low, high) > kMaxWindow)
      return c.bad("pads " + toText(pads));
    if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      const int64_t reach = w.dilations[k] * (w.kernel[k] - 1) + 1;
      int64_t total = reach - w.strides[k];
      if (w.strides[k] != 1) {
        const Dim& n = x[k + 2];
        if (!n.isConst())
          return c.unsupported("auto_pad with a stride on the symbolic extent " + n.text());
        const int64_t out = (n.value() + w.strides[k] - 1) / w.strides[k];
        total = (out - 1) * w.strides[k] + reach - n.value();
      }
      total = std::max<int64_t>(total, 0);
      low = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      high = total - low;
    } else if (automatic != "NOTSET" && automatic != "VALID" && !automatic.empty()) {
      return c.bad("auto_pad '" + automatic + "'");
    }
    w.low.push_back(low), w.high.push_back(high);
  }
  return w;
}

Value convolve(Call& c, Value x, Value w, Value bias, const Window& window, int64_t groups) {
  // Negative padding drops elements before the window runs.
  std::vector<int64_t> low = window.low, high = window.high;
  for (std::size_t k = 0; k < low.size(); ++k) {
    const int64_t front = std::max<int64_t>(-low[k], 0), back = std::max<int64_t>(-high[k], 0);
    if (front == 0 && back == 0) continue;
    const auto axis = static_cast<int64_t>(k) + 2;
    x = sliceAxis(x, axis, Dim(front), extent(x, axis) - Dim(front + back));
    low[k] += front, high[k] += back;
  }
  std::vector<Value> in{x, w};
  if (bias) in.push_back(bias);
  return c.b.emit(OpKind::Conv, std::move(in),
                  Attrs::of(ConvAttrs{window.strides, window.dilations, std::move(low),
                                      std::move(high), groups}));
}

std::span<const OpRow> windowOps() {
  return kOps;
}

}  // namespace rlx::onnx
