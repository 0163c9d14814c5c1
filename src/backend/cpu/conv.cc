#include "backend/cpu/conv.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "backend/cpu/cpu.h"
#include "backend/cpu/depthwise.h"
#include "backend/cpu/gemm_kernel.h"
#include "backend/cpu/packed.h"
#include "backend/cpu/vector_code.h"
#include "backend/cpu/winograd.h"
#include "base/threads.h"
#include "ops/attrs.h"

namespace rlx::cpu {
namespace {

constexpr int64_t kAheadBytes = 4096;    // weights are fetched a page ahead
constexpr int64_t kAheadRows = 16;       // and rows of the input so many ahead
constexpr int64_t kFinishFloats = 6144;  // still in the first cache for the epilogue

// The axes of a weight that lie in one row of the packed weights.
std::vector<int64_t> columnsOf(std::size_t rank) {
  std::vector<int64_t> axes(rank - 1);
  std::iota(axes.begin(), axes.end(), 1);
  return axes;
}

// Pixels that lie side by side in a panel and at one distance in the input.
struct Run {
  int64_t to = 0, count = 0;
  int64_t from = -1;  // offset in a channel; below 0: padding
};

class ConvProgram final : public NativeProgram {
 public:
  ConvProgram(const NativeQuery& q, const GemmKernels* kernels)
      : kernels_(kernels), attrs_(q.get().attrs.as<ConvAttrs>()), winograd_(kernels) {
    columns_ = columnsOf(q.operands[1].shape.size());
    constant_ = true;
    for (std::size_t k = 1; k < q.operands.size(); ++k)
      constant_ = constant_ && q.graph.definition(q.operands[k].base).op == OpKind::Constant;
  }

  int64_t memory() const override {
    return static_cast<int64_t>((packed_.size() + shared_.size()) * sizeof(float)) +
           depthwise_.memory() + winograd_.memory();
  }

  Status run(const NativeCall& call) override {
    const ConvProblem p = problem(call);
    const int64_t pixels = p.out[0] * p.out[1] * p.out[2];
    if (p.batch == 0 || p.m == 0 || pixels == 0) return Ok{};
    if (depthwiseTakes(p)) return depthwise_.run(p, call.threads, call.epilogue);
    if (constant_ && Winograd::wins(p)) return winograd_.run(p, call.threads, call.epilogue);
    if (!constant_ || packed_.empty()) {
      if (packed_.empty()) RLX_OK(packed_.allocate(packedSize(p)));
      packWeights(p, call.threads);
    }
    const int64_t vectors = (pixels + kernels_->lanes() - 1) / kernels_->lanes();
    const int64_t planes = p.batch * attrs_.groups;
    if (sharesChannels(p, planes, pixels, vectors, call.threads)) {
      const Panels all(pixels, kernels_->lanes(), 0, vectors);
      for (int64_t plane = 0; plane < planes; ++plane) runTogether(p, plane, all, call);
      return Ok{};
    }
    const int64_t most = std::clamp<int64_t>(kBlockFloats / ((p.k + 1) * kernels_->lanes()),
                                             kMaxVectors, kBlockPanels * kMaxVectors);
    int64_t blocks = (vectors + most - 1) / most;
    if (planes < 2 * call.threads)
      blocks = std::min(vectors, (blocks + call.threads - 1) / call.threads * call.threads);
    ThreadPool::parallelFor(call.threads, planes * blocks, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t)
        runBlock(p, t / blocks,
                 Panels(pixels, kernels_->lanes(), vectors * (t % blocks) / blocks,
                        vectors * (t % blocks + 1) / blocks),
                 call.epilogue);
    });
    return Ok{};
  }

 private:
  static constexpr int64_t kBlockFloats =
      64 * 1024;  // of a block's panels: stay in the second cache
  static constexpr int64_t kBlockPanels = 6;

  // The pixels in vectors [begin, end) of a plane, in panels as even as can be.
  struct Panels {
    int64_t pixels, lanes, begin, vectors, count;
    Panels(int64_t n, int64_t l, int64_t from, int64_t to)
        : pixels(n),
          lanes(l),
          begin(from),
          vectors(to - from),
          count((vectors + kMaxVectors - 1) / kMaxVectors) {}
    int64_t first(int64_t j) const { return (begin + vectors * j / count) * lanes; }
    int64_t nr(int64_t j) const { return first(j + 1) - first(j); }
    int64_t width(int64_t j) const { return std::min(pixels - first(j), nr(j)); }
    int64_t floats(int64_t k) const { return vectors * lanes * k; }
    template <class T>
    T* at(T* data, int64_t j, int64_t k) const {
      return data + (first(j) - begin * lanes) * k;
    }
  };

