// vpdpbusd multiplies unsigned by signed bytes. A signed left operand is stored as a + 128, an
// unsigned right one as b - 128, and the sums start from what that adds:
//   ab = (a + 128) b - 128 * (b's column sums), ab = a (b - 128) + 128 * (a's row sums).
// Without vpdpbusd both are widened to 16 bits, which is exact for every mix of signs.
#include "backend/cpu/dot_int8.h"

#include <algorithm>
#include <string>
#include <vector>

#include "backend/cpu/cpu.h"
#include "backend/cpu/dot_axes.h"
#include "backend/cpu/gemm_int8_kernel.h"
#include "backend/cpu/int8_code.h"
#include "backend/cpu/packed.h"
#include "base/threads.h"

namespace rlx::cpu {
namespace {

constexpr uint8_t kSignBit = 128;
constexpr int64_t kWord = 4;
constexpr int64_t kBlockRows = 128, kBlockBytes = 256 * 1024;  // of A: stay in the second cache
constexpr int64_t kGrainRows = 32;                             // rows for which reading B pays
constexpr int64_t kPackingRows = 128;                          // and for which packing it does

class Int8Dot final : public NativeProgram {
 public:
  Int8Dot(const NativeQuery& q, const Int8Kernels* kernels)
      : kernels_(kernels),
        axes_(q),
        leftSigned_(isSigned(q.operands[0].dtype)),
        rightSigned_(isSigned(q.operands[1].dtype)),
        leftFlip_(vnni() && leftSigned_ ? kSignBit : 0),
        rightFlip_(vnni() && !rightSigned_ ? kSignBit : 0) {}

  Status run(const NativeCall& call) override {
    const Problem p = problem(call);
    if (p.empty()) {
      p.finish(0, p.m.extent * p.batch, 0, p.n.extent);
      return Ok{};
    }
    if (axes_.constantRight) {
      RLX_OK(packConstant(p, call.threads));
      runShared(p, constant(), call.threads);
    } else if (p.batch >= call.threads || call.threads == 1) {
      ThreadPool::parallelFor(call.threads, p.batch, [&](int64_t begin, int64_t end) {
        runRows(p, begin * p.m.extent, end * p.m.extent);
      });
    } else {
      for (int64_t i = 0; i < p.batch; ++i) {
        const Problem one = element(p, i);
        if (scratch_.size() < one.packedBytes()) scratch_.resize(one.packedBytes());
        packAll(one, scratch_.data(), call.threads);
        runShared(one, scratch_.data(), call.threads);
      }
    }
    return Ok{};
  }
  int64_t memory() const override {
    return static_cast<int64_t>(packed_.size() * sizeof(float) + scratch_.size());
  }
  Status prepare(const NativeCall& call) override {
    const Problem p = problem(call);
    return axes_.constantRight && !p.empty() ? packConstant(p, call.threads) : Status(Ok{});
  }
  // Parts are matrices of the batch or rows of them.
  void runPart(const NativeCall& call, int64_t units, int64_t begin, int64_t end) override {
    const Problem p = problem(call);
    const int64_t rows = p.m.extent * p.batch / std::max<int64_t>(units, 1);
    if (p.empty()) return p.finish(rows * begin, rows * end, 0, p.n.extent);
    if (!axes_.constantRight) return runRows(p, rows * begin, rows * end);
    multiply(p, constant(), rows * begin, rows * end, 0, p.panels);
  }
  int64_t grain(const NativeCall& call, int64_t units) const override {
    const Problem p = problem(call);
    const int64_t rows = std::max<int64_t>(1, p.m.extent * p.batch / std::max<int64_t>(units, 1));
    const int64_t wanted =
        axes_.constantRight ? kGrainRows : std::clamp<int64_t>(p.m.extent, 1, kPackingRows);
    return (wanted + rows - 1) / rows;
  }

