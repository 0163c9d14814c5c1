// Native kernels of the CPU: f32 dot_general on generated micro-kernels, the weight packed once.
#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <numeric>
#include <vector>

#include "backend/cpu/conv.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/gemm_kernel.h"
#include "backend/cpu/packed.h"
#include "backend/cpu/pool.h"
#include "backend/cpu/vector_code.h"
#include "base/threads.h"
#include "ops/attrs.h"
#include "schedule/native.h"

namespace rlx::cpu {

bool mergeable(const StridedView& v, const std::vector<int64_t>& axes) {
  for (std::size_t k = 0; k + 1 < axes.size(); ++k) {
    const auto a = static_cast<std::size_t>(axes[k]), b = static_cast<std::size_t>(axes[k + 1]);
    if (!v.shape[a].is(1) && !(v.strides[a] == v.strides[b] * v.shape[b])) return false;
  }
  return true;
}

Axis merged(const NativeTensor& t, const std::vector<int64_t>& axes) {
  Axis a;
  for (const int64_t k : axes) {
    a.extent *= t.shape[static_cast<std::size_t>(k)];
    a.stride = t.strides[static_cast<std::size_t>(k)];
  }
  // The last axis of extent above 1 carries the stride.
  for (const int64_t k : axes)
    if (t.shape[static_cast<std::size_t>(k)] != 1)
      a.stride = t.strides[static_cast<std::size_t>(k)];
  return a;
}

Status acceptsF32(const NativeQuery& q) {
  const DType t = q.graph.type(q.get().results[0]).dtype;
  if (t != DType::F32)
    return Error(Errc::Unsupported, "dtype " + std::string(name(t)) + ", takes f32");
  auto isa = activeIsa();
  if (!isa) return std::move(isa).error();
  return Ok{};
}

namespace {

// The axes of a dot seen as [batch..., m, k] x [batch..., k, n].
struct DotAxes {
  std::vector<int64_t> lhsFree, rhsFree;
  std::vector<int64_t> resultRows;  // where lhsFree went
};
constexpr std::size_t kBatchAxes = 8;

// Packs columns [first, first + width) of a [k, n] matrix into panels of `nr` columns.
void packPanel(const float* b, int64_t rowStride, int64_t colStride, int64_t k, int64_t width,
               int64_t nr, float* to) {
  if (colStride == 1) {
    for (int64_t p = 0; p < k; ++p, to += nr) {
      std::memcpy(to, b + p * rowStride, static_cast<std::size_t>(width) * 4);
      for (int64_t j = width; j < nr; ++j) to[j] = 0;
    }
    return;
  }
  for (int64_t p = 0; p < k; ++p)
    for (int64_t j = width; j < nr; ++j) to[p * nr + j] = 0;
  if (rowStride == 1) return transposeRows(b, colStride, to, nr, k, width);
  constexpr int64_t kBlock = 16;  // rows at a time, so that reads along k stay in cache lines
  for (int64_t p0 = 0; p0 < k; p0 += kBlock)
    for (int64_t j = 0; j < width; ++j)
      for (int64_t p = p0; p < std::min(k, p0 + kBlock); ++p)
        to[p * nr + j] = b[p * rowStride + j * colStride];
}

class DotProgram final : public NativeProgram {
 public:
  static Result<std::unique_ptr<NativeProgram>> make(const NativeQuery& q) {
    RLX_TRY(const IsaLevel isa, activeIsa());
    RLX_TRY(const GemmKernels* const kernels, GemmKernels::get(isa));
    auto d = std::make_unique<DotProgram>();
    d->kernels_ = kernels;
    d->attrs_ = q.get().attrs.as<DotAttrs>();
    const StridedView& rhs = q.operands[1];
    d->axes_.lhsFree =
        freeAxes(q.operands[0].shape.size(), d->attrs_.lhsBatch, d->attrs_.lhsContract);
    d->axes_.rhsFree = freeAxes(rhs.shape.size(), d->attrs_.rhsBatch, d->attrs_.rhsContract);
    d->axes_.resultRows.resize(d->axes_.lhsFree.size());
    std::iota(d->axes_.resultRows.begin(), d->axes_.resultRows.end(),
              static_cast<int64_t>(d->attrs_.lhsBatch.size()));
    d->constant_ =
        q.graph.definition(rhs.base).op == OpKind::Constant && d->attrs_.rhsBatch.empty();
    return std::unique_ptr<NativeProgram>(std::move(d));
  }

