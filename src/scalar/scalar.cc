#include "scalar/scalar.h"

namespace rlx::scalar {

double value(ScalarOp op, double a, double b, double c) {
  (void)b, (void)c;
  switch (op) {
#define RLX_SCALAR(Id, fn, n, types, result, sp, ulp, lo, hi, value, ...) \
  case ScalarOp::Id:                                                      \
    return value;
#include "scalar/scalar.def"
#undef RLX_SCALAR
  }
  return 0;
}

Wide integerValue(ScalarOp op, Wide a, Wide b, Wide c, int w) {
  (void)b, (void)c, (void)w;
  switch (op) {
#define RLX_SCALAR(Id, fn, n, types, result, sp, ulp, lo, hi, value, ivalue, ...) \
  case ScalarOp::Id:                                                              \
    return ivalue;
#include "scalar/scalar.def"
#undef RLX_SCALAR
  }
  return 0;
}

}  // namespace rlx::scalar
