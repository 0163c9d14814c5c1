#include "fuzz/random_graph.h"

#include <algorithm>
#include <cmath>

#include "ops/interpreter.h"
#include "ops/op.h"
#include "ops/value_ops.h"

namespace rlx::test {
namespace {

class Maker {
 public:
  Maker(uint32_t seed, const RandomGraphOptions& options) : options_(options), random_(seed) {
    sizes_ = {{"n", 1 + pick(5)}, {"m", 1 + pick(4)}};
  }

  RandomGraph make(uint32_t seed) {
    Builder b("random" + std::to_string(seed));
    b_ = &b;
    const int64_t inputs = 1 + pick(3);
    for (int64_t k = 0; k < inputs; ++k) input(k == 0 ? DType::F32 : inputType());
    const int64_t nodes = 1 + pick(options_.maxNodes);
    for (int64_t k = 0; k < nodes; ++k)
      for (int attempt = 0; attempt < 20 && !step(); ++attempt) {
      }
    // The last value, and some of the others.
    std::vector<Value> outputs{values_.back()};
    for (std::size_t k = 0; k + 1 < values_.size(); ++k)
      if (pick(6) == 0) outputs.push_back(values_[k]);
    for (std::size_t k = 0; k < outputs.size(); ++k) b.output("y" + std::to_string(k), outputs[k]);
    RandomGraph r;
    auto g = std::move(b).finish();
    RLX_CHECK(g, (g ? "" : g.error().text()).c_str());
    r.graph = *std::move(g);
    r.inputs = std::move(inputs_);
    measure(r);
    return r;
  }

 private:
  int64_t pick(int64_t below) {
    return static_cast<int64_t>(random_() % static_cast<uint32_t>(below));
  }
  Value any() {
    return values_[static_cast<std::size_t>(pick(static_cast<int64_t>(values_.size())))];
  }
  // A value that a predicate accepts, later ones more often; null when none does.
  template <class F>
  Value anyOf(F&& accepts) {
    for (int attempt = 0; attempt < 12; ++attempt) {
      const Value v = attempt % 2 ? any()
                                  : values_[values_.size() - 1 -
                                            static_cast<std::size_t>(pick(std::min<int64_t>(
                                                3, static_cast<int64_t>(values_.size()))))];
      if (accepts(v)) return v;
    }
    return {};
  }
  Value anyFloat() {
    return anyOf([](Value v) { return isFloat(v.dtype()); });
  }

  int64_t size(const Dim& d) const {
    Bindings b;
    for (const auto& [name, value] : sizes_) b.set(name, value);
    auto v = d.evaluate(b);
    RLX_CHECK(v, "a symbol without a size");
    return *v;
  }
  bool fits(const Shape& s) const {
    int64_t n = 1;
    for (const Dim& d : s) {
      if (size(d) < 0) return false;
      n *= size(d);
    }
    return n <= options_.maxElements && s.size() <= 5;
  }
  Dim extent() {
    const int64_t k = pick(12);
    if (options_.symbols && k < 3) return Dim::symbol("n");
    if (options_.symbols && k == 3) return Dim::symbol("m");
    if (k == 4) return Dim(1);
    return Dim(pick(30) == 0 ? 0 : 1 + pick(9));
  }
  DType inputType() {
    constexpr DType kTypes[] = {DType::F32, DType::F32,  DType::F32, DType::I32,
                                DType::I64, DType::F16,  DType::F64, DType::Bool,
                                DType::U8,  DType::BF16, DType::I8,  DType::U32};
    return kTypes[pick(12)];
  }

