// The CPU: kernels become code by way of the target in use, groups are spread over the thread pool.
#include <sys/utsname.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <unordered_map>

#include "backend/cpu/cpu.h"
#include "backend/cpu/limits.h"
#include "backend/cpu/target.h"
#include "base/threads.h"
#include "runtime/device.h"

namespace rlx {
namespace cpu {
namespace {

class CpuDevice final : public Device {
 public:
  CpuDevice(const Target& target, const Caps& caps, std::string description)
      : target_(target), caps_(caps), description_(std::move(description)) {}
  ~CpuDevice() override {
    for (auto& [id, b] : buffers_)
      if (b.owned) std::free(b.data);
  }
  const Caps& caps() const override { return caps_; }
  std::string description() const override { return description_; }

  Result<BufferId> allocate(int64_t bytes) override {
    std::byte* const p = bytes < 0 ? nullptr : allocateMemory(static_cast<std::size_t>(bytes));
    if (!p) return Error(Errc::OutOfMemory, "cpu: " + std::to_string(bytes) + " bytes");
    return add({p, bytes, true});
  }
  void release(BufferId buffer) override {
    const auto at = buffers_.find(buffer);
    if (at == buffers_.end()) return;
    if (at->second.owned) std::free(at->second.data);
    buffers_.erase(at);
  }
  Status upload(BufferId buffer, int64_t offset, std::span<const std::byte> from) override {
    RLX_TRY(std::byte* const to, range(buffer, offset, static_cast<int64_t>(from.size())));
    if (!from.empty()) std::memcpy(to, from.data(), from.size());
    return Ok{};
  }
  Status download(BufferId buffer, int64_t offset, std::span<std::byte> to) override {
    RLX_TRY(const std::byte* const from, range(buffer, offset, static_cast<int64_t>(to.size())));
    if (!to.empty()) std::memcpy(to.data(), from, to.size());
    return Ok{};
  }
  std::byte* hostPointer(BufferId buffer) override {
    const auto at = buffers_.find(buffer);
    return at == buffers_.end() ? nullptr : at->second.data;
  }
  Result<BufferId> adopt(std::span<const std::byte> memory) override {
    // Kernels only read constants; the cast gives them the one pointer type they take.
    return add({const_cast<std::byte*>(memory.data()), static_cast<int64_t>(memory.size()), false});
  }
  Result<KernelId> load(const Code& code) override {
    RLX_TRY(const std::vector<KernelId> ids, loadAll({&code, 1}));
    return ids.front();
  }
  Result<std::vector<KernelId>> loadAll(std::span<const Code> codes) override {
    RLX_TRY(std::vector<LoadedKernel> loaded, target_.load(codes));
    std::vector<KernelId> ids;
    for (LoadedKernel& k : loaded) {
      kernels_.push_back(std::move(k));
      ids.push_back(static_cast<KernelId>(kernels_.size()));
    }
    return ids;
  }
  Status launch(KernelId kernel, std::array<int64_t, 3> grid, std::span<const BufferSlice> globals,
                std::span<const int32_t> params) override {
    if (kernel == 0 || kernel > kernels_.size())
      return Error(Errc::Internal, "cpu: no kernel " + std::to_string(kernel));
    const int64_t groups = grid[0] * grid[1] * grid[2];
    if (groups <= 0) return Ok{};
    std::vector<std::byte*> pointers;
    pointers.reserve(globals.size());
    for (const BufferSlice& s : globals) {
      RLX_TRY(std::byte* const p, range(s.buffer, s.offset, s.bytes));
      pointers.push_back(p);
    }
    const KernelFn fn = kernels_[kernel - 1].run;
    if (groups == 1 || caps_.threads == 1) {
      fn(pointers.data(), params.data(), grid.data(), 0, groups);
      return Ok{};
    }
    // A few chunks per thread: a late thread is helped, and a chunk stays long enough to pay for
    // it.
    const int64_t chunks = std::min<int64_t>(groups, int64_t{caps_.threads} * 4);
    ThreadPool::parallelFor(caps_.threads, chunks, [&](int64_t begin, int64_t end) {
      fn(pointers.data(), params.data(), grid.data(), groups * begin / chunks,
         groups * end / chunks);
    });
    return Ok{};
  }
  void runGroups(KernelId kernel, const std::array<int64_t, 3>& grid, std::byte* const* globals,
                 const int32_t* params, int64_t begin, int64_t end) override {
    kernels_[kernel - 1].run(globals, params, grid.data(), begin, end);
  }
  Status synchronize() override { return Ok{}; }