 private:
  struct Problem : DotProblem<uint8_t, uint8_t, int32_t> {
    using DotProblem::DotProblem;
    int64_t groups = 0, nr = 0, panels = 0;
    int vectors = 1;
    // Of a panel: what the sums of its columns start from, then its words.
    int64_t panelBytes() const { return (1 + groups) * nr * kWord; }
    std::size_t packedBytes() const { return static_cast<std::size_t>(panels * panelBytes()); }
    int64_t width(int64_t j) const { return std::min(nr, n.extent - j * nr); }
  };
  // Rows of A as the kernels read them.
  struct Block {
    std::vector<std::byte> words;
    std::vector<int32_t> starts;  // of the sums, by row
    int64_t rowBytes = 0;
  };

  bool vnni() const { return kernels_->vnni() == Vnni::Yes; }
  std::byte* constant() const { return reinterpret_cast<std::byte*>(packed_.data()); }

  Problem problem(const NativeCall& call) const {
    Problem p(axes_, call);
    p.groups = (p.ka.extent + kernels_->depth() - 1) / kernels_->depth();
    p.vectors = std::min(vectorsFor(p.n.extent, kernels_->lanes()), kernels_->mostVectors());
    p.nr = int64_t{p.vectors} * kernels_->lanes();
    p.panels = (p.n.extent + p.nr - 1) / p.nr;
    return p;
  }
  static Problem element(const Problem& p, int64_t i) {
    Problem one = p;
    one.select(i);
    return one;
  }

  Status packConstant(const Problem& p, int threads) {
    if (!packed_.empty()) return Ok{};
    RLX_OK(packed_.allocate(p.packedBytes() / sizeof(float)));
    packAll(p, constant(), threads);
    return Ok{};
  }
  void packAll(const Problem& p, std::byte* to, int threads) const {
    ThreadPool::parallelFor(threads, p.panels, [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j) {
        std::byte* const panel = to + j * p.panelBytes();
        std::byte* const words = panel + p.nr * kWord;
        if (vnni())
          packBytes(p, j, reinterpret_cast<uint8_t*>(words));
        else
          packPairs(p, j, reinterpret_cast<int16_t*>(words));
        startColumns(p, reinterpret_cast<int32_t*>(panel), words);
      }
    });
  }
  // Panel j in words of four values. Zeros behind k and behind the last column.
  void packBytes(const Problem& p, int64_t j, uint8_t* to) const {
    const int64_t width = p.width(j);
    const uint8_t* const from = p.b + j * p.nr * p.n.stride;
    for (int64_t k = 0; k < p.ka.extent; k += 4, to += p.nr * kWord) {
      const int64_t deep = std::min<int64_t>(4, p.ka.extent - k);
      if (deep < 4 || width < p.nr) std::fill_n(to, p.nr * kWord, uint8_t{0});
      const uint8_t* const row = from + k * p.kb.stride;
      if (deep == 4 && p.n.stride == 1) {
        interleaveRows(row, p.kb.stride, rightFlip_, width, to);
        continue;
      }
      if (deep == 4 && p.kb.stride == 1) {
        copyWords(row, p.n.stride, rightFlip_, width, to);
        continue;
      }
      for (int64_t i = 0; i < width; ++i)
        for (int64_t t = 0; t < deep; ++t)
          to[i * 4 + t] = static_cast<uint8_t>(row[t * p.kb.stride + i * p.n.stride] ^ rightFlip_);
    }
  }
  // The same in words of two values.
  void packPairs(const Problem& p, int64_t j, int16_t* to) const {
    const int64_t width = p.width(j);
    const uint8_t* const from = p.b + j * p.nr * p.n.stride;
    for (int64_t k = 0; k < p.ka.extent; k += 2, to += p.nr * 2) {
      const int64_t deep = std::min<int64_t>(2, p.ka.extent - k);
      if (deep < 2 || width < p.nr) std::fill_n(to, p.nr * 2, int16_t{0});
      for (int64_t i = 0; i < width; ++i)
        for (int64_t t = 0; t < deep; ++t) {
          const uint8_t x = from[(k + t) * p.kb.stride + i * p.n.stride];
          to[i * 2 + t] = rightSigned_ ? static_cast<int8_t>(x) : x;
        }
    }
  }
  // Sums of columns are products with a row of ones.
  void startColumns(const Problem& p, int32_t* starts, const std::byte* words) const {
    std::fill_n(starts, p.nr, 0);
    if (!leftFlip_) return;
    thread_local std::vector<std::byte> ones;
    ones.assign(static_cast<std::size_t>(p.groups * kWord), std::byte{1});
    const int32_t zero = 0;
    int32_t sums[kMaxVectors * kMaxLanes];
    kernels_->run({ones.data(), 0, words, sums, 0, p.groups, &zero, starts}, 1, p.vectors, p.nr);
    for (int64_t j = 0; j < p.nr; ++j)
      starts[j] = static_cast<int32_t>(0u - kSignBit * static_cast<uint32_t>(sums[j]));
  }

