// safetensors: named tensors in one file or in several shards with an index. The header comes from
// strangers: every size is proved against the file before anything uses it, and the tensors are
// views into the mapped file, which they keep alive.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "ir/dtype.h"

namespace rlx {

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  // Offsets in the data section of `file`.
  uint64_t begin = 0;
  uint64_t end = 0;
  // The bytes [begin, end). The format promises no alignment.
  std::span<const std::byte> data;
  std::shared_ptr<const MappedFile> file;
};

struct Safetensors {
  // Sorted by name.
  std::vector<SafetensorsEntry> entries;
  // The `__metadata__` of a single file, sorted by key.
  std::vector<std::pair<std::string, std::string>> metadata;

  // The entry, or null.
  const SafetensorsEntry* find(std::string_view name) const;
  // The entry; NotFound with the nearest name as hint.
  Result<const SafetensorsEntry*> at(std::string_view name) const;
};

// One file.
Result<Safetensors> parseSafetensors(std::shared_ptr<const MappedFile> file);
// A .safetensors file, a .safetensors.index.json, or a folder that holds model.safetensors or
// model.safetensors.index.json. Shards must lie in the index's folder (UnsafePath otherwise);
// tensors of a shard that the index does not name are left out.
Result<Safetensors> readSafetensors(const std::string& path);

// What the writer takes; the bytes are not copied.
struct SafetensorsItem {
  std::string_view name;
  DType dtype = DType::F32;
  std::span<const int64_t> shape;
  std::span<const std::byte> data;
};
// Writes the file, tensors of wide types first so that each is aligned to its element, then by
// name. InvalidArgument for a duplicate name, a dtype the format lacks, or bytes that do not fit
// the shape.
Status writeSafetensors(const std::string& path, std::span<const SafetensorsItem> items,
                        std::span<const std::pair<std::string, std::string>> metadata = {});

// The format's spelling of a dtype ("BF16"), or empty when it has none.
std::string_view safetensorsName(DType dtype);

}  // namespace rlx
