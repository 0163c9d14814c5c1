// Functions for graphics languages, whose own have loose bounds (Vulkan allows sin an absolute
// error of 2^-11 and atan 4096 units) and whose fma need not round once. Apart from expand.h
// because that one relies on a fused fma. Same error bounds: the `ulp` column of scalar.def.
#pragma once
#include <optional>

#include "kir/expand.h"
#include "kir/expand_real.h"

namespace rlx::kir {
namespace expand_detail {

// A guess from a third of the exponent, then three Newton steps; subnormals are scaled first.
inline Expr cbrtFull(const Expr& x) {
  const Expr a = abs(x), tiny = lt(a, f32(1.17549435e-38));
  const Expr m = select(tiny, mul(a, f32(16777216.0)), a);
  Expr y = floats(add(div(bits(m), i32(3)), i32(709921077)));
  for (int i = 0; i < 3; ++i) y = sub(y, div(sub(y, div(m, mul(y, y))), f32(3)));
  y = select(tiny, mul(y, f32(1.0 / 256)), y);
  const Expr plain = bit_and(gt(a, f32(0)), lt(a, infinity()));
  return select(plain, withSign(y, x), x);
}

}  // namespace expand_detail

// The expansion of an F32 op, or of an F64 op that F32 shares, that needs no fused fma; nothing
// when there is none here.
inline std::optional<Expr> expandPortable(ScalarOp op, const Expr& a, const Expr& b) {
  using namespace expand_detail;
  if (op == ScalarOp::Sin) return sinFull(a);
  if (op == ScalarOp::Cos) return cosFull(a);
  if (op == ScalarOp::Tan) return tanFull(a);
  if (op == ScalarOp::Atan) return withSign(atanPositive(abs(a)), a);
  if (op == ScalarOp::Atan2) return atan2Full(a, b);
  if (op == ScalarOp::Asin) return asinFull(a);
  if (op == ScalarOp::Acos) return acosFull(a);
  if (op == ScalarOp::Sinh) return sinhFull(a);
  if (op == ScalarOp::Cosh) return coshFull(a);
  if (op == ScalarOp::Asinh) return asinhFull(a);
  if (op == ScalarOp::Acosh) return acoshFull(a);
  if (op == ScalarOp::Atanh) return atanhFull(a);
  if (op == ScalarOp::Pow) return powFull(a, b);
  // The fused form loses the sign of zero.
  if (op == ScalarOp::Expm1 && a->type == DType::F32)
    return select(eq(a, f32(0)), a, expandExpm1(a));
  if (op == ScalarOp::Cbrt && a->type == DType::F32) return cbrtFull(a);
  return std::nullopt;
}

}  // namespace rlx::kir
