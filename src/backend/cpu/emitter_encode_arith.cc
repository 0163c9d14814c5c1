// Encodings of arithmetic: general registers, float lanes, integer lanes.
#include <algorithm>
#include <bit>

#include "backend/cpu/emitter_encode.h"

namespace rlx::cpu {

using Xbyak::Opmask;
using Xbyak::Reg32;
using Xbyak::Xmm;

namespace {

bool is64(DType t) {
  return info(t).bits == 64;
}

}  // namespace

void Encoder::generalArith(const Inst& n) {
  const bool w = is64(n.type);
  const Reg64 a = useGeneral(n.a);
  const bool immediate = n.b < 0;
  const Reg64 b = immediate ? rax : useGeneral(n.b);
  const Reg64 d = defGeneral(n.dst);
  const auto imm = static_cast<uint32_t>(static_cast<int32_t>(n.imm));
  const auto sizedReg = [&](const Reg64& r) -> Xbyak::Reg {
    return w ? Xbyak::Reg(r) : Xbyak::Reg(r.cvt32());
  };
  const Xbyak::Reg acc = sizedReg(rax), ra = sizedReg(a), rb = sizedReg(b);
  const int width = w ? 64 : 32;
  const auto result = [&](const Xbyak::Reg& x) {
    if (x.getIdx() != d.getIdx()) mov(sizedReg(d), x);
  };
  switch (code(n.scalar)) {
    case code(ScalarOp::Mul):
      if (immediate) {
        imul(w ? Xbyak::Reg32e(d) : Xbyak::Reg32e(d.cvt32()), ra, static_cast<int>(n.imm));
        return;
      }
      mov(acc, ra);
      imul(w ? Xbyak::Reg32e(rax) : Xbyak::Reg32e(eax), rb);
      return result(acc);
    case code(ScalarOp::Add):
    case code(ScalarOp::Sub):
    case code(ScalarOp::And):
    case code(ScalarOp::Or):
    case code(ScalarOp::Xor): {
      const auto step = [&](const Xbyak::Reg& x, const auto& y) {
        switch (code(n.scalar)) {
          case code(ScalarOp::Add): add(x, y); break;
          case code(ScalarOp::Sub): sub(x, y); break;
          case code(ScalarOp::And): and_(x, y); break;
          case code(ScalarOp::Or): or_(x, y); break;
          default: xor_(x, y); break;
        }
      };
      const bool clash = !immediate && d.getIdx() == b.getIdx() && d.getIdx() != a.getIdx();
      const Xbyak::Reg x = clash ? acc : sizedReg(d);
      if (x.getIdx() != ra.getIdx()) mov(x, ra);
      if (immediate)
        step(x, imm);
      else
        step(x, rb);
      return result(x);
    }
    case code(ScalarOp::Neg):
    case code(ScalarOp::Not): {
      const Xbyak::Reg x = sizedReg(d);
      if (x.getIdx() != ra.getIdx()) mov(x, ra);
      if (n.scalar == ScalarOp::Neg)
        neg(x);
      else
        not_(x);
      return;
    }
    case code(ScalarOp::Abs):
      mov(acc, ra);
      if (isSigned(n.type)) {
        neg(acc);
        cmovs(w ? Xbyak::Reg32e(rax) : Xbyak::Reg32e(eax), ra);
      }
      return result(acc);
    case code(ScalarOp::Sign): {
      // (a > 0) - (a < 0)
      test(ra, ra);
      if (!isSigned(n.type)) {
        setne(al);
        movzx(eax, al);
        return result(acc);
      }
      mov(rdx, a);
      setg(al);
      movzx(eax, al);
      sar(sizedReg(rdx), width - 1);
      or_(acc, sizedReg(rdx));
      return result(acc);
    }
    case code(ScalarOp::Max):
    case code(ScalarOp::Min): {
      const bool s = isSigned(n.type), max = n.scalar == ScalarOp::Max;
      mov(acc, ra);
      cmp(acc, rb);
      const Xbyak::Reg32e x = w ? Xbyak::Reg32e(rax) : Xbyak::Reg32e(eax);
      if (max) {
        s ? cmovl(x, rb) : cmovb(x, rb);
      } else {
        s ? cmovg(x, rb) : cmova(x, rb);
      }
      return result(acc);
    }
    case code(ScalarOp::Shl):
    case code(ScalarOp::Shr): {
      const bool left = n.scalar == ScalarOp::Shl, arithmetic = !left && isSigned(n.type);
      const Xbyak::Reg32e x = w ? Xbyak::Reg32e(rax) : Xbyak::Reg32e(eax);
      const Xbyak::Reg32e ea = w ? Xbyak::Reg32e(a) : Xbyak::Reg32e(a.cvt32());
      if (immediate) {
        const Xbyak::Reg y = sizedReg(d);
        if (y.getIdx() != ra.getIdx()) mov(y, ra);
        const int count = static_cast<int>(n.imm);
        if (left)
          shl(y, count);
        else if (arithmetic)
          sar(y, count);
        else
          shr(y, count);
        return;
      }
      // The hardware takes the count modulo the width; a count beyond it is handled apart.
      const Xbyak::Reg32e count = w ? Xbyak::Reg32e(b) : Xbyak::Reg32e(b.cvt32());
      Xbyak::Label in;
      if (left)
        shlx(x, ea, count);
      else if (arithmetic)
        sarx(x, ea, count);
      else
        shrx(x, ea, count);
      cmp(rb, static_cast<uint32_t>(width));
      jb(in, T_NEAR);
      if (arithmetic) {
        mov(acc, ra);
        sar(acc, width - 1);
      } else {
        xor_(eax, eax);
      }
      L(in);
      return result(acc);
    }
    default: unsupported("a scalar op on integers");
  }
}

// x / 0 is -1 and x % 0 is x; MIN / -1 is MIN and MIN % -1 is 0.
void Encoder::divide(const Inst& n) {
  const bool w = is64(n.type), s = isSigned(n.type);
  const auto sizedReg = [&](const Reg64& r) -> Xbyak::Reg {
    return w ? Xbyak::Reg(r) : Xbyak::Reg(r.cvt32());
  };
  // Operands to the frame: the instruction takes rax and rdx.
  const Reg64 a = useGeneral(n.a);
  mov(qword[rsp], a);
  generalUsed_ = 0;
  if (inRegister(n.b))
    mov(rcx, Reg64(place(n.b).reg));
  else
    mov(rcx, home(n.b, 64));
  Xbyak::Label zero, minus, done;
  const Xbyak::Reg divisor = sizedReg(rcx), x = sizedReg(rax), r = sizedReg(rdx);
  mov(rax, qword[rsp]);
  test(divisor, divisor);
  jz(zero, T_NEAR);
  if (s) {
    cmp(divisor, static_cast<uint32_t>(-1));
    je(minus, T_NEAR);
    if (w)
      cqo();
    else
      cdq();
    idiv(divisor);
  } else {
    xor_(edx, edx);
    div(divisor);
  }
  if (n.scalar == ScalarOp::Mod && s) {
    // A remainder that differs in sign from the divisor moves by the divisor.
    test(r, r);
    jz(done, T_NEAR);
    mov(x, r);
    xor_(x, divisor);
    jns(done, T_NEAR);
    add(r, divisor);
  }
  jmp(done, T_NEAR);
  L(zero);
  mov(rdx, rax);
  mov(x, -1);
  jmp(done, T_NEAR);
  L(minus);
  xor_(edx, edx);
  neg(x);
  L(done);
  const Xbyak::Reg y = n.scalar == ScalarOp::Div ? x : r;
  if (!w) mov(y, y);
  const Reg64 full(y.getIdx());
  if (inRegister(n.dst))
    mov(Reg64(place(n.dst).reg), full);
  else
    mov(home(n.dst, 64), full);
}

// I32 by a positive constant, by multiplication.
void Encoder::divideByConstant(const Inst& n) {
  const Reg64 source = useGeneral(n.a);
  const auto u = static_cast<uint64_t>(n.imm);
  const auto divisor = static_cast<uint32_t>(u);
  mov(ecx, source.cvt32());
  const auto finishWith = [&](const Reg32& r) {
    if (inRegister(n.dst))
      mov(Reg32(place(n.dst).reg), r);
    else
      mov(home(n.dst, 64), Reg64(r.getIdx()));
  };
  if (n.scalar == ScalarOp::Mod && std::has_single_bit(u)) {
    and_(ecx, divisor - 1);
    return finishWith(ecx);
  }
  if (std::has_single_bit(u)) {
    const int shift = std::countr_zero(u);
    mov(eax, ecx);
    if (shift > 0) {
      sar(eax, 31);
      shr(eax, 32 - shift);
      add(eax, ecx);
      sar(eax, shift);
    }
  } else {
    const int shift = 63 - std::countl_zero(u);
    const uint64_t m = ((uint64_t{1} << (32 + shift)) + u - 1) / u;
    movsxd(rax, ecx);
    mov(edx, static_cast<uint32_t>(m));
    imul(rax, rdx);
    sar(rax, 32 + shift);
    mov(edx, ecx);
    sar(edx, 31);
    sub(eax, edx);
  }
  if (n.scalar == ScalarOp::Div) return finishWith(eax);
  imul(eax, eax, static_cast<int>(divisor));
  sub(ecx, eax);
  if (n.scalar == ScalarOp::Mod) {
    mov(eax, ecx);
    sar(eax, 31);
    and_(eax, divisor);
    add(ecx, eax);
  }
  finishWith(ecx);
}

// dst = a * b + c. The form overwrites one operand: one that ends here, if there is one.
void Encoder::fusedMultiplyAdd(const Inst& n) {
  const int size = bytes(n.type) * n.lanes;
  const bool d64 = is64(n.type), scalar = n.lanes == 1;
  const auto f213 = [&](const Xmm& x, const Xmm& y, const auto& z) {
    if (scalar)
      d64 ? vfmadd213sd(x, y, z) : vfmadd213ss(x, y, z);
    else
      d64 ? vfmadd213pd(x, y, z) : vfmadd213ps(x, y, z);
  };
  const auto f231 = [&](const Xmm& x, const Xmm& y, const auto& z) {
    if (scalar)
      d64 ? vfmadd231sd(x, y, z) : vfmadd231ss(x, y, z);
    else
      d64 ? vfmadd231pd(x, y, z) : vfmadd231ps(x, y, z);
  };
  const auto f132 = [&](const Xmm& x, const Xmm& y, const auto& z) {
    if (scalar)
      d64 ? vfmadd132sd(x, y, z) : vfmadd132ss(x, y, z);
    else
      d64 ? vfmadd132pd(x, y, z) : vfmadd132ps(x, y, z);
  };
  Reg a = n.a, b = n.b;
  if (!inRegister(a) && inRegister(b)) std::swap(a, b);
  const auto at = [&](Reg r) { return inRegister(r) ? place(r).reg : -1; };
  const int dst = at(n.dst);
  if (n.dst == n.c && dst < 0) {  // an accumulator in memory
    const Xmm d = def(n.dst, size, /*read=*/true), x = use(a, size);
    withOperand(b, size, [&](const auto& y) { f231(d, x, y); });
    return;
  }
  if (dst >= 0 && dst == at(n.c)) {
    const Xmm d = sized(dst, size), x = use(a, size);
    withOperand(b, size, [&](const auto& y) { f231(d, x, y); });
    return;
  }
  if (dst >= 0 && dst == at(b) && dst != at(a)) std::swap(a, b);
  if (dst >= 0 && dst == at(a)) {
    const Xmm d = sized(dst, size);
    if (inRegister(b)) {
      withOperand(n.c, size, [&](const auto& z) { f213(d, sized(place(b).reg, size), z); });
    } else {
      const Xmm z = use(n.c, size);
      withOperand(b, size, [&](const auto& y) { f132(d, z, y); });
    }
    return;
  }
  const Xmm d = def(n.dst, size);
  if (inRegister(n.c)) {
    const Xmm x = use(a, size);
    move(sized(d.getIdx(), std::max(size, 16)), sized(place(n.c).reg, std::max(size, 16)));
    withOperand(b, size, [&](const auto& y) { f231(d, x, y); });
    return;
  }
  const Xmm y = use(b, size);
  if (inRegister(a))
    move(sized(d.getIdx(), std::max(size, 16)), sized(place(a).reg, std::max(size, 16)));
  else
    size == 4 ? vmovss(d, home(a, 32)) : size == 8 ? vmovsd(d, home(a, 64)) : vmovups(d, home(a));
  withOperand(n.c, size, [&](const auto& z) { f213(d, y, z); });
}

bool Encoder::floats(const Inst& n) {
  const int size = bytes(n.type) * n.lanes;
  const bool d64 = is64(n.type), scalar = n.lanes == 1;
  const auto binary = [&](auto ps, auto pd, auto oneSingle, auto oneDouble, bool commutes) {
    Reg a = n.a, b = n.b;
    if (commutes && !inRegister(a) && inRegister(b)) std::swap(a, b);
    const Xmm x = use(a, size), d = def(n.dst, size);
    withOperand(b, size, [&](const auto& y) {
      if (scalar)
        d64 ? oneDouble(d, x, y) : oneSingle(d, x, y);
      else
        d64 ? pd(d, x, y) : ps(d, x, y);
    });
    return true;
  };
  // One lane is done in a whole register: the constant pool and the frame reach far enough.
  const int whole = std::max(size, 16);
  const auto logic = [&](auto f, bool commutes) {
    Reg a = n.a, b = n.b;
    if (commutes && !inRegister(a) && inRegister(b)) std::swap(a, b);
    const Xmm x = use(a, whole), d = def(n.dst, whole);
    withOperand(b, whole, [&](const auto& y) { f(d, x, y); });
    return true;
  };
#define RLX_BINARY(name)                                                     \
  [&](const Xmm& d, const Xmm& x, const auto& y) { name##ps(d, x, y); },     \
      [&](const Xmm& d, const Xmm& x, const auto& y) { name##pd(d, x, y); }, \
      [&](const Xmm& d, const Xmm& x, const auto& y) { name##ss(d, x, y); }, \
      [&](const Xmm& d, const Xmm& x, const auto& y) { name##sd(d, x, y); }
  switch (code(n.op)) {
    case code(Op::FAdd): return binary(RLX_BINARY(vadd), true);
    case code(Op::FSub): return binary(RLX_BINARY(vsub), false);
    case code(Op::FMul): return binary(RLX_BINARY(vmul), true);
    case code(Op::FDiv): return binary(RLX_BINARY(vdiv), false);
    case code(Op::FMax): return binary(RLX_BINARY(vmax), false);
    case code(Op::FMin): return binary(RLX_BINARY(vmin), false);
    case code(Op::FScale): return binary(RLX_BINARY(vscalef), false);
#undef RLX_BINARY
    case code(Op::FAnd):
      return logic([&](const Xmm& d, const Xmm& x, const auto& y) { vandps(d, x, y); }, true);
    case code(Op::FAndn):
      return logic([&](const Xmm& d, const Xmm& x, const auto& y) { vandnps(d, x, y); }, false);
    case code(Op::FOr):
      return logic([&](const Xmm& d, const Xmm& x, const auto& y) { vorps(d, x, y); }, true);
    case code(Op::FXor):
      return logic([&](const Xmm& d, const Xmm& x, const auto& y) { vxorps(d, x, y); }, true);
    case code(Op::FSqrt): {
      if (scalar) {
        const Xmm a = use(n.a, size), d = def(n.dst, size);
        d64 ? vsqrtsd(d, a, a) : vsqrtss(d, a, a);
        return true;
      }
      const Xmm d = def(n.dst, size);
      withOperand(n.a, size, [&](const auto& a) { d64 ? vsqrtpd(d, a) : vsqrtps(d, a); });
      return true;
    }
    case code(Op::FRound): {
      const auto mode = static_cast<uint8_t>(n.imm | 8);
      const Xmm a = use(n.a, size), d = def(n.dst, size);
      if (scalar && wide_)
        d64 ? vrndscalesd(d, a, a, mode) : vrndscaless(d, a, a, mode);
      else if (scalar)
        d64 ? vroundsd(d, a, a, mode) : vroundss(d, a, a, mode);
      else if (wide_)
        d64 ? vrndscalepd(d, a, mode) : vrndscaleps(d, a, mode);
      else
        d64 ? vroundpd(d, a, mode) : vroundps(d, a, mode);
      return true;
    }
    case code(Op::FFma): fusedMultiplyAdd(n); return true;
    case code(Op::FCompare): {
      const auto p = static_cast<uint8_t>(n.imm);
      const Xmm a = use(n.a, size);
      if (wide_) {
        const Opmask k = defMask(n.dst);
        withOperand(n.b, size, [&](const auto& b) {
          if (scalar)
            d64 ? vcmpsd(k, a, b, p) : vcmpss(k, a, b, p);
          else
            d64 ? vcmppd(k, a, b, p) : vcmpps(k, a, b, p);
        });
        return true;
      }
      const Xmm d = def(n.dst, size);
      withOperand(n.b, size, [&](const auto& b) {
        if (scalar)
          d64 ? vcmpsd(d, a, b, p) : vcmpss(d, a, b, p);
        else
          d64 ? vcmppd(d, a, b, p) : vcmpps(d, a, b, p);
      });
      return true;
    }
    case code(Op::FTest): {
      // COMIS sets carry, zero and parity for unordered operands.
      const bool swap = n.imm == kLess || n.imm == kLessEqual;
      const Xmm a = use(swap ? n.b : n.a, size);
      const Reg64 d = defGeneral(n.dst);
      withOperand(swap ? n.a : n.b, size,
                  [&](const auto& b) { d64 ? vucomisd(a, b) : vucomiss(a, b); });
      switch (n.imm) {
        case kLess: seta(al); break;
        case kLessEqual: setae(al); break;
        case kUnordered: setp(al); break;
        case kEqual:
          setnp(al);
          sete(dl);
          and_(al, dl);
          break;
        default:
          setp(al);
          setne(dl);
          or_(al, dl);
          break;
      }
      movzx(d.cvt32(), al);
      return true;
    }
    case code(Op::FSelect): {
      const Reg64 c = useGeneral(n.a);
      const Xmm x = use(n.b, size), y = use(n.c, size);
      vmovq(rax, Xmm(y.getIdx()));
      vmovq(rdx, Xmm(x.getIdx()));
      test(c.cvt32(), c.cvt32());
      cmovnz(rax, rdx);
      const Xmm d(def(n.dst, size).getIdx());
      vmovq(d, rax);
      return true;
    }
    default: return false;
  }
}

bool Encoder::integers(const Inst& n) {
  const int size = bytes(n.type) * n.lanes;
  const bool q = is64(n.type);
  const auto binary = [&](auto f, bool commutes) {
    Reg a = n.a, b = n.b;
    if (commutes && !inRegister(a) && inRegister(b)) std::swap(a, b);
    const Xmm x = use(a, size), d = def(n.dst, size);
    withOperand(b, size, [&](const auto& y) { f(d, x, y); });
    return true;
  };
#define RLX_INT(e32, e64) \
  [&](const Xmm& d, const Xmm& x, const auto& y) { q ? e64(d, x, y) : e32(d, x, y); }
#define RLX_BITS(vex, evex) \
  [&](const Xmm& d, const Xmm& x, const auto& y) { wide_ ? evex(d, x, y) : vex(d, x, y); }
  switch (code(n.op)) {
    case code(Op::IAdd): return binary(RLX_INT(vpaddd, vpaddq), true);
    case code(Op::ISub): return binary(RLX_INT(vpsubd, vpsubq), false);
    case code(Op::IMul): return binary(RLX_INT(vpmulld, vpmullq), true);
    case code(Op::IMulEvenS): return binary(RLX_INT(vpmuldq, vpmuldq), true);
    case code(Op::IMulEvenU): return binary(RLX_INT(vpmuludq, vpmuludq), true);
    case code(Op::IAnd): return binary(RLX_BITS(vpand, vpandd), true);
    case code(Op::IAndn): return binary(RLX_BITS(vpandn, vpandnd), false);
    case code(Op::IOr): return binary(RLX_BITS(vpor, vpord), true);
    case code(Op::IXor): return binary(RLX_BITS(vpxor, vpxord), true);
    case code(Op::IMinS): return binary(RLX_INT(vpminsd, vpminsq), true);
    case code(Op::IMaxS): return binary(RLX_INT(vpmaxsd, vpmaxsq), true);
    case code(Op::IMinU): return binary(RLX_INT(vpminud, vpminuq), true);
    case code(Op::IMaxU): return binary(RLX_INT(vpmaxud, vpmaxuq), true);
    case code(Op::IShl): return binary(RLX_INT(vpsllvd, vpsllvq), false);
    case code(Op::IShr): return binary(RLX_INT(vpsrlvd, vpsrlvq), false);
    case code(Op::ISar): return binary(RLX_INT(vpsravd, vpsravq), false);
#undef RLX_INT
#undef RLX_BITS
    case code(Op::IAbs): {
      const Xmm a = use(n.a, size), d = def(n.dst, size);
      q ? vpabsq(d, a) : vpabsd(d, a);
      return true;
    }
    case code(Op::IShlI):
    case code(Op::IShrI):
    case code(Op::ISarI): {
      const Xmm a = use(n.a, size), d = def(n.dst, size);
      const auto count = static_cast<uint8_t>(n.imm);
      if (n.op == Op::IShlI)
        q ? vpsllq(d, a, count) : vpslld(d, a, count);
      else if (n.op == Op::IShrI)
        q ? vpsrlq(d, a, count) : vpsrld(d, a, count);
      else
        q ? vpsraq(d, a, count) : vpsrad(d, a, count);
      return true;
    }
    case code(Op::IShuffle): {
      const Xmm a = use(n.a, size), d = def(n.dst, size);
      vpshufd(d, a, static_cast<uint8_t>(n.imm));
      return true;
    }
    case code(Op::ICompare): {
      const Xmm a = use(n.a, size);
      if (!wide_) {
        const Xmm d = def(n.dst, size);
        withOperand(n.b, size, [&](const auto& b) {
          if (n.scalar == ScalarOp::Eq)
            q ? vpcmpeqq(d, a, b) : vpcmpeqd(d, a, b);
          else
            q ? vpcmpgtq(d, a, b) : vpcmpgtd(d, a, b);
        });
        return true;
      }
      uint8_t p = 0;
      switch (code(n.scalar)) {
        case code(ScalarOp::Eq): p = 0; break;
        case code(ScalarOp::Lt): p = 1; break;
        case code(ScalarOp::Le): p = 2; break;
        case code(ScalarOp::Ne): p = 4; break;
        case code(ScalarOp::Ge): p = 5; break;
        default: p = 6; break;
      }
      const Opmask k = defMask(n.dst);
      withOperand(n.b, size, [&](const auto& b) {
        if (isSigned(n.type))
          q ? vpcmpq(k, a, b, p) : vpcmpd(k, a, b, p);
        else
          q ? vpcmpuq(k, a, b, p) : vpcmpud(k, a, b, p);
      });
      return true;
    }
    default: return false;
  }
}

}  // namespace rlx::cpu
