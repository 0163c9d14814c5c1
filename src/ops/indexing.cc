// Gather and scatter in the three forms that files use: along an axis, element by element, by index
// tuples.
#include "ops/rule.h"

namespace rlx::ops {
namespace {

using kir::Expr;

// An index of the reference: negatives from the end; outside is an error with value and bound.
Result<int64_t> checkedIndex(OpKind op, const RefTensor& indices, int64_t at, int64_t extent) {
  const auto v = indices.integer(at);
  if (v < -static_cast<RefTensor::Wide>(extent) || v >= extent)
    return Error(Errc::IndexRange, std::string(name(op)) + ": index " +
                                       std::to_string(static_cast<int64_t>(v)) +
                                       " is outside an axis of extent " + std::to_string(extent));
  return static_cast<int64_t>(v < 0 ? v + extent : v);
}

// Indices need something to point into, unless there are none.
Status notEmpty(const InferContext& c, std::size_t axis, const Dim& results) {
  if (!c.types[0].shape[axis].is(0) || results.is(0)) return Ok{};
  return shapeError(c, "axis " + std::to_string(axis) + " of " + text(c.types[0].shape) +
                           " is empty and has nothing to gather");
}

struct Gather {
  using Attributes = AxisAttrs;
  static constexpr std::string_view doc =
      "Slices of operand 0 along an axis at the indices of operand 1, whose shape replaces the "
      "axis.";
  static constexpr int minInputs = 2, maxInputs = 2;
  static constexpr double cost = 4;
  static Infer infer(const InferContext& c) {
    RLX_OK(requireKind(c, 1, "i"));
    const Shape& s = c.types[0].shape;
    RLX_TRY(const int64_t axis, normalizeAxis("gather", c.attrs.as<AxisAttrs>().axis, s.size()));
    Shape out(s.begin(), s.begin() + axis);
    out.insert(out.end(), c.types[1].shape.begin(), c.types[1].shape.end());
    out.insert(out.end(), s.begin() + axis + 1, s.end());
    RLX_OK(notEmpty(c, static_cast<std::size_t>(axis), elements(out)));
    return one(c.types[0].dtype, std::move(out));
  }
  static RefResult reference(const RefContext& c) {
    const RefTensor &x = c.in(0), &indices = c.in(1);
    RefTensor y = c.out();
    const auto axis = static_cast<std::size_t>(
        *normalizeAxis("gather", c.attrs.as<AxisAttrs>().axis, x.shape.size()));
    const int64_t outer = product(std::span(x.shape).first(axis));
    const int64_t inner = product(std::span(x.shape).subspan(axis + 1));
    const int64_t count = indices.elements(), extent = x.shape[axis];
    if (y.elements() == 0) return single(std::move(y));
    for (int64_t k = 0; k < count; ++k) {
      RLX_TRY(const int64_t i, checkedIndex(c.op, indices, k, extent));
      for (int64_t o = 0; o < outer; ++o)
        for (int64_t j = 0; j < inner; ++j)
          copyElement(y, (o * count + k) * inner + j, x, (o * extent + i) * inner + j);
    }
    return single(std::move(y));
  }
  static Expr element(LowerContext& c, const Index& at) {
    const std::size_t rank = c.shape(1).size();
    const auto axis = static_cast<std::size_t>(
        *normalizeAxis("gather", c.attrs<AxisAttrs>().axis, c.shape(0).size()));
    const auto first = at.begin() + static_cast<std::ptrdiff_t>(axis);
    const Index where(first, first + static_cast<std::ptrdiff_t>(rank));
    Index from(at.begin(), first);
    from.push_back(clampIndex(c, c.wide(1, where), c.dim(c.shape(0)[axis])));
    from.insert(from.end(), first + static_cast<std::ptrdiff_t>(rank), at.end());
    return c.operand(0, from);
  }
};

struct GatherElements {
  using Attributes = AxisAttrs;
  static constexpr std::string_view doc =
      "Element by element: result[i] is operand 0 at i with the axis coordinate replaced by "
      "operand 1[i].";
  static constexpr int minInputs = 2, maxInputs = 2;
  static constexpr double cost = 4;
  static Infer infer(const InferContext& c) {
    RLX_OK(requireKind(c, 1, "i"));
    RLX_OK(requireRank(c, 1, c.types[0].shape.size()));
    RLX_TRY(const int64_t axis, normalizeAxis("gather_elements", c.attrs.as<AxisAttrs>().axis,
                                              c.types[0].shape.size()));
    RLX_OK(notEmpty(c, static_cast<std::size_t>(axis), elements(c.types[1].shape)));
    const Shape &s = c.types[0].shape, &i = c.types[1].shape;
    for (std::size_t k = 0; k < s.size(); ++k)
      if (k != static_cast<std::size_t>(axis) && s[k].isConst() && i[k].isConst() &&
          i[k].value() > s[k].value())
        return shapeError(c, "indices of shape " + text(i) + " into " + text(s));
    return one(c.types[0].dtype, c.types[1].shape);
  }
  static RefResult reference(const RefContext& c) {
    const RefTensor &x = c.in(0), &indices = c.in(1);
    RefTensor y = c.out();
    const auto axis = static_cast<std::size_t>(
        *normalizeAxis("gather_elements", c.attrs.as<AxisAttrs>().axis, x.shape.size()));
    for (int64_t k = 0; k < indices.elements(); ++k)
      RLX_OK(checkedIndex(c.op, indices, k, x.shape[axis]));
    forEach(y.shape, [&](const std::vector<int64_t>& at, int64_t flat) {
      std::vector<int64_t> from = at;
      from[axis] = *checkedIndex(c.op, indices, flat, x.shape[axis]);
      copyElement(y, flat, x, offsetOf(from, x.shape));
    });
    return single(std::move(y));
  }
  static Expr element(LowerContext& c, const Index& at) {
    const auto axis = static_cast<std::size_t>(
        *normalizeAxis("gather_elements", c.attrs<AxisAttrs>().axis, c.shape(0).size()));
    Index from = at;
    from[axis] = clampIndex(c, c.wide(1, at), c.dim(c.shape(0)[axis]));
    return c.operand(0, from);
  }
};

struct GatherNd {
  using Attributes = GatherNdAttrs;
  static constexpr std::string_view doc =
      "The last axis of operand 1 holds index tuples into operand 0, behind batchDims shared axes.";
  static constexpr int minInputs = 2, maxInputs = 2;
  static constexpr double cost = 6;
  static Infer infer(const InferContext& c) {
    RLX_OK(requireKind(c, 1, "i"));
    const Shape &s = c.types[0].shape, &i = c.types[1].shape;
    const int64_t batch = c.attrs.as<GatherNdAttrs>().batchDims;
    if (i.empty() || !i.back().isConst()) return shapeError(c, "indices of shape " + text(i));
    const int64_t tuple = i.back().value();
    if (batch < 0 || batch >= static_cast<int64_t>(i.size()) || tuple < 1 ||
        batch + tuple > static_cast<int64_t>(s.size()))
      return shapeError(c, "indices of shape " + text(i) + " with " + std::to_string(batch) +
                               " batch axes into " + text(s));
    Shape out(i.begin(), i.end() - 1);
    out.insert(out.end(), s.begin() + batch + tuple, s.end());
    for (int64_t k = 0; k < batch; ++k) {
      const auto at = static_cast<std::size_t>(k);
      if (s[at].isConst() && i[at].isConst() && i[at].value() > s[at].value())
        return shapeError(c, "batch axis " + std::to_string(k) + " has extents " + s[at].text() +
                                 " and " + i[at].text());
    }
    for (int64_t k = 0; k < tuple; ++k)
      RLX_OK(notEmpty(c, static_cast<std::size_t>(batch + k), elements(out)));
    return one(c.types[0].dtype, std::move(out));
  }
  static RefResult reference(const RefContext& c) {
    const RefTensor &x = c.in(0), &indices = c.in(1);
    RefTensor y = c.out();
    const auto batch = static_cast<std::size_t>(c.attrs.as<GatherNdAttrs>().batchDims);
    const auto tuple = static_cast<std::size_t>(indices.shape.back());
    const std::size_t lead = indices.shape.size() - 1;
    for (int64_t k = 0; k < indices.elements(); ++k)
      RLX_OK(checkedIndex(c.op, indices, k, x.shape[batch + static_cast<std::size_t>(k) % tuple]));
    forEach(y.shape, [&](const std::vector<int64_t>& at, int64_t flat) {
      int64_t row = 0;
      for (std::size_t k = 0; k < lead; ++k) row = row * indices.shape[k] + at[k];
      std::vector<int64_t> from(at.begin(), at.begin() + static_cast<std::ptrdiff_t>(batch));
      for (std::size_t k = 0; k < tuple; ++k)
        from.push_back(*checkedIndex(c.op, indices,
                                     row * static_cast<int64_t>(tuple) + static_cast<int64_t>(k),
                                     x.shape[batch + k]));
      from.insert(from.end(), at.begin() + static_cast<std::ptrdiff_t>(lead), at.end());
      copyElement(y, flat, x, offsetOf(from, x.shape));
    });
    return single(std::move(y));
  }
  static Expr element(LowerContext& c, const Index& at) {
    const auto batch = static_cast<std::ptrdiff_t>(c.attrs<GatherNdAttrs>().batchDims);
    const int64_t tuple = c.shape(1).back().value();
    const auto lead = static_cast<std::ptrdiff_t>(c.shape(1).size()) - 1;
    Index where(at.begin(), at.begin() + lead), from(at.begin(), at.begin() + batch);
    where.push_back(kir::index(0));
    for (int64_t k = 0; k < tuple; ++k) {
      where.back() = kir::index(k);
      from.push_back(
          clampIndex(c, c.wide(1, where), c.dim(c.shape(0)[static_cast<std::size_t>(batch + k)])));
    }
    from.insert(from.end(), at.begin() + lead, at.end());
    return c.operand(0, from);
  }
};

ScalarOp scatterOp(ScatterKind k) {
  switch (k) {
    case ScatterKind::Add: return ScalarOp::Add;
    case ScatterKind::Mul: return ScalarOp::Mul;
    case ScatterKind::Min: return ScalarOp::Min;
    case ScatterKind::Max: return ScalarOp::Max;
    case ScatterKind::None: return ScalarOp::Add;
  }
  RLX_UNREACHABLE("scatter kind");
}

void scatterInto(RefTensor& y, int64_t to, const RefTensor& u, int64_t from, ScatterKind kind) {
  if (kind == ScatterKind::None)
    copyElement(y, to, u, from);
  else if (y.isInt())
    y.setInteger(to, scalar::integerValue(scatterOp(kind), y.integer(to), u.integer(from), 0,
                                          info(y.dtype).bits));
  else
    y.setNumber(to, scalar::value(scatterOp(kind), y.number(to), u.number(from), 0));
}

Status scatterTypes(const InferContext& c) {
  RLX_OK(requireKind(c, 1, "i"));
  if (c.types[0].dtype != c.types[2].dtype)
    return typeError(c, "updates have dtype " + std::string(name(c.types[2].dtype)) +
                            ", the data " + std::string(name(c.types[0].dtype)));
  if (c.attrs.as<ScatterAttrs>().kind != ScatterKind::None) RLX_OK(requireKind(c, 0, "fi"));
  return Ok{};
}

// A scatter runs as a fold on every result element over all updates, in row-major order: correct
// with duplicates on any device, without atomics.
Fold scatterFold(LowerContext& c, const Index& at, std::vector<Dim> extents) {
  Fold f;
  f.extents = std::move(extents);
  const DType t = computeType(c.operands[0]->dtype);
  f.accumulators = {{t, kir::cast(t, c.operand(0, at)), ScalarOp::Add}};
  f.ordered = true;
  return f;
}

void scatterJoin(LowerContext& c, const Expr& hit, const Expr& update, std::vector<Expr>& values) {
  const ScatterKind kind = c.attrs<ScatterAttrs>().kind;
  const Expr next =
      kind == ScatterKind::None ? update : Expr::apply(scatterOp(kind), values[0], update, {});
  values[0] = choose(hit, next, values[0]);
}

struct ScatterElements {
  using Attributes = ScatterAttrs;
  static constexpr std::string_view doc =
      "Operand 0 with element i of operand 2 written at i, its axis coordinate replaced by operand "
      "1[i]; "
      "duplicates combine in row-major order.";
  static constexpr int minInputs = 3, maxInputs = 3;
  static constexpr bool reuses = true;
  static Infer infer(const InferContext& c) {
    RLX_OK(scatterTypes(c));
    RLX_OK(requireRank(c, 1, c.types[0].shape.size()));
    if (c.types[1].shape != c.types[2].shape)
      return shapeError(
          c, "indices " + text(c.types[1].shape) + " and updates " + text(c.types[2].shape));
    RLX_OK(normalizeAxis("scatter_elements", c.attrs.as<ScatterAttrs>().axis,
                         c.types[0].shape.size()));
    return Types{c.types[0]};
  }
  static RefResult reference(const RefContext& c) {
    const auto& a = c.attrs.as<ScatterAttrs>();
    RefTensor y = c.in(0);
    const RefTensor& indices = c.in(1);
    const auto axis = static_cast<std::size_t>(*normalizeAxis("scatter", a.axis, y.shape.size()));
    for (int64_t k = 0; k < indices.elements(); ++k)
      RLX_OK(checkedIndex(c.op, indices, k, y.shape[axis]));
    forEach(indices.shape, [&](const std::vector<int64_t>& at, int64_t flat) {
      std::vector<int64_t> to = at;
      to[axis] = *checkedIndex(c.op, indices, flat, y.shape[axis]);
      scatterInto(y, offsetOf(to, y.shape), c.in(2), flat, a.kind);
    });
    return single(std::move(y));
  }
  static std::size_t axisOf(LowerContext& c) {
    return static_cast<std::size_t>(
        *normalizeAxis("scatter", c.attrs<ScatterAttrs>().axis, c.shape(0).size()));
  }
  static Fold fold(LowerContext& c, const Index& at) {
    return scatterFold(c, at, {c.shape(1)[axisOf(c)]});
  }
  static void foldStep(LowerContext& c, const Index& at, const Index& r,
                       std::vector<Expr>& values) {
    const std::size_t axis = axisOf(c);
    Index from = at;
    from[axis] = r[0];
    // Other axes of the updates may be shorter than the data: only coordinates inside take part.
    Expr inside = always();
    for (std::size_t k = 0; k < at.size(); ++k)
      if (k != axis && !(c.shape(1)[k] == c.shape(0)[k]))
        inside = both(inside, less(at[k], c.dim(c.shape(1)[k])));
    inside = c.let(inside);
    const DType it = c.operands[1]->dtype;
    const Expr i =
        wrapIndex(c, kir::cast(computeType(it), c.operandIf(1, from, inside, kir::integer(it, -1))),
                  c.dim(c.shape(0)[axis]));
    const Expr hit = c.let(both(inside, equal(i, at[axis])));
    const DType t = c.operands[2]->dtype;
    const Expr zero = kir::zero(t);
    scatterJoin(c, hit, c.let(kir::cast(computeType(t), c.operandIf(2, from, hit, zero))), values);
  }
  static Expr foldFinish(LowerContext& c, const Index&, std::span<const Expr> acc) {
    return c.narrow(acc[0]);
  }
};

struct ScatterNd {
  using Attributes = ScatterAttrs;
  static constexpr std::string_view doc =
      "Operand 0 with the slices of operand 2 written at the index tuples in the last axis of "
      "operand 1; "
      "duplicates combine in row-major order.";
  static constexpr int minInputs = 3, maxInputs = 3;
  static constexpr bool reuses = true;
  static Infer infer(const InferContext& c) {
    RLX_OK(scatterTypes(c));
    const Shape &s = c.types[0].shape, &i = c.types[1].shape;
    if (i.empty() || !i.back().isConst() || i.back().value() < 1 ||
        i.back().value() > static_cast<int64_t>(s.size()))
      return shapeError(c, "indices of shape " + text(i) + " into " + text(s));
    Shape want(i.begin(), i.end() - 1);
    want.insert(want.end(), s.begin() + i.back().value(), s.end());
    if (want != c.types[2].shape)
      return shapeError(
          c, "updates have shape " + text(c.types[2].shape) + ", expected " + text(want));
    return Types{c.types[0]};
  }
  static RefResult reference(const RefContext& c) {
    RefTensor y = c.in(0);
    const RefTensor &indices = c.in(1), &u = c.in(2);
    const int64_t tuple = indices.shape.back();
    const std::size_t lead = indices.shape.size() - 1;
    for (int64_t k = 0; k < indices.elements(); ++k)
      RLX_OK(checkedIndex(c.op, indices, k, y.shape[static_cast<std::size_t>(k % tuple)]));
    forEach(u.shape, [&](const std::vector<int64_t>& at, int64_t flat) {
      int64_t row = 0;
      for (std::size_t k = 0; k < lead; ++k) row = row * indices.shape[k] + at[k];
      std::vector<int64_t> to;
      for (int64_t k = 0; k < tuple; ++k)
        to.push_back(
            *checkedIndex(c.op, indices, row * tuple + k, y.shape[static_cast<std::size_t>(k)]));
      to.insert(to.end(), at.begin() + static_cast<std::ptrdiff_t>(lead), at.end());
      scatterInto(y, offsetOf(to, y.shape), u, flat, c.attrs.as<ScatterAttrs>().kind);
    });
    return single(std::move(y));
  }
  static Fold fold(LowerContext& c, const Index& at) {
    return scatterFold(c, at, {c.shape(1).begin(), c.shape(1).end() - 1});
  }
  static void foldStep(LowerContext& c, const Index& at, const Index& r,
                       std::vector<Expr>& values) {
    const int64_t tuple = c.shape(1).back().value();
    Index where = r;
    where.push_back(kir::index(0));
    Expr hit = always();
    for (int64_t k = 0; k < tuple; ++k) {
      where.back() = kir::index(k);
      const auto axis = static_cast<std::size_t>(k);
      hit = both(hit, equal(wrapIndex(c, c.wide(1, where), c.dim(c.shape(0)[axis])), at[axis]));
    }
    hit = c.let(hit);
    Index from = r;
    from.insert(from.end(), at.begin() + static_cast<std::ptrdiff_t>(tuple), at.end());
    const DType t = c.operands[2]->dtype;
    const Expr zero = kir::zero(t);
    scatterJoin(c, hit, c.let(kir::cast(computeType(t), c.operandIf(2, from, hit, zero))), values);
  }
  static Expr foldFinish(LowerContext& c, const Index&, std::span<const Expr> acc) {
    return c.narrow(acc[0]);
  }
};

}  // namespace

RLX_DEFINE_OP(Gather)
RLX_DEFINE_OP(GatherElements)
RLX_DEFINE_OP(GatherNd)
RLX_DEFINE_OP(ScatterElements)
RLX_DEFINE_OP(ScatterNd)

}  // namespace rlx::ops
