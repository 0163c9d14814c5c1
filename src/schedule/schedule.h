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

// The whole of a value's own buffer.
StridedView rowMajorView(const Graph& graph, ValueId v);
// The value as a strided view of the nearest value that it can be seen in without a copy, or of the
// nearest one that is marked `resident`. Exact conversions of constants of the dtypes `widens` (a
// bit for each) are seen through too; then the view has the constant's dtype.
StridedView stridedView(const Graph& graph, ValueId v, const std::vector<bool>* resident = nullptr,
                        uint32_t widens = 0);
// The present operands of a node as its native kernel is given them.
std::vector<StridedView> operandViews(const Graph& graph, const Node& node,
                                      const NativeKernel& kernel,
                                      const std::vector<bool>* resident = nullptr);

}  // namespace rlx
