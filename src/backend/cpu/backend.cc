// The CPU: kernels become machine code by the emitter, groups are spread over the thread pool.
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <unordered_map>

#include "backend/cpu/cpu.h"
#include "backend/cpu/limits.h"
#include "base/env.h"
#include "base/threads.h"
#include "kir/verify.h"
#include "runtime/device.h"

namespace rlx {
namespace cpu {
namespace {

class CpuDevice final : public Device {
 public:
  CpuDevice(const Caps& caps, std::string description)
      : caps_(caps), description_(std::move(description)) {}
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
    RLX_TRY(ExecutableMemory memory, ExecutableMemory::create(code.binary));
    kernels_.push_back(std::move(memory));
    return static_cast<KernelId>(kernels_.size());
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
    const KernelFn fn = kernels_[kernel - 1].entry();
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
    kernels_[kernel - 1].entry()(globals, params, grid.data(), begin, end);
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

  Caps caps_;
  std::string description_;
  std::unordered_map<BufferId, Memory> buffers_;
  BufferId lastId_ = 0;
  std::vector<ExecutableMemory> kernels_;
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
  return "x86-64";
}

std::string describe(IsaLevel isa, int threads) {
  return cpuName() + ", " + (isa == IsaLevel::Avx512 ? "AVX-512" : "AVX2") + ", " +
         std::to_string(threads) + (threads == 1 ? " thread" : " threads");
}

DeviceReport probe() {
  DeviceReport r;
  auto isa = activeIsa();
  if (!isa) {
    r.detail = isa.error().message();
    return r;
  }
  const int threads = defaultThreads();
  r.status = DeviceStatus::Native;
  r.detail = describe(*isa, threads);
  r.caps = capsFor(threads, *isa == IsaLevel::Avx512 ? 512 : 256);
  return r;
}

Result<std::unique_ptr<Device>> open(const OpenOptions& o) {
  RLX_TRY(const IsaLevel isa, activeIsa());
  const int threads = o.threads > 0 ? std::min<int>(o.threads, kMaxThreads) : defaultThreads();
  return std::unique_ptr<Device>(std::make_unique<CpuDevice>(
      capsFor(threads, isa == IsaLevel::Avx512 ? 512 : 256), describe(isa, threads)));
}

Result<Code> emit(const kir::Kernel& kernel, const Caps&) {
  RLX_OK(kir::verify(kernel));
  RLX_TRY(const IsaLevel isa, activeIsa());
  Code c;
  c.kernel = kernel.name;
  RLX_TRY(c.binary, emitKernel(kernel, isa));
  c.globals = static_cast<uint32_t>(kir::globalCount(kernel));
  c.params = static_cast<uint32_t>(kernel.params.size());
  return c;
}

}  // namespace

Result<IsaLevel> activeIsa() {
  RLX_TRY(const IsaLevel best, detectIsa());
  static const bool kAvx2Only = [] {
    auto env = readEnv();
    return env && env->cpuIsa == "avx2";
  }();
  return kAvx2Only ? IsaLevel::Avx2 : best;
}

}  // namespace cpu

namespace backend {
const Backend& cpuBackend();
const Backend& cpuBackend() {
  static const Backend kBackend{"cpu",         "x86-64",   cpu::capsFor(1, 256),
                                &cpu::probe,   &cpu::open, &cpu::emit,
                                &cpu::natives, nullptr,    &cpu::measureLimits};
  return kBackend;
}
}  // namespace backend
}  // namespace rlx
