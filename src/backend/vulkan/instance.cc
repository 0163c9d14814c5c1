#include <algorithm>

#include "backend/vulkan/vulkan.h"

namespace rlx::backend::vulkan {
namespace {

constexpr std::string_view kLibraries[] = {"libvulkan.so.1", "libvulkan.so", "libvulkan.1.dylib",
                                           "vulkan-1.dll"};

std::string version(uint32_t v) {
  return std::to_string(VK_API_VERSION_MAJOR(v)) + "." + std::to_string(VK_API_VERSION_MINOR(v)) +
         "." + std::to_string(VK_API_VERSION_PATCH(v));
}

// Software renderers come last: an index counts real devices first.
int rank(VkPhysicalDeviceType type) {
  if (type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU) return 0;
  if (type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU) return 1;
  if (type == VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU) return 2;
  return type == VK_PHYSICAL_DEVICE_TYPE_CPU ? 4 : 3;
}

template <class T>
T structure(VkStructureType type) {
  T t{};
  t.sType = type;
  return t;
}

Caps capsOf(const Gpu& g) {
  const VkPhysicalDeviceLimits& l = g.properties.limits;
  Caps c;
  c.arithmetic = bit(DType::F32) | bit(DType::I32) | bit(DType::U32) | bit(DType::Bool);
  if (g.float64) c.arithmetic |= bit(DType::F64);
  if (g.int64) c.arithmetic |= bit(DType::I64) | bit(DType::U64);
  c.storage = c.arithmetic & ~bit(DType::Bool);
  if (g.int8 && g.storage8) c.storage |= bit(DType::I8) | bit(DType::U8) | bit(DType::Bool);
  if (g.int16 && g.storage16) c.storage |= bit(DType::I16) | bit(DType::U16) | bit(DType::BF16);
  if (g.half && g.storage16) c.storage |= bit(DType::F16);
  auto clamp = [](uint32_t v) { return static_cast<int32_t>(std::min<uint32_t>(v, INT32_MAX)); };
  c.groups = true;
  c.maxLanes = clamp(std::min({l.maxComputeWorkGroupInvocations, l.maxComputeWorkGroupSize[0]}));
  c.lanes = std::min(c.maxLanes, rank(g.properties.deviceType) == 4 ? 64 : 256);
  c.sharedBytes = l.maxComputeSharedMemorySize;
  for (std::size_t i = 0; i < 3; ++i) c.maxGrid[i] = clamp(l.maxComputeWorkGroupCount[i]);
  c.maxBinding = l.maxStorageBufferRange;
  c.maxBindings = clamp(std::min({l.maxPerStageDescriptorStorageBuffers,
                                  l.maxDescriptorSetStorageBuffers, l.maxPerStageResources}));
  c.maxBindings = std::min(c.maxBindings, 64);
  c.maxParamBytes = clamp(l.maxPushConstantsSize);
  c.keepsSubnormals = true;
  return c;
}

}  // namespace

std::string resultName(VkResult result) {
  struct Name {
    VkResult code;
    const char* text;
  };
#define RLX_CODE(code) \
  { code, #code }
  static constexpr Name kNames[] = {RLX_CODE(VK_NOT_READY),
                                    RLX_CODE(VK_TIMEOUT),
                                    RLX_CODE(VK_INCOMPLETE),
                                    RLX_CODE(VK_ERROR_OUT_OF_HOST_MEMORY),
                                    RLX_CODE(VK_ERROR_OUT_OF_DEVICE_MEMORY),
                                    RLX_CODE(VK_ERROR_INITIALIZATION_FAILED),
                                    RLX_CODE(VK_ERROR_DEVICE_LOST),
                                    RLX_CODE(VK_ERROR_MEMORY_MAP_FAILED),
                                    RLX_CODE(VK_ERROR_LAYER_NOT_PRESENT),
                                    RLX_CODE(VK_ERROR_EXTENSION_NOT_PRESENT),
                                    RLX_CODE(VK_ERROR_FEATURE_NOT_PRESENT),
                                    RLX_CODE(VK_ERROR_INCOMPATIBLE_DRIVER),
                                    RLX_CODE(VK_ERROR_TOO_MANY_OBJECTS),
                                    RLX_CODE(VK_ERROR_FRAGMENTED_POOL),
                                    RLX_CODE(VK_ERROR_OUT_OF_POOL_MEMORY),
                                    RLX_CODE(VK_ERROR_INVALID_SHADER_NV),
                                    RLX_CODE(VK_ERROR_UNKNOWN)};
#undef RLX_CODE
  for (const Name& n : kNames)
    if (n.code == result) return std::string(n.text) + " (" + std::to_string(result) + ")";
  return "VkResult " + std::to_string(result);
}

Status check(VkResult result, const char* call) {
  if (result == VK_SUCCESS) return Ok{};
  const bool memory =
      result == VK_ERROR_OUT_OF_HOST_MEMORY || result == VK_ERROR_OUT_OF_DEVICE_MEMORY;
  return Error(memory ? Errc::OutOfMemory : Errc::Device,
               std::string(call) + " returned " + resultName(result));
}

std::string Gpu::description() const {
  return std::string(properties.deviceName) + ", " + driver + ", Vulkan " +
         version(properties.apiVersion);
}

Result<std::unique_ptr<Instance>> Instance::open() {
  std::unique_ptr<Instance> self(new Instance);
  Api& api = self->api_;
  RLX_TRY(api.library, DynamicLibrary::open(kLibraries));
  const auto get = api.library->function<PFN_vkGetInstanceProcAddr>("vkGetInstanceProcAddr");
  if (!get)
    return Error(Errc::DeviceUnavailable, api.library->name() + " has no vkGetInstanceProcAddr");
  auto load = [&](const char* name) { return get(self->handle_, name); };
  api.CreateInstance = reinterpret_cast<PFN_vkCreateInstance>(load("vkCreateInstance"));
  api.EnumerateInstanceVersion =
      reinterpret_cast<PFN_vkEnumerateInstanceVersion>(load("vkEnumerateInstanceVersion"));
  uint32_t supported = VK_API_VERSION_1_0;
  if (!api.CreateInstance || !api.EnumerateInstanceVersion ||
      api.EnumerateInstanceVersion(&supported) != VK_SUCCESS || supported < VK_API_VERSION_1_1)
    return Error(Errc::DeviceUnavailable, api.library->name() + " is older than Vulkan 1.1");
  auto app = structure<VkApplicationInfo>(VK_STRUCTURE_TYPE_APPLICATION_INFO);
  app.pApplicationName = "rlx";
  app.apiVersion = VK_API_VERSION_1_2;
  auto create = structure<VkInstanceCreateInfo>(VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO);
  create.pApplicationInfo = &app;
  if (const VkResult r = api.CreateInstance(&create, nullptr, &self->handle_); r != VK_SUCCESS)
    return Error(Errc::DeviceUnavailable, "vkCreateInstance returned " + resultName(r))
        .hint(
            "no Vulkan driver is installed, or VK_ICD_FILENAMES names a file that does not exist");
#define RLX_VK(call)                                                          \
  if (!api.call) api.call = reinterpret_cast<PFN_vk##call>(load("vk" #call)); \
  if (!api.call) return Error(Errc::DeviceUnavailable, api.library->name() + " has no vk" #call);
#include "backend/vulkan/symbols.def"
#undef RLX_VK
  RLX_OK(self->enumerate());
  return self;
}

Instance::~Instance() {
  if (handle_ && api_.DestroyInstance) api_.DestroyInstance(handle_, nullptr);
}

Status Instance::enumerate() {
  uint32_t count = 0;
  RLX_OK(
      check(api_.EnumeratePhysicalDevices(handle_, &count, nullptr), "vkEnumeratePhysicalDevices"));
  std::vector<VkPhysicalDevice> handles(count);
  RLX_OK(check(api_.EnumeratePhysicalDevices(handle_, &count, handles.data()),
               "vkEnumeratePhysicalDevices"));
  handles.resize(count);
  for (VkPhysicalDevice handle : handles) {
    Gpu g;
    g.handle = handle;
    auto driver = structure<VkPhysicalDeviceDriverProperties>(
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES);
    auto properties =
        structure<VkPhysicalDeviceProperties2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2);
    api_.GetPhysicalDeviceProperties2(handle, &properties);
    g.properties = properties.properties;
    if (g.properties.apiVersion < VK_API_VERSION_1_1) continue;
    const bool has12 = g.properties.apiVersion >= VK_API_VERSION_1_2;
    if (has12) {
      properties.pNext = &driver;
      api_.GetPhysicalDeviceProperties2(handle, &properties);
      g.driver = std::string(driver.driverName) + " " + driver.driverInfo;
    } else {
      g.driver = "driver " + std::to_string(g.properties.driverVersion);
    }
    auto v12 = structure<VkPhysicalDeviceVulkan12Features>(
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
    auto v11 = structure<VkPhysicalDevice16BitStorageFeatures>(
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES);
    auto features =
        structure<VkPhysicalDeviceFeatures2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2);
    features.pNext = &v11;
    if (has12) v11.pNext = &v12;
    api_.GetPhysicalDeviceFeatures2(handle, &features);
    g.float64 = features.features.shaderFloat64;
    g.int64 = features.features.shaderInt64;
    g.int16 = features.features.shaderInt16;
    g.storage16 = v11.storageBuffer16BitAccess;
    g.storage8 = v12.storageBuffer8BitAccess;
    g.half = v12.shaderFloat16;
    g.int8 = v12.shaderInt8;

    uint32_t families = 0;
    api_.GetPhysicalDeviceQueueFamilyProperties(handle, &families, nullptr);
    std::vector<VkQueueFamilyProperties> queues(families);
    api_.GetPhysicalDeviceQueueFamilyProperties(handle, &families, queues.data());
    const auto computes = std::find_if(queues.begin(), queues.end(), [](const auto& q) {
      return (q.queueFlags & VK_QUEUE_COMPUTE_BIT) != 0 && q.queueCount > 0;
    });
    if (computes == queues.end()) continue;
    g.queueFamily = static_cast<uint32_t>(computes - queues.begin());
    g.caps = capsOf(g);
    gpus_.push_back(std::move(g));
  }
  std::stable_sort(gpus_.begin(), gpus_.end(), [](const Gpu& a, const Gpu& b) {
    return rank(a.properties.deviceType) < rank(b.properties.deviceType);
  });
  if (gpus_.empty())
    return Error(Errc::DeviceUnavailable,
                 "Vulkan is installed (" + api_.library->name() +
                     ") but has no device with Vulkan 1.1 and a compute queue");
  return Ok{};
}

}  // namespace rlx::backend::vulkan
