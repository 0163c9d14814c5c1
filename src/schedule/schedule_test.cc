#include "schedule/schedule.h"

#include <gtest/gtest.h>

#include "kir/print.h"
#include "passes/passes.h"
#include "schedule/chain.h"
#include "schedule/memory_plan.h"

namespace rlx {
namespace {

Caps cpu() {
  Caps c;
  for (const DType t : {DType::F64, DType::F32, DType::I64, DType::I32, DType::U64, DType::U32,
                        DType::Bool, DType::F16, DType::BF16, DType::I8, DType::U8})
    c.arithmetic |= bit(t), c.storage |= bit(t);
  c.maxGrid = {INT64_MAX, INT64_MAX, INT64_MAX};
  c.vectorBits = 256;
  return c;
}

Graph primitive(const std::string& body) {
  auto g = parseGraph("graph \"g\" model {\n" + body + "}\n");
  EXPECT_TRUE(g) << g.error().text() << body;
  auto flat = decompose(*g, {}, nullptr);
  EXPECT_TRUE(flat) << flat.error().text();
  auto out = simplify(*flat);
  EXPECT_TRUE(out);
  return *std::move(out);
}

Program scheduled(const std::string& body, const Caps& caps = cpu()) {
  Graph g = primitive(body);
  const std::vector<const NativeKernel*> none(g.nodes.size(), nullptr);
  auto p = schedule(std::move(g), caps, none);
  EXPECT_TRUE(p) << p.error().text();
  return *std::move(p);
}

std::string labels(const Program& p) {
  std::string s;
  for (const Step& step : p.steps) s += (s.empty() ? "" : " | ") + step.label;
  return s;
}

constexpr const char* kX = "%0:f32[n,64] = input() {name=\"x\" dtype=f32 shape=[n,64]}\n";

TEST(Schedule, WhatBecomesOneKernel) {
  const std::string weights =
      "%1:f32[64,32] = input() {name=\"w\" dtype=f32 shape=[64,32]}\n"
      "%2:f32[32] = input() {name=\"b\" dtype=f32 shape=[32]}\n";
  const struct {
    const char* what;
    std::string body;
    const char* labels;
  } cases[] = {
      {"softmax", std::string(kX) + "%1:f32[n,64] = softmax(%0) {axis=-1}\noutput \"y\" = %1\n",
       "reduce+sub+exp+reduce+reciprocal+mul"},
      {"layer_norm",
       std::string(kX) +
           "%1:f32[64] = input() {name=\"s\" dtype=f32 shape=[64]}\n"
           "%2:f32[n,64] = layer_norm(%0, %1, %1) {axis=-1 epsilon=1e-05}\noutput \"y\" = %2\n",
       "reduce+div+sub+mul+reduce+div+add+rsqrt+mul+mul+add"},
      {"a chain of maps",
       std::string(kX) + "%1:f32[n,64] = exp(%0)\n%2:f32[n,64] = neg(%1)\n%3:f32[n,64] = add(%2, "
                         "%0)\noutput \"y\" = %3\n",
       "exp+neg+add"},
      {"linear with bias and gelu",
       std::string(kX) + weights +
           "%3:f32[n,32] = linear(%0, %1, %2) {transposed=false}\n%4:f32[n,32] = relu(%3)\noutput "
           "\"y\" = %4\n",
       "dot_general+add+max"},
      {"moves cost no kernel",
       std::string(kX) + "%1:f32[64,n] = transpose(%0) {perm=[1,0]}\n%2:f32[8,8,n] = reshape(%1) "
                         "{shape=[8,8,n]}\n"
                         "%3:f32[8,8,n] = exp(%2)\noutput \"y\" = %3\n",
       "exp"},
      {"a reduction over a leading axis is a step of its own when it is used again",
       std::string(kX) + "%1:f32[1,64] = reduce(%0) {kind=sum axes=[0] "
                         "keepDims=true}\n%2:f32[n,64] = sub(%0, %1)\noutput \"y\" = %2\n",
       "reduce | sub"},
  };
  for (const auto& c : cases) EXPECT_EQ(labels(scheduled(c.body)), c.labels) << c.what;
}

int occurrences(const std::string& text, std::string_view what) {
  int n = 0;
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++n;
  return n;
}

// Softmax needs exp in two passes over a row: it is computed in one and kept for the other.
TEST(Schedule, ARowKeepsWhatALaterPassNeeds) {
  const Program p =
      scheduled(std::string(kX) + "%1:f32[n,64] = softmax(%0) {axis=-1}\noutput \"y\" = %1\n");
  ASSERT_EQ(p.steps.size(), 1u);
  const std::string text = kir::print(p.steps[0].kernel);
  EXPECT_EQ(occurrences(text, "= exp("), 1) << text;
  EXPECT_NE(text.find("out: f32 readwrite"), text.npos) << text;
  // What is read after the first store to the result is not overwritten by it.
  const Program twice = scheduled(std::string(kX) +
                                  "%1:f32[n,64] = neg(%0)\n%2:f32[n,64] = softmax(%1) {axis=-1}\n"
                                  "%3:f32[n,64] = add(%2, %0)\noutput \"y\" = %3\n");
  for (const Step& s : twice.steps)
    if (kir::print(s.kernel).find("readwrite") != std::string::npos) {
      EXPECT_EQ(s.inPlace, -1);
    }
}

// A layer norm and the softmax of its rows run row by row; what needs other rows ends the chain.
TEST(Schedule, StepsOverTheSameRowsFormAChain) {
  Caps caps = cpu();
  caps.parts = true;
  const std::string norm = std::string(kX) +
                           "%1:f32[64] = input() {name=\"s\" dtype=f32 shape=[64]}\n"
                           "%2:f32[n,64] = layer_norm(%0, %1, %1) {axis=-1 epsilon=1e-05}\n";
  const Program rows = scheduled(
      norm + "%3:f32[n,64] = softmax(%2) {axis=-1}\noutput \"a\" = %2\noutput \"b\" = %3\n", caps);
  ASSERT_EQ(rows.chains.size(), 1u);
  EXPECT_EQ(rows.chains[0].first, 0u);
  EXPECT_EQ(rows.chains[0].last, 1u);
  EXPECT_EQ(rows.chains[0].over, std::vector<Dim>{Dim::symbol("n")});
  const Program shifted =
      scheduled(norm +
                    "%3:f32[n,64] = slice(%2) {start=[0,0] size=[n,64] step=[1,1]}\n"
                    "%4:f32[64,n] = transpose(%2) {perm=[1,0]}\n"
                    "%5:f32[64,n] = softmax(%4) {axis=-1}\noutput \"a\" = %2\noutput \"b\" = %5\n",
                caps);
  EXPECT_TRUE(shifted.chains.empty()) << print(shifted);
  EXPECT_TRUE(scheduled(norm + "%3:f32[n,64] = softmax(%2) {axis=-1}\noutput \"a\" = %2\n"
                               "output \"b\" = %3\n")
                  .chains.empty());
}

TEST(Schedule, EveryOutputIsABufferOfItsOwn) {
  const Program p = scheduled(std::string(kX) +
                              "%1:f32[n,64] = neg(%0)\n"
                              "output \"in\" = %0\noutput \"a\" = %1\noutput \"b\" = %1\n");
  int outputs = 0;
  for (const ProgramBuffer& b : p.buffers) outputs += b.kind == BufferKind::Output;
  EXPECT_EQ(outputs, 3);
  EXPECT_EQ(p.steps.size(), 3u);
}

TEST(Schedule, ADeadBranchMakesNoStep) {
  const Program p = scheduled(
      std::string(kX) + "%1:f32[n,64] = neg(%0)\n%2:f32[n,64] = exp(%0)\noutput \"y\" = %1\n");
  EXPECT_EQ(labels(p), "neg");
}

TEST(Schedule, FewBindingsSplitAKernel) {
  std::string body;
  for (int k = 0; k < 12; ++k)
    body += "%" + std::to_string(k) + ":f32[n] = input() {name=\"x" + std::to_string(k) +
            "\" dtype=f32 shape=[n]}\n";
  for (int k = 12; k < 23; ++k)
    body += "%" + std::to_string(k) + ":f32[n] = add(%" + std::to_string(k == 12 ? 0 : k - 1) +
            ", %" + std::to_string(k - 11) + ")\n";
  body += "output \"y\" = %22\n";
  EXPECT_EQ(scheduled(body).steps.size(), 1u);
  Caps few = cpu();
  few.maxBindings = 8;
  const Program p = scheduled(body, few);
  EXPECT_GT(p.steps.size(), 1u);
  for (const Step& s : p.steps) EXPECT_LE(s.buffers.size(), 8u) << s.label;
}

TEST(StridedView, MovesAreAddressArithmetic) {
  const struct {
    const char *node, *base, *offset, *strides;
  } cases[] = {
      {"%1:f32[4,n,6] = transpose(%0) {perm=[2,0,1]}", "input", "0", "[1,24,4]"},
      {"%1:f32[n,24] = reshape(%0) {shape=[n,24]}", "input", "0", "[24,1]"},
      {"%1:f32[n,2,3,4] = reshape(%0) {shape=[n,2,3,4]}", "input", "0", "[24,12,4,1]"},
      {"%1:f32[n,1,6,4] = reshape(%0) {shape=[n,1,6,4]}", "input", "0", "[24,0,4,1]"},
      {"%1:f32[n,8,3] = reshape(%0) {shape=[n,8,3]}", "reshape", "0", "[24,3,1]"},
      {"%1:f32[n,3,4] = slice(%0) {start=[0,5,0] size=[n,3,4] step=[1,-2,1]}", "input", "20",
       "[24,-8,1]"},
      {"%1:f32[2,n,6,4] = broadcast(%0) {shape=[2,n,6,4]}", "input", "0", "[0,24,4,1]"},
      {"%1:f32[n,6,4] = exp(%0)", "exp", "0", "[24,4,1]"},
  };
  for (const auto& c : cases) {
    auto g = parseGraph(
        "graph \"g\" model {\n%0:f32[n,6,4] = input() {name=\"x\" dtype=f32 shape=[n,6,4]}\n" +
        std::string(c.node) + "\noutput \"y\" = %1\n}\n");
    ASSERT_TRUE(g) << g.error().text();
    const StridedView v = stridedView(*g, {1});
    EXPECT_EQ(name(g->definition(v.base).op), c.base) << c.node;
    EXPECT_EQ(v.offset.text(), c.offset) << c.node;
    EXPECT_EQ(text(Shape(v.strides)), c.strides) << c.node;
    EXPECT_EQ(v.shape, g->type({1}).shape) << c.node;
  }
}

TEST(StridedView, AReshapeAcrossATransposeNeedsACopy) {
  auto g = parseGraph(R"(graph "g" model {
  %0:f32[6,4] = input() {name="x" dtype=f32 shape=[6,4]}
  %1:f32[4,6] = transpose(%0) {perm=[1,0]}
  %2:f32[24] = reshape(%1) {shape=[24]}
  %3:f32[2,2,6] = reshape(%1) {shape=[2,2,6]}
  output "y" = %2
}
)");
  ASSERT_TRUE(g);
  EXPECT_EQ(stridedView(*g, {2}).base.index, 2u);
  // Splitting an axis of the transposed view is address arithmetic still.
  const StridedView split = stridedView(*g, {3});
  EXPECT_EQ(split.base.index, 0u);
  EXPECT_EQ(text(Shape(split.strides)), "[2,1,4]");
}

TEST(StridedView, ConversionsOfConstantsThatTheReaderWidens) {
  auto g = parseGraph(R"(graph "g" model {
  %0:f16[2,3] = constant() {name="w" value=f16[2,3]#003c00400042004400450046}
  %1:f32[2,3] = convert(%0) {dtype=f32}
  %2:f32[3,2] = transpose(%1) {perm=[1,0]}
  %3:bf16[2,3] = convert(%0) {dtype=bf16}
  %4:f16[2,3] = input() {name="x" dtype=f16 shape=[2,3]}
  %5:f32[2,3] = convert(%4) {dtype=f32}
  output "y" = %2
  output "a" = %3
  output "b" = %5
}
)");
  ASSERT_TRUE(g) << g.error().text();
  const uint32_t f16 = bit(DType::F16);
  const StridedView seen = stridedView(*g, {2}, nullptr, f16);
  EXPECT_EQ(seen.base.index, 0u);
  EXPECT_EQ(seen.dtype, DType::F16);
  EXPECT_EQ(text(Shape(seen.strides)), "[1,3]");
  EXPECT_EQ(stridedView(*g, {2}).base.index, 1u);
  EXPECT_EQ(stridedView(*g, {2}, nullptr, bit(DType::BF16)).base.index, 1u);
  EXPECT_EQ(stridedView(*g, {3}, nullptr, f16).base.index, 3u);  // not exact
  EXPECT_EQ(stridedView(*g, {5}, nullptr, f16).base.index, 5u);  // not a constant
}

// Buffers alive in one step never share bytes, but for a result in place of an operand that dies.
void expectNoOverlap(const Program& p, const MemoryPlan& plan) {
  const std::size_t n = p.buffers.size();
  std::vector<std::size_t> first(n, SIZE_MAX), last(n, 0);
  for (std::size_t s = 0; s < p.steps.size(); ++s)
    for (const uint32_t b : p.steps[s].buffers) {
      first[b] = std::min(first[b], s);
      last[b] = std::max(last[b], s);
    }
  for (uint32_t a = 0; a < n; ++a) {
    if (plan.offset[a] < 0) continue;
    EXPECT_EQ(plan.offset[a] % 256, 0);
    EXPECT_LE(plan.offset[a] + plan.bytes[a], plan.arenaBytes);
    for (uint32_t b = a + 1; b < n; ++b) {
      if (plan.offset[b] < 0 || first[a] > last[b] || first[b] > last[a]) continue;
      const bool apart = plan.offset[a] + plan.bytes[a] <= plan.offset[b] ||
                         plan.offset[b] + plan.bytes[b] <= plan.offset[a];
      bool inPlace = false;
      for (const auto& [early, late] : {std::pair(a, b), std::pair(b, a)}) {
        if (last[early] != first[late]) continue;
        const Step& s = p.steps[first[late]];
        inPlace = inPlace || (s.written == late && s.inPlace >= 0 &&
                              s.buffers[static_cast<std::size_t>(s.inPlace)] == early);
      }
      EXPECT_TRUE(apart || inPlace) << "buffers " << a << " and " << b;
    }
  }
}

TEST(MemoryPlan, LiveBuffersDoNotOverlap) {
  std::string body = kX;
  body += "%1:f32[64,64] = input() {name=\"w\" dtype=f32 shape=[64,64]}\n";
  int v = 0;
  for (int k = 2; k < 12; k += 2) {
    body += "%" + std::to_string(k) + ":f32[n,64] = matmul(%" + std::to_string(v) + ", %1)\n";
    body += "%" + std::to_string(k + 1) + ":f32[n,64] = add(%" + std::to_string(k) + ", %" +
            std::to_string(v) + ")\n";
    v = k + 1;
  }
  body += "output \"y\" = %" + std::to_string(v) + "\n";
  const Program p = scheduled(body);
  for (const int64_t n : {0, 1, 3, 17, 1000}) {
    Bindings b;
    b.set("n", n);
    auto plan = planMemory(p, b);
    ASSERT_TRUE(plan);
    expectNoOverlap(p, *plan);
    // Far fewer bytes than the temporaries together.
    int64_t all = 0, temporaries = 0;
    for (std::size_t k = 0; k < p.buffers.size(); ++k)
      if (plan->offset[k] >= 0) all += plan->bytes[k], ++temporaries;
    EXPECT_GT(temporaries, 2);
    if (n == 1000) {
      EXPECT_LT(plan->arenaBytes, all);
    }
  }
}

// Parts of a chain are at different steps at once: what dies within it makes no room.
TEST(MemoryPlan, WhatAChainTouchesLivesToItsEnd) {
  Program p;
  const Dim n = Dim::symbol("n");
  for (uint32_t b = 0; b < 5; ++b) {
    ProgramBuffer buffer;
    buffer.value = ValueId{b};
    buffer.kind = b == 0 ? BufferKind::Input : b == 4 ? BufferKind::Output : BufferKind::Temporary;
    buffer.elements = n * Dim(64);
    p.buffers.push_back(buffer);
  }
  for (uint32_t s = 0; s < 4; ++s) {
    Step step;
    step.buffers = {s, s + 1};
    step.written = s + 1;
    step.leading = {n};
    step.local = {true, true};
    p.steps.push_back(std::move(step));
  }
  Bindings b;
  b.set("n", 8);
  auto alone = planMemory(p, b);
  p.chains = findChains(p);
  ASSERT_EQ(p.chains.size(), 1u);
  auto chained = planMemory(p, b);
  ASSERT_TRUE(alone && chained);
  EXPECT_EQ(alone->arenaBytes, 2 * 8 * 64 * 4);  // the third takes the place of the first
  EXPECT_EQ(chained->arenaBytes, 3 * 8 * 64 * 4);
  // Within one part a result may still take the place of its operand, but not where another step
  // of the chain reads beyond its part.
  for (Step& s : p.steps) s.inPlace = 0;
  auto inPlace = planMemory(p, b);
  ASSERT_TRUE(inPlace);
  EXPECT_EQ(inPlace->arenaBytes, 8 * 64 * 4);
  p.steps[2].local[0] = false;
  p.chains = {{0, 1, {n}}};
  auto split = planMemory(p, b);
  ASSERT_TRUE(split);
  EXPECT_EQ(split->arenaBytes, 8 * 64 * 4);
  p.chains = {{0, 3, {n}}};
  auto scattered = planMemory(p, b);
  ASSERT_TRUE(scattered);
  EXPECT_GT(scattered->arenaBytes, 8 * 64 * 4);
}

TEST(MemoryPlan, AResultTakesThePlaceOfADyingOperand) {
  // Three steps: a product, maps of its transposed sum that may not fuse with it, a product again.
  const Program p = scheduled(R"(%0:f32[64,64] = input() {name="x" dtype=f32 shape=[64,64]}
  %1:f32[64,64] = matmul(%0, %0)
  %2:f32[64] = reduce(%1) {kind=sum axes=[0] keepDims=false}
  %3:f32[64,64] = sub(%1, %2)
  %4:f32[64,64] = matmul(%3, %0)
  output "y" = %4
)");
  auto plan = planMemory(p, {});
  ASSERT_TRUE(plan);
  expectNoOverlap(p, *plan);
  bool shared = false;
  for (const Step& s : p.steps)
    if (s.inPlace >= 0)
      shared = shared || (plan->offset[s.written] >= 0 &&
                          plan->offset[s.written] ==
                              plan->offset[s.buffers[static_cast<std::size_t>(s.inPlace)]]);
  EXPECT_TRUE(shared) << labels(p);
}

TEST(MemoryPlan, SizesBeyondKernelsAreRefused) {
  const Program p = scheduled(std::string(kX) + "%1:f32[n,64] = neg(%0)\noutput \"y\" = %1\n");
  Bindings b;
  b.set("n", int64_t{1} << 30);
  auto plan = planMemory(p, b);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code(), Errc::Unsupported);
  EXPECT_FALSE(planMemory(p, {}));  // n has no value
}

}  // namespace
}  // namespace rlx
