// Program: what a graph becomes: buffers, and steps over them. Sizes are Dims, evaluated per call.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "kir/kernel.h"
#include "schedule/native.h"

namespace rlx {

enum class BufferKind : uint8_t { Input, Constant, Output, Temporary };

struct ProgramBuffer {
  ValueId value;
  BufferKind kind = BufferKind::Temporary;
  DType dtype = DType::F32;
  Dim elements;
  int32_t port = -1;  // of inputs and outputs
};

struct Step {
  std::string label;              // ops it covers, for people
  std::vector<NodeId> nodes;      // of the primitive graph, the root last
  std::vector<uint32_t> buffers;  // kernel: in binding order; native: operands then the result
  uint32_t written = 0;           // the program buffer it writes
  int32_t inPlace = -1;  // index into `buffers` of an operand whose memory the result may take
  // Kernel step.
  kir::Kernel kernel;
  std::array<Dim, 3> grid{Dim(1), Dim(1), Dim(1)};
  std::vector<Dim> params;
  // Native step: set when `native` is. Its kernel, if it has one (`finished`), is an epilogue: it
  // works on the result in place, one group per row of `grid`; its first two parameters are the
  // columns of a call. Then `buffers` has the operands of both, the native's first.
  const NativeKernel* native = nullptr;
  std::shared_ptr<NativeProgram> program;
  std::vector<StridedView> views;  // of the operands
  bool finished = false;
  StridedView result;  // where in the written buffer the result lies
  // Dims, from the left of the result, along which parts of the step can run apart; empty: it runs
  // as a whole.
  std::vector<Dim> leading;
  // By entry of `buffers`: a part touches only the part of that buffer with the same leading
  // coordinates.
  std::vector<bool> local;
};

// Consecutive steps that can run one after another on a part of the work, without waiting for the
// other parts in between.
struct Chain {
  uint32_t first = 0, last = 0;  // steps; last is inside
  std::vector<Dim> over;         // the dims whose product is shared out
};

struct Program {
  Graph graph;  // the primitive graph it came from
  std::vector<ProgramBuffer> buffers;
  std::vector<Step> steps;
  std::vector<Chain> chains;  // in order, apart from each other
};

// Text of a program: buffers and steps, kernels included.
std::string print(const Program& program);

}  // namespace rlx
