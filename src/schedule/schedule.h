// Primitive graph to Program: which values live in memory, which ops share a kernel, in which
// order.
#pragma once
#include <span>

#include "kir/caps.h"
#include "schedule/program.h"

namespace rlx {

// `natives[n]` is the native kernel chosen for node n, or null for the op's own lowering. Kernels
// are as the lowering wrote them: legalisation follows per device. Errors name the node.
Result<Program> schedule(Graph graph, const Caps& caps,
                         std::span<const NativeKernel* const> natives);

// The value as a strided view of the nearest value that it can be seen in without a copy.
StridedView stridedView(const Graph& graph, ValueId v);

}  // namespace rlx
