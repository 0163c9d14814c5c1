// ONNX ops that move or make elements without looking at them: shapes, slices, joins, constants.
#include <algorithm>
#include <cmath>
#include <limits>

#include "import/onnx_import.h"

namespace rlx::onnx {
namespace {

constexpr int64_t kMaxRepeat = int64_t{1} << 31;

Status reshapeOp(Call& c) {
  const Value x = c.in(0);
  std::vector<Dim> target;
  if (c.opset < 5) {
    const auto v = c.ints("shape");
    target.assign(v.begin(), v.end());
  } else {
    if (!c.has(1)) return c.bad("the shape is missing");
    RLX_TRY(target, c.dims(1));
  }
  const bool zeroCopies = c.attr("allowzero", int64_t{0}) == 0;
  std::optional<std::size_t> rest;
  Dim known(1);
  for (std::size_t k = 0; k < target.size(); ++k) {
    Dim& d = target[k];
    if (d.is(-1)) {
      if (rest) return c.bad("two extents of the shape are -1");
      rest = k;
      continue;
    }
    if (d.is(0) && zeroCopies) {
      if (k >= x.shape().size())
        return c.bad("extent " + std::to_string(k) + " of the shape is 0, the input has rank " +
                     std::to_string(x.rank()));
      d = x.shape()[k];
    }
    if (d.isConst() && (d.value() < 0 || d.value() > (int64_t{1} << 40)))
      return c.bad("extent " + d.text() + " in the shape");
    known = known * d;
  }
  if (rest) {
    const Dim total = elements(x.shape());
    if (known.is(0)) return c.bad("the extent -1 is undetermined beside a 0");
    Dim q;
    if (!divideExactly(total, known, &q)) {
      if (total.isConst() && known.isConst())
        return c.bad(text(x.shape()) + " does not reshape to " + text(target));
      q = floorDiv(total, known);
      if (!(q * known == total))
        return c.unsupported("reshape of " + text(x.shape()) + " to " + text(target) + ": " +
                             known.text() + " does not provably divide " + total.text());
    }
    target[*rest] = q;
  }
  return c.out(0, reshape(x, std::move(target))), Ok{};
}

Status flatten(Call& c) {
  const Value x = c.in(0);
  int64_t axis = c.attr("axis", int64_t{1});
  if (axis < -x.rank() || axis > x.rank())
    return c.bad("axis " + std::to_string(axis) + " for rank " + std::to_string(x.rank()));
  if (axis < 0) axis += x.rank();
  const auto cut = static_cast<std::size_t>(axis);
  return c.out(0, reshape(x, {elements(part(x.shape(), 0, cut)),
                              elements(part(x.shape(), cut, x.shape().size()))})),
         Ok{};
}

Status squeeze(Call& c) {
  const Value x = c.in(0);
  RLX_TRY(const auto axes, c.axes(1, "axes", x.rank()));
  Shape s;
  for (int64_t k = 0; k < x.rank(); ++k) {
    const Dim d = extent(x, k);
    const bool named = axes && std::binary_search(axes->begin(), axes->end(), k);
    if (named && !d.is(1))
      return d.isConst()
                 ? c.bad("axis " + std::to_string(k) + " has extent " + d.text() + ", not 1")
                 : c.unsupported("axis " + std::to_string(k) + " has the symbolic extent " +
                                 d.text() + ", which is not provably 1");
    if (!(named || (!axes && d.is(1)))) s.push_back(d);
  }
  return c.out(0, reshape(x, std::move(s))), Ok{};
}

Status unsqueeze(Call& c) {
  const Value x = c.in(0);
  std::vector<int64_t> given = c.ints("axes");
  if (c.has(1)) {
    RLX_TRY(given, c.integers(1));
  }
  const auto rank = static_cast<std::size_t>(x.rank()) + given.size();
  if (rank > 64) return c.bad("rank " + std::to_string(rank));
  std::vector<bool> added(rank);
  for (const int64_t a : given) {
    RLX_TRY(const int64_t axis, normalizeAxis(c.node.op, a, rank));
    if (added[static_cast<std::size_t>(axis)]) return c.bad("an axis is named twice");
    added[static_cast<std::size_t>(axis)] = true;
  }
  Shape s;
  int64_t from = 0;
  for (std::size_t k = 0; k < rank; ++k) s.push_back(added[k] ? Dim(1) : extent(x, from++));
  return c.out(0, reshape(x, std::move(s))), Ok{};
}

Status transposeOp(Call& c) {
  const Value x = c.in(0);
  std::vector<int64_t> perm = c.ints("perm");
  if (!c.hasAttr("perm")) {
    perm = range(0, x.rank());
    std::reverse(perm.begin(), perm.end());
  }
  return c.out(0, transpose(x, std::move(perm))), Ok{};
}

Status concatOp(Call& c) {
  const std::vector<Value> in = c.all();
  RLX_TRY(const int64_t axis, c.axis("axis", 1, in[0].rank()));
  return c.out(0, in.size() == 1 ? in[0] : concat(in, axis)), Ok{};
}

Status split(Call& c) {
  const Value x = c.in(0);
  RLX_TRY(const int64_t axis, c.axis("axis", 0, x.rank()));
  const Dim n = extent(x, axis);
  const auto count = static_cast<int64_t>(c.outputs());
  std::vector<Dim> sizes;
  if (c.has(1)) {
    RLX_TRY(sizes, c.dims(1));
  } else if (c.hasAttr("split")) {
    const auto v = c.ints("split");
    sizes.assign(v.begin(), v.end());
  } else {
    if (c.hasAttr("num_outputs") && c.attr("num_outputs", int64_t{0}) != count)
      return c.bad("num_outputs is not the number of outputs");
    const Dim each = ceilDiv(n, Dim(count));
    for (int64_t k = 0; k + 1 < count; ++k) sizes.push_back(each);
    sizes.push_back(n - each * Dim(count - 1));
  }
  if (static_cast<int64_t>(sizes.size()) != count)
    return c.bad(std::to_string(sizes.size()) + " sizes for " + std::to_string(count) + " outputs");
  Dim at(0);
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    if (sizes[k].isConst() && (sizes[k].value() < 0 || sizes[k].value() > (int64_t{1} << 40)))
      return c.bad("size " + sizes[k].text());
    c.out(k, sliceAxis(x, axis, at, sizes[k]));
    at = at + sizes[k];
  }
  if (!(at == n)) {
    if (at.isConst() && n.isConst())
      return c.bad("the sizes add up to " + at.text() + ", the axis has " + n.text());
    return c.unsupported("the sizes add up to " + at.text() + ", which is not provably " +
                         n.text());
  }
  return Ok{};
}

// From here on a bound means "to the end": exporters write 2^31 - 1, 2^63 - 1 and 10^9. A symbolic
// extent is taken to be smaller.
constexpr int64_t kToTheEnd = 1'000'000'000;

// Whether extents >= 0 make the dim >= 0.
bool neverNegative(const Dim& d) {
  return d.isConst() ? d.value() >= 0 : d.text().find('-') == std::string::npos;
}
Dim atLeastZero(const Dim& d) {
  return neverNegative(d) ? d : max(Dim(0), d);
}

struct Range {
  Dim start, size;
};
// Elements [from, to) by `step` of an axis of extent n, clamped as NumPy does. Clamps that cannot
// matter are left out, so that sizes stay polynomials.
Range clampedRange(const Dim& from, const Dim& to, const Dim& n, int64_t step) {
  const bool down = step < 0, fixed = n.isConst() && from.isConst() && to.isConst();
  const Dim lowest(down ? -1 : 0), highest = down ? n - Dim(1) : n;
  auto absolute = [&](const Dim& v) {
    if (v.isConst() && v.value() >= (fixed ? int64_t{1} << 40 : kToTheEnd)) return highest;
    if (v.isConst() && v.value() <= -(fixed ? int64_t{1} << 40 : kToTheEnd)) return lowest;
    const bool fromEnd = v.isConst() ? v.value() < 0 : v.text().starts_with('-');
    return fromEnd ? v + n : v;
  };
  const Dim f = absolute(from), t = absolute(to);
  if (fixed || down) {
    const Dim a = max(lowest, min(f, highest)), z = max(lowest, min(t, highest));
    return {a, atLeastZero(down ? ceilDiv(a - z, Dim(-step)) : ceilDiv(z - a, Dim(step)))};
  }
  // A start behind the end gives a negative difference, which is clamped below.
  const Dim a = atLeastZero(f), room = n - t, z = neverNegative(room) ? t : min(t, n);
  const Dim behind = n - f;
  if (z == n && behind.isConst() && behind.value() >= 0 && step == 1) return {a, min(behind, n)};
  return {a, atLeastZero(ceilDiv(z - a, Dim(step)))};
}

Status sliceOp(Call& c) {
  const Value x = c.in(0);
  const auto rank = static_cast<std::size_t>(x.rank());
  std::vector<Dim> starts, ends;
  std::vector<int64_t> axes, steps;
  if (c.opset < 10) {
    const auto s = c.ints("starts"), e = c.ints("ends");
    starts.assign(s.begin(), s.end()), ends.assign(e.begin(), e.end());
    axes = c.ints("axes");
  } else {
    if (!c.has(1) || !c.has(2)) return c.bad("starts or ends are missing");
    RLX_TRY(starts, c.dims(1));
    RLX_TRY(ends, c.dims(2));
    if (c.has(3)) {
      RLX_TRY(axes, c.integers(3));
    }
    if (c.has(4)) {
      RLX_TRY(steps, c.integers(4));
    }
  }
  if (axes.empty()) axes = range(0, static_cast<int64_t>(starts.size()));
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (starts.size() != ends.size() || starts.size() != axes.size() || starts.size() != steps.size())
    return c.bad("starts, ends, axes and steps differ in length");
  Shape start(rank, Dim(0)), size = x.shape();
  std::vector<int64_t> step(rank, 1);
  for (std::size_t k = 0; k < axes.size(); ++k) {
    RLX_TRY(const int64_t axis, normalizeAxis(c.node.op, axes[k], rank));
    const auto a = static_cast<std::size_t>(axis);
    if (steps[k] == 0) return c.bad("step 0");
    const int64_t by = std::clamp<int64_t>(steps[k], -(int64_t{1} << 40), int64_t{1} << 40);
    auto [first, count] = clampedRange(starts[k], ends[k], x.shape()[a], by);
    start[a] = std::move(first), size[a] = std::move(count);
    step[a] = by;
    if (size[a].is(0)) start[a] = Dim(0);
    if (size[a].is(0) || size[a].is(1)) step[a] = 1;
  }
  return c.out(0, slice(x, std::move(start), std::move(size), std::move(step))), Ok{};
}

Status pad(Call& c) {
  const Value x = c.in(0);
  const auto rank = static_cast<std::size_t>(x.rank());
  std::vector<Dim> pads;
  if (c.opset < 11) {
    const auto v = c.ints(c.opset < 2 ? "paddings" : "pads");
    pads.assign(v.begin(), v.end());
  } else {
    if (!c.has(1)) return c.bad("pads are missing");
    RLX_TRY(pads, c.dims(1));
  }
  std::vector<int64_t> axes = range(0, x.rank());
  if (c.has(3)) {
    RLX_TRY(axes, c.integers(3));
  }
  if (pads.size() != 2 * axes.size())
    return c.bad(std::to_string(pads.size()) + " pads for " + std::to_string(axes.size()) +
                 " axes");
  for (const Dim& d : pads)
    if (d.isConst() && std::abs(d.value()) > (int64_t{1} << 40)) return c.bad("pad " + d.text());
  PadAttrs a;
  a.low.assign(rank, Dim(0)), a.high.assign(rank, Dim(0));
  for (std::size_t k = 0; k < axes.size(); ++k) {
    RLX_TRY(const int64_t axis, normalizeAxis(c.node.op, axes[k], rank));
    a.low[static_cast<std::size_t>(axis)] = pads[k];
    a.high[static_cast<std::size_t>(axis)] = pads[k + axes.size()];
  }
  const std::string mode = c.attr("mode", std::string_view("constant"));
  if (mode == "reflect")
    a.mode = PadMode::Reflect;
  else if (mode == "edge")
    a.mode = PadMode::Edge;
  else if (mode == "wrap")
    a.mode = PadMode::Wrap;
  else if (mode != "constant")
    return c.bad("mode '" + mode + "'");
  std::vector<Value> in{x};
  if (a.mode == PadMode::Constant) {
    if (c.has(2))
      in.push_back(reshape(c.in(2), {}));
    else if (c.hasAttr("value"))
      in.push_back(literal(x, c.attr("value", 0.0)));
  }
  return c.out(0, c.b.emit(OpKind::Pad, std::move(in), Attrs::of(std::move(a)))), Ok{};
}

Status expand(Call& c) {
  const Value x = c.in(0);
  RLX_TRY(const auto target, c.dims(1));
  for (const Dim& d : target)
    if (d.isConst() && (d.value() < 0 || d.value() > (int64_t{1} << 40)))
      return c.bad("extent " + d.text() + " in the shape");
  RLX_TRY(const Shape both, broadcastShapes("expand", x.shape(), target));
  return c.out(0, broadcastTo(x, both)), Ok{};
}

// Repeats each axis: [d] as [1, d], broadcast to [r, d], joined to [r * d].
Status tile(Call& c) {
  const Value x = c.in(0);
  std::vector<Dim> repeats;
  if (c.opset < 6) {
    if (!c.has(2)) return c.bad("tiles and axis are missing");
    RLX_TRY(const int64_t tiles, c.integer(1));
    RLX_TRY(const int64_t given, c.integer(2));
    RLX_TRY(const int64_t axis, normalizeAxis(c.node.op, given, x.shape().size()));
    repeats.assign(x.shape().size(), Dim(1));
    repeats[static_cast<std::size_t>(axis)] = Dim(tiles);
  } else {
    RLX_TRY(repeats, c.dims(1));
  }
  if (repeats.size() != x.shape().size())
    return c.bad(std::to_string(repeats.size()) + " repeats for rank " + std::to_string(x.rank()));
  Shape apart, wide, joined;
  for (std::size_t k = 0; k < repeats.size(); ++k) {
    const Dim &r = repeats[k], d = x.shape()[k];
    if (r.isConst() && (r.value() < 0 || r.value() > kMaxRepeat))
      return c.bad("repeat " + r.text());
    if (!r.is(1)) apart.emplace_back(1), wide.push_back(r);
    apart.push_back(d), wide.push_back(d), joined.push_back(r * d);
  }
  return c.out(0, reshape(broadcastTo(reshape(x, apart), wide), joined)), Ok{};
}

// ---- Shapes as values, constants
// -------------------------------------------------------------------

Status shapeOf(Call& c) {
  const Value x = c.in(0);
  const int64_t rank = x.rank();
  auto clampTo = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + rank : v, 0, rank); };
  const int64_t from = clampTo(c.attr("start", int64_t{0})),
                to = clampTo(c.hasAttr("end") ? c.attr("end", rank) : rank);
  Extents e;
  e.dims = part(x.shape(), static_cast<std::size_t>(from), static_cast<std::size_t>(to));
  return c.out(0, std::move(e)), Ok{};
}

