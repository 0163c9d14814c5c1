#include "ir/graph.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/fuzz.h"
#include "ir/builder.h"

int fuzzGraphText(const uint8_t* data, std::size_t size);
int fuzzGraphBinary(const uint8_t* data, std::size_t size);

namespace rlx {
namespace {

constexpr std::string_view kText = R"(graph "mini" model {
  %0:f32[batch,4] = input() {name="x" dtype=f32 shape=[batch,4]}
  %1:f32[4,3] = constant() {name="w" value=f32[4,3](1,2,3,4,5,6,7,8,9,10,11,12)}
  %2:f32[batch,3] = matmul(%0, %1) @"/m" !"a.onnx:1"
  %3:f32[batch,2], %4:i64[batch,2] = top_k(%2) {axis=-1 k=2 largest=true}
  %5:f32[2*batch,2] = concat(%3, %3) {axis=0}
  %6:f32[batch,3] = pad(%3, _) {low=[0,1] high=[0,0] mode=constant}
  output "values" = %5
  output "indices" = %4
  output "padded" = %6
}
)";

Graph mini() {
  auto g = parseGraph(kText);
  EXPECT_TRUE(g) << g.error().text();
  return *std::move(g);
}

TEST(GraphText, PrintsWhatItParses) {
  const Graph g = mini();
  EXPECT_EQ(print(g), kText);
  EXPECT_EQ(g.symbols(), (std::vector<std::string>{"batch"}));
  EXPECT_EQ(g.nodes[2].name, "/m");
  EXPECT_EQ(g.nodes[2].location, "a.onnx:1");
  EXPECT_FALSE(g.nodes[5].inputs[1]);
}

TEST(GraphText, CommentsAndBlanksDoNotMatter) {
  std::string text = "// a comment\n\n";
  for (const char c : kText) {
    text += c;
    if (c == '\n') text += " \t// more\r\n";
  }
  auto g = parseGraph(text);
  ASSERT_TRUE(g) << g.error().text();
  EXPECT_EQ(print(*g), kText);
}

TEST(GraphText, ElidedLiteralsPrintButDoNotParse) {
  const std::string text = print(mini(), {.maxLiteralBytes = 8});
  EXPECT_NE(text.find("value=f32[4,3] elided"), std::string::npos);
  auto g = parseGraph(text);
  ASSERT_FALSE(g);
  EXPECT_NE(g.error().message().find("without its constants"), std::string::npos);
}

