// Vulkan: compute shaders printed as GLSL, compiled to SPIR-V in process, run by whatever driver
// the Vulkan loader finds.
#include <cstring>

#include "backend/vulkan/vulkan.h"
#include "dialect/dialect.h"

namespace rlx::backend {
namespace {

// What every Vulkan 1.1 device has (the table of required limits).
Caps defaults() {
  Caps c = findDialect("glsl")->caps;
  c.maxLanes = 128;
  c.lanes = 64;
  c.maxBindings = 4;
  return c;
}

DeviceReport probe() {
  DeviceReport r;
  r.caps = defaults();
  auto instance = vulkan::Instance::open();
  if (!instance) {
    r.detail = instance.error().message();
    return r;
  }
  const vulkan::Gpu& gpu = (*instance)->gpus().front();
  r.status = DeviceStatus::Native;
  r.detail = gpu.description();
  r.library = (*instance)->api().library->name();
  r.caps = gpu.caps;
  return r;
}

Result<Code> emit(const kir::Kernel& kernel, const Caps& caps) {
  Code code;
  RLX_TRY(code.text, emitText(kernel, caps, *findDialect("glsl")));
  RLX_TRY(const std::vector<uint32_t> words, vulkan::compileGlsl(code.text));
  code.binary.resize(words.size() * sizeof(uint32_t));
  std::memcpy(code.binary.data(), words.data(), code.binary.size());
  code.kernel = kernel.name;
  code.block = kernel.block;
  code.globals = static_cast<uint32_t>(kir::globalCount(kernel));
  code.params = static_cast<uint32_t>(kernel.params.size());
  return code;
}

}  // namespace

const Backend& vulkanBackend();
const Backend& vulkanBackend() {
  static const Backend kBackend{.name = "vulkan",
                                .dialect = "glsl",
                                .defaultCaps = defaults(),
                                .probe = probe,
                                .open = vulkan::openDevice,
                                .emit = emit,
                                .natives = nullptr};
  return kBackend;
}

}  // namespace rlx::backend
