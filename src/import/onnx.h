// ONNX: a model file of any opset becomes a graph. What differs between opsets ends here; the graph
// knows no versions. The bytes come from strangers: sizes, names and nesting are proved before use,
// and everything that cannot be imported is reported at once, before anything runs.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "ir/graph.h"

namespace rlx {

struct OnnxOptions {
  int64_t maxNodes = 1'000'000;  // after functions and branches are inlined
  int64_t maxDepth = 24;         // of graphs in attributes, and of functions that call functions
  int64_t maxElements = int64_t{1} << 40;              // of any tensor with constant extents
  uint64_t maxMessageBytes = (uint64_t{1} << 31) - 1;  // without initialiser data
  // Graph inputs that become constants. For files that pass shapes, axes or counts as inputs, which
  // a compiler must know.
  std::vector<std::pair<std::string, Literal>> fixedInputs;
  // When set, receives the names of the graph inputs whose values an unsupported model asked for.
  std::vector<std::string>* wantedInputs = nullptr;
};

// Imports a file. Initialisers point into the mapping. External data is read from files inside the
// model's folder only: UnsafePath for absolute paths, `..` and symbolic links. Unsupported lists
// every node that cannot be imported, with its op, opset and reason.
Result<Graph> importOnnx(const std::string& path, const OnnxOptions& options = {});
// The same for bytes that are open already; `folder` is where external data lies.
Result<Graph> importOnnx(std::shared_ptr<const MappedFile> file, const std::string& folder,
                         const OnnxOptions& options = {});

// The names of the graph's inputs in the order of the file, without those that an initialiser
// provides. Nothing is imported.
Result<std::vector<std::string>> onnxInputNames(const std::string& path);

// A TensorProto on its own, as test data and .pb inputs have it.
struct OnnxTensor {
  std::string name;
  Literal value;
};
Result<OnnxTensor> readOnnxTensor(const std::string& path);
Result<OnnxTensor> parseOnnxTensor(const std::shared_ptr<const MappedFile>& file);

// Every op that the importer knows, as "domain::Op" ("Op" for the default domain), sorted.
std::vector<std::string> onnxOps();

}  // namespace rlx
