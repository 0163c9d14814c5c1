// Winograd's convolution against plain loops in float64.
#include "backend/cpu/winograd.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "backend/cpu/cpu.h"
#include "backend/cpu/epilogue_testing.h"

namespace rlx::cpu {
namespace {

struct Case {
  int64_t batch, channels, m, height, width, top, left, bottom, right;
  bool bias;
};

void check(const Case& c) {
  auto isa = activeIsa();
  if (!isa) GTEST_SKIP() << isa.error().message();
  auto kernels = GemmKernels::get(*isa, GemmType::F32);
  ASSERT_TRUE(kernels);
  std::mt19937 random(5);
  std::uniform_real_distribution<float> value(-1, 1);
  const auto filled = [&](int64_t n) {
    std::vector<float> v(static_cast<std::size_t>(n));
    for (float& x : v) x = value(random);
    return v;
  };
  const std::vector<float> x = filled(c.batch * c.channels * c.height * c.width);
  const std::vector<float> w = filled(c.m * c.channels * 9), bias = filled(c.m);
  ConvProblem p;
  p.x = x.data(), p.w = w.data(), p.bias = c.bias ? bias.data() : nullptr;
  p.batch = c.batch, p.m = c.m, p.channels = c.channels;
  p.xChannel = c.height * c.width, p.xBatch = c.channels * p.xChannel;
  p.wRow = c.channels * 9, p.wColumn = 1, p.biasStride = 1;
  p.in = {1, c.height, c.width}, p.window = {1, 3, 3};
  p.out = {1, c.height + c.top + c.bottom - 2, c.width + c.left + c.right - 2};
  p.pad = {0, c.top, c.left}, p.xStride = {p.xChannel, c.width, 1};
  const int64_t pixels = p.out[1] * p.out[2];
  std::vector<float> first;
  for (const int threads : {1, 2, 3}) {
    Winograd winograd(*kernels);
    std::vector<float> y(static_cast<std::size_t>(c.batch * c.m * pixels), 12345.0f);
    for (int call = 0; call < 2; ++call) {
      p.y = y.data();
      const Recorder recorder(y.data(), c.batch * c.m, pixels);
      ASSERT_TRUE(winograd.run(p, threads, &recorder));
      recorder.check();
    }
    if (threads == 1)
      first = y;
    else
      ASSERT_EQ(first, y) << threads << " threads";
  }
  double worst = 0;
  for (int64_t n = 0; n < c.batch; ++n)
    for (int64_t o = 0; o < c.m; ++o)
      for (int64_t i = 0; i < pixels; ++i) {
        double sum = c.bias ? bias[static_cast<std::size_t>(o)] : 0, size = 0;
        for (int64_t k = 0; k < c.channels; ++k)
          for (int64_t t = 0; t < 9; ++t) {
            const int64_t row = i / p.out[2] + t / 3 - c.top,
                          column = i % p.out[2] + t % 3 - c.left;
            if (row < 0 || row >= c.height || column < 0 || column >= c.width) continue;
            const double term =
                double{p.x[n * p.xBatch + k * p.xChannel + row * c.width + column]} *
                p.w[o * p.wRow + k * 9 + t];
            sum += term, size += std::abs(term);
          }
        const double got = first[static_cast<std::size_t>((n * c.m + o) * pixels + i)];
        worst = std::max(worst, std::abs(got - sum) / (size + 1));
      }
  // The direct way has about 1e-7 here; the transforms grow that by the size of their matrices.
  EXPECT_LT(worst, 4e-6);
}

TEST(WinogradTest, Planes) {
  check({1, 16, 24, 8, 8, 1, 1, 1, 1, true});
  check({1, 17, 19, 13, 9, 1, 1, 1, 1, true});
  check({2, 16, 40, 7, 30, 0, 1, 2, 0, false});
  check({1, 40, 16, 5, 5, 0, 0, 0, 0, true});
  check({1, 24, 16, 3, 3, 1, 1, 1, 1, true});
  check({1, 16, 16, 1, 2, 1, 1, 1, 1, true});
}
TEST(WinogradTest, ManyBlocks) {
  check({1, 64, 32, 56, 56, 1, 1, 1, 1, true});
  check({3, 32, 32, 14, 14, 1, 1, 1, 1, false});
}

}  // namespace
}  // namespace rlx::cpu
