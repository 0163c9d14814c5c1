// ONNX elementwise ops: maths, logic, comparison, bits, activations, casts.
#include <cmath>
#include <limits>

#include "import/onnx_import.h"

namespace rlx::onnx {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

template <ScalarOp Op>
Status unary(Call& c) {
  c.out(0, apply(Op, c.in(0)));
  return Ok{};
}

template <OpKind Kind>
Status kind(Call& c) {
  c.out(0, c.b.emit(Kind, {c.in(0)}));
  return Ok{};
}

// The second operand of a binary op; before opset 7 it was placed by `axis`.
Value second(Call& c) {
  Value y = c.in(1);
  const int64_t axis = c.attr("axis", int64_t{-1}), rank = c.in(0).rank();
  if (c.opset >= 7 || axis < 0 || c.attr("broadcast", int64_t{0}) == 0) return y;
  Shape s = y.shape();
  for (int64_t k = axis + y.rank(); k < rank; ++k) s.emplace_back(1);
  return reshape(y, std::move(s));
}

template <ScalarOp Op>
Status binary(Call& c) {
  c.out(0, apply(Op, c.in(0), second(c)));
  return Ok{};
}

// max(x, 0) is the same formula on integers.
Status relu(Call& c) {
  const Value x = c.in(0);
  c.out(0,
        isFloat(x.dtype()) ? c.b.emit(OpKind::Relu, {x}) : apply(ScalarOp::Max, x, literal(x, 0)));
  return Ok{};
}

Status rounded(Call& c) {
  // floor, ceil and round leave integers as they are.
  const Value x = c.in(0);
  if (!isFloat(x.dtype())) return c.out(0, x), Ok{};
  const ScalarOp op = c.node.op == "Floor"  ? ScalarOp::Floor
                      : c.node.op == "Ceil" ? ScalarOp::Ceil
                                            : ScalarOp::Round;
  return c.out(0, apply(op, x)), Ok{};
}

Status power(Call& c) {
  const Value x = c.in(0), y = second(c);
  const DType t = x.dtype();
  if (x.dtype() == y.dtype()) return c.out(0, apply(ScalarOp::Pow, x, y)), Ok{};
  if (isFloat(t)) return c.out(0, apply(ScalarOp::Pow, x, convert(y, t))), Ok{};
  if (isInteger(y.dtype())) {
    const DType wide = DType::I64;
    return c.out(0, convert(apply(ScalarOp::Pow, convert(x, wide), convert(y, wide)), t)), Ok{};
  }
  const DType wide = info(t).bits > 24 || y.dtype() == DType::F64 ? DType::F64 : DType::F32;
  return c.out(0, convert(apply(ScalarOp::Pow, convert(x, wide), convert(y, wide)), t)), Ok{};
}

Status modulo(Call& c) {
  const bool fmod = c.attr("fmod", int64_t{0}) != 0;
  if (!fmod && isFloat(c.in(0).dtype())) return c.bad("fmod must be 1 for floats");
  c.out(0, apply(fmod ? ScalarOp::Rem : ScalarOp::Mod, c.in(0), c.in(1)));
  return Ok{};
}

Status shift(Call& c) {
  const std::string direction = c.attr("direction", std::string_view());
  if (direction != "LEFT" && direction != "RIGHT")
    return c.bad("direction must be LEFT or RIGHT, it is '" + direction + "'");
  c.out(0, apply(direction == "LEFT" ? ScalarOp::Shl : ScalarOp::Shr, c.in(0), c.in(1)));
  return Ok{};
}

template <ScalarOp Op>
Status variadic(Call& c) {
  const std::vector<Value> in = c.all();
  Value y = in[0];
  for (std::size_t k = 1; k < in.size(); ++k) y = apply(Op, y, in[k]);
  if (c.node.op == "Mean") y = y / literal(y, static_cast<double>(in.size()));
  c.out(0, y);
  return Ok{};
}

Status where(Call& c) {
  c.out(0, choose(c.in(0), c.in(1), c.in(2)));
  return Ok{};
}

Status isInf(Call& c) {
  const Value x = c.in(0);
  const bool positive = c.attr("detect_positive", int64_t{1}) != 0,
             negative = c.attr("detect_negative", int64_t{1}) != 0;
  if (positive && negative) return c.out(0, apply(ScalarOp::IsInf, x)), Ok{};
  const Value never = apply(ScalarOp::Lt, x, x);
  if (!positive && !negative) return c.out(0, never), Ok{};
  return c.out(0, apply(ScalarOp::Eq, x, literal(x, positive ? kInf : -kInf))), Ok{};
}

Status clip(Call& c) {
  Value x = c.in(0);
  if (c.opset < 11) {
    if (c.hasAttr("min")) x = apply(ScalarOp::Max, x, literal(x, c.attr("min", 0.0)));
    if (c.hasAttr("max")) x = apply(ScalarOp::Min, x, literal(x, c.attr("max", 0.0)));
  } else {
    if (c.has(1)) x = apply(ScalarOp::Max, x, c.in(1));
    if (c.has(2)) x = apply(ScalarOp::Min, x, c.in(2));
  }
  return c.out(0, x), Ok{};
}

// ---- Activations: formulas over graph values
// -------------------------------------------------------

using G = GraphExpr;

// Computes in f32 for narrower floats and rounds once.
template <class F>
Status formula(Call& c, F&& fn) {
  const DType t = c.in(0).dtype();
  if (!isFloat(t)) return c.unsupported("dtype " + std::string(name(t)));
  const Value x = convert(c.in(0), computeType(t));
  return c.out(0, convert(fn(G(x)).v, t)), Ok{};
}

Status leakyRelu(Call& c) {
  const double alpha = c.attr("alpha", 0.01);
  return formula(c, [&](const G& x) { return select(lt(x, G(0)), x * G(alpha), x); });
}
Status elu(Call& c) {
  const double alpha = c.attr("alpha", 1.0);
  return formula(c, [&](const G& x) { return select(lt(x, G(0)), expm1(x) * G(alpha), x); });
}
Status selu(Call& c) {
  const double alpha = c.attr("alpha", 1.67326319217681884765625),
               gamma = c.attr("gamma", 1.05070102214813232421875);
  return formula(
      c, [&](const G& x) { return select(gt(x, G(0)), x, expm1(x) * G(alpha)) * G(gamma); });
}
Status celu(Call& c) {
  const double alpha = c.attr("alpha", 1.0);
  return formula(
      c, [&](const G& x) { return max(x, G(0)) + min(expm1(x * G(1 / alpha)) * G(alpha), G(0)); });
}
Status thresholdedRelu(Call& c) {
  const double alpha = c.attr("alpha", 1.0);
  return formula(c, [&](const G& x) { return select(gt(x, G(alpha)), x, G(0)); });
}
Status hardSigmoid(Call& c) {
  const double alpha = c.attr("alpha", 0.2), beta = c.attr("beta", 0.5);
  return formula(c, [&](const G& x) { return clamp(x * G(alpha) + G(beta), G(0), G(1)); });
}
Status shrink(Call& c) {
  const double lambda = c.attr("lambd", 0.5), bias = c.attr("bias", 0.0);
  return formula(c, [&](const G& x) {
    return select(lt(x, G(-lambda)), x + G(bias), select(gt(x, G(lambda)), x - G(bias), G(0)));
  });
}
Status swish(Call& c) {
  const double alpha = c.attr("alpha", 1.0);
  if (alpha == 1) return kind<OpKind::Silu>(c);
  return formula(c, [&](const G& x) { return x / (G(1) + exp(x * G(-alpha))); });
}
Status gelu(Call& c) {
  const std::string how = c.attr("approximate", std::string_view("none"));
  if (how == "none") return kind<OpKind::Gelu>(c);
  if (how == "tanh") return kind<OpKind::GeluTanh>(c);
  return c.bad("approximate must be none or tanh, it is '" + how + "'");
}

Status pRelu(Call& c) {
  const Value x = c.in(0);
  Value slope = c.in(1);
  // One slope a channel, in files older than broadcasting.
  if (c.opset < 7 && slope.rank() == 1 && x.rank() > 2) slope = perChannel(slope, x.rank());
  c.out(0, choose(apply(ScalarOp::Lt, x, literal(x, 0)), x * slope, x));
  return Ok{};
}

// ---- Casts and copies
// -----------------------------------------------------------------------------

Status castTo(Call& c, DType to) {
  const Value x = c.in(0);
  const bool narrow = (isFloat(to) && info(to).bits <= 8) || !isPlain(to);
  if (narrow && c.attr("saturate", int64_t{1}) == 0)
    return c.unsupported("a cast to " + std::string(name(to)) + " that does not saturate");
  if (isComplex(to) || isComplex(x.dtype())) return c.unsupported("a complex cast");
  return c.out(0, convert(x, to)), Ok{};
}

Status cast(Call& c) {
  int64_t code = 0;
  if (c.opset < 6) {  // a name
    const std::string text = c.attr("to", std::string_view());
    std::string lower;
    for (const char ch : text) lower += ch >= 'A' && ch <= 'Z' ? static_cast<char>(ch + 32) : ch;
    for (int64_t k = 1; k < 32; ++k)
      if (dtypeName(k) == lower) code = k;
  } else {
    code = c.attr("to", int64_t{0});
  }
  DType to{};
  if (!findDType(code, &to)) return c.unsupported("a cast to " + dtypeName(code));
  return castTo(c, to);
}

Status castLike(Call& c) {
  return castTo(c, c.in(1).dtype());
}

Status identity(Call& c) {
  if (const Item* item = c.item(0)) {
    if (item->extents) c.out(0, *item->extents);
    if (item->literal) c.out(0, *item->literal);
  }
  c.out(0, c.in(0));
  return Ok{};
}

Status dropout(Call& c) {
  if (c.opset >= 12 && c.has(2)) {
    RLX_TRY(const double training, c.number(2));
    double ratio = 0.5;
    if (c.has(1)) {
      RLX_TRY(ratio, c.number(1));
    }
    if (training != 0 && ratio != 0)
      return c.unsupported("dropout in training mode needs random numbers");
  }
  if (c.opset < 7 && c.attr("is_test", int64_t{0}) == 0)
    return c.unsupported("dropout in training mode needs random numbers");
  const Value x = c.in(0);
  c.out(0, x);
  if (c.wants(1)) {
    const Value one = c.b.scalar(c.opset >= 10 ? DType::Bool : x.dtype(), 1);
    c.out(1, broadcastTo(one, x.shape()));
  }
  return Ok{};
}

constexpr OpRow kOps[] = {
    {"Abs", unary<ScalarOp::Abs>},
    {"Neg", unary<ScalarOp::Neg>},
    {"Sqrt", unary<ScalarOp::Sqrt>},
    {"Exp", unary<ScalarOp::Exp>},
    {"Log", unary<ScalarOp::Log>},
    {"Sin", unary<ScalarOp::Sin>},
    {"Cos", unary<ScalarOp::Cos>},
    {"Tan", unary<ScalarOp::Tan>},
    {"Asin", unary<ScalarOp::Asin>},
    {"Acos", unary<ScalarOp::Acos>},
    {"Atan", unary<ScalarOp::Atan>},
    {"Sinh", unary<ScalarOp::Sinh>},
    {"Cosh", unary<ScalarOp::Cosh>},
    {"Tanh", unary<ScalarOp::Tanh>},
    {"Asinh", unary<ScalarOp::Asinh>},
    {"Acosh", unary<ScalarOp::Acosh>},
    {"Atanh", unary<ScalarOp::Atanh>},
    {"Erf", unary<ScalarOp::Erf>},
    {"Sign", unary<ScalarOp::Sign>},
    {"Reciprocal", unary<ScalarOp::Recip>},
    {"Ceil", rounded},
    {"Floor", rounded},
    {"Round", rounded},
    {"Not", unary<ScalarOp::Not>},
    {"BitwiseNot", unary<ScalarOp::Not>},
    {"IsNaN", unary<ScalarOp::IsNan>},
    {"IsInf", isInf},
    {"Relu", relu},
    {"Sigmoid", kind<OpKind::Sigmoid>},
    {"Softplus", kind<OpKind::Softplus>},
    {"Softsign", kind<OpKind::Softsign>},
    {"HardSwish", kind<OpKind::HardSwish>},
    {"Mish", kind<OpKind::Mish>},
    {"Add", binary<ScalarOp::Add>, 2, 2},
    {"Sub", binary<ScalarOp::Sub>, 2, 2},
    {"Mul", binary<ScalarOp::Mul>, 2, 2},
    {"Div", binary<ScalarOp::Div>, 2, 2},
    {"Pow", power, 2, 2},
    {"Mod", modulo, 2, 2},
    {"BitShift", shift, 2, 2},
    {"And", binary<ScalarOp::And>, 2, 2},
    {"Or", binary<ScalarOp::Or>, 2, 2},
    {"Xor", binary<ScalarOp::Xor>, 2, 2},
    {"BitwiseAnd", binary<ScalarOp::And>, 2, 2},
    {"BitwiseOr", binary<ScalarOp::Or>, 2, 2},
    {"BitwiseXor", binary<ScalarOp::Xor>, 2, 2},
    {"Equal", binary<ScalarOp::Eq>, 2, 2},
    {"Less", binary<ScalarOp::Lt>, 2, 2},
    {"Greater", binary<ScalarOp::Gt>, 2, 2},
    {"LessOrEqual", binary<ScalarOp::Le>, 2, 2},
    {"GreaterOrEqual", binary<ScalarOp::Ge>, 2, 2},
    {"Max", variadic<ScalarOp::Max>, 1, -1},
    {"Min", variadic<ScalarOp::Min>, 1, -1},
    {"Sum", variadic<ScalarOp::Add>, 1, -1},
    {"Mean", variadic<ScalarOp::Add>, 1, -1},
    {"Where", where, 3, 3},
    {"Clip", clip, 1, 3},
    {"LeakyRelu", leakyRelu},
    {"Elu", elu},
    {"Selu", selu},
    {"Celu", celu},
    {"ThresholdedRelu", thresholdedRelu},
    {"HardSigmoid", hardSigmoid},
    {"Shrink", shrink},
    {"Swish", swish},
    {"Gelu", gelu},
    {"PRelu", pRelu, 2, 2},
    {"Cast", cast},
    {"CastLike", castLike, 2, 2},
    {"Identity", identity},
    {"Dropout", dropout, 1, 3, 2},
};

}  // namespace

std::span<const OpRow> elementwiseOps() {
  return kOps;
}

}  // namespace rlx::onnx
