// Winograd's convolution F(4x4, 3x3) (Lavin and Gray, arXiv 1509.09308): 36 products of matrices
// for 144 multiplications of the direct way; about twice as fast where the planes are large beside
// the weights, with a few times the rounding error.
#pragma once
#include <vector>

#include "backend/cpu/conv.h"
#include "backend/cpu/gemm_kernel.h"
#include "backend/cpu/packed.h"

namespace rlx::cpu {

class Winograd final : public ConvAlgorithm {
 public:
  explicit Winograd(const GemmKernels* kernels) : kernels_(kernels) {}

  // Windows of 3 x 3 at every pixel, along the last two axes, where this is faster.
  static bool wins(const ConvProblem& p);

  int64_t memory() const override;
  Status run(const ConvProblem& p, int threads, const NativeEpilogue* epilogue) override;

 private:
  struct Work;
  Status prepare(const ConvProblem& p);

  const GemmKernels* kernels_;
  PackedFloats weights_;       // position, panel of output channels, input channel, output channel
  std::vector<float> bias_;    // by output channel, zeros behind
  std::vector<float> shared_;  // what all threads work on together
};

}  // namespace rlx::cpu
