#include "backend/cpu/packed.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string>

#include "backend/cpu/cpu.h"

namespace rlx::cpu {
namespace {

constexpr std::size_t kLine = 64, kHugePage = std::size_t{2} << 20;
constexpr std::size_t kBlock = std::size_t{32} << 20;

// The block that the next span comes from; it lives as long as its spans do.
struct Open {
  std::mutex mutex;
  std::weak_ptr<std::byte> block;
  std::size_t size = 0, used = 0;
};
// Never destroyed: spans may outlive every other object of the process.
Open& open() {
  static Open* const kOpen = new Open;
  return *kOpen;
}

}  // namespace

std::byte* allocateMemory(std::size_t bytes) {
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : kLine;
  const std::size_t size =
      (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  void* const p = std::aligned_alloc(alignment, size);
  if (p && alignment == kHugePage) (void)madvise(p, size, MADV_HUGEPAGE);  // best effort
  return static_cast<std::byte*>(p);
}

Status PackedBytes::allocate(std::size_t wanted) {
  const std::size_t bytes = (wanted + kLine - 1) / kLine * kLine;
  Open& at = open();
  const std::lock_guard lock(at.mutex);
  std::shared_ptr<std::byte> block = at.block.lock();
  if (!block || at.size - at.used < bytes) {
    const std::size_t size = std::max(bytes, kBlock);
    std::byte* const p = allocateMemory(size);
    if (!p)
      return Error(Errc::OutOfMemory, "a packed weight of " + std::to_string(bytes) + " bytes");
    block.reset(p, [](std::byte* memory) { std::free(memory); });
    at.block = block;
    at.size = size, at.used = 0;
  }
  data_ = block.get() + at.used;
  at.used += bytes;
  block_ = std::move(block);
  size_ = wanted;
  return Ok{};
}

}  // namespace rlx::cpu
