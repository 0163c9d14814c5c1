// OpenCL C 1.2. Literals with a suffix, overloaded built-ins with C names; fmax and fmin drop NaN,
// so max and min are helpers.
#include "dialect/records.h"

namespace rlx::dialect {
namespace {

constexpr DialectBitcast kBitcasts[] = {
    {DType::F32, DType::U32, "as_float($0)"},
    {DType::U32, DType::F32, "as_uint($0)"},
    {DType::F64, DType::U64, "as_double($0)"},
    {DType::U64, DType::F64, "as_ulong($0)"},
};

#define RLX_MINMAX(type, s)                                         \
  {"rlx_max_" s, "inline " type " rlx_max_" s "(" type " a, " type  \
                 " b) {\n"                                          \
                 "  return a > b || isnan(a) ? a : b;\n}\n"},       \
  {                                                                 \
    "rlx_min_" s, "inline " type " rlx_min_" s "(" type " a, " type \
                  " b) {\n"                                         \
                  "  return a < b || isnan(a) ? a : b;\n}\n"        \
  }
constexpr DialectHelper kHelpers[] = {RLX_MINMAX("float", "f32"), RLX_MINMAX("double", "f64")};
#undef RLX_MINMAX

constexpr Dialect make() {
  Dialect d;
  d.name = "opencl";
  d.extension = "cl";
  d.caps = groupCaps(kPlainArithmetic | bit(DType::I64) | bit(DType::U64),
                     kAllStorage & ~(bit(DType::F64) | bit(DType::F16)));
  setTypes(d);
  setOperators(d);
  setLibrary(d.f32);
  setLibrary(d.f64);
  set(d.types, DType::U64, "ulong");
  set(d.types, DType::U32, "uint");
  set(d.types, DType::U16, "ushort");
  set(d.types, DType::U8, "uchar");
  set(d.types, DType::I8, "char");
  set(d.features, DType::F64, "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n");
  for (OpTable* t : {&d.f32, &d.f64}) {
    set(*t, ScalarOp::Max, "rlx_max_$s($0, $1)");
    set(*t, ScalarOp::Min, "rlx_min_$s($0, $1)");
    set(*t, ScalarOp::IsNan, "isnan($0)");
  }
  set(d.integer, ScalarOp::Max, "max($0, $1)");
  set(d.integer, ScalarOp::Min, "min($0, $1)");
  d.bitcasts = kBitcasts;
  d.helpers = kHelpers;
  d.unroll = "#pragma unroll";
  d.groupId = "(int)get_group_id($d)";
  d.localId = "(int)get_local_id($d)";
  d.barrier = "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);";
  d.readBuffer = "__global const $t* $n";
  d.writeBuffer = d.readWriteBuffer = "__global $t* $n";
  d.param = "int $n";
  d.shared = "  __local $t $n[$c];";
  d.local = "  $t $n[$c];";
  d.frame =
      "$features"
      "#pragma OPENCL FP_CONTRACT OFF\n"
      "$helpers"
      "__kernel __attribute__((reqd_work_group_size($x, $y, $z))) void $name($args) {\n"
      "$shared$local$body"
      "}\n";
  d.flags = "-cl-std=CL1.2";
  return d;
}

}  // namespace

static_assert(wellFormed(make()));
constinit const Dialect kOpencl = make();

}  // namespace rlx::dialect
