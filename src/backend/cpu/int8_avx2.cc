#include "backend/cpu/int8_code.h"
#include "backend/cpu/vector_avx2.h"

namespace rlx::cpu {
namespace {

typedef uint8_t B16 __attribute__((vector_size(16)));
typedef int8_t S16 __attribute__((vector_size(16)));
typedef uint16_t H8 __attribute__((vector_size(16)));
typedef uint8_t B32 __attribute__((vector_size(32)));
typedef uint16_t H16 __attribute__((vector_size(32)));

template <class V>
RLX_INLINE V loadBytes(const uint8_t* p) {
  return reinterpret_cast<const Unaligned<V>*>(p)->v;
}
template <class V, class T>
RLX_INLINE void storeBytes(T* p, V v) {
  reinterpret_cast<Unaligned<V>*>(p)->v = v;
}
template <class V>
RLX_INLINE V all(uint8_t x) {
  return V{} + x;
}

constexpr int64_t kBlocks = 128;  // pairs of bytes that 16 bits can add up

RLX_INLINE H8 pairLow(B16 a, B16 b) {
  return reinterpret_cast<H8>(
      __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23));
}
RLX_INLINE H8 pairHigh(B16 a, B16 b) {
  return reinterpret_cast<H8>(
      __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31));
}
RLX_INLINE H8 wordsLow(H8 a, H8 b) {
  return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
}
RLX_INLINE H8 wordsHigh(H8 a, H8 b) {
  return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
}

}  // namespace

uint32_t copyBytes(const uint8_t* from, uint8_t flip, int64_t count, uint8_t* to) {
  constexpr int64_t kStep = sizeof(B32);
  uint32_t total = 0;
  int64_t i = 0;
  while (i + kStep <= count) {
    H16 sums{};
    const int64_t most = i + kBlocks * kStep, end = most < count ? most : count;
    for (; i + kStep <= end; i += kStep) {
      const B32 v = loadBytes<B32>(from + i) ^ all<B32>(flip);
      storeBytes(to + i, v);
      const H16 pairs = reinterpret_cast<H16>(v);
      sums += (pairs & 255) + (pairs >> 8);
    }
    for (int k = 0; k < 16; ++k) total += sums[k];
  }
  for (; i < count; ++i) {
    to[i] = static_cast<uint8_t>(from[i] ^ flip);
    total += to[i];
  }
  return total;
}

void widenBytes(const uint8_t* from, bool isSigned, int64_t count, int16_t* to) {
  constexpr int64_t kStep = sizeof(B16);
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep)
    storeBytes(to + i, isSigned ? __builtin_convertvector(loadBytes<S16>(from + i), H16)
                                : __builtin_convertvector(loadBytes<B16>(from + i), H16));
  for (; i < count; ++i) to[i] = isSigned ? static_cast<int8_t>(from[i]) : from[i];
}

void interleaveRows(const uint8_t* from, int64_t fromRow, uint8_t flip, int64_t columns,
                    uint8_t* to) {
  constexpr int64_t kStep = sizeof(B16);
  int64_t j = 0;
  for (; j + kStep <= columns; j += kStep, to += 4 * kStep) {
    B16 r[4];
    unrolled<4>([&](auto t) RLX_INLINED {
      r[t.value] = loadBytes<B16>(from + t.value * fromRow + j) ^ all<B16>(flip);
    });
    const H8 a = pairLow(r[0], r[1]), b = pairLow(r[2], r[3]);
    const H8 c = pairHigh(r[0], r[1]), d = pairHigh(r[2], r[3]);
    storeBytes(to, wordsLow(a, b));
    storeBytes(to + kStep, wordsHigh(a, b));
    storeBytes(to + 2 * kStep, wordsLow(c, d));
    storeBytes(to + 3 * kStep, wordsHigh(c, d));
  }
  for (; j < columns; ++j)
    for (int64_t t = 0; t < 4; ++t) *to++ = static_cast<uint8_t>(from[t * fromRow + j] ^ flip);
}

void copyWords(const uint8_t* from, int64_t fromColumn, uint8_t flip, int64_t columns,
               uint8_t* to) {
  const uint32_t flips = flip * 0x01010101u;
  for (int64_t j = 0; j < columns; ++j) {
    uint32_t word;
    __builtin_memcpy(&word, from + j * fromColumn, sizeof word);
    word ^= flips;
    __builtin_memcpy(to + j * 4, &word, sizeof word);
  }
}

}  // namespace rlx::cpu
