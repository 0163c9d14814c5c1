#include "backend/cpu/depthwise.h"

#include <algorithm>

#include "backend/cpu/vector_code.h"
#include "base/threads.h"
#include "ops/attrs.h"

namespace rlx::cpu {
namespace {

constexpr int64_t kRow = 1, kColumn = 2;  // axes of a plane
constexpr int64_t kMostStep = 4, kMostDilation = 16;
constexpr int64_t kScratch = 4096;    // floats: half of a first cache of 32 KiB
constexpr int64_t kMostWidth = 1024;  // columns of a block
constexpr int64_t kTileRows = 4;

int64_t up(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

// A part of a plane of the result.
struct Part {
  int64_t row = 0, rows = 0, column = 0, width = 0;
};

// How a plane is cut into parts, and the scratch lines that a part is computed from: for each row
// of the input one line for every remainder (phase) of the column by the step, so that the taps of
// neighbouring pixels lie side by side.
struct Layout {
  int64_t partRows = 0, columnParts = 0;
  int64_t pitch = 0, phases = 0;  // of a line; lines of a row

  explicit Layout(const ConvProblem& p) {
    phases = p.step[kColumn];
    columnParts = std::max<int64_t>(1, (p.out[kColumn] + kMostWidth - 1) / kMostWidth);
    const int64_t width = (p.out[kColumn] + columnParts - 1) / columnParts;
    const int64_t reach = (p.window[kColumn] - 1) * p.dilation[kColumn] / phases;
    pitch = up(width + reach + kVectorSlack, kVectorSlack);
    // Rows shared with the next part are filled twice: parts are not short beside them.
    const int64_t shared = (p.window[kRow] - 1) * p.dilation[kRow];
    const int64_t fit = (kScratch / rowPitch() - shared) / p.step[kRow];
    partRows = std::max({fit, 2 * shared / p.step[kRow], kTileRows}) / kTileRows * kTileRows;
    partRows = std::min(partRows, p.out[kRow]);
  }
  int64_t rowPitch() const { return pitch * phases; }
  int64_t inputRows(const ConvProblem& p, int64_t rows) const {
    return (rows - 1) * p.step[kRow] + (p.window[kRow] - 1) * p.dilation[kRow] + 1;
  }
  // Scratch of a part, and of as many as are filled before the first is read: what was just
  // written cannot be read at once by other vectors.
  int64_t partFloats(const ConvProblem& p) const {
    return inputRows(p, partRows) * rowPitch() + kVectorSlack;
  }
  int64_t ahead(const ConvProblem& p) const {
    return whole(p) ? std::max<int64_t>(1, kScratch / partFloats(p)) : 1;
  }
  // Whether a plane is one part.
  bool whole(const ConvProblem& p) const { return columnParts == 1 && partRows == p.out[kRow]; }
};

// Copies what a part of the result reads of a plane of x, zeros around it.
void fill(const ConvProblem& p, const Layout& layout, const float* plane, const Part& part,
          float* scratch) {
  const int64_t rows = layout.inputRows(p, part.rows), pitch = layout.rowPitch();
  const int64_t top = part.row * p.step[kRow] - p.pad[kRow];
  const int64_t left = part.column * p.step[kColumn] - p.pad[kColumn];
  const int64_t low = std::clamp<int64_t>(-top, 0, rows);
  const int64_t high = std::clamp<int64_t>(p.in[kRow] - top, low, rows);
  PaddedRows c;
  c.to = scratch, c.toRow = pitch, c.toLine = layout.pitch;
  c.above = low, c.rows = high - low, c.below = rows - high;
  c.step = p.step[kColumn];
  c.columns = (part.width - 1) * c.step + (p.window[kColumn] - 1) * p.dilation[kColumn] + 1;
  c.low = std::clamp<int64_t>(-left, 0, c.columns);
  c.width = std::clamp<int64_t>(p.in[kColumn] - left, c.low, c.columns) - c.low;
  c.fromRow = p.xStride[kRow];
  c.from = plane + (c.rows > 0 ? (top + low) * c.fromRow : 0) + (c.width > 0 ? left + c.low : 0);
  copyPadded(c);
}

// Whether a part can be computed from the input itself.
bool readsInside(const ConvProblem& p, const Part& part) {
  const int64_t top = part.row * p.step[kRow] - p.pad[kRow];
  const int64_t left = part.column - p.pad[kColumn];
  return p.step[kColumn] == 1 && part.width >= kVectorSlack && top >= 0 && left >= 0 &&
         top + (part.rows - 1) * p.step[kRow] + (p.window[kRow] - 1) * p.dilation[kRow] <
             p.in[kRow] &&
         left + part.width + (p.window[kColumn] - 1) * p.dilation[kColumn] <= p.in[kColumn];
}

// Planes of the result; those of one plane of the input share the scratch lines.
class Planes {
 public:
  Planes(const ConvProblem& p, const Layout& layout, const int64_t* tapColumns,
         const NativeEpilogue* epilogue)
      : p_(p), layout_(layout), tapColumns_(tapColumns), epilogue_(epilogue) {}

  void run(int64_t begin, int64_t end) const {
    const int64_t ahead = layout_.ahead(p_), floats = layout_.partFloats(p_);
    thread_local std::vector<float> scratch;  // kept from call to call
    if (const auto size = static_cast<std::size_t>(ahead * floats); scratch.size() < size)
      scratch.resize(size);
    const float* const last = p_.y + end * p_.out[kRow] * p_.out[kColumn];
    for (Input first = inputOf(begin); first.index * p_.m < end;) {
      Input behind = first;
      for (int64_t row = 0; row < p_.out[kRow]; row += layout_.partRows)
        for (int64_t k = 0; k < layout_.columnParts; ++k) {
          const Part at = part(row, k);
          const bool copied = !readsInside(p_, at);
          float* to = scratch.data();
          behind = first;
          for (int64_t i = 0; i < ahead && behind.index * p_.m < end; ++i, to += floats) {
            if (copied) fill(p_, layout_, plane(behind), at, to);
            advance(behind);
          }
          to = scratch.data();
          for (Input i = first; i.index < behind.index; advance(i), to += floats)
            runPart(i, std::max(begin, i.index * p_.m), std::min(end, (i.index + 1) * p_.m), at,
                    copied ? to : nullptr, last);
        }
      // Small planes pass the epilogue together: a call costs as much as some of them.
      if (epilogue_ && layout_.whole(p_))
        epilogue_->apply(std::max(begin, first.index * p_.m), std::min(end, behind.index * p_.m), 0,
                         p_.out[kRow] * p_.out[kColumn]);
      first = behind;
    }
  }

 private:
  Part part(int64_t row, int64_t k) const {
    const int64_t width = p_.out[kColumn], parts = layout_.columnParts;
    const int64_t column = width * k / parts;
    return {row, std::min(layout_.partRows, p_.out[kRow] - row), column,
            width * (k + 1) / parts - column};
  }
  // A plane of the input, counted without a division for each.
  struct Input {
    int64_t index = 0, batch = 0, group = 0;
  };
  Input inputOf(int64_t plane) const {
    const int64_t index = plane / p_.m;
    return {index, index / p_.groups, index % p_.groups};
  }
  void advance(Input& i) const {
    ++i.index;
    if (++i.group == p_.groups) i.group = 0, ++i.batch;
  }
  const float* plane(const Input& i) const {
    return p_.x + i.batch * p_.xBatch + i.group * p_.xChannel;
  }

  // A part of planes [begin, end) of the result, from scratch lines or (null) from the input.
  void runPart(const Input& input, int64_t begin, int64_t end, const Part& part,
               const float* scratch, const float* last) const {
    DepthwiseBlock b;
    const int64_t pitch = scratch ? layout_.rowPitch() : p_.xStride[kRow];
    b.from = scratch ? scratch
                     : plane(input) + (part.row * p_.step[kRow] - p_.pad[kRow]) * pitch +
                           part.column - p_.pad[kColumn];
    b.tapRow = p_.dilation[kRow] * pitch, b.outRow = p_.step[kRow] * pitch;
    b.tapColumns = tapColumns_;
    b.windowRows = p_.window[kRow], b.windowColumns = p_.window[kColumn];
    b.wStride = p_.wColumn;
    const bool whole = layout_.whole(p_);
    for (int64_t plane = begin; plane < end; ++plane) {
      // Narrow rows write some elements of the next plane, too, unless that is done already.
      b.end = whole ? last : p_.y + (plane + 1) * p_.out[kRow] * p_.out[kColumn];
      const int64_t channel = plane - input.batch * p_.groups * p_.m;
      b.w = p_.w + channel * p_.wRow;
      b.bias = p_.bias ? p_.bias[channel * p_.biasStride] : 0;
      runBlock(b, plane, part);
    }
  }

  void runBlock(DepthwiseBlock& b, int64_t plane, const Part& part) const {
    const int64_t width = p_.out[kColumn], pixels = p_.out[kRow] * width;
    const int64_t first = part.row * width + part.column;
    b.to = p_.y + plane * pixels + first, b.toRow = width;
    b.rows = part.rows, b.width = part.width;
    depthwiseBlock(b);
    if (!epilogue_ || layout_.whole(p_)) return;
    if (part.width == width)
      epilogue_->apply(plane, plane + 1, first, first + part.rows * width);
    else
      for (int64_t r = first; r < first + part.rows * width; r += width)
        epilogue_->apply(plane, plane + 1, r, r + part.width);
  }

  const ConvProblem& p_;
  const Layout& layout_;
  const int64_t* tapColumns_;
  const NativeEpilogue* epilogue_;
};

}  // namespace

bool depthwiseTakes(const ConvProblem& p) {
  if (p.channels != 1 || p.taps() < 1 || (p.xStride[kColumn] != 1 && p.in[kColumn] != 1))
    return false;
  if (p.in[0] != 1 || p.out[0] != 1 || p.window[0] != 1 || p.pad[0] != 0) return false;
  return p.step[kColumn] <= kMostStep && p.dilation[kColumn] <= kMostDilation &&
         p.dilation[kRow] <= kMostDilation;
}

bool depthwiseTakes(const NativeQuery& q) {
  const auto& a = q.get().attrs.as<ConvAttrs>();
  const StridedView &x = q.operands[0], &w = q.operands[1];
  const std::size_t spatial = a.strides.size();
  if (spatial > 2 || !w.shape[1].is(1) || !x.strides.back().is(1)) return false;
  for (std::size_t k = 0; k < spatial; ++k)
    if (a.dilations[k] > kMostDilation || w.shape[k + 2].is(0)) return false;
  return a.strides.back() <= kMostStep;
}

int64_t Depthwise::memory() const {
  return static_cast<int64_t>(tapColumns_.size() * sizeof(int64_t));
}

Status Depthwise::run(const ConvProblem& p, int threads, const NativeEpilogue* epilogue) {
  const int64_t planes = p.batch * p.groups * p.m;
  if (planes == 0 || p.out[kRow] == 0 || p.out[kColumn] == 0) return Ok{};
  const Layout layout(p);
  tapColumns_.resize(static_cast<std::size_t>(p.window[kColumn]));
  for (std::size_t k = 0; k < tapColumns_.size(); ++k) {
    const int64_t column = static_cast<int64_t>(k) * p.dilation[kColumn];
    tapColumns_[k] = column % layout.phases * layout.pitch + column / layout.phases;
  }
  const Planes work(p, layout, tapColumns_.data(), epilogue);
  ThreadPool::parallelFor(threads, planes,
                          [&](int64_t begin, int64_t end) { work.run(begin, end); });
  return Ok{};
}

}  // namespace rlx::cpu