  Status run(const NativeCall& call) override {
    const Problem p = problem(call);
    if (empty(p)) {
      finish(p, 0, p.m.extent * p.batch, 0, p.n.extent);
      return Ok{};
    }
    if (constant_) {
      RLX_OK(packConstant(p, call.threads));
      runShared(p, packed_.data(), call.threads);
    } else if (p.batch >= call.threads || call.threads == 1) {
      ThreadPool::parallelFor(call.threads, p.batch, [&](int64_t begin, int64_t end) {
        runBatches(p, begin * p.m.extent, end * p.m.extent);
      });
    } else {
      for (int64_t i = 0; i < p.batch; ++i) {
        const Problem one = element(p, i);
        scratch_.resize(scratchSize(one));
        runColumns(one, scratch_.data(), call.threads);
      }
    }
    return Ok{};
  }

  int64_t memory() const override {
    return static_cast<int64_t>((packed_.size() + scratch_.size()) * sizeof(float));
  }
  Status prepare(const NativeCall& call) override {
    const Problem p = problem(call);
    return constant_ && !empty(p) ? packConstant(p, call.threads) : Status(Ok{});
  }
  // Parts are matrices of the batch or rows of them.
  void runPart(const NativeCall& call, int64_t units, int64_t begin, int64_t end) override {
    const Problem p = problem(call);
    if (empty(p)) {
      const int64_t rows = p.m.extent * p.batch / std::max<int64_t>(units, 1);
      return finish(p, rows * begin, rows * end, 0, p.n.extent);
    }
    if (!constant_) {
      const int64_t all = p.m.extent * p.batch;
      return runBatches(p, all / units * begin, all / units * end);
    }
    const int64_t rows = p.m.extent / units;
    for (int64_t r0 = rows * begin; r0 < rows * end; r0 += kBlockRows) {
      const int64_t r1 = std::min(rows * end, r0 + kBlockRows);
      for (int64_t j = 0; j < p.panels; ++j)
        tile(p, packed_.data() + j * p.ka.extent * p.nr, j, r0, r1, Ahead::Yes);
    }
  }
  int64_t grain(const NativeCall& call, int64_t units) const override {
    if (!constant_) {
      // Results or terms of a few parts stay in the second cache; each part packs B again.
      const Problem p = problem(call);
      const int64_t all = std::max<int64_t>(1, p.m.extent * p.batch / units);
      const int64_t wanted = kPartFloats / std::max<int64_t>({1, p.n.extent, p.ka.extent});
      return (std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, p.m.extent)) + all - 1) / all;
    }
    const int64_t rows = std::max<int64_t>(1, problem(call).m.extent / units);
    return (kGrainRows + rows - 1) / rows;
  }

 private:
  struct Problem {
    Axis m, n, ka, kb;
    int64_t cRow = 0;  // stride of C along m; along n it is 1
    const float *a = nullptr, *b = nullptr;
    float* c = nullptr;
    const NativeEpilogue* epilogue = nullptr;
    int64_t row = 0, column = 0;  // of the whole result where C starts
    int64_t batch = 1, nr = 0, panels = 0;
    int vectors = 1;
    std::size_t batchAxes = 0;
    std::array<int64_t, kBatchAxes> batchExtents{}, aBatch{}, bBatch{}, cBatch{};
  };
  static constexpr int64_t kBlockRows = 128;  // rows of A that stay in the second cache
  static constexpr int64_t kGrainRows = 32;   // rows for which reading B pays
  static constexpr int64_t kPartFloats = 32 * 1024;

