#include "ops/samples.h"

#include <cmath>
#include <limits>
#include <random>

#include "ops/op.h"
#include "ops/value_ops.h"

namespace rlx {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

const std::vector<DType> kFloats{DType::F32, DType::F64, DType::F16, DType::BF16};
const std::vector<DType> kIntegers{DType::I32, DType::I64, DType::U8,  DType::I8,
                                   DType::I16, DType::U16, DType::U32, DType::U64};

enum class Fill : uint8_t { Plain, Special };

class Maker {
 public:
  Maker(OpKind op, bool full) : op_(op), full_(full) {}

  // A sample from a function that builds the graph: it calls in() for inputs and returns the
  // results.
  template <class F>
  void add(const std::string& name, DType dtype, int64_t length, F&& build) {
    OpSample s;
    s.name = std::string(rlx::name(op_)) + "/" + std::string(rlx::name(dtype)) + "/" + name;
    s.op = op_;
    s.dtype = dtype;
    s.length = length;
    random_.seed(static_cast<uint32_t>(std::hash<std::string>()(s.name)));
    Builder b(s.name);
    builder_ = &b;
    inputs_.clear();
    const std::vector<Value> out = build(b);
    for (std::size_t k = 0; k < out.size(); ++k) b.output("y" + std::to_string(k), out[k]);
    auto g = std::move(b).finish();
    RLX_CHECK(g, ("sample " + s.name + ": " + (g ? "" : g.error().text())).c_str());
    s.graph = *std::move(g);
    s.inputs = inputs_;
    if (length > 1) {
      double largest = 0;
      for (const RefTensor& t : s.inputs)
        for (const double v : t.f)
          if (std::isfinite(v)) largest = std::max(largest, std::fabs(v));
      s.scale = largest * largest * std::sqrt(static_cast<double>(length)) + largest;
    }
    out_.push_back(std::move(s));
  }

  // One program for every length: extents equal to the length become the symbol "n".
  template <class F>
  void addLengths(const std::string& name, DType dtype, const std::vector<int64_t>& lengths,
                  F&& build) {
    std::vector<std::vector<RefTensor>> runs;
    for (const int64_t n : lengths) {
      Builder scratch("scratch");
      builder_ = &scratch;
      inputs_.clear();
      random_.seed(static_cast<uint32_t>(n));
      (void)build(scratch, n);
      runs.push_back(inputs_);
    }
    symbolic_ = lengths[0];
    add(name, dtype, lengths.back() > 33 ? lengths.back() : 33, [&](Builder& b) {
      random_.seed(static_cast<uint32_t>(lengths[0]));
      return build(b, lengths[0]);
    });
    symbolic_ = -1;
    runs.erase(runs.begin());
    out_.back().more = std::move(runs);
    // A map has one term per element, but fma: there the product may cancel against the addend.
    if (static_cast<std::size_t>(op_) < kScalarCount) {
      const bool fused = op_ == OpKind::Fma;
      out_.back().length = fused ? 2 : 1;
      if (!fused) out_.back().scale = 0;
    }
  }

  Value in(DType dtype, std::vector<int64_t> shape, double lo = -4, double hi = 4,
           Fill fill = Fill::Plain) {
    return given(values(dtype, std::move(shape), lo, hi, fill));
  }
  // The same values in the graph.
  Value constant(DType dtype, const std::vector<int64_t>& shape) {
    auto bytes = toBytes(values(dtype, shape, -4, 4, Fill::Plain));
    RLX_CHECK(bytes, "values without bytes");
    return builder_->constant(Literal::copy(dtype, shape, *bytes));
  }
  RefTensor values(DType dtype, std::vector<int64_t> shape, double lo, double hi, Fill fill) {
    RefTensor t(dtype, std::move(shape));
    std::uniform_real_distribution<double> real(lo, hi);
    const double specials[] = {kNan, kInf, -kInf, -0.0, 0.0, 1e-40, -1e-40, lo, hi, 65504.0, 1e30};
    for (int64_t k = 0; k < t.elements(); ++k) {
      double v = real(random_);
      if (t.isInt()) {
        t.setNumber(k, dtype == DType::Bool ? (v > (lo + hi) / 2) : std::floor(v));
        if (fill == Fill::Special && random_() % 3 == 0 && isInteger(dtype)) {
          const int w = info(dtype).bits;
          const RefTensor::Wide choices[] = {0, 1, -1,
                                             isSigned(dtype) ? -(RefTensor::Wide{1} << (w - 1)) : 0,
                                             (RefTensor::Wide{1} << (w - isSigned(dtype))) - 1};
          t.setInteger(k, choices[random_() % 5]);
        }
        continue;
      }
      if (fill == Fill::Special && random_() % 2 == 0) v = specials[random_() % 11];
      t.f[static_cast<std::size_t>(k)] = roundTo(dtype, v);
    }
    return t;
  }
  Value given(RefTensor t) {
    const std::string name = "x" + std::to_string(inputs_.size());
    Shape shape(t.shape.begin(), t.shape.end());
    for (Dim& d : shape)
      if (d.is(symbolic_)) d = Dim::symbol("n");
    const Value v = builder_->input(name, t.dtype, std::move(shape));
    inputs_.push_back(std::move(t));
    return v;
  }
  Value indices(DType dtype, std::vector<int64_t> shape, int64_t extent) {
    RefTensor t(dtype, shape);
    for (int64_t k = 0; k < t.elements(); ++k)
      t.setInteger(k, static_cast<int64_t>(random_() % static_cast<uint32_t>(2 * extent)) - extent);
    return given(std::move(t));
  }
  bool full() const { return full_; }
  std::vector<OpSample> take() { return std::move(out_); }

