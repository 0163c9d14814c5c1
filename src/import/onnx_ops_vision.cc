// ONNX ops on images beyond windows and resizing: sampling at computed places, cropping, unpooling.
#include <algorithm>
#include <cmath>

#include "import/onnx_import.h"

namespace rlx::onnx {
namespace {

using G = GraphExpr;

// ---- GridSample
// ------------------------------------------------------------------------------------

enum class Padding : uint8_t { Zeros, Border, Reflection };

// One axis of the image that is sampled.
struct Sampled {
  Value extent;           // as a float
  Value lowest, highest;  // where a reflection turns
};

// Folds x into [lo, hi] as between two mirrors.
Value mirror(const Value& x, const Sampled& a) {
  const Value range = apply(ScalarOp::Max, a.highest - a.lowest, literal(x, 1e-6));
  const Value two = range + range;
  const Value t = apply(ScalarOp::Mod, x - a.lowest, two);
  return a.lowest + choose(apply(ScalarOp::Le, t, range), t, two - t);
}

Value inside(const Value& x, const Sampled& a) {
  const Value zero = literal(x, 0);
  return apply(ScalarOp::Min, apply(ScalarOp::Max, x, zero), a.extent - literal(x, 1));
}

double cubicTerm(int power, int tap) {
  // Keys' kernel with a = -0.75 as polynomials of the fraction, one row a tap.
  constexpr double a = -0.75;
  constexpr double k[4][4] = {
      {0, a, -2 * a, a}, {1, 0, -(a + 3), a + 2}, {0, -a, 2 * a + 3, -(a + 2)}, {0, 0, a, -a}};
  return k[tap][power];
}

// Places and weights of the taps along one axis.
std::vector<std::pair<Value, Value>> tapsOf(const std::string& mode, Padding padding, Value x,
                                            const Sampled& a) {
  if (mode != "cubic") {
    if (mode == "nearest") x = apply(ScalarOp::Round, x);
    if (padding == Padding::Border) x = inside(x, a);
    if (padding == Padding::Reflection) x = mirror(x, a);
  }
  if (mode == "nearest") return {{apply(ScalarOp::Round, x), {}}};
  const Value base = apply(ScalarOp::Floor, x), f = x - base;
  if (mode == "linear") return {{base, literal(x, 1) - f}, {base + literal(x, 1), f}};
  std::vector<std::pair<Value, Value>> out;
  for (int tap = 0; tap < 4; ++tap) {
    G w(0.0);
    for (int power = 3; power >= 0; --power) w = w * G(f) + G(cubicTerm(power, tap));
    out.emplace_back(base + literal(x, tap - 1), w.v);
  }
  return out;
}

Status gridSample(Call& c) {
  const Value x = c.in(0), grid = c.in(1);
  const int64_t n = x.rank() - 2;
  if (n < 1 || n > 3 || grid.rank() != x.rank())
    return c.unsupported("input of shape " + text(x.shape()) + " and grid of shape " +
                         text(grid.shape()));
  std::string mode = c.attr("mode", std::string_view("linear"));
  if (mode.starts_with("bi")) mode.erase(0, 2);  // opset 16 knew two axes only
  if (mode != "linear" && mode != "nearest" && mode != "cubic") return c.bad("mode '" + mode + "'");
  const std::string pads = c.attr("padding_mode", std::string_view("zeros"));
  if (pads != "zeros" && pads != "border" && pads != "reflection")
    return c.bad("padding_mode '" + pads + "'");
  const Padding padding = pads == "zeros"    ? Padding::Zeros
                          : pads == "border" ? Padding::Border
                                             : Padding::Reflection;
  const bool corners = c.attr("align_corners", int64_t{0}) != 0;
  const DType wide = grid.dtype();
  const Dim batch = extent(x, 0), channels = extent(x, 1);
  const Shape places = part(grid.shape(), 1, static_cast<std::size_t>(n) + 1);
  const Dim count = elements(places);
  std::vector<Sampled> axes;
  std::vector<std::vector<std::pair<Value, Value>>> taps;
  for (int64_t k = 0; k < n; ++k) {
    Sampled a;
    a.extent = dimValue(c.b, wide, extent(x, k + 2));
    const Value one = c.b.scalar(wide, 1), half = c.b.scalar(wide, 0.5);
    a.lowest = corners ? c.b.scalar(wide, 0) : c.b.scalar(wide, -0.5);
    a.highest = corners ? a.extent - one : a.extent - half;
    // The last axis of the grid counts from the innermost axis of the image.
    Value g = reshape(sliceAxis(grid, n + 1, Dim(n - 1 - k), Dim(1)), {batch, count});
    g = corners ? (g + one) * half * (a.extent - one) : ((g + one) * a.extent - one) * half;
    taps.push_back(tapsOf(mode, padding, g, a));
    axes.push_back(a);
  }
  const Value flat = reshape(x, {batch, channels, elements(part(x.shape(), 2, x.shape().size()))});
  Value sum;
  const auto each = static_cast<int64_t>(taps[0].size());
  const int64_t total = n == 1 ? each : n == 2 ? each * each : each * each * each;
  for (int64_t t = 0; t < total; ++t) {
    Value at, weight, valid;
    int64_t rest = t;
    for (std::size_t k = 0; k < axes.size(); ++k, rest /= each) {
      const auto& [place, w] = taps[k][static_cast<std::size_t>(rest % each)];
      if (w) weight = weight ? weight * w : w;
      Value i = place;
      if (padding == Padding::Zeros) {
        const Value in = apply(ScalarOp::And, apply(ScalarOp::Ge, i, literal(i, 0)),
                               apply(ScalarOp::Lt, i, axes[k].extent));
        valid = valid ? apply(ScalarOp::And, valid, in) : in;
      } else if (padding == Padding::Reflection) {
        i = apply(ScalarOp::Round, mirror(i, axes[k]));
      }
      i = convert(inside(i, axes[k]), DType::I64);
      at = at ? at * dimValue(c.b, DType::I64, extent(x, static_cast<int64_t>(k) + 2)) + i : i;
    }
    auto row = [&](Value v) { return reshape(v, {batch, Dim(1), count}); };
    Value v = gatherElements(flat, broadcastTo(row(at), {batch, channels, count}), 2);
    if (valid) v = choose(row(valid), v, literal(v, 0));
    if (weight) v = v * convert(row(weight), v.dtype());
    sum = sum ? sum + v : v;
  }
  Shape out{batch, channels};
  out.insert(out.end(), places.begin(), places.end());
  return c.out(0, reshape(sum, out)), Ok{};
}

// theta [n, k, k + 1] times the homogeneous coordinates of the places of the result.
Status affineGrid(Call& c) {
  const Value theta = c.in(0);
  RLX_TRY(const auto size, c.dims(1));
  const auto axes = static_cast<int64_t>(size.size()) - 2;
  if (axes < 2 || axes > 3) return c.bad("size of " + std::to_string(size.size()) + " extents");
  const bool corners = c.attr("align_corners", int64_t{0}) != 0;
  const DType t = theta.dtype();
  Shape places(size.begin() + 2, size.end());
  const Dim count = elements(places);
  std::vector<Value> parts;
  for (int64_t k = axes - 1; k >= 0; --k) {
    const Dim n = size[static_cast<std::size_t>(k) + 2];
    const Value i = iota(c.b, t, places, k), one = c.b.scalar(t, 1), two = c.b.scalar(t, 2);
    const Value at = corners ? i * two / dimValue(c.b, t, n - Dim(1)) - one
                             : (i * two + one) / dimValue(c.b, t, n) - one;
    parts.push_back(reshape(at, {count, Dim(1)}));
  }
  parts.push_back(broadcastTo(c.b.scalar(t, 1), {count, Dim(1)}));
  const Value base = concat(parts, 1);                          // [places, k + 1]
  const Value y = dotGeneral(theta, base, {{}, {}, {2}, {1}});  // [n, k, places]
  Shape out{extent(theta, 0)};
  out.insert(out.end(), places.begin(), places.end());
  out.emplace_back(axes);
  return c.out(0, reshape(transpose(y, {0, 2, 1}), out)), Ok{};
}

Status centerCropPad(Call& c) {
  Value x = c.in(0);
  RLX_TRY(const auto target, c.dims(1));
  std::vector<int64_t> axes = c.hasAttr("axes") ? c.ints("axes") : range(0, x.rank());
  if (axes.size() != target.size())
    return c.bad(std::to_string(target.size()) + " extents for " + std::to_string(axes.size()) +
                 " axes");
  for (std::size_t k = 0; k < axes.size(); ++k) {
    RLX_TRY(const int64_t axis, normalizeAxis(c.node.op, axes[k], x.shape().size()));
    const Dim n = extent(x, axis);
    if (!n.isConst() || !target[k].isConst())
      return c.unsupported("cropping or padding between symbolic extents");
    const int64_t from = n.value(), to = target[k].value();
    if (to < 0 || to > (int64_t{1} << 40)) return c.bad("extent " + std::to_string(to));
    if (to <= from) {
      x = sliceAxis(x, axis, Dim((from - to) / 2), Dim(to));
      continue;
    }
    PadAttrs a;
    a.low.assign(x.shape().size(), Dim(0)), a.high = a.low;
    a.low[static_cast<std::size_t>(axis)] = Dim((to - from) / 2);
    a.high[static_cast<std::size_t>(axis)] = Dim(to - from - (to - from) / 2);
    x = c.b.emit(OpKind::Pad, {x}, Attrs::of(std::move(a)));
  }
  return c.out(0, x), Ok{};
}

// Values written to the flat places that the indices of a max-pool name.
Status maxUnpool(Call& c) {
  const Value x = c.in(0);
  if (x.rank() < 3 || x.rank() > 5) return c.bad("input of shape " + text(x.shape()));
  RLX_TRY(const Window w, readWindow(c, x.shape(), c.ints("kernel_shape")));
  Shape out{extent(x, 0), extent(x, 1)};
  for (std::size_t k = 0; k < w.kernel.size(); ++k)
    out.push_back((extent(x, static_cast<int64_t>(k) + 2) - Dim(1)) * Dim(w.strides[k]) +
                  Dim(w.kernel[k] - w.low[k] - w.high[k]));
  const Dim total = elements(out), count = elements(x.shape());
  const Value zeros = broadcastTo(literal(x, 0), {total});
  Value y =
      c.b.emit(OpKind::ScatterElements, {zeros, reshape(c.in(1), {count}), reshape(x, {count})},
               Attrs::of(ScatterAttrs{0, ScatterKind::None}));
  y = reshape(y, out);
  if (!c.has(2)) return c.out(0, y), Ok{};
  // The indices are those of the smallest image; a given size adds zeros behind it.
  RLX_TRY(const auto wanted, c.dims(2));
  if (wanted.size() != out.size()) return c.bad("output_shape " + text(wanted));
  PadAttrs a;
  a.low.assign(out.size(), Dim(0));
  for (std::size_t k = 0; k < out.size(); ++k) a.high.push_back(wanted[k] - out[k]);
  return c.out(0, c.b.emit(OpKind::Pad, {y}, Attrs::of(std::move(a)))), Ok{};
}

constexpr OpRow kOps[] = {
    {"GridSample", gridSample, 2, 2},
    {"AffineGrid", affineGrid, 2, 2},
    {"CenterCropPad", centerCropPad, 2, 2},
    {"MaxUnpool", maxUnpool, 2, 3},
};

}  // namespace

std::span<const OpRow> visionOps() {
  return kOps;
}

}  // namespace rlx::onnx
