// What the CPU device runs kernels with: machine code of the x86-64 emitter where the processor has
// the instructions, C++ compiled by the system's compiler everywhere else. A record each, so that
// the device knows neither.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/kernel_fn.h"
#include "runtime/device.h"

namespace rlx::cpu {

struct LoadedKernel {
  KernelFn run = nullptr;
  std::shared_ptr<const void> owner;  // of the code that `run` is in
};

struct Target {
  std::string_view dialect;
  int vectorBits;  // of vector loops
  // What it is, for people: "x86-64 AVX2". Fails where kernels cannot be loaded.
  Result<std::string> (*describe)();
  // A kernel to code; needs nothing of the machine. Unsupported names the construct.
  Result<Code> (*emit)(const kir::Kernel&, const Caps&);
  // Makes the code of several kernels executable, in their order.
  Result<std::vector<LoadedKernel>> (*load)(std::span<const Code>);
};

// The value of RLX_CPU_ISA: "" (the best there is), "avx512", "avx2" or "cxx". InvalidArgument for
// another.
Result<std::string_view> wantedIsa();
// Machine code for this processor, at most what RLX_CPU_ISA allows. Unsupported says what is
// lacking.
Result<const Target*> machineTarget();
// C++ compiled by RLX_CXX, else c++. Without such a compiler `describe` and `load` fail with
// NoCompiler.
const Target& cxxTarget();
// The one in use. It stays the same while the process runs.
Result<const Target*> activeTarget();

}  // namespace rlx::cpu
