// What a call of a program needs beyond the program: sizes, memory and, on devices that work on
// host memory, the calls of its kernels. Made once per set of symbol values; a later call of the
// same sizes allocates nothing.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/device.h"
#include "runtime/trace.h"
#include "schedule/memory_plan.h"
#include "schedule/program.h"

namespace rlx {

// The epilogue kernel of a native step, over any part of its result.
class StepEpilogue final : public NativeEpilogue {
 public:
  void apply(int64_t rowBegin, int64_t rowEnd, int64_t columnBegin,
             int64_t columnEnd) const override;

  Device* device = nullptr;
  KernelId kernel = 0;
  std::array<int64_t, 3> grid{};
  std::vector<int32_t> params;
  std::vector<std::byte*> globals;
};

struct CallPlan {
  std::vector<std::pair<DType, std::vector<int64_t>>> inputs;  // types of the call, by port
  Bindings bindings;
  MemoryPlan memory;
  struct StepPlan {
    std::array<int64_t, 3> grid{};
    std::vector<int32_t> params;
    std::vector<int64_t> offsets;  // native: of the operands, in bytes
    NativeCall call;               // native: sizes, and on host memory the addresses
    std::unique_ptr<StepEpilogue> after;
    std::vector<std::byte*> globals;  // kernel on host memory
    std::vector<BufferSlice> slices;  // kernel elsewhere
  };
  std::vector<StepPlan> steps;
  struct ChainPlan {
    int64_t units = 0, grain = 1;
    int64_t parts = 0;  // 0: too little work to share out, each step finds its own way
  };
  std::vector<ChainPlan> chains;
  std::vector<std::vector<int64_t>> outputShapes;
  std::vector<std::byte*> bases;  // by program buffer: the addresses in `steps`
};

// `kernels` by step. Fails with Unsupported where a size leaves what kernels take, and as
// planMemory does.
Result<std::unique_ptr<CallPlan>> makeCallPlan(const Program& program, Bindings bindings,
                                               Device& device,
                                               const std::vector<KernelId>& kernels);

// The functions below are for devices whose launches run in parts (Caps::parts).

// Puts the addresses of the program's buffers into the calls of the plan.
void setAddresses(const Program& program, CallPlan& plan, const std::vector<std::byte*>& bases);
Status runStep(const Program& program, CallPlan& plan, std::size_t step, Device& device,
               KernelId kernel);
// A chain whose plan has parts.
// `trace`, where it is not null, gets every step of every part.
Status runChain(const Program& program, CallPlan& plan, std::size_t chain, Device& device,
                const std::vector<KernelId>& kernels, Trace* trace);

}  // namespace rlx
