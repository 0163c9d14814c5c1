// Reductions, arg reductions, cumulative scans and the rank of sorting.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/rule.h"

namespace rlx::ops {
namespace {

using kir::Expr;

ScalarOp combiner(ReduceKind k) {
  switch (k) {
    case ReduceKind::Sum: return ScalarOp::Add;
    case ReduceKind::Prod: return ScalarOp::Mul;
    case ReduceKind::Max: return ScalarOp::Max;
    case ReduceKind::Min: return ScalarOp::Min;
    case ReduceKind::Any: return ScalarOp::Or;
    case ReduceKind::All: return ScalarOp::And;
  }
  RLX_UNREACHABLE("reduce kind");
}

Expr initial(ReduceKind k, DType acc, DType storage) {
  const double inf = std::numeric_limits<double>::infinity();
  if (isFloat(acc)) {
    switch (k) {
      case ReduceKind::Max: return kir::constant(acc, -inf);
      case ReduceKind::Min: return kir::constant(acc, inf);
      case ReduceKind::Prod: return kir::constant(acc, 1);
      case ReduceKind::Sum:
      case ReduceKind::Any:
      case ReduceKind::All: return kir::constant(acc, 0);
    }
  }
  const int w = storage == DType::Bool ? 1 : info(storage).bits;
  const bool s = isSigned(storage);
  switch (k) {
    case ReduceKind::Max:
      return kir::integer(acc, s ? (w == 64 ? INT64_MIN : -(int64_t{1} << (w - 1))) : 0);
    case ReduceKind::Min:
      return kir::integer(acc, s ? (w == 64 ? INT64_MAX : (int64_t{1} << (w - 1)) - 1)
                                 : (w == 64 ? -1 : (int64_t{1} << w) - 1));
    case ReduceKind::Prod:
    case ReduceKind::All: return kir::integer(acc, 1);
    case ReduceKind::Sum:
    case ReduceKind::Any: return kir::integer(acc, 0);
  }
  RLX_UNREACHABLE("reduce kind");
}

std::vector<bool> reducedAxes(const std::vector<int64_t>& axes, std::size_t rank) {
  std::vector<bool> out(rank);
  for (const int64_t a : axes)
    out[static_cast<std::size_t>(a < 0 ? a + static_cast<int64_t>(rank) : a)] = true;
  return out;
}

struct Reduce {
  using Attributes = ReduceAttrs;
  static constexpr std::string_view doc =
      "Sum, product, maximum, minimum, any or all over axes. Empty: 0, 1, lowest, highest, false, "
      "true.";
  static constexpr int minInputs = 1, maxInputs = 1;
  static Infer infer(const InferContext& c) {
    const auto& a = c.attrs.as<ReduceAttrs>();
    const bool logical = a.kind == ReduceKind::Any || a.kind == ReduceKind::All;
    const bool order = a.kind == ReduceKind::Max || a.kind == ReduceKind::Min;
    RLX_OK(requireKind(c, 0, logical ? "b" : order ? "fib" : "fi"));
    const Shape& s = c.types[0].shape;
    std::vector<bool> seen(s.size());
    for (const int64_t axis : a.axes) {
      RLX_TRY(const int64_t k, normalizeAxis("reduce", axis, s.size()));
      if (seen[static_cast<std::size_t>(k)])
        return attributeError(c, "axis " + std::to_string(axis) + " is named twice");
      seen[static_cast<std::size_t>(k)] = true;
    }
    Shape out;
    for (std::size_t k = 0; k < s.size(); ++k) {
      if (!seen[k])
        out.push_back(s[k]);
      else if (a.keepDims)
        out.push_back(Dim(1));
    }
    return one(c.types[0].dtype, std::move(out));
  }
  static RefResult reference(const RefContext& c) {
    const auto& a = c.attrs.as<ReduceAttrs>();
    const RefTensor& x = c.in(0);
    RefTensor y = c.out();
    const auto reduced = reducedAxes(a.axes, x.shape.size());
    const ScalarOp op = combiner(a.kind);
    const double inf = std::numeric_limits<double>::infinity();
    const int w = info(x.dtype).bits;
    for (int64_t k = 0; k < y.elements(); ++k) {
      if (!y.isInt()) {
        y.setNumber(k, a.kind == ReduceKind::Sum    ? 0
                       : a.kind == ReduceKind::Prod ? 1
                       : a.kind == ReduceKind::Max  ? -inf
                                                    : inf);
        continue;
      }
      RefTensor::Wide v = a.kind == ReduceKind::Prod || a.kind == ReduceKind::All ? 1 : 0;
      const int bits = x.dtype == DType::Bool ? 1 : w;
      const bool s = isSigned(x.dtype);
      if (a.kind == ReduceKind::Max && s) v = -(RefTensor::Wide{1} << (bits - 1));
      if (a.kind == ReduceKind::Min) v = (RefTensor::Wide{1} << (bits - s)) - 1;
      y.setInteger(k, v);
    }
    forEach(x.shape, [&](const std::vector<int64_t>& at, int64_t flat) {
      int64_t to = 0;
      for (std::size_t k = 0; k < at.size(); ++k)
        if (!reduced[k]) to = to * x.shape[k] + at[k];
      if (y.isInt())
        y.setInteger(to, scalar::integerValue(op, y.integer(to), x.integer(flat), 0, w));
      else
        y.setNumber(to, scalar::value(op, y.number(to), x.number(flat), 0));
    });
    return single(std::move(y));
  }
  static Fold fold(LowerContext& c, const Index&) {
    const auto& a = c.attrs<ReduceAttrs>();
    const auto reduced = reducedAxes(a.axes, c.shape(0).size());
    Fold f;
    for (std::size_t k = 0; k < reduced.size(); ++k)
      if (reduced[k]) f.extents.push_back(c.shape(0)[k]);
    const DType t = c.operands[0]->dtype, acc = computeType(t);
    f.accumulators.push_back({acc, initial(a.kind, acc, t), combiner(a.kind)});
    f.alongMemory = !reduced.empty() && reduced.back();
    return f;
  }
  static void foldStep(LowerContext& c, const Index& at, const Index& r,
                       std::vector<Expr>& values) {
    const auto& a = c.attrs<ReduceAttrs>();
    const auto reduced = reducedAxes(a.axes, c.shape(0).size());
    Index from;
    std::size_t i = 0, j = 0;
    for (std::size_t k = 0; k < reduced.size(); ++k) {
      if (reduced[k]) {
        from.push_back(r[j++]);
        if (a.keepDims) ++i;
      } else {
        from.push_back(at[i++]);
      }
    }
    values[0] = c.wide(0, from);
  }
  static Expr foldFinish(LowerContext& c, const Index&, std::span<const Expr> acc) {
    return c.narrow(acc[0]);
  }
};

struct ArgReduce {
  using Attributes = ArgReduceAttrs;
  static constexpr std::string_view doc =
      "Index (i64) of the largest or smallest element along an axis; NaN counts as the largest "
      "(and as the "
      "result of either); the first of equals, or the last when selectLast is set.";
  static constexpr int minInputs = 1, maxInputs = 1;
  static Infer infer(const InferContext& c) {
    const auto& a = c.attrs.as<ArgReduceAttrs>();
    RLX_OK(requireKind(c, 0, "fib"));
    const Shape& s = c.types[0].shape;
    RLX_TRY(const int64_t axis, normalizeAxis("arg_reduce", a.axis, s.size()));
    Shape out = s;
    if (a.keepDims)
      out[static_cast<std::size_t>(axis)] = Dim(1);
    else
      out.erase(out.begin() + axis);
    if (s[static_cast<std::size_t>(axis)].is(0) && !elements(out).is(0))
      return shapeError(c, "an empty axis has no largest element");
    return one(DType::I64, std::move(out));
  }
  static RefResult reference(const RefContext& c) {
    const auto& a = c.attrs.as<ArgReduceAttrs>();
    const RefTensor& x = c.in(0);
    RefTensor y = c.out();
    const auto axis =
        static_cast<std::size_t>(*normalizeAxis("arg_reduce", a.axis, x.shape.size()));
    std::vector<int64_t> best(static_cast<std::size_t>(y.elements()), -1);
    forEach(x.shape, [&](const std::vector<int64_t>& at, int64_t flat) {
      int64_t to = 0;
      for (std::size_t k = 0; k < at.size(); ++k)
        if (k != axis) to = to * x.shape[k] + at[k];
      int64_t& b = best[static_cast<std::size_t>(to)];
      bool better = b < 0, tie = false;
      if (!better) {
        if (x.isInt()) {
          const auto v = x.integer(flat), w = x.integer(b);
          better = a.kind == ArgKind::Max ? v > w : v < w;
          tie = v == w;
        } else {
          const double v = x.number(flat), w = x.number(b);
          better = std::isnan(v) ? !std::isnan(w) : a.kind == ArgKind::Max ? v > w : v < w;
          tie = v == w || (std::isnan(v) && std::isnan(w));
        }
      }
      if (better || (tie && a.selectLast)) {
        b = flat;
        y.setInteger(to, at[axis]);
      }
    });
    return single(std::move(y));
  }
  static Fold fold(LowerContext& c, const Index&) {
    const auto& a = c.attrs<ArgReduceAttrs>();
    const auto axis =
        static_cast<std::size_t>(*normalizeAxis("arg_reduce", a.axis, c.shape(0).size()));
    Fold f;
    f.extents = {c.shape(0)[axis]};
    const DType t = computeType(c.operands[0]->dtype);
    f.accumulators = {{t == DType::Bool ? DType::I32 : t,
                       kir::zero(t == DType::Bool ? DType::I32 : t), ScalarOp::Add},
                      {DType::I32, kir::index(-1), ScalarOp::Add}};
    f.ordered = true;
    return f;
  }
  static void foldStep(LowerContext& c, const Index& at, const Index& r,
                       std::vector<Expr>& values) {
    const auto& a = c.attrs<ArgReduceAttrs>();
    const auto axis =
        static_cast<std::size_t>(*normalizeAxis("arg_reduce", a.axis, c.shape(0).size()));
    Index from;
    std::size_t i = 0;
    for (std::size_t k = 0; k < c.shape(0).size(); ++k) {
      if (k == axis) {
        from.push_back(r[0]);
        if (a.keepDims) ++i;
      } else {
        from.push_back(at[i++]);
      }
    }
    Expr v = c.wide(0, from);
    if (v->type == DType::Bool) v = kir::cast(DType::I32, v);
    v = c.let(v);
    const Expr best = values[0], where = values[1];
    Expr better = a.kind == ArgKind::Max ? less(best, v) : less(v, best);
    if (a.selectLast)
      better = a.kind == ArgKind::Max ? Expr::apply(ScalarOp::Le, best, v, {})
                                      : Expr::apply(ScalarOp::Le, v, best, {});
    if (isFloat(v->type)) {
      const Expr vNan = Expr::apply(ScalarOp::IsNan, v, {}, {}),
                 bNan = Expr::apply(ScalarOp::IsNan, best, {}, {});
      const Expr takeNan =
          a.selectLast ? vNan : both(vNan, Expr::apply(ScalarOp::Not, bNan, {}, {}));
      better = Expr::apply(ScalarOp::Or, takeNan,
                           both(better, Expr::apply(ScalarOp::Not, bNan, {}, {})), {});
    }
    better = c.let(Expr::apply(ScalarOp::Or, better, less(where, kir::index(0)), {}));
    values[0] = choose(better, v, best);
    values[1] = choose(better, r[0], where);
  }
  static Expr foldFinish(LowerContext&, const Index&, std::span<const Expr> acc) {
    return kir::cast(DType::I64, acc[1]);
  }
};

struct Scan {
  using Attributes = ScanAttrs;
  static constexpr std::string_view doc =
      "Running sum, product, maximum or minimum along an axis; exclusive leaves the element itself "
      "out, "
      "reverse starts at the end.";
  static constexpr int minInputs = 1, maxInputs = 1;
  static Infer infer(const InferContext& c) {
    const auto& a = c.attrs.as<ScanAttrs>();
    if (a.kind == ReduceKind::Any || a.kind == ReduceKind::All)
      return attributeError(c, "kind must be sum, prod, max or min");
    RLX_OK(requireKind(c, 0, "fi"));
    RLX_OK(normalizeAxis("cumulative_scan", a.axis, c.types[0].shape.size()));
    return Types{c.types[0]};
  }
  static RefResult reference(const RefContext& c) {
    const auto& a = c.attrs.as<ScanAttrs>();
    const RefTensor& x = c.in(0);
    RefTensor y = c.out();
    const auto axis = static_cast<std::size_t>(*normalizeAxis("scan", a.axis, x.shape.size()));
    const ScalarOp op = combiner(a.kind);
    const int64_t n = x.shape[axis], stride = rowMajorStrides(x.shape)[axis];
    const double inf = std::numeric_limits<double>::infinity();
    const int w = info(x.dtype).bits;
    forEach(x.shape, [&](const std::vector<int64_t>& at, int64_t flat) {
      if (at[axis] != 0) return;
      double f = a.kind == ReduceKind::Sum    ? 0
                 : a.kind == ReduceKind::Prod ? 1
                 : a.kind == ReduceKind::Max  ? -inf
                                              : inf;
      RefTensor one(x.dtype, {1});
      const bool s = isSigned(x.dtype);
      if (x.isInt())
        one.setInteger(0, a.kind == ReduceKind::Prod       ? 1
                          : a.kind == ReduceKind::Max && s ? -(RefTensor::Wide{1} << (w - 1))
                          : a.kind == ReduceKind::Min      ? (RefTensor::Wide{1} << (w - s)) - 1
                                                           : 0);
      for (int64_t k = 0; k < n; ++k) {
        const int64_t p = flat + (a.reverse ? n - 1 - k : k) * stride;
        if (x.isInt()) {
          if (a.exclusive) y.setInteger(p, one.integer(0));
          one.setInteger(0, scalar::integerValue(op, one.integer(0), x.integer(p), 0, w));
          if (!a.exclusive) y.setInteger(p, one.integer(0));
        } else {
          if (a.exclusive) y.setNumber(p, f);
          f = scalar::value(op, f, x.number(p), 0);
          if (!a.exclusive) y.setNumber(p, f);
        }
      }
    });
    return single(std::move(y));
  }
  static int64_t scanAxis(LowerContext& c) {
    return *normalizeAxis("scan", c.attrs<ScanAttrs>().axis, c.shape(0).size());
  }
  static Expr scanInit(LowerContext& c) {
    const DType t = c.operands[0]->dtype;
    return initial(c.attrs<ScanAttrs>().kind, computeType(t), t);
  }
  static bool scanReverse(LowerContext& c) { return c.attrs<ScanAttrs>().reverse; }
  static void scanStep(LowerContext& c, const Index& at, Expr& carry, Expr& out) {
    const auto& a = c.attrs<ScanAttrs>();
    const Expr before = carry;
    carry = c.let(Expr::apply(combiner(a.kind), carry, c.wide(0, at), {}));
    out = c.narrow(a.exclusive ? before : carry);
  }
};

struct SortRank {
  using Attributes = SortAttrs;
  static constexpr std::string_view doc =
      "The position (i32) each element takes in a stable sort along an axis, in the total order "
      "-inf < "
      "finite < +inf < NaN.";
  static constexpr int minInputs = 1, maxInputs = 1;
  static constexpr bool reuses = true;
  static Infer infer(const InferContext& c) {
    RLX_OK(requireKind(c, 0, "fib"));
    RLX_OK(normalizeAxis("sort_rank", c.attrs.as<SortAttrs>().axis, c.types[0].shape.size()));
    return one(DType::I32, c.types[0].shape);
  }
  // Whether element p goes before element q in ascending (or descending) order, index breaking
  // ties.
  static bool before(const RefTensor& x, int64_t p, int64_t q, bool descending) {
    if (x.isInt()) {
      const auto a = x.integer(p), b = x.integer(q);
      return a != b ? (descending ? a > b : a < b) : p < q;
    }
    const double a = x.number(p), b = x.number(q);
    const bool an = std::isnan(a), bn = std::isnan(b);
    if (an || bn) return an && bn ? p < q : descending ? an : bn;
    return a != b ? (descending ? a > b : a < b) : p < q;
  }
  static RefResult reference(const RefContext& c) {
    const auto& a = c.attrs.as<SortAttrs>();
    const RefTensor& x = c.in(0);
    RefTensor y = c.out();
    const auto axis = static_cast<std::size_t>(*normalizeAxis("sort", a.axis, x.shape.size()));
    const int64_t n = x.shape[axis], stride = rowMajorStrides(x.shape)[axis];
    forEach(x.shape, [&](const std::vector<int64_t>& at, int64_t flat) {
      if (at[axis] != 0) return;
      std::vector<int64_t> order(static_cast<std::size_t>(n));
      for (int64_t k = 0; k < n; ++k) order[static_cast<std::size_t>(k)] = flat + k * stride;
      std::sort(order.begin(), order.end(),
                [&](int64_t p, int64_t q) { return before(x, p, q, a.descending); });
      for (int64_t k = 0; k < n; ++k) y.setInteger(order[static_cast<std::size_t>(k)], k);
    });
    return single(std::move(y));
  }
  static Fold fold(LowerContext& c, const Index&) {
    const auto axis = static_cast<std::size_t>(
        *normalizeAxis("sort", c.attrs<SortAttrs>().axis, c.shape(0).size()));
    Fold f;
    f.extents = {c.shape(0)[axis]};
    f.accumulators = {{DType::I32, kir::index(0), ScalarOp::Add}};
    f.alongMemory = axis + 1 == c.shape(0).size();
    return f;
  }
  static void foldStep(LowerContext& c, const Index& at, const Index& r,
                       std::vector<Expr>& values) {
    const auto& a = c.attrs<SortAttrs>();
    const auto axis = static_cast<std::size_t>(*normalizeAxis("sort", a.axis, c.shape(0).size()));
    Index other = at;
    other[axis] = r[0];
    auto read = [&](const Index& i) {
      Expr v = c.wide(0, i);
      return c.let(v->type == DType::Bool ? kir::cast(DType::I32, v) : v);
    };
    const Expr mine = read(at), theirs = read(other);
    // Counts the others that go before this one.
    Expr strictly = a.descending ? less(mine, theirs) : less(theirs, mine);
    Expr ties = equal(mine, theirs);
    if (isFloat(mine->type)) {
      const Expr m = c.let(Expr::apply(ScalarOp::IsNan, mine, {}, {}));
      const Expr t = c.let(Expr::apply(ScalarOp::IsNan, theirs, {}, {}));
      const Expr notM = Expr::apply(ScalarOp::Not, m, {}, {}),
                 notT = Expr::apply(ScalarOp::Not, t, {}, {});
      strictly = Expr::apply(ScalarOp::Or, both(strictly, both(notM, notT)),
                             a.descending ? both(t, notM) : both(m, notT), {});
      ties = Expr::apply(ScalarOp::Or, ties, both(m, t), {});
    }
    const Expr first = Expr::apply(ScalarOp::Or, strictly, both(ties, less(r[0], at[axis])), {});
    values[0] = kir::cast(DType::I32, first);
  }
  static Expr foldFinish(LowerContext&, const Index&, std::span<const Expr> acc) { return acc[0]; }
};

// Sorted values and their indices through ranks: the element of rank r is found by an arg reduction
// over rank == r, which fuses into one kernel.
std::vector<Value> byRank(Builder& b, Value x, int64_t axis, bool descending, const Dim& count) {
  const int64_t rank = x.rank();
  Value ranks = b.emit(OpKind::SortRank, {x}, Attrs::of(SortAttrs{axis, descending}));
  if (b.failed()) return {x, x};
  // [..., 1 (wanted), n, ...] against [..., count, 1, ...]
  Shape expanded = ranks.shape();
  expanded.insert(expanded.begin() + axis, Dim(1));
  Shape wanted(static_cast<std::size_t>(rank) + 1, Dim(1));
  wanted[static_cast<std::size_t>(axis)] = count;
  Value hit =
      emitScalar(ScalarOp::Eq, {reshape(ranks, expanded), iota(b, DType::I32, wanted, axis)});
  Value index = b.emit(OpKind::ArgReduce, {hit},
                       Attrs::of(ArgReduceAttrs{ArgKind::Max, axis + 1, false, false}));
  return {gatherElements(x, index, axis), index};
}

struct Sort {
  using Attributes = SortAttrs;
  static constexpr std::string_view doc =
      "Stable sort along an axis: values, and indices (i64) into the operand.";
  static constexpr int minInputs = 1, maxInputs = 1;
  static Infer infer(const InferContext& c) {
    RLX_OK(requireKind(c, 0, "fib"));
    RLX_OK(normalizeAxis("sort", c.attrs.as<SortAttrs>().axis, c.types[0].shape.size()));
    return Types{c.types[0], TensorType{DType::I64, c.types[0].shape}};
  }
  static RefResult reference(const RefContext& c) {
    return sorted(c, c.attrs.as<SortAttrs>().axis, c.attrs.as<SortAttrs>().descending);
  }
  static RefResult sorted(const RefContext& c, int64_t axisAttr, bool descending) {
    const RefTensor& x = c.in(0);
    std::vector<RefTensor> y;
    y.push_back(c.out(0)), y.push_back(c.out(1));
    const auto axis = static_cast<std::size_t>(*normalizeAxis("sort", axisAttr, x.shape.size()));
    const int64_t n = x.shape[axis], k = y[0].shape[axis], stride = rowMajorStrides(x.shape)[axis];
    forEach(x.shape, [&](const std::vector<int64_t>& at, int64_t flat) {
      if (at[axis] != 0) return;
      std::vector<int64_t> order(static_cast<std::size_t>(n));
      for (int64_t j = 0; j < n; ++j) order[static_cast<std::size_t>(j)] = flat + j * stride;
      std::sort(order.begin(), order.end(),
                [&](int64_t p, int64_t q) { return SortRank::before(x, p, q, descending); });
      const int64_t to = offsetOf(at, y[0].shape);
      for (int64_t j = 0; j < k; ++j) {
        const int64_t from = order[static_cast<std::size_t>(j)];
        const int64_t place = to + j * rowMajorStrides(y[0].shape)[axis];
        copyElement(y[0], place, x, from);
        y[1].setInteger(place, (from - flat) / stride);
      }
    });
    return y;
  }
  static std::vector<Value> decompose(Builder& b, std::span<const Value> in, const Attrs& attrs) {
    const auto& a = attrs.as<SortAttrs>();
    const int64_t axis = a.axis < 0 ? a.axis + in[0].rank() : a.axis;
    return byRank(b, in[0], axis, a.descending, in[0].shape()[static_cast<std::size_t>(axis)]);
  }
};

struct TopK {
  using Attributes = TopKAttrs;
  static constexpr std::string_view doc =
      "The k largest (or smallest) along an axis in order, and their indices (i64); the lower "
      "index first "
      "among equals; NaN is the largest.";
  static constexpr int minInputs = 1, maxInputs = 1;
  static Infer infer(const InferContext& c) {
    const auto& a = c.attrs.as<TopKAttrs>();
    RLX_OK(requireKind(c, 0, "fib"));
    Shape s = c.types[0].shape;
    RLX_TRY(const int64_t axis, normalizeAxis("top_k", a.axis, s.size()));
    Dim& n = s[static_cast<std::size_t>(axis)];
    if (n.isConst() && a.k.isConst() && (a.k.value() < 0 || a.k.value() > n.value()))
      return attributeError(c, "k is " + a.k.text() + ", the axis has " + n.text() + " elements");
    n = a.k;
    return Types{TensorType{c.types[0].dtype, s}, TensorType{DType::I64, s}};
  }
  static RefResult reference(const RefContext& c) {
    return Sort::sorted(c, c.attrs.as<TopKAttrs>().axis, c.attrs.as<TopKAttrs>().largest);
  }
  static std::vector<Value> decompose(Builder& b, std::span<const Value> in, const Attrs& attrs) {
    const auto& a = attrs.as<TopKAttrs>();
    return byRank(b, in[0], a.axis < 0 ? a.axis + in[0].rank() : a.axis, a.largest, a.k);
  }
};

}  // namespace

RLX_DEFINE_OP(Reduce)
RLX_DEFINE_OP(ArgReduce)
RLX_DEFINE_OP(Scan)
RLX_DEFINE_OP(SortRank)
RLX_DEFINE_OP(Sort)
RLX_DEFINE_OP(TopK)

}  // namespace rlx::ops
