#include <algorithm>
#include <cstring>
#include <map>

#include "backend/vulkan/memory.h"
#include "backend/vulkan/pipeline_cache.h"
#include "backend/vulkan/vulkan.h"

namespace rlx::backend::vulkan {
namespace {

template <class T>
T structure(VkStructureType type) {
  T t{};
  t.sType = type;
  return t;
}

constexpr uint32_t kSetsPerPool = 256;
constexpr std::size_t kMaxSets = 4096;   // cached; past it all are made anew
constexpr uint32_t kMaxLaunches = 8192;  // recorded before they are submitted
constexpr uint64_t kForever = UINT64_MAX;

// Layouts depend on the number of bindings and parameters alone.
struct Layout {
  VkDescriptorSetLayout set{};
  VkPipelineLayout pipeline{};
};

struct Kernel {
  std::string name;
  VkPipeline pipeline{};
  Layout layout;
  uint32_t globals = 0, params = 0;
  std::vector<bool> readOnly;  // by binding
};

// What the launches since the last barrier touched.
struct Touched {
  VkBuffer buffer{};
  VkDeviceSize begin = 0, end = 0;
  bool written = false;
};

class VulkanDevice final : public Device {
 public:
  static Result<std::unique_ptr<Device>> open(const OpenOptions& options) {
    std::unique_ptr<VulkanDevice> self(new VulkanDevice);
    RLX_TRY(self->instance_, Instance::open());
    const auto& gpus = self->instance_->gpus();
    if (options.index < 0 || static_cast<std::size_t>(options.index) >= gpus.size())
      return Error(Errc::DeviceUnavailable, "vulkan has " + std::to_string(gpus.size()) +
                                                " devices, there is no index " +
                                                std::to_string(options.index));
    RLX_OK(self->create(gpus[static_cast<std::size_t>(options.index)], options));
    return std::unique_ptr<Device>(std::move(self));
  }

  ~VulkanDevice() override {
    if (!device_) return;
    (void)synchronize();  // a lost device cannot be closed better
    savePipelines();
    for (const Kernel& k : kernels_) vk().DestroyPipeline(device_, k.pipeline, nullptr);
    for (const auto& [key, l] : layouts_) {
      vk().DestroyPipelineLayout(device_, l.pipeline, nullptr);
      vk().DestroyDescriptorSetLayout(device_, l.set, nullptr);
    }
    for (VkDescriptorPool p : pools_) vk().DestroyDescriptorPool(device_, p, nullptr);
    if (pipelineCache_) vk().DestroyPipelineCache(device_, pipelineCache_, nullptr);
    if (fence_) vk().DestroyFence(device_, fence_, nullptr);
    if (commandPool_) vk().DestroyCommandPool(device_, commandPool_, nullptr);
    memory_.reset();
    vk().DestroyDevice(device_, nullptr);
  }

  const Caps& caps() const override { return gpu_.caps; }
  std::string description() const override { return gpu_.description(); }

  Result<BufferId> allocate(int64_t bytes) override {
    if (bytes < 0) return Error(Errc::InvalidArgument, "allocation of a negative size");
    RLX_TRY(Piece piece, memory_->take(static_cast<VkDeviceSize>(bytes)));
    BufferId id = 0;
    if (!freeIds_.empty()) {
      id = freeIds_.back();
      freeIds_.pop_back();
    } else {
      buffers_.emplace_back();
      id = static_cast<BufferId>(buffers_.size());
    }
    buffers_[id - 1] = {piece, bytes};
    return id;
  }

  void release(BufferId id) override {
    Buffer* b = find(id);
    if (!b) return;
    memory_->giveBack(b->piece);
    const bool large = b->piece.bytes >= (VkDeviceSize{64} << 20);
    *b = {};
    freeIds_.push_back(id);
    if (!large) return;
    // Large blocks go back to the driver; nothing may run on them any more.
    (void)synchronize();  // its error is reported by the next call
    if (memory_->trim()) forgetSets();
  }