  void input(DType t) {
    Shape s;
    const int64_t rank = pick(5);
    for (int64_t k = 0; k < rank; ++k) s.push_back(extent());
    // Both symbols always have a value.
    if (inputs_.empty() && options_.symbols) s = {Dim::symbol("n"), Dim::symbol("m")};
    while (!fits(s)) s.pop_back();
    RefTensor x(t, {});
    for (const Dim& d : s) x.shape.push_back(size(d));
    x = RefTensor(t, x.shape);
    std::uniform_real_distribution<double> real(-3, 3);
    for (int64_t k = 0; k < x.elements(); ++k) {
      if (isFloat(t))
        x.setNumber(k, roundTo(t, real(random_)));
      else
        x.setInteger(k, pick(12) - (isSigned(t) ? 6 : 0));
    }
    values_.push_back(b_->input("x" + std::to_string(inputs_.size()), t, s));
    inputs_.push_back(std::move(x));
  }

  // Keeps the value when it was built and is small.
  bool keep(Value v) {
    RLX_CHECK(!b_->failed(), (b_->failed() ? b_->error()->text() : "").c_str());
    if (!v || !fits(v.shape())) return false;
    values_.push_back(v);
    return true;
  }
  int64_t axisOf(Value v) { return pick(v.rank()); }

  // One more node; false when the drawn op finds no operands.
  bool step() {
    switch (pick(23)) {
      case 0:
      case 1: return unary();
      case 2:
      case 3:
      case 4: return binary();
      case 5: return compareOrSelect();
      case 6:
      case 7: return reduction();
      case 8: return contraction();
      case 9: return row();
      case 10: return moved();
      case 11: return sliced();
      case 12: return padded();
      case 13: return joined();
      case 14: return gathered();
      case 15: return reshaped();
      case 16: return converted();
      case 17: return scanned();
      case 18: return ranked();
      case 19: return scattered();
      case 20: return window();
      case 21: return attended();
      default: return made();
    }
  }

  bool unary() {
    constexpr OpKind kOps[] = {OpKind::Neg,  OpKind::Abs,   OpKind::Tanh,     OpKind::Sigmoid,
                               OpKind::Relu, OpKind::Sin,   OpKind::Erf,      OpKind::Square,
                               OpKind::Gelu, OpKind::Floor, OpKind::Softsign, OpKind::Sign};
    const Value x = anyFloat();
    const OpKind op = kOps[pick(12)];
    // A step function of a value that was rounded differently may differ by a whole step.
    if (!x || ((op == OpKind::Floor || op == OpKind::Sign) && !exact(x))) return false;
    return keep(b_->emit(op, {x}));
  }

  // Inputs and what only moves their elements: the same bits everywhere.
  bool exact(Value v) const {
    const Node& n = b_->graph().definition(v.id);
    if (n.op == OpKind::Input || n.op == OpKind::Constant || n.op == OpKind::Iota) return true;
    if (!isFloat(v.dtype())) return exactOperands(n);
    return (opDef(n.op).indexOnly || n.op == OpKind::Concat || n.op == OpKind::Gather ||
            n.op == OpKind::Pad) &&
           exactOperands(n);
  }
  bool exactOperands(const Node& n) const {
    return std::all_of(n.inputs.begin(), n.inputs.end(), [&](ValueId v) {
      return !v || exact(Value{b_, v});
    });
  }

  // A second operand that broadcasts against x: another value, a slice of one, or a constant.
  Value partner(Value x) {
    const Value y = anyOf([&](Value v) {
      if (v.dtype() != x.dtype()) return false;
      auto s = broadcastShapes("", x.shape(), v.shape());
      return s && fits(*s);
    });
    if (y && pick(4)) return y;
    Shape s = x.shape();
    for (Dim& d : s)
      if (pick(3) == 0) d = Dim(1);
    if (!s.empty() && pick(3) == 0) s.erase(s.begin());
    for (const Dim& d : s)
      if (!d.isConst()) return y;
    return constant(x.dtype(), s);
  }
  Value constant(DType t, const Shape& s) {
    RefTensor c(t, {});
    for (const Dim& d : s) c.shape.push_back(d.value());
    c = RefTensor(t, c.shape);
    std::uniform_real_distribution<double> real(-2, 2);
    for (int64_t k = 0; k < c.elements(); ++k) {
      if (isFloat(t))
        c.setNumber(k, roundTo(t, real(random_)));
      else
        c.setInteger(k, pick(5));
    }
    auto bytes = toBytes(c);
    return b_->constant(Literal::copy(t, c.shape, *bytes));
  }

