// Files: read-only mapping with shared ownership, bounded reads, atomic writes, and the one check
// that keeps a model's external data inside the model's folder. Errors carry the path and the
// system's reason.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rlx {

// The bytes of a regular file, mapped read-only. Weights that point into it hold the shared_ptr;
// the mapping goes when the last one does. A file that another process shortens meanwhile raises
// SIGBUS on access, as with every mapping.
class MappedFile {
 public:
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);
  // The same interface over bytes in memory: for tests, embedded models and decompressed data.
  static std::shared_ptr<const MappedFile> fromBytes(std::string name, std::string bytes);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  std::size_t size() const { return size_; }
  const std::string& path() const { return path_; }

 private:
  MappedFile() = default;
  std::string path_;
  std::string owned_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  bool mapped_ = false;
};

// The whole file. FileBudget when it is larger than `maxBytes`; nothing is allocated then.
Result<std::string> readFile(const std::string& path, uint64_t maxBytes);

// Writes beside the target and renames over it, so that a reader sees the old file or the new one.
Status writeFileAtomic(const std::string& path, std::string_view bytes);
// The same for bytes that lie in several pieces.
Status writeFileAtomic(const std::string& path, std::span<const std::string_view> pieces);

// The path of `relative` under `dir`. UnsafePath when it is empty, absolute, contains `..` or a
// NUL, or when any component below `dir` is a symbolic link. The file need not exist; `dir` itself
// may be reached through links.
Result<std::string> resolveInside(const std::string& dir, std::string_view relative);

enum class PathKind : uint8_t { Missing, File, Folder, Other };
// What lies at the path, following links.
PathKind pathKind(const std::string& path);

// "a/b" + "c" is "a/b/c"; the folder and the last component of a path.
std::string joinPath(std::string_view dir, std::string_view name);
std::string_view parentPath(std::string_view path);
std::string_view fileName(std::string_view path);

// Creates the folder and its parents.
Status makeFolders(const std::string& path);

}  // namespace rlx
