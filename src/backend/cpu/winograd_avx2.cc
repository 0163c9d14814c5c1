#include "backend/cpu/winograd_transform.h"

namespace rlx::cpu {
namespace {

typedef float F4 __attribute__((vector_size(16)));
typedef float F8 __attribute__((vector_size(32)));
typedef F4 AnyF4 __attribute__((aligned(4), may_alias));  // anywhere in an array of floats
typedef F8 AnyF8 __attribute__((aligned(4), may_alias));

constexpr float kA = kPointA, kA2 = kPointA * kPointA, kA3 = kA2 * kPointA;
constexpr float kB = kPointB, kB2 = kPointB * kPointB, kB3 = kB2 * kPointB;

inline F4 load4(const float* from) {
  return *reinterpret_cast<const AnyF4*>(from);
}
inline F8 load8(const float* from) {
  return *reinterpret_cast<const AnyF8*>(from);
}
inline void store4(float* to, F4 v) {
  *reinterpret_cast<AnyF4*>(to) = v;
}
inline void store8(float* to, F8 v) {
  *reinterpret_cast<AnyF8*>(to) = v;
}

// Four rows of two halves become the columns of both: r[i] of half h is column i of half h.
struct Columns {
  F8 c0, c1, c2, c3;
};
inline Columns transposeHalves(F8 r0, F8 r1, F8 r2, F8 r3) {
  const F8 t0 = __builtin_shufflevector(r0, r1, 0, 8, 1, 9, 4, 12, 5, 13);
  const F8 t1 = __builtin_shufflevector(r0, r1, 2, 10, 3, 11, 6, 14, 7, 15);
  const F8 t2 = __builtin_shufflevector(r2, r3, 0, 8, 1, 9, 4, 12, 5, 13);
  const F8 t3 = __builtin_shufflevector(r2, r3, 2, 10, 3, 11, 6, 14, 7, 15);
  return {__builtin_shufflevector(t0, t2, 0, 1, 8, 9, 4, 5, 12, 13),
          __builtin_shufflevector(t0, t2, 2, 3, 10, 11, 6, 7, 14, 15),
          __builtin_shufflevector(t1, t3, 0, 1, 8, 9, 4, 5, 12, 13),
          __builtin_shufflevector(t1, t3, 2, 3, 10, 11, 6, 7, 14, 15)};
}

// Four pixels of eight channels: one vector of channels each.
inline void gather4(const float* const* from, int64_t at, float* to) {
  const auto row = [&](int i) {
    return __builtin_shufflevector(load4(from[i] + at), load4(from[i + 4] + at), 0, 1, 2, 3, 4, 5,
                                   6, 7);
  };
  const Columns c = transposeHalves(row(0), row(1), row(2), row(3));
  store8(to, c.c0);
  store8(to + 8, c.c1);
  store8(to + 16, c.c2);
  store8(to + 24, c.c3);
}

// B^T of six vectors that lie `stride` apart.
inline void transformInput(const float* d, int64_t stride, float* to, int64_t toStride) {
  const F8 d0 = load8(d), d1 = load8(d + stride), d2 = load8(d + 2 * stride);
  const F8 d3 = load8(d + 3 * stride), d4 = load8(d + 4 * stride), d5 = load8(d + 5 * stride);
  const F8 evenA = d4 - kB2 * d2, oddA = d3 - kB2 * d1;
  const F8 evenB = d4 - kA2 * d2, oddB = d3 - kA2 * d1;
  store8(to, kA2 * kB2 * d0 + (d4 - (kA2 + kB2) * d2));
  store8(to + toStride, evenA + kA * oddA);
  store8(to + 2 * toStride, evenA - kA * oddA);
  store8(to + 3 * toStride, evenB + kB * oddB);
  store8(to + 4 * toStride, evenB - kB * oddB);
  store8(to + 5 * toStride, kA2 * kB2 * d1 + (d5 - (kA2 + kB2) * d3));
}

// A^T of six vectors.
inline Columns transformOutput(F8 m0, F8 m1, F8 m2, F8 m3, F8 m4, F8 m5) {
  const F8 sumA = m1 + m2, differenceA = m1 - m2, sumB = m3 + m4, differenceB = m3 - m4;
  return {m0 + (sumA + sumB), kA * differenceA + kB * differenceB, kA2 * sumA + kB2 * sumB,
          m5 + (kA3 * differenceA + kB3 * differenceB)};
}

// Pixels of a row of tiles, eight channels side by side; the whole groups of pixels that are loaded
// may begin before the first and end behind the last.
constexpr int64_t kPixels = kTileOut * kRowTiles + (kTileIn - kTileOut);
constexpr int64_t kSlack = 4;
struct Pixels {
  alignas(32) float memory[kTileIn][kSlack + kPixels + kSlack][kTileChannels];
  float* at(int64_t row, int64_t column) { return memory[row][kSlack + column]; }
};

void zero(Pixels& pixels, int64_t row, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) store8(pixels.at(row, i), F8{});
}

// One row of the input: `columns` pixels from in.left on.
void readRow(const WinogradInput& in, const float* const* from, int64_t columns, Pixels& pixels,
             int64_t row) {
  const int64_t y = in.top + row;
  if (y < 0 || y >= in.height) return zero(pixels, row, 0, columns);
  const int64_t begin = in.left < 0 ? 0 : in.left;
  const int64_t end = in.left + columns < in.width ? in.left + columns : in.width;
  if (in.width >= kSlack) {
    for (int64_t i = begin; i < end; i += 4) {
      const int64_t x = i + 4 <= in.width ? i : in.width - 4;
      gather4(from, y * in.rowStride + x, pixels.at(row, x - in.left));
    }
  } else {
    for (int64_t i = begin; i < end; ++i)
      for (int c = 0; c < kTileChannels; ++c)
        pixels.at(row, i - in.left)[c] = from[c][y * in.rowStride + i];
  }
  zero(pixels, row, 0, begin - in.left < columns ? begin - in.left : columns);
  zero(pixels, row, end > begin ? end - in.left : 0, columns);
}

// Four rows of four pixels in up to eight channels, of which only some lie in the plane.
void storeEdge(const WinogradOutput& out, const F8* pixels, float* y, int64_t width) {
  const int64_t height = out.height < kTileOut ? out.height : kTileOut;
  if (width > kTileOut) width = kTileOut;
  for (int64_t c = 0; c < out.channels; ++c)
    for (int64_t i = 0; i < height; ++i)
      for (int64_t j = 0; j < width; ++j)
        y[c * out.channelStride + i * out.rowStride + j] = pixels[i * kTileOut + j][c];
}

inline void storeRow(const WinogradOutput& out, const F8* pixels, float* y) {
  const Columns c = transposeHalves(pixels[0], pixels[1], pixels[2], pixels[3]);
  const auto put = [&](int64_t channel, F8 v) {
    store4(y + channel * out.channelStride, __builtin_shufflevector(v, v, 0, 1, 2, 3));
    store4(y + (channel + 4) * out.channelStride, __builtin_shufflevector(v, v, 4, 5, 6, 7));
  };
  put(0, c.c0);
  put(1, c.c1);
  put(2, c.c2);
  put(3, c.c3);
}

// The 4 x 4 pixels of a tile.
inline void outputTile(const float* m, int64_t positionStride, F8 bias, F8* pixels) {
  F8 rows[kTileIn][kTileOut];
  for (int i = 0; i < kTileIn; ++i) {
    const float* from = m + i * kTileIn * positionStride;
    const auto at = [&](int j) { return load8(from + j * positionStride); };
    const Columns c = transformOutput(at(0), at(1), at(2), at(3), at(4), at(5));
    rows[i][0] = c.c0, rows[i][1] = c.c1, rows[i][2] = c.c2, rows[i][3] = c.c3;
  }
  for (int j = 0; j < kTileOut; ++j) {
    const Columns c =
        transformOutput(rows[0][j], rows[1][j], rows[2][j], rows[3][j], rows[4][j], rows[5][j]);
    pixels[j] = c.c0 + bias;
    pixels[kTileOut + j] = c.c1 + bias;
    pixels[2 * kTileOut + j] = c.c2 + bias;
    pixels[3 * kTileOut + j] = c.c3 + bias;
  }
}

}  // namespace