// The text with `from` replaced; it must occur.
std::string replaced(std::string_view from, std::string_view to) {
  std::string text(kText);
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(GraphText, ErrorsSayLineColumnAndWhat) {
  const struct {
    const char *from, *to, *message;
  } cases[] = {
      {"graph \"mini\"", "grap \"mini\"", "line 1, column 1: expected graph \"name\""},
      {"model {", "modal {", "line 1, column 14: expected 'model' or 'primitive'"},
      {"model {", "model", "line 2, column 3: expected '{'"},
      {"%1:f32[4,3]", "%7:f32[4,3]", "line 3, column 5: values are numbered in order; expected %1"},
      {"%1:f32[4,3]", "%1 f32[4,3]", "line 3, column 6: expected ':'"},
      {"%1:f32[4,3]", "%1:f31[4,3]", "line 3, column 6: expected a type"},
      {"%1:f32[4,3] =", "%1:f32[4,3] ", "line 3, column 16: expected '='"},
      {"matmul(", "matmull(", "line 4, column 21: unknown op 'matmull'"},
      {"matmul(%0", "matmul[%0", "line 4, column 27: expected '('"},
      {"matmul(%0, %1)", "matmul(%0, %9)", "%9 is not defined above"},
      {"matmul(%0, %1)", "matmul(%0, x)", "expected %value"},
      {"matmul(%0, %1)", "matmul(%0 %1)", "expected ')'"},
      {"{axis=-1 k=2 largest=true}", "{axis=-1 k=2}",
       "attributes of top_k do not parse; fields: axis, k, largest"},
      {"{axis=0}", "{axes=0}", "attributes of concat do not parse"},
      {"@\"/m\"", "@m", "expected a quoted name"},
      {"!\"a.onnx:1\"", "!a", "expected a quoted location"},
      {"value=f32[4,3](1,", "value=f32[4,3](x,", "literal does not parse"},
      {"value=f32[4,3](1,", "value=f32[4,3]@0(1,", "payload is shorter than its literals"},
      {"output \"values\" = %5", "output values = %5", "expected output \"name\" = %value"},
      {"output \"values\" = %5", "output \"values\" = %55", "%55 is not defined above"},
      {"output \"padded\" = %6\n}\n", "output \"padded\" = %6\n",
       "expected %result:type, output or '}'"},
      {"output \"padded\" = %6\n}\n", "output \"padded\" = %6\n}\nx",
       "line 12, column 1: text after the end of the graph"},
  };
  for (const auto& c : cases) {
    auto g = parseGraph(replaced(c.from, c.to));
    ASSERT_FALSE(g) << c.to;
    EXPECT_EQ(g.error().code(), Errc::BadText) << c.to;
    EXPECT_NE(g.error().message().find(c.message), std::string::npos)
        << c.to << " says: " << g.error().message();
  }
}

TEST(GraphText, WhatParsesIsVerified) {
  const struct {
    const char *from, *to, *message;
    Errc code;
  } cases[] = {
      {"%2:f32[batch,3]", "%2:f32[batch,4]",
       "result 0 has type f32[batch,4], its rule gives f32[batch,3]", Errc::BadGraph},
      {"matmul(%0, %1)", "matmul(%0)", "matmul: takes 2 operands, got 1", Errc::InvalidArgument},
      {"matmul(%0, %1)", "matmul(%0, _)", "matmul: operand 1 is absent", Errc::InvalidArgument},
      {"matmul(%0, %1)", "matmul(%1, %0)", "inner dimensions differ", Errc::ShapeMismatch},
      {"concat(%3, %3)", "concat(%3, %4)", "dtype", Errc::TypeMismatch},
      {"%3:f32[batch,2], %4:i64[batch,2] =", "%3:f32[batch,2] =", "", Errc::BadText},
      {"\"indices\"", "\"values\"", "output name 'values' is used twice", Errc::BadGraph},
      {" model {", " primitive {", "matmul '/m' at a.onnx:1: a composite in the primitive stage",
       Errc::BadGraph},
      {"low=[0,1]", "low=[0,extra]", "symbol 'extra' is in no input's type", Errc::BadGraph},
  };
  for (const auto& c : cases) {
    std::string text = replaced(c.from, c.to);
    if (std::string_view(c.to).find("extra") != std::string_view::npos)
      text.replace(text.find("%6:f32[batch,3]"), 15, "%6:f32[batch,extra + 2]");
    auto g = parseGraph(text);
    ASSERT_FALSE(g) << c.to;
    EXPECT_EQ(g.error().code(), c.code) << c.to << ": " << g.error().text();
    EXPECT_NE(g.error().message().find(c.message), std::string::npos)
        << c.to << " says: " << g.error().message();
  }
}

TEST(Verify, FindsBrokenStructure) {
  using Break = void (*)(Graph&);
  const struct {
    Break broken;
    const char* message;
  } cases[] = {
      {[](Graph& g) { g.nodes[2].inputs[0].index = 99; }, "operand %99 does not exist"},
      {[](Graph& g) { g.nodes[2].inputs[0].index = 5; },
       "operand %5 is used before its definition"},
      {[](Graph& g) { g.nodes[2].inputs[0].index = 2; },
       "operand %2 is used before its definition"},
      {[](Graph& g) { g.nodes[2].attrs = Attrs(); }, "attributes missing or not expected"},
      {[](Graph& g) { g.nodes[3].results.pop_back(); }, "has 1 results, its rule gives 2"},
      {[](Graph& g) { g.values[4].result = 0; }, "result 1 is not linked back to its node"},
      {[](Graph& g) { g.values[2].node.index = 1; }, "result 0 is not linked back to its node"},
      {[](Graph& g) { g.nodes[2].results[0].index = 77; },
       "result 0 is not linked back to its node"},
      {[](Graph& g) { g.values[2].type.dtype = DType::F16; },
       "result 0 has type f16[batch,3], its rule gives f32[batch,3]"},
      {[](Graph& g) { g.stage = Stage::Primitive; }, "a composite in the primitive stage"},
      {[](Graph& g) { g.inputs.push_back(g.inputs[0]); }, "input name 'x' is used twice"},
      {[](Graph& g) { g.inputs[0].value.index = 5; },
       "input 'x' is not the result of an input node"},
      {[](Graph& g) { g.inputs[0].value = ValueId{}; }, "input 'x' has no value"},
      {[](Graph& g) { g.outputs[1].name = "values"; }, "output name 'values' is used twice"},
      {[](Graph& g) { g.outputs[1].value.index = 70; }, "output 'indices' has no value"},
      {[](Graph& g) {
         Graph region;
         region.stage = Stage::Primitive;
         g.nodes[2].regions.push_back(region);
       },
       "a region of another stage"},
  };
  for (const auto& c : cases) {
    Graph g = mini();
    c.broken(g);
    const Status s = verify(g);
    ASSERT_FALSE(s) << c.message;
    EXPECT_NE(s.error().message().find(c.message), std::string::npos) << s.error().message();
  }
}

TEST(GraphBinary, ReadsBack) {
  const Graph g = mini();
  const auto bytes = encode(g);
  auto back = decodeGraph(bytes);
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(print(*back), kText);
  EXPECT_EQ(encode(*back), bytes);
}

// Accepted or refused, but a graph that was accepted verifies.
void decodes(std::span<const std::byte> bytes) {
  // The exact size, so that AddressSanitizer sees a read past the end.
  const std::vector<std::byte> exact(bytes.begin(), bytes.end());
  if (auto g = decodeGraph(exact)) {
    EXPECT_TRUE(verify(*g));
  }
}

// A graph whose literal is moved to the payload.
std::vector<std::byte> withPayload() {
  Builder b("big");
  b.output("y", b.constant(Literal::of(DType::F32, {5, 5}, std::vector<float>(25, 0.5f)), "w"));
  auto g = std::move(b).finish();
  EXPECT_TRUE(g);
  return encode(*g);
}

TEST(GraphBinary, EveryPrefixIsRefused) {
  for (const auto& bytes : {encode(mini()), withPayload()})
    for (std::size_t n = 0; n < bytes.size(); ++n) {
      const std::vector<std::byte> cut(bytes.begin(),
                                       bytes.begin() + static_cast<std::ptrdiff_t>(n));
      EXPECT_FALSE(decodeGraph(cut)) << n << " of " << bytes.size() << " bytes";
    }
}

TEST(GraphBinary, FlippedBitsGiveAnErrorOrAGraph) {
  for (auto bytes : {encode(mini()), withPayload()})
    for (std::size_t n = 0; n < bytes.size(); ++n)
      for (int bit = 0; bit < 8; ++bit) {
        bytes[n] ^= static_cast<std::byte>(1 << bit);
        decodes(bytes);
        bytes[n] ^= static_cast<std::byte>(1 << bit);
      }
}

TEST(GraphBinary, AHeaderLongerThanTheFileIsRefused) {
  auto bytes = encode(mini());
  for (const uint64_t size : {UINT64_MAX, uint64_t{1} << 40, static_cast<uint64_t>(bytes.size())}) {
    std::memcpy(bytes.data() + 8, &size, 8);
    auto g = decodeGraph(bytes);
    ASSERT_FALSE(g);
    EXPECT_EQ(g.error().code(), Errc::FileTruncated);
  }
}

TEST(GraphText, MutationsNeverCrash) {
  fuzzMutations(&fuzzGraphText, {std::string(kText), "graph \"g\" model {\n}\n"}, 4000);
}

TEST(GraphBinary, MutationsNeverCrash) {
  const auto text = [](const std::vector<std::byte>& b) {
    return std::string(reinterpret_cast<const char*>(b.data()), b.size());
  };
  fuzzMutations(&fuzzGraphBinary, {text(encode(mini())), text(withPayload())}, 4000);
}

TEST(Builder, TheFirstErrorSticksWithTheCallersLine) {
  Builder b("g");
  const Value x = b.input("x", DType::F32, {Dim(2), Dim(3)});
  const int line = __LINE__ + 1;
  const Value y = b.emit(OpKind::MatMul, {x, x});
  EXPECT_FALSE(y);
  b.setContext("later", "elsewhere.onnx");
  const Value z = b.emit(OpKind::Add, {y, x});
  EXPECT_FALSE(z);
  b.output("z", z);
  EXPECT_TRUE(b.failed());
  auto g = std::move(b).finish();
  ASSERT_FALSE(g);
  EXPECT_EQ(g.error().message(), "matmul: inner dimensions differ, 3 against 2");
  ASSERT_EQ(g.error().notes().size(), 1u);
  const std::string& note = g.error().notes()[0];
  EXPECT_NE(note.find("graph_test.cc:" + std::to_string(line)), std::string::npos) << note;
}

TEST(Builder, AnImportersPlaceReplacesTheLine) {
  Builder b("g");
  const Value x = b.input("x", DType::F32, {Dim(2), Dim(3)});
  b.setContext("/layer/MatMul", "model.onnx, node 7");
  (void)b.emit(OpKind::MatMul, {x, x});
  auto g = std::move(b).finish();
  ASSERT_FALSE(g);
  EXPECT_EQ(g.error().node(), "/layer/MatMul");
  EXPECT_EQ(g.error().notes()[0], "built at model.onnx, node 7");
}

TEST(Builder, RefusesDuplicateInputsAndAbsentOutputs) {
  Builder twice("g");
  (void)twice.input("x", DType::F32, {});
  (void)twice.input("x", DType::F32, {});
  EXPECT_FALSE(std::move(twice).finish());
  Builder absent("g");
  absent.output("y", Value{});
  auto g = std::move(absent).finish();
  ASSERT_FALSE(g);
  EXPECT_EQ(g.error().message(), "output 'y' has no value");
}

}  // namespace
}  // namespace rlx
