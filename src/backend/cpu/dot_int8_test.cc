// 8-bit contractions against plain loops, on every kind of kernel that the machine has.
#include "backend/cpu/dot_int8.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "backend/cpu/cpu.h"
#include "backend/cpu/epilogue_testing.h"
#include "backend/cpu/int8_code.h"
#include "ir/builder.h"
#include "ops/value_ops.h"
#include "schedule/schedule.h"

namespace rlx::cpu {
namespace {

constexpr int32_t kUntouched = 0x12345678;

enum class Right : uint8_t { Input, Constant };

struct Case {
  int64_t batch, m, n, k;
  DType left, right;
  Right kind = Right::Input;
  bool leftTransposed = false, rightTransposed = false;  // [k, m], [n, k]
};

// The extremes of both signs often.
std::vector<uint8_t> sample(int64_t count, uint32_t seed) {
  std::vector<uint8_t> v(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < v.size(); ++i) {
    seed = seed * 1664525 + 1013904223;
    constexpr uint8_t kExtremes[] = {0, 127, 128, 255};
    v[i] = seed >> 31 ? kExtremes[seed >> 29 & 3] : static_cast<uint8_t>(seed >> 20);
  }
  return v;
}

std::vector<int64_t> rowMajor(const std::vector<int64_t>& shape) {
  std::vector<int64_t> s(shape.size(), 1);
  for (std::size_t k = shape.size() - 1; k-- > 0;) s[k] = s[k + 1] * shape[k + 1];
  return s;
}

class Dot {
 public:
  explicit Dot(const Case& c) : c_(c) {
    const std::vector<int64_t> l = c.leftTransposed ? std::vector{c.k, c.m} : std::vector{c.m, c.k};
    const std::vector<int64_t> r =
        c.rightTransposed ? std::vector{c.n, c.k} : std::vector{c.k, c.n};
    shapes_ = {l, r, {c.m, c.n}};
    if (c.kind == Right::Input)
      for (auto& s : shapes_) s.insert(s.begin(), c.batch);
    x = sample(c.batch * c.m * c.k, 1);
    w = sample((c.kind == Right::Input ? c.batch : 1) * c.k * c.n, 2);
    Builder b;
    const Value left = b.input("x", c.left, dims(shapes_[0]));
    const Value right =
        c.kind == Right::Input
            ? b.input("w", c.right, dims(shapes_[1]))
            : b.constant(Literal::copy(c.right, shapes_[1], std::as_bytes(std::span(w))));
    const int64_t first = c.kind == Right::Input ? 1 : 0;
    DotAttrs a{{}, {}, {first + !c.leftTransposed}, {first + c.rightTransposed}, DType::I32};
    if (first) a.lhsBatch = a.rhsBatch = {0};
    b.output("y", dotGeneral(left, right, a));
    graph_ = *std::move(b).finish();
    node_ = graph_.value(graph_.outputs[0].value).node;
  }
  std::vector<uint8_t> x, w;

  NativeQuery query() const {
    NativeQuery q{graph_, node_, caps_, {}};
    for (const ValueId v : graph_.node(node_).inputs) q.operands.push_back(stridedView(graph_, v));
    return q;
  }
  NativeCall call(std::vector<int32_t>& y, int threads, const NativeEpilogue* epilogue) {
    NativeCall call;
    call.operands = {{reinterpret_cast<std::byte*>(x.data()), shapes_[0], rowMajor(shapes_[0])},
                     {reinterpret_cast<std::byte*>(w.data()), shapes_[1], rowMajor(shapes_[1])}};
    call.result = {reinterpret_cast<std::byte*>(y.data()), shapes_[2], rowMajor(shapes_[2])};
    call.threads = threads, call.epilogue = epilogue;
    return call;
  }
  // Sums in 64 bits, then wrapped.
  std::vector<int32_t> expected() const {
    const auto value = [](DType t, uint8_t v) {
      return t == DType::I8 ? int64_t{static_cast<int8_t>(v)} : int64_t{v};
    };
    std::vector<int32_t> y;
    for (int64_t b = 0; b < c_.batch; ++b)
      for (int64_t i = 0; i < c_.m; ++i)
        for (int64_t j = 0; j < c_.n; ++j) {
          const uint8_t* const l = x.data() + b * c_.m * c_.k;
          const uint8_t* const r = w.data() + (c_.kind == Right::Input ? b * c_.k * c_.n : 0);
          int64_t sum = 0;
          for (int64_t k = 0; k < c_.k; ++k)
            sum += value(c_.left, c_.leftTransposed ? l[k * c_.m + i] : l[i * c_.k + k]) *
                   value(c_.right, c_.rightTransposed ? r[j * c_.k + k] : r[k * c_.n + j]);
          y.push_back(static_cast<int32_t>(static_cast<uint32_t>(sum)));
        }
    return y;
  }
  int64_t rows() const { return c_.batch * c_.m; }
  int64_t columns() const { return c_.n; }

