// Text back to a kernel: the inverse of print.h. Hostile input: every list, number and depth is
// bounded, and what parses is verified before it is returned.
#pragma once
#include <string_view>

#include "base/result.h"
#include "kir/kernel.h"

namespace rlx::kir {

// BadText says line and column; BadGraph comes from verify().
Result<Kernel> parseKernel(std::string_view text);

}  // namespace rlx::kir