Status sizeOf(Call& c) {
  Extents e;
  e.scalar = true;
  e.dims = {elements(c.in(0).shape())};
  return c.out(0, std::move(e)), Ok{};
}

Status constant(Call& c) {
  if (const TensorDef* t = c.tensor("value")) {
    if (!t->unsupported.empty()) return c.unsupported("a constant of " + t->unsupported);
    return c.out(0, t->value), Ok{};
  }
  if (c.hasAttr("value_float"))
    return c.out(0, Literal::scalar(DType::F32, c.attr("value_float", 0.0))), Ok{};
  if (c.hasAttr("value_int"))
    return c.out(0, Literal::of(DType::I64, {}, std::vector{c.attr("value_int", int64_t{0})})),
           Ok{};
  if (c.hasAttr("value_ints")) {
    const auto v = c.ints("value_ints");
    return c.out(0, Literal::of(DType::I64, {static_cast<int64_t>(v.size())}, v)), Ok{};
  }
  if (c.hasAttr("value_floats")) {
    const auto v = c.floats("value_floats");
    const std::vector<float> f(v.begin(), v.end());
    return c.out(0, Literal::of(DType::F32, {static_cast<int64_t>(f.size())}, f)), Ok{};
  }
  if (c.hasAttr("value_string") || c.hasAttr("value_strings"))
    return c.unsupported("a constant of dtype string");
  if (c.hasAttr("sparse_value")) return c.unsupported("a sparse constant");
  return c.bad("no value");
}

