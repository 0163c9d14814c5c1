// Contractions of every float dtype, as a backend is asked for them, against the interpreter.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/cpu.h"
#include "backend/cpu/epilogue_testing.h"
#include "ir/builder.h"
#include "ops/attrs.h"
#include "ops/interpreter.h"
#include "ops/tolerance.h"
#include "schedule/schedule.h"

namespace rlx::cpu {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr DType kFloats[] = {DType::F32, DType::F64, DType::F16, DType::BF16};
constexpr std::byte kUntouched{0x5a};

enum class Right : uint8_t { Input, Constant };
enum class Order : uint8_t { RowMajor, Transposed };

struct Case {
  int64_t m = 1, n = 1, k = 1;
  int64_t batch = 0;  // 0: no such axis
  Right right = Right::Input;
  Order lhs = Order::RowMajor, rhs = Order::RowMajor;
  int64_t step = 1;  // from one element of the last axis of the left to the next
  int64_t gap = 0;   // between rows of the result
};

std::string text(DType t, const Case& c) {
  return std::string(name(t)) + " " + std::to_string(c.batch) + " of " + std::to_string(c.m) + "x" +
         std::to_string(c.n) + "x" + std::to_string(c.k) +
         (c.right == Right::Constant ? " constant" : "") +
         (c.lhs == Order::Transposed ? " left transposed" : "") +
         (c.rhs == Order::Transposed ? " right transposed" : "");
}

// One contraction: [batch, m, k] x [batch, k, n], a transposed side with its last axes exchanged.
class Dot {
 public:
  Dot(DType t, const Case& c) : dtype_(t), case_(c) {
    x = RefTensor(t, shape(c.lhs, c.m, c.k)), w = RefTensor(t, shape(c.rhs, c.k, c.n));
    std::mt19937 random(static_cast<uint32_t>(c.m * 31 + c.n * 7 + c.k));
    std::uniform_real_distribution<double> real(-2, 2);
    for (RefTensor* const v : {&x, &w})
      for (double& e : v->f) e = roundTo(t, real(random));
  }

  // Builds the node for the values of x and w.
  void make() {
    xBytes_ = spread(*toBytes(x), case_.step);
    wBytes_ = *toBytes(w);
    Builder b;
    const Value left = b.input("x", dtype_, dims(x.shape));
    const Value right = case_.right == Right::Constant
                            ? b.constant(Literal::copy(dtype_, w.shape, wBytes_))
                            : b.input("w", dtype_, dims(w.shape));
    const int64_t first = case_.batch > 0 ? 1 : 0;
    DotAttrs a;
    if (case_.batch > 0) a.lhsBatch = a.rhsBatch = {0};
    a.lhsContract = {first + (case_.lhs == Order::RowMajor ? 1 : 0)};
    a.rhsContract = {first + (case_.rhs == Order::RowMajor ? 0 : 1)};
    b.output("y", b.emit(OpKind::DotGeneral, {left, right}, Attrs::of(std::move(a))));
    graph_ = *std::move(b).finish();
    for (std::size_t k = 0; k < graph_.nodes.size(); ++k)
      if (graph_.nodes[k].op == OpKind::DotGeneral) node_ = {static_cast<uint32_t>(k)};
    NativeQuery q{graph_, node_, caps_, {}};
    for (const ValueId v : graph_.node(node_).inputs) q.operands.push_back(stridedView(graph_, v));
    program_ = nullptr;
    for (const NativeKernel& native : natives())
      if (native.op == OpKind::DotGeneral && native.accepts(q)) {
        ASSERT_EQ(program_, nullptr) << "accepted twice";
        EXPECT_EQ(native.name, "gemm " + std::string(name(dtype_)));
        auto made = native.make(q);
        ASSERT_TRUE(made) << made.error().text();
        program_ = *std::move(made);
      }
    ASSERT_NE(program_, nullptr) << "not accepted";
  }

