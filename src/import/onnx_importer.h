// The importer proper: scopes of names, functions and branches inlined, the list of everything
// unsupported. Only onnx.cc and the control-flow handlers see it.
#pragma once
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "import/onnx_import.h"

namespace rlx::onnx {

// Names of one graph or function body.
struct Scope {
  Scope* parent = nullptr;  // graphs in attributes see the names outside; functions do not
  const std::vector<OpsetDef>* opsets = nullptr;
  const std::vector<AttributeDef>* bindings = nullptr;  // attributes of the function call
  std::string prefix;                                   // of node names, "call/"
  std::unordered_map<std::string, Item> items;
  Item* find(const std::string& name);
};

class Importer {
 public:
  Importer(const ModelDef& model, const OnnxOptions& options)
      : builder(model.graph.name.empty() ? "graph" : model.graph.name),
        model_(model),
        options_(options) {}

  Result<Graph> run();

  // For handlers.
  Value value(Item& item, std::string_view name);
  // Contents of a value that depends on constants only; null, with the graph inputs it depends on
  // noted, otherwise.
  std::shared_ptr<const RefTensor> fold(Value v);
  // Imports a graph of an attribute in the scope of the node that runs; its outputs.
  Result<std::vector<Item>> inlineGraph(const GraphDef& g);

  Builder builder;
  std::vector<std::string> wanted;  // inputs that the last failed fold depends on

 private:
  Status declareInputs(const GraphDef& g, Scope& scope);
  Status declareInitializers(const GraphDef& g, Scope& scope);
  Status define(Scope& scope, const std::string& name, Item item);
  Status importNodes(const std::vector<NodeDef>& nodes, Scope& scope);
  Status importNode(const NodeDef& node, std::size_t index, Scope& scope);
  Status runHandler(const OpRow& row, Call& call, Scope& scope, const std::string& label);
  Result<std::vector<Item>> callFunction(const FunctionDef& f, const NodeDef& node, Scope& scope,
                                         const std::vector<Item*>& inputs);
  Status emitOutputs(Scope& scope);
  Status checkResult(const Item& item, const std::string& label) const;
  const FunctionDef* findFunction(const NodeDef& node) const;
  Result<Dim> dim(const DimDef& d, const std::string& fallback);
  int64_t opsetOf(const Scope& scope, std::string_view domain) const;
  void refuse(const std::string& label, std::string why, const std::vector<std::string>& inputs);
  void scan(const std::vector<NodeDef>& nodes);
  Error unsupportedList() const;

  const ModelDef& model_;
  const OnnxOptions& options_;
  int64_t imported_ = 0, depth_ = 0;
  Scope* current_ = nullptr;
  std::vector<std::string> refused_;
  std::vector<std::string> wantedInputs_;
  std::vector<std::pair<std::string, std::string>> symbols_;  // of the file, and ours
  std::unordered_map<uint32_t, std::shared_ptr<const RefTensor>> folded_;
};

// The row of an op in a domain, or null.
const OpRow* findOp(std::string_view domain, std::string_view op);
std::span<const OpRow> controlOps();

}  // namespace rlx::onnx
