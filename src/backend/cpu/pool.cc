#include "backend/cpu/pool.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "backend/cpu/cpu.h"
#include "backend/cpu/vector_code.h"
#include "base/threads.h"
#include "ops/attrs.h"

namespace rlx::cpu {
namespace {

// One axis of the window's walk over the input.
struct Walk {
  int64_t in = 1, out = 1, window = 1, step = 1, dilation = 1, padLow = 0, padHigh = 0;

  // The first and the number of the taps of output `at` that lie in [0, extent).
  int64_t first(int64_t at) const {
    const int64_t from = at * step - padLow;
    return from < 0 ? std::min(window, (-from + dilation - 1) / dilation) : 0;
  }
  int64_t count(int64_t at, int64_t extent) const {
    const int64_t left = extent - (at * step - padLow);
    const int64_t end = left > 0 ? std::min(window, (left + dilation - 1) / dilation) : 0;
    return std::max<int64_t>(0, end - first(at));
  }
  // Taps that an average divides by.
  int64_t counted(int64_t at, bool padding) const {
    if (!padding) return count(at, in);
    const int64_t left = in + padHigh - (at * step - padLow);
    return std::min(window, (left + dilation - 1) / dilation);
  }
  // Elements from the first tap of the first output to the last tap of the last.
  int64_t span() const { return dense() + (window - 1) * dilation; }
  int64_t dense() const { return (out - 1) * step + 1; }
};

struct Problem {
  const float* x = nullptr;
  float* y = nullptr;
  int64_t batch = 0, channels = 0, xBatch = 0, xChannel = 0, xRow = 0;
  Walk row, column;
};

class PoolProgram final : public NativeProgram {
 public:
  explicit PoolProgram(const PoolAttrs& attrs)
      : attrs_(attrs), fold_(attrs.kind == PoolKind::Max ? PoolFold::Max : PoolFold::Sum) {}

  int64_t memory() const override { return static_cast<int64_t>(counts_.size() * sizeof(float)); }

  Status run(const NativeCall& call) override {
    const Problem p = problem(call);
    if (p.row.out == 0 || p.column.out == 0) return Ok{};
    if (fold_ == PoolFold::Sum) {
      counts_.resize(static_cast<std::size_t>(p.column.out + kVectorSlack), 1);
      for (int64_t k = 0; k < p.column.out; ++k)
        counts_[static_cast<std::size_t>(k)] =
            static_cast<float>(p.column.counted(k, attrs_.countPadding));
    }
    ThreadPool::parallelFor(call.threads, p.batch * p.channels, [&](int64_t begin, int64_t end) {
      planes(p, begin, end, call.epilogue);
    });
    return Ok{};
  }

 private:
  Problem problem(const NativeCall& call) const {
    const NativeTensor &x = call.operands[0], &y = call.result;
    Problem p;
    p.x = reinterpret_cast<const float*>(x.data), p.y = reinterpret_cast<float*>(y.data);
    p.batch = x.shape[0], p.channels = x.shape[1];
    p.xBatch = x.strides[0], p.xChannel = x.strides[1];
    const std::size_t spatial = attrs_.window.size();
    const auto walk = [&](std::size_t d) {
      return Walk{x.shape[d + 2],      y.shape[d + 2],   attrs_.window[d], attrs_.strides[d],
                  attrs_.dilations[d], attrs_.padLow[d], attrs_.padHigh[d]};
    };
    p.column = walk(spatial - 1);
    if (spatial == 2) p.row = walk(0), p.xRow = x.strides[2];
    return p;
  }

