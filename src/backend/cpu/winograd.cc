#include "backend/cpu/winograd.h"

#include <algorithm>

#include "backend/cpu/winograd_transform.h"
#include "base/threads.h"

namespace rlx::cpu {
namespace {

constexpr int64_t kRow = 1, kColumn = 2;  // axes of a plane
constexpr int64_t kWindow = 3;

int64_t up(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}
int64_t tilesAlong(int64_t pixels) {
  return (pixels + kTileOut - 1) / kTileOut;
}

// Row i of G, times 3 values of the window.
double transformed(int i, double g0, double g1, double g2) {
  constexpr double kA2 = kPointA * kPointA, kB2 = kPointB * kPointB;
  const auto at = [&](double point, double scale) {
    return (g0 + point * g1 + point * point * g2) / scale;
  };
  switch (i) {
    case 0: return g0 / (kA2 * kB2);
    case 1: return at(kPointA, 2 * kA2 * (kA2 - kB2));
    case 2: return at(-kPointA, 2 * kA2 * (kA2 - kB2));
    case 3: return at(kPointB, 2 * kB2 * (kB2 - kA2));
    case 4: return at(-kPointB, 2 * kB2 * (kB2 - kA2));
    default: return g2;
  }
}

// G g G^T of one window whose taps lie `stride` apart.
void transformWindow(const float* g, int64_t stride, double* to) {
  double half[kTileIn][kWindow];
  for (int c = 0; c < kWindow; ++c)
    for (int i = 0; i < kTileIn; ++i)
      half[i][c] =
          transformed(i, g[c * stride], g[(c + kWindow) * stride], g[(c + 2 * kWindow) * stride]);
  for (int i = 0; i < kTileIn; ++i)
    for (int j = 0; j < kTileIn; ++j)
      to[i * kTileIn + j] = transformed(j, half[i][0], half[i][1], half[i][2]);
}

}  // namespace

// A call: its tiles, counted image by image and row by row, and the matrices of some of them.
struct Winograd::Work {
  const Winograd& owner;
  const ConvProblem& p;
  const NativeEpilogue* epilogue;
  int vectors = 1;
  int64_t nr = 0, panels = 0;
  int64_t rows = 0, columns = 0;        // tiles of a plane
  int64_t inStride = 0, outStride = 0;  // channels of a tile, with room for the last eight

  Work(const Winograd& w, const ConvProblem& problem, const NativeEpilogue* after)
      : owner(w), p(problem), epilogue(after) {
    vectors = vectorsFor(p.m, w.kernels_->lanes());
    nr = int64_t{vectors} * w.kernels_->lanes();
    panels = (p.m + nr - 1) / nr;
    rows = tilesAlong(p.out[kRow]), columns = tilesAlong(p.out[kColumn]);
    inStride = up(p.channels, kTileChannels), outStride = up(p.m, kTileChannels);
  }
  int64_t tiles() const { return p.batch * rows * columns; }
  int64_t floats(int64_t count) const { return kTilePositions * count * (inStride + outStride); }

  // Tiles of one row, at most kRowTiles.
  struct Segment {
    int64_t image, row, column, count;
  };
  template <class F>
  void eachSegment(int64_t begin, int64_t end, F f) const {
    for (int64_t t = begin; t < end;) {
      Segment s{t / (rows * columns), t / columns % rows, t % columns, 0};
      s.count = std::min({int64_t{kRowTiles}, columns - s.column, end - t});
      f(s, t - begin);
      t += s.count;
    }
  }

  // Input channels [first, last) of tiles [begin, end).
  void input(int64_t begin, int64_t end, int64_t first, int64_t last, float* v) const {
    eachSegment(begin, end, [&](const Segment& s, int64_t at) {
      WinogradInput in{};
      in.x = p.x + s.image * p.xBatch + first * p.xChannel;
      in.channelStride = p.xChannel, in.rowStride = p.xStride[kRow];
      in.channels = last - first, in.height = p.in[kRow], in.width = p.in[kColumn];
      in.top = s.row * kTileOut - p.pad[kRow], in.left = s.column * kTileOut - p.pad[kColumn];
      in.tiles = s.count;
      winogradInput(in, v + at * inStride + first, (end - begin) * inStride, inStride);
    });
  }

