// HLSL for shader model 5.1: structured buffers, parameters in a constant buffer. No 64-bit
// integers, no narrow storage.
#include "dialect/records.h"

namespace rlx::dialect {
namespace {

constexpr DialectBitcast kBitcasts[] = {
    {DType::F32, DType::U32, "asfloat($0)"},
    {DType::U32, DType::F32, "asuint($0)"},
};

constexpr DialectHelper kHelpers[] = {
    {"rlx_nan", "bool rlx_nan(float a) { return (asuint(a) & 0x7fffffffu) > 0x7f800000u; }\n"},
    {"rlx_max", "float rlx_max(float a, float b) { return a > b || rlx_nan(a) ? a : b; }\n"},
    {"rlx_min", "float rlx_min(float a, float b) { return a < b || rlx_nan(a) ? a : b; }\n"},
    {"rlx_fmod",
     "float rlx_fmod(float a, float b) {\n"
     "  uint x = asuint(a), y = asuint(b);\n"
     "  uint s = x & 0x80000000u;\n"
     "  x &= 0x7fffffffu;\n"
     "  y &= 0x7fffffffu;\n"
     "  if (y == 0u || x >= 0x7f800000u || y > 0x7f800000u) return asfloat(0x7fc00000u);\n"
     "  if (x < y) return a;\n"
     "  int ex = int(x >> 23), ey = int(y >> 23);\n"
     "  int sx = ex == 0 ? 23 - int(firstbithigh(x)) : 0, sy = ey == 0 ? 23 - int(firstbithigh(y)) "
     ": 0;\n"
     "  ex = ex == 0 ? 1 - sx : ex;\n"
     "  ey = ey == 0 ? 1 - sy : ey;\n"
     "  x = ((x << sx) & 0x007fffffu) | 0x00800000u;\n"
     "  y = ((y << sy) & 0x007fffffu) | 0x00800000u;\n"
     "  for (; ex > ey; --ex) {\n"
     "    if (x >= y) x -= y;\n"
     "    x <<= 1;\n"
     "  }\n"
     "  if (x >= y) x -= y;\n"
     "  if (x == 0u) return asfloat(s);\n"
     "  int up = 23 - int(firstbithigh(x));\n"
     "  x <<= up;\n"
     "  ey -= up;\n"
     "  if (ey <= 0) return asfloat(s | (x >> (1 - ey)));\n"
     "  return asfloat(s | (uint(ey) << 23) | (x & 0x007fffffu));\n"
     "}\n"},
};

constexpr Dialect make() {
  Dialect d;
  d.name = "hlsl";
  d.extension = "hlsl";
  d.caps = groupCaps(kPlainArithmetic, bit(DType::F32) | bit(DType::I32) | bit(DType::U32));
  d.caps.sharedBytes = 32768;
  d.caps.maxLanes = 1024;
  d.preciseStores = true;
  setTypes(d);
  d.fusedFma = false;
  setOperators(d);
  for (DType t : {DType::F64, DType::I64, DType::U64, DType::I16, DType::U16, DType::I8, DType::U8})
    set(d.types, t, "");
  set(d.types, DType::U32, "uint");
  set(d.f32, ScalarOp::Max, "rlx_max($0, $1)");
  set(d.f32, ScalarOp::Min, "rlx_min($0, $1)");
  set(d.f32, ScalarOp::IsNan, "rlx_nan($0)");
  set(d.f32, ScalarOp::Rem, "rlx_fmod($0, $1)");
  set(d.f32, ScalarOp::Abs, "abs($0)");
  set(d.f32, ScalarOp::Floor, "floor($0)");
  set(d.f32, ScalarOp::Ceil, "ceil($0)");
  set(d.f32, ScalarOp::Round, "round($0)");  // half to even since shader model 4
  set(d.f32, ScalarOp::Trunc, "trunc($0)");
  set(d.f32, ScalarOp::Sqrt, "sqrt($0)");
  set(d.integer, ScalarOp::Max, "max($0, $1)");
  set(d.integer, ScalarOp::Min, "min($0, $1)");
  d.bitcasts = kBitcasts;
  d.helpers = kHelpers;
  d.floatLet = d.floatMutableLet = "precise $t $n = $e;";
  d.unroll = "[unroll]";
  d.groupId = "int(group.$a)";
  d.localId = "int(lane.$a)";
  d.barrier = "AllMemoryBarrierWithGroupSync();";
  d.readBuffer = "StructuredBuffer<$t> $n : register(t$i);\n";
  d.writeBuffer = d.readWriteBuffer = "RWStructuredBuffer<$t> $n : register(u$i);\n";
  d.param = "  int $n;\n";
  d.separator = "";
  d.paramsOpen = "cbuffer Params : register(b0) {\n";
  d.paramsClose = "};\n";
  d.shared = "groupshared $t $n[$c];";
  d.local = "  $t $n[$c];";
  d.frame =
      "$args$shared$helpers"
      "[numthreads($x, $y, $z)]\n"
      "void $name(uint3 group : SV_GroupID, uint3 lane : SV_GroupThreadID) {\n"
      "$local$body"
      "}\n";
  d.flags = "/Gis";
  return d;
}

}  // namespace

static_assert(wellFormed(make()));
constinit const Dialect kHlsl = make();

}  // namespace rlx::dialect
