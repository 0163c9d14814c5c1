// The encoder: machine-level code to bytes. The only part that knows the assembler.
#pragma once
#define XBYAK_NO_EXCEPTION
#include <xbyak/xbyak.h>

#include "backend/cpu/emitter_code.h"

namespace rlx::cpu {

class Encoder : public Xbyak::CodeGenerator {
 public:
  Encoder(const MachineCode& code, const Allocation& where, int vecScratch, std::size_t capacity,
          void* memory)
      : CodeGenerator(capacity, memory),
        code_(code),
        where_(where),
        vecScratch_(vecScratch),
        wide_(code.isa == IsaLevel::Avx512) {}
  void run();
  // More registers are needed for operands in memory than were left.
  bool needsScratch() const { return needsScratch_; }
  const char* problem() const { return problem_; }

 private:
  using Xmm = Xbyak::Xmm;
  using Reg64 = Xbyak::Reg64;
  using Address = Xbyak::Address;

  void prologue();
  void epilogue();
  void instruction(const Inst& n, std::size_t at);
  bool control(const Inst& n);
  bool general(const Inst& n);
  bool memory(const Inst& n);
  bool moves(const Inst& n);
  bool floats(const Inst& n);
  bool integers(const Inst& n);
  bool masks(const Inst& n);
  bool conversions(const Inst& n);
  void generalArith(const Inst& n);
  void divide(const Inst& n);
  void divideByConstant(const Inst& n);
  void fusedMultiplyAdd(const Inst& n);
  void callLanes(const Inst& n, std::size_t at);
  // Relative to the start of the code, which is loaded at a page.
  void alignTo(std::size_t bytes) {
    if (const std::size_t over = getSize() % bytes; over != 0) nop(bytes - over);
  }
  void unsupported(const char* what) { problem_ = what; }

  const Place& place(Reg r) const { return where_.places[static_cast<std::size_t>(r)]; }
  const RegInfo& reg(Reg r) const { return code_.regs[static_cast<std::size_t>(r)]; }
  bool inRegister(Reg r) const { return place(r).reg >= 0; }
  static Xmm sized(int index, int bytes) {
    return Xmm(bytes <= 16   ? Xbyak::Operand::XMM
               : bytes <= 32 ? Xbyak::Operand::YMM
                             : Xbyak::Operand::ZMM,
               index);
  }
  Address home(Reg r, int bits = 0);
  Address operand(const Inst& n, int bits = 0);
  Xmm vectorScratch(int bytes);
  // A value in a register, loaded if it lives in memory.
  Xmm use(Reg r, int bytes);
  Reg64 useGeneral(Reg r);
  Xbyak::Opmask useMask(Reg r);
  // A register for a result; finish() stores it if it lives in memory.
  Xmm def(Reg r, int bytes, bool read = false);
  Reg64 defGeneral(Reg r, bool read = false);
  Xbyak::Opmask defMask(Reg r);
  void finish();
  // Calls f with a register or, if the value lives in memory, with its address.
  template <class F>
  void withOperand(Reg r, int bytes, F f) {
    if (inRegister(r))
      f(sized(place(r).reg, bytes));
    else
      f(home(r));
  }
  template <class F>
  void withGeneral(Reg r, F f) {
    if (inRegister(r))
      f(Reg64(place(r).reg));
    else
      f(home(r, 64));
  }
  void move(const Xmm& dst, const Xmm& src) {
    if (dst.getIdx() != src.getIdx()) vmovaps(dst, src);
  }

  const MachineCode& code_;
  const Allocation& where_;
  int vecScratch_;
  bool wide_;
  bool needsScratch_ = false;
  const char* problem_ = nullptr;
  std::vector<Xbyak::Label> labels_;
  Xbyak::Label pool_;
  int vecUsed_ = 0, generalUsed_ = 0;
  struct Pending {
    Reg reg;
    int index;
    RegClass cls;
    int bytes;
  };
  std::vector<Pending> pending_;
  int32_t saved_ = 0, frame_ = 0;
};

}  // namespace rlx::cpu
