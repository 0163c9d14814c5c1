// Memory of temporaries: which bytes of one arena each takes during a call. Liveness is known when
// the program is made; sizes and so offsets follow per call from the symbol values.
#pragma once
#include <vector>

#include "ir/dim.h"
#include "schedule/program.h"

namespace rlx {

struct MemoryPlan {
  std::vector<int64_t> offset;  // by program buffer; -1: not in the arena
  std::vector<int64_t> bytes;   // by program buffer, of storage
  int64_t arenaBytes = 0;
};

// Buffers that are not alive at the same time may share bytes; a step's result takes the place of
// an operand that dies there where the step allows it. OutOfMemory when a size overflows.
Result<MemoryPlan> planMemory(const Program& program, const Bindings& bindings);

}  // namespace rlx
