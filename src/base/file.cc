#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <limits>

namespace rlx {
namespace {

// Closes on every way out.
struct Descriptor {
  int fd = -1;
  explicit Descriptor(int f) : fd(f) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

Error systemError(std::string_view verb, std::string_view path, int code) {
  std::string message = "cannot ";
  message += verb;
  message += " '";
  message += path;
  message += "': ";
  message += std::strerror(code);
  return Error(code == ENOENT ? Errc::NotFound : Errc::Io, std::move(message));
}

Error unsafe(std::string_view dir, std::string_view relative, std::string_view why) {
  std::string message = "path '";
  message += relative;
  message += "' in '";
  message += dir;
  message += "': ";
  message += why;
  return Error(Errc::UnsafePath, std::move(message));
}

// Opens a regular file for reading; a pipe or device never blocks here.
Result<int> openRegular(const std::string& path, uint64_t& size) {
  if (path.find('\0') != std::string::npos)
    return Error(Errc::InvalidArgument,
                 "the path '" + path.substr(0, path.find('\0')) + "' contains a NUL byte");
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return systemError("open", path, errno);
  struct stat st = {};
  if (::fstat(fd, &st) != 0) {
    const int code = errno;
    ::close(fd);
    return systemError("examine", path, code);
  }
  if (!S_ISREG(st.st_mode)) {
    ::close(fd);
    return Error(Errc::Io, "cannot open '" + path + "': " +
                               (S_ISDIR(st.st_mode) ? "is a folder" : "not a regular file"));
  }
  size = static_cast<uint64_t>(st.st_size);
  return fd;
}

Status writeAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      return systemError("write", path, errno);
    }
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return Ok{};
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  uint64_t size = 0;
  RLX_TRY(const int fd, openRegular(path, size));
  const Descriptor guard(fd);
  if (size > std::numeric_limits<std::size_t>::max() / 2)
    return Error(Errc::FileBudget, "'" + path + "' is too large for the address space");
  std::shared_ptr<MappedFile> file(new MappedFile);
  file->path_ = path;
  if (size == 0) return std::shared_ptr<const MappedFile>(std::move(file));
  void* at = ::mmap(nullptr, static_cast<std::size_t>(size), PROT_READ, MAP_PRIVATE, fd, 0);
  if (at == MAP_FAILED) return systemError("map", path, errno);
  file->data_ = static_cast<const std::byte*>(at);
  file->size_ = static_cast<std::size_t>(size);
  file->mapped_ = true;
  return std::shared_ptr<const MappedFile>(std::move(file));
}

std::shared_ptr<const MappedFile> MappedFile::fromBytes(std::string name, std::string bytes) {
  std::shared_ptr<MappedFile> file(new MappedFile);
  file->path_ = std::move(name);
  file->owned_ = std::move(bytes);
  file->data_ = reinterpret_cast<const std::byte*>(file->owned_.data());
  file->size_ = file->owned_.size();
  return file;
}

MappedFile::~MappedFile() {
  if (mapped_) ::munmap(const_cast<std::byte*>(data_), size_);
}

Result<std::string> readFile(const std::string& path, uint64_t maxBytes) {
  uint64_t size = 0;
  RLX_TRY(const int fd, openRegular(path, size));
  const Descriptor guard(fd);
  if (size > maxBytes)
    return Error(Errc::FileBudget, "'" + path + "' has " + std::to_string(size) +
                                       " bytes, the limit is " + std::to_string(maxBytes));
  // Files under /proc and /sys say 0 and still have content: read until the end, within the budget.
  std::string out(static_cast<std::size_t>(size), '\0');
  std::size_t at = 0;
  for (;;) {
    if (at == out.size()) {
      char more[4096];
      const ssize_t n = ::read(fd, more, sizeof more);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return systemError("read", path, errno);
      if (n == 0) break;
      if (at + static_cast<std::size_t>(n) > maxBytes)
        return Error(Errc::FileBudget,
                     "'" + path + "' has more than " + std::to_string(maxBytes) + " bytes");
      out.append(more, static_cast<std::size_t>(n));
      at = out.size();
      continue;
    }
    const ssize_t n = ::read(fd, out.data() + at, out.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return systemError("read", path, errno);
    if (n == 0) break;
    at += static_cast<std::size_t>(n);
  }
  out.resize(at);
  return out;
}

Status writeFileAtomic(const std::string& path, std::string_view bytes) {
  return writeFileAtomic(path, std::span(&bytes, 1));
}

Status writeFileAtomic(const std::string& path, std::span<const std::string_view> pieces) {
  constinit static std::atomic<unsigned> counter{0};
  const std::string temporary = path + ".tmp." + std::to_string(::getpid()) + "." +
                                std::to_string(counter.fetch_add(1, std::memory_order_relaxed));
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return systemError("create", temporary, errno);
  Status written = Ok{};
  for (const std::string_view piece : pieces)
    if (written) written = writeAll(fd, piece, temporary);
  if (written && ::fsync(fd) != 0 && errno != EINVAL && errno != EROFS)
    written = systemError("write", temporary, errno);
  if (::close(fd) != 0 && written) written = systemError("write", temporary, errno);
  if (written && ::rename(temporary.c_str(), path.c_str()) != 0)
    written = systemError("write", path, errno);
  if (!written) ::unlink(temporary.c_str());
  return written;
}

Result<std::string> resolveInside(const std::string& dir, std::string_view relative) {
  if (relative.empty()) return unsafe(dir, relative, "the path is empty");
  if (relative.find('\0') != std::string_view::npos)
    return unsafe(dir, relative.substr(0, relative.find('\0')), "the path contains a NUL byte");
  // A backslash separates, and a drive letter is absolute, in files that come from Windows.
  if (relative.front() == '/' || relative.front() == '\\' ||
      (relative.size() > 1 && relative[1] == ':'))
    return unsafe(dir, relative, "absolute paths are refused");
  std::string path = dir.empty() ? "." : dir;
  std::size_t components = 0;
  for (std::string_view rest = relative; !rest.empty();) {
    const std::size_t end = std::min(rest.find_first_of("/\\"), rest.size());
    const std::string_view part = rest.substr(0, end);
    rest.remove_prefix(end == rest.size() ? end : end + 1);
    if (part.empty() || part == ".") continue;
    if (part == "..") return unsafe(dir, relative, "'..' is refused");
    path = joinPath(path, part);
    ++components;
    struct stat st = {};
    if (::lstat(path.c_str(), &st) != 0) {
      if (errno == ENOENT) continue;  // reported by whoever opens it
      return systemError("examine", path, errno);
    }
    if (S_ISLNK(st.st_mode)) return unsafe(dir, relative, "'" + path + "' is a symbolic link");
    if (rest.empty() && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
      return unsafe(dir, relative, "not a regular file");
  }
  if (components == 0) return unsafe(dir, relative, "the path names the folder itself");
  return path;
}

PathKind pathKind(const std::string& path) {
  struct stat st = {};
  if (::stat(path.c_str(), &st) != 0) return PathKind::Missing;
  if (S_ISREG(st.st_mode)) return PathKind::File;
  if (S_ISDIR(st.st_mode)) return PathKind::Folder;
  return PathKind::Other;
}

std::string joinPath(std::string_view dir, std::string_view name) {
  std::string out(dir);
  if (!out.empty() && out.back() != '/') out += '/';
  out += name;
  return out;
}

std::string_view parentPath(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return slash == 0 ? path.substr(0, 1) : path.substr(0, slash);
}

std::string_view fileName(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos || path.size() == 1 ? path : path.substr(slash + 1);
}

Status makeFolders(const std::string& path) {
  for (std::size_t at = 0; at != std::string::npos && !path.empty();) {
    at = path.find('/', at + 1);
    const std::string part = path.substr(0, at);
    if (::mkdir(part.c_str(), 0777) != 0 && errno != EEXIST && pathKind(part) != PathKind::Folder)
      return systemError("create the folder", part, errno);
  }
  if (!path.empty() && pathKind(path) != PathKind::Folder)
    return Error(Errc::Io, "cannot create the folder '" + path + "': a file is in the way");
  return Ok{};
}

}  // namespace rlx