  bool binary() {
    constexpr OpKind kOps[] = {OpKind::Add, OpKind::Sub, OpKind::Mul, OpKind::Max, OpKind::Min};
    const Value x = anyOf([](Value v) { return v.dtype() != DType::Bool; });
    const Value y = x ? partner(x) : Value{};
    if (!y) return false;
    if (isInteger(x.dtype()) && pick(3) == 0)
      return keep(b_->emit(pick(2) ? OpKind::Div : OpKind::Mod, {x, y}));
    return pick(2) ? keep(b_->emit(kOps[pick(5)], {x, y})) : keep(b_->emit(kOps[pick(5)], {y, x}));
  }

  bool compareOrSelect() {
    if (pick(2)) {
      const Value x = anyOf([&](Value v) { return v.dtype() != DType::Bool && exact(v); });
      const Value y = x ? partner(x) : Value{};
      if (!y || !exact(y)) return false;
      return keep(b_->emit(pick(2) ? OpKind::Lt : OpKind::Eq, {x, y}));
    }
    const Value c = anyOf([&](Value v) { return v.dtype() == DType::Bool && exact(v); });
    if (!c) return false;
    const Value x = anyOf([&](Value v) {
      auto s = broadcastShapes("", v.shape(), c.shape());
      return s && fits(*s);
    });
    const Value y = x ? partner(x) : Value{};
    if (!y) return false;
    auto s = broadcastShapes("", x.shape(), y.shape());
    if (!s || !broadcastShapes("", *s, c.shape())) return false;
    return keep(b_->emit(OpKind::Select, {c, x, y}));
  }

  bool reduction() {
    const Value x = anyOf([](Value v) { return v.rank() > 0; });
    if (!x) return false;
    std::vector<int64_t> axes;
    for (int64_t k = 0; k < x.rank(); ++k)
      if (pick(2)) axes.push_back(pick(4) ? k : k - x.rank());
    constexpr ReduceKind kNumbers[] = {ReduceKind::Sum, ReduceKind::Max, ReduceKind::Min};
    const ReduceKind kind = x.dtype() == DType::Bool ? (pick(2) ? ReduceKind::Any : ReduceKind::All)
                                                     : kNumbers[pick(3)];
    // An empty maximum is an infinity, which spoils what follows.
    for (const Dim& d : x.shape())
      if (size(d) == 0 && kind != ReduceKind::Sum && x.dtype() != DType::Bool) return false;
    const Value r = reduce(x, kind, axes, pick(2) ? KeepDims::Yes : KeepDims::No);
    if (!keep(r)) return false;
    // A reduced row that is used again with its operand: what norms and softmax look like.
    if (isFloat(x.dtype()) && pick(2)) {
      std::vector<int64_t> last{x.rank() - 1};
      const Value mean = reduce(x, ReduceKind::Sum, last, KeepDims::Yes);
      return keep(x - mean);
    }
    return true;
  }

