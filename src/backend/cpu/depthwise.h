// Depthwise convolution: one input channel for each group. There is no contraction over channels
// for the micro-kernels to share a panel, so each plane is filtered by itself, from padded lines in
// the first cache.
#pragma once
#include <vector>

#include "backend/cpu/conv.h"

namespace rlx::cpu {

// Convolutions along the last two axes with one input channel in a group, x contiguous along the
// last axis.
bool depthwiseTakes(const ConvProblem& p);
// Whether that holds for all calls of a node.
bool depthwiseTakes(const NativeQuery& q);

class Depthwise final : public ConvAlgorithm {
 public:
  int64_t memory() const override;
  Status run(const ConvProblem& p, int threads, const NativeEpilogue* epilogue) override;

 private:
  std::vector<int64_t> tapColumns_;  // kept from run to run
};

}  // namespace rlx::cpu
