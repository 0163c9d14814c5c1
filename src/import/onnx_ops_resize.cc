// ONNX Resize and Upsample. Every mode is a weighted sum of gathers along one axis after another:
// nearest has one tap, linear two, cubic four, antialiased ones as many as the filter is wide. Taps
// and weights are constants, made here in double precision.
#include <algorithm>
#include <cmath>

#include "import/onnx_import.h"

namespace rlx::onnx {
namespace {

constexpr int64_t kMaxExtent = int64_t{1} << 24;
constexpr int64_t kMaxTaps = 4096;

struct Options {
  std::string mode, coordinates, nearest;
  double cubic = -0.75, extrapolation = 0;
  bool excludeOutside = false, antialias = false;
};
struct Axis {
  int64_t axis = 0, from = 0, to = 0;
  double scale = 1, roiStart = 0, roiEnd = 1;
};
// One tap of every result element: operand index and weight.
struct Taps {
  std::vector<std::vector<int64_t>> index;
  std::vector<std::vector<double>> weight;
  std::vector<bool> outside;
};

double original(const Options& o, const Axis& a, int64_t at) {
  const auto x = static_cast<double>(at);
  // The resized length before it is rounded down, as the standard's formulas have it.
  const auto n = static_cast<double>(a.from);
  const double m = a.scale * n;
  if (o.coordinates == "asymmetric") return x / a.scale;
  if (o.coordinates == "align_corners") return m == 1 ? 0 : x * (n - 1) / (m - 1);
  if (o.coordinates == "pytorch_half_pixel") return a.to == 1 ? 0 : (x + 0.5) / a.scale - 0.5;
  if (o.coordinates == "tf_half_pixel_for_nn") return (x + 0.5) / a.scale;
  if (o.coordinates == "half_pixel_symmetric") {
    const double adjust = static_cast<double>(a.to) / m, centre = n / 2;
    return centre * (1 - adjust) + (x + 0.5) / a.scale - 0.5;
  }
  if (o.coordinates == "tf_crop_and_resize") {
    if (m == 1) return 0.5 * (a.roiStart + a.roiEnd) * (n - 1);
    return a.roiStart * (n - 1) + x * (a.roiEnd - a.roiStart) * (n - 1) / (m - 1);
  }
  return (x + 0.5) / a.scale - 0.5;
}

int64_t nearestOf(const Options& o, double x) {
  if (o.nearest == "floor") return static_cast<int64_t>(std::floor(x));
  if (o.nearest == "ceil") return static_cast<int64_t>(std::ceil(x));
  const double down = std::floor(x);
  if (x - down == 0.5)
    return static_cast<int64_t>(o.nearest == "round_prefer_ceil" ? down + 1 : down);
  return static_cast<int64_t>(std::nearbyint(x));
}

double filter(const Options& o, double d) {
  d = std::fabs(d);
  if (o.mode == "linear") return std::max(0.0, 1 - d);
  const double a = o.cubic;
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  if (d < 2) return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return 0;
}

Taps makeTaps(const Options& o, const Axis& a) {
  Taps t;
  const double support = o.mode == "linear" ? 1 : 2;
  const double stretch = o.antialias && a.scale < 1 ? 1 / a.scale : 1;
  const auto reach = static_cast<int64_t>(std::ceil(support * stretch));
  const int64_t taps = o.mode == "nearest" ? 1 : 2 * reach;
  t.index.resize(static_cast<std::size_t>(taps));
  t.weight.resize(static_cast<std::size_t>(taps));
  for (int64_t at = 0; at < a.to; ++at) {
    const double x = original(o, a, at);
    t.outside.push_back(o.coordinates == "tf_crop_and_resize" &&
                        (x < 0 || x > static_cast<double>(a.from - 1)));
    if (o.mode == "nearest") {
      t.index[0].push_back(std::clamp<int64_t>(nearestOf(o, x), 0, a.from - 1));
      t.weight[0].push_back(1);
      continue;
    }
    const auto first = static_cast<int64_t>(std::floor(x)) - reach + 1;
    double sum = 0;
    for (int64_t k = 0; k < taps; ++k) {
      const int64_t i = first + k;
      double w = filter(o, (x - static_cast<double>(i)) / stretch);
      if (o.excludeOutside && (i < 0 || i >= a.from)) w = 0;
      sum += w;
      t.index[static_cast<std::size_t>(k)].push_back(std::clamp<int64_t>(i, 0, a.from - 1));
      t.weight[static_cast<std::size_t>(k)].push_back(w);
    }
    if (o.excludeOutside || stretch != 1)
      for (auto& w : t.weight) w.back() = sum != 0 ? w.back() / sum : 0;
  }
  return t;
}

// In float for integers; `resizeWith` brings them back.
Value resizeAxis(Value x, const Axis& a, const Taps& t) {
  Builder& b = *x.builder;
  if (b.failed()) return x;
  const DType wide = isFloat(x.dtype()) ? computeType(x.dtype()) : DType::F32;
  std::vector<int64_t> line(x.shape().size(), 1);
  line[static_cast<std::size_t>(a.axis)] = a.to;
  Value y;
  for (std::size_t k = 0; k < t.index.size(); ++k) {
    const bool none =
        std::all_of(t.weight[k].begin(), t.weight[k].end(), [](double w) { return w == 0; });
    if (none && t.index.size() > 1 && (y || k + 1 < t.index.size())) continue;
    Value part = gather(x, constantInts(b, {a.to}, t.index[k]), a.axis);
    if (t.index.size() == 1) return part;
    part = convert(part, wide) * constantFloats(b, wide, line, t.weight[k]);
    y = y ? y + part : part;
  }
  return isFloat(x.dtype()) ? convert(y, x.dtype()) : y;
}

// An integer factor in nearest mode repeats elements, whatever the extent.
Value repeat(Value x, int64_t axis, int64_t factor) {
  if (x.builder->failed()) return x;
  Shape apart = x.shape(), joined = x.shape();
  const auto at = static_cast<std::size_t>(axis);
  apart.insert(apart.begin() + static_cast<std::ptrdiff_t>(at) + 1, Dim(1));
  Shape wide = apart;
  wide[at + 1] = Dim(factor);
  joined[at] = joined[at] * Dim(factor);
  return reshape(broadcastTo(reshape(x, apart), wide), joined);
}

bool repeats(const Options& o, double scale) {
  if (o.mode != "nearest" || scale != std::floor(scale) || scale < 1 || scale > 4096) return false;
  if (o.coordinates == "asymmetric") return o.nearest == "floor";
  return o.coordinates == "half_pixel" || o.coordinates == "pytorch_half_pixel"
             ? o.nearest.starts_with("round")
             : false;
}

// The sizes an aspect policy makes of the wanted ones.
void keepAspect(const std::string& policy, std::vector<Axis>& axes) {
  if (policy == "stretch" || axes.empty()) return;
  double scale = axes[0].scale;
  for (const Axis& a : axes)
    scale = policy == "not_larger" ? std::min(scale, a.scale) : std::max(scale, a.scale);
  for (Axis& a : axes) {
    a.scale = scale;
    a.to = static_cast<int64_t>(std::floor(scale * static_cast<double>(a.from) + 0.5));
  }
}

Status resizeWith(Call& c, const Options& o, std::size_t roiInput, std::size_t scaleInput,
                  std::size_t sizeInput, std::vector<double> scales) {
  Value x = c.in(0);
  std::vector<int64_t> axes = range(0, x.rank());
  if (c.hasAttr("axes")) axes.clear();
  for (const int64_t a : c.ints("axes")) {
    RLX_TRY(const int64_t axis, normalizeAxis(c.node.op, a, x.shape().size()));
    axes.push_back(axis);
  }
  std::vector<Dim> sizes;
  if (c.has(scaleInput)) {
    RLX_TRY(scales, c.numbers(scaleInput));
  }
  if (scales.empty() && c.has(sizeInput)) {
    RLX_TRY(sizes, c.dims(sizeInput));
  }
  const std::size_t given = scales.empty() ? sizes.size() : scales.size();
  if (given != axes.size())
    return c.bad(std::to_string(given) + " scales or sizes for " + std::to_string(axes.size()) +
                 " axes");
  std::vector<double> roi;
  if (o.coordinates == "tf_crop_and_resize") {
    if (!c.has(roiInput)) return c.bad("tf_crop_and_resize needs a roi");
    RLX_TRY(roi, c.numbers(roiInput));
    if (roi.size() != 2 * axes.size()) return c.bad("roi of " + std::to_string(roi.size()));
  }
  const std::string policy = c.attr("keep_aspect_ratio_policy", std::string_view("stretch"));
  std::vector<Axis> work;
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const Dim n = extent(x, axes[k]);
    if (!scales.empty() && !(scales[k] > 0 && scales[k] < 1e9))
      return c.bad("scale " + std::to_string(scales[k]));
    Dim factor;
    if (scales.empty() && policy == "stretch" && divideExactly(sizes[k], n, &factor) &&
        factor.isConst() && repeats(o, static_cast<double>(factor.value()))) {
      if (!factor.is(1)) x = repeat(x, axes[k], factor.value());
      continue;
    }
    if (!scales.empty() && (scales[k] == 1 || repeats(o, scales[k])) && roi.empty()) {
      if (scales[k] != 1) x = repeat(x, axes[k], static_cast<int64_t>(scales[k]));
      continue;
    }
    if (!n.isConst() || (scales.empty() && !sizes[k].isConst()))
      return c.unsupported("mode " + o.mode + " over the symbolic extent " + n.text());
    Axis a;
    a.axis = axes[k], a.from = n.value();
    if (!roi.empty()) a.roiStart = roi[k], a.roiEnd = roi[k + axes.size()];
    if (scales.empty()) {
      a.to = sizes[k].value();
      a.scale = static_cast<double>(a.to) / static_cast<double>(a.from);
    } else {
      a.scale = scales[k];
      const double width = roi.empty() ? 1 : a.roiEnd - a.roiStart;
      const double to = std::floor(static_cast<double>(a.from) * width * a.scale);
      a.to = to >= 0 && to <= static_cast<double>(kMaxExtent) ? static_cast<int64_t>(to) : -1;
    }
    if (a.from < 1 || a.to < 1 || a.from > kMaxExtent || a.to > kMaxExtent ||
        1 / a.scale > static_cast<double>(kMaxTaps) / 4)
      return c.bad("axis " + std::to_string(axes[k]) + " from " + n.text() + " by " +
                   std::to_string(a.scale));
    work.push_back(a);
  }
  if (scales.empty()) keepAspect(policy, work);
  const DType type = x.dtype();
  std::vector<std::pair<Axis, std::vector<bool>>> masks;
  std::reverse(work.begin(), work.end());  // innermost first, which rounding makes visible
  for (const Axis& a : work) {
    if (a.from == a.to && a.scale == 1 && roi.empty()) continue;
    if (a.to < 1 || a.to > kMaxExtent) return c.bad("result extent " + std::to_string(a.to));
    const Taps t = makeTaps(o, a);
    x = resizeAxis(x, a, t);
    // Antialiased integers are rounded half up after every axis, others cut off at the end.
    if (o.antialias && !isFloat(type))
      x = convert(apply(ScalarOp::Floor, x + literal(x, 0.5)), type);
    if (std::find(t.outside.begin(), t.outside.end(), true) != t.outside.end())
      masks.emplace_back(a, t.outside);
  }
  x = convert(x, type);
  for (const auto& [a, outside] : masks) {
    if (c.b.failed()) break;
    std::vector<int64_t> line(x.shape().size(), 1);
    line[static_cast<std::size_t>(a.axis)] = a.to;
    std::vector<uint8_t> bits;
    for (const bool v : outside) bits.push_back(v);
    const Value mask = c.b.constant(Literal::of(DType::Bool, line, bits));
    x = choose(mask, literal(x, o.extrapolation), x);
  }
  return c.out(0, x), Ok{};
}

Status resize(Call& c) {
  Options o;
  o.mode = c.attr("mode", std::string_view("nearest"));
  o.coordinates = c.attr("coordinate_transformation_mode", std::string_view("half_pixel"));
  o.nearest = c.attr("nearest_mode", std::string_view("round_prefer_floor"));
  if (c.opset < 11) o.coordinates = "asymmetric", o.nearest = "floor";
  o.cubic = c.attr("cubic_coeff_a", -0.75);
  o.extrapolation = c.attr("extrapolation_value", 0.0);
  o.excludeOutside = c.attr("exclude_outside", int64_t{0}) != 0;
  o.antialias = c.attr("antialias", int64_t{0}) != 0;
  if (o.mode != "nearest" && o.mode != "linear" && o.mode != "cubic")
    return c.bad("mode '" + o.mode + "'");
  return c.opset < 11 ? resizeWith(c, o, 9, 1, 9, {}) : resizeWith(c, o, 1, 2, 3, {});
}

Status upsample(Call& c) {
  Options o;
  o.mode = c.attr("mode", std::string_view("nearest"));
  o.coordinates = "asymmetric", o.nearest = "floor";
  if (o.mode != "nearest" && o.mode != "linear") return c.bad("mode '" + o.mode + "'");
  std::vector<double> scales = c.floats("scales");
  if (c.opset < 7) scales = {1, 1, c.attr("height_scale", 1.0), c.attr("width_scale", 1.0)};
  return resizeWith(c, o, 9, 1, 9, std::move(scales));
}

constexpr OpRow kOps[] = {{"Resize", resize, 1, 4}, {"Upsample", upsample, 1, 2}};

}  // namespace

std::span<const OpRow> resizeOps() {
  return kOps;
}

}  // namespace rlx::onnx
