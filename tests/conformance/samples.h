// One sample: a small graph around one op, with inputs. Generated from the op table for scalar maps, by
// hand for the rest; an op without a sample fails the suite.
#pragma once
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ops/ref_tensor.h"

namespace rlx::conformance {

struct Sample {
  std::string name;
  OpKind op;
  DType dtype = DType::F32;   // the dtype whose tolerance applies
  int64_t length = 1;         // accumulated terms per result element
  Graph graph;
  std::vector<RefTensor> inputs;
  double scale = 0;           // magnitude that absolute errors are relative to; 0: of the results
};

// All samples of one op. `full` adds all lengths 1 to 33 and all dtypes.
std::vector<Sample> samples(OpKind op, bool full);

}  // namespace rlx::conformance