 private:
  static Shape dims(const std::vector<int64_t>& s) { return Shape(s.begin(), s.end()); }
  Case c_;
  std::array<std::vector<int64_t>, 3> shapes_;
  Graph graph_;
  NodeId node_;
  Caps caps_;
};

std::vector<const Int8Kernels*> allKernels() {
  std::vector<const Int8Kernels*> out;
  const auto best = detectIsa();
  for (const IsaLevel isa : {IsaLevel::Avx2, IsaLevel::Avx512}) {
    if (!best || isa > *best) continue;
    for (const Vnni vnni : {Vnni::No, Vnni::Yes}) {
      if (vnni > detectVnni(isa)) continue;
      auto kernels = Int8Kernels::get(isa, vnni);
      EXPECT_TRUE(kernels) << kernels.error().text();
      if (kernels) out.push_back(*kernels);
    }
  }
  return out;
}

// At once on 1 to 3 threads, then in parts, last part first.
void check(const Case& c) {
  Dot dot(c);
  const std::vector<int32_t> want = dot.expected();
  const NativeQuery q = dot.query();
  ASSERT_TRUE(acceptsInt8Dot(q)) << acceptsInt8Dot(q).error().text();
  for (const Int8Kernels* kernels : allKernels()) {
    SCOPED_TRACE(std::to_string(kernels->lanes()) + " lanes, " + std::to_string(kernels->depth()) +
                 " values in a word, " + std::to_string(c.m) + "x" + std::to_string(c.n) + "x" +
                 std::to_string(c.k));
    const auto program = int8Dot(q, kernels);
    for (const int threads : {1, 2, 3}) {
      std::vector<int32_t> y(want.size() + 1, kUntouched);
      const Recorder recorder(y.data(), dot.rows(), dot.columns());
      ASSERT_TRUE(program->run(dot.call(y, threads, &recorder)));
      recorder.check();
      ASSERT_EQ(y.back(), kUntouched);
      y.pop_back();
      ASSERT_EQ(y, want);
    }
    std::vector<int32_t> y(want.size() + 1, kUntouched);
    const Recorder recorder(y.data(), dot.rows(), dot.columns());
    const NativeCall call = dot.call(y, 1, &recorder);
    ASSERT_TRUE(program->prepare(call));
    const int64_t cut = dot.rows() / 3;
    ASSERT_GE(program->grain(call, dot.rows()), 1);
    program->runPart(call, dot.rows(), cut, dot.rows());
    if (cut > 0) program->runPart(call, dot.rows(), 0, cut);
    recorder.check();
    ASSERT_EQ(y.back(), kUntouched);
    y.pop_back();
    ASSERT_EQ(y, want);
  }
}

class Int8Dot : public testing::Test {
 protected:
  void SetUp() override {
    if (!activeIsa()) GTEST_SKIP() << "no level of instructions";
  }
};

constexpr std::array<DType, 2> kNarrow{DType::I8, DType::U8};

TEST_F(Int8Dot, EveryMixOfSigns) {
  for (const DType left : kNarrow)
    for (const DType right : kNarrow)
      for (const Right kind : {Right::Input, Right::Constant})
        for (const int64_t k : {1, 2, 3, 4, 5, 16, 33, 70})
          check({1, 19, 53, k, left, right, kind});
}

TEST_F(Int8Dot, TilesAndTheirRests) {
  for (const int64_t m : {1, 3, 4, 8, 9, 13})
    for (const int64_t n : {1, 7, 8, 16, 17, 40, 48, 100})
      check({1, m, n, 21, DType::I8, DType::U8, Right::Constant});
}

TEST_F(Int8Dot, TransposedOperands) {
  for (const DType left : kNarrow)
    for (const DType right : kNarrow)
      for (const bool l : {false, true})
        for (const bool r : {false, true}) check({1, 11, 50, 37, left, right, Right::Input, l, r});
}

TEST_F(Int8Dot, Batches) {
  for (const int64_t batch : {2, 3, 7}) check({batch, 9, 20, 31, DType::U8, DType::U8});
}

TEST_F(Int8Dot, MoreThanABlockOfRows) {
  check({1, 300, 33, 40, DType::I8, DType::I8, Right::Constant});
  check({1, 20, 9, 70000, DType::I8, DType::U8, Right::Constant});
}

TEST_F(Int8Dot, NothingToAddUp) {
  check({1, 5, 6, 0, DType::I8, DType::U8});
  check({2, 5, 0, 3, DType::I8, DType::U8});
  check({0, 5, 6, 3, DType::I8, DType::U8});
}

// 2^31 and more: the largest products of both mixes, and sums that leave 32 bits.
TEST_F(Int8Dot, SumsWrap) {
  for (const DType left : kNarrow)
    for (const DType right : kNarrow) {
      Dot dot({1, 2, 3, 140000, left, right, Right::Input});
      const auto extreme = [](DType t) { return static_cast<uint8_t>(t == DType::I8 ? 128 : 255); };
      std::fill(dot.x.begin(), dot.x.end(), extreme(left));
      std::fill(dot.w.begin(), dot.w.end(), extreme(right));
      for (const Int8Kernels* kernels : allKernels()) {
        std::vector<int32_t> y(6, kUntouched);
        ASSERT_TRUE(int8Dot(dot.query(), kernels)->run(dot.call(y, 1, nullptr)));
        ASSERT_EQ(y, dot.expected());
      }
    }
}

TEST_F(Int8Dot, RefusesOtherContractions) {
  Builder b;
  const Value x = b.input("x", DType::I8, {Dim(3), Dim(4)});
  b.output("y", dotGeneral(x, x, {{}, {}, {1}, {1}, {}}));
  const Graph g = *std::move(b).finish();
  NativeQuery q{g, g.value(g.outputs[0].value).node, {}, {}};
  for (const ValueId v : g.node(q.node).inputs) q.operands.push_back(stridedView(g, v));
  const Status s = acceptsInt8Dot(q);
  ASSERT_FALSE(s);
  EXPECT_NE(s.error().message().find("result"), std::string::npos);
}

TEST_F(Int8Dot, CopiesOfBytes) {
  const std::vector<uint8_t> from = sample(9000, 3);
  for (const int64_t count : {0, 1, 15, 16, 31, 32, 33, 100, 8999}) {
    const std::vector<uint8_t> exact(from.begin(), from.begin() + count);  // nothing behind is read
    std::vector<uint8_t> to(exact.size() + 1, 7);
    std::vector<int16_t> wide(exact.size() + 1, 7);
    uint32_t want = 0;
    for (const uint8_t v : exact) want += v ^ 128u;
    EXPECT_EQ(copyBytes(exact.data(), 128, count, to.data()), want);
    for (const bool isSigned : {false, true}) {
      widenBytes(exact.data(), isSigned, count, wide.data());
      for (std::size_t i = 0; i < exact.size(); ++i) {
        ASSERT_EQ(to[i], exact[i] ^ 128);
        ASSERT_EQ(wide[i], isSigned ? static_cast<int8_t>(exact[i]) : exact[i]);
      }
    }
    EXPECT_EQ(to.back(), 7);
    EXPECT_EQ(wide.back(), 7);
  }
}

TEST_F(Int8Dot, WordsOfRowsAndOfColumns) {
  const std::vector<uint8_t> from = sample(400, 4);
  for (int64_t columns = 0; columns < 50; ++columns) {
    std::vector<uint8_t> to(static_cast<std::size_t>(columns * 4 + 1), 7);
    const std::vector<uint8_t> exact(from.begin(), from.begin() + 3 * 70 + columns);
    interleaveRows(exact.data(), 70, 1, columns, to.data());
    for (int64_t i = 0; i < columns * 4; ++i)
      ASSERT_EQ(to[static_cast<std::size_t>(i)],
                exact[static_cast<std::size_t>(i % 4 * 70 + i / 4)] ^ 1);
    EXPECT_EQ(to.back(), 7);
    const std::vector<uint8_t> lines(from.begin(), from.begin() + (columns ? columns * 7 - 3 : 0));
    copyWords(lines.data(), 7, 1, columns, to.data());
    for (int64_t i = 0; i < columns * 4; ++i)
      ASSERT_EQ(to[static_cast<std::size_t>(i)],
                lines[static_cast<std::size_t>(i / 4 * 7 + i % 4)] ^ 1);
    EXPECT_EQ(to.back(), 7);
  }
}

}  // namespace
}  // namespace rlx::cpu
