// WGSL for WebGPU: 32-bit types only. A constant expression may not be NaN or infinite, so bits
// become floats in a function, whose result is no constant.
#include "dialect/records.h"

namespace rlx::dialect {
namespace {

constexpr DialectBitcast kBitcasts[] = {
    {DType::F32, DType::U32, "rlx_float($0)"},
    {DType::U32, DType::F32, "bitcast<u32>($0)"},
};

constexpr DialectHelper kHelpers[] = {
    {"rlx_float", "fn rlx_float(a: u32) -> f32 { return bitcast<f32>(a); }\n"},
    {"rlx_nan",
     "fn rlx_nan(a: f32) -> bool { return (bitcast<u32>(a) & 0x7fffffffu) > 0x7f800000u; }\n"},
    {"rlx_max",
     "fn rlx_max(a: f32, b: f32) -> f32 { return select(b, a, a > b || rlx_nan(a)); }\n"},
    {"rlx_min",
     "fn rlx_min(a: f32, b: f32) -> f32 { return select(b, a, a < b || rlx_nan(a)); }\n"},
    {"rlx_fmod",
     "fn rlx_fmod(a: f32, b: f32) -> f32 {\n"
     "  let s = bitcast<u32>(a) & 0x80000000u;\n"
     "  var x = bitcast<u32>(a) & 0x7fffffffu;\n"
     "  var y = bitcast<u32>(b) & 0x7fffffffu;\n"
     "  if (y == 0u || x >= 0x7f800000u || y > 0x7f800000u) { return rlx_float(0x7fc00000u); }\n"
     "  if (x < y) { return a; }\n"
     "  var ex = i32(x >> 23u);\n"
     "  var ey = i32(y >> 23u);\n"
     "  if (ex == 0) {\n"
     "    let up = i32(countLeadingZeros(x)) - 8;\n"
     "    x = x << u32(up);\n"
     "    ex = 1 - up;\n"
     "  }\n"
     "  if (ey == 0) {\n"
     "    let up = i32(countLeadingZeros(y)) - 8;\n"
     "    y = y << u32(up);\n"
     "    ey = 1 - up;\n"
     "  }\n"
     "  x = (x & 0x007fffffu) | 0x00800000u;\n"
     "  y = (y & 0x007fffffu) | 0x00800000u;\n"
     "  while (ex > ey) {\n"
     "    if (x >= y) { x = x - y; }\n"
     "    x = x << 1u;\n"
     "    ex = ex - 1;\n"
     "  }\n"
     "  if (x >= y) { x = x - y; }\n"
     "  if (x == 0u) { return rlx_float(s); }\n"
     "  let up = i32(countLeadingZeros(x)) - 8;\n"
     "  x = x << u32(up);\n"
     "  ey = ey - up;\n"
     "  if (ey <= 0) { return rlx_float(s | (x >> u32(1 - ey))); }\n"
     "  return rlx_float(s | (u32(ey) << 23u) | (x & 0x007fffffu));\n"
     "}\n"},
};

constexpr Dialect make() {
  Dialect d;
  d.name = "wgsl";
  d.extension = "wgsl";
  d.caps = groupCaps(kPlainArithmetic, bit(DType::F32) | bit(DType::I32) | bit(DType::U32));
  d.fusedFma = false;
  setOperators(d);
  set(d.types, DType::F32, "f32");
  set(d.types, DType::I32, "i32");
  set(d.types, DType::U32, "u32");
  set(d.types, DType::Bool, "bool");
  set(d.literals, DType::F32, "$vf");
  set(d.literals, DType::I32, "$vi");
  set(d.literals, DType::U32, "$vu");
  for (OpTable* t : {&d.f32, &d.integer, &d.boolean})
    set(*t, ScalarOp::Select, "select($2, $1, $0)");
  set(d.f32, ScalarOp::Max, "rlx_max($0, $1)");
  set(d.f32, ScalarOp::Min, "rlx_min($0, $1)");
  set(d.f32, ScalarOp::IsNan, "rlx_nan($0)");
  set(d.f32, ScalarOp::Rem, "rlx_fmod($0, $1)");
  set(d.f32, ScalarOp::Abs, "abs($0)");
  set(d.f32, ScalarOp::Floor, "floor($0)");
  set(d.f32, ScalarOp::Ceil, "ceil($0)");
  set(d.f32, ScalarOp::Round, "round($0)");
  set(d.f32, ScalarOp::Trunc, "trunc($0)");
  set(d.f32, ScalarOp::Sqrt, "sqrt($0)");
  set(d.integer, ScalarOp::Max, "max($0, $1)");
  set(d.integer, ScalarOp::Min, "min($0, $1)");
  set(d.integer, ScalarOp::Shl, "($0 << u32($1))");
  set(d.integer, ScalarOp::Shr, "($0 >> u32($1))");
  d.bitcasts = kBitcasts;
  d.helpers = kHelpers;
  d.cast = "$t($0)";
  d.let = "let $n: $t = $e;";
  d.mutableLet = "var $n: $t = $e;";
  d.loadIf = "select($e, $n[$i], $c)";
  d.loop = "for (var $n: i32 = $lo; $n < $hi; $n += $step) {";
  d.groupId = "i32(group.$a)";
  d.localId = "i32(lane.$a)";
  d.barrier = "workgroupBarrier(); storageBarrier();";
  d.readBuffer = "@group(0) @binding($k) var<storage, read> $n: array<$t>;\n";
  d.writeBuffer = d.readWriteBuffer =
      "@group(0) @binding($k) var<storage, read_write> $n: array<$t>;\n";
  d.separator = "";
  d.param = "  $n: i32,\n";
  d.paramUse = "params.$n";
  d.paramsOpen = "struct Params {\n";
  d.paramsClose = "};\n@group(0) @binding($k) var<uniform> params: Params;\n";
  d.shared = "var<workgroup> $n: array<$t, $c>;";
  d.local = "  var $n: array<$t, $c>;";
  d.frame =
      "$args$shared$helpers"
      "@compute @workgroup_size($x, $y, $z)\n"
      "fn $name(@builtin(workgroup_id) group: vec3<u32>, "
      "@builtin(local_invocation_id) lane: vec3<u32>) {\n"
      "$local$body"
      "}\n";
  return d;
}

}  // namespace

static_assert(wellFormed(make()));
constinit const Dialect kWgsl = make();

}  // namespace rlx::dialect
