// Memory for packed weights: many in one large block, so that huge pages serve them all and the
// hardware prefetcher is not stopped at every 4 KiB.
#pragma once
#include <cstddef>
#include <memory>

#include "base/result.h"

namespace rlx::cpu {

// A span of floats, 64-byte aligned; its block is freed with the last span in it.
class PackedFloats {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  float* data() const { return data_; }
  // Uninitialised. OutOfMemory states the bytes.
  Status allocate(std::size_t count);

 private:
  std::shared_ptr<std::byte> block_;
  float* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace rlx::cpu
