#include "backend/cpu/packed.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>

namespace rlx::cpu {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20, kBlock = std::size_t{32} << 20;

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

bool PackedFloats::allocate(std::size_t count) {
  const std::size_t bytes = (count * sizeof(float) + 63) / 64 * 64;
  Open& at = open();
  const std::lock_guard lock(at.mutex);
  std::shared_ptr<std::byte> block = at.block.lock();
  if (!block || at.size - at.used < bytes) {
    const std::size_t size = (std::max(bytes, kBlock) + kHugePage - 1) / kHugePage * kHugePage;
    auto* p = static_cast<std::byte*>(std::aligned_alloc(kHugePage, size));
    if (!p) return false;
    (void)madvise(p, size, MADV_HUGEPAGE);  // best effort
    block.reset(p, [](std::byte* memory) { std::free(memory); });
    at.block = block;
    at.size = size, at.used = 0;
  }
  data_ = reinterpret_cast<float*>(block.get() + at.used);
  at.used += bytes;
  block_ = std::move(block);
  size_ = count;
  return true;
}

}  // namespace rlx::cpu
