// Builder: graphs in code. Types are inferred, never passed in. The first error sticks, with the
// caller's line, and comes out of finish(); building on needs no checks.
#pragma once
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace rlx {

class Builder;

// A handle the user does arithmetic with (operators are in ops/value_ops.h). Null stands for an
// absent optional operand.
struct Value {
  Builder* builder = nullptr;
  ValueId id;
  explicit operator bool() const { return static_cast<bool>(id); }
  const TensorType& type() const;
  DType dtype() const { return type().dtype; }
  const Shape& shape() const { return type().shape; }
  int64_t rank() const { return static_cast<int64_t>(shape().size()); }
};

class Builder {
 public:
  explicit Builder(std::string name = "graph", Stage stage = Stage::Model);
  // Rewrites continue an existing graph: its nodes are not copied, only its name and stage.
  Value input(std::string_view name, DType dtype, Shape shape, SourceLoc at = SourceLoc::here());
  static Dim symbol(std::string_view name) { return Dim::symbol(name); }
  Value constant(Literal literal, std::string_view name = {});
  // A rank-0 constant.
  Value scalar(DType dtype, double value);
  // One result (the first).
  Value emit(OpKind op, std::vector<Value> inputs, Attrs attrs = {},
             SourceLoc at = SourceLoc::here());
  std::vector<Value> emitAll(OpKind op, std::vector<Value> inputs, Attrs attrs = {},
                             std::vector<Graph> regions = {}, SourceLoc at = SourceLoc::here());
  void output(std::string_view name, Value value);
  // Name and location given to the nodes that follow (an importer's node).
  void setContext(std::string name, std::string location);
  void fail(Error error, SourceLoc at = SourceLoc::here());
  bool failed() const { return error_ != nullptr; }
  const Error* error() const { return error_.get(); }
  const Graph& graph() const { return graph_; }
  Graph& mutableGraph() { return graph_; }
  Result<Graph> finish() &&;

 private:
  Graph graph_;
  std::unique_ptr<Error> error_;
  std::string contextName_, contextLocation_;
};

// Operands, types, attributes: what inference sees.
struct InferContext {
  OpKind op;
  const std::vector<TensorType>& types;  // of the operands; absent ones have dtype F32 and rank 0
  const std::vector<bool>& present;
  const Attrs& attrs;
  const std::vector<Graph>& regions;
};

// The part of an op's record that the container needs; ops/ defines it for every op.
struct OpInfo {
  std::string_view name;
  int minInputs = 0, maxInputs = 0;  // maxInputs -1: any number
  bool composite = false;            // allowed in Stage::Model only
  const AttrsInfo* attrs = nullptr;
  Result<std::vector<TensorType>> (*infer)(const InferContext&) = nullptr;
  // The attributes with symbols replaced in their dims.
  Attrs (*substitute)(const Attrs&, const std::vector<std::pair<std::string, Dim>>&) = nullptr;
  // Adds the symbols of the attributes' dims, sorted and unique.
  void (*symbols)(const Attrs&, std::vector<std::string>&) = nullptr;
};
const OpInfo& opInfo(OpKind op);

// Arity, presence and inference: the result types of a node, or why it is wrong.
Result<std::vector<TensorType>> inferNode(OpKind op, const std::vector<TensorType>& types,
                                          const std::vector<bool>& present, const Attrs& attrs,
                                          const std::vector<Graph>& regions);

struct InputAttrs {
  std::string name;
  DType dtype = DType::F32;
  Shape shape;
  RLX_FIELDS(name, dtype, shape)
};
struct ConstantAttrs {
  std::string name;
  Literal value;
  RLX_FIELDS(name, value)
};

}  // namespace rlx