  static bool eightBits(Value v) { return v.dtype() == DType::I8 || v.dtype() == DType::U8; }
  bool contraction() {
    const Value x = anyOf([](Value v) { return v.rank() > 0 && v.dtype() != DType::Bool; });
    if (!x) return false;
    const int64_t axis = axisOf(x);
    const Dim inner = x.shape()[static_cast<std::size_t>(axis)];
    const Value y = anyOf([&](Value v) {
      const bool narrow = eightBits(v) && eightBits(x);  // with a result of its own dtype
      return (v.dtype() == x.dtype() || narrow) &&
             std::any_of(v.shape().begin(), v.shape().end(),
                         [&](const Dim& d) { return d == inner; });
    });
    if (!y) return false;
    DotAttrs a;
    a.lhsContract = {axis};
    for (int64_t k = 0; k < y.rank(); ++k)
      if (y.shape()[static_cast<std::size_t>(k)] == inner) {
        a.rhsContract = {k};
        if (pick(2)) break;
      }
    // Sometimes a batch axis, where both have an equal one left.
    for (int64_t i = 0; i < x.rank() && a.lhsBatch.empty(); ++i)
      for (int64_t j = 0; j < y.rank(); ++j)
        if (i != axis && j != a.rhsContract[0] && pick(2) &&
            x.shape()[static_cast<std::size_t>(i)] == y.shape()[static_cast<std::size_t>(j)]) {
          a.lhsBatch = {i}, a.rhsBatch = {j};
          break;
        }
    Shape out;
    for (int64_t i = 0; i < x.rank(); ++i)
      if (i != axis) out.push_back(x.shape()[static_cast<std::size_t>(i)]);
    for (int64_t j = 0; j < y.rank(); ++j)
      if (j != a.rhsContract[0] && (a.rhsBatch.empty() || j != a.rhsBatch[0]))
        out.push_back(y.shape()[static_cast<std::size_t>(j)]);
    if (!fits(out)) return false;
    if (x.dtype() != y.dtype() || (eightBits(x) && pick(2))) a.result = DType::I32;
    return keep(dotGeneral(x, y, a));
  }

  bool row() {
    const Value x = anyOf([](Value v) { return v.rank() > 0 && isFloat(v.dtype()); });
    if (!x) return false;
    if (pick(2)) return keep(softmax(x, axisOf(x)));
    if (x.dtype() == DType::F32 && pick(2)) {
      const Shape inner{x.shape().back()};
      if (inner[0].isConst())
        return keep(
            layerNorm(x, constant(DType::F32, inner), constant(DType::F32, inner), -1, 1e-2));
    }
    return keep(b_->emit(OpKind::RmsNorm, {x}, Attrs::of(NormAttrs{axisOf(x), 1e-2})));
  }

  bool moved() {
    const Value x = any();
    std::vector<int64_t> perm(static_cast<std::size_t>(x.rank()));
    for (std::size_t k = 0; k < perm.size(); ++k) perm[k] = static_cast<int64_t>(k);
    for (std::size_t k = perm.size(); k > 1; --k)
      std::swap(perm[k - 1], perm[static_cast<std::size_t>(pick(static_cast<int64_t>(k)))]);
    if (pick(3)) return keep(transpose(x, perm));
    Shape s = x.shape();
    for (Dim& d : s)
      if (d.is(1) && pick(2)) d = extent();
    if (pick(2)) s.insert(s.begin(), extent());
    return fits(s) && keep(broadcastTo(x, s));
  }

  bool sliced() {
    const Value x = anyOf([](Value v) { return v.rank() > 0; });
    if (!x) return false;
    Shape start, count;
    std::vector<int64_t> step;
    for (const Dim& d : x.shape()) {
      if (!d.isConst() || d.is(0) || pick(3) == 0) {
        // The whole axis, or reversed, or without its first element.
        const int64_t how = size(d) > 1 && d == Dim::symbol("n") ? pick(3) : 0;
        start.push_back(how == 1 ? d - Dim(1) : Dim(how == 2 ? 1 : 0));
        count.push_back(how == 2 ? d - Dim(1) : d);
        step.push_back(how == 1 ? -1 : 1);
        continue;
      }
      const int64_t n = d.value(), s = pick(3) == 0 ? -(1 + pick(2)) : 1 + pick(2);
      const int64_t first = pick(n);
      const int64_t most = s > 0 ? (n - 1 - first) / s + 1 : first / -s + 1;
      start.emplace_back(first), count.emplace_back(pick(most + 1)), step.push_back(s);
    }
    return fits(count) && keep(slice(x, start, count, step));
  }

