// C++ for the system compiler: the portable CPU path. One function per kernel with the C interface
//   void NAME(unsigned char* const* globals, const int* params, const long long* grid,
//             long long begin, long long end)
// that runs the groups begin to end-1, axis 0 fastest.
#include "dialect/records.h"

namespace rlx::dialect {
namespace {

constexpr DialectBitcast kBitcasts[] = {
    {DType::F32, DType::U32, "__builtin_bit_cast(float, $0)"},
    {DType::U32, DType::F32, "__builtin_bit_cast(unsigned, $0)"},
    {DType::F64, DType::U64, "__builtin_bit_cast(double, $0)"},
    {DType::U64, DType::F64, "__builtin_bit_cast(unsigned long, $0)"},
};

// The second operand wins unless the first is greater or NaN: NaN in either comes out.
constexpr DialectHelper kHelpers[] = {
    {"rlx_max",
     "template <class T>\nstatic inline T rlx_max(T a, T b) { return a > b || a != a ? a : b; }\n"},
    {"rlx_min",
     "template <class T>\nstatic inline T rlx_min(T a, T b) { return a < b || a != a ? a : b; }\n"},
    {"rlx_nan", "template <class T>\nstatic inline bool rlx_nan(T a) { return a != a; }\n"},
};

struct Builtin {
  ScalarOp op;
  std::string_view f32, f64;
};
#define RLX_BUILTIN1(Id, fn) \
  { ScalarOp::Id, "__builtin_" #fn "f($0)", "__builtin_" #fn "($0)" }
#define RLX_BUILTIN2(Id, fn) \
  { ScalarOp::Id, "__builtin_" #fn "f($0, $1)", "__builtin_" #fn "($0, $1)" }
constexpr Builtin kBuiltins[] = {
    RLX_BUILTIN1(Abs, fabs),
    RLX_BUILTIN1(Floor, floor),
    RLX_BUILTIN1(Ceil, ceil),
    RLX_BUILTIN1(Round, rint),
    RLX_BUILTIN1(Trunc, trunc),
    RLX_BUILTIN1(Sqrt, sqrt),
    RLX_BUILTIN1(Cbrt, cbrt),
    RLX_BUILTIN1(Exp, exp),
    RLX_BUILTIN1(Exp2, exp2),
    RLX_BUILTIN1(Expm1, expm1),
    RLX_BUILTIN1(Log, log),
    RLX_BUILTIN1(Log2, log2),
    RLX_BUILTIN1(Log10, log10),
    RLX_BUILTIN1(Log1p, log1p),
    RLX_BUILTIN1(Sin, sin),
    RLX_BUILTIN1(Cos, cos),
    RLX_BUILTIN1(Tan, tan),
    RLX_BUILTIN1(Asin, asin),
    RLX_BUILTIN1(Acos, acos),
    RLX_BUILTIN1(Atan, atan),
    RLX_BUILTIN1(Sinh, sinh),
    RLX_BUILTIN1(Cosh, cosh),
    RLX_BUILTIN1(Tanh, tanh),
    RLX_BUILTIN1(Asinh, asinh),
    RLX_BUILTIN1(Acosh, acosh),
    RLX_BUILTIN1(Atanh, atanh),
    RLX_BUILTIN1(Erf, erf),
    RLX_BUILTIN2(Rem, fmod),
    RLX_BUILTIN2(Pow, pow),
    RLX_BUILTIN2(Atan2, atan2),
    RLX_BUILTIN2(CopySign, copysign),
    {ScalarOp::Fma, "__builtin_fmaf($0, $1, $2)", "__builtin_fma($0, $1, $2)"},
};
#undef RLX_BUILTIN1
#undef RLX_BUILTIN2

constexpr Dialect make() {
  Dialect d;
  d.name = "cxx";
  d.extension = "cc";
  d.caps.arithmetic = kAllArithmetic;
  d.caps.storage = kAllStorage;
  setTypes(d);
  setOperators(d);
  for (const Builtin& b : kBuiltins) set(d.f32, b.op, b.f32), set(d.f64, b.op, b.f64);
  for (OpTable* t : {&d.f32, &d.f64, &d.integer}) {
    set(*t, ScalarOp::Max, "rlx_max($0, $1)");
    set(*t, ScalarOp::Min, "rlx_min($0, $1)");
  }
  set(d.f32, ScalarOp::IsNan, "rlx_nan($0)");
  set(d.f64, ScalarOp::IsNan, "rlx_nan($0)");
  d.bitcasts = kBitcasts;
  d.helpers = kHelpers;
  d.groupId = "group_$a";
  d.localId = "0";
  d.readBuffer = "    const $t* const $n = reinterpret_cast<const $t*>(globals[$i]);\n";
  d.writeBuffer = d.readWriteBuffer = "    $t* const $n = reinterpret_cast<$t*>(globals[$i]);\n";
  d.param = "    const int $n = params[$i];\n";
  d.separator = "";
  d.shared = d.local = "    $t $n[$c];";
  d.indent = "    ";
  d.frame =
      "$helpers"
      "extern \"C\" void $name(unsigned char* const* globals, const int* params,\n"
      "                const long long* grid, long long begin, long long end) {\n"
      "  (void)globals, (void)params;\n"
      "  for (long long group = begin; group < end; ++group) {\n"
      "    const int group_x = static_cast<int>(group % grid[0]);\n"
      "    const int group_y = static_cast<int>(group / grid[0] % grid[1]);\n"
      "    const int group_z = static_cast<int>(group / grid[0] / grid[1]);\n"
      "    (void)group_x, (void)group_y, (void)group_z;\n"
      "$args$shared$local$body"
      "  }\n"
      "}\n";
  d.flags = "-std=c++20 -O2 -fwrapv -fno-math-errno -ffp-contract=off -fno-strict-aliasing";
  return d;
}

}  // namespace

static_assert(wellFormed(make()));
constinit const Dialect kCxx = make();

}  // namespace rlx::dialect