  Problem problem(const NativeCall& call) const {
    const NativeTensor &a = call.operands[0], &b = call.operands[1];
    Problem p;
    p.m = merged(a, axes_.lhsFree);
    p.n = merged(b, axes_.rhsFree);
    p.ka = merged(a, attrs_.lhsContract);
    p.kb = merged(b, attrs_.rhsContract);
    p.c = reinterpret_cast<float*>(call.result.data);
    p.a = reinterpret_cast<const float*>(a.data);
    p.b = reinterpret_cast<const float*>(b.data);
    p.epilogue = call.epilogue;
    p.batchAxes = attrs_.lhsBatch.size();
    for (std::size_t k = 0; k < p.batchAxes; ++k) {
      const auto ka = static_cast<std::size_t>(attrs_.lhsBatch[k]);
      p.batchExtents[k] = a.shape[ka];
      p.aBatch[k] = a.strides[ka];
      p.bBatch[k] = b.strides[static_cast<std::size_t>(attrs_.rhsBatch[k])];
      p.cBatch[k] = call.result.strides[k];
      p.batch *= a.shape[ka];
    }
    p.cRow = merged(call.result, axes_.resultRows).stride;
    p.vectors = vectorsFor(p.n.extent, kernels_->lanes());
    p.nr = int64_t{p.vectors} * kernels_->lanes();
    p.panels = (p.n.extent + p.nr - 1) / p.nr;
    return p;
  }
  // True when there is nothing to add up; fills the result with zeros where it has elements.
  static bool empty(const Problem& p) {
    if (p.m.extent == 0 || p.n.extent == 0 || p.batch == 0) return true;
    if (p.ka.extent != 0) return false;
    for (int64_t i = 0; i < p.batch; ++i)
      for (int64_t r = 0; r < p.m.extent; ++r)
        std::memset(p.c + batchOffset(p, i, p.cBatch) + r * p.cRow, 0,
                    static_cast<std::size_t>(p.n.extent) * 4);
    return true;
  }
  static Problem element(const Problem& p, int64_t i) {
    Problem one = p;
    one.a += batchOffset(p, i, p.aBatch);
    one.b += batchOffset(p, i, p.bBatch);
    one.c += batchOffset(p, i, p.cBatch);
    one.row += i * p.m.extent;
    return one;
  }

  static int64_t batchOffset(const Problem& p, int64_t i,
                             const std::array<int64_t, kBatchAxes>& strides) {
    int64_t o = 0;
    for (std::size_t k = p.batchAxes; k-- > 0;) {
      o += i % p.batchExtents[k] * strides[k];
      i /= p.batchExtents[k];
    }
    return o;
  }

