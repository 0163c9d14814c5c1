// Machine-level code between lowering, register allocation and encoding: a flat list of
// three-address instructions over virtual registers. It stands apart so that only the encoder knows
// the assembler.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "backend/cpu/emitter.h"
#include "ir/dtype.h"
#include "scalar/scalar.h"

namespace rlx::cpu {

// A virtual register; negative: none.
using Reg = int32_t;
inline constexpr Reg kNone = -1;
inline constexpr Reg kFrame = -2;  // as a base: the stack frame

enum class RegClass : uint8_t { Gpr, Vec, Mask };

// A value of `lanes` elements of a type takes lanes * bytes(type) bytes at the low end of a vector
// register. Scalars of F32 and F64 are vector registers of one lane; all other scalars are Gpr,
// narrow integers extended to 32 bits, F16 and BF16 as their bits, Bool as 0 or 1. With several
// lanes Bool is a Mask register (Avx512) or a vector of I32 lanes 0 and -1 (Avx2).
struct RegInfo {
  RegClass cls = RegClass::Gpr;
  uint8_t bytes = 8;
  int32_t pool = -1;  // offset of its value in the constant pool: spilling it costs nothing
};

// clang-format off
enum class Op : uint8_t {
  // Control. `imm` is the label; loops are bracketed for the allocator.
  Label, Jump, JumpGe, JumpGt, JumpLt, JumpZero, JumpNonZero, LoopBegin, LoopEnd,
  // General registers. b absent: `imm` instead.
  GMov, GImm, GSext, GArith, GDiv, GDivConst, GCompare, GSelect, GLoad, GLoadIf, GStore, GLea,
  GExtend, GIsNonZero, GWideAdd, GWideMul,
  // Vector registers, float or any type.
  VMov, VConst, VLoad, VStore, VGather, VScatter, VBroadcast, VBroadcastG, VBroadcastMem, VFromG,
  VToG, VHigh, FAdd, FSub, FMul, FDiv, FMax, FMin, FAnd, FAndn, FOr, FXor, FSqrt, FRound, FFma,
  FScale,  // a * 2^floor(b); Avx512 only
  FCompare, FTest, FSelect, FLoadIf,
  // Integer lanes.
  IAdd, ISub, IMul, IMulEvenS, IMulEvenU, IAnd, IAndn, IOr, IXor, IMinS, IMaxS, IMinU, IMaxU, IAbs,
  IShlI, IShrI, ISarI, IShl, IShr, ISar, ICompare, IShuffle,
  // Masks.
  Blend, MAnd, MAndn, MOr, MXor, MNot, MSet, MBits, MFromG, MTail, MFromBytes, MToBytes,
  // Conversions between lane types: `type` to, `from` from.
  Convert, Widen, Narrow,
  Call,  // fn(frame, lanes, a, b); imm: its address
};
// clang-format on

// For a switch over some of the values.
constexpr int code(Op op) {
  return static_cast<int>(op);
}
constexpr int code(ScalarOp op) {
  return static_cast<int>(op);
}
constexpr int code(DType type) {
  return static_cast<int>(type);
}

// Predicates of FCompare and FTest as in VCMPPS; of ICompare and GCompare: ScalarOp Eq..Ge in imm.
enum FloatPredicate : int64_t {
  kEqual = 0,
  kLess = 0x11,
  kLessEqual = 0x12,
  kUnordered = 3,
  kNotEqual = 4
};

struct Inst {
  Op op{};
  DType type = DType::F32;
  DType from = DType::F32;
  ScalarOp scalar = ScalarOp::Add;
  uint8_t lanes = 1;
  uint8_t scale = 1;   // of index
  bool early = false;  // dst is written before the operands are read
  Reg dst = kNone, a = kNone, b = kNone, c = kNone, mask = kNone;
  Reg base = kNone, index = kNone;  // memory operand
  Reg tmp = kNone, tmp2 = kNone;
  int32_t disp = 0;
  int32_t label = -1;
  int64_t imm = 0;
};

// Four slots of 64 bytes at the bottom of the frame pass operands to calls: out is slot 3.
inline constexpr int32_t kCallSlot = 64;
inline constexpr int32_t kCallOut = 3 * kCallSlot;
inline constexpr int32_t kCallBytes = 4 * kCallSlot;

// Arguments of the generated function, defined on entry.
struct Entry {
  Reg globals = kNone, params = kNone, grid = kNone, begin = kNone, end = kNone;
};

struct MachineCode {
  IsaLevel isa{};
  Entry entry;
  std::vector<RegInfo> regs;
  std::vector<Inst> code;
  std::string pool;
  int32_t labels = 0;
  int32_t frameBytes = kCallBytes;  // call slots and the kernel's own arrays
};

// Where each virtual register lives: a physical register, or an offset in the frame, or the pool.
struct Place {
  int16_t reg = -1;
  int32_t slot = -1;
  int32_t first = -1, last = -1;  // lifetime in half instructions
};
struct Allocation {
  std::vector<Place> places;
  int32_t frameBytes = 0;
};

Result<MachineCode> lowerKernel(const kir::Kernel& kernel, IsaLevel isa);
// Linear scan. `vecScratch` registers at the top of the vector file are left for the encoder.
Allocation allocateRegisters(const MachineCode& code, int vecScratch);

// The bits of a value as F16 or BF16, nearest even.
uint16_t narrowBits(DType type, double value);

// Functions that generated code calls: operands and result are in the call slots of the frame.
using LaneFn = void (*)(std::byte* frame, int64_t lanes, int64_t x, int64_t y);
LaneFn laneOp(ScalarOp op, DType type);
LaneFn laneCast(DType to, DType from);
// slot 3 = elements at x + bytes * slot 0 (I32 lanes), where the bits of y are set.
LaneFn laneGather(int bytes);
// elements at x + bytes * slot 0 = slot 1, where the bits of y are set, in lane order.
LaneFn laneScatter(int bytes);

// x86 register numbers that the allocator hands out, in order of preference.
inline constexpr int kGprs[] = {6, 7, 8, 9, 10, 11, 3, 5, 12, 13, 14, 15};  // not rax rcx rdx rsp

}  // namespace rlx::cpu
