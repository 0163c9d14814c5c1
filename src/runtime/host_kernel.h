// Host placement: any op by the float64 reference, on host memory. Only for ops that the user
// waived by name; the report shows it as host, never as native.
#pragma once
#include "schedule/native.h"

namespace rlx {
const NativeKernel& hostKernel();
}  // namespace rlx
