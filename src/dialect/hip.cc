// HIP C++ for hiprtc and clang.
#include "dialect/cuda_hip.h"

namespace rlx::dialect {
namespace {

constexpr Dialect make() {
  Dialect d = makeCuda();
  d.name = "hip";
  d.extension = "hip";
  d.caps.sharedBytes = 65536;
  d.frame =
      "#if !defined(__HIPCC_RTC__)\n"
      "#include <hip/hip_runtime.h>\n"
      "#endif\n"
      "$helpers"
      "extern \"C\" __global__ void __launch_bounds__($lanes) $name($args) {\n"
      "$shared$local$body"
      "}\n";
  d.flags = "-ffp-contract=off -fwrapv";
  return d;
}

}  // namespace

static_assert(wellFormed(make()));
constinit const Dialect kHip = make();

}  // namespace rlx::dialect