  // Panel j of position `position`: the products of `count` tiles.
  void multiply(int64_t position, int64_t j, int64_t count, const float* v, float* m) const {
    GemmArgs args{};
    args.rowBytes = inStride * 4, args.colBytes = 4, args.cRowBytes = outStride * 4;
    args.k = p.channels;
    args.b = owner.weights_.data() + (position * panels + j) * p.channels * nr;
    const int64_t mr = owner.kernels_->rows(vectors), width = std::min(nr, p.m - j * nr);
    for (int64_t i = 0; i < count; i += mr) {
      args.a = v + (position * count + i) * inStride;
      args.c = m + (position * count + i) * outStride + j * nr;
      owner.kernels_->run(args, static_cast<int>(std::min(mr, count - i)), vectors, width);
    }
  }

  // Output channels [first, last) of tiles [begin, end), first a multiple of 8.
  void output(int64_t begin, int64_t end, int64_t first, int64_t last, const float* m) const {
    eachSegment(begin, end, [&](const Segment& s, int64_t at) {
      for (int64_t c = first; c < last; c += kTileChannels) {
        const int64_t plane = s.image * p.m + c, top = s.row * kTileOut, left = s.column * kTileOut;
        WinogradOutput out{};
        out.m = m + at * outStride + c, out.bias = owner.bias_.data() + c;
        out.positionStride = (end - begin) * outStride, out.tileStride = outStride;
        out.tiles = s.count;
        out.channelStride = p.out[kRow] * p.out[kColumn], out.rowStride = p.out[kColumn];
        out.y = p.y + plane * out.channelStride + top * out.rowStride + left;
        out.channels = std::min<int64_t>(kTileChannels, p.m - c);
        out.height = p.out[kRow] - top, out.width = p.out[kColumn] - left;
        winogradOutput(out);
        if (epilogue) finish(out, plane, top, left, s.count);
      }
    });
  }

  void finish(const WinogradOutput& out, int64_t plane, int64_t top, int64_t left,
              int64_t count) const {
    const int64_t width = std::min(out.width, count * kTileOut);
    const int64_t height = std::min<int64_t>(out.height, kTileOut);
    const int64_t from = top * out.rowStride + left;
    if (width == out.rowStride)
      return epilogue->apply(plane, plane + out.channels, from, from + height * width);
    for (int64_t r = 0; r < height; ++r)
      epilogue->apply(plane, plane + out.channels, from + r * out.rowStride,
                      from + r * out.rowStride + width);
  }

  // Tiles [begin, end) on the calling thread.
  void block(int64_t begin, int64_t end) const {
    thread_local std::vector<float> scratch;  // kept from call to call
    if (const auto size = static_cast<std::size_t>(floats(end - begin)); scratch.size() < size)
      scratch.resize(size);
    float* const v = scratch.data();
    float* const m = v + kTilePositions * (end - begin) * inStride;
    input(begin, end, 0, p.channels, v);
    for (int64_t position = 0; position < kTilePositions; ++position)
      for (int64_t j = 0; j < panels; ++j) multiply(position, j, end - begin, v, m);
    output(begin, end, 0, p.m, m);
  }

  // All tiles, every stage shared out.
  void together(int threads, float* v) const {
    const int64_t count = tiles();
    float* const m = v + kTilePositions * count * inStride;
    ThreadPool::parallelFor(threads, inStride / kTileChannels, [&](int64_t begin, int64_t end) {
      input(0, count, begin * kTileChannels, std::min(p.channels, end * kTileChannels), v);
    });
    ThreadPool::parallelFor(threads, kTilePositions * panels, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) multiply(k / panels, k % panels, count, v, m);
    });
    ThreadPool::parallelFor(threads, outStride / kTileChannels, [&](int64_t begin, int64_t end) {
      output(0, count, begin * kTileChannels, std::min(p.m, end * kTileChannels), m);
    });
  }
};

