// GLSL 4.50 in the Vulkan flavour: storage buffers in set 0, parameters as push constants.
// Elementary functions are left to expansions: the language bounds their errors too loosely.
#include "dialect/records.h"

namespace rlx::dialect {
namespace {

constexpr DialectBitcast kBitcasts[] = {
    {DType::F32, DType::U32, "uintBitsToFloat($0)"},
    {DType::U32, DType::F32, "floatBitsToUint($0)"},
    {DType::F64, DType::U64, "packDouble2x32(unpackUint2x32($0))"},
    {DType::U64, DType::F64, "packUint2x32(unpackDouble2x32($0))"},
    {DType::F16, DType::U16, "uint16BitsToFloat16($0)"},
    {DType::U16, DType::F16, "float16BitsToUint16($0)"},
};

// Compilers may assume that there is no NaN in comparisons, so NaN is told by its bits. `%` of
// negative operands is undefined in the language. fmod works on the bits: subtract and shift, exact
// at any ratio.
constexpr DialectHelper kHelpers[] = {
    {"rlx_nan_f32",
     "bool rlx_nan_f32(float a) { return (floatBitsToUint(a) & 0x7fffffffu) > 0x7f800000u; }\n"},
    {"rlx_nan_f64",
     "bool rlx_nan_f64(double a) {\n"
     "  uvec2 w = unpackDouble2x32(a);\n"
     "  uint high = w.y & 0x7fffffffu;\n"
     "  return high > 0x7ff00000u || (high == 0x7ff00000u && w.x != 0u);\n"
     "}\n"},
    {"rlx_max_f32",
     "float rlx_max_f32(float a, float b) { return a > b || rlx_nan_f32(a) ? a : b; }\n"},
    {"rlx_min_f32",
     "float rlx_min_f32(float a, float b) { return a < b || rlx_nan_f32(a) ? a : b; }\n"},
    {"rlx_max_f64",
     "double rlx_max_f64(double a, double b) { return a > b || rlx_nan_f64(a) ? a : b; }\n"},
    {"rlx_min_f64",
     "double rlx_min_f64(double a, double b) { return a < b || rlx_nan_f64(a) ? a : b; }\n"},
    {"rlx_rem_i32", "int rlx_rem_i32(int a, int b) { return a - (a / b) * b; }\n"},
    {"rlx_rem_u32", "uint rlx_rem_u32(uint a, uint b) { return a % b; }\n"},
    {"rlx_rem_i64", "int64_t rlx_rem_i64(int64_t a, int64_t b) { return a - (a / b) * b; }\n"},
    {"rlx_rem_u64", "uint64_t rlx_rem_u64(uint64_t a, uint64_t b) { return a % b; }\n"},
    {"rlx_fmod",
     "float rlx_fmod(float a, float b) {\n"
     "  uint x = floatBitsToUint(a), y = floatBitsToUint(b);\n"
     "  uint s = x & 0x80000000u;\n"
     "  x &= 0x7fffffffu;\n"
     "  y &= 0x7fffffffu;\n"
     "  if (y == 0u || x >= 0x7f800000u || y > 0x7f800000u) return uintBitsToFloat(0x7fc00000u);\n"
     "  if (x < y) return a;\n"
     "  int ex = int(x >> 23), ey = int(y >> 23);\n"
     "  int sx = ex == 0 ? 23 - findMSB(x) : 0, sy = ey == 0 ? 23 - findMSB(y) : 0;\n"
     "  ex = ex == 0 ? 1 - sx : ex;\n"
     "  ey = ey == 0 ? 1 - sy : ey;\n"
     "  x = ((x << sx) & 0x007fffffu) | 0x00800000u;\n"
     "  y = ((y << sy) & 0x007fffffu) | 0x00800000u;\n"
     "  for (; ex > ey; --ex) {\n"
     "    if (x >= y) x -= y;\n"
     "    x <<= 1;\n"
     "  }\n"
     "  if (x >= y) x -= y;\n"
     "  if (x == 0u) return uintBitsToFloat(s);\n"
     "  int up = 23 - findMSB(x);\n"
     "  x <<= up;\n"
     "  ey -= up;\n"
     "  if (ey <= 0) return uintBitsToFloat(s | (x >> (1 - ey)));\n"
     "  return uintBitsToFloat(s | (uint(ey) << 23) | (x & 0x007fffffu));\n"
     "}\n"},
    {"rlx_rem_f64",
     "bool rlx_less(uvec2 a, uvec2 b) { return a.y < b.y || (a.y == b.y && a.x < b.x); }\n"
     "uvec2 rlx_minus(uvec2 a, uvec2 b) {\n"
     "  return uvec2(a.x - b.x, a.y - b.y - (a.x < b.x ? 1u : 0u));\n"
     "}\n"
     "int rlx_top(uvec2 a) { return a.y == 0u ? findMSB(a.x) : 32 + findMSB(a.y); }\n"
     "uvec2 rlx_up(uvec2 a, int n) {\n"
     "  if (n >= 32) return uvec2(0u, a.x << (n - 32));\n"
     "  return n == 0 ? a : uvec2(a.x << n, (a.y << n) | (a.x >> (32 - n)));\n"
     "}\n"
     "uvec2 rlx_down(uvec2 a, int n) {\n"
     "  if (n >= 32) return uvec2(a.y >> (n - 32), 0u);\n"
     "  return n == 0 ? a : uvec2((a.x >> n) | (a.y << (32 - n)), a.y >> n);\n"
     "}\n"
     "double rlx_rem_f64(double a, double b) {\n"
     "  const uvec2 top = uvec2(0u, 0x7ff00000u), none = uvec2(0u);\n"
     "  uvec2 x = unpackDouble2x32(a), y = unpackDouble2x32(b);\n"
     "  uint s = x.y & 0x80000000u;\n"
     "  x.y &= 0x7fffffffu;\n"
     "  y.y &= 0x7fffffffu;\n"
     "  if (y == none || !rlx_less(x, top) || rlx_less(top, y))\n"
     "    return packDouble2x32(uvec2(0u, 0x7ff80000u));\n"
     "  if (rlx_less(x, y)) return a;\n"
     "  int ex = int(x.y >> 20), ey = int(y.y >> 20);\n"
     "  int sx = ex == 0 ? 52 - rlx_top(x) : 0, sy = ey == 0 ? 52 - rlx_top(y) : 0;\n"
     "  ex = ex == 0 ? 1 - sx : ex;\n"
     "  ey = ey == 0 ? 1 - sy : ey;\n"
     "  x = rlx_up(x, sx);\n"
     "  y = rlx_up(y, sy);\n"
     "  x.y = (x.y & 0x000fffffu) | 0x00100000u;\n"
     "  y.y = (y.y & 0x000fffffu) | 0x00100000u;\n"
     "  for (; ex > ey; --ex) {\n"
     "    if (!rlx_less(x, y)) x = rlx_minus(x, y);\n"
     "    x = rlx_up(x, 1);\n"
     "  }\n"
     "  if (!rlx_less(x, y)) x = rlx_minus(x, y);\n"
     "  if (x == none) return packDouble2x32(uvec2(0u, s));\n"
     "  int up = 52 - rlx_top(x);\n"
     "  x = rlx_up(x, up);\n"
     "  ey -= up;\n"
     "  if (ey <= 0)\n"
     "    x = rlx_down(x, 1 - ey);\n"
     "  else\n"
     "    x.y = (uint(ey) << 20) | (x.y & 0x000fffffu);\n"
     "  return packDouble2x32(uvec2(x.x, x.y | s));\n"
     "}\n"},
};

constexpr std::string_view kInt64 =
    "#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require\n";
constexpr std::string_view kInt16 =
    "#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require\n"
    "#extension GL_EXT_shader_16bit_storage : require\n";
constexpr std::string_view kInt8 =
    "#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require\n"
    "#extension GL_EXT_shader_8bit_storage : require\n";

constexpr Dialect make() {
  Dialect d;
  d.name = "glsl";
  d.extension = "comp";
  d.caps = groupCaps(kPlainArithmetic, bit(DType::F32) | bit(DType::I32) | bit(DType::U32));
  d.half = true;
  d.preciseStores = true;
  setTypes(d);
  d.fusedFma = false;
  setOperators(d);
  set(d.types, DType::U32, "uint");
  set(d.types, DType::I64, "int64_t");
  set(d.types, DType::U64, "uint64_t");
  set(d.types, DType::F16, "float16_t");
  set(d.types, DType::I16, "int16_t");
  set(d.types, DType::U16, "uint16_t");
  set(d.types, DType::I8, "int8_t");
  set(d.types, DType::U8, "uint8_t");
  set(d.literals, DType::F32, "$v");
  set(d.literals, DType::F64, "$vLF");
  set(d.features, DType::I64, kInt64);
  set(d.features, DType::U64, kInt64);
  set(d.features, DType::I16, kInt16);
  set(d.features, DType::U16, kInt16);
  set(d.features, DType::I8, kInt8);
  set(d.features, DType::U8, kInt8);
  set(d.features, DType::F16,
      "#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require\n"
      "#extension GL_EXT_shader_16bit_storage : require\n");
  for (OpTable* t : {&d.f32, &d.f64}) {
    set(*t, ScalarOp::Max, "rlx_max_$s($0, $1)");
    set(*t, ScalarOp::Min, "rlx_min_$s($0, $1)");
    set(*t, ScalarOp::IsNan, "rlx_nan_$s($0)");
    set(*t, ScalarOp::Abs, "abs($0)");
    set(*t, ScalarOp::Floor, "floor($0)");
    set(*t, ScalarOp::Ceil, "ceil($0)");
    set(*t, ScalarOp::Round, "roundEven($0)");
    set(*t, ScalarOp::Trunc, "trunc($0)");
    set(*t, ScalarOp::Sqrt, "sqrt($0)");
  }
  set(d.f32, ScalarOp::Rem, "rlx_fmod($0, $1)");
  set(d.f64, ScalarOp::Rem, "rlx_rem_$s($0, $1)");
  set(d.integer, ScalarOp::Rem, "rlx_rem_$s($0, $1)");
  set(d.integer, ScalarOp::Max, "max($0, $1)");
  set(d.integer, ScalarOp::Min, "min($0, $1)");
  d.bitcasts = kBitcasts;
  d.helpers = kHelpers;
  d.cast = "$t($0)";
  d.floatLet = d.floatMutableLet = "precise $t $n = $e;";
  d.groupId = "int(gl_WorkGroupID.$a)";
  d.localId = "int(gl_LocalInvocationID.$a)";
  d.barrier = "groupMemoryBarrier(); barrier();";
  d.readBuffer = "layout(std430, set = 0, binding = $i) readonly buffer B$i { $t $n[]; };\n";
  d.writeBuffer = "layout(std430, set = 0, binding = $i) writeonly buffer B$i { $t $n[]; };\n";
  d.readWriteBuffer = "layout(std430, set = 0, binding = $i) coherent buffer B$i { $t $n[]; };\n";
  d.param = "  int $n;\n";
  d.separator = "";
  d.paramsOpen = "layout(push_constant) uniform Params {\n";
  d.paramsClose = "};\n";
  d.shared = "shared $t $n[$c];";
  d.local = "  $t $n[$c];";
  d.frame =
      "#version 450\n"
      "$features"
      "layout(local_size_x = $x, local_size_y = $y, local_size_z = $z) in;\n"
      "$args$shared$helpers"
      "void main() {\n"
      "$local$body"
      "}\n";
  return d;
}

}  // namespace

static_assert(wellFormed(make()));
constinit const Dialect kGlsl = make();

}  // namespace rlx::dialect