  Status upload(BufferId id, int64_t offset, std::span<const std::byte> from) override {
    Buffer* b = find(id);
    RLX_OK(inside(b, offset, from.size(), "upload"));
    RLX_OK(synchronize());
    if (from.empty()) return Ok{};
    if (b->piece.host) {
      std::memcpy(b->piece.host + offset, from.data(), from.size());
      return Ok{};
    }
    RLX_TRY(const Memory::Staging staging, memory_->staging(from.size()));
    std::memcpy(staging.host, from.data(), from.size());
    Status s = copy(staging.buffer, 0, b->piece.buffer,
                    b->piece.offset + static_cast<VkDeviceSize>(offset), from.size());
    memory_->release(staging);
    return s;
  }

  Status download(BufferId id, int64_t offset, std::span<std::byte> to) override {
    Buffer* b = find(id);
    RLX_OK(inside(b, offset, to.size(), "download"));
    RLX_OK(synchronize());
    if (to.empty()) return Ok{};
    if (b->piece.host) {
      std::memcpy(to.data(), b->piece.host + offset, to.size());
      return Ok{};
    }
    RLX_TRY(const Memory::Staging staging, memory_->staging(to.size()));
    Status s = copy(b->piece.buffer, b->piece.offset + static_cast<VkDeviceSize>(offset),
                    staging.buffer, 0, to.size());
    if (s) std::memcpy(to.data(), staging.host, to.size());
    memory_->release(staging);
    return s;
  }

  std::byte* hostPointer(BufferId) override { return nullptr; }
  Result<BufferId> adopt(std::span<const std::byte>) override { return BufferId{0}; }

  Result<KernelId> load(const Code& code) override {
    if (code.binary.empty() || code.binary.size() % sizeof(uint32_t) != 0)
      return Error(Errc::InvalidArgument, "kernel " + code.kernel + " holds no SPIR-V");
    if (code.globals > static_cast<uint32_t>(gpu_.caps.maxBindings) ||
        code.params * sizeof(int32_t) > static_cast<std::size_t>(gpu_.caps.maxParamBytes))
      return Error(Errc::Unsupported, "kernel " + code.kernel + " has " +
                                          std::to_string(code.globals) + " buffers and " +
                                          std::to_string(code.params) +
                                          " parameters, more than the device binds");
    std::vector<uint32_t> words(code.binary.size() / sizeof(uint32_t));
    std::memcpy(words.data(), code.binary.data(), code.binary.size());
    Kernel k;
    k.name = code.kernel;
    k.globals = code.globals;
    k.params = code.params;
    k.readOnly = readOnlyBindings(words, code.globals);
    RLX_TRY(k.layout, layout(code.globals, code.params));
    auto info = structure<VkShaderModuleCreateInfo>(VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO);
    info.codeSize = code.binary.size();
    info.pCode = words.data();
    VkShaderModule module{};
    RLX_OK(
        check(vk().CreateShaderModule(device_, &info, nullptr, &module), "vkCreateShaderModule"));
    auto create =
        structure<VkComputePipelineCreateInfo>(VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO);
    create.stage = structure<VkPipelineShaderStageCreateInfo>(
        VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO);
    create.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    create.stage.module = module;
    create.stage.pName = "main";
    create.layout = k.layout.pipeline;
    Status made = check(
        vk().CreateComputePipelines(device_, pipelineCache_, 1, &create, nullptr, &k.pipeline),
        "vkCreateComputePipelines");
    vk().DestroyShaderModule(device_, module, nullptr);
    if (!made) return std::move(made).error().note("loading kernel " + code.kernel);
    kernels_.push_back(std::move(k));
    return static_cast<KernelId>(kernels_.size());
  }

