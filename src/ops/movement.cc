// Ops that move or make elements: structure, convert, reshape, transpose, broadcast, slice, pad,
// concat, iota.
#include <algorithm>

#include "ops/rule.h"

namespace rlx::ops {
namespace {

struct Input {
  using Attributes = InputAttrs;
  static constexpr std::string_view doc = "A graph argument.";
  static constexpr int minInputs = 0, maxInputs = 0;
  static constexpr bool leaf = true;
  static Infer infer(const InferContext& c) {
    const auto& a = c.attrs.as<InputAttrs>();
    return one(a.dtype, a.shape);
  }
  static RefResult reference(const RefContext&) { RLX_UNREACHABLE("an input is not computed"); }
};

struct Constant {
  using Attributes = ConstantAttrs;
  static constexpr std::string_view doc = "A literal tensor: a weight or a constant.";
  static constexpr int minInputs = 0, maxInputs = 0;
  static constexpr bool leaf = true;
  static Infer infer(const InferContext& c) {
    const Literal& v = c.attrs.as<ConstantAttrs>().value;
    return one(v.dtype, Shape(v.shape.begin(), v.shape.end()));
  }
  static RefResult reference(const RefContext& c) {
    RLX_TRY(RefTensor t, fromLiteral(c.attrs.as<ConstantAttrs>().value));
    return single(std::move(t));
  }
};

struct Convert {
  using Attributes = ConvertAttrs;
  static constexpr std::string_view doc =
      "Value conversion: float to integer toward zero and saturating with NaN to 0, to bool by "
      "comparison with 0, integers wrap, narrower floats round to nearest even.";
  static constexpr int minInputs = 1, maxInputs = 1;
  static Infer infer(const InferContext& c) {
    RLX_OK(requireKind(c, 0, "fib"));
    const DType to = c.attrs.as<ConvertAttrs>().dtype;
    if (info(to).kind == DTypeKind::Block || isComplex(to))
      return typeError(c, "to dtype " + std::string(rlx::name(to)) + " is not defined");
    return one(to, c.types[0].shape);
  }
  static RefResult reference(const RefContext& c) {
    RefTensor y = c.out();
    const RefTensor& x = c.in(0);
    for (int64_t k = 0; k < y.elements(); ++k) {
      if (x.isInt() && y.isInt())
        y.setInteger(k, x.integer(k));
      else
        y.setNumber(k, isFloat(y.dtype) ? roundTo(y.dtype, x.number(k)) : x.number(k));
    }
    return single(std::move(y));
  }
  static kir::Expr element(LowerContext& c, const Index& at) {
    // Between narrow types through the compute types, so that every step is one defined cast.
    const DType from = c.operands[0]->dtype, to = c.results[0]->dtype;
    kir::Expr x = c.operand(0, at);
    if (from == to) return x;
    x = kir::cast(computeType(from), x);
    if (to == DType::Bool) return kir::cast(to, x);
    if (isFloat(computeType(from)) && isInteger(to) && info(to).bits < 32) {
      // Saturate to the narrow range before the wrapping integer cast.
      const DType f = x->type;
      const double lo = isSigned(to) ? -static_cast<double>(int64_t{1} << (info(to).bits - 1)) : 0;
      const double hi = static_cast<double>((int64_t{1} << (info(to).bits - isSigned(to))) - 1);
      x = c.let(x);
      x = choose(kir::Expr::apply(ScalarOp::IsNan, x, {}, {}), kir::constant(f, 0), x);
      x = kir::Expr::apply(ScalarOp::Max, x, kir::constant(f, lo), {});
      x = kir::Expr::apply(ScalarOp::Min, x, kir::constant(f, hi), {});
    }
    if (x->type == DType::F64 && isFloat(to) && info(to).bits < 32) return kir::cast(to, x);
    return kir::cast(to, kir::cast(computeType(to), x));
  }
};

struct Reshape {
  using Attributes = ShapeAttrs;
  static constexpr std::string_view doc = "The same elements, row-major, in another shape.";
  static constexpr int minInputs = 1, maxInputs = 1;
  static constexpr bool indexOnly = true;
  static Infer infer(const InferContext& c) {
    const Shape& s = c.attrs.as<ShapeAttrs>().shape;
    if (!(elements(s) == elements(c.types[0].shape)))
      return shapeError(c, text(c.types[0].shape) + " has " + elements(c.types[0].shape).text() +
                               " elements, " + text(s) + " has " + elements(s).text());
    return one(c.types[0].dtype, s);
  }
  static RefResult reference(const RefContext& c) {
    RefTensor y = c.in(0);
    y.shape = c.results[0].shape;
    return single(std::move(y));
  }
  static kir::Expr element(LowerContext& c, const Index& at) {
    return c.operand(0, reshapeIndex(c, at, c.results[0]->shape, c.shape(0)));
  }
};

struct Transpose {
  using Attributes = TransposeAttrs;
  static constexpr std::string_view doc = "Permutes axes: result axis k is operand axis perm[k].";
  static constexpr int minInputs = 1, maxInputs = 1;
  static constexpr bool indexOnly = true;
  static Infer infer(const InferContext& c) {
    const auto& perm = c.attrs.as<TransposeAttrs>().perm;
    const Shape& s = c.types[0].shape;
    std::vector<bool> seen(s.size());
    Shape out;
    for (const int64_t p : perm) {
      if (p < 0 || static_cast<std::size_t>(p) >= s.size() || seen[static_cast<std::size_t>(p)])
        return attributeError(c, "perm " + toText(perm) + " is not a permutation of rank " +
                                     std::to_string(s.size()));
      seen[static_cast<std::size_t>(p)] = true;
      out.push_back(s[static_cast<std::size_t>(p)]);
    }
    if (out.size() != s.size())
      return attributeError(c, "perm " + toText(perm) + " for rank " + std::to_string(s.size()));
    return one(c.types[0].dtype, std::move(out));
  }
  static RefResult reference(const RefContext& c) {
    RefTensor y = c.out();
    const auto& perm = c.attrs.as<TransposeAttrs>().perm;
    std::vector<int64_t> from(perm.size());
    forEach(y.shape, [&](const std::vector<int64_t>& at, int64_t flat) {
      for (std::size_t k = 0; k < perm.size(); ++k) from[static_cast<std::size_t>(perm[k])] = at[k];
      copyElement(y, flat, c.in(0), offsetOf(from, c.in(0).shape));
    });
    return single(std::move(y));
  }
  static kir::Expr element(LowerContext& c, const Index& at) {
    const auto& perm = c.attrs<TransposeAttrs>().perm;
    Index from(perm.size());
    for (std::size_t k = 0; k < perm.size(); ++k) from[static_cast<std::size_t>(perm[k])] = at[k];
    return c.operand(0, from);
  }
};

struct Broadcast {
  using Attributes = ShapeAttrs;
  static constexpr std::string_view doc =
      "Repeats axes of extent 1, right-aligned, to a larger shape.";
  static constexpr int minInputs = 1, maxInputs = 1;
  static constexpr bool indexOnly = true;
  static Infer infer(const InferContext& c) {
    const Shape& s = c.attrs.as<ShapeAttrs>().shape;
    RLX_TRY(const Shape both, broadcastShapes("broadcast", c.types[0].shape, s));
    if (both != s) return shapeError(c, text(c.types[0].shape) + " does not fit in " + text(s));
    return one(c.types[0].dtype, s);
  }
  static RefResult reference(const RefContext& c) {
    RefTensor y = c.out();
    forEach(y.shape, [&](const std::vector<int64_t>& at, int64_t flat) {
      copyElement(y, flat, c.in(0), broadcastOffset(at, c.in(0).shape));
    });
    return single(std::move(y));
  }
  static kir::Expr element(LowerContext& c, const Index& at) {
    return c.operand(0, broadcastIndex(at, c.shape(0)));
  }
};

struct Slice {
  using Attributes = SliceAttrs;
  static constexpr std::string_view doc =
      "Element i of an axis is operand element start + i * step; importers clamp the bounds.";
  static constexpr int minInputs = 1, maxInputs = 1;
  static constexpr bool indexOnly = true;
  static Infer infer(const InferContext& c) {
    const auto& a = c.attrs.as<SliceAttrs>();
    const Shape& s = c.types[0].shape;
    if (a.start.size() != s.size() || a.size.size() != s.size() || a.step.size() != s.size())
      return attributeError(c, "start, size and step need one entry for each of " +
                                   std::to_string(s.size()) + " axes");
    for (std::size_t k = 0; k < s.size(); ++k) {
      if (a.step[k] == 0) return attributeError(c, "step 0 on axis " + std::to_string(k));
      if (!s[k].isConst() || !a.start[k].isConst() || !a.size[k].isConst()) continue;
      const int64_t n = a.size[k].value(), first = a.start[k].value();
      int64_t last = first;
      const bool overflow = __builtin_mul_overflow(n - 1, a.step[k], &last) ||
                            __builtin_add_overflow(last, first, &last);
      if (n < 0 || overflow ||
          (n > 0 && (first < 0 || first >= s[k].value() || last < 0 || last >= s[k].value())))
        return shapeError(c, "elements " + std::to_string(first) + " to " + std::to_string(last) +
                                 " of axis " + std::to_string(k) + " with extent " + s[k].text());
    }
    return one(c.types[0].dtype, a.size);
  }
  static RefResult reference(const RefContext& c) {
    RefTensor y = c.out();
    const auto& a = c.attrs.as<SliceAttrs>();
    const auto& s = c.in(0).shape;
    std::vector<int64_t> start;
    for (const Dim& d : a.start) start.push_back(c.dim(d));
    std::vector<int64_t> from(s.size());
    forEach(y.shape, [&](const std::vector<int64_t>& at, int64_t flat) {
      for (std::size_t k = 0; k < from.size(); ++k) from[k] = start[k] + at[k] * a.step[k];
      copyElement(y, flat, c.in(0), offsetOf(from, s));
    });
    return single(std::move(y));
  }
  static kir::Expr element(LowerContext& c, const Index& at) {
    const auto& a = c.attrs<SliceAttrs>();
    Index from;
    for (std::size_t k = 0; k < at.size(); ++k)
      from.push_back(add(c.dim(a.start[k]), mul(at[k], kir::index(a.step[k]))));
    return c.operand(0, from);
  }
};

// The operand coordinate that a padded coordinate reads (edge, reflect, wrap).
int64_t padSource(PadMode mode, int64_t i, int64_t n) {
  switch (mode) {
    case PadMode::Edge: return std::clamp<int64_t>(i, 0, n - 1);
    case PadMode::Reflect: {
      if (n == 1) return 0;
      const int64_t period = 2 * (n - 1);
      const int64_t m = ((i % period) + period) % period;
      return m < n ? m : period - m;
    }
    case PadMode::Wrap: return ((i % n) + n) % n;
    case PadMode::Constant: return i;
  }
  return i;
}

struct Pad {
  using Attributes = PadAttrs;
  static constexpr std::string_view doc =
      "Adds (or, when negative, drops) elements before and after each axis: a constant (operand 1, "
      "else 0), the edge, a reflection without the edge, or the other end.";
  static constexpr int minInputs = 1, maxInputs = 2;
  static constexpr double cost = 2;
  static Infer infer(const InferContext& c) {
    const auto& a = c.attrs.as<PadAttrs>();
    const Shape& s = c.types[0].shape;
    if (a.low.size() != s.size() || a.high.size() != s.size())
      return attributeError(
          c, "low and high need one entry for each of " + std::to_string(s.size()) + " axes");
    if (c.types.size() > 1 && c.present[1] &&
        (c.types[1].dtype != c.types[0].dtype || !elements(c.types[1].shape).is(1)))
      return typeError(c, "the constant must be one element of dtype " +
                              std::string(rlx::name(c.types[0].dtype)));
    Shape out;
    for (std::size_t k = 0; k < s.size(); ++k) {
      out.push_back(s[k] + a.low[k] + a.high[k]);
      if (out[k].isConst() && out[k].value() < 0)
        return shapeError(c, "axis " + std::to_string(k) + " would have extent " + out[k].text());
      if (a.mode != PadMode::Constant && s[k].is(0) && !out[k].is(0))
        return shapeError(c, "axis " + std::to_string(k) + " is empty and has nothing to repeat");
    }
    return one(c.types[0].dtype, std::move(out));
  }
  static RefResult reference(const RefContext& c) {
    RefTensor y = c.out();
    const RefTensor& x = c.in(0);
    const auto& a = c.attrs.as<PadAttrs>();
    std::vector<int64_t> from(x.shape.size());
    forEach(y.shape, [&](const std::vector<int64_t>& at, int64_t flat) {
      bool inside = true;
      for (std::size_t k = 0; k < from.size(); ++k) {
        from[k] = at[k] - c.dim(a.low[k]);
        if (a.mode != PadMode::Constant) from[k] = padSource(a.mode, from[k], x.shape[k]);
        inside = inside && from[k] >= 0 && from[k] < x.shape[k];
      }
      if (inside)
        copyElement(y, flat, x, offsetOf(from, x.shape));
      else if (c.has(1))
        copyElement(y, flat, c.in(1), 0);
    });
    return single(std::move(y));
  }
  static kir::Expr element(LowerContext& c, const Index& at) {
    const auto& a = c.attrs<PadAttrs>();
    Index from;
    kir::Expr inside = always();
    for (std::size_t k = 0; k < at.size(); ++k) {
      if (a.low[k].is(0) && a.high[k].is(0)) {
        from.push_back(at[k]);
        continue;
      }
      const kir::Expr n = c.dim(c.shape(0)[k]);
      kir::Expr i = c.let(sub(at[k], c.dim(a.low[k])));
      const kir::Expr zero = kir::index(0), last = sub(n, kir::index(1));
      switch (a.mode) {
        case PadMode::Constant: inside = both(inside, both(atLeast(i, zero), less(i, n))); break;
        case PadMode::Edge:
          i = kir::Expr::apply(ScalarOp::Min, kir::Expr::apply(ScalarOp::Max, i, zero, {}), last,
                               {});
          break;
        case PadMode::Reflect: {
          const kir::Expr period =
              c.let(kir::Expr::apply(ScalarOp::Max, mul(kir::index(2), last), kir::index(1), {}));
          const kir::Expr m = c.let(kir::Expr::apply(ScalarOp::Mod, i, period, {}));
          i = kir::Expr::apply(ScalarOp::Min, choose(less(m, n), m, sub(period, m)), last, {});
          break;
        }
        case PadMode::Wrap: i = kir::Expr::apply(ScalarOp::Mod, i, n, {}); break;
      }
      from.push_back(c.let(i));
    }
    kir::Expr otherwise = kir::zero(c.results[0]->dtype);
    if (c.has(1)) {
      Index origin(c.shape(1).size(), kir::index(0));
      otherwise = c.operand(1, origin);
    }
    return c.operandIf(0, from, c.let(inside), otherwise);
  }
};

struct Concat {
  using Attributes = AxisAttrs;
  static constexpr std::string_view doc = "Joins operands along an axis.";
  static constexpr int minInputs = 1, maxInputs = -1;
  static constexpr double cost = 2;
  static Infer infer(const InferContext& c) {
    Shape out = c.types[0].shape;
    RLX_TRY(const int64_t axis, normalizeAxis("concat", c.attrs.as<AxisAttrs>().axis, out.size()));
    const auto a = static_cast<std::size_t>(axis);
    for (std::size_t k = 1; k < c.types.size(); ++k) {
      const Shape& s = c.types[k].shape;
      if (c.types[k].dtype != c.types[0].dtype)
        return typeError(c, "operand " + std::to_string(k) + " has dtype " +
                                std::string(rlx::name(c.types[k].dtype)) + ", the first " +
                                std::string(rlx::name(c.types[0].dtype)));
      if (s.size() != out.size())
        return shapeError(c, "operands of ranks " + std::to_string(out.size()) + " and " +
                                 std::to_string(s.size()));
      for (std::size_t d = 0; d < s.size(); ++d) {
        if (d == a)
          out[d] = out[d] + s[d];
        else if (!(s[d] == out[d]))
          return shapeError(c, "operand " + std::to_string(k) + " has shape " + text(s) +
                                   ", the first " + text(c.types[0].shape));
      }
    }
    return one(c.types[0].dtype, std::move(out));
  }
  static RefResult reference(const RefContext& c) {
    RefTensor y = c.out();
    const auto axis = static_cast<std::size_t>(
        *normalizeAxis("concat", c.attrs.as<AxisAttrs>().axis, y.shape.size()));
    int64_t base = 0;
    for (const RefTensor* x : c.inputs) {
      forEach(x->shape, [&](const std::vector<int64_t>& at, int64_t flat) {
        std::vector<int64_t> to = at;
        to[axis] += base;
        copyElement(y, offsetOf(to, y.shape), *x, flat);
      });
      base += x->shape[axis];
    }
    return single(std::move(y));
  }
  static kir::Expr element(LowerContext& c, const Index& at) {
    const auto axis =
        static_cast<std::size_t>(*normalizeAxis("concat", c.attrs<AxisAttrs>().axis, at.size()));
    std::vector<Dim> base{Dim(0)};
    for (std::size_t k = 0; k < c.operands.size(); ++k) base.push_back(base[k] + c.shape(k)[axis]);
    // The last operand first: each earlier one overrides where its range ends later.
    kir::Expr y;
    for (std::size_t k = c.operands.size(); k-- > 0;) {
      Index from = at;
      from[axis] = sub(at[axis], c.dim(base[k]));
      if (!y) {
        const kir::Expr zero = kir::zero(c.results[0]->dtype);
        y = k == 0 ? c.operand(k, from)
                   : c.operandIf(k, from, atLeast(at[axis], c.dim(base[k])), zero);
      } else {
        kir::Expr when = less(at[axis], c.dim(base[k + 1]));
        if (k > 0) when = both(when, atLeast(at[axis], c.dim(base[k])));
        y = c.operandIf(k, from, when, y);
      }
    }
    return y;
  }
};

struct Iota {
  using Attributes = IotaAttrs;
  static constexpr std::string_view doc = "The index along an axis.";
  static constexpr int minInputs = 0, maxInputs = 0;
  static constexpr bool indexOnly = true;
  static Infer infer(const InferContext& c) {
    const auto& a = c.attrs.as<IotaAttrs>();
    RLX_OK(normalizeAxis("iota", a.axis, a.shape.size()));
    if (!isFloat(a.dtype) && !isInteger(a.dtype))
      return typeError(c, "of dtype " + std::string(rlx::name(a.dtype)));
    return one(a.dtype, a.shape);
  }
  static RefResult reference(const RefContext& c) {
    RefTensor y = c.out();
    const auto axis = static_cast<std::size_t>(
        *normalizeAxis("iota", c.attrs.as<IotaAttrs>().axis, y.shape.size()));
    forEach(y.shape, [&](const std::vector<int64_t>& at, int64_t flat) {
      if (y.isInt())
        y.setInteger(flat, at[axis]);
      else
        y.setNumber(flat, static_cast<double>(at[axis]));
    });
    return single(std::move(y));
  }
  static kir::Expr element(LowerContext& c, const Index& at) {
    const auto axis =
        static_cast<std::size_t>(*normalizeAxis("iota", c.attrs<IotaAttrs>().axis, at.size()));
    return c.narrow(kir::cast(computeType(c.results[0]->dtype), at[axis]));
  }
};

struct Roll {
  using Attributes = RollAttrs;
  static constexpr std::string_view doc =
      "Element i of the axis is operand element i - shift, counted round the end.";
  static constexpr int minInputs = 1, maxInputs = 1;
  static constexpr bool indexOnly = true;
  static Infer infer(const InferContext& c) {
    RLX_OK(normalizeAxis("roll", c.attrs.as<RollAttrs>().axis, c.types[0].shape.size()));
    return Types{c.types[0]};
  }
  static RefResult reference(const RefContext& c) {
    const auto& a = c.attrs.as<RollAttrs>();
    RefTensor y = c.out();
    const auto axis = static_cast<std::size_t>(*normalizeAxis("roll", a.axis, y.shape.size()));
    const int64_t n = y.shape[axis];
    forEach(y.shape, [&](const std::vector<int64_t>& at, int64_t flat) {
      std::vector<int64_t> from = at;
      from[axis] = ((at[axis] - a.shift % n) % n + n) % n;
      copyElement(y, flat, c.in(0), offsetOf(from, y.shape));
    });
    return single(std::move(y));
  }
  static kir::Expr element(LowerContext& c, const Index& at) {
    const auto& a = c.attrs<RollAttrs>();
    const auto axis = static_cast<std::size_t>(*normalizeAxis("roll", a.axis, at.size()));
    const kir::Expr n = c.dim(c.shape(0)[axis]);
    const kir::Expr shift = kir::Expr::apply(ScalarOp::Rem, kir::index(a.shift), n, {});
    Index from = at;
    from[axis] = kir::Expr::apply(ScalarOp::Mod, sub(at[axis], shift), n, {});
    return c.operand(0, from);
  }
};

struct DimValue {
  using Attributes = DimAttrs;
  static constexpr std::string_view doc = "A symbolic extent as a rank-0 value.";
  static constexpr int minInputs = 0, maxInputs = 0;
  static constexpr bool indexOnly = true;
  static Infer infer(const InferContext& c) {
    const auto& a = c.attrs.as<DimAttrs>();
    if (!isFloat(a.dtype) && !isInteger(a.dtype))
      return typeError(c, "of dtype " + std::string(rlx::name(a.dtype)));
    return one(a.dtype, {});
  }
  static RefResult reference(const RefContext& c) {
    RefTensor y = c.out();
    const int64_t v = c.dim(c.attrs.as<DimAttrs>().value);
    if (y.isInt())
      y.setInteger(0, v);
    else
      y.setNumber(0, static_cast<double>(v));
    return single(std::move(y));
  }
  static kir::Expr element(LowerContext& c, const Index&) {
    return c.narrow(kir::cast(computeType(c.results[0]->dtype), c.dim(c.attrs<DimAttrs>().value)));
  }
};

}  // namespace

RLX_DEFINE_OP(DimValue)
RLX_DEFINE_OP(Roll)
RLX_DEFINE_OP(Input)
RLX_DEFINE_OP(Constant)
RLX_DEFINE_OP(Convert)
RLX_DEFINE_OP(Reshape)
RLX_DEFINE_OP(Transpose)
RLX_DEFINE_OP(Broadcast)
RLX_DEFINE_OP(Slice)
RLX_DEFINE_OP(Pad)
RLX_DEFINE_OP(Concat)
RLX_DEFINE_OP(Iota)

}  // namespace rlx::ops
