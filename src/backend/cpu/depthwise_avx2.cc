#include "backend/cpu/vector_avx2.h"
#include "backend/cpu/vector_code.h"

namespace rlx::cpu {
namespace {

RLX_INLINE int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

// The 8 floats at even places among 15.
RLX_INLINE F8 loadEven(const float* p) {
  return __builtin_shufflevector(load<F8>(p), load<F8>(p + 7), 0, 2, 4, 6, 9, 11, 13, 15);
}

// Covers [0, count) by vectors; the last one overlaps the one before.
template <int Width, class F>
RLX_INLINE void overlapping(int64_t count, F f) {
  int64_t i = 0;
  for (; i + Width <= count; i += Width) f(i);
  if (i < count) f(count - Width);
}

RLX_INLINE void copyEven(const float* from, int64_t count, float* to) {
  if (count >= 8)
    overlapping<8>(count, [=](int64_t i) { store<F8>(to + i, loadEven(from + 2 * i)); });
  else
    for (int64_t i = 0; i < count; ++i) to[i] = from[2 * i];
}
RLX_INLINE void copyLine(const float* from, int64_t count, float* to) {
  if (count >= 8)
    overlapping<8>(count, [=](int64_t i) { store<F8>(to + i, load<F8>(from + i)); });
  else if (count >= 4)
    overlapping<4>(count, [=](int64_t i) { store<F4>(to + i, load<F4>(from + i)); });
  else
    for (int64_t i = 0; i < count; ++i) to[i] = from[i];
}

// Deals 8 floats to two lines.
RLX_INLINE void deal8(const float* from, float* even, float* odd) {
  const F8 v = load<F8>(from);
  const F8 dealt = __builtin_shufflevector(v, v, 0, 2, 4, 6, 1, 3, 5, 7);
  store<F4>(even, __builtin_shufflevector(dealt, dealt, 0, 1, 2, 3));
  store<F4>(odd, __builtin_shufflevector(dealt, dealt, 4, 5, 6, 7));
}
RLX_INLINE void deal16(const float* from, float* even, float* odd) {
  const F8 a = load<F8>(from), b = load<F8>(from + 8);
  store<F8>(even, __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14));
  store<F8>(odd, __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15));
}
RLX_INLINE void deal(const float* from, int64_t count, float* even, float* odd) {
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) deal16(from + i, even + i / 2, odd + i / 2);
  if (i + 8 <= count) {
    deal8(from + i, even + i / 2, odd + i / 2);
    i += 8;
  }
  if (count >= 8 && i + 1 < count) {
    i = (count - 8) / 2 * 2;
    deal8(from + i, even + i / 2, odd + i / 2);
    i += 8;
  }
  for (; i < count; ++i) (i % 2 == 0 ? even : odd)[i / 2] = from[i];
}

// Zeros in [begin, end) and at most 7 behind. The first vector stands outside the loop because
// compilers make a call of memset of the loop.
RLX_INLINE void zeros(float* to, int64_t begin, int64_t end) {
  if (begin >= end) return;
  store<F8>(to + begin, F8{});
  for (int64_t i = begin + 8; i < end; i += 8) store<F8>(to + i, F8{});
}
// Elements of a line that columns before `column` have.
RLX_INLINE int64_t dealt(const PaddedRows& p, int64_t column, int64_t line) {
  return (column - line + p.step - 1) / p.step;
}

void copyPaddedOnce(const PaddedRows& p) {
  const float* from = p.from;
  float* to = p.to + p.above * p.toRow;
  for (int64_t r = 0; r < p.rows; ++r, from += p.fromRow, to += p.toRow) {
    zeros(to, 0, p.low);
    copyLine(from, p.width, to + p.low);
    zeros(to, p.low + p.width, p.columns);
  }
}
void copyPaddedTwice(const PaddedRows& p) {
  const bool swapped = p.low % 2 != 0;
  const float* from = p.from;
  float* to = p.to + p.above * p.toRow;
  const int64_t low0 = dealt(p, p.low, 0), low1 = dealt(p, p.low, 1);
  const int64_t high0 = dealt(p, p.low + p.width, 0), high1 = dealt(p, p.low + p.width, 1);
  const int64_t end0 = dealt(p, p.columns, 0), end1 = dealt(p, p.columns, 1);
  for (int64_t r = 0; r < p.rows; ++r, from += p.fromRow, to += p.toRow) {
    float* const other = to + p.toLine;
    zeros(to, 0, low0);
    zeros(other, 0, low1);
    deal(from, p.width, swapped ? other + low1 : to + low0, swapped ? to + low0 : other + low1);
    zeros(to, high0, end0);
    zeros(other, high1, end1);
  }
}
void copyPaddedOften(const PaddedRows& p) {
  for (int64_t r = 0; r < p.rows; ++r)
    for (int64_t line = 0; line < least(p.step, p.columns); ++line) {
      const int64_t low = dealt(p, p.low, line);
      const int64_t high = dealt(p, p.low + p.width, line);
      float* to = p.to + (p.above + r) * p.toRow + line * p.toLine;
      zeros(to, 0, low);
      for (int64_t i = low; i < high; ++i)
        to[i] = p.from[r * p.fromRow + i * p.step + line - p.low];
      zeros(to, high, dealt(p, p.columns, line));
    }
}