  Status launch(KernelId id, std::array<int64_t, 3> grid, std::span<const BufferSlice> globals,
                std::span<const int32_t> params) override {
    if (id == 0 || id > kernels_.size())
      return Error(Errc::InvalidArgument, "launch of an unknown kernel");
    const Kernel& k = kernels_[id - 1];
    if (globals.size() != k.globals || params.size() != k.params)
      return Error(Errc::InvalidArgument,
                   "kernel " + k.name + " takes " + std::to_string(k.globals) + " buffers and " +
                       std::to_string(k.params) + " parameters, given " +
                       std::to_string(globals.size()) + " and " + std::to_string(params.size()));
    for (std::size_t i = 0; i < 3; ++i)
      if (grid[i] < 0 || grid[i] > gpu_.caps.maxGrid[i])
        return Error(Errc::Unsupported, "kernel " + k.name + ": grid extent " +
                                            std::to_string(grid[i]) + " on axis " +
                                            std::to_string(i) + ", the device's limit is " +
                                            std::to_string(gpu_.caps.maxGrid[i]))
            .hint("the scheduler splits larger grids");
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0) return Ok{};
    std::vector<VkDescriptorBufferInfo> bindings(globals.size());
    for (std::size_t i = 0; i < globals.size(); ++i) RLX_OK(bind(k, globals[i], i, bindings[i]));
    if (launches_ >= kMaxLaunches || sets_.size() > kMaxSets) {
      RLX_OK(synchronize());
      if (sets_.size() > kMaxSets) forgetSets();
    }
    RLX_TRY(const VkDescriptorSet set, descriptorSet(k, bindings));
    RLX_OK(begin());
    order(k, bindings);
    vk().CmdBindPipeline(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, k.pipeline);
    if (set)
      vk().CmdBindDescriptorSets(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, k.layout.pipeline, 0, 1,
                                 &set, 0, nullptr);
    if (!params.empty())
      vk().CmdPushConstants(commands_, k.layout.pipeline, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                            static_cast<uint32_t>(params.size_bytes()), params.data());
    vk().CmdDispatch(commands_, static_cast<uint32_t>(grid[0]), static_cast<uint32_t>(grid[1]),
                     static_cast<uint32_t>(grid[2]));
    ++launches_;
    return Ok{};
  }

  Status synchronize() override {
    if (!recording_) return Ok{};
    auto barrier = structure<VkMemoryBarrier>(VK_STRUCTURE_TYPE_MEMORY_BARRIER);
    barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT;
    vk().CmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                            VK_PIPELINE_STAGE_HOST_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1,
                            &barrier, 0, nullptr, 0, nullptr);
    return submit();
  }

 private:
  struct Buffer {
    Piece piece;
    int64_t bytes = 0;
  };

  VulkanDevice() = default;
  const Api& vk() const { return instance_->api(); }

