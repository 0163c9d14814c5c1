// The arithmetic of the interpreter: one function per scalar op and type, over the lanes of a
// group. Apart from interp.cc because it is all templates.
#pragma once
#include "kir/number.h"

namespace rlx::kir {

// One scalar op over `n` lanes.
struct LaneOp {
  ScalarOp op{};
  DType type{};  // of the operands
  Bits* dst = nullptr;
  const Bits* a = nullptr;
  const Bits* b = nullptr;
  const Bits* c = nullptr;
};
using LaneFn = void (*)(const LaneOp&, std::size_t n);

// Never null. `type` is the type of the operands (of the last two for Select).
LaneFn laneFunction(ScalarOp op, DType type);

}  // namespace rlx::kir
