// Kernel to kernel, so that a target can spell and run every node of the result: the numeric
// contract (division by zero, shifts, saturating casts, NaN) becomes explicit code, missing scalar
// ops are expanded, missing storage types are packed or widened. Printers and emitters rely on it;
// without it each would carry its own copy of numerics.md.
#pragma once
#include <array>
#include <cstdint>

#include "base/result.h"
#include "kir/caps.h"
#include "kir/kernel.h"

namespace rlx::kir {

// What a target can spell. Integer Div and Rem, Shl and Shr, and Cast from float to integer are
// spelled with the meaning of C: the legaliser guards their operands.
struct Spelling {
  std::array<uint32_t, kScalarCount> ops{};  // by ScalarOp: bit per DType of the operands
  // F16 is a type of the language whose casts from and to F32 are exact (nearest even, subnormals).
  bool half = false;
  // Fma rounds once and is not reassociated. Otherwise it is not spelled: a kernel's own Fma
  // becomes an emulation that rounds once, those of expansions multiplication and addition.
  bool fusedFma = true;
  bool can(ScalarOp op, DType t) const { return (ops[static_cast<std::size_t>(op)] & bit(t)) != 0; }
};

// The result computes what `kernel` computes. BF16 (always), F16 (without Spelling::half) are held
// as their bits, Bool in memory as U8. A Global buffer of a type that `caps` cannot store is read
// through packed U32 words: its binding must span whole words. Unsupported says which dtype, op or
// limit, and why. The result verifies, and expressions in it are trees (share.h).
Result<Kernel> legalize(const Kernel& kernel, const Caps& caps, const Spelling& spelling);

}  // namespace rlx::kir
