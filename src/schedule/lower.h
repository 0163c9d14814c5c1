// Lowering of one region to one kernel: the root value and everything that is computed on the spot
// inside it. Ops say what an element is; this decides where loops, lanes and stores are.
#pragma once
#include <vector>

#include "kir/caps.h"
#include "schedule/program.h"

namespace rlx {

// Which values of a graph live in memory; all others are recomputed where they are used.
struct Residency {
  std::vector<bool> resident;  // by ValueId
  bool of(ValueId v) const { return resident[v.index]; }
};

struct LoweredRegion {
  Step step;
  std::vector<ValueId> reads;       // by buffer index, the written value last
  std::vector<ValueId> violations;  // values that must become resident before this region is right
};

// How many axes a Reduce node covers when they are exactly the last ones of its operand; else 0.
std::size_t trailingAxes(const Graph& graph, const Node& reduce);

// The kernel that computes `root`. On violations the kernel is not usable.
Result<LoweredRegion> lowerRegion(const Graph& graph, const Residency& residency, ValueId root,
                                  const Caps& caps);

}  // namespace rlx
