// The records, one file each, and what they share: spellings that most C-like languages agree on.
#pragma once
#include "dialect/dialect.h"

namespace rlx::dialect {

extern const Dialect kCxx, kGlsl, kOpencl, kCuda, kHip, kMsl, kHlsl, kWgsl;

constexpr void set(OpTable& t, ScalarOp op, std::string_view text) {
  t[static_cast<std::size_t>(op)] = text;
}
constexpr void set(std::array<std::string_view, kDTypeCount>& t, DType type,
                   std::string_view text) {
  t[static_cast<std::size_t>(type)] = text;
}

// Operators that every one of the languages has, with C's meaning.
constexpr void setOperators(Dialect& d) {
  for (OpTable* t : {&d.f32, &d.f64, &d.integer}) {
    set(*t, ScalarOp::Add, "($0 + $1)");
    set(*t, ScalarOp::Sub, "($0 - $1)");
    set(*t, ScalarOp::Mul, "($0 * $1)");
    set(*t, ScalarOp::Div, "($0 / $1)");
    set(*t, ScalarOp::Neg, "(-$0)");
    set(*t, ScalarOp::Lt, "($0 < $1)");
    set(*t, ScalarOp::Le, "($0 <= $1)");
    set(*t, ScalarOp::Gt, "($0 > $1)");
    set(*t, ScalarOp::Ge, "($0 >= $1)");
  }
  for (OpTable* t : {&d.f32, &d.f64, &d.integer, &d.boolean}) {
    set(*t, ScalarOp::Eq, "($0 == $1)");
    set(*t, ScalarOp::Ne, "($0 != $1)");
    set(*t, ScalarOp::Select, "($0 ? $1 : $2)");
  }
  set(d.integer, ScalarOp::Rem, "($0 % $1)");
  set(d.integer, ScalarOp::And, "($0 & $1)");
  set(d.integer, ScalarOp::Or, "($0 | $1)");
  set(d.integer, ScalarOp::Xor, "($0 ^ $1)");
  set(d.integer, ScalarOp::Not, "(~$0)");
  set(d.integer, ScalarOp::Shl, "($0 << $1)");
  set(d.integer, ScalarOp::Shr, "($0 >> $1)");
  set(d.boolean, ScalarOp::And, "($0 && $1)");
  set(d.boolean, ScalarOp::Or, "($0 || $1)");
  set(d.boolean, ScalarOp::Xor, "($0 != $1)");
  set(d.boolean, ScalarOp::Not, "(!$0)");
}

// Types and literals of the C family; a record replaces what its language calls otherwise.
constexpr void setTypes(Dialect& d) {
  constexpr std::pair<DType, std::string_view> kTypes[] = {
      {DType::F64, "double"},     {DType::F32, "float"},
      {DType::I64, "long"},       {DType::U64, "unsigned long"},
      {DType::I32, "int"},        {DType::U32, "unsigned"},
      {DType::I16, "short"},      {DType::U16, "unsigned short"},
      {DType::I8, "signed char"}, {DType::U8, "unsigned char"},
      {DType::Bool, "bool"}};
  for (const auto& [type, text] : kTypes) set(d.types, type, text);
  set(d.literals, DType::F64, "$v");
  set(d.literals, DType::F32, "$vf");
  set(d.literals, DType::I64, "$vL");
  set(d.literals, DType::U64, "$vUL");
  set(d.literals, DType::I32, "$v");
  set(d.literals, DType::U32, "$vu");
}

// Library functions "exp($0)"; `suffix` forms like expf are spelled out by the records.
constexpr ScalarOp kLibrary[] = {
    ScalarOp::Pow,   ScalarOp::Atan2, ScalarOp::CopySign, ScalarOp::Floor, ScalarOp::Ceil,
    ScalarOp::Trunc, ScalarOp::Sqrt,  ScalarOp::Cbrt,     ScalarOp::Exp,   ScalarOp::Exp2,
    ScalarOp::Expm1, ScalarOp::Log,   ScalarOp::Log2,     ScalarOp::Log10, ScalarOp::Log1p,
    ScalarOp::Sin,   ScalarOp::Cos,   ScalarOp::Tan,      ScalarOp::Asin,  ScalarOp::Acos,
    ScalarOp::Atan,  ScalarOp::Sinh,  ScalarOp::Cosh,     ScalarOp::Tanh,  ScalarOp::Asinh,
    ScalarOp::Acosh, ScalarOp::Atanh, ScalarOp::Erf,      ScalarOp::Fma,   ScalarOp::Rem,
    ScalarOp::Abs,   ScalarOp::Round};
// The spelling of scalar.def: "exp($0)".
constexpr void setLibrary(OpTable& t) {
  for (ScalarOp op : kLibrary) set(t, op, info(op).c);
}

// Whether every operand appears at most once.
constexpr bool operandsOnce(const OpTable& t) {
  for (std::string_view s : t) {
    int count[3] = {0, 0, 0};
    for (std::size_t i = 0; i + 1 < s.size(); ++i)
      if (s[i] == '$' && s[i + 1] >= '0' && s[i + 1] <= '2' && ++count[s[i + 1] - '0'] > 1)
        return false;
  }
  return true;
}
constexpr bool wellFormed(const Dialect& d) {
  return operandsOnce(d.f32) && operandsOnce(d.f64) && operandsOnce(d.integer) &&
         operandsOnce(d.boolean);
}

constexpr uint32_t kAllStorage =
    bit(DType::F64) | bit(DType::F32) | bit(DType::F16) | bit(DType::BF16) | bit(DType::I64) |
    bit(DType::U64) | bit(DType::I32) | bit(DType::U32) | bit(DType::I16) | bit(DType::U16) |
    bit(DType::I8) | bit(DType::U8) | bit(DType::Bool);
constexpr uint32_t kAllArithmetic = bit(DType::F64) | bit(DType::F32) | bit(DType::I64) |
                                    bit(DType::U64) | bit(DType::I32) | bit(DType::U32) |
                                    bit(DType::Bool);
constexpr uint32_t kPlainArithmetic =
    bit(DType::F32) | bit(DType::I32) | bit(DType::U32) | bit(DType::Bool);

// The least that any device with groups has (devices.md).
constexpr Caps groupCaps(uint32_t arithmetic, uint32_t storage) {
  Caps c;
  c.arithmetic = arithmetic;
  c.storage = storage;
  c.groups = true;
  c.maxLanes = 256;
  c.lanes = 64;
  c.sharedBytes = 16384;
  c.maxGrid = {65535, 65535, 65535};
  c.maxBinding = int64_t{128} << 20;
  c.maxBindings = 8;
  c.maxParamBytes = 128;
  return c;
}

}  // namespace rlx::dialect
