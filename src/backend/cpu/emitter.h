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

#include "backend/cpu/kernel_fn.h"
#include "base/result.h"
#include "kir/kernel.h"

namespace rlx::cpu {

enum class IsaLevel : uint8_t {
  Avx2,    // AVX2, FMA, F16C, BMI2
  Avx512,  // and AVX-512 F, BW, DQ, VL
};

// The highest level that the processor and the operating system allow. Fails on a machine below
// Avx2.
Result<IsaLevel> detectIsa();
// Whether vpdpbusd exists for the vectors of that level, by AVX-VNNI or AVX512-VNNI.
enum class Vnni : bool { No, Yes };
Vnni detectVnni(IsaLevel isa);

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
