// What a caller may ask of a compilation. One struct: the command line, the C++ face and the C ABI
// fill it.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ir/dim.h"

namespace rlx {

enum class Policy : uint8_t { PreferNative, ForceCommon, ForceNative };

struct CompileOptions {
  std::string device = "cpu";
  int32_t deviceIndex = 0;
  int32_t threads = 0;  // 0: what cgroup and affinity allow
  Policy policy = Policy::PreferNative;
  std::vector<std::pair<std::string, Policy>> opPolicies;    // by op name
  std::vector<std::pair<std::string, Policy>> nodePolicies;  // by node name
  std::vector<std::pair<std::string, int64_t>> dims;         // symbols fixed to a value
  std::vector<std::string> allowHost;                        // ops that may run on the host
  std::string cacheDir;
};

}  // namespace rlx
