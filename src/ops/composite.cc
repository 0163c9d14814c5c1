// Composites: ops as users and files know them, defined by simpler ops. Every device has them
// through the decomposition; the reference is written separately, so that the two check each other.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ops/rule.h"

namespace rlx::ops {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// Composites compute in f32 for narrower floats and round once at the end.
struct Widened {
  DType storage;
  Value operator()(Value v) const { return v ? convert(v, computeType(storage)) : v; }
  Value back(Value v) const { return convert(v, storage); }
};
Value unary(ScalarOp op, Value x) {
  return emitScalar(op, {x});
}

int64_t axisOf(int64_t axis, int64_t rank) {
  return axis < 0 ? axis + rank : axis;
}

// Calls fn(flat offset of element 0, stride) for each line along an axis.
template <class F>
void forEachLine(const std::vector<int64_t>& shape, std::size_t axis, F&& fn) {
  const int64_t stride = rowMajorStrides(shape)[axis];
  forEach(shape, [&](const std::vector<int64_t>& at, int64_t flat) {
    if (at[axis] == 0) fn(flat, stride);
  });
}

template <bool Log>
struct SoftmaxOf {
  using Attributes = SoftmaxAttrs;
  static constexpr std::string_view doc = Log ? "Logarithm of softmax along an axis."
                                              : "exp(x - max) / sum(exp(x - max)) along an axis.";
  static constexpr int minInputs = 1, maxInputs = 1;
  static Infer infer(const InferContext& c) {
    RLX_OK(requireKind(c, 0, "f"));
    RLX_OK(normalizeAxis(name(c.op), c.attrs.as<SoftmaxAttrs>().axis, c.types[0].shape.size()));
    return Types{c.types[0]};
  }
  static RefResult reference(const RefContext& c) {
    RefTensor y = c.in(0);
    const auto axis = static_cast<std::size_t>(
        axisOf(c.attrs.as<SoftmaxAttrs>().axis, static_cast<int64_t>(y.shape.size())));
    const int64_t n = y.shape[axis];
    forEachLine(y.shape, axis, [&](int64_t flat, int64_t stride) {
      double m = -kInf, s = 0;
      for (int64_t k = 0; k < n; ++k)
        m = scalar::value(ScalarOp::Max, m, y.number(flat + k * stride), 0);
      for (int64_t k = 0; k < n; ++k) s += std::exp(y.number(flat + k * stride) - m);
      for (int64_t k = 0; k < n; ++k) {
        const double d = y.number(flat + k * stride) - m;
        y.setNumber(flat + k * stride, Log ? d - std::log(s) : std::exp(d) / s);
      }
    });
    return single(std::move(y));
  }
  static std::vector<Value> decompose(Builder&, std::span<const Value> in, const Attrs& attrs) {
    const Widened w{in[0].dtype()};
    const std::vector<int64_t> axes{axisOf(attrs.as<SoftmaxAttrs>().axis, in[0].rank())};
    const Value x = w(in[0]);
    const Value d = x - reduce(x, ReduceKind::Max, axes, KeepDims::Yes);
    const Value e = unary(ScalarOp::Exp, d);
    const Value s = reduce(e, ReduceKind::Sum, axes, KeepDims::Yes);
    // A sum is at least 1: its inverse is exact enough, and one division does for a row.
    return {w.back(Log ? d - unary(ScalarOp::Log, s) : e * unary(ScalarOp::Recip, s))};
  }
};
using Softmax = SoftmaxOf<false>;
using LogSoftmax = SoftmaxOf<true>;

template <bool Centred>
struct NormOf {
  using Attributes = NormAttrs;
  static constexpr std::string_view doc =
      Centred ? "(x - mean) / sqrt(variance + epsilon) * scale + bias over the axes from `axis` on."
              : "x / sqrt(mean(x^2) + epsilon) * scale over the axes from `axis` on.";
  static constexpr int minInputs = 1, maxInputs = Centred ? 3 : 2;
  static Infer infer(const InferContext& c) {
    RLX_OK(requireKind(c, 0, "f"));
    const Shape& s = c.types[0].shape;
    RLX_TRY(const int64_t axis, normalizeAxis(name(c.op), c.attrs.as<NormAttrs>().axis, s.size()));
    const Shape inner(s.begin() + axis, s.end());
    for (std::size_t k = 1; k < c.types.size(); ++k) {
      if (!c.present[k]) continue;
      if (c.types[k].dtype != c.types[0].dtype)
        return typeError(c, "scale and bias need the dtype of the input");
      RLX_TRY(const Shape both, broadcastShapes(name(c.op), c.types[k].shape, s));
      if (both != s)
        return shapeError(c, "operand " + std::to_string(k) + " has shape " +
                                 text(c.types[k].shape) + ", expected " + text(inner));
    }
    return Types{c.types[0]};
  }
  static RefResult reference(const RefContext& c) {
    const auto& a = c.attrs.as<NormAttrs>();
    RefTensor y = c.in(0);
    const auto axis =
        static_cast<std::size_t>(axisOf(a.axis, static_cast<int64_t>(y.shape.size())));
    const int64_t n = product(std::span(y.shape).subspan(axis));
    for (int64_t row = 0; row + n <= y.elements() && n > 0; row += n) {
      double mean = 0, square = 0;
      if (Centred)
        for (int64_t k = 0; k < n; ++k) mean += y.number(row + k) / static_cast<double>(n);
      for (int64_t k = 0; k < n; ++k)
        square += std::pow(y.number(row + k) - mean, 2) / static_cast<double>(n);
      for (int64_t k = 0; k < n; ++k)
        y.setNumber(row + k, (y.number(row + k) - mean) / std::sqrt(square + a.epsilon));
    }
    forEach(y.shape, [&](const std::vector<int64_t>& at, int64_t flat) {
      double v = y.number(flat);
      if (c.has(1)) v *= c.in(1).number(broadcastOffset(at, c.in(1).shape));
      if (c.has(2)) v += c.in(2).number(broadcastOffset(at, c.in(2).shape));
      y.setNumber(flat, v);
    });
    return single(std::move(y));
  }
  static std::vector<Value> decompose(Builder& b, std::span<const Value> in, const Attrs& attrs) {
    const auto& a = attrs.as<NormAttrs>();
    const Widened w{in[0].dtype()};
    const int64_t axis = axisOf(a.axis, in[0].rank());
    std::vector<int64_t> axes(static_cast<std::size_t>(in[0].rank() - axis));
    std::iota(axes.begin(), axes.end(), axis);
    const Value x = w(in[0]);
    Dim n(1);
    for (const int64_t k : axes) n = n * in[0].shape()[static_cast<std::size_t>(k)];
    const Value count = dimValue(b, x.dtype(), n);
    auto mean = [&](Value v) { return reduce(v, ReduceKind::Sum, axes, KeepDims::Yes) / count; };
    const Value d = Centred ? x - mean(x) : x;
    Value y = d * unary(ScalarOp::Rsqrt, mean(d * d) + literal(x, a.epsilon));
    if (in.size() > 1 && in[1]) y = y * w(in[1]);
    if (in.size() > 2 && in[2]) y = y + w(in[2]);
    return {w.back(y)};
  }
};
using LayerNorm = NormOf<true>;
using RmsNorm = NormOf<false>;

struct BatchNorm {
  using Attributes = EpsilonAttrs;
  static constexpr std::string_view doc =
      "Inference: (x - mean[c]) / sqrt(variance[c] + epsilon) * scale[c] + bias[c]; operands x, "
      "scale, bias, "
      "mean, variance; channels on axis 1.";
  static constexpr int minInputs = 5, maxInputs = 5;
  static Infer infer(const InferContext& c) {
    RLX_OK(requireKind(c, 0, "f"));
    const Shape& s = c.types[0].shape;
    if (s.size() < 2)
      return shapeError(c, "operand 0 has shape " + text(s) + ", expected [n, c, ...]");
    for (std::size_t k = 1; k < 5; ++k)
      if (c.types[k].shape != Shape{s[1]} || !isFloat(c.types[k].dtype))
        return shapeError(c, "operand " + std::to_string(k) + " has type " + text(c.types[k]) +
                                 ", expected [" + s[1].text() + "]");
    return Types{c.types[0]};
  }
  static RefResult reference(const RefContext& c) {
    RefTensor y = c.in(0);
    const double eps = c.attrs.as<EpsilonAttrs>().epsilon;
    forEach(y.shape, [&](const std::vector<int64_t>& at, int64_t flat) {
      const int64_t k = at[1];
      y.setNumber(flat, (y.number(flat) - c.in(3).number(k)) / std::sqrt(c.in(4).number(k) + eps) *
                                c.in(1).number(k) +
                            c.in(2).number(k));
    });
    return single(std::move(y));
  }
  static std::vector<Value> decompose(Builder&, std::span<const Value> in, const Attrs& attrs) {
    const Widened w{in[0].dtype()};
    const DType t = computeType(in[0].dtype());
    Shape column(static_cast<std::size_t>(in[0].rank()) - 1, Dim(1));
    column[0] = in[0].shape()[1];
    auto channel = [&](Value v) { return reshape(convert(v, t), column); };
    const Value variance = channel(in[4]);
    const Value factor =
        channel(in[1]) /
        unary(ScalarOp::Sqrt, variance + literal(variance, attrs.as<EpsilonAttrs>().epsilon));
    return {w.back((w(in[0]) - channel(in[3])) * factor + channel(in[2]))};
  }
};

struct MatMul {
  using Attributes = NoAttrs;
  static constexpr std::string_view doc =
      "Matrix product as in NumPy: [..., m, k] x [..., k, n]; batch axes broadcast; rank 1 "
      "operands are a row "
      "or a column that is dropped again.";
  static constexpr int minInputs = 2, maxInputs = 2;
  static Infer infer(const InferContext& c) {
    RLX_OK(requireKind(c, 0, "fi"));
    if (c.types[0].dtype != c.types[1].dtype)
      return typeError(c, "operands have dtypes " + std::string(name(c.types[0].dtype)) + " and " +
                              std::string(name(c.types[1].dtype)));
    RLX_TRY(Shape out, resultShape(c));
    return one(c.types[0].dtype, std::move(out));
  }
  static Result<Shape> resultShape(const InferContext& c) {
    Shape a = c.types[0].shape, b = c.types[1].shape;
    if (a.empty() || b.empty()) return shapeError(c, "operands must have rank 1 or more");
    const bool row = a.size() == 1, column = b.size() == 1;
    if (row) a.insert(a.begin(), Dim(1));
    if (column) b.emplace_back(1);
    if (!(a.back() == b[b.size() - 2]))
      return shapeError(
          c, "inner dimensions differ, " + a.back().text() + " against " + b[b.size() - 2].text());
    RLX_TRY(Shape out, broadcastShapes("matmul", Shape(a.begin(), a.end() - 2),
                                       Shape(b.begin(), b.end() - 2)));
    if (!row) out.push_back(a[a.size() - 2]);
    if (!column) out.push_back(b.back());
    return out;
  }
  static RefResult reference(const RefContext& c) {
    const RefTensor &a = c.in(0), &b = c.in(1);
    RefTensor y = c.out();
    std::vector<int64_t> as = a.shape, bs = b.shape;
    if (as.size() == 1) as.insert(as.begin(), 1);
    if (bs.size() == 1) bs.push_back(1);
    const int64_t m = as[as.size() - 2], k = as.back(), n = bs.back();
    std::vector<int64_t> batch = y.shape;
    if (a.shape.size() > 1) batch.pop_back();
    if (b.shape.size() > 1) batch.pop_back();
    const std::vector<int64_t> ab(as.begin(), as.end() - 2), bb(bs.begin(), bs.end() - 2);
    forEach(batch, [&](const std::vector<int64_t>& at, int64_t flat) {
      auto base = [&](const std::vector<int64_t>& s, int64_t size) {
        return broadcastOffset(at, s) * size;
      };
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          double f = 0;
          RefTensor::Wide w = 0;
          for (int64_t p = 0; p < k; ++p) {
            const int64_t x = base(ab, m * k) + i * k + p, z = base(bb, k * n) + p * n + j;
            if (y.isInt())
              w += scalar::wrapMul(a.integer(x), b.integer(z));
            else
              f += a.number(x) * b.number(z);
          }
          const int64_t to = (flat * m + i) * n + j;
          if (y.isInt())
            y.setInteger(to, w);
          else
            y.setNumber(to, f);
        }
    });
    return single(std::move(y));
  }
  static std::vector<Value> decompose(Builder&, std::span<const Value> in, const Attrs&) {
    return {byDots(in[0], in[1], {})};
  }
  // By dot_general; the dtype of the result as in its attributes.
  static Value byDots(Value x, Value y, std::optional<DType> result) {
    Builder& b = *x.builder;
    auto out =
        resultShape(InferContext{OpKind::MatMul, {x.type(), y.type()}, {true, true}, {}, {}});
    if (!out) return b.fail(std::move(out).error()), x;
    if (y.rank() <= 2)  // one matrix for all rows of the left
      return dotGeneral(x, y, {{}, {}, {x.rank() - 1}, {0}, result});
    if (x.rank() == 1) x = reshape(x, {Dim(1), x.shape()[0]});
    const Shape xb(x.shape().begin(), x.shape().end() - 2),
        yb(y.shape().begin(), y.shape().end() - 2);
    auto batch = broadcastShapes("matmul", xb, yb);
    if (!batch) return b.fail(std::move(batch).error()), x;
    auto widen = [&](Value v) {
      Shape s = *batch;
      s.insert(s.end(), v.shape().end() - 2, v.shape().end());
      return broadcastTo(v, s);
    };
    x = widen(x), y = widen(y);
    std::vector<int64_t> axes(batch->size());
    std::iota(axes.begin(), axes.end(), 0);
    const auto r = static_cast<int64_t>(axes.size());
    return reshape(dotGeneral(x, y, {axes, axes, {r + 1}, {r}, result}), *out);
  }
};

