// Depthwise convolutions against plain loops.
#include "backend/cpu/depthwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "backend/cpu/cpu.h"
#include "backend/cpu/epilogue_testing.h"
#include "backend/cpu/vector_code.h"

namespace rlx::cpu {
namespace {

struct Case {
  int64_t batch = 1, groups = 3, m = 1;
  std::array<int64_t, 2> in{}, window{}, step{1, 1}, low{}, high{}, dilation{1, 1};
  bool bias = true;
};

std::string text(const Case& c) {
  const auto pair = [](const std::array<int64_t, 2>& v) {
    return std::to_string(v[0]) + "x" + std::to_string(v[1]);
  };
  return "groups " + std::to_string(c.groups) + "*" + std::to_string(c.m) + " in " + pair(c.in) +
         " window " + pair(c.window) + " step " + pair(c.step) + " pad " + pair(c.low) + ".." +
         pair(c.high) + " dilation " + pair(c.dilation);
}

std::vector<float> sample(int64_t n, int64_t seed) {
  std::vector<float> v(static_cast<std::size_t>(n));
  for (std::size_t k = 0; k < v.size(); ++k) {
    const auto at = static_cast<int64_t>(k) + seed;
    v[k] = static_cast<float>(at * 37 % 101 - 50) / 16 + static_cast<float>(at % 7) / 1024;
  }
  return v;
}

int64_t extent(const Case& c, std::size_t d) {
  return (c.in[d] + c.low[d] + c.high[d] - (c.window[d] - 1) * c.dilation[d] - 1) / c.step[d] + 1;
}

struct Problem {
  std::vector<float> x, w, bias;
  ConvProblem p;

  explicit Problem(const Case& c)
      : x(sample(c.batch * c.groups * c.in[0] * c.in[1], 0)),
        w(sample(c.groups * c.m * c.window[0] * c.window[1], 3)),
        bias(sample(c.groups * c.m, 11)) {
    p.x = x.data(), p.w = w.data(), p.bias = c.bias ? bias.data() : nullptr;
    p.batch = c.batch, p.groups = c.groups, p.m = c.m, p.channels = 1;
    p.k = c.window[0] * c.window[1] + (c.bias ? 1 : 0);
    p.xChannel = c.in[0] * c.in[1], p.xBatch = c.groups * p.xChannel;
    p.wRow = c.window[0] * c.window[1], p.wColumn = 1, p.biasStride = 1;
    p.in = {1, c.in[0], c.in[1]}, p.window = {1, c.window[0], c.window[1]};
    p.out = {1, extent(c, 0), extent(c, 1)};
    p.step = {1, c.step[0], c.step[1]}, p.dilation = {1, c.dilation[0], c.dilation[1]};
    p.pad = {0, c.low[0], c.low[1]}, p.xStride = {p.xChannel, c.in[1], 1};
  }
  int64_t planes() const { return p.batch * p.groups * p.m; }
  int64_t pixels() const { return p.out[1] * p.out[2]; }

  double reference(int64_t plane, int64_t row, int64_t column) const {
    const int64_t channel = plane % (p.groups * p.m);
    const float* from = p.x + plane / p.m * p.xChannel;
    double sum = p.bias ? p.bias[channel] : 0;
    for (int64_t i = 0; i < p.window[1]; ++i)
      for (int64_t j = 0; j < p.window[2]; ++j) {
        const int64_t r = row * p.step[1] - p.pad[1] + i * p.dilation[1];
        const int64_t c = column * p.step[2] - p.pad[2] + j * p.dilation[2];
        if (r < 0 || r >= p.in[1] || c < 0 || c >= p.in[2]) continue;
        sum += double{from[r * p.in[2] + c]} *
               w[static_cast<std::size_t>((channel * p.window[1] + i) * p.window[2] + j)];
      }
    return sum;
  }
};

constexpr float kUntouched = 12345.0f;

void check(const Case& c) {
  SCOPED_TRACE(text(c));
  Problem q(c);
  ASSERT_TRUE(depthwiseTakes(q.p));
  Depthwise d;
  const auto size = static_cast<std::size_t>(q.planes() * q.pixels());
  std::vector<float> first;
  for (const int threads : {1, 2, 3}) {
    std::vector<float> y(size + 16, kUntouched);  // nothing behind the result is written
    q.p.y = y.data();
    const Recorder recorder(y.data(), q.planes(), q.pixels());
    ASSERT_TRUE(d.run(q.p, threads, &recorder));
    recorder.check();
    for (std::size_t k = size; k < y.size(); ++k) ASSERT_EQ(y[k], kUntouched);
    if (first.empty()) first = y;
    ASSERT_EQ(std::memcmp(first.data(), y.data(), size * sizeof(float)), 0) << threads;
  }
  for (int64_t plane = 0; plane < q.planes(); ++plane)
    for (int64_t r = 0; r < q.p.out[1]; ++r)
      for (int64_t x = 0; x < q.p.out[2]; ++x) {
        const double want = q.reference(plane, r, x);
        ASSERT_NEAR(first[static_cast<std::size_t>(plane * q.pixels() + r * q.p.out[2] + x)], want,
                    1e-4 + 1e-5 * std::fabs(want))
            << "plane " << plane << " row " << r << " column " << x;
      }
}

class DepthwiseTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!activeIsa()) GTEST_SKIP() << "no vector instructions";
  }
};

TEST_F(DepthwiseTest, EveryWidth) {
  for (const int64_t window : {3, 5, 7})
    for (const int64_t step : {1, 2, 3})
      for (int64_t width = 1; width <= 36; ++width) {
        const int64_t pad = window / 2;
        check({2, 3, 1, {7, width}, {window, window}, {step, step}, {pad, pad}, {pad, pad}});
      }
}

