#include "base/fuzz.h"
#include "import/onnx.h"

RLX_FUZZ_TARGET(fuzzOnnx) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const auto file = rlx::MappedFile::fromBytes("f.onnx", bytes);
  // Small budgets: the search is for wrong reads, not for large graphs.
  rlx::OnnxOptions options;
  options.maxNodes = 1000;
  options.maxElements = int64_t{1} << 20;
  // Whatever was accepted prints; the importer has verified it.
  if (auto graph = rlx::importOnnx(file, "no-such-folder", options))
    (void)print(*graph, {.maxLiteralBytes = 64});
  (void)rlx::parseOnnxTensor(file);
  return 0;
}
