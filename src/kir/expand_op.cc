#include "kir/expand_op.h"

#include <limits>

#include "kir/expand.h"
#include "kir/expand_cast.h"
#include "kir/expand_f64.h"
#include "kir/expand_fma.h"
#include "kir/number.h"

namespace rlx::kir {
namespace {

Expr literal(DType t, int64_t v) {
  return isFloat(t) ? constant(t, static_cast<double>(v)) : integer(t, v);
}

Expr modulo(DType t, const Expr& a, const Expr& b) {
  const Expr r = rem(a, b);
  if (isInteger(t) && !isSigned(t)) return r;
  const Expr zero = literal(t, 0);
  // b == 0 gives r == a for integers; adding 0 keeps it.
  const Expr wrong = bit_and(ne(r, zero), bit_xor(lt(r, zero), lt(b, zero)));
  return select(wrong, r + b, r);
}

Expr integerPower(DType t, const Expr& a, const Expr& b) {
  const Expr zero = integer(t, 0), one = integer(t, 1), minusOne = integer(t, -1);
  const int bits = info(t).bits - (isSigned(t) ? 1 : 0);
  Expr y = one, square = a;
  for (int i = 0; i < bits; ++i) {
    const Expr set = ne(bit_and(b, integer(t, static_cast<int64_t>(uint64_t{1} << i))), zero);
    y = select(set, y * square, y);
    square = square * square;
  }
  if (!isSigned(t)) return y;
  const Expr even = eq(bit_and(b, one), zero);
  const Expr ofMinusOne = select(eq(a, minusOne), select(even, one, minusOne), zero);
  return select(lt(b, zero), select(eq(a, one), one, ofMinusOne), y);
}

}  // namespace

Expr expandOp(ScalarOp op, DType t, const Expr& a, const Expr& b, const Expr& c) {
  const Expr zero = literal(t, 0), one = literal(t, 1);
  const bool real = isFloat(t);
  const Expr infinity = real ? constant(t, std::numeric_limits<double>::infinity()) : zero;
  if (op == ScalarOp::Mod) return modulo(t, a, b);
  if (op == ScalarOp::Clamp) return select(lt(a, b), b, select(gt(a, c), c, a));
  if (op == ScalarOp::Sign) {
    const Expr rest = real ? a : zero;
    if (!real && !isSigned(t)) return select(ne(a, zero), one, zero);
    return select(gt(a, zero), one, select(lt(a, zero), literal(t, -1), rest));
  }
  if (op == ScalarOp::Max) return select(real ? bit_or(gt(a, b), is_nan(a)) : gt(a, b), a, b);
  if (op == ScalarOp::Min) return select(real ? bit_or(lt(a, b), is_nan(a)) : lt(a, b), a, b);
  if (!real) {
    if (op == ScalarOp::Pow) return integerPower(t, a, b);
    if (op == ScalarOp::Abs) return isSigned(t) ? select(lt(a, zero), -a, a) : a;
    return Expr();
  }
  if (op == ScalarOp::Recip) return one / a;
  if (op == ScalarOp::Rsqrt) return one / sqrt(a);
  if (op == ScalarOp::Frac) return a - floor(a);
  if (op == ScalarOp::IsNan) return isNanByBits(a);
  if (op == ScalarOp::IsInf) return eq(abs(a), infinity);
  if (op == ScalarOp::IsFinite) return lt(abs(a), infinity);
  if (op == ScalarOp::CopySign && t == DType::F32) {
    const Expr sign = bit_and(bitcast(DType::U32, b), integer(DType::U32, 0x80000000));
    return bitcast(DType::F32, bit_or(bitcast(DType::U32, abs(a)), sign));
  }
  if (op == ScalarOp::CopySign && t == DType::F64) {
    const Expr sign = bit_and(bitcast(DType::U64, b), integer(DType::U64, INT64_MIN));
    return bitcast(DType::F64, bit_or(bitcast(DType::U64, abs(a)), sign));
  }
  if (op == ScalarOp::Fma) return expandFma(a, b, c);
  if (t == DType::F64) return expandDouble(op, a, b).value_or(Expr());
  if (const auto y = expandPortable(op, a, b)) return *y;
  if (const auto y = expandUnary(op, a)) return *y;
  return Expr();
}

Expr guardInteger(ScalarOp op, const Expr& a, const Expr& b) {
  const DType t = a->type;
  const int w = info(t).bits;
  const Expr zero = integer(t, 0), one = integer(t, 1), minusOne = integer(t, -1);
  int64_t k = 0;
  const bool known = isInteger(b, &k);
  if (op == ScalarOp::Div || op == ScalarOp::Rem) {
    if (known && k != 0 && (k != -1 || !isSigned(t))) return Expr::apply(op, a, b, Expr(0.0));
    const Expr none = eq(b, zero);
    const Expr negates = isSigned(t) ? eq(b, minusOne) : Expr();
    const Expr safe = select(negates ? bit_or(none, negates) : none, one, b);
    const Expr y = Expr::apply(op, a, safe, Expr(0.0));
    if (op == ScalarOp::Rem) return select(none, a, y);
    return select(none, minusOne, negates ? select(negates, -a, y) : y);
  }
  // A shift by a constant in range or by what a mask keeps in range.
  if (!known && b->kind == ExprKind::Apply && b->op == ScalarOp::And) isInteger(b->args[1], &k);
  if (k >= 0 && k < w && (known || k > 0)) return Expr::apply(op, a, b, Expr(0.0));
  const Expr inside =
      isSigned(t) ? bit_and(ge(b, zero), lt(b, integer(t, w))) : lt(b, integer(t, w));
  const Expr last = integer(t, w - 1);
  if (op == ScalarOp::Shr && isSigned(t)) return shr(a, select(inside, b, last));
  return select(inside, Expr::apply(op, a, bit_and(b, last), Expr(0.0)), zero);
}

}  // namespace rlx::kir
