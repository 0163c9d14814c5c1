// The float64 reference interpreter: the meaning of a graph. Every other way of running it is
// compared with this.
#pragma once
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "ops/ref_tensor.h"

namespace rlx {

// Binds the symbols of the graph's inputs to the extents of the given shapes, in input order. Rank
// and constant extents must agree (InputType); a symbol keeps one value (SymbolConflict).
Result<Bindings> bindInputs(const Graph& graph,
                            const std::vector<std::pair<DType, std::vector<int64_t>>>& inputs);

// What inference cannot prove while extents are symbols, proved for their values: slices inside their
// operand, windows that fit, nothing gathered from an empty axis. ShapeMismatch names the node.
// Everything that runs a graph asks this first; kernels trust it.
Status checkExtents(const Graph& graph, const Bindings& bindings);

// Runs the graph in float64 (integers exactly); no rounding between ops but where a convert asks
// for it. Inputs in the order of graph.inputs, results in the order of graph.outputs.
Result<std::vector<RefTensor>> interpret(const Graph& graph, std::span<const RefTensor> inputs);

// The same, keeping the value of every node: values[i] belongs to graph.values[i].
Result<std::vector<RefTensor>> interpretAll(const Graph& graph, std::span<const RefTensor> inputs);

}  // namespace rlx
