// Device: what a driver implements, about eleven methods over a vendor library. Backend: the record
// through which a device kind is found. Everything smarter lives above, in dispatch and schedule.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kir/caps.h"
#include "kir/kernel.h"

namespace rlx {

// A compiled kernel before it is loaded: text in the backend's dialect, or machine code, or both.
struct Code {
  std::string kernel;             // entry point
  std::string text;               // source that a person reads; may be empty
  std::vector<std::byte> binary;  // SPIR-V words, machine code, ...
  std::array<int32_t, 3> block{1, 1, 1};
  uint32_t globals = 0;  // buffers to bind
  uint32_t params = 0;   // I32 parameters
};

using BufferId = uint32_t;  // of one device; 0 is none
using KernelId = uint32_t;  // of one device; 0 is none

struct BufferSlice {
  BufferId buffer = 0;
  int64_t offset = 0;  // bytes; a multiple of 256 for device allocations
  int64_t bytes = 0;   // what the kernel may touch
};

// One opened device. Not thread-safe: an executable serialises its calls.
class Device {
 public:
  virtual ~Device() = default;
  virtual const Caps& caps() const = 0;
  // One line: product, driver and version.
  virtual std::string description() const = 0;
  // Uninitialised memory; bytes may be 0. OutOfMemory states the bytes.
  virtual Result<BufferId> allocate(int64_t bytes) = 0;
  virtual void release(BufferId buffer) = 0;
  virtual Status upload(BufferId buffer, int64_t offset, std::span<const std::byte> from) = 0;
  virtual Status download(BufferId buffer, int64_t offset, std::span<std::byte> to) = 0;
  // The host address of a buffer on a unifiedMemory device, else null.
  virtual std::byte* hostPointer(BufferId buffer) = 0;
  // Device memory made of host memory that outlives the buffer (mapped weights); null result (0)
  // where the device cannot, and the caller uploads a copy.
  virtual Result<BufferId> adopt(std::span<const std::byte> memory) = 0;
  virtual Result<KernelId> load(const Code& code) = 0;
  // Several kernels at once, ids in their order: a device that has to start a compiler starts one
  // for all.
  virtual Result<std::vector<KernelId>> loadAll(std::span<const Code> codes);
  // Enqueues one launch; later launches see its writes. Grid extents may be 0 (nothing runs).
  virtual Status launch(KernelId kernel, std::array<int64_t, 3> grid,
                        std::span<const BufferSlice> globals, std::span<const int32_t> params) = 0;
  // Groups [begin, end) of a launch, now, on the calling thread; several threads may call this at
  // once for groups of their own. Only where caps().parts; `globals` are host addresses.
  virtual void runGroups(KernelId kernel, const std::array<int64_t, 3>& grid,
                         std::byte* const* globals, const int32_t* params, int64_t begin,
                         int64_t end);
  // Waits for everything enqueued.
  virtual Status synchronize() = 0;
};

// What `rlx devices` says of a device kind.
enum class DeviceStatus : uint8_t { Native, Simulated, Compiled, Printed, Unavailable };
struct DeviceReport {
  DeviceStatus status = DeviceStatus::Unavailable;
  std::string detail;   // product and driver, or why it is unavailable
  std::string library;  // the library found
  Caps caps;            // default caps where it is unavailable
};

struct OpenOptions {
  int32_t threads = 0;   // 0: what cgroup and affinity allow
  std::string cacheDir;  // pipeline caches; empty: none
  int32_t index = 0;     // which device of the kind
};

// What a machine does at most, measured: the yardstick of `rlx bench`.
struct MachineLimits {
  struct Level {
    std::string name;   // L1, L2, L3, memory
    int64_t bytes = 0;  // of the data that each thread went through
    // Of all threads together; a copy counts what is read and what is written. 1e9 bytes a second.
    double readGbs = 0, copyGbs = 0;
  };
  int32_t threads = 0;
  double gflops = 0;  // f32 fused multiply-adds, two operations each, of all threads together
  std::vector<Level> levels;
};

struct NativeKernel;  // schedule/native.h
struct Graph;
struct RefTensor;

struct Backend {
  std::string_view name;
  std::string_view dialect;  // name of the language its kernels are printed in
  Caps defaultCaps;
  DeviceReport (*probe)();
  Result<std::unique_ptr<Device>> (*open)(const OpenOptions&);
  // A verified kernel to code; legalises it for the caps first. Fails with Unsupported and the
  // reason.
  Result<Code> (*emit)(const kir::Kernel&, const Caps&);
  std::span<const NativeKernel> (*natives)() = nullptr;
  // A backend that takes whole graphs instead of kernels (the reference interpreter). Inputs and
  // results in port order. Then open and emit are null.
  Result<std::vector<RefTensor>> (*runGraph)(const Graph&, std::span<const RefTensor>) = nullptr;
  // Measures for about so many milliseconds; null: unknown. Threads as in OpenOptions.
  Result<MachineLimits> (*limits)(int32_t threads, double milliseconds) = nullptr;
};

}  // namespace rlx