  // A call that writes to `y`, which has resultBytes().
  NativeCall call(std::vector<std::byte>& y, int threads) {
    NativeCall c;
    c.threads = threads;
    c.operands = {tensor(xBytes_.data(), x.shape, case_.step), tensor(wBytes_.data(), w.shape, 1)};
    c.result.data = y.data();
    if (case_.batch > 0) c.result.shape.push_back(case_.batch);
    c.result.shape.push_back(case_.m), c.result.shape.push_back(case_.n);
    c.result.strides = {case_.m * rowPitch(), rowPitch(), 1};
    if (case_.batch == 0) c.result.strides.erase(c.result.strides.begin());
    return c;
  }
  int64_t rows() const { return std::max<int64_t>(case_.batch, 1) * case_.m; }
  std::vector<std::byte> result() const {
    return std::vector<std::byte>(bytes(rows() * rowPitch() + 16), kUntouched);
  }
  // What run, or prepare and runPart over parts of the given size, leave; with the epilogue's calls
  // checked where rows have no gap.
  std::vector<std::byte> run(int threads) {
    std::vector<std::byte> y = result();
    recorded(y, call(y, threads), [&](const NativeCall& c) { ASSERT_TRUE(program_->run(c)); });
    return y;
  }
  std::vector<std::byte> runParts(int64_t units, int64_t together) {
    std::vector<std::byte> y = result();
    recorded(y, call(y, 2), [&](const NativeCall& c) {
      ASSERT_TRUE(program_->prepare(c));
      EXPECT_GE(program_->grain(c, units), 1);
      for (int64_t end = units; end > 0; end -= together)
        program_->runPart(c, units, std::max<int64_t>(end - together, 0), end);
    });
    return y;
  }
  int64_t memory() const { return program_->memory(); }

  // The values of the result; fails where the gaps between rows or what follows was written.
  RefTensor values(const std::vector<std::byte>& y) const {
    std::vector<std::byte> packed;
    for (int64_t r = 0; r < rows(); ++r) {
      const auto at = y.begin() + static_cast<std::ptrdiff_t>(bytes(r * rowPitch()));
      const auto end = at + static_cast<std::ptrdiff_t>(bytes(case_.n));
      packed.insert(packed.end(), at, end);
      for (auto b = end; b != at + static_cast<std::ptrdiff_t>(bytes(rowPitch())); ++b)
        EXPECT_EQ(*b, kUntouched) << "behind row " << r;
    }
    for (std::size_t k = bytes(rows() * rowPitch()); k < y.size(); ++k)
      EXPECT_EQ(y[k], kUntouched) << "behind the result";
    std::vector<int64_t> s{case_.m, case_.n};
    if (case_.batch > 0) s.insert(s.begin(), case_.batch);
    return *fromBytes(dtype_, std::move(s), packed);
  }
  RefTensor reference() const {
    std::vector<RefTensor> in{x};
    if (case_.right == Right::Input) in.push_back(w);
    return interpret(graph_, in)->at(0);
  }

  RefTensor x, w;  // may be changed before make

