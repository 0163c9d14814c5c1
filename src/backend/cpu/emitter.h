// The x86-64 emitter: one kernel of the kernel IR becomes machine code, without a compiler at run
// time. It stands apart from the device so that tests and tools emit without opening one.
//
// Contract of a kernel: buffers with different ids do not overlap, unless every element is read
// only by the iteration that writes it (in-place elementwise work). Index arithmetic does not
// overflow I32.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "kir/kernel.h"

namespace rlx::cpu {

// Runs groups begin..end of a launch; group g has the axes (g % grid[0], g / grid[0] % grid[1],
// ...).
using KernelFn = void (*)(std::byte* const* globals, const int32_t* params, const int64_t* grid,
                          int64_t begin, int64_t end);

enum class IsaLevel : uint8_t {
  Avx2,    // AVX2, FMA, F16C, BMI2
  Avx512,  // and AVX-512 F, BW, DQ, VL
};

// The highest level that the processor and the operating system allow. Fails on a machine below
// Avx2.
Result<IsaLevel> detectIsa();

// Position-independent code of `kernel`, its constants included; it calls functions of this process
// by address, so it is not for a file. Fails with Unsupported and the construct. Deterministic.
Result<std::vector<std::byte>> emitKernel(const kir::Kernel& kernel, IsaLevel isa);

// Owns code in memory that is first writable, then executable, never both.
class ExecutableMemory {
 public:
  static Result<ExecutableMemory> create(std::span<const std::byte> code);
  ExecutableMemory() = default;
  ExecutableMemory(ExecutableMemory&& other) noexcept;
  ExecutableMemory& operator=(ExecutableMemory&& other) noexcept;
  ExecutableMemory(const ExecutableMemory&) = delete;
  ExecutableMemory& operator=(const ExecutableMemory&) = delete;
  ~ExecutableMemory();
  // The entry point of a kernel; valid while this object lives.
  KernelFn entry() const { return reinterpret_cast<KernelFn>(address_); }

 private:
  void* address_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace rlx::cpu
