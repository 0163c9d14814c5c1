// Scalar ops in terms of simpler ones, over kernel expressions, for targets that cannot spell them.
#pragma once
#include "kir/kernel.h"

namespace rlx::kir {

// An equivalent of op over operands of type `t` (Expr() where arity is less than three), built of
// simpler ops, or a null Expr when there is none. The result may contain ops that need expansion
// too.
Expr expandOp(ScalarOp op, DType t, const Expr& a, const Expr& b, const Expr& c);
// Integer Div, Rem, Shl and Shr by numerics.md, with C's operator on safe operands inside. Without
// a guard where the second operand is a constant that needs none.
Expr guardInteger(ScalarOp op, const Expr& a, const Expr& b);

}  // namespace rlx::kir
