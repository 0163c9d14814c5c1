// The rules of kernel.h, checked. Runs after every transformation and before anything interprets or
// prints a kernel, so that those need no checks of their own.
#pragma once
#include "base/result.h"
#include "kir/kernel.h"

namespace rlx::kir {

// Depth of expressions and of statements; recursion over kernels is bounded by it.
inline constexpr int kMaxNesting = 200;

// BadGraph names the kernel, the statement and the rule: types, single assignment, definition
// before use and scope, access, and barriers in uniform flow only. A value is uniform when it is
// the same for all lanes of a group: local ids and loaded values are not.
Status verify(const Kernel& kernel);

}  // namespace rlx::kir
