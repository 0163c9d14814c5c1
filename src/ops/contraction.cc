// Contractions and windows: dot_general, conv, pool.
#include <cmath>
#include <limits>

#include "ops/rule.h"

namespace rlx::ops {
namespace {

using kir::Expr;

struct DotGeneral {
  using Attributes = DotAttrs;
  static constexpr std::string_view doc =
      "Contraction: sums products over the contracted axes, for every batch and free index. Result "
      "axes: "
      "batch, free axes of the left, free axes of the right. Accumulates in f32 or wider; with "
      "result=i32, of i8 or u8 operands in any mix, in i32 that wraps.";
  static constexpr int minInputs = 2, maxInputs = 2;
  static constexpr bool reuses = true;
  // The dtype of the result.
  static Result<DType> dtype(const InferContext& c) {
    const DType l = c.types[0].dtype, r = c.types[1].dtype;
    const std::optional<DType> result = c.attrs.as<DotAttrs>().result;
    const std::string both =
        "operands have dtypes " + std::string(name(l)) + " and " + std::string(name(r));
    if (!result) {
      if (l != r) return typeError(c, both);
      return l;
    }
    if (*result != DType::I32)
      return attributeError(c, "result is " + std::string(name(*result)) + ", expected i32");
    for (const DType t : {l, r})
      if (t != DType::I8 && t != DType::U8) return typeError(c, both + ", expected i8 or u8");
    return *result;
  }
  static Infer infer(const InferContext& c) {
    const auto& a = c.attrs.as<DotAttrs>();
    RLX_OK(requireKind(c, 0, "fi"));
    RLX_TRY(const DType sum, dtype(c));
    const Shape &l = c.types[0].shape, &r = c.types[1].shape;
    if (a.lhsBatch.size() != a.rhsBatch.size() || a.lhsContract.size() != a.rhsContract.size())
      return attributeError(c, "both sides need equally many batch and contracted axes");
    auto valid = [](const std::vector<int64_t>& x, const std::vector<int64_t>& y,
                    std::size_t rank) {
      std::vector<bool> seen(rank);
      for (const auto* v : {&x, &y})
        for (const int64_t k : *v) {
          if (k < 0 || static_cast<std::size_t>(k) >= rank || seen[static_cast<std::size_t>(k)])
            return false;
          seen[static_cast<std::size_t>(k)] = true;
        }
      return true;
    };
    if (!valid(a.lhsBatch, a.lhsContract, l.size()) || !valid(a.rhsBatch, a.rhsContract, r.size()))
      return attributeError(
          c, "axes " + c.attrs.text() + " for shapes " + text(l) + " and " + text(r));
    Shape out;
    auto agree = [&](const std::vector<int64_t>& x, const std::vector<int64_t>& y,
                     const char* what) -> Status {
      for (std::size_t k = 0; k < x.size(); ++k) {
        const Dim &p = l[static_cast<std::size_t>(x[k])], &q = r[static_cast<std::size_t>(y[k])];
        if (!(p == q))
          return shapeError(
              c, std::string(what) + " dimensions differ, " + p.text() + " against " + q.text());
      }
      return Ok{};
    };
    RLX_OK(agree(a.lhsBatch, a.rhsBatch, "batch"));
    RLX_OK(agree(a.lhsContract, a.rhsContract, "inner"));
    for (const int64_t k : a.lhsBatch) out.push_back(l[static_cast<std::size_t>(k)]);
    for (const int64_t k : freeAxes(l.size(), a.lhsBatch, a.lhsContract))
      out.push_back(l[static_cast<std::size_t>(k)]);
    for (const int64_t k : freeAxes(r.size(), a.rhsBatch, a.rhsContract))
      out.push_back(r[static_cast<std::size_t>(k)]);
    return one(sum, std::move(out));
  }
  static RefResult reference(const RefContext& c) {
    const auto& a = c.attrs.as<DotAttrs>();
    const RefTensor &l = c.in(0), &r = c.in(1);
    RefTensor y = c.out();
    // Element strides of each side along the batch, free and contracted axes, as flat offset lists.
    auto offsets = [](const RefTensor& t, const std::vector<int64_t>& axes) {
      std::vector<int64_t> shape, out;
      const auto strides = rowMajorStrides(t.shape);
      for (const int64_t k : axes) shape.push_back(t.shape[static_cast<std::size_t>(k)]);
      forEach(shape, [&](const std::vector<int64_t>& at, int64_t) {
        int64_t o = 0;
        for (std::size_t k = 0; k < axes.size(); ++k)
          o += at[k] * strides[static_cast<std::size_t>(axes[k])];
        out.push_back(o);
      });
      return out;
    };
    const auto lb = offsets(l, a.lhsBatch), rb = offsets(r, a.rhsBatch);
    const auto lf = offsets(l, freeAxes(l.shape.size(), a.lhsBatch, a.lhsContract));
    const auto rf = offsets(r, freeAxes(r.shape.size(), a.rhsBatch, a.rhsContract));
    const auto lk = offsets(l, a.lhsContract), rk = offsets(r, a.rhsContract);
    int64_t to = 0;
    for (std::size_t b = 0; b < lb.size(); ++b)
      for (const int64_t i : lf)
        for (const int64_t j : rf) {
          double f = 0;
          RefTensor::Wide n = 0;
          for (std::size_t k = 0; k < lk.size(); ++k) {
            const int64_t p = lb[b] + i + lk[k], q = rb[b] + j + rk[k];
            if (y.isInt())
              n += scalar::wrapMul(l.integer(p), r.integer(q));
            else
              f += l.number(p) * r.number(q);
          }
          if (y.isInt())
            y.setInteger(to++, n);
          else
            y.setNumber(to++, f);
        }
    return single(std::move(y));
  }
  static Fold fold(LowerContext& c, const Index&) {
    const auto& a = c.attrs<DotAttrs>();
    Fold f;
    for (const int64_t k : a.lhsContract)
      f.extents.push_back(c.shape(0)[static_cast<std::size_t>(k)]);
    const DType acc = computeType(c.results[0]->dtype);
    f.accumulators = {{acc, kir::zero(acc), ScalarOp::Add}};
    const auto last = [](const std::vector<int64_t>& v, std::size_t rank) {
      return !v.empty() && v.back() == static_cast<int64_t>(rank) - 1;
    };
    f.alongMemory =
        last(a.lhsContract, c.shape(0).size()) && last(a.rhsContract, c.shape(1).size());
    const auto lhsFree = freeAxes(c.shape(0).size(), a.lhsBatch, a.lhsContract);
    if (!lhsFree.empty()) f.tileAxis = static_cast<int>(a.lhsBatch.size() + lhsFree.size()) - 1;
    return f;
  }
  static void foldStep(LowerContext& c, const Index& at, const Index& r,
                       std::vector<Expr>& values) {
    const auto& a = c.attrs<DotAttrs>();
    auto side = [&](std::size_t k, const std::vector<int64_t>& batch,
                    const std::vector<int64_t>& contract, std::size_t firstFree) {
      const std::size_t rank = c.shape(k).size();
      Index from(rank);
      for (std::size_t i = 0; i < batch.size(); ++i)
        from[static_cast<std::size_t>(batch[i])] = at[i];
      for (std::size_t i = 0; i < contract.size(); ++i)
        from[static_cast<std::size_t>(contract[i])] = r[i];
      for (const int64_t i : freeAxes(rank, batch, contract))
        from[static_cast<std::size_t>(i)] = at[firstFree++];
      return kir::cast(computeType(c.results[0]->dtype), c.operand(k, from));
    };
    const std::size_t lhsFree = c.shape(0).size() - a.lhsBatch.size() - a.lhsContract.size();
    values[0] = mul(side(0, a.lhsBatch, a.lhsContract, a.lhsBatch.size()),
                    side(1, a.rhsBatch, a.rhsContract, a.lhsBatch.size() + lhsFree));
  }
  static Expr foldFinish(LowerContext& c, const Index&, std::span<const Expr> acc) {
    return c.narrow(acc[0]);
  }
};

// Extent of a window op's result along one axis.
Dim windowExtent(const Dim& in, int64_t window, int64_t stride, int64_t dilation, int64_t low,
                 int64_t high, bool ceil) {
  const Dim span = in + Dim(low) + Dim(high) - Dim(dilation) * Dim(window - 1) - Dim(1);
  if (!ceil) return floorDiv(span, Dim(stride)) + Dim(1);
  const Dim n = ceilDiv(span, Dim(stride)) + Dim(1);
  // A last window that would start in the high padding is dropped.
  return max(n - Dim(1), min(n, ceilDiv(in + Dim(low), Dim(stride))));
}

Status windowAttrs(const InferContext& c, std::size_t spatial, const std::vector<int64_t>& strides,
                   const std::vector<int64_t>& dilations, const std::vector<int64_t>& low,
                   const std::vector<int64_t>& high) {
  for (const auto* v : {&strides, &dilations, &low, &high})
    if (v->size() != spatial)
      return attributeError(
          c, "strides, dilations and paddings need " + std::to_string(spatial) + " entries");
  for (std::size_t k = 0; k < spatial; ++k)
    if (strides[k] < 1 || dilations[k] < 1 || strides[k] > INT32_MAX || dilations[k] > INT32_MAX)
      return attributeError(c, "strides and dilations must be at least 1");
  for (const auto* v : {&low, &high})
    for (const int64_t pad : *v)
      if (pad < INT32_MIN / 2 || pad > INT32_MAX / 2)
        return attributeError(c, "padding " + std::to_string(pad) + " is out of range");
  return Ok{};
}

struct Conv {
  using Attributes = ConvAttrs;
  static constexpr std::string_view doc =
      "Cross-correlation of [n, c, spatial...] with [o, c / groups, kernel...], plus a bias [o]; 1 "
      "to 3 "
      "spatial axes, zero padding.";
  static constexpr int minInputs = 2, maxInputs = 3;
  static constexpr bool reuses = true;
  static Infer infer(const InferContext& c) {
    const auto& a = c.attrs.as<ConvAttrs>();
    RLX_OK(requireKind(c, 0, "fi"));
    const Shape &x = c.types[0].shape, &w = c.types[1].shape;
    if (x.size() < 3 || x.size() > 5)
      return shapeError(c, "operand 0 has shape " + text(x) + ", expected 1 to 3 spatial axes");
    RLX_OK(requireRank(c, 1, x.size()));
    const std::size_t spatial = x.size() - 2;
    for (std::size_t k = 1; k < c.types.size(); ++k)
      if (c.present[k] && c.types[k].dtype != c.types[0].dtype)
        return typeError(c, "operand " + std::to_string(k) + " has dtype " +
                                std::string(name(c.types[k].dtype)) + ", the input " +
                                std::string(name(c.types[0].dtype)));
    RLX_OK(windowAttrs(c, spatial, a.strides, a.dilations, a.padLow, a.padHigh));
    if (a.groups < 1) return attributeError(c, "groups must be at least 1");
    if (!(w[1] * Dim(a.groups) == x[1]))
      return shapeError(c, "input has " + x[1].text() + " channels, the weight " + w[1].text() +
                               " times " + std::to_string(a.groups) + " groups");
    if (!w[0].isConst() || w[0].value() % a.groups != 0)
      return shapeError(
          c, w[0].text() + " output channels in " + std::to_string(a.groups) + " groups");
    if (c.types.size() > 2 && c.present[2] && c.types[2].shape != Shape{w[0]})
      return shapeError(
          c, "bias has shape " + text(c.types[2].shape) + ", expected [" + w[0].text() + "]");
    Shape out{x[0], w[0]};
    for (std::size_t k = 0; k < spatial; ++k) {
      if (!w[k + 2].isConst()) return shapeError(c, "symbolic kernel extents");
      out.push_back(windowExtent(x[k + 2], w[k + 2].value(), a.strides[k], a.dilations[k],
                                 a.padLow[k], a.padHigh[k], false));
      if (out.back().isConst() && out.back().value() < 0)
        return shapeError(c, "the kernel is larger than the padded input");
    }
    return one(c.types[0].dtype, std::move(out));
  }
  static RefResult reference(const RefContext& c) {
    const auto& a = c.attrs.as<ConvAttrs>();
    const RefTensor &x = c.in(0), &w = c.in(1);
    RefTensor y = c.out();
    const int64_t perGroup = w.shape[0] / a.groups;
    const std::size_t spatial = x.shape.size() - 2;
    std::vector<int64_t> kernel(w.shape.begin() + 1, w.shape.end());
    std::vector<int64_t> from(x.shape.size());
    forEach(y.shape, [&](const std::vector<int64_t>& at, int64_t flat) {
      double f = c.has(2) ? c.in(2).number(at[1]) : 0;
      RefTensor::Wide n = c.has(2) && y.isInt() ? c.in(2).integer(at[1]) : 0;
      forEach(kernel, [&](const std::vector<int64_t>& k, int64_t kf) {
        from[0] = at[0];
        from[1] = at[1] / perGroup * w.shape[1] + k[0];
        for (std::size_t d = 0; d < spatial; ++d) {
          from[d + 2] = at[d + 2] * a.strides[d] - a.padLow[d] + k[d + 1] * a.dilations[d];
          if (from[d + 2] < 0 || from[d + 2] >= x.shape[d + 2]) return;
        }
        const int64_t p = offsetOf(from, x.shape), q = at[1] * product(kernel) + kf;
        if (y.isInt())
          n += scalar::wrapMul(x.integer(p), w.integer(q));
        else
          f += x.number(p) * w.number(q);
      });
      if (y.isInt())
        y.setInteger(flat, n);
      else
        y.setNumber(flat, f);
    });
    return single(std::move(y));
  }
  static Fold fold(LowerContext& c, const Index&) {
    Fold f;
    f.extents.assign(c.shape(1).begin() + 1, c.shape(1).end());
    const DType acc = computeType(c.results[0]->dtype);
    f.accumulators = {{acc, kir::zero(acc), ScalarOp::Add}};
    if (c.attrs<ConvAttrs>().groups == 1) f.tileAxis = 1;
    return f;
  }
  static void foldStep(LowerContext& c, const Index& at, const Index& r,
                       std::vector<Expr>& values) {
    const auto& a = c.attrs<ConvAttrs>();
    const std::size_t spatial = at.size() - 2;
    const int64_t perGroup = c.shape(1)[0].value() / a.groups;
    Expr channel = r[0];
    if (a.groups > 1)
      channel = add(
          mul(Expr::apply(ScalarOp::Div, at[1], kir::index(perGroup), {}), c.dim(c.shape(1)[1])),
          r[0]);
    Index from{at[0], channel}, weight{at[1], r[0]};
    Expr inside = always();
    for (std::size_t d = 0; d < spatial; ++d) {
      Expr i = add(sub(mul(at[d + 2], kir::index(a.strides[d])), kir::index(a.padLow[d])),
                   mul(r[d + 1], kir::index(a.dilations[d])));
      if (a.padLow[d] > 0) inside = both(inside, atLeast(i, kir::index(0)));
      if (a.padHigh[d] > 0) inside = both(inside, less(i, c.dim(c.shape(0)[d + 2])));
      from.push_back(i);
      weight.push_back(r[d + 1]);
    }
    const DType t = c.operands[0]->dtype;
    const DType acc = computeType(t);
    const Expr zero = kir::zero(t);
    values[0] = mul(kir::cast(acc, c.operandIf(0, from, inside, zero)), c.wide(1, weight));
  }
  static Expr foldFinish(LowerContext& c, const Index& at, std::span<const Expr> acc) {
    return c.narrow(c.has(2) ? add(acc[0], c.wide(2, {at[1]})) : acc[0]);
  }
};

struct Pool {
  using Attributes = PoolAttrs;
  static constexpr std::string_view doc =
      "Maximum or average over windows of [n, c, spatial...]; a window of padding only has maximum "
      "-inf; "
      "countPadding divides averages by the whole window.";
  static constexpr int minInputs = 1, maxInputs = 1;
  static constexpr bool reuses = true;
  static Infer infer(const InferContext& c) {
    const auto& a = c.attrs.as<PoolAttrs>();
    RLX_OK(requireKind(c, 0, a.kind == PoolKind::Max ? "fi" : "f"));
    const Shape& x = c.types[0].shape;
    if (x.size() < 3 || x.size() > 5)
      return shapeError(c, "operand has shape " + text(x) + ", expected 1 to 3 spatial axes");
    const std::size_t spatial = x.size() - 2;
    RLX_OK(windowAttrs(c, spatial, a.strides, a.dilations, a.padLow, a.padHigh));
    if (a.window.size() != spatial)
      return attributeError(c, "window needs " + std::to_string(spatial) + " entries");
    Shape out{x[0], x[1]};
    for (std::size_t k = 0; k < spatial; ++k) {
      if (a.window[k] < 1 || a.window[k] > INT32_MAX)
        return attributeError(c, "window extents must be at least 1");
      out.push_back(windowExtent(x[k + 2], a.window[k], a.strides[k], a.dilations[k], a.padLow[k],
                                 a.padHigh[k], a.ceilMode));
      if (out.back().isConst() && out.back().value() < 0)
        return shapeError(c, "the window is larger than the padded input");
    }
    return one(c.types[0].dtype, std::move(out));
  }
  static RefResult reference(const RefContext& c) {
    const auto& a = c.attrs.as<PoolAttrs>();
    const RefTensor& x = c.in(0);
    RefTensor y = c.out();
    const std::size_t spatial = x.shape.size() - 2;
    std::vector<int64_t> from(x.shape.size());
    forEach(y.shape, [&](const std::vector<int64_t>& at, int64_t flat) {
      double best = -std::numeric_limits<double>::infinity(), sum = 0;
      RefTensor::Wide bestInt =
          isSigned(x.dtype) ? -(RefTensor::Wide{1} << (info(x.dtype).bits - 1)) : 0;
      int64_t count = 0;
      from[0] = at[0], from[1] = at[1];
      forEach(a.window, [&](const std::vector<int64_t>& k, int64_t) {
        bool inside = true, counted = true;
        for (std::size_t d = 0; d < spatial; ++d) {
          from[d + 2] = at[d + 2] * a.strides[d] - a.padLow[d] + k[d] * a.dilations[d];
          inside = inside && from[d + 2] >= 0 && from[d + 2] < x.shape[d + 2];
          counted = counted && from[d + 2] < x.shape[d + 2] + a.padHigh[d];
        }
        if (inside || (a.countPadding && counted)) ++count;
        if (!inside) return;
        const int64_t p = offsetOf(from, x.shape);
        if (x.isInt())
          bestInt = std::max(bestInt, static_cast<RefTensor::Wide>(x.integer(p)));
        else
          best = scalar::value(ScalarOp::Max, best, x.number(p), 0), sum += x.number(p);
      });
      if (y.isInt())
        y.setInteger(flat, bestInt);
      else
        y.setNumber(flat, a.kind == PoolKind::Max ? best : sum / static_cast<double>(count));
    });
    return single(std::move(y));
  }
  static Fold fold(LowerContext& c, const Index&) {
    const auto& a = c.attrs<PoolAttrs>();
    Fold f;
    for (const int64_t w : a.window) f.extents.emplace_back(w);
    const DType t = c.operands[0]->dtype, acc = computeType(t);
    if (a.kind == PoolKind::Average)
      f.accumulators = {{acc, kir::constant(acc, 0), ScalarOp::Add},
                        {acc, kir::constant(acc, 0), ScalarOp::Add}};
    else if (isFloat(acc))
      f.accumulators = {
          {acc, kir::constant(acc, -std::numeric_limits<double>::infinity()), ScalarOp::Max}};
    else
      f.accumulators = {{acc,
                         kir::integer(acc, isSigned(t) ? (info(t).bits == 64
                                                              ? INT64_MIN
                                                              : -(int64_t{1} << (info(t).bits - 1)))
                                                       : 0),
                         ScalarOp::Max}};
    return f;
  }
  static void foldStep(LowerContext& c, const Index& at, const Index& r,
                       std::vector<Expr>& values) {
    const auto& a = c.attrs<PoolAttrs>();
    Index from{at[0], at[1]};
    Expr inside = always(), counted = always();
    for (std::size_t d = 0; d + 2 < at.size(); ++d) {
      const Expr i =
          c.let(add(sub(mul(at[d + 2], kir::index(a.strides[d])), kir::index(a.padLow[d])),
                    mul(r[d], kir::index(a.dilations[d]))));
      const Expr n = c.dim(c.shape(0)[d + 2]);
      if (a.padLow[d] > 0) inside = both(inside, atLeast(i, kir::index(0)));
      if (a.padHigh[d] > 0 || a.ceilMode) inside = both(inside, less(i, n));
      if (a.ceilMode) counted = both(counted, less(i, add(n, kir::index(a.padHigh[d]))));
      from.push_back(i);
    }
    inside = c.let(inside);
    const DType t = c.operands[0]->dtype, acc = computeType(t);
    const bool isMax = a.kind == PoolKind::Max;
    Expr otherwise;
    if (!isFloat(acc))
      otherwise = kir::integer(
          t,
          isSigned(t) ? (info(t).bits == 64 ? INT64_MIN : -(int64_t{1} << (info(t).bits - 1))) : 0);
    else
      otherwise =
          kir::cast(t, kir::constant(acc, isMax ? -std::numeric_limits<double>::infinity() : 0));
    values[0] = kir::cast(acc, c.operandIf(0, from, inside, otherwise));
    if (!isMax)
      values[1] =
          choose(a.countPadding ? counted : inside, kir::constant(acc, 1), kir::constant(acc, 0));
  }
  static Expr foldFinish(LowerContext& c, const Index&, std::span<const Expr> acc) {
    return c.narrow(acc.size() == 1 ? acc[0] : Expr::apply(ScalarOp::Div, acc[0], acc[1], {}));
  }
};

}  // namespace

RLX_DEFINE_OP(DotGeneral)
RLX_DEFINE_OP(Conv)
RLX_DEFINE_OP(Pool)

}  // namespace rlx::ops
