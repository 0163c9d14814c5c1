// What the files of the CPU backend share.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "backend/cpu/emitter.h"
#include "schedule/native.h"

namespace rlx::cpu {

// The level in use: what the machine has, lowered by RLX_CPU_ISA. Unsupported where kernels are
// not machine code.
Result<IsaLevel> activeIsa();
// Whether vpdpbusd is used at that level; RLX_CPU_ISA=avx2 stands for AVX2 without it.
Vnni activeVnni();
std::span<const NativeKernel> natives();
// Whole cache lines, so that vector tails of neighbours never share one; from 2 MiB on whole huge
// pages, as far as the system gives them. Uninitialised; null when there is none; for std::free.
std::byte* allocateMemory(std::size_t bytes);

// The axes of an operand seen as one: each stride is the next one times its extent.
struct Axis {
  int64_t extent = 1, stride = 0;
};
bool mergeable(const StridedView& v, const std::vector<int64_t>& axes);
Axis merged(const NativeTensor& t, const std::vector<int64_t>& axes);
// Every kernel of one dtype here: Unsupported for results of others and without the instructions.
Status acceptsDType(const NativeQuery& q, DType dtype);

}  // namespace rlx::cpu