// Whether a vector that is stored may reach behind the result.
enum class Reach : uint8_t { Inside, Behind };

__attribute__((noinline)) void storePart(float* to, const float* end, const F8& v) {
  float lanes[8];
  store<F8>(lanes, v);
  for (int64_t i = 0; i < end - to && i < 8; ++i) to[i] = lanes[i];
}

template <Reach R>
RLX_INLINE void storeReach(float* to, const float* end, const F8& v) {
  if (R == Reach::Inside || end - to >= 8)
    store<F8>(to, v);
  else
    storePart(to, end, v);
}

template <int V, int Vectors>
RLX_INLINE int64_t place(int64_t second) {
  return V == 1 && Vectors == 2 ? second : V * 8;
}

// Vectors of a row of a tile are 8 floats apart, but the second of two may overlap the first.
template <int Rows, int Vectors, Reach R>
RLX_INLINE void storeTile(const DepthwiseBlock& b, const F8 (&acc)[Rows][Vectors], float* to,
                          int64_t second) {
  unrolled<Rows>([&](auto r) RLX_INLINED {
    unrolled<Vectors>([&](auto v) RLX_INLINED {
      storeReach<R>(to + r.value * b.toRow + place<v.value, Vectors>(second), b.end,
                    acc[r.value][v.value]);
    });
  });
}

template <int Rows, int Vectors>
RLX_INLINE void setTile(F8 (&acc)[Rows][Vectors], float value) {
  unrolled<Rows>([&](auto r) RLX_INLINED {
    unrolled<Vectors>([&](auto v) RLX_INLINED { acc[r.value][v.value] = broadcast(value); });
  });
}

// A window of Window x Window taps, rows of the result Step lines apart: a vector of a line is
// loaded once for all rows of the tile that it is a tap of. The weights fill the registers only up
// to 3.
template <int Window, int Step>
struct Square {
  F8 w[Window * Window];

  explicit Square(const DepthwiseBlock& b) {
    for (int k = 0; k < Window * Window; ++k) w[k] = broadcast(b.w[k * b.wStride]);
  }
  template <int Rows, int Vectors, Reach R>
  void tile(const DepthwiseBlock& b, const float* from, float* to, int64_t second) const {
    F8 acc[Rows][Vectors];
    setTile(acc, b.bias);
    unrolled<(Rows - 1) * Step + Window>([&](auto line) RLX_INLINED {
      unrolled<Window>([&](auto c) RLX_INLINED {
        unrolled<Vectors>([&](auto v) RLX_INLINED {
          const F8 x = load<F8>(from + line.value * b.tapRow + b.tapColumns[c.value] +
                                place<v.value, Vectors>(second));
          unrolled<Rows>([&](auto r) RLX_INLINED {
            constexpr int kTap = decltype(line)::value - decltype(r)::value * Step;
            if constexpr (kTap >= 0 && kTap < Window)
              acc[r.value][v.value] += x * w[kTap * Window + c.value];
          });
        });
      });
    });
    storeTile<Rows, Vectors, R>(b, acc, to, second);
  }
};

// Windows of so many rows of taps, column by column of taps: each in registers.
template <int Window, int Step>
struct Columns {
  explicit Columns(const DepthwiseBlock&) {}
  template <int Rows, int Vectors, Reach R>
  void tile(const DepthwiseBlock& b, const float* from, float* to, int64_t second) const {
    F8 acc[Rows][Vectors];
    setTile(acc, b.bias);
    const float* w = b.w;
    const int64_t wRow = b.windowColumns * b.wStride;
    for (int64_t j = 0; j < b.windowColumns; ++j, w += b.wStride) {
      const float* x = from + b.tapColumns[j];
      F8 weights[Window];
      unrolled<Window>([&](auto i)
                           RLX_INLINED { weights[i.value] = broadcast(w[i.value * wRow]); });
      unrolled<(Rows - 1) * Step + Window>([&](auto line) RLX_INLINED {
        unrolled<Vectors>([&](auto v) RLX_INLINED {
          const F8 t = load<F8>(x + line.value * b.tapRow + place<v.value, Vectors>(second));
          unrolled<Rows>([&](auto r) RLX_INLINED {
            constexpr int kTap = decltype(line)::value - decltype(r)::value * Step;
            if constexpr (kTap >= 0 && kTap < Window) acc[r.value][v.value] += t * weights[kTap];
          });
        });
      });
    }
    storeTile<Rows, Vectors, R>(b, acc, to, second);
  }
};

