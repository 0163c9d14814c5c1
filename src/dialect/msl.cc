// Metal Shading Language. No 64-bit floats; precise:: where the language has it, expansions
// elsewhere.
#include "dialect/records.h"

namespace rlx::dialect {
namespace {

constexpr DialectBitcast kBitcasts[] = {
    {DType::F32, DType::U32, "as_type<float>($0)"},
    {DType::U32, DType::F32, "as_type<uint>($0)"},
    {DType::F16, DType::U16, "as_type<half>($0)"},
    {DType::U16, DType::F16, "as_type<ushort>($0)"},
};

constexpr DialectHelper kHelpers[] = {
    {"rlx_nan",
     "static inline bool rlx_nan(float a) { return (as_type<uint>(a) & 0x7fffffffu) > 0x7f800000u; "
     "}\n"},
    {"rlx_max",
     "static inline float rlx_max(float a, float b) { return a > b || rlx_nan(a) ? a : b; }\n"},
    {"rlx_min",
     "static inline float rlx_min(float a, float b) { return a < b || rlx_nan(a) ? a : b; }\n"},
};

constexpr Dialect make() {
  Dialect d;
  d.name = "msl";
  d.extension = "metal";
  d.caps = groupCaps(kPlainArithmetic | bit(DType::I64) | bit(DType::U64),
                     kAllStorage & ~bit(DType::F64));
  d.caps.sharedBytes = 32768;
  d.caps.maxBindings = 30;
  d.caps.unifiedMemory = true;
  d.half = true;
  setTypes(d);
  setOperators(d);
  set(d.types, DType::F64, "");
  set(d.types, DType::F16, "half");
  set(d.types, DType::U64, "ulong");
  set(d.types, DType::U32, "uint");
  set(d.types, DType::U16, "ushort");
  set(d.types, DType::U8, "uchar");
  set(d.types, DType::I8, "char");
  set(d.f32, ScalarOp::Max, "rlx_max($0, $1)");
  set(d.f32, ScalarOp::Min, "rlx_min($0, $1)");
  set(d.f32, ScalarOp::IsNan, "rlx_nan($0)");
  set(d.f32, ScalarOp::Abs, "fabs($0)");
  set(d.f32, ScalarOp::Floor, "floor($0)");
  set(d.f32, ScalarOp::Ceil, "ceil($0)");
  set(d.f32, ScalarOp::Round, "rint($0)");
  set(d.f32, ScalarOp::Trunc, "trunc($0)");
  set(d.f32, ScalarOp::CopySign, "copysign($0, $1)");
  set(d.f32, ScalarOp::Fma, "fma($0, $1, $2)");
  set(d.f32, ScalarOp::Rem, "fmod($0, $1)");
  set(d.f32, ScalarOp::Sqrt, "precise::sqrt($0)");
  set(d.f32, ScalarOp::Exp, "precise::exp($0)");
  set(d.f32, ScalarOp::Exp2, "precise::exp2($0)");
  set(d.f32, ScalarOp::Log, "precise::log($0)");
  set(d.f32, ScalarOp::Log2, "precise::log2($0)");
  set(d.f32, ScalarOp::Log10, "precise::log10($0)");
  set(d.f32, ScalarOp::Pow, "precise::pow($0, $1)");
  set(d.f32, ScalarOp::Sin, "precise::sin($0)");
  set(d.f32, ScalarOp::Cos, "precise::cos($0)");
  set(d.f32, ScalarOp::Tan, "precise::tan($0)");
  set(d.f32, ScalarOp::Asin, "precise::asin($0)");
  set(d.f32, ScalarOp::Acos, "precise::acos($0)");
  set(d.f32, ScalarOp::Atan, "precise::atan($0)");
  set(d.f32, ScalarOp::Atan2, "precise::atan2($0, $1)");
  set(d.f32, ScalarOp::Sinh, "precise::sinh($0)");
  set(d.f32, ScalarOp::Cosh, "precise::cosh($0)");
  set(d.f32, ScalarOp::Tanh, "precise::tanh($0)");
  set(d.f32, ScalarOp::Asinh, "precise::asinh($0)");
  set(d.f32, ScalarOp::Acosh, "precise::acosh($0)");
  set(d.f32, ScalarOp::Atanh, "precise::atanh($0)");
  set(d.integer, ScalarOp::Max, "max($0, $1)");
  set(d.integer, ScalarOp::Min, "min($0, $1)");
  d.bitcasts = kBitcasts;
  d.helpers = kHelpers;
  d.unroll = "#pragma unroll";
  d.groupId = "int(group.$a)";
  d.localId = "int(lane.$a)";
  d.barrier = "threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);";
  d.readBuffer = "device const $t* $n [[buffer($i)]],\n    ";
  d.writeBuffer = d.readWriteBuffer = "device $t* $n [[buffer($i)]],\n    ";
  d.separator = "";
  d.paramUse = "params[$i]";
  d.paramsOpen = "constant int* params [[buffer($k)]],\n    ";
  d.shared = "  threadgroup $t $n[$c];";
  d.local = "  $t $n[$c];";
  d.frame =
      "#include <metal_stdlib>\n"
      "using namespace metal;\n"
      "#pragma clang fp contract(off)\n"
      "$helpers"
      "[[max_total_threads_per_threadgroup($lanes)]]\n"
      "kernel void $name(\n    $args"
      "uint3 group [[threadgroup_position_in_grid]],\n"
      "    uint3 lane [[thread_position_in_threadgroup]]) {\n"
      "$shared$local$body"
      "}\n";
  d.flags = "-fno-fast-math";
  return d;
}

}  // namespace

static_assert(wellFormed(make()));
constinit const Dialect kMsl = make();

}  // namespace rlx::dialect
