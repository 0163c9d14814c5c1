#include "backend/cpu/emitter_encode.h"

#include <algorithm>
#include <bit>

namespace rlx::cpu {

using Xbyak::Operand;
using Xbyak::Reg32;

namespace {

constexpr int kVectorScratchLimit = 6;
// rax rdx rcx, in the order in which operands in memory take them.
constexpr int kGeneralScratch[] = {1, 2, 0};
// Registers that a callee keeps: rbx rbp r12..r15.
constexpr bool isKept(int gpr) {
  return gpr == 3 || gpr == 5 || gpr >= 12;
}

bool is64(DType t) {
  return info(t).bits == 64;
}

}  // namespace

Xbyak::Address Encoder::home(Reg r, int bits) {
  const Xbyak::AddressFrame frame(static_cast<uint32_t>(bits));
  if (reg(r).pool >= 0) return frame[rip + reg(r).pool + pool_];
  return frame[rsp + place(r).slot];
}

Xbyak::Address Encoder::operand(const Inst& n, int bits) {
  const Xbyak::AddressFrame frame(static_cast<uint32_t>(bits));
  const Reg64 base = n.base == kFrame ? rsp : useGeneral(n.base);
  if (n.index < 0) return frame[base + n.disp];
  return frame[base + useGeneral(n.index) * n.scale + n.disp];
}

Encoder::Xmm Encoder::vectorScratch(int bytes) {
  const int file = wide_ ? 32 : 16;
  if (vecUsed_ >= vecScratch_) {
    needsScratch_ = true;
    return sized(file - 1, bytes);
  }
  return sized(file - 1 - vecUsed_++, bytes);
}

Encoder::Xmm Encoder::use(Reg r, int bytes) {
  if (inRegister(r)) return sized(place(r).reg, bytes);
  const Xmm x = vectorScratch(bytes);
  if (bytes == 4)
    vmovss(x, home(r, 32));
  else if (bytes == 8)
    vmovsd(x, home(r, 64));
  else
    vmovups(x, home(r));
  return x;
}

Encoder::Reg64 Encoder::useGeneral(Reg r) {
  if (inRegister(r)) return Reg64(place(r).reg);
  if (generalUsed_ >= 3) {
    unsupported("too many operands in memory");
    return rax;
  }
  const Reg64 x(kGeneralScratch[generalUsed_++]);
  mov(x, home(r, 64));
  return x;
}

Xbyak::Opmask Encoder::useMask(Reg r) {
  if (inRegister(r)) return Xbyak::Opmask(place(r).reg);
  kmovq(k1, home(r, 64));
  return k1;
}

Encoder::Xmm Encoder::def(Reg r, int bytes, bool read) {
  if (inRegister(r)) return sized(place(r).reg, bytes);
  const Xmm x = read ? use(r, std::max(bytes, 16)) : vectorScratch(bytes);
  pending_.push_back({r, x.getIdx(), RegClass::Vec, reg(r).bytes});
  return sized(x.getIdx(), bytes);
}

Encoder::Reg64 Encoder::defGeneral(Reg r, bool read) {
  if (inRegister(r)) return Reg64(place(r).reg);
  if (read) {
    const Reg64 x = useGeneral(r);
    pending_.push_back({r, x.getIdx(), RegClass::Gpr, 8});
    return x;
  }
  // rax is written last in every sequence that reads other scratch registers.
  pending_.push_back({r, rax.getIdx(), RegClass::Gpr, 8});
  return rax;
}

Xbyak::Opmask Encoder::defMask(Reg r) {
  if (inRegister(r)) return Xbyak::Opmask(place(r).reg);
  pending_.push_back({r, 1, RegClass::Mask, 8});
  return k1;
}

void Encoder::finish() {
  for (const Pending& p : pending_) {
    if (p.cls == RegClass::Gpr)
      mov(home(p.reg, 64), Reg64(p.index));
    else if (p.cls == RegClass::Mask)
      kmovq(home(p.reg, 64), Xbyak::Opmask(p.index));
    else if (p.bytes == 4)
      vmovss(home(p.reg, 32), Xmm(p.index));
    else if (p.bytes == 8)
      vmovsd(home(p.reg, 64), Xmm(p.index));
    else
      vmovups(home(p.reg), sized(p.index, p.bytes));
  }
  pending_.clear();
  vecUsed_ = generalUsed_ = 0;
}

void Encoder::prologue() {
  for (int r : {3, 5, 12, 13, 14, 15}) push(Reg64(r));
  mov(rax, rsp);
  // Touch every page on the way down, so that a guard page is met in order.
  for (int32_t down = 4096; down < frame_; down += 4096) or_(dword[rsp - down], 0);
  sub(rsp, frame_);
  and_(rsp, -64);
  mov(qword[rsp + saved_], rax);
  const Reg arguments[] = {code_.entry.globals, code_.entry.params, code_.entry.grid,
                           code_.entry.begin, code_.entry.end};
  const int from[] = {7, 6, 2, 1, 8};  // rdi rsi rdx rcx r8
  // Through the stack: their new places may be each other's old ones.
  for (int i = 0; i < 5; ++i) mov(qword[rsp + 8 * i], Reg64(from[i]));
  for (int i = 0; i < 5; ++i) {
    const Place& p = place(arguments[i]);
    if (p.reg >= 0) {
      mov(Reg64(p.reg), qword[rsp + 8 * i]);
    } else {
      mov(rax, qword[rsp + 8 * i]);
      mov(qword[rsp + p.slot], rax);
    }
  }
}

void Encoder::epilogue() {
  vzeroupper();
  mov(rsp, qword[rsp + saved_]);
  for (int r : {15, 14, 13, 12, 5, 3}) pop(Reg64(r));
  ret();
}

void Encoder::run() {
  labels_.resize(static_cast<std::size_t>(code_.labels));
  // Behind the slots: the caller's rsp, then room for every register around a call, then a margin
  // for vector loads of scalars that live in memory.
  saved_ = (where_.frameBytes + 63) / 64 * 64;
  frame_ = saved_ + 64 + 16 * 8 + 32 * 64 + 8 * 8 + 64;
  prologue();
  for (std::size_t i = 0; i < code_.code.size(); ++i) {
    instruction(code_.code[i], i);
    if (problem_ || needsScratch_) return;
  }
  epilogue();
  alignTo(64);
  L(pool_);
  db(reinterpret_cast<const uint8_t*>(code_.pool.data()), code_.pool.size());
}

void Encoder::instruction(const Inst& n, std::size_t at) {
  if (n.op == Op::Call) {
    callLanes(n, at);
    return finish();
  }
  if (!(control(n) || general(n) || memory(n) || moves(n) || floats(n) || integers(n) || masks(n) ||
        conversions(n)))
    unsupported("an instruction without an encoding");
  finish();
}

bool Encoder::control(const Inst& n) {
  const auto target = [&]() -> Xbyak::Label& { return labels_[static_cast<std::size_t>(n.label)]; };
  const auto compare = [&] {
    const Reg64 a = useGeneral(n.a);
    if (n.b >= 0) {
      withGeneral(n.b, [&](const auto& b) { cmp(a, b); });
    } else if (n.imm == static_cast<int32_t>(n.imm)) {
      cmp(a, static_cast<uint32_t>(static_cast<int32_t>(n.imm)));
    } else {
      mov(rax, n.imm);
      cmp(a, rax);
    }
  };
  switch (code(n.op)) {
    case code(Op::Label): L(target()); return true;
    case code(Op::LoopBegin):
      alignTo(16);
      L(target());
      return true;
    case code(Op::Jump): jmp(target(), T_NEAR); return true;
    case code(Op::JumpGe):
      compare();
      jge(target(), T_NEAR);
      return true;
    case code(Op::JumpGt):
      compare();
      jg(target(), T_NEAR);
      return true;
    case code(Op::JumpLt):
    case code(Op::LoopEnd):
      compare();
      jl(target(), T_NEAR);
      return true;
    case code(Op::JumpZero):
    case code(Op::JumpNonZero): {
      const Reg32 a = useGeneral(n.a).cvt32();
      test(a, a);
      if (n.op == Op::JumpZero)
        jz(target(), T_NEAR);
      else
        jnz(target(), T_NEAR);
      return true;
    }
    default: return false;
  }
}

bool Encoder::general(const Inst& n) {
  switch (code(n.op)) {
    case code(Op::GMov): {
      const Reg64 a = useGeneral(n.a);
      if (inRegister(n.dst)) {
        if (place(n.dst).reg != a.getIdx()) mov(Reg64(place(n.dst).reg), a);
      } else {
        mov(home(n.dst, 64), a);
      }
      return true;
    }
    case code(Op::GImm): {
      const Reg64 d = defGeneral(n.dst);
      if (n.imm == 0)
        xor_(d.cvt32(), d.cvt32());
      else
        mov(d, n.imm);
      return true;
    }
    case code(Op::GSext): {
      const Reg64 a = useGeneral(n.a);
      movsxd(defGeneral(n.dst), a.cvt32());
      return true;
    }
    case code(Op::GExtend): {
      const Reg64 a = useGeneral(n.a), d = defGeneral(n.dst);
      switch (code(n.type)) {
        case code(DType::I8): movsx(d.cvt32(), a.cvt8()); break;
        case code(DType::U8): movzx(d.cvt32(), a.cvt8()); break;
        case code(DType::I16): movsx(d.cvt32(), a.cvt16()); break;
        case code(DType::U16):
        case code(DType::F16):
        case code(DType::BF16): movzx(d.cvt32(), a.cvt16()); break;
        default: mov(d.cvt32(), a.cvt32()); break;
      }
      return true;
    }
    case code(Op::GIsNonZero): {
      const Reg64 a = useGeneral(n.a), d = defGeneral(n.dst);
      if (is64(n.type))
        test(a, a);
      else
        test(a.cvt32(), a.cvt32());
      setne(al);
      movzx(d.cvt32(), al);
      return true;
    }
    case code(Op::GWideAdd): {
      const Reg64 a = useGeneral(n.a);
      if (n.b < 0 && n.dst == n.a) {
        add(a, static_cast<uint32_t>(static_cast<int32_t>(n.imm)));
        if (!inRegister(n.dst)) mov(home(n.dst, 64), a);
        return true;
      }
      if (n.b < 0) {
        const Reg64 d = defGeneral(n.dst);
        lea(d, ptr[a + static_cast<int>(n.imm)]);
        return true;
      }
      const Reg64 b = useGeneral(n.b), d = defGeneral(n.dst);
      mov(rax, a);
      if (n.scalar == ScalarOp::Sub)
        sub(rax, b);
      else
        add(rax, b);
      if (d.getIdx() != rax.getIdx()) mov(d, rax);
      return true;
    }
    case code(Op::GWideMul): {
      const Reg64 a = useGeneral(n.a);
      if (n.b < 0) {
        const auto u = static_cast<uint64_t>(n.imm);
        const Reg64 d = defGeneral(n.dst);
        if (n.imm > 0 && std::has_single_bit(u)) {
          if (d.getIdx() != a.getIdx()) mov(d, a);
          shl(d, std::countr_zero(u));
        } else {
          imul(d, a, static_cast<int>(n.imm));
        }
        return true;
      }
      const Reg64 b = useGeneral(n.b), d = defGeneral(n.dst);
      mov(rax, a);
      imul(rax, b);
      if (d.getIdx() != rax.getIdx()) mov(d, rax);
      return true;
    }
    case code(Op::GArith): generalArith(n); return true;
    case code(Op::GDiv): divide(n); return true;
    case code(Op::GDivConst): divideByConstant(n); return true;
    case code(Op::GCompare): {
      const bool w = is64(n.type), s = isSigned(n.type);
      const Reg64 a = useGeneral(n.a);
      if (n.b >= 0) {
        const Reg64 b = useGeneral(n.b);
        if (w)
          cmp(a, b);
        else
          cmp(a.cvt32(), b.cvt32());
      } else if (w) {
        cmp(a, static_cast<uint32_t>(static_cast<int32_t>(n.imm)));
      } else {
        cmp(a.cvt32(), static_cast<uint32_t>(static_cast<int32_t>(n.imm)));
      }
      const Reg64 d = defGeneral(n.dst);
      switch (code(n.scalar)) {
        case code(ScalarOp::Eq): sete(al); break;
        case code(ScalarOp::Ne): setne(al); break;
        case code(ScalarOp::Lt): s ? setl(al) : setb(al); break;
        case code(ScalarOp::Le): s ? setle(al) : setbe(al); break;
        case code(ScalarOp::Gt): s ? setg(al) : seta(al); break;
        default: s ? setge(al) : setae(al); break;
      }
      movzx(d.cvt32(), al);
      return true;
    }
    case code(Op::GSelect): {
      const Reg64 a = useGeneral(n.a), b = useGeneral(n.b);
      if (inRegister(n.c))
        mov(rax, Reg64(place(n.c).reg));
      else
        mov(rax, home(n.c, 64));
      test(a.cvt32(), a.cvt32());
      cmovnz(rax, b);
      if (inRegister(n.dst))
        mov(Reg64(place(n.dst).reg), rax);
      else
        mov(home(n.dst, 64), rax);
      return true;
    }
    case code(Op::GLoad):
    case code(Op::GLoadIf): {
      Xbyak::Label skip;
      if (n.op == Op::GLoadIf) {
        const Reg64 a = useGeneral(n.a);
        test(a.cvt32(), a.cvt32());
        generalUsed_ = 0;
        jz(skip, T_NEAR);
      }
      const Address m = operand(n, bytes(n.type) * 8);
      const Reg64 d = inRegister(n.dst) ? Reg64(place(n.dst).reg) : rax;
      switch (code(n.type)) {
        case code(DType::I8): movsx(d.cvt32(), m); break;
        case code(DType::I16): movsx(d.cvt32(), m); break;
        case code(DType::U8):
        case code(DType::Bool):
        case code(DType::U16):
        case code(DType::F16):
        case code(DType::BF16): movzx(d.cvt32(), m); break;
        case code(DType::I64):
        case code(DType::U64): mov(d, m); break;
        default: mov(d.cvt32(), m); break;
      }
      if (!inRegister(n.dst)) mov(home(n.dst, 64), rax);
      if (n.op == Op::GLoadIf) L(skip);
      return true;
    }
    case code(Op::GStore): {
      const Address m = operand(n, bytes(n.type) * 8);
      const Reg64 a = useGeneral(n.a);
      switch (bytes(n.type)) {
        case 1: mov(m, a.cvt8()); break;
        case 2: mov(m, a.cvt16()); break;
        case 4: mov(m, a.cvt32()); break;
        default: mov(m, a); break;
      }
      return true;
    }
    case code(Op::GLea): {
      const Address m = operand(n);
      lea(defGeneral(n.dst), m);
      return true;
    }
    default: return false;
  }
}

// Saves what lives across the call; the callee may use every vector and mask register.
void Encoder::callLanes(const Inst& n, std::size_t at) {
  const auto now = static_cast<int32_t>(2 * at + 2);
  const int32_t area = saved_ + 64;
  const auto each = [&](bool save) {
    for (std::size_t i = 0; i < where_.places.size(); ++i) {
      const Place& p = where_.places[i];
      if (p.reg < 0 || p.first >= now || p.last <= now) continue;
      const RegInfo& r = code_.regs[i];
      if (r.cls == RegClass::Gpr) {
        if (isKept(p.reg)) continue;
        const Address m = qword[rsp + area + 8 * p.reg];
        save ? mov(m, Reg64(p.reg)) : mov(Reg64(p.reg), m);
      } else if (r.cls == RegClass::Mask) {
        const Address m = qword[rsp + area + 128 + 2048 + 8 * p.reg];
        save ? kmovq(m, Xbyak::Opmask(p.reg)) : kmovq(Xbyak::Opmask(p.reg), m);
      } else {
        const Address m = ptr[rsp + area + 128 + 64 * p.reg];
        const Xmm x = sized(p.reg, r.bytes);
        save ? vmovups(m, x) : vmovups(x, m);
      }
    }
  };
  each(true);
  if (n.a >= 0)
    mov(rax, useGeneral(n.a));
  else
    xor_(eax, eax);
  generalUsed_ = 0;
  if (n.b >= 0) {
    if (inRegister(n.b))
      mov(rcx, Reg64(place(n.b).reg));
    else
      mov(rcx, home(n.b, 64));
  } else {
    xor_(ecx, ecx);
  }
  mov(rdx, rax);
  mov(rdi, rsp);
  mov(esi, static_cast<uint32_t>(n.lanes));
  mov(rax, n.imm);
  vzeroupper();
  call(rax);
  each(false);
}

Result<std::vector<std::byte>> emitKernel(const kir::Kernel& kernel, IsaLevel isa) {
  RLX_TRY(const MachineCode code, lowerKernel(kernel, isa));
  std::vector<std::byte> memory;
  std::size_t capacity = 4096 + code.code.size() * 32 + code.pool.size();
  int scratch = 0;
  for (int attempt = 0; attempt < 12; ++attempt) {
    const Allocation where = allocateRegisters(code, scratch);
    memory.resize(capacity);
    Xbyak::ClearError();
    Encoder encoder(code, where, scratch, capacity, memory.data());
    encoder.run();
    if (encoder.problem()) return Error(Errc::Unsupported, kernel.name + ": " + encoder.problem());
    if (encoder.needsScratch()) {
      if (++scratch > kVectorScratchLimit) break;
      continue;
    }
    const int error = Xbyak::GetError();
    if (error == Xbyak::ERR_CODE_IS_TOO_BIG) {
      capacity *= 2;
      continue;
    }
    if (error != Xbyak::ERR_NONE)
      return Error(Errc::Internal,
                   kernel.name + ": assembler: " + Xbyak::ConvertErrorToString(error));
    memory.resize(encoder.getSize());
    return memory;
  }
  return Error(Errc::Internal, kernel.name + ": no register allocation found");
}

}  // namespace rlx::cpu
