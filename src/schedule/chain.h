// Chains of steps: without them every step ends in a barrier, and what it wrote has left the cache
// when the next one reads it.
#pragma once
#include "schedule/program.h"

namespace rlx {

// The longest runs of steps of which each reads, of what earlier ones of the run wrote, only the
// part with the same leading coordinates. Runs of one step are left out.
std::vector<Chain> findChains(const Program& program);

// Whether a part of a step along `over` touches only that part of the buffer with this number.
bool staysInside(const Program& program, const Step& step, uint32_t buffer,
                 const std::vector<Dim>& over);

}  // namespace rlx