struct Linear {
  using Attributes = LinearAttrs;
  static constexpr std::string_view doc =
      "x [..., k] times a weight [k, n] (or [n, k] when transposed), plus a bias [n].";
  static constexpr int minInputs = 2, maxInputs = 3;
  static Infer infer(const InferContext& c) {
    RLX_OK(requireKind(c, 0, "f"));
    RLX_OK(requireRank(c, 1, 2));
    const bool t = c.attrs.as<LinearAttrs>().transposed;
    Shape s = c.types[0].shape;
    const Shape& w = c.types[1].shape;
    if (s.empty() || !(s.back() == w[t ? 1 : 0]))
      return shapeError(c, "inner dimensions differ, " + text(s) + " against weight " + text(w));
    s.back() = w[t ? 0 : 1];
    for (std::size_t k = 1; k < c.types.size(); ++k)
      if (c.present[k] && c.types[k].dtype != c.types[0].dtype)
        return typeError(c, "operands differ in dtype");
    if (c.types.size() > 2 && c.present[2] && c.types[2].shape != Shape{s.back()})
      return shapeError(
          c, "bias has shape " + text(c.types[2].shape) + ", expected [" + s.back().text() + "]");
    return one(c.types[0].dtype, std::move(s));
  }
  static RefResult reference(const RefContext& c) {
    const RefTensor &x = c.in(0), &w = c.in(1);
    RefTensor y = c.out();
    const int64_t k = x.shape.back(), n = y.shape.back();
    const bool t = c.attrs.as<LinearAttrs>().transposed;
    for (int64_t to = 0; to < y.elements(); ++to) {
      const int64_t i = to / n, j = to % n;
      double f = c.has(2) ? c.in(2).number(j) : 0;
      for (int64_t p = 0; p < k; ++p)
        f += x.number(i * k + p) * w.number(t ? j * k + p : p * n + j);
      y.setNumber(to, f);
    }
    return single(std::move(y));
  }
  static std::vector<Value> decompose(Builder&, std::span<const Value> in, const Attrs& attrs) {
    const bool bias = in.size() > 2 && in[2];
    const Value y = dotGeneral(
        in[0], in[1], {{}, {}, {in[0].rank() - 1}, {attrs.as<LinearAttrs>().transposed ? 1 : 0}});
    return {bias ? y + in[2] : y};
  }
};