 private:
  struct Memory {
    std::byte* data;
    int64_t bytes;
    bool owned;
  };
  BufferId add(Memory m) {
    buffers_.emplace(++lastId_, m);
    return lastId_;
  }
  Result<std::byte*> range(BufferId buffer, int64_t offset, int64_t bytes) {
    const auto at = buffers_.find(buffer);
    if (at == buffers_.end() || offset < 0 || bytes < 0 || bytes > at->second.bytes - offset)
      return Error(Errc::Internal, "cpu: bytes " + std::to_string(offset) + " + " +
                                       std::to_string(bytes) + " outside buffer " +
                                       std::to_string(buffer));
    return at->second.data + offset;
  }

  const Target& target_;
  Caps caps_;
  std::string description_;
  std::unordered_map<BufferId, Memory> buffers_;
  BufferId lastId_ = 0;
  std::vector<LoadedKernel> kernels_;
};

Caps capsFor(int threads, int vectorBits) {
  Caps c;
  for (const DType t :
       {DType::F64, DType::F32, DType::I64, DType::I32, DType::U64, DType::U32, DType::Bool})
    c.arithmetic |= bit(t);
  c.storage = c.arithmetic;
  for (const DType t : {DType::F16, DType::BF16, DType::I8, DType::I16, DType::U8, DType::U16})
    c.storage |= bit(t);
  c.maxGrid = {INT64_MAX, INT64_MAX, INT64_MAX};
  c.maxBindings = 1024;
  c.unifiedMemory = true;
  c.hostMemory = true;
  c.parts = true;
  c.vectorBits = vectorBits;
  c.threads = threads;
  return c;
}

std::string cpuName() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("model name", 0) == 0 && line.find(':') != line.npos)
      return line.substr(line.find(':') + 2);
  struct utsname system = {};
  return uname(&system) == 0 ? system.machine : "unknown processor";
}

// The target in use and one line about it.
Result<std::pair<const Target*, std::string>> usable(int threads) {
  RLX_TRY(const Target* const target, activeTarget());
  RLX_TRY(const std::string what, target->describe());
  return std::pair(target, cpuName() + ", " + what + ", " + std::to_string(threads) +
                               (threads == 1 ? " thread" : " threads"));
}

DeviceReport probe() {
  const int threads = defaultThreads();
  DeviceReport r;
  auto target = usable(threads);
  if (!target) {
    r.detail = target.error().message();
    if (!target.error().hint().empty()) r.detail += "; " + target.error().hint();
    return r;
  }
  r.status = DeviceStatus::Native;
  r.detail = target->second;
  r.caps = capsFor(threads, target->first->vectorBits);
  return r;
}

Result<std::unique_ptr<Device>> open(const OpenOptions& o) {
  const int threads = o.threads > 0 ? std::min<int>(o.threads, kMaxThreads) : defaultThreads();
  RLX_TRY(auto target, usable(threads));
  return std::unique_ptr<Device>(std::make_unique<CpuDevice>(
      *target.first, capsFor(threads, target.first->vectorBits), std::move(target.second)));
}

Result<Code> emit(const kir::Kernel& kernel, const Caps& caps) {
  RLX_TRY(const Target* const target, activeTarget());
  return target->emit(kernel, caps);
}

std::string_view dialectInUse() {
  const auto target = activeTarget();
  return target ? (*target)->dialect : "unknown";
}

}  // namespace
}  // namespace cpu

namespace backend {
const Backend& cpuBackend();
const Backend& cpuBackend() {
  static const Backend kBackend{"cpu",
                                cpu::dialectInUse(),
                                cpu::capsFor(1, 256),
                                &cpu::probe,
                                &cpu::open,
                                &cpu::emit,
                                &cpu::natives,
                                nullptr,
                                &cpu::measureLimits};
  return kBackend;
}
}  // namespace backend
}  // namespace rlx
