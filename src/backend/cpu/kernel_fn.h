// The function that a kernel becomes on the CPU, whatever makes it.
#pragma once
#include <cstddef>
#include <cstdint>

namespace rlx::cpu {

// Runs groups begin..end of a launch; group g has the axes (g % grid[0], g / grid[0] % grid[1],
// ...).
using KernelFn = void (*)(std::byte* const* globals, const int32_t* params, const int64_t* grid,
                          int64_t begin, int64_t end);

}  // namespace rlx::cpu
