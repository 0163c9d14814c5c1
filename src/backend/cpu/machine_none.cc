// In place of an emitter and of native kernels, on processors that have none here.
#include "backend/cpu/cpu.h"
#include "backend/cpu/limits.h"
#include "backend/cpu/target.h"

namespace rlx::cpu {

Result<const Target*> machineTarget() {
  return Error(Errc::Unsupported, "there is no code generator for this processor");
}

std::span<const NativeKernel> natives() {
  return {};
}

Result<MachineLimits> measureLimits(int32_t, double) {
  return Error(Errc::Unsupported, "limits are measured by machine code for x86-64");
}

}  // namespace rlx::cpu
