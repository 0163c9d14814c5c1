#include "passes/passes.h"

#include <gtest/gtest.h>

#include "ops/interpreter.h"

namespace rlx {
namespace {

Graph parsed(const std::string& body) {
  auto g = parseGraph("graph \"g\" model {\n" + body + "}\n");
  EXPECT_TRUE(g) << g.error().text() << body;
  return *std::move(g);
}

std::string ops(const Graph& g) {
  EXPECT_TRUE(verify(g));
  std::string s;
  for (const Node& n : g.nodes) s += (s.empty() ? "" : " ") + std::string(name(n.op));
  return s;
}

constexpr const char* kX = "%0:f32[n] = input() {name=\"x\" dtype=f32 shape=[n]}\n";

TEST(RemoveDead, KeepsInputsAndWhatOutputsNeed) {
  const Graph g = parsed(std::string(kX) + R"(
  %1:f32[m] = input() {name="unused" dtype=f32 shape=[m]}
  %2:f32[n] = exp(%0)
  %3:f32[n] = neg(%2)
  %4:f32[n] = abs(%2)
  %5:f32[2] = constant() {name="w" value=f32[2](1,2)}
  output "y" = %3
)");
  const Graph out = removeDead(g);
  EXPECT_EQ(ops(out), "input input exp neg");
  EXPECT_EQ(out.inputs.size(), 2u);
}

TEST(RemoveDead, ANodeWithOneLiveResultStaysWhole) {
  const Graph g = parsed(std::string(kX) + R"(
  %1:f32[n], %2:i64[n] = sort(%0) {axis=0 descending=false}
  output "y" = %2
)");
  EXPECT_EQ(ops(removeDead(g)), "input sort");
}

TEST(MergeEqual, SameOpOperandsAndAttributes) {
  const Graph g = parsed(std::string(kX) + R"(
  %1:f32[] = constant() {name="a" value=f32[](2)}
  %2:f32[] = constant() {name="b" value=f32[](2)}
  %3:f32[n] = mul(%0, %1)
  %4:f32[n] = mul(%0, %2)
  %5:f32[n] = mul(%1, %0)
  %6:f32[] = reduce(%3) {kind=sum axes=[0] keepDims=false}
  %7:f32[] = reduce(%4) {kind=sum axes=[0] keepDims=false}
  %8:f32[] = reduce(%4) {kind=max axes=[0] keepDims=false}
  output "a" = %6
  output "b" = %7
  output "c" = %8
  output "d" = %5
)");
  const Graph out = mergeEqual(g);
  // The commuted product stays: operands are compared in order.
  EXPECT_EQ(ops(out), "input constant mul mul reduce reduce");
  EXPECT_EQ(out.outputs[0].value, out.outputs[1].value);
}

TEST(MergeEqual, DifferentDtypesOfEqualBytesStayApart) {
  const Graph g = parsed(R"(
  %0:i32[1] = constant() {name="" value=i32[1](0)}
  %1:f32[1] = constant() {name="" value=f32[1](0)}
  %2:f32[1] = convert(%0) {dtype=f32}
  output "a" = %1
  output "b" = %2
)");
  EXPECT_EQ(ops(mergeEqual(g)), "constant constant convert");
}

TEST(FoldConstants, ReplacesWhatOnlyConstantsReach) {
  const Graph g = parsed(std::string(kX) + R"(
  %1:f32[2] = constant() {name="" value=f32[2](1,2)}
  %2:f32[2] = add(%1, %1)
  %3:i64[3] = iota() {dtype=i64 shape=[3] axis=0}
  %4:i64[] = dim() {dtype=i64 value=n}
  %5:i64[] = dim() {dtype=i64 value=7}
  output "a" = %2
  output "b" = %3
  output "c" = %4
  output "d" = %5
)");
  auto out = foldConstants(g);
  ASSERT_TRUE(out);
  EXPECT_EQ(ops(removeDead(*out)), "input constant constant dim constant");
  const Node& sum = out->definition(out->outputs[0].value);
  EXPECT_EQ(toText(sum.attrs.as<ConstantAttrs>().value), "f32[2](2,4)");
}

TEST(FoldConstants, KeepsWhatWouldGrowAndWhatFails) {
  const Graph g = parsed(R"(
  %0:f32[] = constant() {name="" value=f32[](1)}
  %1:f32[100] = broadcast(%0) {shape=[100]}
  %2:i64[1] = constant() {name="" value=i64[1](5)}
  %3:f32[2] = constant() {name="" value=f32[2](1,2)}
  %4:f32[1] = gather(%3, %2) {axis=0}
  output "a" = %1
  output "b" = %4
)");
  auto out = foldConstants(g, /*maxElements=*/50);
  ASSERT_TRUE(out);
  EXPECT_EQ(ops(*out), "constant broadcast constant constant gather");
}

TEST(Decompose, EndsInPrimitivesAndSaysWhereFrom) {
  const Graph g = parsed(R"(
  %0:f32[n,8] = input() {name="x" dtype=f32 shape=[n,8]}
  %1:f32[8,4] = constant() {name="w" value=f32[8,4]#)" +
                         std::string(256, '0') + R"(}
  %2:f32[n,4] = linear(%0, %1, _) {transposed=false} @"/fc" !"m.onnx:3"
  %3:f32[n,4] = softmax(%2) {axis=-1} @"/sm"
  output "y" = %3
)");
  std::vector<uint32_t> origin;
  auto out = decompose(g, {}, &origin);
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_EQ(out->stage, Stage::Primitive);
  EXPECT_EQ(ops(*out), "input constant dot_general reduce sub exp reduce reciprocal mul");
  EXPECT_EQ(origin, (std::vector<uint32_t>{0, 1, 2, 3, 3, 3, 3, 3, 3}));
  EXPECT_EQ(out->nodes[2].name, "/fc");
  EXPECT_EQ(out->nodes[2].location, "m.onnx:3");
  EXPECT_EQ(out->nodes[7].name, "/sm");
  // What a native kernel takes stays, and then the graph is of the model stage.
  auto kept = decompose(g, {false, false, false, true}, nullptr);
  ASSERT_TRUE(kept);
  EXPECT_EQ(ops(*kept), "input constant dot_general softmax");
  EXPECT_EQ(kept->stage, Stage::Model);
}

TEST(Specialize, ReplacesSymbolsEverywhere) {
  const Graph g = parsed(R"(
  %0:f32[n,m] = input() {name="x" dtype=f32 shape=[n,m]}
  %1:f32[n*m] = reshape(%0) {shape=[n*m]}
  %2:i64[] = dim() {dtype=i64 value=n + 1}
  output "y" = %1
  output "d" = %2
)");
  auto out = specialize(g, {{"n", Dim(3)}});
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_EQ(out->symbols(), (std::vector<std::string>{"m"}));
  EXPECT_EQ(text(out->type(out->outputs[0].value)), "f32[3*m]");
  auto renamed = specialize(g, {{"m", Dim::symbol("n") * Dim(2)}});
  ASSERT_TRUE(renamed);
  EXPECT_EQ(text(renamed->type(renamed->outputs[0].value)), "f32[2*n*n]");
  auto unknown = specialize(g, {{"k", Dim(3)}});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message(), "the model has no symbol 'k'; it has: m, n");
}

TEST(Specialize, RefusesSizesThatDoNotFit) {
  const Graph g = parsed(std::string(kX) + R"(
  %1:f32[4] = slice(%0) {start=[2] size=[4] step=[1]}
  output "y" = %1
)");
  EXPECT_TRUE(specialize(g, {{"n", Dim(6)}}));
  auto out = specialize(g, {{"n", Dim(5)}});
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().code(), Errc::ShapeMismatch);
}

TEST(Simplify, FoldsMergesAndRemoves) {
  const Graph g = parsed(std::string(kX) + R"(
  %1:f32[1] = constant() {name="" value=f32[1](2)}
  %2:f32[1] = mul(%1, %1)
  %3:f32[1] = mul(%1, %1)
  %4:f32[n] = add(%0, %2)
  %5:f32[n] = add(%0, %3)
  %6:f32[n] = mul(%4, %5)
  output "y" = %6
)");
  auto out = simplify(g);
  ASSERT_TRUE(out);
  EXPECT_EQ(ops(*out), "input constant add mul");
  // A second time changes nothing.
  auto again = simplify(*out);
  ASSERT_TRUE(again);
  EXPECT_EQ(print(*again), print(*out));
}

}  // namespace
}  // namespace rlx
