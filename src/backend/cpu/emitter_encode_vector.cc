// Encodings of vector moves, memory, masks and conversions.
#include <algorithm>

#include "backend/cpu/emitter_encode.h"

namespace rlx::cpu {

using Xbyak::Opmask;
using Xbyak::Xmm;

namespace {

bool is64(DType t) {
  return info(t).bits == 64;
}

}  // namespace

bool Encoder::moves(const Inst& n) {
  const int size = std::max(bytes(n.type) * n.lanes, 1);
  switch (code(n.op)) {
    case code(Op::VMov): {
      const RegClass cls = reg(n.dst).cls;
      if (cls == RegClass::Gpr) {
        const Reg64 a = useGeneral(n.a);
        if (!inRegister(n.dst))
          mov(home(n.dst, 64), a);
        else if (place(n.dst).reg != a.getIdx())
          mov(Reg64(place(n.dst).reg), a);
        return true;
      }
      if (cls == RegClass::Mask) {
        const Opmask a = useMask(n.a);
        if (!inRegister(n.dst))
          kmovq(home(n.dst, 64), a);
        else if (place(n.dst).reg != a.getIdx())
          kmovq(Opmask(place(n.dst).reg), a);
        return true;
      }
      const int width = std::max<int>(reg(n.dst).bytes, 16);
      if (inRegister(n.dst) && !inRegister(n.a)) {
        const Xmm d = sized(place(n.dst).reg, width);
        if (size == 4)
          vmovss(d, home(n.a, 32));
        else if (size == 8)
          vmovsd(d, home(n.a, 64));
        else
          vmovups(d, home(n.a));
        return true;
      }
      const Xmm a = use(n.a, size <= 8 ? size : width);
      if (inRegister(n.dst)) {
        move(sized(place(n.dst).reg, width), sized(a.getIdx(), width));
      } else if (size == 4) {
        vmovss(home(n.dst, 32), Xmm(a.getIdx()));
      } else if (size == 8) {
        vmovsd(home(n.dst, 64), Xmm(a.getIdx()));
      } else {
        vmovups(home(n.dst), sized(a.getIdx(), width));
      }
      return true;
    }
    case code(Op::VConst): {
      if (!inRegister(n.dst)) return true;  // read from the pool where it is used
      const int width = reg(n.dst).bytes;
      const Xmm d = sized(place(n.dst).reg, width);
      bool zero = true;
      for (int i = 0; i < width; ++i)
        zero = zero && code_.pool[static_cast<std::size_t>(n.imm + i)] == 0;
      if (zero && d.getIdx() < 16)
        vxorps(Xmm(d.getIdx()), Xmm(d.getIdx()), Xmm(d.getIdx()));
      else if (width == 4)
        vmovss(d, home(n.dst, 32));
      else if (width == 8)
        vmovsd(d, home(n.dst, 64));
      else
        vmovups(d, home(n.dst));
      return true;
    }
    case code(Op::VBroadcast): {
      const Xmm a = use(n.a, bytes(n.type)), d = def(n.dst, size);
      if (!is64(n.type))
        vbroadcastss(d, Xmm(a.getIdx()));
      else if (size == 16)
        vmovddup(d, Xmm(a.getIdx()));
      else if (size == 32)
        vbroadcastsd(Xbyak::Ymm(d.getIdx()), Xmm(a.getIdx()));
      else
        vbroadcastsd(Xbyak::Zmm(d.getIdx()), Xmm(a.getIdx()));
      return true;
    }
    case code(Op::VBroadcastG): {
      const Reg64 a = useGeneral(n.a);
      const Xmm d = def(n.dst, size);
      if (wide_) {
        switch (bytes(n.type)) {
          case 1: vpbroadcastb(d, a.cvt8()); break;
          case 2: vpbroadcastw(d, a.cvt16()); break;
          case 4: vpbroadcastd(d, a.cvt32()); break;
          default: vpbroadcastq(d, a); break;
        }
        return true;
      }
      const Xmm low(d.getIdx());
      if (is64(n.type))
        vmovq(low, a);
      else
        vmovd(low, a.cvt32());
      switch (bytes(n.type)) {
        case 1: vpbroadcastb(d, low); break;
        case 2: vpbroadcastw(d, low); break;
        case 4: vpbroadcastd(d, low); break;
        default: vpbroadcastq(d, low); break;
      }
      return true;
    }
    case code(Op::VBroadcastMem): {
      const Xbyak::Address m = operand(n);
      const Xmm d = def(n.dst, size);
      if (!is64(n.type))
        vbroadcastss(d, m);
      else if (size == 16)
        vmovddup(d, m);
      else if (size == 32)
        vbroadcastsd(Xbyak::Ymm(d.getIdx()), m);
      else
        vbroadcastsd(Xbyak::Zmm(d.getIdx()), m);
      return true;
    }
    case code(Op::VFromG): {
      const Reg64 a = useGeneral(n.a);
      const Xmm d(def(n.dst, 16).getIdx());
      if (is64(n.type))
        vmovq(d, a);
      else
        vmovd(d, a.cvt32());
      return true;
    }
    case code(Op::VToG): {
      const Xmm a(use(n.a, std::max(bytes(n.type), 4)).getIdx());
      const Reg64 d = defGeneral(n.dst);
      if (is64(n.type))
        vmovq(d, a);
      else
        vmovd(d.cvt32(), a);
      return true;
    }
    case code(Op::VHigh): {
      const Xmm a = use(n.a, size), d = def(n.dst, 16);
      if (size == 64)
        vextractf64x4(Xbyak::Ymm(d.getIdx()), Xbyak::Zmm(a.getIdx()), 1);
      else if (size == 32 && wide_)
        vextractf32x4(Xmm(d.getIdx()), Xbyak::Ymm(a.getIdx()), 1);
      else if (size == 32)
        vextractf128(Xmm(d.getIdx()), Xbyak::Ymm(a.getIdx()), 1);
      else if (size == 16)
        vpshufd(Xmm(d.getIdx()), Xmm(a.getIdx()), 0xee);
      else
        vpshufd(Xmm(d.getIdx()), Xmm(a.getIdx()), 0x55);
      return true;
    }
    default: return false;
  }
}

bool Encoder::memory(const Inst& n) {
  const int size = bytes(n.type) * n.lanes;
  switch (code(n.op)) {
    case code(Op::VLoad):
    case code(Op::FLoadIf): {
      Xbyak::Label skip;
      if (n.op == Op::FLoadIf) {
        const Reg64 a = useGeneral(n.a);
        test(a.cvt32(), a.cvt32());
        generalUsed_ = 0;
        jz(skip, T_NEAR);
      }
      const Xbyak::Address m = operand(n);
      const Xmm d = def(n.dst, size);
      if (n.mask >= 0 && wide_) {
        const Opmask k = useMask(n.mask);
        switch (bytes(n.type)) {
          case 1: vmovdqu8(d | k | T_z, m); break;
          case 2: vmovdqu16(d | k | T_z, m); break;
          case 4: vmovups(d | k | T_z, m); break;
          default: vmovupd(d | k | T_z, m); break;
        }
      } else if (n.mask >= 0) {
        const Xmm k = use(n.mask, size);
        if (is64(n.type))
          vmaskmovpd(d, k, m);
        else
          vmaskmovps(d, k, m);
      } else if (size == 4) {
        vmovss(Xmm(d.getIdx()), m);
      } else if (size == 8) {
        vmovsd(Xmm(d.getIdx()), m);
      } else {
        vmovups(d, m);
      }
      if (n.op == Op::FLoadIf) {
        finish();
        L(skip);
      }
      return true;
    }
    case code(Op::VStore): {
      const Xbyak::Address m = operand(n);
      const Xmm a = use(n.a, size);
      if (n.mask >= 0 && wide_) {
        const Opmask k = useMask(n.mask);
        switch (bytes(n.type)) {
          case 1: vmovdqu8(m | k, a); break;
          case 2: vmovdqu16(m | k, a); break;
          case 4: vmovups(m | k, a); break;
          default: vmovupd(m | k, a); break;
        }
      } else if (n.mask >= 0) {
        const Xmm k = use(n.mask, size);
        if (is64(n.type))
          vmaskmovpd(m, k, a);
        else
          vmaskmovps(m, k, a);
      } else if (size == 4) {
        vmovss(m, Xmm(a.getIdx()));
      } else if (size == 8) {
        vmovsd(m, Xmm(a.getIdx()));
      } else {
        vmovups(m, a);
      }
      return true;
    }
    case code(Op::VGather): {
      const Xmm index = use(n.a, 4 * n.lanes);
      const Reg64 base = useGeneral(n.base);
      const Xmm d = def(n.dst, size);
      const int scale = bytes(n.type);
      if (wide_) {
        if (n.mask >= 0)
          kmovq(k1, useMask(n.mask));
        else
          kxnorw(k1, k1, k1);
        vpxord(d, d, d);
        if (scale == 4)
          vgatherdps(d | k1, ptr[base + index * scale]);
        else
          vgatherdpd(d | k1, ptr[base + index * scale]);
        return true;
      }
      const Xmm mask = def(n.tmp, size);
      if (n.mask >= 0)
        vmovups(mask, use(n.mask, size));
      else
        vpcmpeqd(mask, mask, mask);
      vxorps(d, d, d);
      if (scale == 4)
        vgatherdps(d, ptr[base + index * scale], mask);
      else
        vgatherdpd(d, ptr[base + index * scale], mask);
      return true;
    }
    case code(Op::VScatter): {
      const Xmm index = use(n.a, 4 * n.lanes), value = use(n.b, size);
      const Reg64 base = useGeneral(n.base);
      const int scale = bytes(n.type);
      if (n.mask >= 0)
        kmovq(k1, useMask(n.mask));
      else
        kxnorw(k1, k1, k1);
      if (scale == 4)
        vscatterdps(ptr[base + index * scale] | k1, value);
      else
        vscatterdpd(ptr[base + index * scale] | k1, value);
      return true;
    }
    default: return false;
  }
}

bool Encoder::masks(const Inst& n) {
  const int maskSize = std::max(4 * n.lanes, 16);
  switch (code(n.op)) {
    case code(Op::Blend): {
      const int size = bytes(n.type) * n.lanes;
      if (wide_) {
        const Opmask k = useMask(n.mask);
        const Xmm b = use(n.b, size), a = use(n.a, size), d = def(n.dst, size);
        switch (bytes(n.type)) {
          case 1: vpblendmb(d | k, b, a); break;
          case 2: vpblendmw(d | k, b, a); break;
          case 4: vblendmps(d | k, b, a); break;
          default: vblendmpd(d | k, b, a); break;
        }
        return true;
      }
      const Xmm b = use(n.b, size), m = use(n.mask, size), d = def(n.dst, size);
      withOperand(n.a, size, [&](const auto& a) {
        if (bytes(n.type) == 4)
          vblendvps(d, b, a, m);
        else if (bytes(n.type) == 8)
          vblendvpd(d, b, a, m);
        else
          vpblendvb(d, b, a, m);
      });
      return true;
    }
    case code(Op::MAnd):
    case code(Op::MAndn):
    case code(Op::MOr):
    case code(Op::MXor): {
      if (wide_) {
        // k0 is free, k1 the scratch.
        if (!inRegister(n.a)) kmovq(k0, home(n.a, 64));
        const Opmask a = inRegister(n.a) ? Opmask(place(n.a).reg) : k0;
        const Opmask b = useMask(n.b), d = defMask(n.dst);
        if (n.op == Op::MAnd)
          kandw(d, a, b);
        else if (n.op == Op::MAndn)
          kandnw(d, a, b);
        else if (n.op == Op::MOr)
          korw(d, a, b);
        else
          kxorw(d, a, b);
        return true;
      }
      const Xmm a = use(n.a, maskSize), d = def(n.dst, maskSize);
      withOperand(n.b, maskSize, [&](const auto& b) {
        if (n.op == Op::MAnd)
          vandps(d, a, b);
        else if (n.op == Op::MAndn)
          vandnps(d, a, b);
        else if (n.op == Op::MOr)
          vorps(d, a, b);
        else
          vxorps(d, a, b);
      });
      return true;
    }
    case code(Op::MNot): {
      if (wide_) {
        const Opmask a = useMask(n.a);
        knotw(defMask(n.dst), a);
        return true;
      }
      const Xmm a = use(n.a, maskSize);
      if (inRegister(n.dst) && place(n.dst).reg != a.getIdx()) {
        const Xmm d = sized(place(n.dst).reg, maskSize);
        vpcmpeqd(d, d, d);
        vxorps(d, d, a);
        return true;
      }
      const Xmm ones = vectorScratch(maskSize), d = def(n.dst, maskSize);
      vpcmpeqd(ones, ones, ones);
      vxorps(d, ones, a);
      return true;
    }
    case code(Op::MSet): {
      if (wide_) {
        const Opmask d = defMask(n.dst);
        n.imm != 0 ? kxnorw(d, d, d) : kxorw(d, d, d);
        return true;
      }
      const Xmm d = def(n.dst, maskSize);
      n.imm != 0 ? vpcmpeqd(d, d, d) : vxorps(d, d, d);
      return true;
    }
    case code(Op::MBits): {
      const Reg64 d = defGeneral(n.dst);
      if (wide_) {
        const Opmask a = useMask(n.a);
        if (n.lanes == 16) {
          kmovw(d.cvt32(), a);
        } else {
          kmovb(d.cvt32(), a);
          if (n.lanes < 8) and_(d.cvt32(), (1U << n.lanes) - 1);
        }
        return true;
      }
      vmovmskps(d.cvt32(), use(n.a, maskSize));
      return true;
    }
    case code(Op::MFromG): {
      const Reg64 a = useGeneral(n.a);
      mov(eax, a.cvt32());
      neg(eax);
      if (wide_) {
        kmovd(defMask(n.dst), eax);
        return true;
      }
      const Xmm d = def(n.dst, maskSize);
      vmovd(Xmm(d.getIdx()), eax);
      vpbroadcastd(d, Xmm(d.getIdx()));
      return true;
    }
    case code(Op::MTail): {
      const Reg64 a = useGeneral(n.a);
      if (wide_) {
        mov(eax, -1);
        bzhi(eax, eax, a.cvt32());
        kmovd(defMask(n.dst), eax);
        return true;
      }
      const Xmm d = def(n.dst, maskSize);
      vmovd(Xmm(d.getIdx()), a.cvt32());
      vpbroadcastd(d, Xmm(d.getIdx()));
      withOperand(n.b, maskSize, [&](const auto& b) { vpcmpgtd(d, d, b); });
      return true;
    }
    case code(Op::MFromBytes): {
      const Xmm a(use(n.a, n.lanes).getIdx());
      vptestmb(defMask(n.dst), a, a);
      return true;
    }
    case code(Op::MToBytes): {
      const Opmask k = useMask(n.a);
      const Xmm ones(use(n.b, 16).getIdx()), d(def(n.dst, n.lanes).getIdx());
      vmovdqu8(d | k | T_z, ones);
      return true;
    }
    default: return false;
  }
}

bool Encoder::conversions(const Inst& n) {
  const int to = bytes(n.type) * n.lanes, from = bytes(n.from) * n.lanes;
  switch (code(n.op)) {
    case code(Op::Widen): {
      const Xmm a(use(n.a, std::min(from, 32)).getKind(), use(n.a, from).getIdx());
      const Xmm d = def(n.dst, to);
      const bool s = isSigned(n.from);
      switch (bytes(n.from) * 16 + bytes(n.type)) {
        case 0x12: s ? vpmovsxbw(d, a) : vpmovzxbw(d, a); break;
        case 0x14: s ? vpmovsxbd(d, a) : vpmovzxbd(d, a); break;
        case 0x18: s ? vpmovsxbq(d, a) : vpmovzxbq(d, a); break;
        case 0x24: s ? vpmovsxwd(d, a) : vpmovzxwd(d, a); break;
        case 0x28: s ? vpmovsxwq(d, a) : vpmovzxwq(d, a); break;
        case 0x48: s ? vpmovsxdq(d, a) : vpmovzxdq(d, a); break;
        default: unsupported("a widening conversion"); break;
      }
      return true;
    }
    case code(Op::Narrow): {
      const Xmm a = use(n.a, from);
      if (wide_) {
        const Xmm d = def(n.dst, to);
        switch (bytes(n.from) * 16 + bytes(n.type)) {
          case 0x21: vpmovwb(d, a); break;
          case 0x41: vpmovdb(d, a); break;
          case 0x42: vpmovdw(d, a); break;
          case 0x81: vpmovqb(d, a); break;
          case 0x82: vpmovqw(d, a); break;
          case 0x84: vpmovqd(d, a); break;
          default: unsupported("a narrowing conversion"); break;
        }
        return true;
      }
      const Xmm d = def(n.dst, 16), low(d.getIdx());
      if (bytes(n.from) == 8) {
        if (from <= 16) {
          vshufps(low, Xmm(a.getIdx()), Xmm(a.getIdx()), 0x88);
        } else {
          const Xmm t(def(n.tmp, 16).getIdx());
          vextractf128(t, Xbyak::Ymm(a.getIdx()), 1);
          vshufps(low, Xmm(a.getIdx()), t, 0x88);
        }
        return true;
      }
      if (from <= 16) {
        withOperand(n.b, 16, [&](const auto& p) { vpshufb(low, Xmm(a.getIdx()), p); });
        return true;
      }
      const Xbyak::Ymm all(d.getIdx());
      withOperand(n.b, 32, [&](const auto& p) { vpshufb(all, Xbyak::Ymm(a.getIdx()), p); });
      if (bytes(n.type) == 2) {
        vpermq(all, all, 0x08);
      } else {
        const Xmm t(def(n.tmp, 16).getIdx());
        vextracti128(t, all, 1);
        vpunpckldq(low, low, t);
      }
      return true;
    }
    case code(Op::Convert): {
      const DType t = n.type, f = n.from;
      if (n.lanes == 1 && f == DType::I64) {
        const Reg64 a = useGeneral(n.a);
        const Xmm d = def(n.dst, 16);
        vxorps(Xmm(d.getIdx()), Xmm(d.getIdx()), Xmm(d.getIdx()));
        t == DType::F64 ? vcvtsi2sd(d, d, a) : vcvtsi2ss(d, d, a);
        return true;
      }
      const Xmm a = use(n.a, std::max(from, 16));
      if (t == DType::F32 && f == DType::F64 && n.lanes == 1) {
        vcvtsd2ss(def(n.dst, 4), a, a);
        return true;
      }
      if (t == DType::F64 && f == DType::F32 && n.lanes == 1) {
        vcvtss2sd(def(n.dst, 8), a, a);
        return true;
      }
      const Xmm d = def(n.dst, std::max(to, 16));
      if (t == DType::F64 && f == DType::F32)
        vcvtps2pd(d, a);
      else if (t == DType::F32 && f == DType::F64)
        vcvtpd2ps(d, a);
      else if (t == DType::F32 && f == DType::F16)
        vcvtph2ps(d, a);
      else if (t == DType::F16 && f == DType::F32)
        vcvtps2ph(d, a, 0);
      else if (t == DType::F32 && f == DType::I32)
        vcvtdq2ps(d, a);
      else if (t == DType::F64 && f == DType::I32)
        vcvtdq2pd(d, a);
      else if (t == DType::I32 && f == DType::F32)
        vcvttps2dq(d, a);
      else if (t == DType::I32 && f == DType::F64)
        vcvttpd2dq(d, a);
      else if (!wide_)
        unsupported("a conversion");
      else if (t == DType::F32 && f == DType::U32)
        vcvtudq2ps(d, a);
      else if (t == DType::F64 && f == DType::U32)
        vcvtudq2pd(d, a);
      else if (t == DType::F64 && f == DType::I64)
        vcvtqq2pd(d, a);
      else if (t == DType::F32 && f == DType::I64)
        vcvtqq2ps(d, a);
      else if (t == DType::F64 && f == DType::U64)
        vcvtuqq2pd(d, a);
      else if (t == DType::F32 && f == DType::U64)
        vcvtuqq2ps(d, a);
      else if (t == DType::U32 && f == DType::F32)
        vcvttps2udq(d, a);
      else if (t == DType::U32 && f == DType::F64)
        vcvttpd2udq(d, a);
      else
        unsupported("a conversion");
      return true;
    }
    default: return false;
  }
}

}  // namespace rlx::cpu