TEST_F(DepthwiseTest, EveryPadding) {
  for (const int64_t window : {3, 5})
    for (const int64_t step : {1, 2, 3})
      for (const int64_t low : {0, 1, 2})
        for (const int64_t high : {0, 1, 9})
          for (const int64_t width : {13, 14, 41})
            check({1,
                   2,
                   2,
                   {10, width},
                   {window, window},
                   {step, step},
                   {low, high},
                   {high, low},
                   {1, 1},
                   false});
}

TEST_F(DepthwiseTest, NegativePaddingDropsColumns) {
  for (const int64_t step : {1, 2, 3})
    check({1, 2, 1, {12, 19}, {3, 3}, {step, step}, {-1, -2}, {-2, -1}});
}

TEST_F(DepthwiseTest, NarrowPlanesOfManyRows) {
  for (const int64_t width : {1, 5, 7, 9})
    check({2, 2, 3, {700, width}, {3, 3}, {1, 1}, {1, 1}, {1, 1}});
}

TEST_F(DepthwiseTest, LargePlanes) {
  check({1, 2, 1, {70, 113}, {3, 3}, {2, 2}, {0, 0}, {1, 1}});
  check({1, 1, 2, {9, 1100}, {5, 5}, {1, 1}, {2, 2}, {2, 2}});
  check({1, 1, 1, {9, 2049}, {3, 3}, {2, 2}, {1, 1}, {1, 1}});
}

TEST_F(DepthwiseTest, Lines) {
  for (const int64_t length : {1, 30, 33, 100, 2500})
    for (const int64_t window : {1, 3, 31})
      check({2, 3, 1, {1, length}, {1, window}, {1, 1}, {0, window / 2}, {0, window / 2}});
}

TEST_F(DepthwiseTest, DilationsAndUnequalSteps) {
  check({1, 3, 1, {21, 30}, {3, 3}, {1, 1}, {2, 2}, {2, 2}, {2, 2}});
  check({1, 3, 1, {21, 30}, {3, 5}, {2, 1}, {2, 1}, {2, 2}, {3, 1}});
  check({1, 3, 1, {21, 30}, {3, 3}, {1, 2}, {1, 3}, {1, 3}, {1, 3}});
  check({1, 3, 1, {21, 30}, {2, 4}, {3, 4}, {1, 2}, {0, 1}, {1, 1}});
}

TEST_F(DepthwiseTest, WindowsOfPaddingOnly) {
  check({1, 2, 1, {2, 3}, {3, 3}, {1, 1}, {6, 9}, {6, 9}});
  check({1, 2, 1, {2, 3}, {3, 3}, {2, 2}, {6, 9}, {6, 9}});
  check({1, 2, 1, {0, 3}, {3, 3}, {1, 1}, {2, 1}, {2, 1}});
}

TEST_F(DepthwiseTest, StridesOfTheInput) {
  // Every second row of a plane, planes with a gap, and weights in another order.
  Case c{1, 2, 1, {9, 20}, {3, 3}, {1, 1}, {1, 1}, {1, 1}};
  Problem q(c);
  const std::vector<float> wide = sample(4000, 5);
  std::vector<float> x, y(static_cast<std::size_t>(q.planes() * q.pixels())), z(y.size());
  q.p.y = y.data();
  for (int64_t channel = 0; channel < 2; ++channel)
    for (int64_t i = 0; i < 9; ++i)
      for (int64_t j = 0; j < 20; ++j)
        x.push_back(wide[static_cast<std::size_t>(channel * 500 + i * 50 + j)]);
  Depthwise d;
  q.p.x = x.data();
  ASSERT_TRUE(d.run(q.p, 1, nullptr));
  q.p.x = wide.data(), q.p.y = z.data();
  q.p.xChannel = 500, q.p.xStride[1] = 50;
  ASSERT_TRUE(d.run(q.p, 1, nullptr));
  EXPECT_EQ(y, z);
}

TEST_F(DepthwiseTest, TakesOnlyOneChannelAndPlanes) {
  Problem q({1, 2, 1, {9, 20}, {3, 3}, {1, 1}, {1, 1}, {1, 1}});
  EXPECT_TRUE(depthwiseTakes(q.p));
  ConvProblem p = q.p;
  p.channels = 2;
  EXPECT_FALSE(depthwiseTakes(p));
  p = q.p, p.in[0] = p.window[0] = 2;
  EXPECT_FALSE(depthwiseTakes(p));
  p = q.p, p.xStride[2] = 3;
  EXPECT_FALSE(depthwiseTakes(p));
}

TEST_F(DepthwiseTest, CopiesOfRows) {
  const std::vector<float> from = sample(400, 1);
  for (const int64_t step : {1, 2, 3})
    for (int64_t count = 1; count < 40; ++count) {
      const int64_t row = 130, end = row + (count - 1) * step + 1;
      const std::vector<float> exact(from.begin(), from.begin() + end);  // nothing behind is read
      std::vector<float> to(100, kUntouched);
      copyRows(exact.data(), row, step, to.data(), 50, count, 2);
      for (int64_t i = 0; i < 100; ++i) {
        const float want = i % 50 < count
                               ? from[static_cast<std::size_t>(i / 50 * row + i % 50 * step)]
                               : kUntouched;
        ASSERT_EQ(to[static_cast<std::size_t>(i)], want) << i;
      }
    }
}

}  // namespace
}  // namespace rlx::cpu
