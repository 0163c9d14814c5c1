// The transforms of Winograd's convolution F(4x4, 3x3) in vector code: plain functions, since their
// file is compiled for instructions that the rest of the program must not use.
#pragma once
#include <cstdint>

namespace rlx::cpu {

// A tile reads 6 x 6 pixels and gives 4 x 4; between the transforms it has 36 positions. A step of
// both transforms takes 8 channels.
inline constexpr int kTileIn = 6, kTileOut = 4, kTilePositions = kTileIn * kTileIn;
inline constexpr int kTileChannels = 8;
// Most tiles in one call of winogradInput: what it works on stays in the first cache.
inline constexpr int kRowTiles = 8;

// The points of interpolation: 0, +-kPointA, +-kPointB and infinity. Their powers are exact in f32.
inline constexpr double kPointA = 1, kPointB = 2;

// Tiles side by side in one plane of many channels. Distances count elements.
struct WinogradInput {
  const float* x;  // pixel (0, 0) of the first channel; pixels of a row lie side by side
  int64_t channelStride, rowStride;
  int64_t channels, height, width;
  int64_t top, left;  // the first pixel of the first tile; outside of the plane all is zero
  int64_t tiles;      // at most kRowTiles
};
// B^T d B of every tile: position p, tile t, channel c goes to v[p * positionStride + t *
// tileStride
// + c]. Channels are written in eights, tileStride must have room for them; those behind the last
// are undefined.
void winogradInput(const WinogradInput& in, float* v, int64_t positionStride, int64_t tileStride);

// Tiles side by side in one plane of up to 8 channels.
struct WinogradOutput {
  const float* m;     // position p, tile t, channel c at p * positionStride + t * tileStride + c
  const float* bias;  // of the 8 channels
  int64_t positionStride, tileStride, tiles;
  float* y;  // the first pixel of the first tile in the first channel
  int64_t channelStride, rowStride;
  int64_t channels, height, width;  // of the plane from y on; tiles may stick out
};
// A^T m A + bias of every tile.
void winogradOutput(const WinogradOutput& out);

}  // namespace rlx::cpu
