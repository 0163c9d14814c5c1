// The scalar maps (one op per line of scalar.def) and the elementwise composites.
#include "ops/elementwise.h"

#include "ops/rule.h"

namespace rlx::ops {
namespace {

template <ScalarOp Op>
struct ScalarMap {
  using Attributes = NoAttrs;
  static constexpr std::string_view doc = "Scalar map; operands broadcast right-aligned.";
  static constexpr int minInputs = rlx::info(Op).arity, maxInputs = rlx::info(Op).arity;
  static constexpr double cost = rlx::info(Op).ulp > 3                         ? 12
                                 : Op == ScalarOp::Div || Op == ScalarOp::Sqrt ? 4
                                                                               : 1;
  static constexpr int first =
      Op == ScalarOp::Select ? 1 : 0;  // operands of the common dtype start here

  static Infer infer(const InferContext& c) {
    const DType t = c.types[first].dtype;
    if constexpr (Op == ScalarOp::Select) {
      RLX_OK(requireKind(c, 0, "b"));
    } else {
      RLX_OK(requireKind(c, 0, rlx::info(Op).types));
    }
    Shape s = c.types[0].shape;
    for (std::size_t k = 1; k < c.types.size(); ++k) {
      if (k > first && c.types[k].dtype != t)
        return typeError(c, "operands have dtypes " + std::string(rlx::name(t)) + " and " +
                                std::string(rlx::name(c.types[k].dtype)));
      RLX_TRY(s, broadcastShapes(rlx::name(c.op), s, c.types[k].shape));
    }
    return one(rlx::info(Op).result == ScalarResult::Bool ? DType::Bool : t, std::move(s));
  }

  static RefResult reference(const RefContext& c) {
    RefTensor y = c.out();
    const RefTensor& typed = c.in(first);
    const int w = typed.dtype == DType::Bool ? 1 : rlx::info(typed.dtype).bits;
    forEach(y.shape, [&](const std::vector<int64_t>& at, int64_t flat) {
      auto from = [&](std::size_t k) { return broadcastOffset(at, c.in(k).shape); };
      if constexpr (Op == ScalarOp::Select) {
        const std::size_t k = c.in(0).i[static_cast<std::size_t>(from(0))] ? 1 : 2;
        copyElement(y, flat, c.in(k), from(k));
      } else if (isFloat(typed.dtype)) {
        double v[3] = {0, 0, 0};
        for (std::size_t k = 0; k < c.inputs.size(); ++k) v[k] = c.in(k).number(from(k));
        y.setNumber(flat, scalar::value(Op, v[0], v[1], v[2]));
      } else {
        RefTensor::Wide v[3] = {0, 0, 0};
        for (std::size_t k = 0; k < c.inputs.size(); ++k) v[k] = c.in(k).integer(from(k));
        y.setInteger(flat, scalar::integerValue(Op, v[0], v[1], v[2], w));
      }
    });
    return single(std::move(y));
  }

  static kir::Expr element(LowerContext& c, const Index& at) {
    kir::Expr x[3];
    for (std::size_t k = 0; k < c.operands.size(); ++k)
      x[k] = c.wide(k, broadcastIndex(at, c.shape(k)));
    return c.narrow(kir::Expr::apply(Op, x[0], x[1], x[2]));
  }
};

// An elementwise composite: decomposes into scalar maps, in f32 for narrower floats (one rounding).
template <class E>
struct ElementwiseMap {
  using Attributes = NoAttrs;
  static constexpr std::string_view doc = E::doc;
  static constexpr int minInputs = 1, maxInputs = 1;
  static Infer infer(const InferContext& c) {
    RLX_OK(requireKind(c, 0, "f"));
    return Types{c.types[0]};
  }
  static RefResult reference(const RefContext& c) {
    RefTensor y = c.out();
    for (std::size_t k = 0; k < y.f.size(); ++k) y.f[k] = E::eval(F64(c.in(0).f[k])).v;
    return single(std::move(y));
  }
  static std::vector<Value> decompose(Builder&, std::span<const Value> in, const Attrs&) {
    const DType t = in[0].dtype();
    return {convert(E::eval(GraphExpr(convert(in[0], computeType(t)))).v, t)};
  }
};

}  // namespace

#define RLX_SCALAR(Id, ...)       \
  extern const OpDef kScalar##Id; \
  constinit const OpDef kScalar##Id = makeDef<ScalarMap<ScalarOp::Id>>(OpKind::Id);
#include "scalar/scalar.def"
#undef RLX_SCALAR

#define RLX_ELEMENTWISE(Id, ...) \
  extern const OpDef k##Id;      \
  constinit const OpDef k##Id = makeDef<ElementwiseMap<elementwise::Id>>(OpKind::Id);
#include "ops/elementwise.def"
#undef RLX_ELEMENTWISE

}  // namespace rlx::ops
