// CUDA C++ for NVRTC: no header is included, all names are the compiler's own.
#include "dialect/cuda_hip.h"

namespace rlx::dialect {

static_assert(wellFormed(makeCuda()));
constinit const Dialect kCuda = makeCuda();

}  // namespace rlx::dialect
