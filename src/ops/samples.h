// Samples of the op table: small graphs around one op, with inputs; for the conformance suite and for
// the dispatch matrix. Generated from the op table for scalar maps, by
// hand for the rest; an op without a sample fails the suite.
#pragma once
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ops/ref_tensor.h"

namespace rlx {

struct OpSample {
  std::string name;
  OpKind op;
  DType dtype = DType::F32;   // the dtype whose tolerance applies
  int64_t length = 1;         // accumulated terms per result element
  Graph graph;
  std::vector<RefTensor> inputs;
  std::vector<std::vector<RefTensor>> more;  // further runs of the same program: other symbol values
  double scale = 0;           // magnitude that absolute errors are relative to; 0: of the results
};

enum class SampleSet : uint8_t { Quick, Full };
// All samples of one op. Full adds all lengths 1 to 33 and all dtypes.
std::vector<OpSample> opSamples(OpKind op, SampleSet set);

}  // namespace rlx
