// How far a device may be from the reference: one function, used by conformance, parity tests and
// `rlx compare`. No test carries a looser number.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "ir/graph.h"
#include "ops/ref_tensor.h"

namespace rlx {

struct Tolerance {
  double relative = 0;  // of the magnitude of the reference value
  double absolute = 0;  // of the magnitude of the operands (scale)
};

// For one op in one dtype; `length` is the number of accumulated terms (1 for maps). Elementwise:
// the ulp column of scalar.def, at least half a unit of the dtype. Reductions: a few units times
// the square root of the length. Integers and bools: exact.
Tolerance tolerance(OpKind op, DType dtype, int64_t length);
// For the end of a graph of `depth` ops in that dtype.
Tolerance graphTolerance(DType dtype, int64_t depth, int64_t length);

// The terms that one element of the node's result adds up (1 for maps), and the most that any node
// of the graph does, for `length` above. Extents that `bindings` leaves open count as 1.
int64_t termsOf(const Graph& graph, const Node& node, const Bindings& bindings);
int64_t longestSum(const Graph& graph, const Bindings& bindings);

// What comparing two tensors finds.
struct Difference {
  bool equal = true;  // all within tolerance
  int64_t at = -1;    // flat index of the worst element outside, or of the worst at all
  double got = 0, want = 0;
  double error = 0;  // |got - want| of that element
  double worst = 0;  // largest error / allowed error
  double maxAbs = 0, cosine = 1;
};
// NaN equals NaN, infinities must agree in sign. `scale` is the magnitude that absolute errors are
// relative to, 0: the largest finite reference magnitude.
Difference compare(const RefTensor& got, const RefTensor& want, Tolerance t, double scale = 0);

}  // namespace rlx
