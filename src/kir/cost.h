// What a launch costs, estimated from the kernel's text: profiles and reports divide it by time.
// Not a model of caches: every load counts.
#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "kir/kernel.h"

namespace rlx::kir {

struct Cost {
  double flops = 0;       // arithmetic on floats; fma counts two, a function as one
  double loadBytes = 0;   // asked of Global buffers by all lanes
  double storeBytes = 0;  // written to Global buffers by all lanes
};

// Trip counts come from the parameters, with ids and outer loop variables at the middle of their
// ranges; a branch counts as taken, a bound that depends on loaded values as one turn.
Cost cost(const Kernel& kernel, std::array<int64_t, 3> grid, std::span<const int32_t> params);

}  // namespace rlx::kir
