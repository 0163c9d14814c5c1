// Generated contraction micro-kernels: an MR x NR tile of C = A * B with B packed in NR-column
// panels. Machine code, because intrinsics leave register allocation of the accumulators to the
// compiler.
#pragma once
#include <cstdint>
#include <memory>

#include "backend/cpu/emitter.h"
#include "base/result.h"

namespace rlx::cpu {

// What a micro-kernel adds up: A, B, C and the sums f32 or f64; or these f32 and B in 16 bits,
// which are widened as they are loaded.
enum class GemmType : uint8_t { F32, F64, F16Panels, BF16Panels };
inline constexpr int kGemmTypes = 4;

// A: row i, column k at a + i * rowBytes + k * colBytes. B: K rows of NR elements, bRowBytes apart.
// C: row i at c + i * cRowBytes, NR elements each, overwritten.
struct GemmArgs {
  const void* a;
  int64_t rowBytes, colBytes;
  const void* b;
  void* c;
  int64_t cRowBytes;
  int64_t k;
  int64_t bRowBytes;  // 0: B is packed, NR elements
  // From an element of A and a row of B to what is fetched with them; 0: nothing, or a page of B
  // where it is packed.
  int64_t aheadBytes, bAheadBytes;
  const void* start;  // by row, what its sums start from, as A; null: 0
};
using GemmFn = void (*)(const GemmArgs*);

inline constexpr int kMaxVectors = 3;  // vectors across a panel
inline constexpr int kMaxRows = 8, kMaxLanes = 16, kMaxVectorBytes = 64;

// Kernels of one type for 1..rows(v) rows and v = 1..kMaxVectors vectors, made once per process.
class GemmKernels {
 public:
  static Result<const GemmKernels*> get(IsaLevel isa, GemmType type);
  // MR
  int rows(int vectors) const { return rows_[vectors - 1]; }
  int lanes() const { return lanes_; }  // sums per vector; NR = lanes * vectors
  GemmFn kernel(int rows, int vectors) const { return kernels_[rows - 1][vectors - 1]; }
  // One tile of which only the first `width` columns are written.
  // By reference: a copy would be read in wider pieces than it was just written in, and so wait for
  // every store before it, the results of the last tile among them.
  void run(const GemmArgs& args, int rows, int vectors, int64_t width) const;

 private:
  GemmKernels() = default;
  int rows_[kMaxVectors] = {}, lanes_ = 0, sumBytes_ = 0;
  GemmFn kernels_[kMaxRows][kMaxVectors] = {};
  ExecutableMemory memory_[kMaxRows][kMaxVectors];
  friend struct GemmKernelFactory;
};

// Vectors across a panel for results of n columns.
int vectorsFor(int64_t n, int lanes);

}  // namespace rlx::cpu
