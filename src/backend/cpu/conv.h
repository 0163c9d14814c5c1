// The native f32 convolution: the contraction micro-kernels over panels of output pixels, each
// gathered from the input just before it is used, so that no copy of the input is ever made whole.
#pragma once
#include <memory>

#include "schedule/native.h"

namespace rlx::cpu {

Status acceptsConv(const NativeQuery& q);
Result<std::unique_ptr<NativeProgram>> makeConv(const NativeQuery& q);

}  // namespace rlx::cpu