 private:
  OpKind op_;
  bool full_;
  int64_t symbolic_ = -1;
  Builder* builder_ = nullptr;
  std::vector<RefTensor> inputs_;
  std::vector<OpSample> out_;
  std::mt19937 random_;
};

std::vector<DType> dtypesOf(std::string_view types, bool full) {
  std::vector<DType> out;
  for (const char c : types) {
    if (c == 'f')
      out.insert(out.end(), kFloats.begin(), full ? kFloats.end() : kFloats.begin() + 1);
    if (c == 'i')
      out.insert(out.end(), kIntegers.begin(), full ? kIntegers.end() : kIntegers.begin() + 2);
    if (c == 'b') out.push_back(DType::Bool);
  }
  return out;
}

void scalarSamples(Maker& m, OpKind op) {
  const ScalarInfo& s = kScalars[static_cast<std::size_t>(op)];
  const bool select = s.types[0] == 'b' && s.arity == 3;
  for (const DType t : dtypesOf(select ? "fib" : s.types, m.full())) {
    auto operands = [&](std::vector<int64_t> shape, Fill fill) {
      std::vector<Value> v;
      for (int k = 0; k < s.arity; ++k) {
        if (select && k == 0)
          v.push_back(m.in(DType::Bool, shape, 0, 1));
        else
          v.push_back(m.in(t, shape, isFloat(t) ? s.lo : std::max(s.lo, isSigned(t) ? -100.0 : 0.0),
                           s.hi, fill));
      }
      return v;
    };
    std::vector<int64_t> lengths{7, 1, 33, 100};
    if (m.full() && (t == DType::F32 || t == DType::I32 || t == DType::F64))
      for (int64_t n = 2; n <= 32; ++n) lengths.push_back(n);
    // One program over a symbolic length, so that vector bodies and tails all come up.
    m.addLengths("n", t, lengths, [&](Builder& b, int64_t n) {
      return std::vector<Value>{b.emit(op, operands({n}, Fill::Plain))};
    });
    m.add("special", t, 1, [&](Builder& b) {
      return std::vector<Value>{b.emit(op, operands({61}, Fill::Special))};
    });
    m.add("empty", t, 1, [&](Builder& b) {
      return std::vector<Value>{b.emit(op, operands({0, 3}, Fill::Plain))};
    });
    m.add("scalar", t, 1,
          [&](Builder& b) { return std::vector<Value>{b.emit(op, operands({}, Fill::Plain))}; });
    if (s.arity == 2)
      m.add("broadcast", t, 1, [&](Builder& b) {
        const Value x = m.in(t, {2, 1, 5}, s.lo, s.hi), y = m.in(t, {3, 1}, s.lo, s.hi);
        return std::vector<Value>{b.emit(op, {x, y})};
      });
  }
}

const std::vector<DType>& someFloats(bool full) {
  static const std::vector<DType> kOne{DType::F32};
  return full ? kFloats : kOne;
}
// Contractions of 8-bit operands in i32, each with the extremes of its operands.
void integerDots(Maker& m) {
  using Out = std::vector<Value>;
  constexpr std::array<DType, 2> kNarrow{DType::I8, DType::U8};
  for (const DType left : kNarrow)
    for (const DType right : kNarrow) {
      const auto in = [&](DType t, std::vector<int64_t> shape) {
        return m.in(t, std::move(shape), isSigned(t) ? -128 : 0, isSigned(t) ? 128 : 256,
                    Fill::Special);
      };
      const auto add = [&](const std::string& name, std::vector<int64_t> x, std::vector<int64_t> y,
                           DotAttrs attrs) {
        attrs.result = DType::I32;
        m.add(std::string(rlx::name(left)) + "_" + std::string(rlx::name(right)) + "/" + name,
              DType::I32, 1,
              [&](Builder&) { return Out{dotGeneral(in(left, x), in(right, y), attrs)}; });
      };
      for (const auto& [rows, cols, inner] : std::vector<std::array<int64_t, 3>>{
               {1, 1, 1}, {3, 5, 7}, {17, 49, 9}, {5, 3, 0}, {9, 100, 66}, {2, 20, 1030}})
        add(std::to_string(rows) + "x" + std::to_string(cols) + "x" + std::to_string(inner),
            {rows, inner}, {inner, cols}, {{}, {}, {1}, {0}, {}});
      add("transposed", {7, 5}, {19, 7}, {{}, {}, {0}, {1}, {}});
      add("batched", {2, 3, 4, 7}, {2, 3, 5, 7}, {{0, 1}, {0, 1}, {3}, {3}, {}});
      add("two_contracted", {5, 3, 4}, {3, 6, 4}, {{}, {}, {1, 2}, {0, 2}, {}});
      m.add(
          std::string(rlx::name(left)) + "_" + std::string(rlx::name(right)) + "/epilogue",
          DType::I32, 1, [&](Builder&) {
            const Value x = in(left, {6, 9}), y = in(right, {9, 50}), bias = m.in(DType::I32, {50});
            return Out{dotGeneral(x, y, {{}, {}, {1}, {0}, DType::I32}) * bias - bias};
          });
    }
}

std::vector<DType> anyTypes(bool full) {
  std::vector<DType> t{DType::F32, DType::I32, DType::Bool};
  if (full)
    t = {DType::F32, DType::F64, DType::F16, DType::BF16, DType::I8,  DType::I16, DType::I32,
         DType::I64, DType::U8,  DType::U16, DType::U32,  DType::U64, DType::Bool};
  return t;
}

}  // namespace