Status constantOfShape(Call& c) {
  RLX_TRY(const auto shape, c.dims(0));
  for (const Dim& d : shape)
    if (d.isConst() && (d.value() < 0 || d.value() > (int64_t{1} << 40)))
      return c.bad("extent " + d.text() + " in the shape");
  Value v = c.b.scalar(DType::F32, 0);
  if (const TensorDef* t = c.tensor("value")) {
    if (!t->unsupported.empty()) return c.unsupported("a constant of " + t->unsupported);
    if (t->value.elements() != 1) return c.bad("value must have one element");
    v = reshape(c.b.constant(t->value), {});
  }
  return c.out(0, broadcastTo(v, shape)), Ok{};
}

Status rangeOp(Call& c) {
  const DType t = c.in(0).dtype();
  Dim n;
  Value start, delta;
  if (isInteger(t)) {
    RLX_TRY(const auto from, c.dims(0));
    RLX_TRY(const auto to, c.dims(1));
    RLX_TRY(const int64_t step, c.integer(2));
    if (from.size() != 1 || to.size() != 1 || step == 0 || step == INT64_MIN)
      return c.bad("start, limit and delta must be single numbers, delta not 0");
    n = step > 0 ? ceilDiv(to[0] - from[0], Dim(step)) : ceilDiv(from[0] - to[0], Dim(-step));
    n = atLeastZero(n);
    start = dimValue(c.b, t, from[0]), delta = dimValue(c.b, t, Dim(step));
  } else {
    RLX_TRY(const double from, c.number(0));
    RLX_TRY(const double to, c.number(1));
    RLX_TRY(const double step, c.number(2));
    const double count = std::max(0.0, std::ceil((to - from) / step));
    if (!(count <= static_cast<double>(int64_t{1} << 40))) return c.bad("an endless range");
    n = Dim(static_cast<int64_t>(count));
    start = c.b.scalar(t, from), delta = c.b.scalar(t, step);
  }
  return c.out(0, iota(c.b, t, {n}, 0) * delta + start), Ok{};
}

