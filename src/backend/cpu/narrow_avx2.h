// Vectors of f16 and bf16 as f32 and back, for the files of vector code. The plain meaning is in
// base/half.h, which these files cannot include: it uses templates of the standard library.
#pragma once
#include "backend/cpu/vector_avx2.h"
#include "backend/cpu/vector_code.h"

namespace rlx::cpu {

typedef uint16_t H8 __attribute__((vector_size(16)));
typedef short S8 __attribute__((vector_size(16)));  // as the f16 instructions spell H8

RLX_INLINE F8 widen(H8 bits, const F16*) {
  return __builtin_ia32_vcvtph2ps256(reinterpret_cast<S8>(bits));
}
RLX_INLINE F8 widen(H8 bits, const BF16*) {
  return reinterpret_cast<F8>(__builtin_convertvector(bits, U8) << 16);
}

RLX_INLINE H8 narrow(F8 v, const F16*) {
  constexpr int kNearestEven = 0;
  return reinterpret_cast<H8>(__builtin_ia32_vcvtps2ph256(v, kNearestEven));
}
RLX_INLINE H8 narrow(F8 v, const BF16*) {
  constexpr uint32_t kQuiet = 0x40, kBelowHalf = 0x7fff;
  const U8 bits = reinterpret_cast<U8>(v), high = bits >> 16;
  const U8 rounded = (bits + kBelowHalf + (high & 1)) >> 16;
  const U8 isNan = reinterpret_cast<U8>(v != v);
  return __builtin_convertvector((isNan & (high | kQuiet)) | (~isNan & rounded), H8);
}

// Eight elements as floats.
RLX_INLINE F8 loadWide(const float* from) {
  return load<F8>(from);
}
template <class T>
RLX_INLINE F8 loadWide(const T* from) {
  return widen(load<H8>(from), from);
}

}  // namespace rlx::cpu
