// Pools against plain loops.
#include "backend/cpu/pool.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "backend/cpu/cpu.h"
#include "ir/builder.h"
#include "ops/attrs.h"
#include "schedule/schedule.h"

namespace rlx::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A pool of [2, 3, spatial...] and what the kernel makes of it.
class Pool {
 public:
  Pool(PoolAttrs attrs, std::vector<int64_t> spatial) : attrs_(std::move(attrs)) {
    Shape shape{Dim(2), Dim(3)};
    in_ = {2, 3};
    for (const int64_t n : spatial) shape.emplace_back(n), in_.push_back(n);
    Builder b;
    const Value y =
        b.emit(OpKind::Pool, {b.input("x", DType::F32, shape)}, Attrs::of(PoolAttrs(attrs_)));
    for (const Dim& n : y.shape()) out_.push_back(n.value());
    b.output("y", y);
    graph_ = *std::move(b).finish();
    for (std::size_t k = 0; k < graph_.nodes.size(); ++k)
      if (graph_.nodes[k].op == OpKind::Pool) node_ = {static_cast<uint32_t>(k)};
    x.resize(static_cast<std::size_t>(product(in_)));
    for (std::size_t k = 0; k < x.size(); ++k)
      x[k] = static_cast<float>(static_cast<int>(k * 37 % 101) - 50) / 16;
  }
  std::vector<float> x;

  NativeQuery query() const {
    NativeQuery q{graph_, node_, caps_, {}};
    q.operands.push_back(stridedView(graph_, graph_.node(node_).inputs[0]));
    return q;
  }

  void check() {
    const NativeQuery q = query();
    ASSERT_TRUE(acceptsPool(q)) << acceptsPool(q).error().text();
    auto program = makePool(q);
    ASSERT_TRUE(program);
    std::vector<float> first;
    for (const int threads : {1, 2, 3}) {
      std::vector<float> y(static_cast<std::size_t>(product(out_)) + 16, kUntouched);
      run(**program, threads, y);
      if (first.empty()) first = y;
      ASSERT_EQ(std::memcmp(first.data(), y.data(), y.size() * sizeof(float)), 0);
      for (std::size_t k = y.size() - 16; k < y.size(); ++k) ASSERT_EQ(y[k], kUntouched);
    }
    compare(first);
  }

 private:
  static constexpr float kUntouched = 12345.0f;

  // Every plane complete once.
  class Counter final : public NativeEpilogue {
   public:
    Counter(int64_t rows, int64_t columns)
        : columns_(columns), calls(static_cast<std::size_t>(rows * columns)) {}
    void apply(int64_t r0, int64_t r1, int64_t c0, int64_t c1) const override {
      for (int64_t r = r0; r < r1; ++r)
        for (int64_t c = c0; c < c1; ++c) ++calls[static_cast<std::size_t>(r * columns_ + c)];
    }

   private:
    int64_t columns_;

   public:
    mutable std::vector<int> calls;
  };

  static int64_t product(const std::vector<int64_t>& v) {
    int64_t n = 1;
    for (const int64_t e : v) n *= e;
    return n;
  }
  static std::vector<int64_t> strides(const std::vector<int64_t>& shape) {
    std::vector<int64_t> s(shape.size(), 1);
    for (std::size_t k = shape.size() - 1; k-- > 0;) s[k] = s[k + 1] * shape[k + 1];
    return s;
  }

  void run(NativeProgram& program, int threads, std::vector<float>& y) {
    const int64_t planes = 6, pixels = product(out_) / planes;
    const Counter counter(planes, pixels);
    NativeCall call;
    call.operands = {{reinterpret_cast<std::byte*>(x.data()), in_, strides(in_)}};
    call.result = {reinterpret_cast<std::byte*>(y.data()), out_, strides(out_)};
    call.threads = threads, call.epilogue = &counter;
    ASSERT_TRUE(program.run(call));
    for (const int n : counter.calls) ASSERT_EQ(n, 1);
  }

  void compare(const std::vector<float>& y) const {
    const bool line = in_.size() == 3;
    const int64_t rows = line ? 1 : out_[2], columns = out_.back();
    std::size_t at = 0;
    for (int64_t plane = 0; plane < 6; ++plane)
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c, ++at) {
          const double want = reference(plane, line ? -1 : r, c);
          if (std::isnan(want))
            ASSERT_TRUE(std::isnan(y[at])) << at << " is " << y[at];
          else if (std::isinf(want))
            ASSERT_EQ(y[at], want) << at;
          else
            ASSERT_NEAR(y[at], want, 1e-5 * (1 + std::fabs(want))) << at;
        }
  }

  // Row -1: the pool has no rows.
  double reference(int64_t plane, int64_t row, int64_t column) const {
    const std::size_t last = attrs_.window.size() - 1;
    const int64_t height = row < 0 ? 1 : in_[2], width = in_.back();
    double best = -kInfinity, sum = 0;
    int64_t count = 0;
    bool nan = false;
    for (int64_t i = 0; i < (row < 0 ? 1 : attrs_.window[0]); ++i)
      for (int64_t j = 0; j < attrs_.window[last]; ++j) {
        const int64_t r =
            row < 0 ? 0 : row * attrs_.strides[0] - attrs_.padLow[0] + i * attrs_.dilations[0];
        const int64_t c =
            column * attrs_.strides[last] - attrs_.padLow[last] + j * attrs_.dilations[last];
        const bool inside = r >= 0 && r < height && c >= 0 && c < width;
        const bool counted =
            r < height + (row < 0 ? 0 : attrs_.padHigh[0]) && c < width + attrs_.padHigh[last];
        if (inside || (attrs_.countPadding && counted)) ++count;
        if (!inside) continue;
        const double v = x[static_cast<std::size_t>((plane * height + r) * width + c)];
        nan = nan || std::isnan(v);
        best = std::max(best, v), sum += v;
      }
    if (attrs_.kind == PoolKind::Average) return sum / static_cast<double>(count);
    return nan ? std::numeric_limits<double>::quiet_NaN() : best;
  }

  PoolAttrs attrs_;
  std::vector<int64_t> in_, out_;
  Graph graph_;
  Caps caps_;
  NodeId node_;
};

class PoolTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!activeIsa()) GTEST_SKIP() << "no vector instructions";
  }
};

PoolAttrs square(PoolKind kind, int64_t window, int64_t step, int64_t low, int64_t high,
                 bool counted = false, bool ceil = false) {
  return {kind, {window, window}, {step, step}, {1, 1}, {low, low}, {high, high}, counted, ceil};
}

TEST_F(PoolTest, EveryWidth) {
  for (const PoolKind kind : {PoolKind::Max, PoolKind::Average})
    for (const int64_t window : {2, 3, 5})
      for (const int64_t step : {1, 2, 3})
        for (int64_t width = 5; width < 38; ++width)
          Pool(square(kind, window, step, window / 2, window / 2), {9, width}).check();
}

TEST_F(PoolTest, Paddings) {
  for (const PoolKind kind : {PoolKind::Max, PoolKind::Average})
    for (const int64_t low : {0, 1, 2})
      for (const int64_t high : {0, 1, 2})
        for (const int64_t step : {1, 2})
          for (const bool counted : {false, true})
            for (const bool ceil : {false, true})
              Pool(square(kind, 3, step, low, high, counted, ceil), {8, 13}).check();
}

TEST_F(PoolTest, LargeWindows) {
  Pool(square(PoolKind::Max, 13, 1, 6, 6), {20, 20}).check();
  Pool(square(PoolKind::Max, 9, 1, 4, 4), {20, 21}).check();
  Pool(square(PoolKind::Average, 7, 1, 0, 0), {7, 7}).check();
  Pool(square(PoolKind::Average, 7, 7, 0, 0), {14, 14}).check();
  Pool(square(PoolKind::Max, 3, 1, 9, 9), {2, 3}).check();  // windows of padding only
}

TEST_F(PoolTest, LinesAndDilations) {
  for (const PoolKind kind : {PoolKind::Max, PoolKind::Average}) {
    for (const int64_t step : {1, 2, 5})
      Pool({kind, {3}, {step}, {1}, {1}, {2}, false, false}, {50}).check();
    Pool({kind, {3, 2}, {1, 2}, {2, 3}, {2, 1}, {1, 3}, false, false}, {11, 19}).check();
    Pool({kind, {2, 3}, {3, 1}, {1, 2}, {0, 2}, {1, 2}, true, true}, {11, 19}).check();
  }
}

TEST_F(PoolTest, NanPropagatesFromEveryPlace) {
  for (const int64_t step : {1, 2})
    for (const int64_t width : {3, 6, 21})
      for (int64_t at = 0; at < 5 * width; ++at) {
        Pool p(square(PoolKind::Max, 3, step, 1, 1), {5, width});
        p.x[static_cast<std::size_t>(at)] =
            std::copysign(std::numeric_limits<float>::quiet_NaN(), at % 2 == 0 ? 1.0f : -1.0f);
        p.x[static_cast<std::size_t>((at * 3 + 1) % (5 * width) + 5 * width)] = kInfinity;
        p.check();
      }
}

TEST_F(PoolTest, InfinityIsTheLeast) {
  Pool p(square(PoolKind::Max, 3, 1, 1, 1), {6, 9});
  std::fill(p.x.begin(), p.x.end(), -kInfinity);
  p.check();
}

TEST_F(PoolTest, RefusesWhatItDoesNotCompute) {
  const PoolAttrs cube{PoolKind::Max, {2, 2, 2}, {1, 1, 1}, {1, 1, 1},
                       {0, 0, 0},     {0, 0, 0}, false,     false};
  const Pool volume(cube, {3, 4, 5});
  EXPECT_FALSE(acceptsPool(volume.query()));
  const Pool sparse(square(PoolKind::Max, 1, 17, 0, 0), {40, 40});
  EXPECT_FALSE(acceptsPool(sparse.query()));
  const Pool cropped(square(PoolKind::Max, 3, 1, -1, 0), {9, 9});
  EXPECT_FALSE(acceptsPool(cropped.query()));
}

}  // namespace
}  // namespace rlx::cpu