 private:
  std::vector<int64_t> shape(Order order, int64_t rows, int64_t columns) const {
    std::vector<int64_t> s{rows, columns};
    if (order == Order::Transposed) std::swap(s[0], s[1]);
    if (case_.batch > 0) s.insert(s.begin(), case_.batch);
    return s;
  }
  static Shape dims(const std::vector<int64_t>& s) { return Shape(s.begin(), s.end()); }
  std::size_t bytes(int64_t elements) const {
    return static_cast<std::size_t>(storageBytes(dtype_, elements));
  }
  int64_t rowPitch() const { return case_.n + case_.gap; }
  static NativeTensor tensor(std::byte* data, const std::vector<int64_t>& s, int64_t step) {
    NativeTensor t{data, s, rowMajorStrides(s)};
    for (int64_t& stride : t.strides) stride *= step;
    return t;
  }
  // Elements `step` apart.
  std::vector<std::byte> spread(const std::vector<std::byte>& from, int64_t step) const {
    const std::size_t size = bytes(1);
    std::vector<std::byte> to(from.size() * static_cast<std::size_t>(step) + 1, kUntouched);
    for (std::size_t k = 0; k < from.size(); k += size)
      std::memcpy(to.data() + k * static_cast<std::size_t>(step), from.data() + k, size);
    return to;
  }
  template <class F>
  void recorded(std::vector<std::byte>& y, NativeCall c, F&& f) {
    if (case_.gap > 0) return f(c);
    const auto with = [&](const auto* elements) {
      const Recorder recorder(elements, rows(), case_.n);
      c.epilogue = &recorder;
      f(c);
      recorder.check();
    };
    // Bit patterns, so that NaN equals itself.
    if (bytes(1) == 2) with(reinterpret_cast<const uint16_t*>(y.data()));
    if (bytes(1) == 4) with(reinterpret_cast<const uint32_t*>(y.data()));
    if (bytes(1) == 8) with(reinterpret_cast<const uint64_t*>(y.data()));
  }

  DType dtype_;
  Case case_;
  std::vector<std::byte> xBytes_, wBytes_;
  Graph graph_;
  NodeId node_;
  Caps caps_;
  std::unique_ptr<NativeProgram> program_;
};

class DotTest : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (!activeIsa()) GTEST_SKIP() << "no vector instructions";
  }
};

void check(Dot& d, DType t, const Case& c) {
  SCOPED_TRACE(text(t, c));
  d.make();
  if (testing::Test::HasFatalFailure()) return;
  const std::vector<std::byte> first = d.run(1);
  const double scale = 4 * std::sqrt(static_cast<double>(c.k)) + 2;
  const Difference diff =
      compare(d.values(first), d.reference(), tolerance(OpKind::DotGeneral, t, c.k), scale);
  EXPECT_TRUE(diff.equal) << "element " << diff.at << ": " << diff.got << ", want " << diff.want;
  // Neither threads nor parts change a bit.
  for (const int threads : {2, 3}) ASSERT_EQ(d.run(threads), first) << threads << " threads";
  const int64_t units = c.right == Right::Constant ? c.m : d.rows();
  for (const int64_t together : {int64_t{1}, int64_t{5}, units})
    ASSERT_EQ(d.runParts(units, together), first) << "parts of " << together;
}

TEST_P(DotTest, Sizes) {
  for (const Right right : {Right::Input, Right::Constant})
    for (const int64_t m : {1, 3, 8, 9, 50, 130})
      for (const int64_t n : {1, 5, 24, 49, 100})
        for (const int64_t k : {1, 3, 4, 37}) {
          const Case c{m, n, k, 0, right};
          Dot d(GetParam(), c);
          check(d, GetParam(), c);
        }
}

TEST_P(DotTest, OrdersOfTheOperands) {
  for (const Right right : {Right::Input, Right::Constant})
    for (const Order lhs : {Order::RowMajor, Order::Transposed})
      for (const Order rhs : {Order::RowMajor, Order::Transposed})
        for (const int64_t step : {1, 3})
          for (const int64_t gap : {0, 5}) {
            const Case c{53, 61, 29, 0, right, lhs, rhs, step, gap};
            Dot d(GetParam(), c);
            check(d, GetParam(), c);
          }
}

TEST_P(DotTest, Batches) {
  for (const int64_t batch : {1, 2, 7})
    for (const Order rhs : {Order::RowMajor, Order::Transposed})
      for (const int64_t m : {1, 11, 64}) {
        const Case c{m, 33, 16, batch, Right::Input, Order::RowMajor, rhs};
        Dot d(GetParam(), c);
        check(d, GetParam(), c);
      }
}

