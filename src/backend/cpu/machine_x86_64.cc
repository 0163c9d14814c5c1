// Machine code for x86-64: the emitter as targets of the device.
#include "backend/cpu/cpu.h"
#include "backend/cpu/target.h"
#include "kir/verify.h"

namespace rlx::cpu {
namespace {

Result<std::string> describe() {
  RLX_TRY(const IsaLevel isa, activeIsa());
  return std::string(isa == IsaLevel::Avx512 ? "x86-64 AVX-512" : "x86-64 AVX2");
}

Result<Code> emit(const kir::Kernel& kernel, const Caps&) {
  RLX_OK(kir::verify(kernel));
  RLX_TRY(const IsaLevel isa, activeIsa());
  Code c;
  c.kernel = kernel.name;
  RLX_TRY(c.binary, emitKernel(kernel, isa));
  c.globals = static_cast<uint32_t>(kir::globalCount(kernel));
  c.params = static_cast<uint32_t>(kernel.params.size());
  return c;
}

Result<std::vector<LoadedKernel>> load(std::span<const Code> codes) {
  std::vector<LoadedKernel> out;
  for (const Code& code : codes) {
    RLX_TRY(ExecutableMemory made, ExecutableMemory::create(code.binary));
    auto memory = std::make_shared<const ExecutableMemory>(std::move(made));
    out.push_back({memory->entry(), memory});
  }
  return out;
}

}  // namespace

Result<IsaLevel> activeIsa() {
  RLX_TRY(const std::string_view wanted, wantedIsa());
  if (wanted == "cxx")
    return Error(Errc::Unsupported, "RLX_CPU_ISA=cxx: kernels are compiled C++, not machine code");
  RLX_TRY(const IsaLevel best, detectIsa());
  return wanted == "avx2" ? IsaLevel::Avx2 : best;
}

Vnni activeVnni() {
  const auto isa = activeIsa();
  const auto wanted = wantedIsa();
  return isa && wanted && *wanted != "avx2" ? detectVnni(*isa) : Vnni::No;
}

Result<const Target*> machineTarget() {
  static constexpr Target kAvx2{"x86-64", 256, &describe, &emit, &load};
  static constexpr Target kAvx512{"x86-64", 512, &describe, &emit, &load};
  RLX_TRY(const IsaLevel isa, activeIsa());
  return isa == IsaLevel::Avx512 ? &kAvx512 : &kAvx2;
}

}  // namespace rlx::cpu
