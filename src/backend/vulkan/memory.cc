#include "backend/vulkan/memory.h"

#include <algorithm>

namespace rlx::backend::vulkan {
namespace {

constexpr VkDeviceSize kBlockBytes = VkDeviceSize{64} << 20;
constexpr VkMemoryPropertyFlags kHost =
    VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
constexpr VkMemoryPropertyFlags kUnified = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | kHost;

VkDeviceSize rounded(VkDeviceSize bytes) {
  bytes = std::max<VkDeviceSize>(bytes, 1);
  return (bytes + Memory::kAlignment - 1) / Memory::kAlignment * Memory::kAlignment;
}

}  // namespace

Memory::Memory(const Api& api, VkDevice device, const Gpu& gpu) : api_(api), device_(device) {
  api_.GetPhysicalDeviceMemoryProperties(gpu.handle, &properties_);
  // Mapped device memory only where it is the device's memory as a whole, not a small window.
  VkDeviceSize largest = 0, visible = 0;
  for (uint32_t i = 0; i < properties_.memoryTypeCount; ++i) {
    const VkMemoryType& t = properties_.memoryTypes[i];
    const VkDeviceSize heap = properties_.memoryHeaps[t.heapIndex].size;
    if (t.propertyFlags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT) largest = std::max(largest, heap);
    if ((t.propertyFlags & kUnified) == kUnified) visible = std::max(visible, heap);
  }
  mapped_ = visible > 0 && visible >= largest / 2;
  if (mapped_) flags_ = kUnified;
}

Memory::~Memory() {
  for (Block& b : blocks_) destroy(b);
}

Result<Memory::Block> Memory::create(VkDeviceSize bytes, VkMemoryPropertyFlags flags, bool map) {
  Block b;
  b.bytes = bytes;
  VkBufferCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  info.size = bytes;
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
               VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  RLX_OK(check(api_.CreateBuffer(device_, &info, nullptr, &b.buffer), "vkCreateBuffer"));
  VkMemoryRequirements needs{};
  api_.GetBufferMemoryRequirements(device_, b.buffer, &needs);
  uint32_t type = UINT32_MAX;
  for (uint32_t i = 0; i < properties_.memoryTypeCount && type == UINT32_MAX; ++i)
    if ((needs.memoryTypeBits >> i & 1) != 0 &&
        (properties_.memoryTypes[i].propertyFlags & flags) == flags)
      type = i;
  auto fail = [&](Status s) {
    destroy(b);
    return std::move(s).error();
  };
  if (type == UINT32_MAX)
    return fail(Error(Errc::Device, "no memory type of the device suits a storage buffer"));
  VkMemoryAllocateInfo allocate{};
  allocate.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  allocate.allocationSize = needs.size;
  allocate.memoryTypeIndex = type;
  if (auto s =
          check(api_.AllocateMemory(device_, &allocate, nullptr, &b.memory), "vkAllocateMemory");
      !s)
    return fail(std::move(s));
  if (auto s = check(api_.BindBufferMemory(device_, b.buffer, b.memory, 0), "vkBindBufferMemory");
      !s)
    return fail(std::move(s));
  if (map) {
    void* host = nullptr;
    if (auto s =
            check(api_.MapMemory(device_, b.memory, 0, VK_WHOLE_SIZE, 0, &host), "vkMapMemory");
        !s)
      return fail(std::move(s));
    b.host = static_cast<std::byte*>(host);
  }
  b.free.emplace(0, bytes);
  return b;
}

void Memory::destroy(Block& b) {
  if (b.buffer) api_.DestroyBuffer(device_, b.buffer, nullptr);
  if (b.memory) api_.FreeMemory(device_, b.memory, nullptr);  // unmaps
}

Result<Piece> Memory::take(VkDeviceSize bytes) {
  const VkDeviceSize need = rounded(bytes);
  auto cut = [&](Block& b) {
    for (auto it = b.free.begin(); it != b.free.end(); ++it) {
      if (it->second < need) continue;
      const Piece p{b.buffer, it->first, need, b.host ? b.host + it->first : nullptr};
      const VkDeviceSize rest = it->second - need;
      b.free.erase(it);
      if (rest) b.free.emplace(p.offset + need, rest);
      return p;
    }
    return Piece{};
  };
  for (Block& b : blocks_)
    if (const Piece p = cut(b); p.buffer) return p;
  auto fresh = create(std::max(need, kBlockBytes), flags_, mapped_);
  // A device short of memory may still have room for exactly this.
  if (!fresh && need < kBlockBytes) fresh = create(need, flags_, mapped_);
  if (!fresh) {
    Error e = std::move(fresh).error();
    if (e.code() != Errc::OutOfMemory) return e;
    return Error(Errc::OutOfMemory,
                 "the Vulkan device has no " + std::to_string(bytes) + " bytes: " + e.message());
  }
  blocks_.push_back(*std::move(fresh));
  return cut(blocks_.back());
}

void Memory::giveBack(const Piece& p) {
  for (Block& b : blocks_) {
    if (b.buffer != p.buffer) continue;
    auto at = b.free.emplace(p.offset, p.bytes).first;
    if (const auto next = std::next(at);
        next != b.free.end() && at->first + at->second == next->first) {
      at->second += next->second;
      b.free.erase(next);
    }
    if (at != b.free.begin()) {
      const auto before = std::prev(at);
      if (before->first + before->second == at->first) {
        before->second += at->second;
        b.free.erase(at);
      }
    }
    return;
  }
}

bool Memory::trim() {
  return std::erase_if(blocks_, [&](Block& b) {
           const bool empty = b.free.size() == 1 && b.free.begin()->second == b.bytes;
           if (empty) destroy(b);
           return empty;
         }) > 0;
}

Result<Memory::Staging> Memory::staging(VkDeviceSize bytes) {
  RLX_TRY(const Block b, create(rounded(bytes), kHost, /*map=*/true));
  return Staging{b.buffer, b.memory, b.host};
}

void Memory::release(const Staging& s) {
  api_.DestroyBuffer(device_, s.buffer, nullptr);
  api_.FreeMemory(device_, s.memory, nullptr);
}

}  // namespace rlx::backend::vulkan