// Rows and panels that do not fit the memory for widened values at once.
TEST_P(DotTest, LongSums) {
  for (const Right right : {Right::Input, Right::Constant})
    for (const Order lhs : {Order::RowMajor, Order::Transposed}) {
      const Case c{50, 50, 2900, 0, right, lhs};
      Dot d(GetParam(), c);
      check(d, GetParam(), c);
    }
}

TEST_P(DotTest, NothingToAddUp) {
  for (const Right right : {Right::Input, Right::Constant})
    for (const Case& c : {Case{5, 3, 0, 0, right}, Case{0, 3, 4, 0, right}, Case{5, 0, 4, 0, right},
                          Case{5, 3, 0, 0, right, Order::RowMajor, Order::RowMajor, 1, 2}}) {
      SCOPED_TRACE(text(GetParam(), c));
      Dot d(GetParam(), c);
      ASSERT_NO_FATAL_FAILURE(d.make());
      for (const double v : d.values(d.run(2)).f) EXPECT_EQ(v, 0);
      if (c.m > 0) {
        EXPECT_EQ(d.runParts(c.m, 1), d.run(1));
      }
    }
}

TEST_P(DotTest, NanAndInfinity) {
  for (const Right right : {Right::Input, Right::Constant})
    for (const int64_t m : {20, 60}) {
      const Case c{m, 70, 9, 0, right};
      Dot d(GetParam(), c);
      d.x.f[2] = std::nan(""), d.x.f[9 + 4] = kInf, d.x.f[18] = -kInf;
      d.w.f[4 * 70 + 3] = 0, d.w.f[5 * 70 + 69] = kInf;
      check(d, GetParam(), c);
      const RefTensor y = d.values(d.run(1));
      for (std::size_t j = 0; j < 70; ++j) EXPECT_TRUE(std::isnan(y.f[j]));
      EXPECT_TRUE(std::isnan(y.f[70 + 3]));  // inf * 0
      EXPECT_TRUE(std::isinf(y.f[3 * 70 + 69]));
    }
}

// Narrow floats are rounded once, at the end of a sum.
TEST_P(DotTest, RoundsOnce) {
  const DType t = GetParam();
  if (info(t).bits != 16) return;
  for (const Right right : {Right::Input, Right::Constant})
    for (const int64_t m : {3, 60}) {
      Dot d(t, {m, 30, 4096, 0, right});
      for (double& v : d.x.f) v = 1;
      for (double& v : d.w.f) v = 1;
      // Row 1: beyond the largest f16 on the way, row 2: at the end.
      for (std::size_t k = 0; k < 4; ++k) d.x.f[4096 + k] = k < 2 ? 60032 : -60032;
      for (std::size_t k = 0; k < 2; ++k) d.x.f[2 * 4096 + k] = 60032;
      ASSERT_NO_FATAL_FAILURE(d.make());
      const RefTensor y = d.values(d.run(1));
      for (std::size_t j = 0; j < 30; ++j) {
        EXPECT_EQ(y.f[j], 4096);  // in the narrow dtype it would not pass its digits
        EXPECT_EQ(y.f[30 + j], roundTo(t, 4092));
        EXPECT_EQ(y.f[60 + j], roundTo(t, 2 * roundTo(t, 60032) + 4094));
      }
    }
}

// A constant right side is kept in its own dtype.
TEST_P(DotTest, MemoryOfConstants) {
  Dot d(GetParam(), {20, 96, 64, 0, Right::Constant});  // whole panels for all vectors
  ASSERT_NO_FATAL_FAILURE(d.make());
  EXPECT_EQ(d.memory(), 0);
  d.run(1);
  EXPECT_EQ(d.memory(), storageBytes(GetParam(), 96 * 64));
}

INSTANTIATE_TEST_SUITE_P(, DotTest, testing::ValuesIn(kFloats),
                         [](const auto& p) { return std::string(name(p.param)); });

}  // namespace
}  // namespace rlx::cpu
