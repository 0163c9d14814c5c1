// What the files of the CPU backend share.
#pragma once
#include <span>

#include "backend/cpu/emitter.h"
#include "schedule/native.h"

namespace rlx::cpu {

// The level in use: what the machine has, lowered by RLX_CPU_ISA.
Result<IsaLevel> activeIsa();
std::span<const NativeKernel> natives();

}  // namespace rlx::cpu
