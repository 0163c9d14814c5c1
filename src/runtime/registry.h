// The backends of this build, in the order of the RLX_BACKENDS option. Generated; see
// cmake/rlx.cmake.
#pragma once
#include <span>

#include "runtime/device.h"

namespace rlx {
std::span<const Backend* const> backends();
}  // namespace rlx
