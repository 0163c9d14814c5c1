// Native kernels of the CPU: dot_general of floats on generated micro-kernels, the weight packed
// once. f16 and bf16 are widened on their way to the kernels, and sums rounded on their way back.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <type_traits>
#include <vector>

#include "backend/cpu/conv.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/dot_axes.h"
#include "backend/cpu/dot_int8.h"
#include "backend/cpu/gemm_kernel.h"
#include "backend/cpu/packed.h"
#include "backend/cpu/pool.h"
#include "backend/cpu/vector_code.h"
#include "base/half.h"
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

Status acceptsDType(const NativeQuery& q, DType dtype) {
  const DType t = q.graph.type(q.get().results[0]).dtype;
  if (t != dtype)
    return Error(Errc::Unsupported,
                 "dtype " + std::string(name(t)) + ", takes " + std::string(name(dtype)));
  auto isa = activeIsa();
  if (!isa) return std::move(isa).error();
  return Ok{};
}

namespace {

// Per type of elements: its dtype, the type of its sums, the micro-kernels for B of this type, and
// the dtypes of B beside its own.
template <class T>
struct Elements;
template <>
struct Elements<float> {
  using Sum = float;
  static constexpr DType kDType = DType::F32;
  static constexpr uint32_t kWidens = bit(DType::F16) | bit(DType::BF16);
  static constexpr GemmType kKernels = GemmType::F32;
};
template <>
struct Elements<double> {
  using Sum = double;
  static constexpr DType kDType = DType::F64;
  static constexpr uint32_t kWidens = 0;
  static constexpr GemmType kKernels = GemmType::F64;
};
template <>
struct Elements<F16> {
  using Sum = float;
  static constexpr DType kDType = DType::F16;
  static constexpr uint32_t kWidens = 0;
  static constexpr GemmType kKernels = GemmType::F16Panels;
};
template <>
struct Elements<BF16> {
  using Sum = float;
  static constexpr DType kDType = DType::BF16;
  static constexpr uint32_t kWidens = 0;
  static constexpr GemmType kKernels = GemmType::BF16Panels;
};

template <class T>
void assign(T& to, T from) {
  to = from;
}
void assign(float& to, F16 from) {
  to = f16ToF32(from.bits);
}
void assign(float& to, BF16 from) {
  to = bf16ToF32(from.bits);
}

// to[i] = from[i * step] for i in [0, count).
template <class From, class To>
void copyRow(const From* from, int64_t step, To* to, int64_t count) {
  if (step != 1) {
    for (int64_t i = 0; i < count; ++i) assign(to[i], from[i * step]);
  } else if constexpr (std::is_same_v<From, To>) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(To));
  } else {
    widenRow(from, to, count);
  }
}

// Packs columns [first, first + width) of a [k, n] matrix into panels of `nr` columns.
template <class From, class To>
void packPanel(const From* b, int64_t rowStride, int64_t colStride, int64_t k, int64_t width,
               int64_t nr, To* to) {
  for (int64_t p = 0; p < k; ++p)
    for (int64_t j = width; j < nr; ++j) to[p * nr + j] = To{};
  if (colStride == 1) {
    for (int64_t p = 0; p < k; ++p) copyRow(b + p * rowStride, 1, to + p * nr, width);
    return;
  }
  if constexpr (std::is_floating_point_v<To>)
    if (rowStride == 1) return transposeRows(b, colStride, to, nr, k, width);
  constexpr int64_t kBlock = 16;  // rows at a time, so that reads along k stay in cache lines
  for (int64_t p0 = 0; p0 < k; p0 += kBlock)
    for (int64_t j = 0; j < width; ++j)
      for (int64_t p = p0; p < std::min(k, p0 + kBlock); ++p)
        assign(to[p * nr + j], b[p * rowStride + j * colStride]);
}

// A contraction of A and C of elements T and B of W. Where B is constant it is packed as it is,
// else as the sums are.
template <class T, class W>
class DotProgram final : public NativeProgram {
  using Sum = typename Elements<T>::Sum;
  static constexpr int64_t kSumBytes = sizeof(Sum);

