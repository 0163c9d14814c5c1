// Vectors for the files of vector code.
#pragma once
#include <cstdint>

namespace rlx::cpu {

typedef float F8 __attribute__((vector_size(32)));
typedef float F4 __attribute__((vector_size(16)));
typedef double D4 __attribute__((vector_size(32)));
typedef int32_t I8 __attribute__((vector_size(32)));
typedef uint32_t U8 __attribute__((vector_size(32)));
typedef int32_t I4 __attribute__((vector_size(16)));

#define RLX_INLINED __attribute__((always_inline))
#define RLX_INLINE inline RLX_INLINED

template <class V>
struct Unaligned {
  V v;
} __attribute__((packed, may_alias));

// What is at an address of any alignment.
template <class V>
RLX_INLINE V load(const void* p) {
  return reinterpret_cast<const Unaligned<V>*>(p)->v;
}
template <class V>
RLX_INLINE void store(void* p, V v) {
  reinterpret_cast<Unaligned<V>*>(p)->v = v;
}
RLX_INLINE F8 broadcast(float x) {
  return F8{x, x, x, x, x, x, x, x};
}

template <int N>
struct Int {
  static constexpr int value = N;
};
// f(Int<0>()) to f(Int<N - 1>()): indices that are constants, so that arrays stay in registers.
template <int N, class F>
RLX_INLINE void unrolled(F f) {
  if constexpr (N > 0) {
    unrolled<N - 1>(f);
    f(Int<N - 1>());
  }
}

}  // namespace rlx::cpu
