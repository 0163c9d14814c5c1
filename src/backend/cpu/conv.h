// The native f32 convolution: the contraction micro-kernels over panels of output pixels, each
// gathered from the input just before it is used, so that no copy of the input is ever made whole.
#pragma once
#include <array>
#include <memory>

#include "schedule/native.h"

namespace rlx::cpu {

inline constexpr std::size_t kConvAxes = 3;  // fewer spatial axes are led by axes of extent 1
using ConvAxes = std::array<int64_t, kConvAxes>;

// One call: x [batch, groups * channels, in...] with strides, w [groups * m, channels, window...],
// y [batch, groups * m, out...] row-major. Strides count elements.
struct ConvProblem {
  const float *x = nullptr, *w = nullptr, *bias = nullptr;  // bias: one per output channel, or null
  float* y = nullptr;
  int64_t batch = 0, groups = 1, m = 0;  // m: output channels of a group
  int64_t channels = 0, k = 0;           // input channels of a group; products of a sum
  int64_t xBatch = 0, xChannel = 0;
  int64_t wRow = 0, wColumn = 0, biasStride = 0;  // wColumn: of [channels, window...] seen as one
  ConvAxes in{1, 1, 1}, out{1, 1, 1}, window{1, 1, 1};
  ConvAxes step{1, 1, 1}, dilation{1, 1, 1}, pad{0, 0, 0}, xStride{0, 0, 0};
  int64_t taps() const { return window[0] * window[1] * window[2]; }
};

// A way to compute some convolutions that beats the general one there. Weights and bias are
// constant: what is made of them at the first run is kept.
class ConvAlgorithm {
 public:
  virtual ~ConvAlgorithm() = default;
  // Bytes kept from run to run.
  virtual int64_t memory() const = 0;
  // Every element of y passes through the epilogue (if any) once: rows are batch * channels of y,
  // columns its pixels. Equal bits for every number of threads.
  virtual Status run(const ConvProblem& p, int threads, const NativeEpilogue* epilogue) = 0;
};

Status acceptsConv(const NativeQuery& q);
Result<std::unique_ptr<NativeProgram>> makeConv(const NativeQuery& q);

}  // namespace rlx::cpu