 public:
  explicit DotProgram(const NativeQuery& q) : axes_(q) {}
  static Result<std::unique_ptr<NativeProgram>> make(const NativeQuery& q) {
    RLX_TRY(const IsaLevel isa, activeIsa());
    auto d = std::make_unique<DotProgram>(q);
    RLX_TRY(d->kernels_, GemmKernels::get(isa, Elements<Sum>::kKernels));
    RLX_TRY(d->constantKernels_, GemmKernels::get(isa, Elements<W>::kKernels));
    return std::unique_ptr<NativeProgram>(std::move(d));
  }

  Status run(const NativeCall& call) override {
    const Problem p = problem(call);
    if (p.empty()) {
      p.finish(0, p.m.extent * p.batch, 0, p.n.extent);
      return Ok{};
    }
    if (axes_.constantRight) {
      RLX_OK(packConstant(p, call.threads));
      runShared(p, packed_.data(), call.threads);
    } else if (p.batch > 1 && p.batch >= call.threads) {
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
    return static_cast<int64_t>(packed_.size() * sizeof(W) + scratch_.size() * sizeof(Sum));
  }
  Status prepare(const NativeCall& call) override {
    const Problem p = problem(call);
    return axes_.constantRight && !p.empty() ? packConstant(p, call.threads) : Status(Ok{});
  }
  // Parts are matrices of the batch or rows of them.
  void runPart(const NativeCall& call, int64_t units, int64_t begin, int64_t end) override {
    const Problem p = problem(call);
    if (p.empty()) {
      const int64_t rows = p.m.extent * p.batch / std::max<int64_t>(units, 1);
      return p.finish(rows * begin, rows * end, 0, p.n.extent);
    }
    if (!axes_.constantRight) {
      const int64_t all = p.m.extent * p.batch;
      return runBatches(p, all / units * begin, all / units * end);
    }
    const int64_t rows = p.m.extent / units, block = blockRows(p);
    for (int64_t r0 = rows * begin; r0 < rows * end; r0 += block)
      runBlock(p, packed_.data(), r0, std::min(rows * end, r0 + block), 0, p.panels);
  }
  int64_t grain(const NativeCall& call, int64_t units) const override {
    if (!axes_.constantRight) {
      // Results or terms of a few parts stay in the second cache; each part packs B again.
      const Problem p = problem(call);
      const int64_t all = std::max<int64_t>(1, p.m.extent * p.batch / units);
      const int64_t wanted = kPartSums / std::max<int64_t>({1, p.n.extent, p.ka.extent});
      return (std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, p.m.extent)) + all - 1) / all;
    }
    const int64_t rows = std::max<int64_t>(1, problem(call).m.extent / units);
    return (kGrainRows + rows - 1) / rows;
  }

 private:
  struct Problem : DotProblem<T, W, T> {
    using DotProblem<T, W, T>::DotProblem;
    int64_t nr = 0, panels = 0;
    int vectors = 1;
  };
  // Rows of A as the micro-kernels read them; strides count elements.
  struct Rows {
    const Sum* from;
    int64_t row, column;
  };
  static constexpr bool kWidens = !std::is_same_v<T, Sum>;
  static constexpr int64_t kBlockRows = 128;  // rows of A that stay in the second cache
  static constexpr int64_t kGrainRows = 32;   // rows for which reading B pays
  static constexpr int64_t kPartSums = 32 * 1024;
  // Of rows or a panel that are widened: they stay in the second cache.
  static constexpr int64_t kWideSums = 128 * 1024;
  static constexpr int64_t kWidenedRows = 48;  // rows for which widening a panel pays

  Problem problem(const NativeCall& call) const {
    Problem p(axes_, call);
    p.vectors = vectorsFor(p.n.extent, kernels_->lanes());
    p.nr = int64_t{p.vectors} * kernels_->lanes();
    p.panels = (p.n.extent + p.nr - 1) / p.nr;
    return p;
  }
  static Problem element(const Problem& p, int64_t i) {
    Problem one = p;
    one.select(i);
    return one;
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
  static void packAll(const Problem& p, W* to, int threads) {
    ThreadPool::parallelFor(threads, p.panels, [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j) pack(p, j, to + j * p.ka.extent * p.nr);
    });
  }
  template <class Panel>
  static void pack(const Problem& p, int64_t panel, Panel* to) {
    packPanel(p.b + panel * p.nr * p.n.stride, p.kb.stride, p.n.stride, p.ka.extent,
              std::min(p.nr, p.n.extent - panel * p.nr), p.nr, to);
  }

  enum class Use : uint8_t { Rows, Panel };
  // Memory of this thread, kept from call to call.
  template <Use>
  static Sum* threadMemory(int64_t count) {
    thread_local std::vector<Sum> memory;
    if (const auto size = static_cast<std::size_t>(count); memory.size() < size)
      memory.resize(size);
    return memory.data();
  }
  // The most rows of A that rowsOf takes.
  static int64_t mostRows(const Problem& p) {
    if (!kWidens) return p.m.extent;
    return std::max(kGrainRows, kWideSums / p.ka.extent / kMaxRows * kMaxRows);
  }
  static int64_t blockRows(const Problem& p) { return std::min(kBlockRows, mostRows(p)); }
  // Rows [r0, r1) of A, widened into memory of this thread where they need it; valid until the next
  // call there.
  static Rows rowsOf(const Problem& p, int64_t r0, int64_t r1) {
    const T* const a = p.a + r0 * p.m.stride;
    if constexpr (kWidens) {
      // Line by line in the order of memory. Lines of a power of 2 would share a set of the cache.
      constexpr int64_t kGap = 16;
      const bool alongRows = p.m.stride == 1;
      const int64_t lines = alongRows ? p.ka.extent : r1 - r0;
      const int64_t length = alongRows ? r1 - r0 : p.ka.extent, pitch = length + kGap;
      const Axis &across = alongRows ? p.ka : p.m, &along = alongRows ? p.m : p.ka;
      Sum* const wide = threadMemory<Use::Rows>(lines * pitch);
      for (int64_t i = 0; i < lines; ++i)
        copyRow(a + i * across.stride, along.stride, wide + i * pitch, length);
      return alongRows ? Rows{wide, 1, pitch} : Rows{wide, pitch, 1};
    } else {
      return {a, p.m.stride, p.ka.stride};
    }
  }

  template <class Panel>
  const GemmKernels& kernels() const {
    return std::is_same_v<Panel, Sum> ? *kernels_ : *constantKernels_;
  }

  static constexpr int64_t kMostPrefetch = 4096;  // bytes with one tile: more would stall it
  enum class Ahead : uint8_t { No, Yes };
  // Rows [r0, r1), which `rows` are, of panel j. Ahead: another packed panel follows in memory.
  template <class Panel>
  void tile(const Problem& p, const Rows& rows, const Panel* panel, int64_t j, int64_t r0,
            int64_t r1, Ahead ahead) const {
    const int64_t width = std::min(p.nr, p.n.extent - j * p.nr);
    GemmArgs args{};
    args.rowBytes = rows.row * kSumBytes, args.colBytes = rows.column * kSumBytes;
    args.cRowBytes = (kWidens ? p.nr : p.cRow) * kSumBytes;
    args.b = panel;
    args.k = p.ka.extent;
    // The next panel is fetched meanwhile, a share of it with each tile; it may be another
    // matrix's.
    const int64_t panelBytes = p.ka.extent * p.nr * static_cast<int64_t>(sizeof(Panel));
    const int64_t mr = kernels_->rows(p.vectors);
    const int64_t share = std::min(kMostPrefetch, panelBytes * mr / std::max(r1 - r0, mr));
    const char* next = reinterpret_cast<const char*>(panel) + panelBytes;
    for (int64_t i = r0; i < r1; i += mr) {
      for (int64_t b = 0; ahead == Ahead::Yes && b < share; b += 64) __builtin_prefetch(next + b);
      next += share;
      args.a = rows.from + (i - r0) * rows.row;
      multiply(p, kernels<Panel>(), args, std::min(mr, r1 - i), p.c + i * p.cRow + j * p.nr, width);
    }
    p.finish(r0, r1, j * p.nr, j * p.nr + width);
  }
  // One tile of `rows` rows to c, rounded where sums are wider.
  static void multiply(const Problem& p, const GemmKernels& kernels, GemmArgs& args, int64_t rows,
                       T* c, int64_t width) {
    if constexpr (kWidens) {
      alignas(kMaxVectorBytes) Sum sums[kMaxRows * kMaxVectors * kMaxLanes];
      args.c = sums;
      kernels.kernel(static_cast<int>(rows), p.vectors)(&args);
      for (int64_t r = 0; r < rows; ++r) narrowRow(sums + r * p.nr, c + r * p.cRow, width);
    } else {
      args.c = c;
      kernels.run(args, static_cast<int>(rows), p.vectors, width);
    }
  }
  // Rows [r0, r1), at most blockRows, of panels [from, to).
  void runBlock(const Problem& p, const W* packed, int64_t r0, int64_t r1, int64_t from,
                int64_t to) const {
    const Rows rows = rowsOf(p, r0, r1);
    const int64_t size = p.ka.extent * p.nr;
    for (int64_t j = from; j < to; ++j)
      if (std::is_same_v<W, Sum> || r1 - r0 < kWidenedRows || size > kWideSums)
        tile(p, rows, packed + j * size, j, r0, r1, Ahead::Yes);
      else
        tile(p, rows, widened(packed + j * size, size), j, r0, r1, Ahead::No);
  }
  // A panel, or a copy that is valid until the next call of this thread.
  static const Sum* widened(const Sum* panel, int64_t) { return panel; }
  static const Sum* widened(const auto* panel, int64_t size) {
    Sum* const to = threadMemory<Use::Panel>(size);
    copyRow(panel, 1, to, size);
    return to;
  }

  // One matrix, B packed: the (row block, panel) tiles are shared out. Row blocks keep A in L2.
  void runShared(const Problem& p, const W* packed, int threads) const {
    const int64_t mr = kernels_->rows(p.vectors);
    int64_t block = (p.m.extent + threads - 1) / threads;
    block = std::clamp<int64_t>((block + mr - 1) / mr * mr, mr, blockRows(p));
    const int64_t blocks = (p.m.extent + block - 1) / block;
    // Few row blocks: split the panels as well, in groups.
    const int64_t groups =
        blocks >= threads ? 1 : std::min<int64_t>(p.panels, (threads + blocks - 1) / blocks);
    ThreadPool::parallelFor(threads, blocks * groups, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t r0 = t / groups * block, r1 = std::min(p.m.extent, r0 + block);
        const int64_t g = t % groups;
        runBlock(p, packed, r0, r1, p.panels * g / groups, p.panels * (g + 1) / groups);
      }
    });
  }

  // One matrix whose B changes from call to call: its columns are shared out, so that a thread
  // reads no panel that another packed. Panels are as even as can be.
  void runColumns(const Problem& p, Sum* scratch, int threads) const {
    const int64_t lanes = kernels_->lanes(), all = (p.n.extent + lanes - 1) / lanes;
    const int64_t parts = std::min<int64_t>(threads, all);
    ThreadPool::parallelFor(threads, parts, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t)
        runVectors(p, scratch, all * t / parts, all * (t + 1) / parts);
    });
  }
  // Vectors [begin, end) of the columns.
  void runVectors(const Problem& p, Sum* scratch, int64_t begin, int64_t end) const {
    const int64_t lanes = kernels_->lanes(), vectors = end - begin;
    const int64_t panels = (vectors + kMaxVectors - 1) / kMaxVectors;
    const auto first = [&](int64_t j) { return begin + vectors * j / panels; };
    const auto at = [&](int64_t j) { return scratch + first(j) * lanes * p.ka.extent; };
    const int64_t block = blockRows(p);
    for (int64_t r0 = 0; r0 < p.m.extent; r0 += block) {
      const int64_t r1 = std::min(p.m.extent, r0 + block);
      const Rows rows = rowsOf(p, r0, r1);
      for (int64_t j = 0; j < panels; ++j) {
        const Problem one = columns(p, first(j), first(j + 1));
        if (r0 == 0) pack(one, 0, at(j));
        tile(one, rows, at(j), 0, r0, r1, j + 1 < panels ? Ahead::Yes : Ahead::No);
      }
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
    Sum* const panel = threadMemory<Use::Panel>(p.ka.extent * p.nr);
    for (int64_t row = begin; row < end;) {
      const int64_t i = row / p.m.extent, r0 = row % p.m.extent;
      const int64_t r1 = std::min({p.m.extent, r0 + end - row, r0 + mostRows(p)});
      row += r1 - r0;
      const Problem one = element(p, i);
      const Rows rows = rowsOf(one, r0, r1);
      for (int64_t j = 0; j < p.panels; ++j) {
        pack(one, j, panel);
        tile(one, rows, panel, j, r0, r1, Ahead::No);
      }
    }
  }

  const GemmKernels *kernels_ = nullptr, *constantKernels_ = nullptr;
  DotAxes axes_;
  Packed<W> packed_;
  std::vector<Sum> scratch_;
};