struct Embedding {
  using Attributes = NoAttrs;
  static constexpr std::string_view doc = "Rows of a table [vocabulary, width] at integer indices.";
  static constexpr int minInputs = 2, maxInputs = 2;
  static Infer infer(const InferContext& c) {
    RLX_OK(requireRank(c, 0, 2));
    RLX_OK(requireKind(c, 1, "i"));
    Shape s = c.types[1].shape;
    s.push_back(c.types[0].shape[1]);
    if (c.types[0].shape[0].is(0) && !elements(s).is(0))
      return shapeError(c, "an empty table has no rows to look up");
    return one(c.types[0].dtype, std::move(s));
  }
  static RefResult reference(const RefContext& c) {
    return opDef(OpKind::Gather)
        .reference(
            RefContext{OpKind::Gather, Attrs::of(AxisAttrs{0}), c.inputs, c.results, c.bindings});
  }
  static std::vector<Value> decompose(Builder&, std::span<const Value> in, const Attrs&) {
    return {gather(in[0], in[1], 0)};
  }
};

struct Attention {
  using Attributes = AttentionAttrs;
  static constexpr std::string_view doc =
      "Scaled dot-product attention: q [b, h, s, d], k [b, g, t, d], v [b, g, t, e], h a multiple "
      "of g "
      "(grouped queries), mask broadcast to [b, h, s, t] (bool: true takes part; float: added). A "
      "fully "
      "masked row gives zeros. Causal: query i sees keys up to i + t - s.";
  static constexpr int minInputs = 3, maxInputs = 4;
  static Infer infer(const InferContext& c) {
    RLX_OK(requireKind(c, 0, "f"));
    for (std::size_t k = 0; k < 3; ++k) {
      RLX_OK(requireRank(c, k, 4));
      if (c.types[k].dtype != c.types[0].dtype) return typeError(c, "q, k and v differ in dtype");
    }
    const Shape &q = c.types[0].shape, &k = c.types[1].shape, &v = c.types[2].shape;
    Dim groups;
    if (!(q[0] == k[0]) || !(k[0] == v[0]) || !(k[1] == v[1]) || !(k[2] == v[2]) || !(q[3] == k[3]))
      return shapeError(c, "q " + text(q) + ", k " + text(k) + " and v " + text(v) + " do not fit");
    if (!divideExactly(q[1], k[1], &groups))
      return shapeError(
          c, q[1].text() + " query heads are no multiple of " + k[1].text() + " key heads");
    if (c.types.size() > 3 && c.present[3]) {
      if (c.types[3].dtype != DType::Bool && c.types[3].dtype != c.types[0].dtype)
        return typeError(c, "the mask must be bool or of the dtype of q");
      const Shape scores{q[0], q[1], q[2], k[2]};
      RLX_TRY(const Shape both, broadcastShapes("attention", scores, c.types[3].shape));
      if (both != scores)
        return shapeError(
            c, "mask " + text(c.types[3].shape) + " does not broadcast to " + text(scores));
    }
    return one(c.types[0].dtype, {q[0], q[1], q[2], v[3]});
  }
  static double scaleOf(const AttentionAttrs& a, int64_t d) {
    return a.scale != 0 ? a.scale : 1 / std::sqrt(static_cast<double>(d));
  }
  static RefResult reference(const RefContext& c) {
    const auto& a = c.attrs.as<AttentionAttrs>();
    const RefTensor &q = c.in(0), &k = c.in(1), &v = c.in(2);
    RefTensor y = c.out();
    const int64_t b = q.shape[0], h = q.shape[1], s = q.shape[2], d = q.shape[3], t = k.shape[2],
                  e = v.shape[3];
    const int64_t kvHeads = k.shape[1];
    std::vector<double> p(static_cast<std::size_t>(t));
    for (int64_t i = 0; i < b * h * s; ++i) {
      const int64_t row = i % s, head = i / s % h, batch = i / (s * h);
      const int64_t kv = batch * kvHeads + head / (h / std::max<int64_t>(kvHeads, 1));
      double m = -kInf, sum = 0;
      for (int64_t j = 0; j < t; ++j) {
        double x = 0;
        for (int64_t l = 0; l < d; ++l) x += q.number(i * d + l) * k.number((kv * t + j) * d + l);
        x *= scaleOf(a, d);
        if (c.has(3)) {
          const int64_t at[] = {batch, head, row, j};
          const int64_t o = broadcastOffset(at, c.in(3).shape);
          if (c.in(3).dtype == DType::Bool)
            x = c.in(3).integer(o) ? x : -kInf;
          else
            x += c.in(3).number(o);
        }
        if (a.causal && j > row + t - s) x = -kInf;
        p[static_cast<std::size_t>(j)] = x;
        m = scalar::value(ScalarOp::Max, m, x, 0);
      }
      for (double& x : p) sum += x = m == -kInf ? 0 : std::exp(x - m);
      for (int64_t l = 0; l < e; ++l) {
        double o = 0;
        for (int64_t j = 0; j < t; ++j)
          o += p[static_cast<std::size_t>(j)] * v.number((kv * t + j) * e + l);
        y.setNumber(i * e + l, sum == 0 ? 0 : o / sum);
      }
    }
    return single(std::move(y));
  }
  static std::vector<Value> decompose(Builder& b, std::span<const Value> in, const Attrs& attrs) {
    const auto& a = attrs.as<AttentionAttrs>();
    const Widened w{in[0].dtype()};
    const Value q = w(in[0]), k = w(in[1]), v = w(in[2]);
    const Shape &qs = q.shape(), &ks = k.shape();
    const Dim batch = qs[0], heads = qs[1], s = qs[2], d = qs[3], kv = ks[1], t = ks[2],
              e = v.shape()[3];
    if (!d.isConst() && a.scale == 0) {
      b.fail(Error(Errc::Unsupported, "attention: a symbolic head size needs an explicit scale"));
      return {in[0]};
    }
    Dim groups;
    (void)divideExactly(heads, kv, &groups);  // checked by infer
    // Grouped queries fold into the rows: [b, kv, groups * s, d].
    const Value rows = reshape(q, {batch, kv, groups * s, d});
    Value x = reshape(dotGeneral(rows, k, {{0, 1}, {0, 1}, {3}, {3}}), {batch, heads, s, t});
    x = x * literal(x, scaleOf(a, d.isConst() ? d.value() : 1));
    const Value lowest = literal(x, -kInf);
    if (in.size() > 3 && in[3])
      x = in[3].dtype() == DType::Bool ? emitScalar(ScalarOp::Select, {in[3], x, lowest})
                                       : x + w(in[3]);
    if (a.causal) {
      const Value row = iota(b, DType::I32, {s, Dim(1)}, 0),
                  column = iota(b, DType::I32, {Dim(1), t}, 1);
      const Value allowed =
          emitScalar(ScalarOp::Le, {column, t == s ? row : row + dimValue(b, DType::I32, t - s)});
      x = emitScalar(ScalarOp::Select, {allowed, x, lowest});
    }
    const Value m = reduce(x, ReduceKind::Max, {3}, KeepDims::Yes);
    const Value dead = emitScalar(ScalarOp::Eq, {m, lowest});  // a fully masked row
    const Value ex =
        unary(ScalarOp::Exp, x - emitScalar(ScalarOp::Select, {dead, literal(x, 0), m}));
    const Value sum = reduce(ex, ReduceKind::Sum, {3}, KeepDims::Yes);
    const Value p =
        ex * unary(ScalarOp::Recip, emitScalar(ScalarOp::Select, {dead, literal(x, 1), sum}));
    const Value y =
        dotGeneral(reshape(p, {batch, kv, groups * s, t}), v, {{0, 1}, {0, 1}, {3}, {2}});
    return {w.back(reshape(y, {batch, heads, s, e}))};
  }
};

