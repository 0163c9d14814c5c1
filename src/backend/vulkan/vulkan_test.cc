#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "base/file.h"
#include "dialect/dialect.h"
#include "kir/interp.h"
#include "kir/kernels_for_test.h"
#include "runtime/device.h"

namespace rlx::backend {
const Backend& vulkanBackend();
}

namespace rlx {
namespace {

using kir::test::Sample;

std::unique_ptr<Device> openOrFail(const OpenOptions& options = {}) {
  auto device = backend::vulkanBackend().open(options);
  EXPECT_TRUE(device) << "these tests need a Vulkan device, for example mesa-vulkan-drivers: "
                      << (device ? "" : device.error().text());
  return device ? *std::move(device) : nullptr;
}

// The buffers after running the sample on the device.
Result<std::vector<std::vector<std::byte>>> runOn(Device& device, const Caps& caps,
                                                  const Sample& s) {
  RLX_TRY(const Code code, backend::vulkanBackend().emit(s.kernel, caps));
  RLX_TRY(const KernelId kernel, device.load(code));
  std::vector<BufferSlice> slices;
  for (const auto& g : s.globals) {
    RLX_TRY(const BufferId b, device.allocate(static_cast<int64_t>(g.size())));
    RLX_OK(device.upload(b, 0, g));
    slices.push_back({b, 0, static_cast<int64_t>(g.size())});
  }
  RLX_OK(device.launch(kernel, s.grid, slices, s.params));
  auto out = s.globals;
  for (std::size_t i = 0; i < out.size(); ++i) {
    RLX_OK(device.download(slices[i].buffer, 0, out[i]));
    device.release(slices[i].buffer);
  }
  return out;
}

void compare(Device& device, const Caps& caps, const std::vector<Sample>& samples) {
  for (const Sample& s : samples) {
    auto want = s.globals;
    std::vector<std::span<std::byte>> views(want.begin(), want.end());
    const auto ran = kir::interpret(s.kernel, s.grid, views, s.params);
    ASSERT_TRUE(ran) << ran.error().text();
    auto got = runOn(device, caps, s);
    if (!got) {
      ADD_FAILURE() << got.error().text();
      continue;
    }
    EXPECT_EQ(kir::test::difference(s, want, *got), "");
  }
}

TEST(Vulkan, probeNamesTheDevice) {
  const DeviceReport r = backend::vulkanBackend().probe();
  EXPECT_EQ(r.status, DeviceStatus::Native) << r.detail;
  EXPECT_NE(r.detail.find("Vulkan 1."), std::string::npos) << r.detail;
  EXPECT_NE(r.library.find("vulkan"), std::string::npos);
}

TEST(Vulkan, samplesAgreeWithTheInterpreter) {
  auto device = openOrFail();
  ASSERT_NE(device, nullptr);
  const Caps& caps = device->caps();
  compare(*device, caps,
          kir::test::samples(32, canCompute(caps, DType::I64), canCompute(caps, DType::F64)));
}

TEST(Vulkan, functionsStayWithinTheirBounds) {
  auto device = openOrFail();
  ASSERT_NE(device, nullptr);
  compare(*device, device->caps(), kir::test::functions(32));
}

// GLSL has neither for doubles: they are exact at any ratio and magnitude, subnormals included.
TEST(Vulkan, remaindersAndFmaOfDoublesAreExact) {
  auto device = openOrFail();
  ASSERT_NE(device, nullptr);
  if (!canCompute(device->caps(), DType::F64)) GTEST_SKIP() << "the device has no f64";
  std::mt19937_64 random(1);
  std::vector<double> a, b;
  for (int k = 0; k < 4000; ++k) {
    const auto x = static_cast<uint64_t>(random()), y = static_cast<uint64_t>(random());
    // Any bits; near exponents; few bits set; subnormal.
    const uint64_t near = (x & (uint64_t{0x7ff} << 52)) | (y >> 12);
    const uint64_t choices[] = {y, near, near >> (y % 50) << (y % 50), y >> 12};
    a.push_back(std::bit_cast<double>(k % 7 ? x : x >> 13));
    b.push_back(std::bit_cast<double>(choices[k % 4]));
  }
  for (const ScalarOp op : {ScalarOp::Rem, ScalarOp::Fma})
    compare(*device, device->caps(),
            {kir::test::zip(
                "exact", DType::F64, DType::F64, kir::test::bytesOf(a), kir::test::bytesOf(b),
                [&](const kir::Expr& x, const kir::Expr& y) {
                  return kir::Expr::apply(op, x, y, op == ScalarOp::Fma ? -(x * y) : x);
                },
                32)});
}

// The same kernels as for a device without narrow storage: packed loads. Narrow stores are refused.
TEST(Vulkan, lowCapabilityProfile) {
  auto device = openOrFail();
  ASSERT_NE(device, nullptr);
  const Caps& low = findDialect("glsl")->caps;
  int ran = 0, refused = 0;
  for (Sample& s : kir::test::samples(32, false, false)) {
    if (s.kernel.buffers.size() > 3) continue;
    auto code = backend::vulkanBackend().emit(s.kernel, low);
    if (!code) {
      EXPECT_EQ(code.error().code(), Errc::Unsupported);
      ++refused;
      continue;
    }
    ++ran;
    compare(*device, low, {s});
  }
  EXPECT_GT(ran, 20);
  EXPECT_GT(refused, 3);
}

// A launch sees what the one before wrote: x -> y -> x, many times, in one submission.
TEST(Vulkan, chainsOfLaunches) {
  auto device = openOrFail();
  ASSERT_NE(device, nullptr);
  Sample s = kir::test::map(
      "step", DType::F32, DType::F32, kir::test::bytesOf(kir::test::ramp(100)),
      [](const kir::Expr& v) { return v + kir::Expr(1.0); }, 32);
  auto code = backend::vulkanBackend().emit(s.kernel, device->caps());
  ASSERT_TRUE(code) << code.error().text();
  auto kernel = device->load(*code);
  ASSERT_TRUE(kernel) << kernel.error().text();
  auto x = device->allocate(400), y = device->allocate(400);
  ASSERT_TRUE(x && y);
  ASSERT_TRUE(device->upload(*x, 0, s.globals[0]));
  for (int i = 0; i < 100; ++i) {
    const BufferSlice there[] = {{*x, 0, 400}, {*y, 0, 400}}, back[] = {{*y, 0, 400}, {*x, 0, 400}};
    ASSERT_TRUE(device->launch(*kernel, s.grid, there, s.params));
    ASSERT_TRUE(device->launch(*kernel, s.grid, back, s.params));
  }
  std::vector<float> got(100);
  ASSERT_TRUE(device->download(*x, 0, std::as_writable_bytes(std::span(got))));
  const auto from = kir::test::ramp(100);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], from[i] + 200);
}

