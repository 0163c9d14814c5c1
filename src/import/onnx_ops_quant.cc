// ONNX quantised ops, by the quantisation rules of the numeric contract: round half to even,
// saturate, integer products in i32; 8-bit matrices are multiplied as they are and corrected.
#include <algorithm>
#include <utility>
#include <vector>

#include "import/onnx_import.h"

namespace rlx::onnx {
namespace {

// The scale or zero point of one axis, as a tensor that broadcasts against x.
Result<Value> alongAxis(Call& c, Value v, const Value& x) {
  if (v.rank() == 0) return v;
  if (v.rank() == 1 && extent(v, 0).is(1)) return reshape(v, {});
  if (v.rank() > 1) {
    if (c.attr("block_size", int64_t{0}) != 0) return c.unsupported("blocked quantisation");
    return v;
  }
  RLX_TRY(const int64_t axis, c.axis("axis", 1, x.rank()));
  Shape s(x.shape().size(), Dim(1));
  s[static_cast<std::size_t>(axis)] = extent(v, 0);
  return reshape(v, s);
}

struct Limits {
  double lo, hi;
};
Limits limits(DType t) {
  const int bits = info(t).bits;
  const double span = static_cast<double>(int64_t{1} << (isSigned(t) ? bits - 1 : bits));
  return {isSigned(t) ? -span : 0, span - 1};
}

// saturate(round(x) + zero) for a value that is already divided by the scale.
Value saturate(Value x, Value zero, DType to) {
  Value y = apply(ScalarOp::Round, x);
  if (zero) y = y + convert(zero, y.dtype());
  const Limits l = limits(to);
  y = apply(ScalarOp::Min, apply(ScalarOp::Max, y, literal(y, l.lo)), literal(y, l.hi));
  return convert(y, to);
}

Status quantize(Call& c) {
  const Value x = c.in(0);
  DType to = DType::U8;
  if (c.has(2)) {
    to = c.in(2).dtype();
  } else if (const int64_t code = c.attr("output_dtype", int64_t{0})) {
    if (!findDType(code, &to)) return c.unsupported("output dtype " + dtypeName(code));
  }
  if (!isInteger(to)) return c.unsupported("quantisation to " + std::string(name(to)));
  RLX_TRY(const Value scale, alongAxis(c, c.in(1), x));
  Value zero;
  if (c.has(2)) {
    RLX_TRY(zero, alongAxis(c, c.in(2), x));
  }
  const DType wide = DType::F32;
  return c.out(0, saturate(convert(x, wide) / convert(scale, wide), zero, to)), Ok{};
}

Status dequantize(Call& c) {
  const Value x = c.in(0);
  if (!isInteger(x.dtype()))
    return c.unsupported("dequantisation of " + std::string(name(x.dtype())));
  RLX_TRY(const Value scale, alongAxis(c, c.in(1), x));
  Value v = convert(x, DType::I32);
  if (c.has(2)) {
    RLX_TRY(const Value zero, alongAxis(c, c.in(2), x));
    v = v - convert(zero, DType::I32);
  }
  return c.out(0, convert(v, scale.dtype()) * scale), Ok{};
}

// Scale and zero point from the range of x, which always holds 0.
Status dynamicQuantize(Call& c) {
  const Value x = c.in(0);
  const std::vector<int64_t> axes = range(0, x.rank());
  const Value zero = literal(x, 0);
  const Value lo = apply(ScalarOp::Min, reduce(x, ReduceKind::Min, axes, KeepDims::No), zero),
              hi = apply(ScalarOp::Max, reduce(x, ReduceKind::Max, axes, KeepDims::No), zero);
  const Value scale = (hi - lo) / literal(x, 255);
  const Value point = saturate(zero - lo / scale, {}, DType::U8);
  c.out(0, saturate(x / scale, point, DType::U8));
  c.out(1, scale);
  c.out(2, point);
  return Ok{};
}

Value centred(Value x, Value zero) {
  x = convert(x, DType::I32);
  return zero ? x - convert(zero, DType::I32) : x;
}

// A zero point per row of the left or per column of the right operand.
Value rows(Value zero) {
  if (!zero || zero.rank() != 1 || extent(zero, 0).is(1))
    return zero && zero.rank() == 1 ? reshape(zero, {}) : zero;
  return reshape(zero, {extent(zero, 0), Dim(1)});
}
Value columns(Value zero) {
  return zero && extent(zero, 0).is(1) && zero.rank() == 1 ? reshape(zero, {}) : zero;
}

// A zero point, absent where it is known to be 0.
Result<Value> zeroPoint(Call& c, std::size_t k) {
  if (!c.has(k)) return Value{};
  if (c.isConstant(k)) {
    RLX_TRY(const std::vector<int64_t> v, c.integers(k));
    if (std::all_of(v.begin(), v.end(), [](int64_t x) { return x == 0; })) return Value{};
  }
  return c.in(k);
}

// Sums over k of a constant [..., k, n], which has elements, as [..., 1, n].
Value sumsOfConstant(Builder& b, const Literal& weight) {
  std::vector<int64_t> shape = weight.shape;
  const int64_t n = shape.back(), k = std::exchange(shape[shape.size() - 2], 1);
  std::vector<uint32_t> sums(static_cast<std::size_t>(product(shape)));
  const std::byte* at = weight.bytes.data();
  for (std::size_t to = 0; to < sums.size(); to += static_cast<std::size_t>(n))
    for (int64_t row = 0; row < k; ++row)
      for (std::size_t j = 0; j < static_cast<std::size_t>(n); ++j) {
        const auto v = static_cast<uint8_t>(*at++);
        sums[to + j] += isSigned(weight.dtype) ? static_cast<uint32_t>(static_cast<int8_t>(v)) : v;
      }
  return b.constant(Literal::copy(DType::I32, shape, std::as_bytes(std::span(sums))));
}

// The same of any value. The interpreter, which folds constants, would be slow for large weights.
Value columnSums(Value b) {
  if (b) {
    const Node& source = b.builder->graph().definition(b.id);
    if (source.op == OpKind::Constant) {
      const Literal weight = source.attrs.as<ConstantAttrs>().value;
      if (weight.elements() > 0) return sumsOfConstant(*b.builder, weight);
    }
  }
  return reduce(convert(b, DType::I32), ReduceKind::Sum, {b.rank() - 2}, KeepDims::Yes);
}

// (a - za)(b - zb) for [..., m, k] x [..., k, n] of 8 bits, multiplied as they are:
// ab - za * (the columns' sums of b - k * zb) - zb * the rows' sums of a.
Value corrected(Value a, Value za, Value b, Value zb) {
  Value y = matmulInteger(a, b);
  if (za) {
    Value sums = columnSums(b);
    if (zb)
      sums = sums -
             dimValue(*b.builder, DType::I32, extent(b, b.rank() - 2)) * convert(zb, DType::I32);
    y = y - convert(za, DType::I32) * sums;
  }
  if (zb) {
    const Value sums =
        reduce(convert(a, DType::I32), ReduceKind::Sum, {a.rank() - 1}, KeepDims::Yes);
    y = y - convert(zb, DType::I32) * sums;
  }
  return y;
}

// The product of inputs a and b after their zero points are taken away, in i32.
Result<Value> integerMatMul(Call& c, std::size_t a, std::size_t za, std::size_t b, std::size_t zb) {
  Value x = c.in(a), y = c.in(b);
  RLX_TRY(const Value xZero, zeroPoint(c, za));
  RLX_TRY(const Value yZero, zeroPoint(c, zb));
  const auto narrow = [](Value v) { return v.dtype() == DType::I8 || v.dtype() == DType::U8; };
  if (!narrow(x) || !narrow(y) || x.rank() == 0 || y.rank() == 0)
    return matmul(centred(x, rows(xZero)), centred(y, columns(yZero)));
  const bool row = x.rank() == 1, column = y.rank() == 1;
  if (row) x = reshape(x, {Dim(1), extent(x, 0)});
  if (column) y = reshape(y, {extent(y, 0), Dim(1)});
  const Value product = corrected(x, rows(xZero), y, columns(yZero));
  Shape s = product.shape();
  if (column && !s.empty()) s.pop_back();
  if (row && !s.empty()) s.erase(s.end() - (column ? 1 : 2));
  return reshape(product, s);
}

Status matMulInteger(Call& c) {
  RLX_TRY(const Value y, integerMatMul(c, 0, 2, 1, 3));
  return c.out(0, y), Ok{};
}

Result<Value> integerConv(Call& c, Value x, Value w, Value bias) {
  std::vector<int64_t> kernel;
  for (int64_t k = 2; k < w.rank(); ++k) {
    if (!extent(w, k).isConst()) return c.unsupported("a kernel of symbolic extents");
    kernel.push_back(extent(w, k).value());
  }
  RLX_TRY(const Window window, readWindow(c, x.shape(), kernel));
  return convolve(c, x, w, bias, window, c.attr("group", int64_t{1}));
}

// A zero point or scale of one output channel each, for a weight of that rank.
Value perOutput(Value v, int64_t rank) {
  if (!v || v.rank() != 1 || rank < 1) return v;
  if (extent(v, 0).is(1)) return reshape(v, {});
  Shape s(static_cast<std::size_t>(rank), Dim(1));
  s[0] = extent(v, 0);
  return reshape(v, s);
}

Status convInteger(Call& c) {
  const Value x = centred(c.in(0), c.in(2) ? reshape(c.in(2), {}) : Value{});
  const Value w = centred(c.in(1), perOutput(c.in(3), c.in(1).rank()));
  RLX_TRY(const Value y, integerConv(c, x, w, {}));
  return c.out(0, y), Ok{};
}

Value factor(Value a, Value b, Value y) {
  return convert(a, DType::F32) * convert(b, DType::F32) / convert(y, DType::F32);
}

Status qlinearMatMul(Call& c) {
  RLX_TRY(const Value acc, integerMatMul(c, 0, 2, 3, 5));
  const Value scaled =
      convert(acc, DType::F32) * factor(rows(c.in(1)), columns(c.in(4)), columns(c.in(6)));
  return c.out(0, saturate(scaled, columns(c.in(7)), c.in(7).dtype())), Ok{};
}

Status qlinearConv(Call& c) {
  const Value w = c.in(3);
  const Value x = centred(c.in(0), reshape(c.in(2), {}));
  RLX_TRY(const Value acc, integerConv(c, x, centred(w, perOutput(c.in(5), w.rank())), c.in(8)));
  Value ws = c.in(4);
  ws = ws.rank() == 1 && !extent(ws, 0).is(1) ? perChannel(ws, acc.rank()) : reshape(ws, {});
  const Value scaled =
      convert(acc, DType::F32) * factor(reshape(c.in(1), {}), ws, reshape(c.in(6), {}));
  return c.out(0, saturate(scaled, reshape(c.in(7), {}), c.in(7).dtype())), Ok{};
}

constexpr OpRow kOps[] = {
    {"QuantizeLinear", quantize, 2, 3},
    {"DequantizeLinear", dequantize, 2, 3},
    {"DynamicQuantizeLinear", dynamicQuantize, 1, 1, 3},
    {"MatMulInteger", matMulInteger, 2, 4},
    {"ConvInteger", convInteger, 2, 4},
    {"QLinearMatMul", qlinearMatMul, 8, 8},
    {"QLinearConv", qlinearConv, 8, 9},
};

}  // namespace

std::span<const OpRow> quantizationOps() {
  return kOps;
}

}  // namespace rlx::onnx