  // Rows [r0, r1) of A.
  void copyRows(const Problem& p, int64_t r0, int64_t r1, Block& to) const {
    // Not a whole number of pages apart, so that the rows of a tile lie in different sets.
    to.rowBytes = (p.groups * kWord + 63) / 64 * 64 | 64;
    const auto rows = static_cast<std::size_t>(r1 - r0);
    const std::size_t bytes = rows * static_cast<std::size_t>(to.rowBytes);
    if (to.words.size() < bytes) to.words.resize(bytes);
    to.starts.assign(rows, 0);
    for (int64_t r = r0; r < r1; ++r) {
      std::byte* const row = to.words.data() + (r - r0) * to.rowBytes;
      const uint8_t* const from = p.a + r * p.m.stride;
      std::fill_n(row + (p.groups - 1) * kWord, kWord, std::byte{0});
      if (vnni())
        to.starts[static_cast<std::size_t>(r - r0)] =
            copyBytesOf(p, from, reinterpret_cast<uint8_t*>(row));
      else
        copyPairsOf(p, from, reinterpret_cast<int16_t*>(row));
    }
  }
  // One row; returns what its sums start from.
  int32_t copyBytesOf(const Problem& p, const uint8_t* from, uint8_t* to) const {
    uint32_t sum = 0;
    if (p.ka.stride == 1)
      sum = copyBytes(from, leftFlip_, p.ka.extent, to);
    else
      for (int64_t k = 0; k < p.ka.extent; ++k)
        sum += to[k] = static_cast<uint8_t>(from[k * p.ka.stride] ^ leftFlip_);
    if (!rightFlip_) return 0;
    return static_cast<int32_t>(rightFlip_ *
                                (sum - leftFlip_ * static_cast<uint32_t>(p.ka.extent)));
  }
  void copyPairsOf(const Problem& p, const uint8_t* from, int16_t* to) const {
    if (p.ka.stride == 1) return widenBytes(from, leftSigned_, p.ka.extent, to);
    for (int64_t k = 0; k < p.ka.extent; ++k) {
      const uint8_t x = from[k * p.ka.stride];
      to[k] = leftSigned_ ? static_cast<int8_t>(x) : x;
    }
  }