  // A line of the fold over rows with the fold's neutral element around, then one of the fold over
  // columns for every column; both with slack.
  void planes(const Problem& p, int64_t begin, int64_t end, const NativeEpilogue* epilogue) const {
    thread_local std::vector<float> scratch;  // kept from call to call
    const int64_t line = p.column.span() + kVectorSlack;
    const int64_t picked = p.column.out * p.column.step + 2 * kVectorSlack;
    const auto size = static_cast<std::size_t>(line + picked + p.column.step * kVectorSlack);
    if (scratch.size() < size) scratch.resize(size);
    const int64_t pixels = p.row.out * p.column.out;
    std::fill_n(scratch.data(), line, neutral());
    for (int64_t plane = begin; plane < end; ++plane) {
      const float* x = p.x + plane / p.channels * p.xBatch + plane % p.channels * p.xChannel;
      float* y = p.y + plane * pixels;
      for (int64_t r = 0; r < p.row.out; ++r)
        row(p, x, r, y, scratch.data(), scratch.data() + line);
      if (epilogue) epilogue->apply(plane, plane + 1, 0, pixels);
    }
  }

  float neutral() const {
    return fold_ == PoolFold::Max ? -std::numeric_limits<float>::infinity() : 0;
  }

  // Row r of the plane y.
  void row(const Problem& p, const float* x, int64_t r, float* y, float* line,
           float* picked) const {
    const Walk &rows = p.row, &columns = p.column;
    const int64_t low = std::min(columns.padLow, columns.span());
    const int64_t width = std::min(columns.in, columns.span() - low);
    if (const int64_t count = rows.count(r, rows.in); count > 0) {
      const int64_t first = r * rows.step - rows.padLow + rows.first(r) * rows.dilation;
      foldLines(fold_, x + first * p.xRow, rows.dilation * p.xRow, count, width, line + low);
    } else {
      std::fill_n(line + low, width, neutral());
    }
    float* const to = y + r * columns.out;
    const float* const end = y + rows.out * columns.out;
    if (fold_ == PoolFold::Max && columns.step == 1)
      return foldTaps(fold_, line, columns.dilation, columns.window, columns.out, to, end);
    foldTaps(fold_, line, columns.dilation, columns.window, columns.dense(), picked,
             picked + columns.dense() + kVectorSlack);
    finishPool(picked, columns.step, fold_ == PoolFold::Sum ? counts_.data() : nullptr,
               static_cast<float>(rows.counted(r, attrs_.countPadding)), columns.out, to, end);
  }

  PoolAttrs attrs_;
  PoolFold fold_;
  std::vector<float> counts_;  // by column: taps that an average divides by
};

}  // namespace

Status acceptsPool(const NativeQuery& q) {
  const auto& a = q.get().attrs.as<PoolAttrs>();
  RLX_OK(acceptsDType(q, DType::F32));
  if (a.window.size() > 2) return Error(Errc::Unsupported, "3 spatial axes, takes 1 or 2");
  if (!q.operands[0].strides.back().is(1) && !q.operands[0].shape.back().is(1))
    return Error(Errc::Unsupported, "the columns of the input do not lie side by side");
  constexpr int64_t kMostStep = 16;     // beyond, most of what is folded would be skipped
  constexpr int64_t kMostReach = 4096;  // of a window
  for (std::size_t k = 0; k < a.window.size(); ++k) {
    if (a.padLow[k] < 0 || a.padHigh[k] < 0) return Error(Errc::Unsupported, "negative padding");
    if (a.strides[k] > kMostStep)
      return Error(Errc::Unsupported, "a stride above " + std::to_string(kMostStep));
    if (a.window[k] > kMostReach || a.dilations[k] > kMostReach / a.window[k])
      return Error(Errc::Unsupported, "a window that reaches beyond " + std::to_string(kMostReach));
  }
  return Ok{};
}

Result<std::unique_ptr<NativeProgram>> makePool(const NativeQuery& q) {
  return std::unique_ptr<NativeProgram>(
      std::make_unique<PoolProgram>(q.get().attrs.as<PoolAttrs>()));
}

std::size_t columnsOfPool(const NativeQuery& q) {
  return q.get().attrs.as<PoolAttrs>().window.size();
}

}  // namespace rlx::cpu
