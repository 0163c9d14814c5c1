// The driver's pipeline cache on disk. Drivers may crash on a damaged file, so the data is kept
// behind a header of our own with length and checksum, and a file that does not fit is ignored.
#pragma once
#include <string>
#include <vector>

#include "backend/vulkan/vulkan.h"

namespace rlx::backend::vulkan {

// One file per device and driver version, or empty when `folder` is.
std::string pipelineCachePath(const std::string& folder, const VkPhysicalDeviceProperties& device);
// The data in the file; empty when there is none or it is damaged.
std::string readPipelineCache(const std::string& path);
// Failure to write is no failure of the device: it only costs time later.
void writePipelineCache(const std::string& path, const std::string& data);

}  // namespace rlx::backend::vulkan
