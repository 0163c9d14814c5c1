// A dialect is data: how a language spells types, scalar ops, statements and the frame of a kernel.
// One printer (c_family.cc) reads the records and knows no language; what a record leaves empty the
// legaliser removes from the kernel first.
//
// Templates hold $words. In every template each operand appears at most once, so that text does not
// grow with the depth of an expression; what needs an operand twice is a helper function.
#pragma once
#include <array>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "kir/caps.h"
#include "kir/kernel.h"
#include "kir/legalize.h"

namespace rlx {

// Text put before the kernel when the kernel's text mentions `name`. A helper may use those before
// it.
struct DialectHelper {
  std::string_view name;
  std::string_view text;
};

struct DialectBitcast {
  DType to{}, from{};
  std::string_view text;  // $0
};

using OpTable = std::array<std::string_view, kScalarCount>;  // by ScalarOp; empty: not spelled

struct Dialect {
  std::string_view name;
  std::string_view extension;  // of files
  Caps caps;                   // what every implementation of the language has
  bool half = false;           // F16 is a type with exact casts
  bool fusedFma = true;        // see Spelling
  bool preciseStores = false;  // a stored float needs a variable, for its qualifier

  std::array<std::string_view, kDTypeCount> types{};     // empty: no such type
  std::array<std::string_view, kDTypeCount> literals{};  // $v: decimal digits
  std::array<std::string_view, kDTypeCount> features{};  // lines that use of the type requires
  OpTable f32{}, f64{}, integer{}, boolean{};            // $0 $1 $2, $s: name of the dtype
  std::span<const DialectBitcast> bitcasts;
  std::span<const DialectHelper> helpers;
  std::string_view cast = "(($t)($0))";

  // $n name, $t type, $e value, $i index, $c condition or element count, $a axis as x y z.
  std::string_view let = "const $t $n = $e;";
  std::string_view mutableLet = "$t $n = $e;";
  std::string_view floatLet;         // replaces `let` for floats; empty: as `let`
  std::string_view floatMutableLet;  // likewise
  std::string_view load = "$n[$i]";
  std::string_view loadIf = "($c ? $n[$i] : $e)";
  std::string_view loop = "for (int $n = $lo; $n < $hi; $n += $step) {";
  std::string_view unroll;  // a line before a loop to be repeated in full
  std::string_view groupId, localId, barrier;

  // Arguments: one text per buffer and parameter, $i its place among its kind, $k among all.
  std::string_view readBuffer, writeBuffer, readWriteBuffer, param;
  std::string_view separator = ", ";
  std::string_view paramUse = "$n";          // how the body names a parameter; $i its number
  std::string_view paramsOpen, paramsClose;  // around the parameters when there are any
  std::string_view shared, local;            // a Shared and a Local array
  // $features $helpers $args $shared (one line each) $name $x $y $z $lanes $body.
  std::string_view frame;
  std::string_view indent = "  ";  // of the body's first level

  // What the compiler must be told for the numeric contract, blank separated.
  std::string_view flags;

  const OpTable& table(DType t) const {
    return t == DType::F32 ? f32 : t == DType::F64 ? f64 : t == DType::Bool ? boolean : integer;
  }
};

// All dialects, by name.
std::span<const Dialect* const> dialects();
// Null when there is none of that name.
const Dialect* findDialect(std::string_view name);

// What the legaliser needs to know.
kir::Spelling spelling(const Dialect& dialect);
// The name of the function that runs the kernel: not the bare name, which may be one of the
// language's own functions. GLSL demands "main" instead.
std::string entryPoint(const kir::Kernel& kernel);
// The text of a kernel that legalize() made for this dialect. Unsupported names what the dialect
// cannot spell.
Result<std::string> printKernel(const kir::Kernel& kernel, const Dialect& dialect);
// Legalises for `caps`, then prints.
Result<std::string> emitText(const kir::Kernel& kernel, const Caps& caps, const Dialect& dialect);

}  // namespace rlx
