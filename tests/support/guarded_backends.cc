#include "support/guarded_backends.h"

#include <algorithm>
#include <array>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/registry.h"

namespace rlx::backend {
#define RLX_BACKEND(name) const Backend& name##Backend();
#include "backends.def"
#undef RLX_BACKEND
}  // namespace rlx::backend

namespace rlx {
namespace {

constexpr int64_t kGuard = 256;  // the alignment of offsets into device allocations
constexpr auto kPattern = std::byte{0xa5}, kUnwritten = std::byte{0xff};

int64_t checked = 0;
std::string violation;
bool collecting = false;
std::vector<Code> collected;

class GuardedDevice final : public Device {
 public:
  explicit GuardedDevice(std::unique_ptr<Device> inner)
      : inner_(std::move(inner)), caps_(inner_->caps()) {
    caps_.hostMemory = false;  // inputs and results get guards too
  }
  ~GuardedDevice() override {
    for (const auto& [id, bytes] : buffers_) checkGuards(id, bytes);
  }
  const Caps& caps() const override { return caps_; }
  std::string description() const override { return inner_->description(); }
  Result<BufferId> allocate(int64_t bytes) override {
    RLX_TRY(const BufferId id, inner_->allocate(bytes + 2 * kGuard));
    std::vector<std::byte> fill(static_cast<std::size_t>(bytes + 2 * kGuard), kPattern);
    std::fill_n(fill.begin() + kGuard, bytes, kUnwritten);
    RLX_OK(inner_->upload(id, 0, fill));
    buffers_[id] = bytes;
    return id;
  }
  void release(BufferId id) override {
    checkGuards(id, buffers_[id]);
    buffers_.erase(id);
    inner_->release(id);
  }
  Status upload(BufferId id, int64_t offset, std::span<const std::byte> from) override {
    RLX_OK(inside(id, offset, static_cast<int64_t>(from.size())));
    return inner_->upload(id, offset + kGuard, from);
  }
  Status download(BufferId id, int64_t offset, std::span<std::byte> to) override {
    RLX_OK(inside(id, offset, static_cast<int64_t>(to.size())));
    RLX_OK(inner_->download(id, offset + kGuard, to));
    for (const auto& [other, bytes] : buffers_) checkGuards(other, bytes);
    if (!violation.empty()) return Error(Errc::CheckFailed, violation);
    return Ok{};
  }
  std::byte* hostPointer(BufferId id) override {
    std::byte* p = inner_->hostPointer(id);
    return p ? p + kGuard : p;
  }
  // Refused, so that constants are copied into guarded buffers too.
  Result<BufferId> adopt(std::span<const std::byte>) override { return BufferId{0}; }
  Result<KernelId> load(const Code& code) override { return inner_->load(code); }
  Result<std::vector<KernelId>> loadAll(std::span<const Code> codes) override {
    if (!collecting) return inner_->loadAll(codes);
    collected.insert(collected.end(), codes.begin(), codes.end());
    return std::vector<KernelId>(codes.size(), 1);
  }
  Status launch(KernelId kernel, std::array<int64_t, 3> grid, std::span<const BufferSlice> globals,
                std::span<const int32_t> params) override {
    std::vector<BufferSlice> moved(globals.begin(), globals.end());
    for (BufferSlice& s : moved) {
      RLX_OK(inside(s.buffer, s.offset, s.bytes));
      s.offset += kGuard;
    }
    return inner_->launch(kernel, grid, moved, params);
  }
  void runGroups(KernelId kernel, const std::array<int64_t, 3>& grid, std::byte* const* globals,
                 const int32_t* params, int64_t begin, int64_t end) override {
    inner_->runGroups(kernel, grid, globals, params, begin, end);
  }
  Status synchronize() override { return inner_->synchronize(); }

 private:
  Status inside(BufferId id, int64_t offset, int64_t bytes) const {
    const auto at = buffers_.find(id);
    if (at == buffers_.end() || offset < 0 || bytes < 0 || offset + bytes > at->second)
      return Error(Errc::CheckFailed, "bytes " + std::to_string(offset) + " + " +
                                          std::to_string(bytes) + " outside buffer " +
                                          std::to_string(id));
    return Ok{};
  }
  void checkGuards(BufferId id, int64_t bytes) {
    for (const int64_t at : {int64_t{0}, kGuard + bytes}) {
      std::array<std::byte, kGuard> guard{};
      if (!inner_->download(id, at, guard)) violation = "a guard cannot be read";
      ++checked;
      const auto bad =
          std::find_if(guard.begin(), guard.end(), [](std::byte b) { return b != kPattern; });
      if (bad != guard.end() && violation.empty())
        violation = "a buffer of " + std::to_string(bytes) + " bytes was written at byte " +
                    std::to_string(at - kGuard + (bad - guard.begin()));
    }
  }

  std::unique_ptr<Device> inner_;
  Caps caps_;
  std::unordered_map<BufferId, int64_t> buffers_;
};

// A backend's functions are plain pointers: one set of them per backend, by index.
template <std::size_t K>
const Backend* wrapped;

template <std::size_t K>
Result<std::unique_ptr<Device>> openGuarded(const OpenOptions& o) {
  RLX_TRY(std::unique_ptr<Device> inner, wrapped<K>->open(o));
  return std::unique_ptr<Device>(std::make_unique<GuardedDevice>(std::move(inner)));
}

template <std::size_t K>
Backend guarded(const Backend& inner) {
  wrapped<K> = &inner;
  Backend b = inner;
  if (!b.runGraph) b.open = &openGuarded<K>;
  return b;
}

template <std::size_t... K>
std::vector<Backend> guardAll(const std::vector<const Backend*>& inner, std::index_sequence<K...>) {
  std::vector<Backend> out;
  ((K < inner.size() ? out.push_back(guarded<K>(*inner[K])) : void()), ...);
  return out;
}

}  // namespace

std::span<const Backend* const> backends() {
  static const std::vector<Backend> kAll = guardAll(
      {
#define RLX_BACKEND(name) &backend::name##Backend(),
#include "backends.def"
#undef RLX_BACKEND
      },
      std::make_index_sequence<24>());
  static const std::vector<const Backend*> kPointers = [] {
    std::vector<const Backend*> p;
    for (const Backend& b : kAll) p.push_back(&b);
    return p;
  }();
  return kPointers;
}

int64_t test::guardsChecked() {
  return checked;
}
const std::string& test::guardViolation() {
  return violation;
}

void test::collectKernels() {
  collecting = true;
}
std::vector<Code> test::collectedKernels() {
  collecting = false;
  return std::exchange(collected, {});
}

}  // namespace rlx