void winogradInput(const WinogradInput& in, float* v, int64_t positionStride, int64_t tileStride) {
  Pixels pixels;
  const int64_t columns = in.tiles * kTileOut + (kTileIn - kTileOut);
  constexpr int64_t kRow = sizeof(pixels.memory[0]) / sizeof(float);
  for (int64_t channel = 0; channel < in.channels; channel += kTileChannels) {
    const float* from[kTileChannels];
    for (int c = 0; c < kTileChannels; ++c) {
      const int64_t last = in.channels - 1;
      from[c] = in.x + (channel + c < last ? channel + c : last) * in.channelStride;
    }
    for (int row = 0; row < kTileIn; ++row) readRow(in, from, columns, pixels, row);
    for (int64_t i = 0; i < columns; ++i)
      transformInput(pixels.at(0, i), kRow, pixels.at(0, i), kRow);
    for (int64_t t = 0; t < in.tiles; ++t)
      for (int row = 0; row < kTileIn; ++row)
        transformInput(pixels.at(row, t * kTileOut), kTileChannels,
                       v + row * kTileIn * positionStride + t * tileStride + channel,
                       positionStride);
  }
}

void winogradOutput(const WinogradOutput& out) {
  const F8 bias = load8(out.bias);
  for (int64_t t = 0; t < out.tiles; ++t) {
    F8 pixels[kTileOut * kTileOut];
    outputTile(out.m + t * out.tileStride, out.positionStride, bias, pixels);
    float* y = out.y + t * kTileOut;
    const int64_t width = out.width - t * kTileOut;
    if (out.channels < kTileChannels || out.height < kTileOut || width < kTileOut)
      storeEdge(out, pixels, y, width);
    else
      for (int i = 0; i < kTileOut; ++i)
        storeRow(out, pixels + i * kTileOut, y + i * out.rowStride);
  }
}

}  // namespace rlx::cpu