  static std::size_t packedSize(const Problem& p) {
    return static_cast<std::size_t>(p.panels * p.ka.extent * p.nr);
  }
  // The same for whole vectors of columns.
  std::size_t scratchSize(const Problem& p) const {
    const int64_t lanes = kernels_->lanes();
    return static_cast<std::size_t>((p.n.extent + lanes - 1) / lanes * lanes * p.ka.extent);
  }
  Status packConstant(const Problem& p, int threads) {
    if (!packed_.empty()) return Ok{};
    RLX_OK(packed_.allocate(packedSize(p)));
    packAll(p, packed_.data(), threads);
    return Ok{};
  }
  static void packAll(const Problem& p, float* to, int threads) {
    ThreadPool::parallelFor(threads, p.panels, [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j) pack(p, j, to + j * p.ka.extent * p.nr);
    });
  }
  static void pack(const Problem& p, int64_t panel, float* to) {
    packPanel(p.b + panel * p.nr * p.n.stride, p.kb.stride, p.n.stride, p.ka.extent,
              std::min(p.nr, p.n.extent - panel * p.nr), p.nr, to);
  }

  static constexpr int64_t kMostPrefetch = 4096;  // bytes with one tile: more would stall it
  enum class Ahead : uint8_t { No, Yes };
  // Rows [r0, r1) of panel j. Ahead: another packed panel follows in memory.
  void tile(const Problem& p, const float* panel, int64_t j, int64_t r0, int64_t r1,
            Ahead ahead) const {
    const int64_t width = std::min(p.nr, p.n.extent - j * p.nr);
    GemmArgs args{};
    args.rowBytes = p.m.stride * 4, args.colBytes = p.ka.stride * 4, args.cRowBytes = p.cRow * 4;
    args.b = panel;
    args.k = p.ka.extent;
    // The next panel is fetched meanwhile, a share of it with each tile; it may be another
    // matrix's.
    const int64_t panelBytes = p.ka.extent * p.nr * 4, mr = kernels_->rows(p.vectors);
    const int64_t share = std::min(kMostPrefetch, panelBytes * mr / std::max(r1 - r0, mr));
    const char* next = reinterpret_cast<const char*>(panel) + panelBytes;
    for (int64_t i = r0; i < r1; i += mr) {
      for (int64_t b = 0; ahead == Ahead::Yes && b < share; b += 64) __builtin_prefetch(next + b);
      next += share;
      args.a = p.a + i * p.m.stride;
      args.c = p.c + i * p.cRow + j * p.nr;
      kernels_->run(args, static_cast<int>(std::min(mr, r1 - i)), p.vectors, width);
    }
    finish(p, r0, r1, j * p.nr, j * p.nr + width);
  }
  static void finish(const Problem& p, int64_t r0, int64_t r1, int64_t c0, int64_t c1) {
    if (p.epilogue && r1 > r0 && c1 > c0)
      p.epilogue->apply(p.row + r0, p.row + r1, p.column + c0, p.column + c1);
  }

  // One matrix, B packed: the (row block, panel) tiles are shared out. Row blocks keep A in L2.
  void runShared(const Problem& p, const float* packed, int threads) const {
    const int64_t mr = kernels_->rows(p.vectors);
    int64_t block = (p.m.extent + threads - 1) / threads;
    block = std::clamp<int64_t>((block + mr - 1) / mr * mr, mr, kBlockRows);
    const int64_t blocks = (p.m.extent + block - 1) / block;
    // Few row blocks: split the panels as well, in groups.
    const int64_t groups =
        blocks >= threads ? 1 : std::min<int64_t>(p.panels, (threads + blocks - 1) / blocks);
    ThreadPool::parallelFor(threads, blocks * groups, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t r0 = t / groups * block, r1 = std::min(p.m.extent, r0 + block);
        const int64_t g = t % groups;
        for (int64_t j = p.panels * g / groups; j < p.panels * (g + 1) / groups; ++j)
          tile(p, packed + j * p.ka.extent * p.nr, j, r0, r1, Ahead::Yes);
      }
    });
  }

  // One matrix whose B changes from call to call: its columns are shared out, so that a thread
  // reads no panel that another packed. Panels are as even as can be.
  void runColumns(const Problem& p, float* scratch, int threads) const {
    const int64_t lanes = kernels_->lanes(), all = (p.n.extent + lanes - 1) / lanes;
    const int64_t parts = std::min<int64_t>(threads, all);
    ThreadPool::parallelFor(threads, parts, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t)
        runVectors(p, scratch, all * t / parts, all * (t + 1) / parts);
    });
  }
  // Vectors [begin, end) of the columns.
  void runVectors(const Problem& p, float* scratch, int64_t begin, int64_t end) const {
    const int64_t lanes = kernels_->lanes(), vectors = end - begin;
    const int64_t panels = (vectors + kMaxVectors - 1) / kMaxVectors;
    const auto first = [&](int64_t j) { return begin + vectors * j / panels; };
    const auto at = [&](int64_t j) { return scratch + first(j) * lanes * p.ka.extent; };
    for (int64_t r0 = 0; r0 < p.m.extent; r0 += kBlockRows)
      for (int64_t j = 0; j < panels; ++j) {
        const Problem one = columns(p, first(j), first(j + 1));
        if (r0 == 0) pack(one, 0, at(j));
        tile(one, at(j), 0, r0, std::min(p.m.extent, r0 + kBlockRows),
             j + 1 < panels ? Ahead::Yes : Ahead::No);
      }
  }
  // The part of the problem in vectors [begin, end) of the columns, one panel.
  Problem columns(const Problem& p, int64_t begin, int64_t end) const {
    const int64_t lanes = kernels_->lanes(), from = begin * lanes;
    Problem one = p;
    one.b += from * p.n.stride, one.c += from, one.column += from;
    one.n.extent = std::min(p.n.extent - from, (end - begin) * lanes);
    one.vectors = static_cast<int>(end - begin), one.nr = (end - begin) * lanes, one.panels = 1;
    return one;
  }

  // Rows [begin, end) of all matrices of the batch, B packed panel by panel.
  void runBatches(const Problem& p, int64_t begin, int64_t end) const {
    thread_local std::vector<float> panel;  // kept from call to call
    if (const auto size = static_cast<std::size_t>(p.ka.extent * p.nr); panel.size() < size)
      panel.resize(size);
    for (int64_t row = begin; row < end;) {
      const int64_t i = row / p.m.extent, r0 = row % p.m.extent;
      const int64_t r1 = std::min(p.m.extent, r0 + end - row);
      row += r1 - r0;
      const Problem one = element(p, i);
      for (int64_t j = 0; j < p.panels; ++j) {
        pack(one, j, panel.data());
        tile(one, panel.data(), j, r0, r1, Ahead::No);
      }
    }
  }

  const GemmKernels* kernels_ = nullptr;
  DotAttrs attrs_;
  DotAxes axes_;
  bool constant_ = false;
  PackedFloats packed_;
  std::vector<float> scratch_;
};

