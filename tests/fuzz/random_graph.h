// Random graphs for differential tests: small, valid, of ops from the whole table, with inputs. The
// seed is everything: equal seeds give equal graphs.
#pragma once
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ops/ref_tensor.h"

namespace rlx::test {

struct RandomGraphOptions {
  int maxNodes = 12;
  int64_t maxElements = 400;  // of any value, under the bindings of the inputs
  bool symbols = true;        // some extents are symbols; the inputs give them values
};

struct RandomGraph {
  Graph graph;
  std::vector<RefTensor> inputs;  // rounded to their dtypes
  // Per output what lies on its way, for graphTolerance: how many ops and accumulated terms, the
  // float dtype of the fewest bits, and the largest magnitude (cancellation is relative to it).
  struct Depth {
    int64_t ops = 1, terms = 1;
    DType narrowest = DType::F64;
    double scale = 0;
  };
  std::vector<Depth> depths;
};

RandomGraph randomGraph(uint32_t seed, const RandomGraphOptions& options = {});

}  // namespace rlx::test
