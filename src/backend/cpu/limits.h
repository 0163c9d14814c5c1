// What this machine does at most: arithmetic and the bandwidth of each level of memory.
#pragma once
#include "runtime/device.h"

namespace rlx::cpu {

// OutOfMemory where the largest buffers do not fit; Unsupported without the instructions.
Result<MachineLimits> measureLimits(int32_t threads, double milliseconds);

}  // namespace rlx::cpu