  bool padded() {
    const Value x = anyOf([](Value v) { return v.rank() > 0; });
    if (!x) return false;
    PadAttrs a;
    bool empty = false;
    for (const Dim& d : x.shape()) {
      a.low.emplace_back(pick(3)), a.high.emplace_back(pick(3));
      empty = empty || size(d) == 0;
    }
    constexpr PadMode kModes[] = {PadMode::Constant, PadMode::Edge, PadMode::Reflect,
                                  PadMode::Wrap};
    a.mode = empty ? PadMode::Constant : kModes[pick(4)];
    Shape out;
    for (std::size_t k = 0; k < a.low.size(); ++k)
      out.push_back(x.shape()[k] + a.low[k] + a.high[k]);
    if (!fits(out)) return false;
    std::vector<Value> in{x};
    if (a.mode == PadMode::Constant && pick(2)) in.push_back(constant(x.dtype(), {}));
    return keep(b_->emit(OpKind::Pad, in, Attrs::of(a)));
  }

  bool joined() {
    const Value x = anyOf([](Value v) { return v.rank() > 0; });
    if (!x) return false;
    const int64_t axis = axisOf(x);
    std::vector<Value> parts{x};
    for (const Value& v : values_) {
      if (v.dtype() != x.dtype() || v.rank() != x.rank() || parts.size() > 3 || pick(2)) continue;
      bool same = true;
      for (int64_t k = 0; k < v.rank(); ++k)
        same = same && (k == axis || v.shape()[static_cast<std::size_t>(k)] ==
                                         x.shape()[static_cast<std::size_t>(k)]);
      if (same) parts.push_back(v);
    }
    return keep(concat(parts, pick(2) ? axis : axis - x.rank()));
  }

  // Indices inside an axis, negative ones too.
  Value indices(const Shape& s, int64_t extent) {
    RefTensor c(pick(2) ? DType::I64 : DType::I32, {});
    for (const Dim& d : s) c.shape.push_back(d.value());
    c = RefTensor(c.dtype, c.shape);
    for (int64_t k = 0; k < c.elements(); ++k) c.setInteger(k, pick(2 * extent) - extent);
    auto bytes = toBytes(c);
    return b_->constant(Literal::copy(c.dtype, c.shape, *bytes));
  }

  bool gathered() {
    const Value x = anyOf([&](Value v) { return v.rank() > 0; });
    if (!x) return false;
    const int64_t axis = axisOf(x);
    const int64_t n = size(x.shape()[static_cast<std::size_t>(axis)]);
    if (n == 0) return false;
    Shape s;
    const int64_t rank = pick(3);
    for (int64_t k = 0; k < rank; ++k) s.emplace_back(1 + pick(4));
    return keep(gather(x, indices(s, n), axis));
  }

  bool scattered() {
    const Value x = anyOf([&](Value v) {
      return v.rank() > 0 && v.dtype() != DType::Bool &&
             std::all_of(v.shape().begin(), v.shape().end(),
                         [](const Dim& d) { return d.isConst() && !d.is(0); });
    });
    if (!x) return false;
    ScatterAttrs a;
    a.axis = axisOf(x);
    constexpr ScatterKind kKinds[] = {ScatterKind::None, ScatterKind::Add, ScatterKind::Max,
                                      ScatterKind::Min};
    a.kind = kKinds[pick(4)];
    Shape s;
    for (const Dim& d : x.shape()) s.emplace_back(1 + pick(d.value()));
    const int64_t n = x.shape()[static_cast<std::size_t>(a.axis)].value();
    return keep(b_->emit(OpKind::ScatterElements, {x, indices(s, n), constant(x.dtype(), s)},
                         Attrs::of(a)));
  }

