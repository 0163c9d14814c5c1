// What CUDA and HIP share: HIP is the CUDA record with another preamble.
#pragma once
#include "dialect/records.h"

namespace rlx::dialect {

inline constexpr DialectBitcast kCudaBitcasts[] = {
    {DType::F32, DType::U32, "__uint_as_float($0)"},
    {DType::U32, DType::F32, "__float_as_uint($0)"},
    {DType::F64, DType::U64, "__longlong_as_double((long long)($0))"},
    {DType::U64, DType::F64, "(unsigned long long)__double_as_longlong($0)"},
};

inline constexpr DialectHelper kCudaHelpers[] = {
    {"rlx_nan", "template <class T>\nstatic __device__ bool rlx_nan(T a) { return a != a; }\n"},
    {"rlx_max",
     "template <class T>\nstatic __device__ T rlx_max(T a, T b) { return a > b || a != a ? a : b; "
     "}\n"},
    {"rlx_min",
     "template <class T>\nstatic __device__ T rlx_min(T a, T b) { return a < b || a != a ? a : b; "
     "}\n"},
};

struct CudaFunction {
  ScalarOp op;
  std::string_view f32;
};
// The single-precision names; the double ones are those of scalar.def.
inline constexpr CudaFunction kCudaFunctions[] = {
    {ScalarOp::Abs, "fabsf($0)"},
    {ScalarOp::Floor, "floorf($0)"},
    {ScalarOp::Ceil, "ceilf($0)"},
    {ScalarOp::Round, "rintf($0)"},
    {ScalarOp::Trunc, "truncf($0)"},
    {ScalarOp::Sqrt, "sqrtf($0)"},
    {ScalarOp::Cbrt, "cbrtf($0)"},
    {ScalarOp::Exp, "expf($0)"},
    {ScalarOp::Exp2, "exp2f($0)"},
    {ScalarOp::Expm1, "expm1f($0)"},
    {ScalarOp::Log, "logf($0)"},
    {ScalarOp::Log2, "log2f($0)"},
    {ScalarOp::Log10, "log10f($0)"},
    {ScalarOp::Log1p, "log1pf($0)"},
    {ScalarOp::Sin, "sinf($0)"},
    {ScalarOp::Cos, "cosf($0)"},
    {ScalarOp::Tan, "tanf($0)"},
    {ScalarOp::Asin, "asinf($0)"},
    {ScalarOp::Acos, "acosf($0)"},
    {ScalarOp::Atan, "atanf($0)"},
    {ScalarOp::Sinh, "sinhf($0)"},
    {ScalarOp::Cosh, "coshf($0)"},
    {ScalarOp::Tanh, "tanhf($0)"},
    {ScalarOp::Asinh, "asinhf($0)"},
    {ScalarOp::Acosh, "acoshf($0)"},
    {ScalarOp::Atanh, "atanhf($0)"},
    {ScalarOp::Erf, "erff($0)"},
    {ScalarOp::Rem, "fmodf($0, $1)"},
    {ScalarOp::Pow, "powf($0, $1)"},
    {ScalarOp::Atan2, "atan2f($0, $1)"},
    {ScalarOp::CopySign, "copysignf($0, $1)"},
    {ScalarOp::Fma, "fmaf($0, $1, $2)"},
};

constexpr Dialect makeCuda() {
  Dialect d;
  d.name = "cuda";
  d.extension = "cu";
  d.caps = groupCaps(kAllArithmetic, kAllStorage);
  d.caps.maxLanes = 1024;
  d.caps.lanes = 128;
  d.caps.sharedBytes = 49152;
  d.caps.maxGrid = {INT32_MAX, 65535, 65535};
  d.caps.maxBinding = INT64_MAX;
  d.caps.maxBindings = 64;
  d.caps.maxParamBytes = 1024;
  setTypes(d);
  setOperators(d);
  setLibrary(d.f64);
  for (const CudaFunction& f : kCudaFunctions) set(d.f32, f.op, f.f32);
  set(d.types, DType::I64, "long long");
  set(d.types, DType::U64, "unsigned long long");
  set(d.literals, DType::I64, "$vLL");
  set(d.literals, DType::U64, "$vULL");
  for (OpTable* t : {&d.f32, &d.f64, &d.integer}) {
    set(*t, ScalarOp::Max, "rlx_max($0, $1)");
    set(*t, ScalarOp::Min, "rlx_min($0, $1)");
  }
  set(d.f32, ScalarOp::IsNan, "rlx_nan($0)");
  set(d.f64, ScalarOp::IsNan, "rlx_nan($0)");
  d.bitcasts = kCudaBitcasts;
  d.helpers = kCudaHelpers;
  d.unroll = "#pragma unroll";
  d.groupId = "(int)blockIdx.$a";
  d.localId = "(int)threadIdx.$a";
  d.barrier = "__syncthreads();";
  d.readBuffer = "const $t* $n";
  d.writeBuffer = d.readWriteBuffer = "$t* $n";
  d.param = "int $n";
  d.shared = "  __shared__ $t $n[$c];";
  d.local = "  $t $n[$c];";
  d.frame =
      "$helpers"
      "extern \"C\" __global__ void __launch_bounds__($lanes) $name($args) {\n"
      "$shared$local$body"
      "}\n";
  d.flags = "--fmad=false";
  return d;
}

}  // namespace rlx::dialect