  // Whether threads share out the output channels of a plane, so that each weight is read by one of
  // them; else they share out pixels, so that what one thread wrote in the last layer it reads in
  // this one.
  static bool sharesChannels(const ConvProblem& p, int64_t planes, int64_t pixels, int64_t vectors,
                             int threads) {
    constexpr int64_t kEven = 4;  // vectors for each thread: no thread gets many more than another
    if (threads == 1 || planes >= 2 * threads) return false;
    return vectors < kEven * threads || p.m * p.k > pixels * (p.channels + p.m);
  }

  int64_t mr() const { return kernels_->rows(kMaxVectors); }
  // Blocks of output channels.
  int64_t tiles(const ConvProblem& p) const { return (p.m + mr() - 1) / mr(); }

  void runBlock(const ConvProblem& p, int64_t plane, const Panels& panels,
                const NativeEpilogue* epilogue) const {
    thread_local std::vector<float> scratch;  // kept from call to call
    if (const auto size = static_cast<std::size_t>(panels.floats(p.k)); scratch.size() < size)
      scratch.resize(size);
    for (int64_t j = 0; j < panels.count; ++j)
      if (!inPlace(p, panels, j)) gather(p, plane, panels, j, panels.at(scratch.data(), j, p.k));
    multiply(p, plane, panels, 0, tiles(p), scratch.data(), epilogue);
  }