  bool reshaped() {
    const Value x = any();
    Shape s = x.shape();
    switch (pick(4)) {
      case 0: s = {elements(s)}; break;
      case 1: s.insert(s.begin() + pick(x.rank() + 1), Dim(1)); break;
      case 2:
        if (s.size() < 2) return false;
        {
          const auto k = static_cast<std::size_t>(pick(x.rank() - 1));
          s[k] = s[k] * s[k + 1];
          s.erase(s.begin() + static_cast<std::ptrdiff_t>(k) + 1);
        }
        break;
      default:
        for (std::size_t k = 0; k < s.size(); ++k)
          if (Dim half; divideExactly(s[k], Dim(2), &half) && !s[k].is(0)) {
            s[k] = half;
            s.insert(s.begin() + static_cast<std::ptrdiff_t>(k), Dim(2));
            break;
          }
    }
    return fits(s) && keep(reshape(x, s));
  }

  bool converted() {
    const Value x = any();
    const DType to = inputType();
    if (to == x.dtype()) return false;
    // Rounding before a cast to an integer decides which integer.
    if (isFloat(x.dtype()) && !isFloat(to) && !exact(x)) return false;
    return keep(convert(x, to));
  }

  bool scanned() {
    const Value x = anyOf([](Value v) { return v.rank() > 0 && v.dtype() != DType::Bool; });
    if (!x) return false;
    ScanAttrs a;
    a.axis = axisOf(x),
    a.exclusive = pick(4) == 0 && size(x.shape()[static_cast<std::size_t>(a.axis)]) > 0;
    a.reverse = pick(2) != 0;
    a.kind = !a.exclusive && pick(2) ? ReduceKind::Max : ReduceKind::Sum;
    return keep(b_->emit(OpKind::Scan, {x}, Attrs::of(a)));
  }

  // Positions depend on every bit, so only exact values are ranked.
  bool ranked() {
    const Value x = anyOf([&](Value v) { return v.rank() > 0 && exact(v); });
    if (!x) return false;
    const int64_t axis = axisOf(x);
    if (size(x.shape()[static_cast<std::size_t>(axis)]) == 0) return false;
    switch (pick(3)) {
      case 0: {
        const auto y = b_->emitAll(OpKind::Sort, {x}, Attrs::of(SortAttrs{axis, pick(2) != 0}));
        return keep(y[0]) && keep(y[1]);
      }
      case 1:
        return keep(b_->emit(OpKind::ArgReduce, {x},
                             Attrs::of(ArgReduceAttrs{pick(2) ? ArgKind::Max : ArgKind::Min, axis,
                                                      pick(2) != 0, pick(2) != 0})));
      default: {
        const auto y =
            b_->emitAll(OpKind::TopK, {x}, Attrs::of(TopKAttrs{axis, Dim(1), pick(2) != 0}));
        return keep(y[0]) && keep(y[1]);
      }
    }
  }

  // Convolution or pooling of [n, c, spatial...].
  bool window() {
    const Value x = anyOf([&](Value v) {
      return v.rank() >= 3 && v.rank() <= 4 && isFloat(v.dtype()) && v.shape()[1].isConst() &&
             !v.shape()[1].is(0) &&
             std::all_of(v.shape().begin() + 2, v.shape().end(),
                         [&](const Dim& d) { return size(d) > 2; });
    });
    if (!x) return false;
    std::vector<int64_t> extent, strides, dilations, low, high;
    for (int64_t k = 2; k < x.rank(); ++k) {
      extent.push_back(1 + pick(3)), strides.push_back(1 + pick(2));
      dilations.push_back(extent.back() < 3 ? 1 + pick(2) : 1);
      low.push_back(pick(extent.back())), high.push_back(pick(extent.back()));
    }
    Shape out = x.shape();
    for (std::size_t k = 2; k < out.size(); ++k) out[k] = out[k] + Dim(4);
    if (!fits(out)) return false;
    if (pick(2)) {
      PoolAttrs a;
      a.kind = pick(2) ? PoolKind::Max : PoolKind::Average;
      a.window = extent, a.strides = strides, a.dilations = dilations, a.padLow = low;
      a.padHigh = high, a.countPadding = pick(2) != 0, a.ceilMode = pick(2) != 0;
      return keep(b_->emit(OpKind::Pool, {x}, Attrs::of(a)));
    }
    const int64_t channels = x.shape()[1].value();
    const int64_t groups = channels % 2 == 0 && pick(2) ? 2 : pick(3) == 0 ? channels : 1;
    Shape w{Dim(groups * (1 + pick(2))), Dim(channels / groups)};
    for (const int64_t e : extent) w.emplace_back(e);
    std::vector<Value> in{x, constant(x.dtype(), w)};
    if (pick(2)) in.push_back(constant(x.dtype(), {w[0]}));
    return keep(
        b_->emit(OpKind::Conv, in, Attrs::of(ConvAttrs{strides, dilations, low, high, groups})));
  }