struct L2Normalize {
  using Attributes = NormAttrs;
  static constexpr std::string_view doc = "x / max(|x|, epsilon), |x| the L2 norm along one axis.";
  static constexpr int minInputs = 1, maxInputs = 1;
  static Infer infer(const InferContext& c) {
    RLX_OK(requireKind(c, 0, "f"));
    RLX_OK(normalizeAxis(name(c.op), c.attrs.as<NormAttrs>().axis, c.types[0].shape.size()));
    return Types{c.types[0]};
  }
  static RefResult reference(const RefContext& c) {
    const auto& a = c.attrs.as<NormAttrs>();
    RefTensor y = c.in(0);
    const auto axis =
        static_cast<std::size_t>(axisOf(a.axis, static_cast<int64_t>(y.shape.size())));
    forEachLine(y.shape, axis, [&](int64_t flat, int64_t stride) {
      double square = 0;
      for (int64_t k = 0; k < y.shape[axis]; ++k)
        square += std::pow(y.number(flat + k * stride), 2);
      const double length = scalar::value(ScalarOp::Max, std::sqrt(square), a.epsilon, 0);
      for (int64_t k = 0; k < y.shape[axis]; ++k)
        y.setNumber(flat + k * stride, y.number(flat + k * stride) / length);
    });
    return single(std::move(y));
  }
  static std::vector<Value> decompose(Builder&, std::span<const Value> in, const Attrs& attrs) {
    const auto& a = attrs.as<NormAttrs>();
    const Widened w{in[0].dtype()};
    const Value x = w(in[0]);
    const Value square = reduce(x * x, ReduceKind::Sum, {axisOf(a.axis, x.rank())}, KeepDims::Yes);
    const Value length =
        emitScalar(ScalarOp::Max, {unary(ScalarOp::Sqrt, square), literal(square, a.epsilon)});
    return {w.back(x / length)};
  }
};

}  // namespace

RLX_DEFINE_OP(L2Normalize)
RLX_DEFINE_OP(Softmax)
RLX_DEFINE_OP(LogSoftmax)
RLX_DEFINE_OP(LayerNorm)
RLX_DEFINE_OP(RmsNorm)
RLX_DEFINE_OP(BatchNorm)
RLX_DEFINE_OP(MatMul)
RLX_DEFINE_OP(Linear)
RLX_DEFINE_OP(Embedding)
RLX_DEFINE_OP(Attention)

}  // namespace rlx::ops

namespace rlx {

Value matmulInteger(Value a, Value b) {
  return ops::MatMul::byDots(a, b, DType::I32);
}

}  // namespace rlx
