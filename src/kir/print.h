// The text form of a kernel. parseKernel(print(k)) gives k back, node for node, for every kernel
// that verifies. Tests, golden files and `rlx print` use it; devices never do.
#pragma once
#include <string>

#include "kir/kernel.h"

namespace rlx::kir {

std::string print(const Kernel& kernel);
// One expression, with the names of `kernel`, for messages: cut after some two thousand characters.
std::string print(const Kernel& kernel, const Expr& expr);

}  // namespace rlx::kir
