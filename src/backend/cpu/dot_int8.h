// The native contraction of i8 and u8 operands in any mix, in i32: dot_general with a result dtype.
#pragma once
#include <memory>

#include "backend/cpu/gemm_int8_kernel.h"
#include "schedule/native.h"

namespace rlx::cpu {

Status acceptsInt8Dot(const NativeQuery& q);
Result<std::unique_ptr<NativeProgram>> makeInt8Dot(const NativeQuery& q);
// The same on other kernels than those of the active level.
std::unique_ptr<NativeProgram> int8Dot(const NativeQuery& q, const Int8Kernels* kernels);

}  // namespace rlx::cpu
