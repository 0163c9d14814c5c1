// Expressions are graphs; text and code generators walk them as trees. Without this step a node
// used twice at every level of a fused expression is printed and computed 2^depth times.
#pragma once
#include "kir/kernel.h"

namespace rlx::kir {

struct ShareOptions {
  // Also names the value of a Store of float arithmetic: languages that forbid contraction through
  // a qualifier on variables need one.
  bool nameStores = false;
};

// Every node used more than once within a statement, and every node of great depth, becomes a Let
// before the statement. The meaning and the order of evaluation stay.
void share(Kernel& kernel, ShareOptions options = {});

}  // namespace rlx::kir