bool Winograd::wins(const ConvProblem& p) {
  if (p.groups != 1 || p.in[0] != 1 || p.out[0] != 1 || p.window[0] != 1 || p.pad[0] != 0)
    return false;
  for (const int64_t a : {kRow, kColumn})
    if (p.window[static_cast<std::size_t>(a)] != kWindow ||
        p.step[static_cast<std::size_t>(a)] != 1 || p.dilation[static_cast<std::size_t>(a)] != 1)
      return false;
  if (p.xStride[kColumn] != 1 && p.in[kColumn] != 1) return false;
  constexpr int64_t kLeastChannels = 16;
  if (p.channels < kLeastChannels || p.m < kLeastChannels) return false;
  // In floating-point operations: what both ways cost, and the transforms, which are not
  // multiplications of matrices; the transformed weights come from memory. The number of threads
  // has no say: it must not change results.
  constexpr double kTransform = 24, kPerByte = 12, kMargin = 1.15;
  const auto c = static_cast<double>(p.channels), m = static_cast<double>(p.m);
  const auto tiles =
      static_cast<double>(p.batch * tilesAlong(p.out[kRow]) * tilesAlong(p.out[kColumn]));
  const double pixels = static_cast<double>(p.batch * p.out[kRow] * p.out[kColumn]);
  const double direct = 2 * kWindow * kWindow * c * m * pixels;
  const double products = 2 * kTilePositions * c * m * tiles;
  const double traffic = sizeof(float) * kTilePositions * c * m * kPerByte;
  const double transforms = kTransform * kTilePositions * tiles * (c + m);
  return kMargin * (std::max(products, traffic) + transforms) < direct;
}

int64_t Winograd::memory() const {
  return static_cast<int64_t>((weights_.size() + bias_.size() + shared_.size()) * sizeof(float));
}

Status Winograd::prepare(const ConvProblem& p) {
  if (!weights_.empty()) return Ok{};
  const Work work(*this, p, nullptr);
  const int64_t position = work.panels * p.channels * work.nr;
  RLX_OK(weights_.allocate(static_cast<std::size_t>(kTilePositions * position)));
  std::fill_n(weights_.data(), weights_.size(), 0.0f);
  for (int64_t o = 0; o < p.m; ++o)
    for (int64_t c = 0; c < p.channels; ++c) {
      double g[kTilePositions];
      transformWindow(p.w + o * p.wRow + c * kWindow * kWindow * p.wColumn, p.wColumn, g);
      float* to = weights_.data() + (o / work.nr * p.channels + c) * work.nr + o % work.nr;
      for (int64_t k = 0; k < kTilePositions; ++k) to[k * position] = static_cast<float>(g[k]);
    }
  bias_.assign(static_cast<std::size_t>(work.outStride), 0);
  for (int64_t o = 0; o < p.m && p.bias; ++o)
    bias_[static_cast<std::size_t>(o)] = p.bias[o * p.biasStride];
  return Ok{};
}

Status Winograd::run(const ConvProblem& p, int threads, const NativeEpilogue* epilogue) {
  RLX_OK(prepare(p));
  const Work work(*this, p, epilogue);
  const int64_t tiles = work.tiles();
  // As many tiles at once as the second cache takes, as even as can be.
  constexpr int64_t kFloats = 192 * 1024, kLeastTiles = 16;
  const int64_t most =
      std::max(kLeastTiles, kFloats / (kTilePositions * (work.inStride + work.outStride)));
  int64_t blocks = up((tiles + most - 1) / most, threads);
  if (threads > 1 && tiles < threads * kLeastTiles) {
    if (const auto size = static_cast<std::size_t>(work.floats(tiles)); shared_.size() < size)
      shared_.resize(size);
    work.together(threads, shared_.data());
    return Ok{};
  }
  blocks = std::min(blocks, tiles);
  ThreadPool::parallelFor(threads, blocks, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) work.block(tiles * k / blocks, tiles * (k + 1) / blocks);
  });
  return Ok{};
}

}  // namespace rlx::cpu
