// The Vulkan library behind function pointers: found at run time, never linked.
#pragma once
#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

#include <memory>
#include <string>
#include <vector>

#include "base/dylib.h"
#include "runtime/device.h"

namespace rlx::backend::vulkan {

struct Api {
  std::shared_ptr<const DynamicLibrary> library;
#define RLX_VK(name) PFN_vk##name name = nullptr;
#include "backend/vulkan/symbols.def"
#undef RLX_VK
};

// "VK_ERROR_DEVICE_LOST (-4)".
std::string resultName(VkResult result);
// Device naming call and code; OutOfMemory for the two codes that mean it.
Status check(VkResult result, const char* call);

// A physical device and what it can do.
struct Gpu {
  VkPhysicalDevice handle{};
  VkPhysicalDeviceProperties properties{};
  std::string driver;  // "llvmpipe: Mesa 22.3.6 (LLVM 15.0.6)"
  uint32_t queueFamily = 0;
  Caps caps;
  bool half = false, int8 = false, int16 = false, int64 = false, float64 = false;
  bool storage8 = false, storage16 = false;
  std::string description() const;
};

// The library, an instance, and the devices that compute: GPUs first, software last.
class Instance {
 public:
  static Result<std::unique_ptr<Instance>> open();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;
  ~Instance();
  const Api& api() const { return api_; }
  VkInstance handle() const { return handle_; }
  const std::vector<Gpu>& gpus() const { return gpus_; }

 private:
  Instance() = default;
  Status enumerate();
  Api api_;
  VkInstance handle_{};
  std::vector<Gpu> gpus_;
};

Result<std::unique_ptr<Device>> openDevice(const OpenOptions& options);

// GLSL to SPIR-V 1.3. Internal with the compiler's log when it refuses our text.
Result<std::vector<uint32_t>> compileGlsl(const std::string& source);
// By binding number: whether the module only reads the storage buffer.
std::vector<bool> readOnlyBindings(std::span<const uint32_t> words, uint32_t bindings);

}  // namespace rlx::backend::vulkan
