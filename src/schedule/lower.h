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

// How many I32 parameters an epilogue may have.
inline constexpr std::size_t kMostEpilogueParams = 16;

// The kernel of everything between `under`, the result of a native kernel, and `root`, of the same
// type: it works in the memory of the root, where the native kernel has written. One group per row;
// a row is the last `columns` axes seen as one. The first two parameters are the columns of a call,
// begin and end. On violations the root cannot be had in this way.
Result<LoweredRegion> lowerEpilogue(const Graph& graph, const Residency& residency, ValueId root,
                                    ValueId under, std::size_t columns, const Caps& caps);

}  // namespace rlx
