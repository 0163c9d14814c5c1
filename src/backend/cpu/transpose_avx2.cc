#include "backend/cpu/vector_avx2.h"
#include "backend/cpu/vector_code.h"

namespace rlx::cpu {
namespace {

constexpr int kSide = 8;

RLX_INLINE F8 interleaveLow(F8 a, F8 b) {
  return __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13);
}
RLX_INLINE F8 interleaveHigh(F8 a, F8 b) {
  return __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
}
RLX_INLINE F8 pairsLow(F8 a, F8 b) {
  return __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
}
RLX_INLINE F8 pairsHigh(F8 a, F8 b) {
  return __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
}
RLX_INLINE F8 halvesLow(F8 a, F8 b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11);
}
RLX_INLINE F8 halvesHigh(F8 a, F8 b) {
  return __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
}

// kSide x kSide elements.
RLX_INLINE void square(const float* from, int64_t fromRow, float* to, int64_t toRow) {
  F8 r[kSide], t[kSide], u[kSide];
  unrolled<kSide>([&](auto i) RLX_INLINED { r[i.value] = load<F8>(from + i.value * fromRow); });
  unrolled<kSide / 2>([&](auto i) RLX_INLINED {
    t[2 * i.value] = interleaveLow(r[2 * i.value], r[2 * i.value + 1]);
    t[2 * i.value + 1] = interleaveHigh(r[2 * i.value], r[2 * i.value + 1]);
  });
  // u[0..3]: elements 0 to 3 and 4 to 7 of rows 0 to 3; u[4..7]: of rows 4 to 7.
  unrolled<2>([&](auto i) RLX_INLINED {
    constexpr int k = 4 * i.value;
    u[k] = pairsLow(t[k], t[k + 2]), u[k + 1] = pairsHigh(t[k], t[k + 2]);
    u[k + 2] = pairsLow(t[k + 1], t[k + 3]), u[k + 3] = pairsHigh(t[k + 1], t[k + 3]);
  });
  unrolled<kSide / 2>([&](auto i) RLX_INLINED {
    store<F8>(to + i.value * toRow, halvesLow(u[i.value], u[i.value + 4]));
    store<F8>(to + (i.value + 4) * toRow, halvesHigh(u[i.value], u[i.value + 4]));
  });
}

}  // namespace

void transposeRows(const float* from, int64_t fromRow, float* to, int64_t toRow, int64_t rows,
                   int64_t columns) {
  const int64_t wholeRows = rows / kSide * kSide, wholeColumns = columns / kSide * kSide;
  for (int64_t i = 0; i < wholeRows; i += kSide)
    for (int64_t j = 0; j < wholeColumns; j += kSide)
      square(from + j * fromRow + i, fromRow, to + i * toRow + j, toRow);
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t i = j < wholeColumns ? wholeRows : 0; i < rows; ++i)
      to[i * toRow + j] = from[j * fromRow + i];
}

}  // namespace rlx::cpu
