// Instruction selection of the CPU emitter for the scalar ops: one part of a value at a time.
#include <bit>
#include <limits>
#include <numbers>

#include "backend/cpu/emitter_lower.h"
#include "kir/expand.h"

namespace rlx::cpu {

using kir::ExprKind;

namespace {

bool is64(DType t) {
  return info(t).bits == 64;
}

}  // namespace

Reg Lowering::compareFloat(DType t, int64_t predicate, Reg a, Reg b) {
  if (wideVector() || lanes() == 1 || t == DType::F32)
    return v(Op::FCompare, t, a, b, kNone, freshMask(lanes()), predicate);
  const Reg m = v(Op::FCompare, t, a, b, kNone, kNone, predicate);
  return narrow(DType::I32, DType::I64, m);
}

Reg Lowering::blend(DType t, Reg mask, Reg a, Reg b, Reg dst) {
  if (t == DType::Bool) {
    const Reg x = v(Op::MAnd, t, mask, a), y = v(Op::MAndn, t, mask, b);
    return v(Op::MOr, t, x, y, kNone, dst);
  }
  const Reg m = wideVector() ? mask : maskFor(t, mask);
  if (dst < 0) dst = freshVector(t, lanes());
  Inst& n = put(Op::Blend, t);
  n.dst = dst;
  n.mask = m;
  n.a = a;
  n.b = b;
  return dst;
}

// On Avx2 a mask has I32 lanes; the mask of another width.
Reg Lowering::maskFor(DType t, Reg mask) {
  if (wideVector() || lanes() == 1 || bytes(t) == 4) return mask;
  if (bytes(t) == 8) return widenTo(DType::I64, DType::I32, mask);
  return narrow(bytes(t) == 2 ? DType::I16 : DType::I8, DType::I32, mask);
}

Reg Lowering::compareInteger(DType t, ScalarOp op, Reg a, Reg b) {
  if (wideVector()) {
    const Reg m = freshMask(lanes());
    Inst& n = put(Op::ICompare, t);
    n.scalar = op;
    n.dst = m;
    n.a = a;
    n.b = b;
    return m;
  }
  const auto raw = [&](ScalarOp o, Reg x, Reg y) {
    const Reg m = freshVector(is64(t) ? DType::I64 : DType::I32, lanes());
    Inst& n = put(Op::ICompare, t);
    n.scalar = o;
    n.dst = m;
    n.a = x;
    n.b = y;
    return is64(t) ? narrow(DType::I32, DType::I64, m) : m;
  };
  if (op == ScalarOp::Eq) return raw(ScalarOp::Eq, a, b);
  if (op == ScalarOp::Ne) return v(Op::MNot, DType::Bool, raw(ScalarOp::Eq, a, b));
  if (!isSigned(t)) {
    const Reg top = vectorConstant(t, is64(t) ? uint64_t{1} << 63 : uint64_t{1} << 31);
    a = v(Op::IXor, t, a, top);
    b = v(Op::IXor, t, b, top);
  }
  const bool swap = op == ScalarOp::Lt || op == ScalarOp::Ge;
  const Reg m = swap ? raw(ScalarOp::Gt, b, a) : raw(ScalarOp::Gt, a, b);
  return op == ScalarOp::Lt || op == ScalarOp::Gt ? m : v(Op::MNot, DType::Bool, m);
}

Reg Lowering::neutral(ScalarOp op, DType t) {
  const double inf = std::numeric_limits<double>::infinity();
  if (t == DType::Bool)
    return v(Op::MSet, t, kNone, kNone, kNone, kNone, op == ScalarOp::And ? 1 : 0);
  if (isFloat(t))
    return floatConstant(t, op == ScalarOp::Mul   ? 1
                            : op == ScalarOp::Max ? -inf
                            : op == ScalarOp::Min ? inf
                                                  : -0.0);
  const uint64_t top = uint64_t{1} << (info(t).bits - 1), all = top | (top - 1);
  switch (code(op)) {
    case code(ScalarOp::Mul): return vectorConstant(t, 1);
    case code(ScalarOp::And): return vectorConstant(t, all);
    case code(ScalarOp::Max): return vectorConstant(t, isSigned(t) ? top : 0);
    case code(ScalarOp::Min): return vectorConstant(t, isSigned(t) ? top - 1 : all);
    default: return vectorConstant(t, 0);
  }
}

Reg Lowering::apply(ScalarOp op, DType t, const std::array<int, 3>& args, Reg a, Reg b, Reg c,
                    Reg dst) {
  if (op == ScalarOp::Select && (lanes() > 1)) return blend(t, a, b, c, dst);
  if (op == ScalarOp::Select)
    return isFloat(t) && bytes(t) >= 4
               ? v(Op::FSelect, t, a, b, c, dst)
               : v(Op::GSelect, t, a, b, c, dst < 0 ? fresh(RegClass::Gpr, 8) : dst);
  switch (code(t)) {
    case code(DType::F32):
    case code(DType::F64): return floatApply(op, t, args, a, b, c, dst);
    case code(DType::I32):
    case code(DType::U32):
    case code(DType::I64):
    case code(DType::U64):
      return lanes() == 1 ? generalApply(op, t, args, a, b, c, dst)
                          : integerApply(op, t, args, a, b, c, dst);
    case code(DType::Bool):
      return lanes() == 1 ? generalApply(op, t, args, a, b, c, dst) : boolApply(op, a, b, c, dst);
    default: break;
  }
  fail("scalar op " + std::string(info(op).name) + " on " + std::string(name(t)));
  return a;
}

Reg Lowering::floatApply(ScalarOp op, DType t, const std::array<int, 3>& args, Reg a, Reg b, Reg c,
                         Reg dst) {
  const auto two = [&](Op o, Reg x, Reg y) { return v(o, t, x, y, kNone, dst); };
  const auto constantOf = [&](int id, double* value) {
    if (id < 0 || node(id).kind != ExprKind::Const) return false;
    *value = node(id).fvalue;
    return *value == *value;
  };
  const uint64_t sign = t == DType::F32 ? uint64_t{1} << 31 : uint64_t{1} << 63;
  const auto truth = [&](int64_t predicate, Reg x, Reg y) {
    return lanes() == 1 ? v(Op::FTest, t, x, y, kNone, fresh(RegClass::Gpr, 8), predicate)
                        : compareFloat(t, predicate, x, y);
  };
  const auto magnitude = [&] { return v(Op::FAnd, t, a, vectorConstant(t, sign - 1)); };
  double k = 0, k2 = 0;
  switch (code(op)) {
    case code(ScalarOp::Add): return two(Op::FAdd, a, b);
    case code(ScalarOp::Sub): return two(Op::FSub, a, b);
    case code(ScalarOp::Mul): return two(Op::FMul, a, b);
    case code(ScalarOp::Div): return two(Op::FDiv, a, b);
    case code(ScalarOp::Max):
    case code(ScalarOp::Min): {
      // The instruction returns its second operand when either is NaN.
      const Op o = op == ScalarOp::Max ? Op::FMax : Op::FMin;
      if (constantOf(args[1], &k)) return two(o, b, a);
      if (constantOf(args[0], &k)) return two(o, a, b);
      const Reg y = v(o, t, a, b);
      return blend(t, compareFloat(t, kUnordered, a, a), a, y, dst);
    }
    case code(ScalarOp::CopySign): {
      const Reg s = v(Op::FAnd, t, b, vectorConstant(t, sign));
      return two(Op::FOr, magnitude(), s);
    }
    case code(ScalarOp::Neg): return two(Op::FXor, a, vectorConstant(t, sign));
    case code(ScalarOp::Abs): return two(Op::FAnd, a, vectorConstant(t, sign - 1));
    case code(ScalarOp::Sign): {
      const Reg zero = floatConstant(t, 0);
      const Reg y = blend(t, compareFloat(t, kLess, a, zero), floatConstant(t, -1), a);
      return blend(t, compareFloat(t, kLess, zero, a), floatConstant(t, 1), y, dst);
    }
    case code(ScalarOp::Floor): return v(Op::FRound, t, a, kNone, kNone, dst, 1);
    case code(ScalarOp::Ceil): return v(Op::FRound, t, a, kNone, kNone, dst, 2);
    case code(ScalarOp::Trunc): return v(Op::FRound, t, a, kNone, kNone, dst, 3);
    case code(ScalarOp::Round): return v(Op::FRound, t, a, kNone, kNone, dst, 0);
    case code(ScalarOp::Sqrt): return v(Op::FSqrt, t, a, kNone, kNone, dst);
    case code(ScalarOp::Rsqrt): return two(Op::FDiv, floatConstant(t, 1), v(Op::FSqrt, t, a));
    case code(ScalarOp::Recip): return two(Op::FDiv, floatConstant(t, 1), a);
    case code(ScalarOp::IsNan): return truth(kUnordered, a, a);
    case code(ScalarOp::IsInf):
      return truth(kEqual, magnitude(), floatConstant(t, std::numeric_limits<double>::infinity()));
    case code(ScalarOp::IsFinite):
      return truth(kLess, magnitude(), floatConstant(t, std::numeric_limits<double>::infinity()));
    case code(ScalarOp::Eq): return truth(kEqual, a, b);
    case code(ScalarOp::Ne): return truth(kNotEqual, a, b);
    case code(ScalarOp::Lt): return truth(kLess, a, b);
    case code(ScalarOp::Le): return truth(kLessEqual, a, b);
    case code(ScalarOp::Gt): return truth(kLess, b, a);
    case code(ScalarOp::Ge): return truth(kLessEqual, b, a);
    case code(ScalarOp::Fma): return v(Op::FFma, t, a, b, c, dst);
    case code(ScalarOp::Exp):
      if (t == DType::F32 && wideVector()) return exponential(a, dst);
      break;
    case code(ScalarOp::Clamp): {
      if (constantOf(args[1], &k) && constantOf(args[2], &k2) && k <= k2)
        return two(Op::FMin, c, v(Op::FMax, t, b, a));
      const Reg y = blend(t, compareFloat(t, kLess, c, a), c, a);
      return blend(t, compareFloat(t, kLess, a, b), b, y, dst);
    }
  }
  // What has no instruction is a function of one lane.
  if (const LaneFn f = laneOp(op, t)) return call(f, t, t, a, b, c, dst);
  fail("scalar op " + std::string(info(op).name) + " on " + std::string(name(t)));
  return a;
}

// exp with an instruction that scales by powers of two, which the expansion has to do without:
// fewer terms and no two factors. Operands whose result rounds to 0 are set aside as there.
Reg Lowering::exponential(Reg x, Reg dst) {
  constexpr DType kType = DType::F32;
  constexpr double kLowest = -103.98, kHighest = 89.5;  // beyond: 0, infinity
  constexpr double kRounder = 0x1.8p23;                 // added: the nearest integer
  constexpr double kTerms[] = {0.00837485707, 0.0416682287, 0.166664197, 0.499999921, 1, 1};
  const auto f = [&](double value) { return floatConstant(kType, value); };
  const auto fma = [&](Reg a, Reg b, Reg c) { return v(Op::FFma, kType, a, b, c); };
  const Reg zero = compareFloat(kType, kLess, x, f(kLowest));
  x = v(Op::FMin, kType, f(kHighest), x);  // in this order NaN passes
  const Reg n = v(Op::FSub, kType, fma(x, f(std::numbers::log2e), f(kRounder)), f(kRounder));
  // x - n ln 2, |r| <= ln 2 / 2.
  const Reg r = fma(n, f(-1.42860682e-6), fma(n, f(-0.693145752), x));
  Reg y = f(0.00138367938);
  for (const double term : kTerms) y = fma(y, r, f(term));
  return blend(kType, zero, f(0), v(Op::FScale, kType, y, n), dst);
}

Reg Lowering::integerApply(ScalarOp op, DType t, const std::array<int, 3>& args, Reg a, Reg b,
                           Reg c, Reg dst) {
  const bool s = isSigned(t), wide64 = is64(t), native64 = !wide64 || wideVector();
  const int w = info(t).bits;
  const auto two = [&](Op o, Reg x, Reg y) { return v(o, t, x, y, kNone, dst); };
  const auto k = [&](int64_t value) { return integerConstant(t, value); };
  const Node* constantB =
      args[1] >= 0 && node(args[1]).kind == ExprKind::Const ? &node(args[1]) : nullptr;
  switch (code(op)) {
    case code(ScalarOp::Add): return two(Op::IAdd, a, b);
    case code(ScalarOp::Sub): return two(Op::ISub, a, b);
    case code(ScalarOp::Mul): {
      if (native64) return two(Op::IMul, a, b);
      // The products of the halves; only the low half of the cross products counts.
      const Reg ah = v(Op::IShrI, t, a, kNone, kNone, kNone, 32);
      const Reg bh = v(Op::IShrI, t, b, kNone, kNone, kNone, 32);
      const Reg cross = v(Op::IAdd, t, v(Op::IMulEvenU, t, ah, b), v(Op::IMulEvenU, t, a, bh));
      return two(Op::IAdd, v(Op::IMulEvenU, t, a, b),
                 v(Op::IShlI, t, cross, kNone, kNone, kNone, 32));
    }
    case code(ScalarOp::Div):
    case code(ScalarOp::Rem):
    case code(ScalarOp::Mod):
      if (t == DType::I32 && constantB && constantB->ivalue > 0)
        return divideByConstant(op, a, constantB->ivalue, dst);
      return call(laneOp(op, t), t, t, a, b, c, dst);
    case code(ScalarOp::Pow): return call(laneOp(op, t), t, t, a, b, c, dst);
    case code(ScalarOp::Max):
    case code(ScalarOp::Min): {
      const bool max = op == ScalarOp::Max;
      if (native64)
        return two(max ? (s ? Op::IMaxS : Op::IMaxU) : (s ? Op::IMinS : Op::IMinU), a, b);
      const Reg m = compareInteger(t, max ? ScalarOp::Gt : ScalarOp::Lt, a, b);
      return blend(t, m, a, b, dst);
    }
    case code(ScalarOp::Neg): return two(Op::ISub, k(0), a);
    case code(ScalarOp::Abs): {
      if (!s) return a;
      if (native64) return v(Op::IAbs, t, a, kNone, kNone, dst);
      const Reg m = compareInteger(t, ScalarOp::Lt, a, k(0));
      return blend(t, m, v(Op::ISub, t, k(0), a), a, dst);
    }
    case code(ScalarOp::Sign): {
      const Reg positive =
          s ? compareInteger(t, ScalarOp::Gt, a, k(0)) : compareInteger(t, ScalarOp::Ne, a, k(0));
      const Reg rest = s ? blend(t, compareInteger(t, ScalarOp::Lt, a, k(0)), k(-1), k(0)) : k(0);
      return blend(t, positive, k(1), rest, dst);
    }
    case code(ScalarOp::Eq):
    case code(ScalarOp::Ne):
    case code(ScalarOp::Lt):
    case code(ScalarOp::Le):
    case code(ScalarOp::Gt):
    case code(ScalarOp::Ge): return compareInteger(t, op, a, b);
    case code(ScalarOp::And): return two(Op::IAnd, a, b);
    case code(ScalarOp::Or): return two(Op::IOr, a, b);
    case code(ScalarOp::Xor): return two(Op::IXor, a, b);
    case code(ScalarOp::Not): return two(Op::IXor, a, k(-1));
    case code(ScalarOp::Shl):
    case code(ScalarOp::Shr): {
      const bool left = op == ScalarOp::Shl, arithmetic = !left && s;
      if (constantB) {
        const bool in = constantB->ivalue >= 0 && constantB->ivalue < w;
        if (!in && !arithmetic) return k(0);
        const int64_t count = in ? constantB->ivalue : w - 1;
        if (!arithmetic || native64)
          return v(left         ? Op::IShlI
                   : arithmetic ? Op::ISarI
                                : Op::IShrI,
                   t, a, kNone, kNone, dst, count);
      }
      if (!arithmetic) return two(left ? Op::IShl : Op::IShr, a, b);
      if (native64) return two(Op::ISar, a, b);
      // Shifting the complement of a negative value brings in zeros that become ones.
      const Reg m = widenTo(DType::I64, DType::I32, compareInteger(t, ScalarOp::Lt, a, k(0)));
      return two(Op::IXor, v(Op::IShr, t, v(Op::IXor, t, a, m), b), m);
    }
    case code(ScalarOp::Fma):
      return two(Op::IAdd, integerApply(ScalarOp::Mul, t, args, a, b, c, kNone), c);
    case code(ScalarOp::Clamp): {
      const Reg y = blend(t, compareInteger(t, ScalarOp::Gt, a, c), c, a);
      return blend(t, compareInteger(t, ScalarOp::Lt, a, b), b, y, dst);
    }
    default: break;
  }
  fail("scalar op " + std::string(info(op).name) + " on " + std::string(name(t)));
  return a;
}

// Truncated quotient of I32 lanes by a positive constant; the remainder from it.
Reg Lowering::divideByConstant(ScalarOp op, Reg a, int64_t divisor, Reg dst) {
  const DType t = DType::I32;
  const auto u = static_cast<uint64_t>(divisor);
  if (std::has_single_bit(u) && op == ScalarOp::Mod)
    return v(Op::IAnd, t, a, integerConstant(t, divisor - 1), kNone, dst);
  Reg q = a;
  if (std::has_single_bit(u)) {
    const int shift = std::countr_zero(u);
    if (shift > 0) {
      const Reg negative = v(Op::ISarI, t, a, kNone, kNone, kNone, 31);
      const Reg bias = v(Op::IShrI, t, negative, kNone, kNone, kNone, 32 - shift);
      q = v(Op::ISarI, t, v(Op::IAdd, t, a, bias), kNone, kNone, kNone, shift);
    }
  } else {
    // floor(a * m / 2^(32 + shift)) with m = ceil(2^(32 + shift) / divisor) below 2^32, of which
    // the signed multiplication sees m - 2^32; adding a to the high half restores it.
    const int shift = 63 - std::countl_zero(u);
    const uint64_t m = ((uint64_t{1} << (32 + shift)) + u - 1) / u;
    const Reg factor = integerConstant(t, static_cast<int32_t>(static_cast<uint32_t>(m)));
    const Reg even = v(Op::IMulEvenS, DType::I32, a, factor);
    const Reg odd =
        v(Op::IMulEvenS, DType::I32, v(Op::IShuffle, t, a, kNone, kNone, kNone, 0xf5), factor);
    // The high halves: of the even lanes moved down, of the odd lanes in place.
    const Reg down = v(Op::IShuffle, t, even, kNone, kNone, kNone, 0xf5);
    Reg high = kNone;
    {
      std::string data;
      for (int i = 0; i < vectorBytes() / 4; ++i) {
        const int32_t x = i % 2 == 0 ? 0 : -1;
        data.append(reinterpret_cast<const char*>(&x), sizeof x);
      }
      const Reg oddLanes = poolConstant(data, vectorBytes());
      high = v(Op::IOr, t, v(Op::IAnd, t, odd, oddLanes), v(Op::IAndn, t, oddLanes, down));
    }
    if (m >> 31 != 0) high = v(Op::IAdd, t, high, a);
    const Reg negative = v(Op::ISarI, t, a, kNone, kNone, kNone, 31);
    q = v(Op::ISub, t, v(Op::ISarI, t, high, kNone, kNone, kNone, shift), negative);
  }
  if (op == ScalarOp::Div) return q;
  const Reg product = v(Op::IMul, t, q, integerConstant(t, divisor));
  const Reg rem = v(Op::ISub, t, a, product);
  if (op == ScalarOp::Rem) return rem;
  const Reg negative = v(Op::ISarI, t, rem, kNone, kNone, kNone, 31);
  return v(Op::IAdd, t, rem, v(Op::IAnd, t, negative, integerConstant(t, divisor)), kNone, dst);
}

Reg Lowering::boolApply(ScalarOp op, Reg a, Reg b, Reg c, Reg dst) {
  const DType t = DType::Bool;
  (void)c;
  switch (code(op)) {
    case code(ScalarOp::And):
    case code(ScalarOp::Min):
    case code(ScalarOp::Mul): return v(Op::MAnd, t, a, b, kNone, dst);
    case code(ScalarOp::Or):
    case code(ScalarOp::Max):
    case code(ScalarOp::Add): return v(Op::MOr, t, a, b, kNone, dst);
    case code(ScalarOp::Xor):
    case code(ScalarOp::Ne): return v(Op::MXor, t, a, b, kNone, dst);
    case code(ScalarOp::Eq): return v(Op::MNot, t, v(Op::MXor, t, a, b), kNone, kNone, dst);
    case code(ScalarOp::Not): return v(Op::MNot, t, a, kNone, kNone, dst);
    default: break;
  }
  fail("scalar op " + std::string(info(op).name) + " on bool");
  return a;
}

// Scalar integers and Bool in general registers.
Reg Lowering::generalApply(ScalarOp op, DType t, const std::array<int, 3>& args, Reg a, Reg b,
                           Reg c, Reg dst) {
  const int w = t == DType::Bool ? 1 : info(t).bits;
  const DType type = t == DType::Bool ? DType::U32 : t;
  const Node* constantB =
      args[1] >= 0 && node(args[1]).kind == ExprKind::Const ? &node(args[1]) : nullptr;
  const bool small = constantB && constantB->ivalue == static_cast<int32_t>(constantB->ivalue);
  const auto arith = [&](Reg x, Reg y, int64_t imm) {
    return g(Op::GArith, type, op, x, y, imm, dst);
  };
  switch (code(op)) {
    case code(ScalarOp::Add):
    case code(ScalarOp::Sub):
    case code(ScalarOp::Mul):
    case code(ScalarOp::And):
    case code(ScalarOp::Or):
    case code(ScalarOp::Xor): return small ? arith(a, kNone, constantB->ivalue) : arith(a, b, 0);
    case code(ScalarOp::Max):
    case code(ScalarOp::Min): return arith(a, b, 0);
    case code(ScalarOp::Neg):
    case code(ScalarOp::Abs):
    case code(ScalarOp::Sign): return arith(a, kNone, 0);
    case code(ScalarOp::Not):
      if (t == DType::Bool) return g(Op::GArith, type, ScalarOp::Xor, a, kNone, 1, dst);
      return arith(a, kNone, 0);
    case code(ScalarOp::Shl):
    case code(ScalarOp::Shr):
      if (constantB) {
        const bool in = constantB->ivalue >= 0 && constantB->ivalue < w;
        if (!in && (op == ScalarOp::Shl || !isSigned(t))) return gImm(0);
        return arith(a, kNone, in ? constantB->ivalue : w - 1);
      }
      return arith(a, b, 0);
    case code(ScalarOp::Div):
    case code(ScalarOp::Rem):
    case code(ScalarOp::Mod):
      if (t == DType::I32 && constantB && constantB->ivalue > 0)
        return g(Op::GDivConst, t, op, a, kNone, constantB->ivalue, dst);
      return g(Op::GDiv, t, op, a, b, 0, dst);
    case code(ScalarOp::Pow): return call(laneOp(op, t), t, t, a, b, c, dst);
    case code(ScalarOp::Eq):
    case code(ScalarOp::Ne):
    case code(ScalarOp::Lt):
    case code(ScalarOp::Le):
    case code(ScalarOp::Gt):
    case code(ScalarOp::Ge):
      return small ? g(Op::GCompare, type, op, a, kNone, constantB->ivalue, dst)
                   : g(Op::GCompare, type, op, a, b, 0, dst);
    case code(ScalarOp::Fma): {
      const Reg p = g(Op::GArith, type, ScalarOp::Mul, a, b);
      return g(Op::GArith, type, ScalarOp::Add, p, c, 0, dst);
    }
    case code(ScalarOp::Clamp): {
      const Reg y = fresh(RegClass::Gpr, 8);
      (void)v(Op::GSelect, t, g(Op::GCompare, type, ScalarOp::Gt, a, c), c, a, y);
      const Reg below = g(Op::GCompare, type, ScalarOp::Lt, a, b);
      return v(Op::GSelect, t, below, b, y, dst < 0 ? fresh(RegClass::Gpr, 8) : dst);
    }
    default: break;
  }
  fail("scalar op " + std::string(info(op).name) + " on " + std::string(name(t)));
  return a;
}

}  // namespace rlx::cpu
