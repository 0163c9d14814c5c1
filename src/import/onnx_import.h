// What the op handlers of the ONNX importer see: the node being imported, its operands as graph
// values or as contents known at import, and its attributes. Handlers are rows of a table, one file
// per family; none of them knows about scopes, functions or the file.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "import/onnx_model.h"
#include "ir/builder.h"
#include "ops/ref_tensor.h"
#include "ops/value_ops.h"

namespace rlx::onnx {

// Contents of a tensor of rank 0 or 1 that are known at import, as dims: what shape arithmetic
// computes. Of a float dtype the values are whole numbers all the same.
struct Extents {
  DType dtype = DType::I64;
  bool scalar = false;
  std::vector<Dim> dims;
};

// What a name of the file stands for.
struct Item {
  Value value;  // made when a node first needs it as a tensor
  std::optional<Literal> literal;
  std::shared_ptr<const Extents> extents;
  bool unavailable = false;  // a result of a node that could not be imported
  std::string why;           // of an unavailable tensor (a string initialiser)
};

class Importer;

class Call {
 public:
  Call(Importer& importer, const NodeDef& node, int64_t opset, std::vector<Item*> inputs,
       const std::vector<AttributeDef>* bindings);

  Builder& b;
  const NodeDef& node;
  const int64_t opset;

  std::size_t inputs() const { return inputs_.size(); }
  std::size_t outputs() const { return node.outputs.size(); }
  bool has(std::size_t k) const { return k < inputs_.size() && inputs_[k]; }
  // Whether output k is used by name.
  bool wants(std::size_t k) const { return k < node.outputs.size() && !node.outputs[k].empty(); }
  Item* item(std::size_t k) const { return has(k) ? inputs_[k] : nullptr; }
  // Operand k as a graph value; null when absent.
  Value in(std::size_t k);
  std::vector<Value> all();

  // Contents of operand k known at import; Unsupported, naming the graph inputs that decide, when
  // they depend on data.
  const Extents* extents(std::size_t k);
  Result<std::vector<Dim>> dims(std::size_t k);
  Result<std::vector<int64_t>> integers(std::size_t k);
  Result<std::vector<double>> numbers(std::size_t k);
  Result<int64_t> integer(std::size_t k);
  Result<double> number(std::size_t k);
  bool isConstant(std::size_t k);

  // Attributes. A wrong kind is an error that sticks and comes out after the handler.
  bool hasAttr(std::string_view name) const { return find(name) != nullptr; }
  const AttributeDef* find(std::string_view name) const;
  int64_t attr(std::string_view name, int64_t otherwise);
  double attr(std::string_view name, double otherwise);
  std::string attr(std::string_view name, std::string_view otherwise);
  std::vector<int64_t> ints(std::string_view name);
  std::vector<double> floats(std::string_view name);
  const TensorDef* tensor(std::string_view name);
  // Axes from operand k when it is there, else from the attribute; nothing when neither is given.
  // Normalised to 0..rank-1, sorted, without repeats.
  Result<std::optional<std::vector<int64_t>>> axes(std::size_t k, std::string_view name,
                                                   int64_t rank);
  Result<int64_t> axis(std::string_view name, int64_t otherwise, int64_t rank);

  void out(std::size_t k, Value v);
  void out(std::size_t k, Extents e);
  void out(std::size_t k, Literal l);

  Error unsupported(std::string why) const;
  Error bad(std::string why) const;
  // The sticky attribute error, if any.
  std::optional<Error> takeError();
  std::vector<Item>& results() { return results_; }
  Importer& importer() { return importer_; }

 private:
  Result<std::shared_ptr<const RefTensor>> contents(std::size_t k);
  Importer& importer_;
  std::vector<Item*> inputs_;
  const std::vector<AttributeDef>* bindings_;
  std::vector<Item> results_;
  std::optional<Error> error_;
};

using Handler = Status (*)(Call&);
struct OpRow {
  std::string_view name;  // with "domain::" before it outside the default domain
  Handler run;
  int minInputs = 1, maxInputs = 1;  // -1: any number
  int maxOutputs = 1;                // -1: any number
};
// The tables, one per family.
std::span<const OpRow> elementwiseOps();
std::span<const OpRow> windowOps();
std::span<const OpRow> normalizationOps();
std::span<const OpRow> reductionOps();
std::span<const OpRow> movementOps();
std::span<const OpRow> indexingOps();
std::span<const OpRow> contractionOps();
std::span<const OpRow> quantizationOps();
std::span<const OpRow> lossOps();
std::span<const OpRow> resizeOps();
std::span<const OpRow> visionOps();
std::span<const OpRow> signalOps();
std::span<const OpRow> trainingOps();
// Ops of ONNX that are known and not supported, with the reason.
struct RefusedOp {
  std::string_view name, why;
};
std::span<const RefusedOp> refusedOps();

// Shape arithmetic on contents known at import: the result of the node, or nothing when the op has
// no such rule or the result is not certain.
std::optional<Extents> shapeRule(Call& c);
std::optional<Extents> extentsOf(const Literal& v);
// The value that holds these contents.
Value materialize(Builder& b, const Extents& e);

// ---- Shared by handlers
// ----------------------------------------------------------------------------
// The extent of an axis; 0 outside, so that a failed builder's shapes do no harm.
inline Dim extent(const Value& v, int64_t axis) {
  const Shape& s = v.shape();
  return axis >= 0 && axis < static_cast<int64_t>(s.size()) ? s[static_cast<std::size_t>(axis)]
                                                            : Dim(0);
}
// Axes [from, to) of the shape, clamped to it.
inline Shape part(const Shape& s, std::size_t from, std::size_t to) {
  Shape out;
  for (std::size_t k = from; k < to && k < s.size(); ++k) out.push_back(s[k]);
  return out;
}
inline Value apply(ScalarOp op, Value a) {
  return emitScalar(op, {a});
}
inline Value apply(ScalarOp op, Value a, Value b) {
  return emitScalar(op, {a, b});
}
inline Value choose(Value when, Value a, Value b) {
  return emitScalar(ScalarOp::Select, {when, a, b});
}
std::vector<int64_t> range(int64_t from, int64_t to);
// Sum over axes divided by the number of elements.
Value mean(Value x, const std::vector<int64_t>& axes, KeepDims keep);
// A value of shape [c] as [c, 1, 1...] below axis 1 of a tensor of that rank.
Value perChannel(Value v, int64_t rank);
// Elements [from, to) of one axis.
Value sliceAxis(Value x, int64_t axis, const Dim& from, const Dim& size);
// A constant of integers.
Value constantInts(Builder& b, std::vector<int64_t> shape, const std::vector<int64_t>& v);
Value constantFloats(Builder& b, DType dtype, std::vector<int64_t> shape,
                     const std::vector<double>& v);
// Spatial window attributes of conv and pool.
struct Window {
  std::vector<int64_t> kernel, strides, dilations, low, high;
};
Result<Window> readWindow(Call& c, const Shape& x, std::vector<int64_t> kernel);
// Scatters, convolutions and so on that several families share.
Value convolve(Call& c, Value x, Value w, Value bias, const Window& window, int64_t groups);

}  // namespace rlx::onnx