Status eyeLike(Call& c) {
  const Value x = c.in(0);
  if (x.rank() != 2) return c.bad("input of rank " + std::to_string(x.rank()));
  DType t = x.dtype();
  if (c.hasAttr("dtype") && !findDType(c.attr("dtype", int64_t{0}), &t))
    return c.unsupported("dtype " + dtypeName(c.attr("dtype", int64_t{0})));
  const Value row = iota(c.b, DType::I64, {extent(x, 0), Dim(1)}, 0),
              column = iota(c.b, DType::I64, {Dim(1), extent(x, 1)}, 1);
  const Value shifted =
      row + c.b.constant(Literal::of(DType::I64, {}, std::vector{c.attr("k", int64_t{0})}));
  return c.out(0, convert(apply(ScalarOp::Eq, column, shifted), t)), Ok{};
}

Status triangle(Call& c) {
  const Value x = c.in(0);
  if (x.rank() < 2) return c.bad("input of rank " + std::to_string(x.rank()));
  const Value row = iota(c.b, DType::I64, {extent(x, x.rank() - 2), Dim(1)}, 0),
              column = iota(c.b, DType::I64, {Dim(1), extent(x, x.rank() - 1)}, 1);
  Value shifted = row;
  if (c.has(1)) shifted = row + reshape(c.in(1), {});
  const bool upper = c.attr("upper", int64_t{1}) != 0;
  const Value keep = apply(upper ? ScalarOp::Ge : ScalarOp::Le, column, shifted);
  const Value zero =
      x.dtype() == DType::Bool ? c.b.constant(Literal::scalar(DType::Bool, 0)) : literal(x, 0);
  return c.out(0, choose(keep, x, zero)), Ok{};
}