  // Rows [r0, r1) x panels [j0, j1) of one matrix.
  void multiply(const Problem& p, const std::byte* packed, int64_t r0, int64_t r1, int64_t j0,
                int64_t j1) const {
    thread_local Block block;  // kept from call to call
    const int64_t mr = kernels_->rows(p.vectors);
    const int64_t most = std::min(kBlockRows, kBlockBytes / (p.groups * kWord));
    const int64_t rows = std::max(mr, most / mr * mr);
    for (int64_t i0 = r0; i0 < r1; i0 += rows) {
      const int64_t i1 = std::min(r1, i0 + rows);
      copyRows(p, i0, i1, block);
      for (int64_t j = j0; j < j1; ++j) tile(p, block, packed + j * p.panelBytes(), j, i0, i1);
    }
  }
  // Rows [r0, r1), those of the block, of panel j.
  void tile(const Problem& p, const Block& block, const std::byte* panel, int64_t j, int64_t r0,
            int64_t r1) const {
    Int8Args args{};
    args.rowBytes = block.rowBytes, args.cRowBytes = p.cRow * kWord;
    args.columnStart = reinterpret_cast<const int32_t*>(panel);
    args.b = panel + p.nr * kWord;
    args.groups = p.groups;
    const int64_t mr = kernels_->rows(p.vectors), width = p.width(j);
    for (int64_t i = r0; i < r1; i += mr) {
      args.a = block.words.data() + (i - r0) * block.rowBytes;
      args.rowStart = block.starts.data() + (i - r0);
      args.c = p.c + i * p.cRow + j * p.nr;
      kernels_->run(args, static_cast<int>(std::min(mr, r1 - i)), p.vectors, width);
    }
    p.finish(r0, r1, j * p.nr, j * p.nr + width);
  }

  // One matrix, B packed: blocks of rows, where these are few also of panels, are shared out.
  void runShared(const Problem& p, const std::byte* packed, int threads) const {
    const int64_t mr = kernels_->rows(p.vectors);
    const int64_t each = (p.m.extent + threads - 1) / threads;
    const int64_t block = std::clamp<int64_t>((each + mr - 1) / mr * mr, mr, kBlockRows);
    const int64_t blocks = (p.m.extent + block - 1) / block;
    const int64_t shares =
        blocks >= threads ? 1 : std::min<int64_t>(p.panels, (threads + blocks - 1) / blocks);
    ThreadPool::parallelFor(threads, blocks * shares, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t r0 = t / shares * block, s = t % shares;
        multiply(p, packed, r0, std::min(p.m.extent, r0 + block), p.panels * s / shares,
                 p.panels * (s + 1) / shares);
      }
    });
  }

  // Rows [begin, end) of all matrices of the batch, B packed matrix by matrix.
  void runRows(const Problem& p, int64_t begin, int64_t end) const {
    thread_local std::vector<std::byte> packed;  // kept from call to call
    if (packed.size() < p.packedBytes()) packed.resize(p.packedBytes());
    for (int64_t row = begin; row < end;) {
      const int64_t i = row / p.m.extent, r0 = row % p.m.extent;
      const int64_t r1 = std::min(p.m.extent, r0 + end - row);
      row += r1 - r0;
      const Problem one = element(p, i);
      packAll(one, packed.data(), 1);
      multiply(one, packed.data(), r0, r1, 0, p.panels);
    }
  }

  const Int8Kernels* kernels_;
  DotAxes axes_;
  bool leftSigned_, rightSigned_;
  uint8_t leftFlip_, rightFlip_;  // what turns them into what vpdpbusd takes
  PackedFloats packed_;
  std::vector<std::byte> scratch_;
};

}  // namespace

Status acceptsInt8Dot(const NativeQuery& q) {
  if (!q.get().attrs.as<DotAttrs>().result)
    return Error(Errc::Unsupported, "no result dtype, takes i8 and u8 with result i32");
  auto isa = activeIsa();
  if (!isa) return std::move(isa).error();
  return acceptsAxes(q);
}

Result<std::unique_ptr<NativeProgram>> makeInt8Dot(const NativeQuery& q) {
  RLX_TRY(const IsaLevel isa, activeIsa());
  RLX_TRY(const Int8Kernels* const kernels, Int8Kernels::get(isa, activeVnni()));
  return int8Dot(q, kernels);
}

std::unique_ptr<NativeProgram> int8Dot(const NativeQuery& q, const Int8Kernels* kernels) {
  return std::make_unique<Int8Dot>(q, kernels);
}

}  // namespace rlx::cpu