  bool attended() {
    const Value x = anyOf([&](Value v) {
      return v.rank() == 4 && isFloat(v.dtype()) && v.shape()[3].isConst() && !v.shape()[3].is(0) &&
             v.shape()[1].isConst();
    });
    if (!x || !fits({x.shape()[0], x.shape()[1], x.shape()[2], x.shape()[2]})) return false;
    return keep(
        b_->emit(OpKind::Attention, {x, x, x}, Attrs::of(AttentionAttrs{0.5, pick(2) != 0})));
  }

  bool made() {
    Shape s;
    const int64_t rank = 1 + pick(3);
    for (int64_t k = 0; k < rank; ++k) s.push_back(extent());
    if (!fits(s)) return false;
    return keep(iota(*b_, pick(2) ? DType::F32 : DType::I32, s, pick(rank)));
  }

  // How far a device may be off at each output: the ops, the terms and the magnitudes on its way.
  void measure(RandomGraph& r) {
    auto all = interpretAll(r.graph, r.inputs);
    RLX_CHECK(all, (all ? "" : all.error().text()).c_str());
    std::vector<RandomGraph::Depth> at(r.graph.values.size());
    for (const Node& n : r.graph.nodes)
      for (const ValueId v : n.results) {
        RandomGraph::Depth d;
        auto narrow = [&](DType t) {
          // Fewer bits of mantissa: bf16 below f16.
          auto bits = [](DType x) { return x == DType::BF16 ? 8 : info(x).bits; };
          if (isFloat(t) && bits(t) < bits(d.narrowest)) d.narrowest = t;
        };
        narrow(r.graph.type(v).dtype);
        int64_t largest = 1;
        for (const ValueId x : n.inputs) {
          if (!x) continue;
          d.ops = std::max(d.ops, at[x.index].ops + 1);
          d.terms = std::max(d.terms, at[x.index].terms);
          d.scale = std::max(d.scale, at[x.index].scale);
          narrow(at[x.index].narrowest);
          largest = std::max(largest, (*all)[x.index].elements());
        }
        const OpDef& def = opDef(n.op);
        if (def.fold || def.scanStep || def.info.composite) d.terms = std::max(d.terms, largest);
        for (const double f : (*all)[v.index].f)
          if (std::isfinite(f)) d.scale = std::max(d.scale, std::fabs(f));
        at[v.index] = d;
      }
    for (const Port& p : r.graph.outputs) r.depths.push_back(at[p.value.index]);
  }

  RandomGraphOptions options_;
  std::mt19937 random_;
  std::vector<std::pair<std::string, int64_t>> sizes_;
  Builder* b_ = nullptr;
  std::vector<Value> values_;
  std::vector<RefTensor> inputs_;
};

}  // namespace

RandomGraph randomGraph(uint32_t seed, const RandomGraphOptions& options) {
  return Maker(seed, options).make(seed);
}

}  // namespace rlx::test