template <class T>
Status acceptsDot(const NativeQuery& q) {
  constexpr DType kDType = Elements<T>::kDType;
  RLX_OK(acceptsDType(q, kDType));
  const StridedView &l = q.operands[0], &r = q.operands[1];
  if (l.dtype != kDType || !((bit(kDType) | Elements<T>::kWidens) & bit(r.dtype)))
    return Error(Errc::Unsupported, "operands of dtypes " + std::string(name(l.dtype)) + " and " +
                                        std::string(name(r.dtype)));
  return acceptsAxes(q);
}

// The pixels.
std::size_t columnsOfConv(const NativeQuery& q) {
  return q.operands[0].shape.size() - 2;
}

template <class T>
Result<std::unique_ptr<NativeProgram>> makeDot(const NativeQuery& q) {
  return DotProgram<T, T>::make(q);
}
// A weight that is converted to f32 stays in its 16 bits.
template <>
Result<std::unique_ptr<NativeProgram>> makeDot<float>(const NativeQuery& q) {
  const DType weight = q.operands[1].dtype;
  return weight == DType::F16    ? DotProgram<float, F16>::make(q)
         : weight == DType::BF16 ? DotProgram<float, BF16>::make(q)
                                 : DotProgram<float, float>::make(q);
}

template <class T>
constexpr NativeKernel gemm(std::string_view name) {
  return {OpKind::DotGeneral, name,       &acceptsDot<T>, &makeDot<T>,         false,
          &leadingOfDot,      &dotWrites, &columnsOfDot,  Elements<T>::kWidens};
}

constinit const NativeKernel kNatives[] = {
    {OpKind::Conv, "conv f32", &acceptsConv, &makeConv, false, nullptr, nullptr, &columnsOfConv},
    {OpKind::Pool, "pool f32", &acceptsPool, &makePool, false, nullptr, nullptr, &columnsOfPool},
    gemm<float>("gemm f32"),
    gemm<double>("gemm f64"),
    gemm<F16>("gemm f16"),
    gemm<BF16>("gemm bf16"),
    {OpKind::DotGeneral, "gemm int8", &acceptsInt8Dot, &makeInt8Dot, false, &leadingOfDot,
     &dotWrites, &columnsOfDot},
};

}  // namespace

std::span<const NativeKernel> natives() {
  return kNatives;
}

}  // namespace rlx::cpu