Status depthToSpace(Call& c) {
  const Value x = c.in(0);
  const int64_t size = c.attr("blocksize", int64_t{0});
  if (x.rank() != 4 || size < 1 || size > 4096)
    return c.bad("blocksize " + std::to_string(size) + " for shape " + text(x.shape()));
  const Dim n = extent(x, 0), h = extent(x, 2), w = extent(x, 3), s(size);
  if (c.node.op == "SpaceToDepth") {
    const Dim hs = floorDiv(h, s), ws = floorDiv(w, s), ch = extent(x, 1);
    if (!(hs * s == h) || !(ws * s == w))
      return c.bad("blocksize " + s.text() + " does not divide " + text(x.shape()));
    const Value y = transpose(reshape(x, {n, ch, hs, s, ws, s}), {0, 3, 5, 1, 2, 4});
    return c.out(0, reshape(y, {n, ch * s * s, hs, ws})), Ok{};
  }
  Dim ch;
  if (!divideExactly(extent(x, 1), s * s, &ch))
    return c.bad("blocksize " + s.text() + " for " + extent(x, 1).text() + " channels");
  const std::string mode = c.attr("mode", std::string_view("DCR"));
  if (mode != "DCR" && mode != "CRD") return c.bad("mode '" + mode + "'");
  const Value y = mode == "DCR" ? transpose(reshape(x, {n, s, s, ch, h, w}), {0, 3, 4, 1, 5, 2})
                                : transpose(reshape(x, {n, ch, s, s, h, w}), {0, 1, 4, 2, 5, 3});
  return c.out(0, reshape(y, {n, ch, h * s, w * s})), Ok{};
}

constexpr OpRow kOps[] = {
    {"Reshape", reshapeOp, 1, 2},
    {"Flatten", flatten},
    {"Squeeze", squeeze, 1, 2},
    {"Unsqueeze", unsqueeze, 1, 2},
    {"Transpose", transposeOp},
    {"Concat", concatOp, 1, -1},
    {"Split", split, 1, 2, -1},
    {"Slice", sliceOp, 1, 5},
    {"Pad", pad, 1, 4},
    {"Expand", expand, 2, 2},
    {"Tile", tile, 2, 3},
    {"Shape", shapeOf},
    {"Size", sizeOf},
    {"Constant", constant, 0, 0},
    {"ConstantOfShape", constantOfShape},
    {"Range", rangeOp, 3, 3},
    {"EyeLike", eyeLike},
    {"Trilu", triangle, 1, 2},
    {"DepthToSpace", depthToSpace},
    {"SpaceToDepth", depthToSpace},
};

}  // namespace

std::span<const OpRow> movementOps() {
  return kOps;
}

}  // namespace rlx::onnx
