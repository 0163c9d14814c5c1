// Graph to graph. Every pass returns a graph that verifies and computes the same results;
// `simplify` runs the ones that need no target.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/graph.h"

namespace rlx {

// Drops nodes that no output needs. Inputs stay. Without it dead branches of importers would have
// to be dispatched.
Graph removeDead(const Graph& graph);

// Merges nodes with equal op, operands and attributes. Without it decompositions repeat masks and
// iotas.
Graph mergeEqual(const Graph& graph);

// Replaces nodes whose operands are all constants by their value, when the result has at most
// `maxElements` elements or is not larger than its operands. Without it shape arithmetic stays in
// the graph.
Result<Graph> foldConstants(const Graph& graph, int64_t maxElements = 4096);

// Composites by their decompositions, down to primitives. `origin` receives, per new node, the
// index of the node it came from. Nodes for which `keep` is set stay as they are (a native kernel
// takes them).
Result<Graph> decompose(const Graph& graph, const std::vector<bool>& keep,
                        std::vector<uint32_t>* origin);

// Symbols replaced by dims (for example a fixed batch). Types are inferred anew.
Result<Graph> specialize(const Graph& graph,
                         const std::vector<std::pair<std::string, Dim>>& symbols);

// foldConstants, mergeEqual, removeDead.
Result<Graph> simplify(const Graph& graph);

}  // namespace rlx
