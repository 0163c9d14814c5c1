#include "backend/vulkan/pipeline_cache.h"

#include <cstring>

#include "base/file.h"
#include "base/hash.h"

namespace rlx::backend::vulkan {
namespace {

constexpr uint64_t kMagic = 0x31435056584c52ull;  // "RLXVPC1"
constexpr uint64_t kMaxBytes = uint64_t{1} << 30;

struct Header {
  uint64_t magic = kMagic;
  uint64_t bytes = 0;
  uint64_t checksum = 0;
};

}  // namespace

std::string pipelineCachePath(const std::string& folder, const VkPhysicalDeviceProperties& device) {
  if (folder.empty()) return {};
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string name = "vulkan-";
  for (const uint8_t b : device.pipelineCacheUUID) {
    name += kDigits[b >> 4];
    name += kDigits[b & 15];
  }
  name += "-" + std::to_string(device.driverVersion) + ".cache";
  return joinPath(folder, name);
}

std::string readPipelineCache(const std::string& path) {
  if (path.empty()) return {};
  auto file = readFile(path, kMaxBytes);
  if (!file || file->size() < sizeof(Header)) return {};
  Header h;
  std::memcpy(&h, file->data(), sizeof h);
  const std::string_view data = std::string_view(*file).substr(sizeof h);
  if (h.magic != kMagic || h.bytes != data.size() || h.checksum != stableHash(data)) return {};
  return std::string(data);
}

void writePipelineCache(const std::string& path, const std::string& data) {
  if (path.empty() || data.empty()) return;
  const Header h{kMagic, data.size(), stableHash(data)};
  std::string bytes(sizeof h, '\0');
  std::memcpy(bytes.data(), &h, sizeof h);
  bytes += data;
  (void)makeFolders(std::string(parentPath(path)));  // the write fails then, too
  (void)writeFileAtomic(path, bytes);                // a lost cache is rebuilt
}

}  // namespace rlx::backend::vulkan
