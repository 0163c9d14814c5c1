// The native f32 pool over the last two axes, plane by plane: a fold over the rows of a window,
// then one over its columns, so that a window of n x n costs 2 n and not n * n.
#pragma once
#include <memory>

#include "schedule/native.h"

namespace rlx::cpu {

Status acceptsPool(const NativeQuery& q);
Result<std::unique_ptr<NativeProgram>> makePool(const NativeQuery& q);
// Trailing axes of the result that an epilogue sees as columns: the spatial ones.
std::size_t columnsOfPool(const NativeQuery& q);

}  // namespace rlx::cpu
