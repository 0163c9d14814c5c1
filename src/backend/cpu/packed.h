// Memory for packed weights: many in one large block, so that huge pages serve them all and the
// hardware prefetcher is not stopped at every 4 KiB.
#pragma once
#include <cstddef>
#include <memory>

#include "base/result.h"

namespace rlx::cpu {

// A span of bytes, 64-byte aligned; its block is freed with the last span in it.
class PackedBytes {
 public:
  std::size_t size() const { return size_; }
  std::byte* data() const { return data_; }
  // Uninitialised. OutOfMemory states the bytes.
  Status allocate(std::size_t bytes);

 private:
  std::shared_ptr<std::byte> block_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// The same of elements.
template <class T>
class Packed {
 public:
  bool empty() const { return bytes_.size() == 0; }
  std::size_t size() const { return bytes_.size() / sizeof(T); }
  T* data() const { return reinterpret_cast<T*>(bytes_.data()); }
  Status allocate(std::size_t count) { return bytes_.allocate(count * sizeof(T)); }

 private:
  PackedBytes bytes_;
};
using PackedFloats = Packed<float>;

}  // namespace rlx::cpu