  // All threads gather the panels, then share out the output channels.
  void runTogether(const ConvProblem& p, int64_t plane, const Panels& panels,
                   const NativeCall& call) {
    if (const auto size = static_cast<std::size_t>(panels.floats(p.k)); shared_.size() < size)
      shared_.resize(size);
    ThreadPool::parallelFor(call.threads, panels.count, [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j)
        if (!inPlace(p, panels, j)) gather(p, plane, panels, j, panels.at(shared_.data(), j, p.k));
    });
    const int64_t count = tiles(p), parts = std::min<int64_t>(count, 4 * call.threads);
    ThreadPool::parallelFor(call.threads, parts, [&](int64_t begin, int64_t end) {
      multiply(p, plane, panels, count * begin / parts, count * end / parts, shared_.data(),
               call.epilogue);
    });
  }

  // Blocks [tile, last) of the output channels over the panels.
  void multiply(const ConvProblem& p, int64_t plane, const Panels& panels, int64_t tile,
                int64_t last, const float* gathered, const NativeEpilogue* epilogue) const {
    const int64_t begin = panels.first(0);
    const int64_t end = std::min(panels.pixels, panels.first(panels.count));
    const int64_t together = std::max<int64_t>(1, kFinishFloats / (mr() * (end - begin)));
    const int64_t count = tiles(p);
    while (tile < last) {
      const int64_t first = tile, stop = std::min(last, tile + together);
      for (; tile < stop; ++tile) {
        GemmArgs args{};
        const float* const w =
            packed_.data() + (plane % attrs_.groups * count + tile) * mr() * (p.k + 1);
        args.a = w, args.start = w + p.k * mr();
        args.rowBytes = 4, args.colBytes = mr() * 4;
        args.k = p.k;
        args.aheadBytes = kAheadBytes;
        args.cRowBytes = panels.pixels * 4;
        float* const c = p.y + (plane * p.m + tile * mr()) * panels.pixels;
        const int rows = static_cast<int>(std::min(mr(), p.m - tile * mr()));
        for (int64_t j = 0; j < panels.count; ++j) {
          const bool read = inPlace(p, panels, j);
          args.b = read ? plane0(p, plane) + panels.first(j) : panels.at(gathered, j, p.k);
          args.bRowBytes = read ? p.xChannel * 4 : 0;
          args.bAheadBytes = read ? kAheadRows * args.bRowBytes : 0;
          args.c = c + panels.first(j);
          kernels_->run(args, rows, static_cast<int>(panels.nr(j) / panels.lanes), panels.width(j));
        }
      }
      if (epilogue)
        epilogue->apply(plane * p.m + first * mr(), plane * p.m + std::min(p.m, stop * mr()), begin,
                        end);
    }
  }

  ConvProblem problem(const NativeCall& call) const {
    const NativeTensor &x = call.operands[0], &w = call.operands[1], &y = call.result;
    ConvProblem p;
    p.x = reinterpret_cast<const float*>(x.data);
    p.w = reinterpret_cast<const float*>(w.data);
    p.y = reinterpret_cast<float*>(y.data);
    p.batch = x.shape[0], p.groups = attrs_.groups, p.m = w.shape[0] / attrs_.groups,
    p.channels = w.shape[1];
    p.xBatch = x.strides[0], p.xChannel = x.strides[1];
    p.wRow = w.strides[0], p.wColumn = merged(w, columns_).stride;
    const std::size_t spatial = x.shape.size() - 2;
    for (std::size_t d = 0; d < spatial; ++d) {
      const std::size_t a = kConvAxes - spatial + d;
      p.in[a] = x.shape[d + 2], p.out[a] = y.shape[d + 2], p.window[a] = w.shape[d + 2];
      p.step[a] = attrs_.strides[d], p.dilation[a] = attrs_.dilations[d];
      p.pad[a] = attrs_.padLow[d], p.xStride[a] = x.strides[d + 2];
    }
    p.k = p.channels * p.taps();
    if (call.operands.size() > 2) {
      p.bias = reinterpret_cast<const float*>(call.operands[2].data);
      p.biasStride = call.operands[2].strides[0];
    }
    return p;
  }

  // Groups, then blocks of mr output channels, then k and the bias, then the channels of the block.
  std::size_t packedSize(const ConvProblem& p) const {
    return static_cast<std::size_t>(attrs_.groups * ((p.m + mr() - 1) / mr()) * mr() * (p.k + 1));
  }
  void packWeights(const ConvProblem& p, int threads) {
    const int64_t tiles = this->tiles(p);
    ThreadPool::parallelFor(threads, attrs_.groups * tiles, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        float* to = packed_.data() + t * mr() * (p.k + 1);
        for (int64_t r = 0; r < mr(); ++r) {
          const int64_t channel = t % tiles * mr() + r;
          const int64_t row = t / tiles * p.m + channel;
          const bool inside = channel < p.m;
          for (int64_t c = 0; c < p.k; ++c)
            to[c * mr() + r] = inside ? p.w[row * p.wRow + c * p.wColumn] : 0;
          to[p.k * mr() + r] = inside && p.bias ? p.bias[row * p.biasStride] : 0;
        }
      }
    });
  }

  // Where tap `at` of the window finds `width` pixels from the one at `first` on.
  static int64_t findRuns(const ConvProblem& p, const ConvAxes& at, const ConvAxes& first,
                          int64_t width, Run* runs) {
    int64_t count = 0, d = first[0], h = first[1], w = first[2];
    for (int64_t to = 0; to < width;) {
      const int64_t length = std::min(p.out[2] - w, width - to);
      const int64_t zd = d * p.step[0] - p.pad[0] + at[0] * p.dilation[0];
      const int64_t zh = h * p.step[1] - p.pad[1] + at[1] * p.dilation[1];
      const int64_t zw = w * p.step[2] - p.pad[2] + at[2] * p.dilation[2];
      if (zd < 0 || zd >= p.in[0] || zh < 0 || zh >= p.in[1]) {
        runs[count++] = {to, length, -1};
      } else {
        // Pixels before, inside and behind the input's row.
        const int64_t s = p.step[2];
        const int64_t lo = zw < 0 ? std::min(length, (-zw + s - 1) / s) : 0;
        const int64_t last = p.in[2] - 1 - zw;                // the largest distance from zw inside
        const int64_t hi = last >= (length - 1) * s ? length  // the usual case, without a division
                           : last < 0               ? lo
                                                    : std::clamp(last / s + 1, lo, length);
        if (lo > 0) runs[count++] = {to, lo, -1};
        if (hi > lo)
          runs[count++] = {to + lo, hi - lo,
                           zd * p.xStride[0] + zh * p.xStride[1] + (zw + lo * s) * p.xStride[2]};
        if (length > hi) runs[count++] = {to + hi, length - hi, -1};
      }
      to += length;
      w = 0;
      if (++h == p.out[1]) h = 0, ++d;
    }
    return count;
  }

  static void zeroRows(float* to, int64_t toRow, int64_t count, int64_t rows) {
    if (count == 0) return;
    for (int64_t r = 0; r < rows; ++r) std::fill_n(to + r * toRow, count, 0.0f);
  }

  static const float* plane0(const ConvProblem& p, int64_t plane) {
    return p.x + plane / p.groups * p.xBatch + plane % p.groups * p.channels * p.xChannel;
  }
  // Whether panel j is not gathered: its rows lie in the input as they are, and are used by too few
  // output channels to be worth a copy.
  bool inPlace(const ConvProblem& p, const Panels& panels, int64_t j) const {
    constexpr int64_t kMostTiles = 16;
    if (p.taps() != 1 || tiles(p) > kMostTiles || panels.width(j) != panels.nr(j)) return false;
    int64_t distance = 1;
    for (std::size_t a = kConvAxes; a-- > 0;) {
      if (p.step[a] != 1 || p.pad[a] != 0 || p.in[a] != p.out[a] ||
          (p.in[a] != 1 && p.xStride[a] != distance))
        return false;
      distance *= p.in[a];
    }
    return true;
  }

  // Rows channel by channel and tap by tap, as the weights have them; `nr` pixels each.
  static void gather(const ConvProblem& p, int64_t plane, const Panels& panels, int64_t j,
                     float* to) {
    const int64_t first = panels.first(j), width = panels.width(j), nr = panels.nr(j);
    constexpr int64_t kMostPixels = kMaxVectors * kMaxLanes;
    Run runs[3 * kMostPixels];
    const int64_t taps = p.taps(), distance = p.step[2] * p.xStride[2];
    const float* x = plane0(p, plane);
    const int64_t line = first / p.out[2];
    const ConvAxes start{line / p.out[1], line % p.out[1], first % p.out[2]};
    int64_t tap = 0;
    for (int64_t a = 0; a < p.window[0]; ++a)
      for (int64_t b = 0; b < p.window[1]; ++b)
        for (int64_t c = 0; c < p.window[2]; ++c, ++tap) {
          const int64_t count = findRuns(p, {a, b, c}, start, width, runs);
          float* const row = to + tap * nr;
          for (const Run* r = runs; r < runs + count; ++r)
            if (r->from < 0)
              zeroRows(row + r->to, taps * nr, r->count, p.channels);
            else
              copyRows(x + r->from, p.xChannel, distance, row + r->to, taps * nr, r->count,
                       p.channels);
          zeroRows(row + width, taps * nr, nr - width, p.channels);
        }
  }

  const GemmKernels* kernels_;
  ConvAttrs attrs_;
  std::vector<int64_t> columns_;
  bool constant_ = false;  // weights and bias: packed once
  PackedFloats packed_;
  std::vector<float> shared_;  // panels of runTogether
  Depthwise depthwise_;
  Winograd winograd_;
};

}  // namespace