  Status create(const Gpu& gpu, const OpenOptions& options) {
    gpu_ = gpu;
    const float priority = 1;
    auto queue = structure<VkDeviceQueueCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO);
    queue.queueFamilyIndex = gpu.queueFamily;
    queue.queueCount = 1;
    queue.pQueuePriorities = &priority;
    auto v12 = structure<VkPhysicalDeviceVulkan12Features>(
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
    v12.shaderFloat16 = gpu.half;
    v12.shaderInt8 = gpu.int8;
    v12.storageBuffer8BitAccess = gpu.storage8;
    auto v11 = structure<VkPhysicalDevice16BitStorageFeatures>(
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES);
    v11.storageBuffer16BitAccess = gpu.storage16;
    auto features =
        structure<VkPhysicalDeviceFeatures2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2);
    features.features.shaderFloat64 = gpu.float64;
    features.features.shaderInt64 = gpu.int64;
    features.features.shaderInt16 = gpu.int16;
    features.pNext = &v11;
    if (gpu.properties.apiVersion >= VK_API_VERSION_1_2) v11.pNext = &v12;
    auto info = structure<VkDeviceCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO);
    info.pNext = &features;
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queue;
    RLX_OK(check(vk().CreateDevice(gpu.handle, &info, nullptr, &device_), "vkCreateDevice"));
    vk().GetDeviceQueue(device_, gpu.queueFamily, 0, &queue_);
    memory_ = std::make_unique<Memory>(vk(), device_, gpu);

    auto pool = structure<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
    pool.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
    pool.queueFamilyIndex = gpu.queueFamily;
    RLX_OK(check(vk().CreateCommandPool(device_, &pool, nullptr, &commandPool_),
                 "vkCreateCommandPool"));
    auto commands =
        structure<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
    commands.commandPool = commandPool_;
    commands.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    commands.commandBufferCount = 1;
    RLX_OK(check(vk().AllocateCommandBuffers(device_, &commands, &commands_),
                 "vkAllocateCommandBuffers"));
    const auto fence = structure<VkFenceCreateInfo>(VK_STRUCTURE_TYPE_FENCE_CREATE_INFO);
    RLX_OK(check(vk().CreateFence(device_, &fence, nullptr, &fence_), "vkCreateFence"));

    cachePath_ = pipelineCachePath(options.cacheDir, gpu.properties);
    const std::string data = readPipelineCache(cachePath_);
    auto cache = structure<VkPipelineCacheCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO);
    cache.initialDataSize = data.size();
    cache.pInitialData = data.data();
    if (vk().CreatePipelineCache(device_, &cache, nullptr, &pipelineCache_) == VK_SUCCESS)
      return Ok{};
    cache.initialDataSize = 0;
    return check(vk().CreatePipelineCache(device_, &cache, nullptr, &pipelineCache_),
                 "vkCreatePipelineCache");
  }

  void savePipelines() {
    if (cachePath_.empty() || kernels_.empty()) return;
    std::size_t bytes = 0;
    if (vk().GetPipelineCacheData(device_, pipelineCache_, &bytes, nullptr) != VK_SUCCESS) return;
    std::string data(bytes, '\0');
    if (vk().GetPipelineCacheData(device_, pipelineCache_, &bytes, data.data()) != VK_SUCCESS)
      return;
    data.resize(bytes);
    writePipelineCache(cachePath_, data);
  }

  Buffer* find(BufferId id) {
    if (id == 0 || id > buffers_.size() || !buffers_[id - 1].piece.buffer) return nullptr;
    return &buffers_[id - 1];
  }

  Status inside(const Buffer* b, int64_t offset, std::size_t bytes, const char* what) const {
    if (b && offset >= 0 && offset <= b->bytes &&
        bytes <= static_cast<std::size_t>(b->bytes - offset))
      return Ok{};
    return Error(Errc::InvalidArgument,
                 std::string(what) + " of " + std::to_string(bytes) + " bytes at " +
                     std::to_string(offset) +
                     (b ? " in a buffer of " + std::to_string(b->bytes) : " in an unknown buffer"));
  }

  Status bind(const Kernel& k, const BufferSlice& slice, std::size_t i,
              VkDescriptorBufferInfo& out) {
    const Buffer* b = find(slice.buffer);
    if (slice.bytes < 0) return Error(Errc::InvalidArgument, "a slice of negative size");
    if (auto s = inside(b, slice.offset, static_cast<std::size_t>(slice.bytes), "binding"); !s)
      return std::move(s).error().note("kernel " + k.name + ", buffer " + std::to_string(i));
    const auto alignment =
        static_cast<int64_t>(gpu_.properties.limits.minStorageBufferOffsetAlignment);
    if (slice.offset % alignment != 0)
      return Error(Errc::InvalidArgument,
                   "kernel " + k.name + ": a binding at offset " + std::to_string(slice.offset) +
                       ", the device wants multiples of " + std::to_string(alignment));
    if (slice.bytes > gpu_.caps.maxBinding)
      return Error(Errc::Unsupported,
                   "kernel " + k.name + ": a binding of " + std::to_string(slice.bytes) +
                       " bytes, the device's limit is " + std::to_string(gpu_.caps.maxBinding));
    out.buffer = b->piece.buffer;
    out.offset = b->piece.offset + static_cast<VkDeviceSize>(slice.offset);
    // Whole words: packed loads read them. Pieces are multiples of 256 bytes, so this stays inside.
    out.range = std::max<VkDeviceSize>((static_cast<VkDeviceSize>(slice.bytes) + 3) / 4 * 4, 4);
    return Ok{};
  }

  Result<Layout> layout(uint32_t globals, uint32_t params) {
    const auto key = std::pair(globals, params);
    if (const auto at = layouts_.find(key); at != layouts_.end()) return at->second;
    std::vector<VkDescriptorSetLayoutBinding> bindings(globals);
    for (uint32_t i = 0; i < globals; ++i)
      bindings[i] = {i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
    auto set = structure<VkDescriptorSetLayoutCreateInfo>(
        VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO);
    set.bindingCount = globals;
    set.pBindings = bindings.data();
    Layout l;
    RLX_OK(check(vk().CreateDescriptorSetLayout(device_, &set, nullptr, &l.set),
                 "vkCreateDescriptorSetLayout"));
    const VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0,
                                    params * static_cast<uint32_t>(sizeof(int32_t))};
    auto info =
        structure<VkPipelineLayoutCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO);
    info.setLayoutCount = 1;
    info.pSetLayouts = &l.set;
    info.pushConstantRangeCount = params ? 1 : 0;
    info.pPushConstantRanges = &range;
    if (Status s = check(vk().CreatePipelineLayout(device_, &info, nullptr, &l.pipeline),
                         "vkCreatePipelineLayout");
        !s) {
      vk().DestroyDescriptorSetLayout(device_, l.set, nullptr);
      return std::move(s).error();
    }
    layouts_.emplace(key, l);
    return l;
  }

  // Sets are cached by what they bind: a plan binds the same buffers at every run.
  Result<VkDescriptorSet> descriptorSet(const Kernel& k,
                                        const std::vector<VkDescriptorBufferInfo>& bindings) {
    if (bindings.empty()) return VkDescriptorSet{};
    SetKey key;
    for (const VkDescriptorBufferInfo& b : bindings) {
      key.push_back(reinterpret_cast<uint64_t>(b.buffer));
      key.push_back(b.offset);
      key.push_back(b.range);
    }
    if (const auto at = sets_.find(key); at != sets_.end()) return at->second;
    VkDescriptorSet set{};
    auto info =
        structure<VkDescriptorSetAllocateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO);
    info.descriptorSetCount = 1;
    info.pSetLayouts = &k.layout.set;
    VkResult r = VK_ERROR_OUT_OF_POOL_MEMORY;
    if (!pools_.empty()) {
      info.descriptorPool = pools_.back();
      r = vk().AllocateDescriptorSets(device_, &info, &set);
    }
    if (r == VK_ERROR_OUT_OF_POOL_MEMORY || r == VK_ERROR_FRAGMENTED_POOL) {
      const auto perSet = static_cast<uint32_t>(std::max<std::size_t>(bindings.size(), 8));
      const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, kSetsPerPool * perSet};
      auto pool =
          structure<VkDescriptorPoolCreateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO);
      pool.maxSets = kSetsPerPool;
      pool.poolSizeCount = 1;
      pool.pPoolSizes = &size;
      VkDescriptorPool fresh{};
      RLX_OK(check(vk().CreateDescriptorPool(device_, &pool, nullptr, &fresh),
                   "vkCreateDescriptorPool"));
      pools_.push_back(fresh);
      info.descriptorPool = fresh;
      r = vk().AllocateDescriptorSets(device_, &info, &set);
    }
    RLX_OK(check(r, "vkAllocateDescriptorSets"));
    std::vector<VkWriteDescriptorSet> writes(bindings.size());
    for (uint32_t i = 0; i < bindings.size(); ++i) {
      writes[i] = structure<VkWriteDescriptorSet>(VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET);
      writes[i].dstSet = set;
      writes[i].dstBinding = i;
      writes[i].descriptorCount = 1;
      writes[i].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
      writes[i].pBufferInfo = &bindings[i];
    }
    vk().UpdateDescriptorSets(device_, static_cast<uint32_t>(writes.size()), writes.data(), 0,
                              nullptr);
    sets_.emplace(std::move(key), set);
    return set;
  }

  // The device must be idle.
  void forgetSets() {
    sets_.clear();
    for (VkDescriptorPool p : pools_) vk().DestroyDescriptorPool(device_, p, nullptr);
    pools_.clear();
  }

  Status begin() {
    if (recording_) return Ok{};
    auto info = structure<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
    info.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
    RLX_OK(check(vk().BeginCommandBuffer(commands_, &info), "vkBeginCommandBuffer"));
    recording_ = true;
    launches_ = 0;
    touched_.clear();
    return Ok{};
  }

  Status submit() {
    recording_ = false;
    RLX_OK(check(vk().EndCommandBuffer(commands_), "vkEndCommandBuffer"));
    auto info = structure<VkSubmitInfo>(VK_STRUCTURE_TYPE_SUBMIT_INFO);
    info.commandBufferCount = 1;
    info.pCommandBuffers = &commands_;
    RLX_OK(check(vk().QueueSubmit(queue_, 1, &info, fence_), "vkQueueSubmit"));
    RLX_OK(check(vk().WaitForFences(device_, 1, &fence_, VK_TRUE, kForever), "vkWaitForFences"));
    return check(vk().ResetFences(device_, 1, &fence_), "vkResetFences");
  }

  // A barrier when this launch reads what an earlier one wrote, or writes what an earlier one
  // touched.
  void order(const Kernel& k, const std::vector<VkDescriptorBufferInfo>& bindings) {
    bool depends = false;
    for (std::size_t i = 0; i < bindings.size() && !depends; ++i) {
      const VkDescriptorBufferInfo& b = bindings[i];
      depends = std::any_of(touched_.begin(), touched_.end(), [&](const Touched& t) {
        return t.buffer == b.buffer && t.begin < b.offset + b.range && b.offset < t.end &&
               (t.written || !k.readOnly[i]);
      });
    }
    if (depends) {
      auto barrier = structure<VkMemoryBarrier>(VK_STRUCTURE_TYPE_MEMORY_BARRIER);
      barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
      barrier.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
      vk().CmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                              VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &barrier, 0, nullptr, 0,
                              nullptr);
      touched_.clear();
    }
    for (std::size_t i = 0; i < bindings.size(); ++i)
      touched_.push_back({bindings[i].buffer, bindings[i].offset,
                          bindings[i].offset + bindings[i].range, !k.readOnly[i]});
  }

  Status copy(VkBuffer from, VkDeviceSize fromOffset, VkBuffer to, VkDeviceSize toOffset,
              std::size_t bytes) {
    RLX_OK(begin());
    const VkBufferCopy region{fromOffset, toOffset, bytes};
    vk().CmdCopyBuffer(commands_, from, to, 1, &region);
    auto barrier = structure<VkMemoryBarrier>(VK_STRUCTURE_TYPE_MEMORY_BARRIER);
    barrier.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT | VK_ACCESS_SHADER_READ_BIT;
    vk().CmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_TRANSFER_BIT,
                            VK_PIPELINE_STAGE_HOST_BIT | VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1,
                            &barrier, 0, nullptr, 0, nullptr);
    return submit();
  }

  using SetKey = std::vector<uint64_t>;
  std::unique_ptr<Instance> instance_;
  Gpu gpu_;
  VkDevice device_{};
  VkQueue queue_{};
  VkCommandPool commandPool_{};
  VkCommandBuffer commands_{};
  VkFence fence_{};
  VkPipelineCache pipelineCache_{};
  std::string cachePath_;
  std::unique_ptr<Memory> memory_;
  std::vector<Buffer> buffers_;
  std::vector<BufferId> freeIds_;
  std::vector<Kernel> kernels_;
  std::map<std::pair<uint32_t, uint32_t>, Layout> layouts_;
  std::map<SetKey, VkDescriptorSet> sets_;
  std::vector<VkDescriptorPool> pools_;
  std::vector<Touched> touched_;
  bool recording_ = false;
  uint32_t launches_ = 0;
};

}  // namespace

Result<std::unique_ptr<Device>> openDevice(const OpenOptions& options) {
  return VulkanDevice::open(options);
}

}  // namespace rlx::backend::vulkan
