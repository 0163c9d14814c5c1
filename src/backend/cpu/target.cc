#include "backend/cpu/target.h"

#include <algorithm>

#include "base/env.h"

namespace rlx::cpu {
namespace {

constexpr std::string_view kIsas[] = {"", "avx512", "avx2", "cxx"};

Result<std::string_view> readIsa() {
  RLX_TRY(const EnvOptions env, readEnv());
  const auto* const at = std::find(std::begin(kIsas), std::end(kIsas), env.cpuIsa);
  if (at == std::end(kIsas))
    return Error(Errc::InvalidArgument,
                 "RLX_CPU_ISA='" + env.cpuIsa + "': expected avx512, avx2 or cxx");
  return *at;
}

}  // namespace

Result<std::string_view> wantedIsa() {
  static const Result<std::string_view> kWanted = readIsa();
  if (!kWanted) return kWanted.error().clone();
  return *kWanted;
}

Result<const Target*> activeTarget() {
  RLX_TRY(const std::string_view isa, wantedIsa());
  if (isa == "cxx") return &cxxTarget();
  auto machine = machineTarget();
  if (!machine && isa.empty()) return &cxxTarget();
  return machine;
}

}  // namespace rlx::cpu