std::vector<OpSample> opSamples(OpKind op, SampleSet set) {
  const bool full = set == SampleSet::Full;
  Maker m(op, full);
  using Out = std::vector<Value>;
  if (static_cast<std::size_t>(op) < kScalarCount) {
    scalarSamples(m, op);
    return m.take();
  }
  const auto elementwise = [&] {
    for (const DType t : someFloats(full)) {
      for (const int64_t n : {1, 5, 33, 200})
        m.add("n" + std::to_string(n), t, 1,
              [&](Builder& b) { return Out{b.emit(op, {m.in(t, {n}, -6, 6)})}; });
      m.add("special", t, 1,
            [&](Builder& b) { return Out{b.emit(op, {m.in(t, {40}, -6, 6, Fill::Special)})}; });
    }
  };
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wswitch-enum"
  switch (op) {
    case OpKind::Input:
    case OpKind::Constant:
      m.add("identity", DType::F32, 1, [&](Builder& b) {
        const Value x = m.in(DType::F32, {3, 2});
        return Out{x, b.constant(Literal::of<float>(DType::F32, {2}, {1, 2}))};
      });
      break;
    case OpKind::Convert:
      for (const DType from : anyTypes(full))
        for (const DType to : anyTypes(full)) {
          m.add("from_" + std::string(name(from)), to, 1, [&](Builder&) {
            return Out{convert(m.in(from, {37}, -300, 300, Fill::Special), to)};
          });
        }
      break;
    case OpKind::Reshape:
      for (const DType t : anyTypes(full)) {
        m.add("merge", t, 1, [&](Builder&) {
          return Out{reshape(m.in(t, {2, 3, 4}), {Dim(6), Dim(4)})};
        });
        m.add("split", t, 1, [&](Builder&) {
          return Out{reshape(m.in(t, {6, 4}), {Dim(2), Dim(3), Dim(1), Dim(4)})};
        });
      }
      m.add("cross", DType::F32, 1, [&](Builder&) {
        return Out{reshape(transpose(m.in(DType::F32, {4, 6}), {1, 0}), {Dim(8), Dim(3)})};
      });
      m.add("empty", DType::F32, 1, [&](Builder&) {
        return Out{reshape(m.in(DType::F32, {0, 4}), {Dim(2), Dim(0)})};
      });
      break;
    case OpKind::Transpose:
      for (const DType t : anyTypes(full))
        m.add("021", t, 1, [&](Builder&) { return Out{transpose(m.in(t, {2, 3, 5}), {0, 2, 1})}; });
      m.add("3210", DType::F32, 1, [&](Builder&) {
        return Out{transpose(m.in(DType::F32, {2, 3, 4, 5}), {3, 2, 1, 0})};
      });
      // Whole blocks and their rests.
      for (const DType t : {DType::F32, DType::F64, DType::U8})
        m.add("210", t, 1, [&](Builder&) {
          return Out{transpose(m.in(t, {21, 3, 35}), {2, 1, 0})};
        });
      break;
    case OpKind::Broadcast:
      for (const DType t : anyTypes(full))
        m.add("axis", t, 1, [&](Builder&) {
          return Out{broadcastTo(m.in(t, {3, 1}), {Dim(2), Dim(3), Dim(4)})};
        });
      break;
    case OpKind::Slice:
      for (const DType t : anyTypes(full))
        m.add("step", t, 1, [&](Builder&) {
          return Out{slice(m.in(t, {7, 9}), {Dim(1), Dim(8)}, {Dim(3), Dim(4)}, {2, -2})};
        });
      m.add("empty", DType::F32, 1,
            [&](Builder&) { return Out{slice(m.in(DType::F32, {7}), {Dim(3)}, {Dim(0)})}; });
      break;
    case OpKind::Pad:
      for (const PadMode mode : {PadMode::Constant, PadMode::Edge, PadMode::Reflect, PadMode::Wrap})
        for (const DType t : anyTypes(full))
          m.add(toText(mode), t, 1, [&](Builder& b) {
            return Out{b.emit(OpKind::Pad, {m.in(t, {3, 5})},
                              Attrs::of(PadAttrs{{Dim(1), Dim(2)}, {Dim(2), Dim(0)}, mode}))};
          });
      m.add("value", DType::F32, 1, [&](Builder& b) {
        const Value x = m.in(DType::F32, {4}), v = m.in(DType::F32, {});
        return Out{b.emit(OpKind::Pad, {x, v},
                          Attrs::of(PadAttrs{{Dim(2)}, {Dim(-1)}, PadMode::Constant}))};
      });
      break;
    case OpKind::Concat:
      for (const DType t : anyTypes(full))
        m.add("axis1", t, 1, [&](Builder&) {
          const Value x = m.in(t, {2, 3}), y = m.in(t, {2, 1}), z = m.in(t, {2, 4});
          return Out{concat({x, y, z}, 1)};
        });
      m.add("empty", DType::F32, 1, [&](Builder&) {
        const Value x = m.in(DType::F32, {0, 3}), y = m.in(DType::F32, {2, 3});
        return Out{concat({x, y}, 0)};
      });
      break;
    case OpKind::Iota:
      for (const DType t : {DType::I64, DType::I32, DType::F32})
        m.add("axis", t, 1, [&](Builder& b) {
          return Out{iota(b, t, {Dim(3), Dim(5)}, 1) + m.in(t, {1})};
        });
      break;
    case OpKind::Roll:
      for (const DType t : anyTypes(full))
        for (const int64_t shift : {2, -9})
          m.add("shift" + std::to_string(shift), t, 1, [&](Builder& b) {
            return Out{b.emit(op, {m.in(t, {3, 5})}, Attrs::of(RollAttrs{1, shift}))};
          });
      break;
    case OpKind::DimValue:
      m.add("symbol", DType::I64, 1, [&](Builder& b) {
        const Value x = b.input("x0", DType::F32, {Dim::symbol("n")});
        (void)x;
        return Out{dimValue(b, DType::I64, Dim::symbol("n") * Dim(2) + Dim(1))};
      });
      break;
    case OpKind::Gather:
      for (const DType t : anyTypes(full))
        for (const int64_t axis : {0, 1})
          m.add("axis" + std::to_string(axis), t, 1, [&](Builder&) {
            const Value x = m.in(t, {4, 5, 3});
            return Out{gather(x, m.indices(DType::I64, {2, 3}, 4), axis)};
          });
      break;
    case OpKind::GatherElements:
      for (const DType t : anyTypes(full))
        m.add("axis1", t, 1, [&](Builder&) {
          const Value x = m.in(t, {3, 5});
          return Out{gatherElements(x, m.indices(DType::I32, {2, 4}, 5), 1)};
        });
      break;
    case OpKind::GatherNd:
      for (const int64_t batch : {0, 1})
        m.add("batch" + std::to_string(batch), DType::F32, 1, [&](Builder& b) {
          const Value x = m.in(DType::F32, {2, 3, 4});
          return Out{b.emit(op, {x, m.indices(DType::I64, {2, 5, 1}, 2)},
                            Attrs::of(GatherNdAttrs{batch}))};
        });
      break;
    case OpKind::ScatterElements:
    case OpKind::ScatterNd:
      for (const ScatterKind kind : {ScatterKind::None, ScatterKind::Add, ScatterKind::Mul,
                                     ScatterKind::Min, ScatterKind::Max})
        for (const DType t : {DType::F32, DType::I32})
          m.add(toText(kind), t, 8, [&](Builder& b) {
            if (op == OpKind::ScatterElements) {
              const Value x = m.in(t, {4, 5}), i = m.indices(DType::I64, {3, 4}, 5),
                          u = m.in(t, {3, 4});
              return Out{b.emit(op, {x, i, u}, Attrs::of(ScatterAttrs{1, kind}))};
            }
            const Value x = m.in(t, {4, 4, 3}), i = m.indices(DType::I64, {6, 2}, 4),
                        u = m.in(t, {6, 3});
            return Out{b.emit(op, {x, i, u}, Attrs::of(ScatterAttrs{0, kind}))};
          });
      break;
    case OpKind::Reduce:
      for (const ReduceKind kind : {ReduceKind::Sum, ReduceKind::Prod, ReduceKind::Max,
                                    ReduceKind::Min, ReduceKind::Any, ReduceKind::All}) {
        const bool logical = kind == ReduceKind::Any || kind == ReduceKind::All;
        for (const DType t : logical ? std::vector<DType>{DType::Bool} : dtypesOf("fi", full)) {
          std::vector<int64_t> lengths{5, 1, 33, 300};
          if (full && t == DType::F32)
            for (int64_t n = 2; n <= 32; ++n) lengths.push_back(n);
          const double lo = kind == ReduceKind::Prod ? 0.7 : -4,
                       hi = kind == ReduceKind::Prod ? 1.3 : 4;
          m.addLengths(toText(kind) + "_last", t, lengths, [&](Builder&, int64_t n) {
            return Out{reduce(m.in(t, {3, n}, lo, hi), kind, {1}, KeepDims::No)};
          });
          m.add(toText(kind) + "_first", t, 5, [&](Builder&) {
            return Out{reduce(m.in(t, {5, 9}, lo, hi), kind, {0}, KeepDims::Yes)};
          });
          m.add(toText(kind) + "_middle", t, 5, [&](Builder&) {
            return Out{reduce(m.in(t, {2, 5, 3}, lo, hi), kind, {1}, KeepDims::No)};
          });
          m.add(toText(kind) + "_all", t, 30, [&](Builder&) {
            return Out{reduce(m.in(t, {2, 5, 3}, lo, hi), kind, {0, 1, 2}, KeepDims::No)};
          });
          m.add(toText(kind) + "_none", t, 1, [&](Builder&) {
            return Out{reduce(m.in(t, {2, 3}, lo, hi), kind, {}, KeepDims::No)};
          });
          m.add(toText(kind) + "_empty", t, 1, [&](Builder&) {
            return Out{reduce(m.in(t, {2, 0}, lo, hi), kind, {1}, KeepDims::No)};
          });
          if (isFloat(t) && (kind == ReduceKind::Max || kind == ReduceKind::Min))
            for (const int64_t n : {7, 16, 33})
              m.add(toText(kind) + "_special_n" + std::to_string(n), t, n, [&](Builder&) {
                return Out{reduce(m.in(t, {9, n}, lo, hi, Fill::Special), kind, {1}, KeepDims::No)};
              });
        }
      }
      break;
    case OpKind::ArgReduce:
      for (const ArgKind kind : {ArgKind::Max, ArgKind::Min})
        for (const DType t : dtypesOf("fib", full))
          for (const bool last : {false, true})
            for (const int64_t axis : {0, 1})
              m.add(
                  toText(kind) + (last ? "_last" : "") + "_axis" + std::to_string(axis), DType::I64,
                  1, [&](Builder& b) {
                    const Value x =
                        m.in(t, {9, 17}, -3, 3, axis == 1 ? Fill::Special : Fill::Plain);
                    return Out{b.emit(op, {x}, Attrs::of(ArgReduceAttrs{kind, axis, last, last}))};
                  });
      break;
    case OpKind::Scan:
      for (const ReduceKind kind :
           {ReduceKind::Sum, ReduceKind::Prod, ReduceKind::Max, ReduceKind::Min})
        for (const DType t : dtypesOf("fi", full))
          for (const int variant : {0, 1, 2, 3}) {
            if (t != DType::F32 && variant % 3 != 0) continue;
            m.add(toText(kind) + "_" + std::to_string(variant), t, 9, [&](Builder& b) {
              return Out{
                  b.emit(op, {m.in(t, {2, 9, 3}, 0.5, 1.5)},
                         Attrs::of(ScanAttrs{kind, 1, (variant & 1) != 0, (variant & 2) != 0}))};
            });
          }
      break;
    case OpKind::SortRank:
    case OpKind::Sort:
      for (const DType t : dtypesOf("fi", full))
        for (const bool descending : {false, true})
          m.add(descending ? "descending" : "ascending", op == OpKind::SortRank ? DType::I32 : t, 1,
                [&](Builder& b) {
                  const Value x = m.in(t, {3, 17, 2}, -3, 3, Fill::Special);
                  return b.emitAll(op, {x}, Attrs::of(SortAttrs{1, descending}));
                });
      break;
    case OpKind::TopK:
      for (const DType t : dtypesOf("fi", full))
        for (const bool largest : {false, true})
          m.add(largest ? "largest" : "smallest", t, 1, [&](Builder& b) {
            const Value x = m.in(t, {4, 11}, -3, 3, Fill::Special);
            return b.emitAll(op, {x}, Attrs::of(TopKAttrs{-1, Dim(3), largest}));
          });
      break;
    case OpKind::DotGeneral:
      for (const DType t : dtypesOf("fi", full)) {
        for (const auto& [rows, cols, inner] : std::vector<std::array<int64_t, 3>>{{1, 1, 1},
                                                                                   {3, 5, 7},
                                                                                   {8, 16, 4},
                                                                                   {17, 33, 9},
                                                                                   {2, 70, 1},
                                                                                   {5, 3, 0},
                                                                                   {20, 100, 60}})
          m.add(std::to_string(rows) + "x" + std::to_string(cols) + "x" + std::to_string(inner), t,
                inner, [&, r = rows, c = cols, k = inner](Builder&) {
                  const Value x = m.in(t, {r, k}), y = m.in(t, {k, c});
                  return Out{dotGeneral(x, y, {{}, {}, {1}, {0}})};
                });
        m.add("transposed", t, 7, [&](Builder&) {
          const Value x = m.in(t, {7, 5}), y = m.in(t, {6, 7});
          return Out{dotGeneral(x, y, {{}, {}, {0}, {1}})};
        });
        m.add("batched", t, 7, [&](Builder&) {
          const Value x = m.in(t, {2, 3, 4, 7}), y = m.in(t, {2, 3, 5, 7});
          return Out{dotGeneral(x, y, {{0, 1}, {0, 1}, {3}, {3}})};
        });
        m.add("two_contracted", t, 12, [&](Builder&) {
          const Value x = m.in(t, {5, 3, 4}), y = m.in(t, {3, 6, 4});
          return Out{dotGeneral(x, y, {{}, {}, {1, 2}, {0, 2}})};
        });
        m.add("heads", t, 8, [&](Builder&) {
          const Value x = transpose(reshape(m.in(t, {2, 5, 24}), {Dim(2), Dim(5), Dim(3), Dim(8)}),
                                    {0, 2, 1, 3});
          const Value y = transpose(reshape(m.in(t, {2, 6, 24}), {Dim(2), Dim(6), Dim(3), Dim(8)}),
                                    {0, 2, 1, 3});
          return Out{dotGeneral(x, y, {{0, 1}, {0, 1}, {3}, {3}})};
        });
        m.add("epilogue", t, 9, [&](Builder&) {
          const Value x = m.in(t, {6, 9}), y = m.in(t, {9, 20}), bias = m.in(t, {20});
          return Out{
              emitScalar(ScalarOp::Max, {dotGeneral(x, y, {{}, {}, {1}, {0}}) + bias, bias})};
        });
      }
      for (const DType t : someFloats(full))
        for (const std::string right : {"input", "weight", "transposed_weight"})
          m.addLengths("rows_" + right, t, {7, 1, 60, 131}, [&](Builder&, int64_t n) {
            const bool transposed = right == "transposed_weight";
            const std::vector<int64_t> shape{transposed ? 101 : 120, transposed ? 120 : 101};
            const Value x = m.in(t, {n, 120}), bias = m.in(t, {101});
            const Value w = right == "input" ? m.in(t, shape) : m.constant(t, shape);
            const Value y = dotGeneral(x, w, {{}, {}, {1}, {transposed ? 1 : 0}}) + bias;
            return Out{emitScalar(ScalarOp::Max, {y, bias})};
          });
      for (const DType narrow : {DType::F16, DType::BF16})
        m.addLengths("rows_" + std::string(rlx::name(narrow)) + "_weight", DType::F32,
                     {7, 1, 60, 131}, [&](Builder& b, int64_t n) {
                       const Value x = m.in(DType::F32, {n, 120});
                       const Value w = b.emit(OpKind::Convert, {m.constant(narrow, {120, 101})},
                                              Attrs::of(ConvertAttrs{DType::F32}));
                       return Out{dotGeneral(x, w, {{}, {}, {1}, {0}})};
                     });
      integerDots(m);
      break;
    case OpKind::Conv:
      for (const DType t : someFloats(full)) {
        m.add("1d", t, 9, [&](Builder& b) {
          const Value x = m.in(t, {2, 3, 11}), w = m.in(t, {4, 3, 3});
          return Out{b.emit(op, {x, w}, Attrs::of(ConvAttrs{{2}, {1}, {1}, {1}, 1}))};
        });
        m.add("2d_bias", t, 27, [&](Builder& b) {
          const Value x = m.in(t, {1, 3, 9, 10}), w = m.in(t, {5, 3, 3, 3}), bias = m.in(t, {5});
          return Out{
              b.emit(op, {x, w, bias}, Attrs::of(ConvAttrs{{1, 1}, {1, 1}, {1, 1}, {1, 1}, 1}))};
        });
        m.add("2d_dilated_asymmetric", t, 8, [&](Builder& b) {
          const Value x = m.in(t, {2, 2, 9, 8}), w = m.in(t, {3, 2, 2, 2});
          return Out{b.emit(op, {x, w}, Attrs::of(ConvAttrs{{2, 1}, {2, 3}, {0, 2}, {1, 0}, 1}))};
        });
        m.add("depthwise", t, 9, [&](Builder& b) {
          const Value x = m.in(t, {1, 4, 7, 7}), w = m.in(t, {8, 1, 3, 3});
          return Out{b.emit(op, {x, w}, Attrs::of(ConvAttrs{{1, 1}, {1, 1}, {1, 1}, {1, 1}, 4}))};
        });
        m.add("3d", t, 16, [&](Builder& b) {
          const Value x = m.in(t, {1, 2, 4, 5, 6}), w = m.in(t, {2, 2, 2, 2, 2});
          return Out{b.emit(op, {x, w},
                            Attrs::of(ConvAttrs{{1, 1, 2}, {1, 1, 1}, {0, 1, 0}, {0, 1, 0}, 1}))};
        });
      }
      // Many output channels, where devices have kernels of their own.
      for (const int64_t width : {1, 7, 8, 25, 33}) {
        const std::string n = "_" + std::to_string(width);
        m.add("pointwise" + n, DType::F32, 5, [&](Builder& b) {
          const Value x = m.in(DType::F32, {2, 5, 3, width}), w = m.in(DType::F32, {9, 5, 1, 1});
          return Out{b.emit(op, {x, w}, Attrs::of(ConvAttrs{{1, 1}, {1, 1}, {0, 0}, {0, 0}, 1}))};
        });
        m.add("groups_strided" + n, DType::F32, 18, [&](Builder& b) {
          const Value x = m.in(DType::F32, {1, 4, 5, width}), w = m.in(DType::F32, {10, 2, 3, 3});
          const Value bias = m.in(DType::F32, {10});
          return Out{
              b.emit(op, {x, w, bias}, Attrs::of(ConvAttrs{{2, 2}, {1, 1}, {1, 1}, {1, 2}, 2}))};
        });
        // Windows that lie in the padding on every side, and windows wider than the input.
        m.add("mostly_padding" + n, DType::F32, 15, [&](Builder& b) {
          const Value x = m.in(DType::F32, {1, 1, 2, width}), w = m.in(DType::F32, {4, 1, 3, 5});
          return Out{b.emit(op, {x, w}, Attrs::of(ConvAttrs{{1, 3}, {1, 2}, {4, 9}, {3, 8}, 1}))};
        });
        m.add("constant_3d" + n, DType::F32, 24, [&](Builder& b) {
          std::vector<float> values(6 * 3 * 2 * 2 * 2);
          for (std::size_t k = 0; k < values.size(); ++k)
            values[k] = static_cast<float>(k % 11) * 0.25f - 1;
          const Value x = m.in(DType::F32, {2, 3, 3, 4, width + 1});
          const Value w = b.constant(Literal::of(DType::F32, {6, 3, 2, 2, 2}, values));
          return Out{b.emit(op, {x, w},
                            Attrs::of(ConvAttrs{{1, 2, 1}, {1, 1, 1}, {1, 0, 1}, {0, 1, 0}, 1}))};
        });
      }
      break;
    case OpKind::Pool:
      for (const PoolKind kind : {PoolKind::Max, PoolKind::Average})
        for (const DType t : someFloats(full))
          for (const int variant : {0, 1, 2, 3})
            m.add(toText(kind) + "_" + std::to_string(variant), t, 9, [&](Builder& b) {
              PoolAttrs a{kind,
                          {3, 2},
                          {2, 2},
                          {1, 1},
                          {1, 1},
                          {1, 1},
                          (variant & 1) != 0,
                          (variant & 2) != 0};
              return Out{b.emit(
                  op,
                  {m.in(t, {1, 2, 8, 9}, -4, 4,
                        variant == 0 && kind == PoolKind::Max ? Fill::Special : Fill::Plain)},
                  Attrs::of(a))};
            });
      break;
    case OpKind::Softmax:
    case OpKind::LogSoftmax:
      for (const DType t : someFloats(full)) {
        for (const int64_t n : {1, 7, 33, 128})
          m.add("last_n" + std::to_string(n), t, n, [&](Builder& b) {
            return Out{b.emit(op, {m.in(t, {5, n})}, Attrs::of(SoftmaxAttrs{-1}))};
          });
        m.add("axis1", t, 5, [&](Builder& b) {
          return Out{b.emit(op, {m.in(t, {2, 5, 3})}, Attrs::of(SoftmaxAttrs{1}))};
        });
        m.add("special", t, 9, [&](Builder& b) {
          return Out{
              b.emit(op, {m.in(t, {12, 9}, -4, 4, Fill::Special)}, Attrs::of(SoftmaxAttrs{-1}))};
        });
      }
      break;
    case OpKind::LayerNorm:
    case OpKind::RmsNorm:
      for (const DType t : someFloats(full)) {
        for (const int64_t n : {1, 8, 33, 384})
          m.add("n" + std::to_string(n), t, n, [&](Builder& b) {
            std::vector<Value> in{m.in(t, {3, 4, n}), m.in(t, {n})};
            if (op == OpKind::LayerNorm) in.push_back(m.in(t, {n}));
            return Out{b.emit(op, in, Attrs::of(NormAttrs{-1, 1e-5}))};
          });
        m.add("axis1", t, 20, [&](Builder& b) {
          return Out{b.emit(op, {m.in(t, {3, 4, 5})}, Attrs::of(NormAttrs{1, 1e-3}))};
        });
      }
      break;
    case OpKind::L2Normalize:
      for (const DType t : someFloats(full))
        for (const int64_t axis : {0, 1})
          m.add("axis" + std::to_string(axis), t, 33, [&](Builder& b) {
            return Out{b.emit(op, {m.in(t, {5, 33})}, Attrs::of(NormAttrs{axis, 1e-12}))};
          });
      break;
    case OpKind::BatchNorm:
      for (const DType t : someFloats(full))
        m.add("2d", t, 4, [&](Builder& b) {
          std::vector<Value> in{m.in(t, {2, 3, 4, 5}), m.in(t, {3}), m.in(t, {3}), m.in(t, {3}),
                                m.in(t, {3}, 0.5, 2)};
          return Out{b.emit(op, in, Attrs::of(EpsilonAttrs{1e-5}))};
        });
      break;
    case OpKind::MatMul: {
      const std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>> shapes{
          {{3, 4}, {4, 5}},
          {{4}, {4}},
          {{4}, {4, 5}},
          {{3, 4}, {4}},
          {{2, 3, 4}, {4, 5}},
          {{2, 3, 4}, {2, 4, 5}},
          {{2, 1, 3, 4}, {5, 4, 2}},
          {{4}, {2, 4, 3}}};
      for (const DType t : {DType::F32, DType::I32})
        for (std::size_t k = 0; k < shapes.size(); ++k)
          m.add(std::to_string(k), t, 4, [&](Builder&) {
            const Value x = m.in(t, shapes[k].first), y = m.in(t, shapes[k].second);
            return Out{matmul(x, y)};
          });
      break;
    }
    case OpKind::Linear:
      for (const DType t : someFloats(full))
        for (const bool transposed : {false, true})
          m.add(transposed ? "transposed" : "plain", t, 20, [&](Builder&) {
            const Value x = m.in(t, {2, 3, 20}),
                        w = transposed ? m.in(t, {9, 20}) : m.in(t, {20, 9}), bias = m.in(t, {9});
            return Out{linear(x, w, bias, transposed ? TransposeWeight::Yes : TransposeWeight::No)};
          });
      break;
    case OpKind::Embedding:
      m.add("rows", DType::F32, 1, [&](Builder& b) {
        const Value x = m.in(DType::F32, {9, 4});
        return Out{b.emit(op, {x, m.indices(DType::I64, {2, 3}, 9)})};
      });
      break;
    case OpKind::Attention:
      for (const DType t : someFloats(full)) {
        auto qkv = [&](int64_t heads, int64_t kv, int64_t s, int64_t n) {
          return std::vector<Value>{m.in(t, {2, heads, s, 8}, -2, 2), m.in(t, {2, kv, n, 8}, -2, 2),
                                    m.in(t, {2, kv, n, 6}, -2, 2)};
        };
        for (const int64_t s : {1, 5, 17})
          m.add("plain_s" + std::to_string(s), t, s, [&](Builder& b) {
            return Out{b.emit(op, qkv(2, 2, s, s), Attrs::of(AttentionAttrs{}))};
          });
        m.add("causal_longer_keys", t, 9, [&](Builder& b) {
          return Out{b.emit(op, qkv(2, 2, 4, 9), Attrs::of(AttentionAttrs{0, true}))};
        });
        m.add("grouped", t, 7, [&](Builder& b) {
          return Out{b.emit(op, qkv(6, 2, 5, 7), Attrs::of(AttentionAttrs{0.3, false}))};
        });
        m.add("padding", t, 7, [&](Builder& b) {
          std::vector<Value> in = qkv(2, 2, 5, 7);
          in.push_back(m.in(DType::Bool, {2, 1, 1, 7}, 0, 1));
          return Out{b.emit(op, in, Attrs::of(AttentionAttrs{}))};
        });
        m.add("bias", t, 7, [&](Builder& b) {
          std::vector<Value> in = qkv(2, 2, 5, 7);
          in.push_back(m.in(t, {2, 5, 7}, -2, 2));
          return Out{b.emit(op, in, Attrs::of(AttentionAttrs{}))};
        });
        m.add("all_masked", t, 3, [&](Builder& b) {
          std::vector<Value> in = qkv(1, 1, 2, 3);
          in.push_back(m.given(RefTensor(DType::Bool, {1, 1, 2, 3})));
          return Out{b.emit(op, in, Attrs::of(AttentionAttrs{}))};
        });
      }
      break;
    default:
      // The elementwise composites need no case of their own.
      if (opDef(op).decompose && opDef(op).info.maxInputs == 1 &&
          opDef(op).info.attrs == &attrsInfo<NoAttrs>())
        elementwise();
      break;
  }
#pragma GCC diagnostic pop
  // A symbolic sample has its input built by hand: give it a size.
  std::vector<OpSample> out = m.take();
  for (OpSample& s : out)
    if (s.inputs.size() < s.graph.inputs.size())
      s.inputs.emplace_back(DType::F32, std::vector<int64_t>{5});
  return out;
}

}  // namespace rlx