Status acceptsDot(const NativeQuery& q) {
  const auto& a = q.get().attrs.as<DotAttrs>();
  RLX_OK(acceptsF32(q));
  const StridedView &l = q.operands[0], &r = q.operands[1];
  if (a.lhsBatch.size() > kBatchAxes)
    return Error(Errc::Unsupported, "more than " + std::to_string(kBatchAxes) + " batch axes");
  if (!mergeable(l, freeAxes(l.shape.size(), a.lhsBatch, a.lhsContract)))
    return Error(Errc::Unsupported, "the free axes of the left are not one stride");
  if (!mergeable(r, freeAxes(r.shape.size(), a.rhsBatch, a.rhsContract)))
    return Error(Errc::Unsupported, "the free axes of the right are not one stride");
  if (!mergeable(l, a.lhsContract) || !mergeable(r, a.rhsContract))
    return Error(Errc::Unsupported, "the contracted axes are not one stride");
  return Ok{};
}

// The batch, then rows, only as far as the left operand has these axes in the order of the result.
std::size_t leadingOfDot(const NativeQuery& q) {
  const auto& a = q.get().attrs.as<DotAttrs>();
  const std::size_t batch = a.lhsBatch.size();
  for (std::size_t k = 0; k < batch; ++k)
    if (a.lhsBatch[k] != static_cast<int64_t>(k)) return 0;
  const std::vector<int64_t> rows = freeAxes(q.operands[0].shape.size(), a.lhsBatch, a.lhsContract);
  for (std::size_t k = 0; k < rows.size(); ++k)
    if (rows[k] != static_cast<int64_t>(batch + k)) return batch;
  return batch + rows.size();
}

bool dotWrites(const NativeQuery& q, const StridedView& result) {
  const auto& a = q.get().attrs.as<DotAttrs>();
  const auto batch = static_cast<int64_t>(a.lhsBatch.size());
  const auto rows =
      static_cast<int64_t>(freeAxes(q.operands[0].shape.size(), a.lhsBatch, a.lhsContract).size());
  std::vector<int64_t> m, n;
  for (int64_t k = batch; k < static_cast<int64_t>(result.shape.size()); ++k)
    (k < batch + rows ? m : n).push_back(k);
  return !n.empty() && mergeable(result, m) && mergeable(result, n) &&
         result.strides[static_cast<std::size_t>(n.back())].is(1);
}

std::size_t columnsOfDot(const NativeQuery& q) {
  const auto& a = q.get().attrs.as<DotAttrs>();
  return freeAxes(q.operands[1].shape.size(), a.rhsBatch, a.rhsContract).size();
}

// The pixels.
std::size_t columnsOfConv(const NativeQuery& q) {
  return q.operands[0].shape.size() - 2;
}

constinit const NativeKernel kNatives[] = {
    {OpKind::Conv, "conv f32", &acceptsConv, &makeConv, false, nullptr, nullptr, &columnsOfConv},
    {OpKind::Pool, "pool f32", &acceptsPool, &makePool, false, nullptr, nullptr, &columnsOfPool},
    {OpKind::DotGeneral, "gemm f32", &acceptsDot, &DotProgram::make, false, &leadingOfDot,
     &dotWrites, &columnsOfDot},
};

}  // namespace

std::span<const NativeKernel> natives() {
  return kNatives;
}

}  // namespace rlx::cpu
