// Graph: levels 1 and 2 in one container. `Stage` says which ops it may hold; the verifier enforces
// it. Values are typed and numbered; a node has any number of operands and results, and may own
// regions (bodies of if, while, scan), which are graphs of their own whose captures are explicit
// inputs.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/attr.h"
#include "ir/dim.h"
#include "ir/dtype.h"
#include "ir/opcode.h"

namespace rlx {

template <class Tag>
struct Id {
  uint32_t index = UINT32_MAX;
  explicit operator bool() const { return index != UINT32_MAX; }
  bool operator==(const Id&) const = default;
};
using ValueId = Id<struct ValueTag>;  // none: an absent optional operand
using NodeId = Id<struct NodeTag>;

enum class Stage : uint8_t { Model, Primitive };

struct TensorType {
  DType dtype = DType::F32;
  Shape shape;
  bool operator==(const TensorType&) const = default;
};
std::string text(const TensorType& t);  // "f32[batch,384]"

struct ValueData {
  TensorType type;
  NodeId node;          // the node that defines it
  uint32_t result = 0;  // which of its results
};

struct Graph;
struct Node {
  OpKind op{};
  std::vector<ValueId> inputs;
  std::vector<ValueId> results;
  Attrs attrs;
  std::vector<Graph> regions;
  std::string name;      // the name users know it by (the exporter's), may be empty
  std::string location;  // file and place it came from, may be empty
};

struct Port {
  std::string name;
  ValueId value;
};

struct Graph {
  std::string name;
  Stage stage = Stage::Model;
  std::vector<ValueData> values;
  std::vector<Node> nodes;   // topological: a definition precedes its uses
  std::vector<Port> inputs;  // results of Input nodes, in order
  std::vector<Port> outputs;

  const Node& node(NodeId id) const { return nodes[id.index]; }
  const ValueData& value(ValueId id) const { return values[id.index]; }
  const TensorType& type(ValueId id) const { return values[id.index].type; }
  const Node& definition(ValueId id) const { return nodes[values[id.index].node.index]; }
  // Names of all symbols in the types of the inputs, sorted.
  std::vector<std::string> symbols() const;
};

// Structure and types: operands defined before use, arities, inferred types equal the stored ones,
// ops allowed in the stage, port names unique. The first violation, with the node.
Status verify(const Graph& graph);
// BadGraph when an attribute names a symbol that no input's type has: nothing could give it a value.
// Not part of verify, for the parts of a graph that passes look at alone have no inputs to say so.
Status checkSymbols(const Graph& graph);

struct PrintOptions {
  int64_t maxLiteralBytes = INT64_MAX;  // larger literals print as `elided`, which does not parse
};
// Text of the graph; parseGraph reads it back to an equal graph.
std::string print(const Graph& graph, const PrintOptions& options = {});
Result<Graph> parseGraph(std::string_view text);

// Binary form: the text with literals moved to a payload. Same input, same bytes.
std::vector<std::byte> encode(const Graph& graph);
Result<Graph> decodeGraph(std::span<const std::byte> bytes);

}  // namespace rlx
