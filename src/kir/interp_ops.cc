#include "kir/interp_ops.h"

#include <bit>
#include <cmath>
#include <type_traits>

namespace rlx::kir {
namespace {

template <class T>
T get(Bits b) {
  if constexpr (std::is_same_v<T, float>) return std::bit_cast<float>(static_cast<uint32_t>(b));
  if constexpr (std::is_same_v<T, double>) return std::bit_cast<double>(b);
  return static_cast<T>(b);
}
template <class T>
Bits put(T v) {
  if constexpr (std::is_same_v<T, float>) return std::bit_cast<uint32_t>(v);
  if constexpr (std::is_same_v<T, double>) return std::bit_cast<uint64_t>(v);
  return static_cast<Bits>(static_cast<int64_t>(v));
}
template <>
Bits put(bool v) {
  return v ? 1 : 0;
}

template <class T, auto F>
void binary(const LaneOp& i, std::size_t n) {
  for (std::size_t l = 0; l < n; ++l) i.dst[l] = put(F(get<T>(i.a[l]), get<T>(i.b[l])));
}
template <class T, auto F>
void unary(const LaneOp& i, std::size_t n) {
  for (std::size_t l = 0; l < n; ++l) i.dst[l] = put(F(get<T>(i.a[l])));
}

void select(const LaneOp& i, std::size_t n) {
  for (std::size_t l = 0; l < n; ++l) i.dst[l] = i.a[l] ? i.b[l] : i.c[l];
}

// The reference value in double, rounded once to float: exact for the basic operations, correctly
// rounded but for double rounding in the others.
void floatReference(const LaneOp& i, std::size_t n) {
  const bool toBool = info(i.op).result == ScalarResult::Bool;
  for (std::size_t l = 0; l < n; ++l) {
    const double y =
        scalar::value(i.op, get<float>(i.a[l]), get<float>(i.b[l]), get<float>(i.c[l]));
    i.dst[l] = toBool ? put(y != 0) : put(static_cast<float>(y));
  }
}
void doubleReference(const LaneOp& i, std::size_t n) {
  const bool toBool = info(i.op).result == ScalarResult::Bool;
  for (std::size_t l = 0; l < n; ++l) {
    const double y =
        scalar::value(i.op, get<double>(i.a[l]), get<double>(i.b[l]), get<double>(i.c[l]));
    i.dst[l] = toBool ? put(y != 0) : put(y);
  }
}
void integerReference(const LaneOp& i, std::size_t n) {
  const DType result = info(i.op).result == ScalarResult::Bool ? DType::Bool : i.type;
  for (std::size_t l = 0; l < n; ++l)
    i.dst[l] = wrapBits(
        result, scalar::integerValue(i.op, wideInteger(i.type, i.a[l]), wideInteger(i.type, i.b[l]),
                                     wideInteger(i.type, i.c[l]), valueBits(i.type)));
}

void fmaFloat(const LaneOp& i, std::size_t n) {
  for (std::size_t l = 0; l < n; ++l)
    i.dst[l] = put(std::fma(get<float>(i.a[l]), get<float>(i.b[l]), get<float>(i.c[l])));
}

template <class T>
LaneFn comparison(ScalarOp op) {
  if (op == ScalarOp::Lt) return binary<T, [](T a, T b) { return a < b; }>;
  if (op == ScalarOp::Le) return binary<T, [](T a, T b) { return a <= b; }>;
  if (op == ScalarOp::Gt) return binary<T, [](T a, T b) { return (a > b); }>;
  if (op == ScalarOp::Ge) return binary<T, [](T a, T b) { return a >= b; }>;
  if (op == ScalarOp::Eq) return binary<T, [](T a, T b) { return a == b; }>;
  if (op == ScalarOp::Ne) return binary<T, [](T a, T b) { return a != b; }>;
  return nullptr;
}

template <class T>
LaneFn floatFast(ScalarOp op) {
  if (op == ScalarOp::Add) return binary<T, [](T a, T b) { return a + b; }>;
  if (op == ScalarOp::Sub) return binary<T, [](T a, T b) { return a - b; }>;
  if (op == ScalarOp::Mul) return binary<T, [](T a, T b) { return a * b; }>;
  if (op == ScalarOp::Div) return binary<T, [](T a, T b) { return a / b; }>;
  if (op == ScalarOp::Max) return binary<T, [](T a, T b) { return (a > b || a != a) ? a : b; }>;
  if (op == ScalarOp::Min) return binary<T, [](T a, T b) { return a < b || a != a ? a : b; }>;
  if (op == ScalarOp::Neg) return unary<T, [](T a) { return -a; }>;
  if (op == ScalarOp::Abs) return unary<T, [](T a) { return std::fabs(a); }>;
  return comparison<T>(op);
}

template <class T>
LaneFn integerFast(ScalarOp op) {
  using U = std::make_unsigned_t<T>;
  if (op == ScalarOp::Add) return binary<T, [](T a, T b) { return static_cast<T>(U(a) + U(b)); }>;
  if (op == ScalarOp::Sub) return binary<T, [](T a, T b) { return static_cast<T>(U(a) - U(b)); }>;
  if (op == ScalarOp::Mul) return binary<T, [](T a, T b) { return static_cast<T>(U(a) * U(b)); }>;
  if (op == ScalarOp::Max) return binary<T, [](T a, T b) { return (a > b) ? a : b; }>;
  if (op == ScalarOp::Min) return binary<T, [](T a, T b) { return a < b ? a : b; }>;
  if (op == ScalarOp::And) return binary<T, [](T a, T b) { return static_cast<T>(a & b); }>;
  if (op == ScalarOp::Or) return binary<T, [](T a, T b) { return static_cast<T>(a | b); }>;
  if (op == ScalarOp::Xor) return binary<T, [](T a, T b) { return static_cast<T>(a ^ b); }>;
  return comparison<T>(op);
}

}  // namespace

LaneFn laneFunction(ScalarOp op, DType type) {
  if (op == ScalarOp::Select) return select;
  LaneFn fast = nullptr;
  if (type == DType::F32) fast = op == ScalarOp::Fma ? fmaFloat : floatFast<float>(op);
  if (type == DType::F64) fast = floatFast<double>(op);
  if (type == DType::I32) fast = integerFast<int32_t>(op);
  if (type == DType::U32) fast = integerFast<uint32_t>(op);
  if (type == DType::I64) fast = integerFast<int64_t>(op);
  if (type == DType::U64) fast = integerFast<uint64_t>(op);
  if (fast) return fast;
  if (type == DType::F32) return floatReference;
  return type == DType::F64 ? doubleReference : integerReference;
}

}  // namespace rlx::kir