// Any window.
struct General {
  explicit General(const DepthwiseBlock&) {}
  template <int Rows, int Vectors, Reach R>
  void tile(const DepthwiseBlock& b, const float* from, float* to, int64_t second) const {
    F8 acc[Rows][Vectors];
    setTile(acc, b.bias);
    const float* w = b.w;
    for (int64_t i = 0; i < b.windowRows; ++i, from += b.tapRow)
      for (int64_t j = 0; j < b.windowColumns; ++j, w += b.wStride) {
        const F8 weight = broadcast(*w);
        const float* x = from + b.tapColumns[j];
        unrolled<Rows>([&](auto r) RLX_INLINED {
          unrolled<Vectors>([&](auto v) RLX_INLINED {
            acc[r.value][v.value] +=
                load<F8>(x + r.value * b.outRow + place<v.value, Vectors>(second)) * weight;
          });
        });
      }
    storeTile<Rows, Vectors, R>(b, acc, to, second);
  }
};

template <int Rows, class Kernel>
void rowsOf(const Kernel& kernel, const DepthwiseBlock& b, int64_t row) {
  const float* from = b.from + row * b.outRow;
  float* to = b.to + row * b.toRow;
  if (b.width <= 8) return kernel.template tile<Rows, 1, Reach::Behind>(b, from, to, 0);
  if (b.width < 16) return kernel.template tile<Rows, 2, Reach::Inside>(b, from, to, b.width - 8);
  int64_t x = 0;
  if (Rows == 1)
    for (; x + 32 <= b.width; x += 32)
      kernel.template tile<Rows, Rows == 1 ? 4 : 2, Reach::Inside>(b, from + x, to + x, 8);
  for (; x < b.width; x += 16) {
    x = least(x, b.width - 16);
    kernel.template tile<Rows, 2, Reach::Inside>(b, from + x, to + x, 8);
  }
}

template <class Kernel>
void block(const DepthwiseBlock& b) {
  const Kernel kernel(b);
  int64_t row = 0;
  for (; row + 4 <= b.rows; row += 4) rowsOf<4>(kernel, b, row);
  if (b.rows - row == 3) rowsOf<3>(kernel, b, row);
  if (b.rows - row == 2) rowsOf<2>(kernel, b, row);
  if (b.rows - row == 1) rowsOf<1>(kernel, b, row);
}

}  // namespace

void copyRows(const float* from, int64_t fromRow, int64_t step, float* to, int64_t toRow,
              int64_t count, int64_t rows) {
  if (step == 1)
    for (int64_t r = 0; r < rows; ++r) copyLine(from + r * fromRow, count, to + r * toRow);
  else if (step == 2)
    for (int64_t r = 0; r < rows; ++r) copyEven(from + r * fromRow, count, to + r * toRow);
  else
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < count; ++i) to[r * toRow + i] = from[r * fromRow + i * step];
}

void copyPadded(const PaddedRows& p) {
  zeros(p.to, 0, p.above * p.toRow);
  const int64_t read = (p.above + p.rows) * p.toRow;
  zeros(p.to + read, 0, p.below * p.toRow);
  if (p.step == 1) return copyPaddedOnce(p);
  if (p.step == 2) return copyPaddedTwice(p);
  copyPaddedOften(p);
}

void depthwiseBlock(const DepthwiseBlock& b) {
  const bool one = b.outRow == b.tapRow, two = b.outRow == 2 * b.tapRow;
  if (b.windowRows == 3 && b.windowColumns == 3 && one) return block<Square<3, 1>>(b);
  if (b.windowRows == 3 && b.windowColumns == 3 && two) return block<Square<3, 2>>(b);
  if (b.windowRows == 1 && one) return block<Columns<1, 1>>(b);
  if (b.windowRows == 3 && one) return block<Columns<3, 1>>(b);
  if (b.windowRows == 5 && one) return block<Columns<5, 1>>(b);
  if (b.windowRows == 5 && two) return block<Columns<5, 2>>(b);
  if (b.windowRows == 7 && one) return block<Columns<7, 1>>(b);
  block<General>(b);
}

}  // namespace rlx::cpu
