// An ONNX file as plain structs: what the importer needs of the protobuf messages, with tensors
// already proved and turned into literals. It is separate so that one translation unit sees the
// generated protobuf code.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "import/onnx.h"
#include "ir/literal.h"

namespace rlx::onnx {

struct TensorDef {
  std::string name;
  // Set when there is no literal: why ("dtype string"). Using the tensor is then Unsupported.
  std::string unsupported;
  Literal value;
};

struct GraphDef;
struct AttributeDef {
  enum class Kind : uint8_t {
    Float,
    Int,
    String,
    Tensor,
    Graph,
    Floats,
    Ints,
    Strings,
    Other,  // lists of tensors or graphs, sparse tensors, types
  };
  std::string name;
  std::string reference;  // in a function body: the attribute of the function that it stands for
  Kind kind = Kind::Other;
  double f = 0;
  int64_t i = 0;
  std::string s;
  std::shared_ptr<const TensorDef> t;
  std::shared_ptr<const GraphDef> g;
  std::vector<double> floats;
  std::vector<int64_t> ints;
  std::vector<std::string> strings;
};

struct NodeDef {
  std::string name, op, domain;
  std::vector<std::string> inputs, outputs;  // empty: absent
  std::vector<AttributeDef> attributes;
};

struct DimDef {
  enum class Kind : uint8_t { Unknown, Extent, Symbol };
  Kind kind = Kind::Unknown;
  int64_t extent = 0;
  std::string symbol;
};
struct ValueDef {
  std::string name;
  std::string unsupported;  // not a tensor, or of a dtype that has no literal form
  DType dtype = DType::F32;
  bool hasShape = false;
  std::vector<DimDef> shape;
};

struct GraphDef {
  std::string name;
  std::vector<NodeDef> nodes;
  std::vector<TensorDef> initializers;
  std::vector<ValueDef> inputs, outputs;
};

struct OpsetDef {
  std::string domain;  // "ai.onnx" is stored as ""
  int64_t version = 0;
};
struct FunctionDef {
  std::string domain, name, overload;
  std::vector<std::string> inputs, outputs;
  std::vector<NodeDef> nodes;
  std::vector<OpsetDef> opsets;
  std::vector<AttributeDef> defaults;
};
struct ModelDef {
  int64_t irVersion = 0;
  std::string producer;
  std::vector<OpsetDef> opsets;
  GraphDef graph;
  std::vector<FunctionDef> functions;
};

// Reads the messages. Every tensor's bytes agree with its shape; raw data of the main graph's
// initialisers points into the file.
Result<ModelDef> readModel(const std::shared_ptr<const MappedFile>& file, const std::string& folder,
                           const OnnxOptions& options);
// The literal type of a TensorProto data type; false when RLX has none.
bool findDType(int64_t code, DType* out);
// "float8e4m3fnuz" for a message.
std::string dtypeName(int64_t code);

}  // namespace rlx::onnx
