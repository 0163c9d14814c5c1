// Casts of numerics.md that languages lack, as expressions: narrow floats by their bits,
// saturation, rounding once. For targets, the legaliser uses them; the interpreter has its own code
// (number.h).
#pragma once
#include "kir/kernel.h"

namespace rlx::kir {

// The low 16 bits of a U32 hold an F16 or BF16.
Expr halfToFloat(const Expr& bits);
Expr floatToHalf(const Expr& x);
Expr brainToFloat(const Expr& bits);
Expr floatToBrain(const Expr& x);
// F64 to F32 by rounding to odd: rounding the result to a narrower float is then rounding once.
Expr oddFloat(const Expr& x);
// An I32 or U32 with its low bits folded into a sticky bit where F32 could not hold it: its F32
// value rounds to a narrower float as the integer itself would.
Expr stickyInteger(const Expr& x);
// F32 or F64 to I32, U32, I64 or U64: toward zero, saturating, NaN to 0. Contains a Cast whose
// operand is in range.
Expr saturate(DType to, const Expr& x);
// By the bits: no compiler's assumption about NaN can remove it.
Expr isNanByBits(const Expr& x);

}  // namespace rlx::kir
