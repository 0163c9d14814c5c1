#include "backend/cpu/narrow_avx2.h"

namespace rlx::cpu {
namespace {

// Elements on a side of a square that registers transpose.
template <class To>
inline constexpr int kSide = 32 / sizeof(To);

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

template <class From>
RLX_INLINE void square(const From* from, int64_t fromRow, float* to, int64_t toRow) {
  constexpr int kRows = kSide<float>;
  F8 r[kRows], t[kRows], u[kRows];
  unrolled<kRows>([&](auto i) RLX_INLINED { r[i.value] = loadWide(from + i.value * fromRow); });
  unrolled<kRows / 2>([&](auto i) RLX_INLINED {
    t[2 * i.value] = interleaveLow(r[2 * i.value], r[2 * i.value + 1]);
    t[2 * i.value + 1] = interleaveHigh(r[2 * i.value], r[2 * i.value + 1]);
  });
  // u[0..3]: elements 0 to 3 and 4 to 7 of rows 0 to 3; u[4..7]: of rows 4 to 7.
  unrolled<2>([&](auto i) RLX_INLINED {
    constexpr int k = 4 * i.value;
    u[k] = pairsLow(t[k], t[k + 2]), u[k + 1] = pairsHigh(t[k], t[k + 2]);
    u[k + 2] = pairsLow(t[k + 1], t[k + 3]), u[k + 3] = pairsHigh(t[k + 1], t[k + 3]);
  });
  unrolled<kRows / 2>([&](auto i) RLX_INLINED {
    store<F8>(to + i.value * toRow, halvesLow(u[i.value], u[i.value + 4]));
    store<F8>(to + (i.value + 4) * toRow, halvesHigh(u[i.value], u[i.value + 4]));
  });
}

RLX_INLINE void square(const double* from, int64_t fromRow, double* to, int64_t toRow) {
  D4 t[kSide<double>];
  unrolled<2>([&](auto i) RLX_INLINED {
    const D4 a = load<D4>(from + 2 * i.value * fromRow);
    const D4 b = load<D4>(from + (2 * i.value + 1) * fromRow);
    t[2 * i.value] = __builtin_shufflevector(a, b, 0, 4, 2, 6);
    t[2 * i.value + 1] = __builtin_shufflevector(a, b, 1, 5, 3, 7);
  });
  unrolled<2>([&](auto i) RLX_INLINED {
    store(to + i.value * toRow, __builtin_shufflevector(t[i.value], t[i.value + 2], 0, 1, 4, 5));
    store(to + (i.value + 2) * toRow,
          __builtin_shufflevector(t[i.value], t[i.value + 2], 2, 3, 6, 7));
  });
}

RLX_INLINE float wideValue(const float* from) {
  return *from;
}
RLX_INLINE double wideValue(const double* from) {
  return *from;
}
template <class T>
RLX_INLINE float wideValue(const T* from) {
  return widen(H8{from->bits}, from)[0];
}

template <class From, class To>
RLX_INLINE void transposeAll(const From* from, int64_t fromRow, To* to, int64_t toRow, int64_t rows,
                             int64_t columns) {
  constexpr int kStep = kSide<To>;
  const int64_t wholeRows = rows / kStep * kStep, wholeColumns = columns / kStep * kStep;
  for (int64_t i = 0; i < wholeRows; i += kStep)
    for (int64_t j = 0; j < wholeColumns; j += kStep)
      square(from + j * fromRow + i, fromRow, to + i * toRow + j, toRow);
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t i = j < wholeColumns ? wholeRows : 0; i < rows; ++i)
      to[i * toRow + j] = wideValue(from + j * fromRow + i);
}

}  // namespace

void transposeRows(const float* from, int64_t fromRow, float* to, int64_t toRow, int64_t rows,
                   int64_t columns) {
  transposeAll(from, fromRow, to, toRow, rows, columns);
}
void transposeRows(const double* from, int64_t fromRow, double* to, int64_t toRow, int64_t rows,
                   int64_t columns) {
  transposeAll(from, fromRow, to, toRow, rows, columns);
}
void transposeRows(const F16* from, int64_t fromRow, float* to, int64_t toRow, int64_t rows,
                   int64_t columns) {
  transposeAll(from, fromRow, to, toRow, rows, columns);
}
void transposeRows(const BF16* from, int64_t fromRow, float* to, int64_t toRow, int64_t rows,
                   int64_t columns) {
  transposeAll(from, fromRow, to, toRow, rows, columns);
}

}  // namespace rlx::cpu
