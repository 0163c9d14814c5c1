#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "backend/cpu/emitter_code.h"

namespace rlx::cpu {
namespace {

template <class T>
T slot(const std::byte* frame, int which, int64_t lane) {
  T v;
  std::memcpy(&v, frame + which * kCallSlot + lane * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return v;
}
template <class T>
void out(std::byte* frame, int64_t lane, T v) {
  std::memcpy(frame + kCallOut + lane * static_cast<int64_t>(sizeof(T)), &v, sizeof(T));
}

template <ScalarOp op, class T>
T floatOp(T a, T b, T c) {
  if constexpr (op == ScalarOp::Mod) {
    const T r = std::fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
  } else if constexpr (op == ScalarOp::Sin) {
    return std::sin(a);
  } else if constexpr (op == ScalarOp::Cos) {
    return std::cos(a);
  } else if constexpr (op == ScalarOp::Tan) {
    return std::tan(a);
  } else if constexpr (op == ScalarOp::Rem) {
    return std::fmod(a, b);
  } else {
    return static_cast<T>(
        scalar::value(op, static_cast<double>(a), static_cast<double>(b), static_cast<double>(c)));
  }
}

template <ScalarOp op, class T>
void lanesOf(std::byte* f, int64_t lanes, int64_t, int64_t) {
  for (int64_t i = 0; i < lanes; ++i) {
    const T a = slot<T>(f, 0, i), b = slot<T>(f, 1, i), c = slot<T>(f, 2, i);
    if constexpr (std::is_floating_point_v<T>)
      out(f, i, floatOp<op, T>(a, b, c));
    else
      out(f, i, static_cast<T>(scalar::integerValue(op, a, b, c, sizeof(T) * 8)));
  }
}

float fromHalf(uint16_t h) {
  const uint32_t sign = (h & 0x8000u) << 16, mag = h & 0x7fffu;
  if (mag >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | (mag & 0x3ffu) << 13);
  if (mag >= 0x400u) return std::bit_cast<float>(sign | ((mag << 13) + 0x38000000u));
  const float v = static_cast<float>(mag) * 0x1p-24f;
  return sign ? -v : v;
}

// To a binary format of `exponent` and `mantissa` bits, nearest even, one rounding.
uint16_t toNarrow(double v, int exponent, int mantissa) {
  const uint16_t sign = std::signbit(v) ? 0x8000 : 0;
  const int inf = ((1 << exponent) - 1) << mantissa;
  if (v != v) return static_cast<uint16_t>(sign | inf | 1 << (mantissa - 1));
  const double a = std::fabs(v);
  const int bias = (1 << (exponent - 1)) - 1;
  if (a == 0) return sign;
  if (std::isinf(a)) return static_cast<uint16_t>(sign | inf);
  int e = 0;
  std::frexp(a, &e);
  e = std::max(e - 1, 1 - bias);
  const double units = std::nearbyint(std::ldexp(a, mantissa - e));
  const double hidden = std::ldexp(1.0, mantissa);
  const int64_t bits = static_cast<int64_t>(units) +
                       (static_cast<int64_t>(e + bias - 1) * static_cast<int64_t>(hidden));
  return static_cast<uint16_t>(sign | (bits >= inf ? inf : bits));
}

template <class From, class To>
To convert(From v) {
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (v != v) return 0;
    const From high = std::ldexp(From{1}, std::numeric_limits<To>::digits);
    if (v >= high) return std::numeric_limits<To>::max();
    if (v <= (std::is_signed_v<To> ? -high : From{0})) return std::numeric_limits<To>::min();
    return static_cast<To>(v);
  } else {
    return static_cast<To>(v);
  }
}

struct Half {
  uint16_t bits;
};
struct Brain {
  uint16_t bits;
};
template <class T>
auto widen(T v) {
  if constexpr (std::is_same_v<T, Half>)
    return fromHalf(v.bits);
  else if constexpr (std::is_same_v<T, Brain>)
    return std::bit_cast<float>(static_cast<uint32_t>(v.bits) << 16);
  else
    return v;
}

// A 64-bit integer as a double that rounds to F16 and BF16 like the integer itself: what is lost is
// folded into the last bit (round to odd).
template <class T>
double roundToOdd(T v) {
  if constexpr (std::is_integral_v<T> && sizeof(T) == 8) {
    const bool negative = std::is_signed_v<T> && v < 0;
    uint64_t m = negative ? uint64_t{0} - static_cast<uint64_t>(v) : static_cast<uint64_t>(v);
    if (m >> 53 != 0) m = (m & ~uint64_t{0xfff}) | ((m & 0xfff) != 0 ? 0x1000 : 0);
    const double d = static_cast<double>(m);
    return negative ? -d : d;
  } else {
    return static_cast<double>(v);
  }
}

template <class From, class To>
void castLanes(std::byte* f, int64_t lanes, int64_t, int64_t) {
  for (int64_t i = 0; i < lanes; ++i) {
    const auto v = widen(slot<From>(f, 0, i));
    if constexpr (std::is_same_v<To, Half>)
      out(f, i, Half{toNarrow(roundToOdd(v), 5, 10)});
    else if constexpr (std::is_same_v<To, Brain>)
      out(f, i, Brain{toNarrow(roundToOdd(v), 8, 7)});
    else
      out(f, i, convert<std::remove_const_t<decltype(v)>, To>(v));
  }
}

template <class T>
void gatherLanes(std::byte* f, int64_t lanes, int64_t x, int64_t y) {
  const T* base = reinterpret_cast<const T*>(x);
  for (int64_t i = 0; i < lanes; ++i)
    out(f, i, (y >> i & 1) != 0 ? base[slot<int32_t>(f, 0, i)] : T{0});
}

template <class T>
void scatterLanes(std::byte* f, int64_t lanes, int64_t x, int64_t y) {
  T* base = reinterpret_cast<T*>(x);
  for (int64_t i = 0; i < lanes; ++i)
    if ((y >> i & 1) != 0) base[slot<int32_t>(f, 0, i)] = slot<T>(f, 1, i);
}

template <ScalarOp op>
LaneFn typed(DType t) {
  if (t == DType::F32) return &lanesOf<op, float>;
  if (t == DType::F64) return &lanesOf<op, double>;
  if (t == DType::I32) return &lanesOf<op, int32_t>;
  if (t == DType::I64) return &lanesOf<op, int64_t>;
  if (t == DType::U32) return &lanesOf<op, uint32_t>;
  if (t == DType::U64) return &lanesOf<op, uint64_t>;
  return nullptr;
}

template <class From>
LaneFn castFrom(DType to) {
  if (to == DType::F64) return &castLanes<From, double>;
  if (to == DType::F32) return &castLanes<From, float>;
  if (to == DType::F16) return &castLanes<From, Half>;
  if (to == DType::BF16) return &castLanes<From, Brain>;
  if (to == DType::I64) return &castLanes<From, int64_t>;
  if (to == DType::U64) return &castLanes<From, uint64_t>;
  if (to == DType::I32) return &castLanes<From, int32_t>;
  if (to == DType::U32) return &castLanes<From, uint32_t>;
  return nullptr;
}

}  // namespace

uint16_t narrowBits(DType type, double value) {
  return type == DType::F16 ? toNarrow(value, 5, 10) : toNarrow(value, 8, 7);
}

LaneFn laneOp(ScalarOp op, DType type) {
  switch (op) {
#define RLX_SCALAR(Id, ...) \
  case ScalarOp::Id:        \
    return typed<ScalarOp::Id>(type);
#include "scalar/scalar.def"
#undef RLX_SCALAR
  }
  return nullptr;
}

LaneFn laneCast(DType to, DType from) {
  if (from == DType::F64) return castFrom<double>(to);
  if (from == DType::F32) return castFrom<float>(to);
  if (from == DType::F16) return castFrom<Half>(to);
  if (from == DType::BF16) return castFrom<Brain>(to);
  if (from == DType::I64) return castFrom<int64_t>(to);
  if (from == DType::U64) return castFrom<uint64_t>(to);
  if (from == DType::I32) return castFrom<int32_t>(to);
  if (from == DType::U32) return castFrom<uint32_t>(to);
  return nullptr;
}

LaneFn laneGather(int bytes) {
  return bytes == 1   ? &gatherLanes<uint8_t>
         : bytes == 2 ? &gatherLanes<uint16_t>
         : bytes == 4 ? &gatherLanes<uint32_t>
                      : &gatherLanes<uint64_t>;
}

LaneFn laneScatter(int bytes) {
  return bytes == 1   ? &scatterLanes<uint8_t>
         : bytes == 2 ? &scatterLanes<uint16_t>
         : bytes == 4 ? &scatterLanes<uint32_t>
                      : &scatterLanes<uint64_t>;
}

}  // namespace rlx::cpu
