// Device memory in blocks with one VkBuffer each, cut into pieces: drivers allow only some thousand
// allocations, a model has hundreds of small buffers.
#pragma once
#include <map>

#include "backend/vulkan/vulkan.h"

namespace rlx::backend::vulkan {

struct Piece {
  VkBuffer buffer{};
  VkDeviceSize offset = 0;
  VkDeviceSize bytes = 0;     // as taken, a multiple of kAlignment
  std::byte* host = nullptr;  // null where the host cannot see the memory
};

class Memory {
 public:
  static constexpr VkDeviceSize kAlignment = 256;
  Memory(const Api& api, VkDevice device, const Gpu& gpu);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // OutOfMemory states the bytes asked for.
  Result<Piece> take(VkDeviceSize bytes);
  void giveBack(const Piece& piece);
  // Returns empty blocks to the driver. The device must be idle; true when a VkBuffer went away.
  bool trim();
  // Whether the host sees every piece.
  bool mapped() const { return mapped_; }
  // Host-visible memory outside the blocks, for transfers.
  struct Staging {
    VkBuffer buffer{};
    VkDeviceMemory memory{};
    std::byte* host = nullptr;
  };
  Result<Staging> staging(VkDeviceSize bytes);
  void release(const Staging& staging);

 private:
  struct Block {
    VkBuffer buffer{};
    VkDeviceMemory memory{};
    VkDeviceSize bytes = 0;
    std::byte* host = nullptr;
    std::map<VkDeviceSize, VkDeviceSize> free;  // offset to bytes
  };
  Result<Block> create(VkDeviceSize bytes, VkMemoryPropertyFlags flags, bool map);
  void destroy(Block& block);

  const Api& api_;
  VkDevice device_;
  VkPhysicalDeviceMemoryProperties properties_{};
  VkMemoryPropertyFlags flags_ = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
  bool mapped_ = false;
  std::vector<Block> blocks_;
};

}  // namespace rlx::backend::vulkan
