// Runs folders in the layout of the ONNX backend tests: model.onnx beside test_data_set_N folders
// with input_K.pb and output_K.pb. It stands apart from the verb so that tests can call it.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/options.h"

namespace rlx {

struct OnnxTestResult {
  enum Outcome : uint8_t { Passed, Failed, Unsupported };
  std::string name;  // of the folder
  Outcome outcome = Failed;
  std::string detail;  // why not, or which inputs were fixed at import
};

// One result a folder, in order. A folder is a test (it holds model.onnx) or holds tests. Shapes,
// axes and counts that a model takes as inputs are not known to a compiler: such a model is
// imported once more with the data set's values of exactly the inputs that the importer asked for
// fixed as constants, and `detail` names them.
Result<std::vector<OnnxTestResult>> runOnnxTests(const std::vector<std::string>& folders,
                                                 const CompileOptions& options);

}  // namespace rlx
