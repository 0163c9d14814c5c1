// A model from a path, whatever its format: .onnx, a Hugging Face folder, .rlx (text IR) or .rlxg
// (encoded graph).
#pragma once
#include <string>

#include "ir/graph.h"

namespace rlx {

// Errors name the path and the format that was tried.
Result<Graph> loadModel(const std::string& path);

}  // namespace rlx
