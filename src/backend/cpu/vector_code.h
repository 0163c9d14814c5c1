// What the files of vector code (*_avx2.cc) offer: loops over numbers that the compiler does not
// vectorise by itself. Plain functions and structs, because those files are compiled for
// instructions that the rest of the program may not use. Call only where activeIsa() is a level.
#pragma once
#include <cstdint>

namespace rlx::cpu {

// Lines that are read by whole vectors need so many floats behind their last.
inline constexpr int64_t kVectorSlack = 8;

// to[r * toRow + i] = from[r * fromRow + i * step] for i in [0, count); reads nothing behind.
void copyRows(const float* from, int64_t fromRow, int64_t step, float* to, int64_t toRow,
              int64_t count, int64_t rows);

// Bit patterns of f16 and bf16; base/half.h says what they mean.
struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};
// to[i] = from[i] for i in [0, count), exact one way and rounded to nearest even the other; touches
// nothing behind.
void widenRow(const F16* from, float* to, int64_t count);
void widenRow(const BF16* from, float* to, int64_t count);
void narrowRow(const float* from, F16* to, int64_t count);
void narrowRow(const float* from, BF16* to, int64_t count);

// to[i * toRow + j] = from[j * fromRow + i] for i in [0, rows), j in [0, columns).
void transposeRows(const float* from, int64_t fromRow, float* to, int64_t toRow, int64_t rows,
                   int64_t columns);
void transposeRows(const double* from, int64_t fromRow, double* to, int64_t toRow, int64_t rows,
                   int64_t columns);
void transposeRows(const F16* from, int64_t fromRow, float* to, int64_t toRow, int64_t rows,
                   int64_t columns);
void transposeRows(const BF16* from, int64_t fromRow, float* to, int64_t toRow, int64_t rows,
                   int64_t columns);

// Rows of a plane with zeros around, column by column dealt to as many lines as the step is:
// column i of a row of `columns` goes to element i / step of line i % step. Columns [low, low +
// width) come from memory, the others are zeros. Lines need kVectorSlack, which is written.
struct PaddedRows {
  const float* from = nullptr;  // column `low` of the first row that is not zeros
  int64_t fromRow = 0;
  float* to = nullptr;
  int64_t toRow = 0, toLine = 0;
  int64_t above = 0, rows = 0, below = 0;  // zeros, from memory, zeros
  int64_t columns = 0, step = 1, low = 0, width = 0;
};
void copyPadded(const PaddedRows& p);

// Rows x width pixels of one channel of a depthwise convolution. Pixel (r, x) adds up the taps
// (i, j) as from[r * outRow + i * tapRow + tapColumns[j] + x] * w[(i * windowColumns + j) *
// wStride] onto the bias. Lines need kVectorSlack where width < 8.
struct DepthwiseBlock {
  const float* from = nullptr;
  int64_t outRow = 0, tapRow = 0;
  const int64_t* tapColumns = nullptr;
  int64_t windowRows = 0, windowColumns = 0;
  const float* w = nullptr;
  int64_t wStride = 0;
  float bias = 0;
  float* to = nullptr;
  int64_t toRow = 0;
  const float* end = nullptr;  // what lies between a row of width < 8 and this may be written too
  int64_t rows = 0, width = 0;
};
void depthwiseBlock(const DepthwiseBlock& b);

enum class PoolFold : uint8_t { Sum, Max };  // Max: NaN if any is
// to[x] = the fold of from[x + i * distance] for i in [0, count), count above 0; reads and writes
// nothing behind x = width - 1.
void foldLines(PoolFold fold, const float* from, int64_t distance, int64_t count, int64_t width,
               float* to);
// The same over a line with kVectorSlack at the end; also writes such slack, if it is before `end`.
void foldTaps(PoolFold fold, const float* from, int64_t distance, int64_t count, int64_t width,
              float* to, const float* end);
// to[x] = from[x * step] / (counts[x] * factor); counts with kVectorSlack, null: no division. Slack
// of `from` and `to` as in foldTaps.
void finishPool(const float* from, int64_t step, const float* counts, float factor, int64_t width,
                float* to, const float* end);

}  // namespace rlx::cpu