Status acceptsConv(const NativeQuery& q) {
  const auto& a = q.get().attrs.as<ConvAttrs>();
  RLX_OK(acceptsDType(q, DType::F32));
  const StridedView& w = q.operands[1];
  constexpr int64_t kLeastChannels = 4;  // below, gathering costs more than it saves
  if (w.shape[0].value() / a.groups < kLeastChannels && !depthwiseTakes(q))
    return Error(Errc::Unsupported, "fewer than 4 output channels in a group");
  if (!w.shape[1].isConst()) return Error(Errc::Unsupported, "a symbolic number of input channels");
  if (!mergeable(w, columnsOf(w.shape.size())))
    return Error(Errc::Unsupported, "the rows of the weight are not one stride");
  for (const int64_t s : a.strides)
    if (s < 1) return Error(Errc::Unsupported, "a stride below 1");
  return Ok{};
}

Result<std::unique_ptr<NativeProgram>> makeConv(const NativeQuery& q) {
  RLX_TRY(const IsaLevel isa, activeIsa());
  RLX_TRY(const GemmKernels* const kernels, GemmKernels::get(isa, GemmType::F32));
  return std::unique_ptr<NativeProgram>(std::make_unique<ConvProgram>(q, kernels));
}

}  // namespace rlx::cpu
