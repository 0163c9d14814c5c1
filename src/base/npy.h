// NumPy's .npy files, versions 1 to 3. The reader proves every size before it touches the data and
// hands out row-major little-endian elements whatever the file holds. This layer knows no tensors:
// an element type is NumPy's own spelling ("<f4", "|b1").
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"

namespace rlx {

struct NpyArray {
  // Kind and bytes per element, little-endian: "<f4", "<i8", "|u1", "|b1", "<c8", "|V2".
  std::string dtype;
  std::size_t itemBytes = 0;
  std::vector<int64_t> shape;
  // Row-major. A view into `owner`: the file itself, or a converted copy of it.
  std::span<const std::byte> data;
  std::shared_ptr<const MappedFile> owner;
};

Result<NpyArray> parseNpy(std::shared_ptr<const MappedFile> file);
Result<NpyArray> readNpy(const std::string& path);

// The file's bytes for a row-major array. InvalidArgument when dtype, shape and data do not agree.
Result<std::string> encodeNpy(std::string_view dtype, std::span<const int64_t> shape,
                              std::span<const std::byte> data);
Status writeNpy(const std::string& path, std::string_view dtype, std::span<const int64_t> shape,
                std::span<const std::byte> data);

}  // namespace rlx
