// What a device can do, as plain data. The legaliser, the scheduler and dispatch read it; nothing asks
// for a device by name.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "ir/dtype.h"

namespace rlx {

struct Caps {
  uint32_t arithmetic = 0;  // bit per DType: may be the type of an Apply
  uint32_t storage = 0;     // bit per DType: may be the type of a Load or Store
  bool groups = false;      // lanes, shared memory and barriers exist (GPU style); otherwise Vector loops
  int32_t maxLanes = 1;     // per group
  int32_t lanes = 1;        // preferred per group
  int64_t sharedBytes = 0;
  std::array<int64_t, 3> maxGrid{INT32_MAX, 1, 1};
  int64_t maxBinding = INT64_MAX;  // bytes of one buffer binding
  int32_t maxBindings = 64;        // buffers of one kernel
  int32_t maxParamBytes = 4096;
  bool keepsSubnormals = true;
  bool unifiedMemory = false;  // host pointers are device pointers
  bool hostMemory = false;     // with parts: inputs and results are used where the caller has them
  bool parts = false;          // Device::runGroups works: steps may run in parts on host threads
  int32_t vectorBits = 0;      // width of Vector loops; 0: none
  int32_t threads = 1;
};

constexpr uint32_t bit(DType t) { return uint32_t{1} << static_cast<int>(t); }
constexpr bool canCompute(const Caps& c, DType t) { return (c.arithmetic & bit(t)) != 0; }
constexpr bool canStore(const Caps& c, DType t) { return (c.storage & bit(t)) != 0; }

}  // namespace rlx
