// A device that keeps memory and counts launches but computes nothing: what a new backend copies.
// Tests of planning and dispatch run on it without hardware.
#include <cstring>
#include <map>

#include "dialect/dialect.h"
#include "runtime/device.h"

namespace rlx::backend {
namespace {

Caps caps() {
  Caps c = findDialect("cxx")->caps;
  c.maxGrid = {INT32_MAX, INT32_MAX, INT32_MAX};
  return c;
}

class NullDevice final : public Device {
 public:
  const Caps& caps() const override { return caps_; }
  std::string description() const override {
    return "null: memory without arithmetic, " + std::to_string(launches_) + " launches so far";
  }

  Result<BufferId> allocate(int64_t bytes) override {
    constexpr int64_t kLimit = int64_t{1} << 40;
    if (bytes < 0 || bytes > kLimit)
      return Error(Errc::OutOfMemory, "the null device has no " + std::to_string(bytes) + " bytes");
    buffers_[++last_].resize(static_cast<std::size_t>(bytes));
    return last_;
  }
  void release(BufferId buffer) override { buffers_.erase(buffer); }

  Status upload(BufferId buffer, int64_t offset, std::span<const std::byte> from) override {
    RLX_OK(inside(buffer, offset, static_cast<int64_t>(from.size())));
    if (!from.empty()) std::memcpy(buffers_[buffer].data() + offset, from.data(), from.size());
    return Ok{};
  }
  Status download(BufferId buffer, int64_t offset, std::span<std::byte> to) override {
    RLX_OK(inside(buffer, offset, static_cast<int64_t>(to.size())));
    if (!to.empty()) std::memcpy(to.data(), buffers_[buffer].data() + offset, to.size());
    return Ok{};
  }
  std::byte* hostPointer(BufferId) override { return nullptr; }
  Result<BufferId> adopt(std::span<const std::byte>) override { return BufferId{0}; }

  Result<KernelId> load(const Code& code) override {
    kernels_.push_back(code);
    return static_cast<KernelId>(kernels_.size());
  }
  Status launch(KernelId kernel, std::array<int64_t, 3> grid, std::span<const BufferSlice> globals,
                std::span<const int32_t> params) override {
    if (kernel == 0 || kernel > kernels_.size())
      return Error(Errc::InvalidArgument, "launch of an unknown kernel");
    const Code& code = kernels_[kernel - 1];
    if (globals.size() != code.globals || params.size() != code.params)
      return Error(Errc::InvalidArgument,
                   "kernel " + code.kernel + " is launched with other arguments");
    for (int64_t g : grid)
      if (g < 0) return Error(Errc::InvalidArgument, "a negative grid extent");
    for (const BufferSlice& s : globals) RLX_OK(inside(s.buffer, s.offset, s.bytes));
    ++launches_;
    return Ok{};
  }
  Status synchronize() override { return Ok{}; }

 private:
  Status inside(BufferId buffer, int64_t offset, int64_t bytes) const {
    const auto at = buffers_.find(buffer);
    if (at == buffers_.end()) return Error(Errc::InvalidArgument, "unknown buffer");
    const auto size = static_cast<int64_t>(at->second.size());
    if (offset >= 0 && bytes >= 0 && offset <= size && bytes <= size - offset) return Ok{};
    return Error(Errc::InvalidArgument, std::to_string(bytes) + " bytes at " +
                                            std::to_string(offset) + " of a buffer of " +
                                            std::to_string(size));
  }

  Caps caps_ = rlx::backend::caps();
  std::map<BufferId, std::vector<std::byte>> buffers_;
  std::vector<Code> kernels_;
  BufferId last_ = 0;
  int64_t launches_ = 0;
};

DeviceReport probe() {
  return {.status = DeviceStatus::Printed,
          .detail = "keeps memory, computes nothing",
          .library = "",
          .caps = caps()};
}

Result<std::unique_ptr<Device>> open(const OpenOptions& options) {
  if (options.index != 0) return Error(Errc::DeviceUnavailable, "there is one null device");
  return std::unique_ptr<Device>(std::make_unique<NullDevice>());
}

Result<Code> emit(const kir::Kernel& kernel, const Caps& c) {
  const Dialect& dialect = *findDialect("cxx");
  Code code;
  RLX_TRY(code.text, emitText(kernel, c, dialect));
  code.kernel = entryPoint(kernel);
  code.block = kernel.block;
  code.globals = static_cast<uint32_t>(kir::globalCount(kernel));
  code.params = static_cast<uint32_t>(kernel.params.size());
  return code;
}

}  // namespace

const Backend& nullBackend();
const Backend& nullBackend() {
  static const Backend kBackend{.name = "null",
                                .dialect = "cxx",
                                .defaultCaps = caps(),
                                .probe = probe,
                                .open = open,
                                .emit = emit,
                                .natives = nullptr};
  return kBackend;
}

}  // namespace rlx::backend
