#include "ir/dtype.h"

namespace rlx {
static_assert(kDTypeCount <= 32, "capability masks hold 32 dtypes");
}  // namespace rlx
