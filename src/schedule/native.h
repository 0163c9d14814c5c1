// NativeKernel: a kernel that one backend has for one op: a library call, or code written or
// generated for that device alone. Everything else goes through the op's own lowering.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "kir/caps.h"

namespace rlx {

// A tensor inside a buffer: element (i0, i1, ...) lies at offset + sum(i_k * strides[k]) elements.
struct StridedView {
  ValueId base;  // the value whose buffer it is
  DType dtype = DType::F32;
  Dim offset;
  Shape shape;
  std::vector<Dim> strides;
};

struct NativeQuery {
  const Graph& graph;
  NodeId node;
  const Caps& caps;
  std::vector<StridedView> operands;  // of present operands, views seen through
  const Node& get() const { return graph.node(node); }
};

// Concrete addresses and strides of one call.
struct NativeTensor {
  std::byte* data = nullptr;
  std::vector<int64_t> shape, strides;  // in elements
};
// What follows a native kernel element by element, in the memory of its result: a bias, an
// activation, a residual.
class NativeEpilogue {
 public:
  virtual ~NativeEpilogue() = default;
  // The result is seen as a matrix: rows are its leading axes, columns the trailing axes that
  // NativeKernel::columns counts. Elements of rows [rowBegin, rowEnd) x columns [columnBegin,
  // columnEnd) are complete and must not be touched any more. Best called while they are in the
  // first cache; on any thread.
  virtual void apply(int64_t rowBegin, int64_t rowEnd, int64_t columnBegin,
                     int64_t columnEnd) const = 0;
};
struct NativeCall {
  std::vector<NativeTensor> operands;
  NativeTensor result;
  int32_t threads = 1;
  // Every element must pass through it exactly once. Null: nothing follows.
  const NativeEpilogue* epilogue = nullptr;
};

// A native kernel made for one node.
class NativeProgram {
 public:
  virtual ~NativeProgram() = default;
  virtual Status run(const NativeCall& call) = 0;

  // What it keeps from run to run, such as weights in another order.
  virtual int64_t memory() const { return 0; }

  // For kernels with `leading`: the same work in parts. The result's leading axes, `units` in all,
  // are shared out; run equals prepare, then runPart over [0, units) in any cut and order, several
  // parts at once on threads of their own.
  virtual Status prepare(const NativeCall&) { return Ok{}; }
  virtual void runPart(const NativeCall&, int64_t units, int64_t begin, int64_t end);
  // Units that are best taken together.
  virtual int64_t grain(const NativeCall&, int64_t units) const;
};

struct NativeKernel {
  OpKind op;
  std::string_view name;
  // Ok, or the reason it does not take this node.
  Status (*accepts)(const NativeQuery&);
  Result<std::unique_ptr<NativeProgram>> (*make)(const NativeQuery&);
  bool onHost = false;  // works on host memory: operands are copied there on other devices
  // Along how many leading axes of the result the work can be shared out; null: none. A part reads
  // of its first operand only what has the same leading coordinates, and may read all of the
  // others.
  std::size_t (*leading)(const NativeQuery&) = nullptr;
  // Whether the result may be written with the strides of this view; null: row-major only.
  bool (*writes)(const NativeQuery&, const StridedView& result) = nullptr;
  // How many trailing axes of the result are the columns of an epilogue; null: it takes none.
  std::size_t (*columns)(const NativeQuery&) = nullptr;
  // Dtypes, a bit for each as in Caps, that it widens by itself: of operands but the first, an
  // exact conversion of a constant of such a dtype is given as that constant.
  uint32_t widens = 0;
};

}  // namespace rlx
