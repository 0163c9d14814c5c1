// Conversions between lane types, calls of lane functions, and reductions of the lanes of a vector.
#include <bit>
#include <limits>

#include "backend/cpu/emitter_lower.h"
#include "kir/expand.h"

namespace rlx::cpu {

namespace {

bool isFloat32(DType t) {
  return t == DType::F32 || t == DType::F64;
}
bool isNarrowInteger(DType t) {
  return isInteger(t) && info(t).bits < 32;
}
bool isIntegral(DType t) {
  return isInteger(t) || t == DType::Bool;
}

}  // namespace

Reg Lowering::widenTo(DType to, DType from, Reg x) {
  const Reg y = freshVector(to, lanes());
  Inst& n = put(Op::Widen, to);
  n.from = from;
  n.dst = y;
  n.a = x;
  return y;
}

// Integer lanes to narrower lanes, dropping the high bits.
Reg Lowering::narrow(DType to, DType from, Reg x) {
  const auto step = [&](DType t, DType f, Reg r, Reg pattern, bool tmp) {
    const Reg y = fresh(RegClass::Vec, std::max(16, bytes(t) * lanes()));
    const Reg scratch = tmp ? fresh(RegClass::Vec, 16) : kNone;
    Inst& n = put(Op::Narrow, t);
    n.from = f;
    n.dst = y;
    n.early = tmp;
    n.a = r;
    n.b = pattern;
    n.tmp = scratch;
    return y;
  };
  if (bytes(to) == bytes(from)) return x;
  if (wideVector()) return step(to, from, x, kNone, false);
  if (bytes(from) == 8) {
    x = step(DType::I32, from, x, kNone, true);
    from = DType::I32;
    if (bytes(to) == 4) return x;
  }
  RLX_CHECK(bytes(from) == 4, "narrowing of narrow lanes");
  // In each 128-bit half the wanted bytes move to the front.
  std::string pattern;
  for (int half = 0; half < 2; ++half)
    for (int i = 0; i < 16; ++i) {
      const int element = i / bytes(to);
      pattern.push_back(static_cast<char>(element < 4 ? element * 4 + i % bytes(to) : 0x80));
    }
  const int id = synthetic(32 + bytes(to), 0, 0, 0, 0, 0);
  Reg shuffle = kNone;
  if (const Memo* m = find(Form::Full, id)) {
    shuffle = m->value.r[0];
  } else {
    Value value;
    value.r.fill(poolConstant(pattern, 32));
    remember(Form::Full, id, value, place(0).scope);
    shuffle = value.r[0];
  }
  return step(to, from, x, shuffle, lanes() == 8 && bytes(to) == 1);
}

// Float lanes to I32 or U32: toward zero, saturating, NaN to 0.
Reg Lowering::saturate(DType to, DType from, Reg x) {
  const auto convert = [&](DType t, DType f, Reg r) {
    const Reg y = freshVector(t, lanes());
    Inst& n = put(Op::Convert, t);
    n.from = f;
    n.dst = y;
    n.a = r;
    return y;
  };
  const auto constant = [&](double c) { return floatConstant(from, c); };
  const double limit = 2147483648.0;
  if (to == DType::I32) {
    if (from == DType::F64) x = v(Op::FMin, from, constant(limit - 1), x);
    // Out of range and NaN give the lowest integer: right below, inverted above.
    const Reg nan = compareFloat(from, kUnordered, x, x);
    Reg y = convert(to, from, x);
    if (from == DType::F32) {
      const Reg high = compareFloat(from, kLessEqual, constant(limit), x);
      y = blend(to, high, integerConstant(to, 0x7fffffff), y);
    }
    return blend(to, nan, integerConstant(to, 0), y);
  }
  x = v(Op::FMax, from, x, constant(0));  // NaN becomes 0
  if (from == DType::F64) {
    x = v(Op::FRound, from, v(Op::FMin, from, constant(4294967295.0), x), kNone, kNone, kNone, 3);
    if (wideVector()) return convert(to, from, x);
    return v(Op::IXor, DType::I32, convert(DType::I32, from, v(Op::FSub, from, x, constant(limit))),
             integerConstant(DType::I32, int64_t{1} << 31));
  }
  if (wideVector()) return convert(to, from, x);
  const Reg big = compareFloat(from, kLessEqual, constant(limit), x);
  const Reg over = compareFloat(from, kLessEqual, constant(2 * limit), x);
  const Reg low = convert(DType::I32, from, x);
  const Reg high =
      v(Op::IXor, DType::I32, convert(DType::I32, from, v(Op::FSub, from, x, constant(limit))),
        integerConstant(DType::I32, int64_t{1} << 31));
  const Reg y = blend(to, big, high, low);
  return blend(to, over, integerConstant(to, -1), y);
}

// Between F64 F32 I64 I32 U64 U32.
Reg Lowering::castCore(DType to, DType from, Reg x) {
  const auto convert = [&](DType t, DType f, Reg r) {
    const Reg y = freshVector(t, lanes());
    Inst& n = put(Op::Convert, t);
    n.from = f;
    n.dst = y;
    n.a = r;
    return y;
  };
  const bool bothIntegers = isInteger(to) && isInteger(from);
  if (bothIntegers) {
    if (bytes(to) == bytes(from)) return x;
    return bytes(to) > bytes(from) ? widenTo(to, from, x) : narrow(to, from, x);
  }
  if (isFloat(to) && isFloat(from)) return convert(to, from, x);
  if (isFloat(to)) {
    if (from == DType::I32 || wideVector()) return convert(to, from, x);
    if (from == DType::U32 && to == DType::F32) {
      // Both halves are exact, and so is the product: the sum rounds once.
      const Reg high = convert(to, DType::I32, v(Op::IShrI, from, x, kNone, kNone, kNone, 16));
      const Reg low = convert(to, DType::I32, v(Op::IAnd, from, x, integerConstant(from, 0xffff)));
      return v(Op::FFma, to, high, floatConstant(to, 65536), low);
    }
    if (from == DType::U32) {
      const Reg shifted = v(Op::IXor, from, x, integerConstant(from, int64_t{1} << 31));
      return v(Op::FAdd, to, convert(to, DType::I32, shifted), floatConstant(to, 2147483648.0));
    }
    return call(laneCast(to, from), to, from, x, kNone, kNone);
  }
  if (bytes(to) == 4) return saturate(to, from, x);
  return call(laneCast(to, from), to, from, x, kNone, kNone);
}

Reg Lowering::castPart(DType to, DType from, Reg x) {
  const auto convert = [&](DType t, DType f, Reg r) {
    const Reg y = freshVector(t, lanes());
    Inst& n = put(Op::Convert, t);
    n.from = f;
    n.dst = y;
    n.a = r;
    return y;
  };
  if (to == from) return x;
  if (from == DType::Bool) {
    if (isFloat32(to)) return blend(to, x, floatConstant(to, 1), floatConstant(to, 0));
    const DType via = bytes(to) == 8 ? to : isFloat(to) ? DType::F32 : DType::I32;
    if (via == DType::F32) return castPart(to, via, castPart(via, from, x));
    const Reg y = blend(via, x, integerConstant(via, 1), integerConstant(via, 0));
    return castPart(to, via, y);
  }
  const DType original = from;
  if (from == DType::F16) {
    x = convert(DType::F32, from, x);
    from = DType::F32;
  } else if (from == DType::BF16) {
    x = v(Op::IShlI, DType::I32, widenTo(DType::I32, DType::U16, x), kNone, kNone, kNone, 16);
    from = DType::F32;
  } else if (isNarrowInteger(from)) {
    x = widenTo(DType::I32, from, x);
    from = DType::I32;
  }
  if (to == from) return x;
  if (to == DType::Bool)
    return isFloat(from) ? compareFloat(from, kNotEqual, x, floatConstant(from, 0))
                         : compareInteger(from, ScalarOp::Ne, x, integerConstant(from, 0));
  if (isNarrowInteger(to)) {
    if (isFloat(from)) {
      x = saturate(DType::I32, from, x);
      const int bits = info(to).bits;
      const int64_t high = isSigned(to) ? (1 << (bits - 1)) - 1 : (1 << bits) - 1;
      const int64_t low = isSigned(to) ? -high - 1 : 0;
      x = v(Op::IMinS, DType::I32, x, integerConstant(DType::I32, high));
      x = v(Op::IMaxS, DType::I32, x, integerConstant(DType::I32, low));
      from = DType::I32;
    }
    return narrow(to, from, x);
  }
  if (to == DType::F16) {
    if (from == DType::I32 || from == DType::U32) {
      x = castCore(DType::F32, from, x);
      from = DType::F32;
    }
    if (from == DType::F32) return convert(to, from, x);
    return call(laneCast(to, from), to, from, x, kNone, kNone);
  }
  if (to == DType::BF16) {
    if (isNarrowInteger(original)) {
      x = castCore(DType::F32, from, x);
      from = DType::F32;
    }
    if (from != DType::F32) return call(laneCast(to, from), to, from, x, kNone, kNone);
    const DType i = DType::I32;
    const Reg odd =
        v(Op::IAnd, i, v(Op::IShrI, i, x, kNone, kNone, kNone, 16), integerConstant(i, 1));
    const Reg bias = v(Op::IAdd, i, odd, integerConstant(i, 0x7fff));
    const Reg rounded = v(Op::IAdd, i, x, bias);
    const Reg quiet = v(Op::IOr, i, x, integerConstant(i, 0x400000));
    const Reg y = blend(i, compareFloat(DType::F32, kUnordered, x, x), quiet, rounded);
    return narrow(DType::U16, i, v(Op::IShrI, i, y, kNone, kNone, kNone, 16));
  }
  return castCore(to, from, x);
}

Reg Lowering::castScalar(DType to, DType from, Reg x) {
  if (to == from) return x;
  if (isIntegral(to) && isIntegral(from)) {
    if (to == DType::Bool) return g(Op::GIsNonZero, from, ScalarOp::Ne, x, kNone);
    if (from == DType::Bool || bytes(to) == bytes(from)) {
      if (isNarrowInteger(to) && from != DType::Bool)
        return g(Op::GExtend, to, ScalarOp::Add, x, kNone);
      return x;
    }
    if (bytes(to) < 4) return g(Op::GExtend, to, ScalarOp::Add, x, kNone);
    if (bytes(to) == 4)
      return bytes(from) == 8 ? g(Op::GExtend, DType::U32, ScalarOp::Add, x, kNone) : x;
    return isSigned(from) ? g(Op::GSext, DType::I64, ScalarOp::Add, x, kNone)
                          : g(Op::GExtend, DType::U32, ScalarOp::Add, x, kNone);
  }
  if (isFloat32(to) && isIntegral(from) && from != DType::U64) {
    // Every type but U64 fits a signed 64-bit register.
    Reg whole = x;
    if (from != DType::I64)
      whole = isSigned(from) ? g(Op::GSext, DType::I64, ScalarOp::Add, x, kNone)
                             : g(Op::GExtend, DType::U32, ScalarOp::Add, x, kNone);
    const Reg y = freshVector(to, 1);
    Inst& n = put(Op::Convert, to);
    n.from = DType::I64;
    n.dst = y;
    n.a = whole;
    return y;
  }
  // The lane code on a vector of which the first lane counts.
  const VectorContext saved = ctx_;
  ctx_.active = true;
  ctx_.quad = true;
  ctx_.lanes = 4;
  ctx_.parts = 1;
  DType source = from;
  if (from == DType::Bool) source = DType::I32;
  if (!isFloat32(from)) x = v(Op::VFromG, source, x);
  Reg y = kNone;
  if (to == DType::Bool) {
    const Reg m = castPart(to, source, x);
    y = g(Op::GArith, DType::U32, ScalarOp::And, v(Op::MBits, DType::I32, m), kNone, 1);
  } else {
    y = castPart(to, source, x);
    if (!isFloat32(to)) {
      y = v(Op::VToG, to, y);
      if (bytes(to) < 4) y = g(Op::GExtend, isFloat(to) ? DType::U16 : to, ScalarOp::Add, y, kNone);
    }
  }
  ctx_ = saved;
  return y;
}

Reg Lowering::call(LaneFn fn, DType to, DType from, Reg a, Reg b, Reg c, Reg dst) {
  RLX_CHECK(fn != nullptr, "no lane function");
  const auto general = [&](DType t) { return lanes() == 1 && !isFloat32(t); };
  int32_t slot = 0;
  for (Reg r : {a, b, c}) {
    if (r >= 0) {
      Inst& n = put(general(from) ? Op::GStore : Op::VStore, from);
      n.a = r;
      n.base = kFrame;
      n.disp = slot;
    }
    slot += kCallSlot;
  }
  Inst& n = put(Op::Call, from);
  n.imm = reinterpret_cast<int64_t>(fn);
  if (dst < 0) dst = freshVector(to, lanes());
  Inst& ld = put(general(to) ? Op::GLoad : Op::VLoad, to);
  ld.dst = dst;
  ld.base = kFrame;
  ld.disp = kCallOut;
  return dst;
}

// y, but the library's value in the lanes where |x| is beyond the range of the expansion.
Reg Lowering::largeArguments(ScalarOp op, Reg x, Reg y) {
  const DType t = DType::F32;
  const Reg limit = floatConstant(t, kir::kTrigLimit);
  const Reg magnitude = v(Op::FAnd, t, x, vectorConstant(t, 0x7fffffff));
  const Reg large = compareFloat(t, kLess, limit, magnitude);
  const Reg out = v(Op::VMov, t, y);
  const int skip = newLabel();
  jump(Op::JumpZero, skip, v(Op::MBits, DType::I32, large));
  const Reg exact = call(laneOp(op, t), t, t, x, kNone, kNone);
  (void)blend(t, large, exact, out, out);
  label(skip);
  return out;
}

// Combines the lanes of one vector by halves; the result is a scalar.
Reg Lowering::reduceLanes(ScalarOp op, DType t, Reg x) {
  if (t == DType::Bool) {
    const Reg bits = v(Op::MBits, DType::I32, x);
    const int64_t all = (int64_t{1} << ctx_.lanes) - 1;
    return op == ScalarOp::And ? g(Op::GCompare, DType::U32, ScalarOp::Eq, bits, kNone, all)
                               : g(Op::GCompare, DType::U32, ScalarOp::Ne, bits, kNone, 0);
  }
  const VectorContext saved = ctx_;
  for (int n = ctx_.lanes / 2; n >= 1; n /= 2) {
    ctx_.lanes = n * 2;
    const Reg high = fresh(RegClass::Vec, std::max(16, n * bytes(t)));
    Inst& m = put(Op::VHigh, t);
    m.dst = high;
    m.a = x;
    ctx_.lanes = std::max(n, isFloat32(t) ? 1 : 2);
    x = apply(op, t, {-1, -1, -1}, x, high, kNone, kNone);
  }
  ctx_.lanes = 1;
  if (!isFloat32(t)) x = v(Op::VToG, t, x);
  ctx_ = saved;
  return x;
}

}  // namespace rlx::cpu
