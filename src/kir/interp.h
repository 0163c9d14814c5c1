// The kernel interpreter: what a kernel means, independent of any device. It finds what devices
// hide: accesses outside a buffer and races between lanes or groups.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "kir/kernel.h"

namespace rlx::kir {

struct InterpOptions {
  // Two lanes (or groups) that touch one element of a Shared or Global buffer between two barriers
  // (or in one launch), one of them writing, fail with CheckFailed. Costs a shadow of every buffer.
  bool races = true;
  int64_t maxSteps = 0;  // lane-instructions after which to give up with FileBudget; 0: no limit
};

// Runs every group of the grid, axis 0 fastest. `globals` are the memory of the Global buffers in
// their order; element counts follow from the sizes. Arithmetic is exact in the types of the
// kernel: f32 in float, integers wrap, no contraction. Shared and Local memory starts as 0xcd
// bytes. IndexRange names buffer, index and size.
Status interpret(const Kernel& kernel, std::array<int64_t, 3> grid,
                 std::span<const std::span<std::byte>> globals, std::span<const int32_t> params,
                 InterpOptions options = {});

}  // namespace rlx::kir
