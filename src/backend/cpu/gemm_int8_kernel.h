// Generated 8-bit contraction micro-kernels: an MR x NR tile of C = A * B in i32, both operands
// packed in groups of one 32-bit word along k. Words of A are broadcast, so that each lane of a
// vector of B adds the products of its column.
#pragma once
#include <cstdint>
#include <memory>

#include "backend/cpu/emitter.h"
#include "backend/cpu/gemm_kernel.h"
#include "base/result.h"

namespace rlx::cpu {

// A: row i at a + i * rowBytes, `groups` words. B: for each group NR words, one a column. C: row i
// at c + i * cRowBytes, NR sums each, overwritten. Products and sums wrap.
struct Int8Args {
  const std::byte* a;
  int64_t rowBytes;
  const std::byte* b;
  int32_t* c;
  int64_t cRowBytes;
  int64_t groups;
  // Sums start from rowStart[i] + columnStart[j].
  const int32_t *rowStart, *columnStart;
};
using Int8Fn = void (*)(const Int8Args*);

// A word holds 4 unsigned (A) by 4 signed bytes (B) for vpdpbusd, or 2 by 2 signed 16-bit integers
// for vpmaddwd.
// Kernels for 1..rows(v) rows and v = 1..mostVectors() vectors, made once per process.
class Int8Kernels {
 public:
  // Requires what `isa` and `vnni` stand for; see activeIsa and activeVnni.
  static Result<const Int8Kernels*> get(IsaLevel isa, Vnni vnni);
  // MR
  int rows(int vectors) const { return rows_[vectors - 1]; }
  int lanes() const { return lanes_; }  // words per vector; NR = lanes * vectors
  int mostVectors() const { return mostVectors_; }
  Vnni vnni() const { return vnni_; }
  // Values along k in a word.
  int64_t depth() const { return vnni_ == Vnni::Yes ? 4 : 2; }
  // One tile of which only the first `width` columns are written.
  void run(const Int8Args& args, int rows, int vectors, int64_t width) const;

 private:
  Int8Kernels(IsaLevel isa, Vnni vnni);
  Status make(int rows, int vectors);
  bool wide_;
  Vnni vnni_;
  int lanes_, mostVectors_;
  int rows_[kMaxVectors] = {};
  Int8Fn kernels_[kMaxRows][kMaxVectors] = {};
  ExecutableMemory memory_[kMaxRows][kMaxVectors];
};

}  // namespace rlx::cpu
