// The op table: every OpKind's record, gathered from the families. A missing one is a link error.
#include "ops/op.h"

namespace rlx {
namespace ops {
#define RLX_SCALAR(Id, ...) extern const OpDef kScalar##Id;
#include "scalar/scalar.def"
#undef RLX_SCALAR
#define RLX_OP(Id, ...) extern const OpDef k##Id;
#include "ops/ops.def"
#undef RLX_OP
}  // namespace ops

namespace {
constinit const OpDef* const kTable[] = {
#define RLX_SCALAR(Id, ...) &ops::kScalar##Id,
#include "scalar/scalar.def"
#undef RLX_SCALAR
#define RLX_OP(Id, ...) &ops::k##Id,
#include "ops/ops.def"
#undef RLX_OP
};
static_assert(sizeof kTable / sizeof kTable[0] == kOpCount);
}  // namespace

const OpDef& opDef(OpKind op) {
  return *kTable[static_cast<std::size_t>(op)];
}
const OpInfo& opInfo(OpKind op) {
  return opDef(op).info;
}

}  // namespace rlx