TEST(Vulkan, manySmallBuffers) {
  auto device = openOrFail();
  ASSERT_NE(device, nullptr);
  std::vector<BufferId> ids;
  for (uint32_t i = 0; i < 5000; ++i) {
    auto b = device->allocate(i % 7 * 100);
    ASSERT_TRUE(b) << b.error().text();
    ids.push_back(*b);
    if (i % 7 == 0) continue;
    ASSERT_TRUE(device->upload(*b, 0, std::as_bytes(std::span(&i, 1))));
  }
  for (uint32_t i = 0; i < 5000; i += 2) device->release(ids[i]);
  for (uint32_t i = 1; i < 5000; i += 2) {
    if (i % 7 == 0) continue;
    uint32_t v = 0;
    ASSERT_TRUE(device->download(ids[i], 0, std::as_writable_bytes(std::span(&v, 1))));
    ASSERT_EQ(v, i);
  }
}

TEST(Vulkan, errorsNameTheLimit) {
  auto device = openOrFail();
  ASSERT_NE(device, nullptr);
  Sample s = kir::test::map(
      "id", DType::F32, DType::F32, kir::test::bytesOf(kir::test::ramp(8)),
      [](const kir::Expr& v) { return v; }, 32);
  auto code = backend::vulkanBackend().emit(s.kernel, device->caps());
  ASSERT_TRUE(code) << code.error().text();
  auto kernel = device->load(*code);
  ASSERT_TRUE(kernel);
  auto x = device->allocate(32);
  ASSERT_TRUE(x);
  const BufferSlice slices[] = {{*x, 0, 32}, {*x, 0, 32}};
  Status r = device->launch(*kernel, {int64_t{1} << 40, 1, 1}, slices, s.params);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), Errc::Unsupported);
  EXPECT_NE(r.error().message().find("grid extent"), std::string::npos) << r.error().message();
  EXPECT_TRUE(device->launch(*kernel, {0, 1, 1}, slices, s.params));
  EXPECT_FALSE(device->launch(*kernel, {1, 1, 1}, {}, s.params));
  EXPECT_FALSE(device->upload(*x, 16, std::vector<std::byte>(32)));
  auto huge = device->allocate(int64_t{1} << 50);
  ASSERT_FALSE(huge);
  EXPECT_EQ(huge.error().code(), Errc::OutOfMemory) << huge.error().text();
  EXPECT_NE(huge.error().message().find("1125899906842624"), std::string::npos);
  EXPECT_FALSE(backend::vulkanBackend().open({.threads = 0, .cacheDir = "", .index = 99}));
}

TEST(Vulkan, damagedPipelineCacheIsIgnored) {
  const std::string dir = testing::TempDir() + "rlx_vulkan_cache";
  std::filesystem::remove_all(dir);
  const Sample s = kir::test::rowSum(32);
  for (int round = 0; round < 4; ++round) {
    {
      auto device = openOrFail({.threads = 0, .cacheDir = dir, .index = 0});
      ASSERT_NE(device, nullptr);
      compare(*device, device->caps(), {s});
    }
    std::string path;
    for (const auto& e : std::filesystem::directory_iterator(dir)) path = e.path().string();
    ASSERT_NE(path, "") << "no cache was written";
    auto data = readFile(path, 1 << 26);
    ASSERT_TRUE(data);
    if (round == 0) data->resize(data->size() / 2);
    if (round == 1) (*data)[data->size() - 1] = static_cast<char>((*data)[data->size() - 1] ^ 0x55);
    if (round == 2) data->clear();
    ASSERT_TRUE(writeFileAtomic(path, *data));
  }
}

}  // namespace
}  // namespace rlx
