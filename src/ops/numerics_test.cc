// The numeric contract, fact by fact, on the reference interpreter: what every device is held to.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/builder.h"
#include "ops/attrs.h"
#include "ops/interpreter.h"

namespace rlx {
namespace {

// Results of one op over literals, as the text of literals. NaN shows as the bytes 0000c07f.
std::string eval(const std::string& op, const std::vector<std::string>& operands,
                 const std::string& attrs) {
  Builder b("g");
  std::vector<Value> in;
  for (const std::string& text : operands) {
    std::string_view t = text;
    Literal v;
    EXPECT_TRUE(fromText(t, v)) << text;
    in.push_back(b.constant(v));
  }
  const auto kind = parseOpKind(op);
  EXPECT_TRUE(kind) << op;
  std::string_view t = attrs;
  const AttrsInfo& info = *opInfo(*kind).attrs;
  auto parsed = info.parse(t);
  EXPECT_TRUE(parsed) << op << " " << attrs;
  const std::vector<Value> out = b.emitAll(*kind, in, Attrs(info, std::move(parsed)));
  for (std::size_t k = 0; k < out.size(); ++k) b.output("y" + std::to_string(k), out[k]);
  auto g = std::move(b).finish();
  if (!g) return g.error().message();
  auto values = interpret(*g, {});
  if (!values) return values.error().message();
  std::string text;
  for (RefTensor& v : *values) {
    // The sign of a NaN means nothing.
    for (double& f : v.f)
      if (std::isnan(f)) f = std::numeric_limits<double>::quiet_NaN();
    auto bytes = toBytes(v);
    EXPECT_TRUE(bytes);
    text += (text.empty() ? "" : " ") + toText(Literal::copy(v.dtype, v.shape, *bytes));
  }
  return text;
}

struct Fact {
  const char* op;
  std::vector<std::string> operands;
  const char* attrs;
  const char* want;
};

void expectFacts(std::initializer_list<Fact> facts) {
  for (const Fact& f : facts) {
    std::string operands;
    for (const std::string& o : f.operands) operands += " " + o;
    EXPECT_EQ(eval(f.op, f.operands, f.attrs), f.want) << f.op << operands << " " << f.attrs;
  }
}

TEST(Numerics, IntegersWrapAndNeverTrap) {
  expectFacts({
      {"add", {"i32[1](2147483647)", "i32[1](1)"}, "", "i32[1](-2147483648)"},
      {"sub", {"u8[1]#00", "u8[1]#01"}, "", "u8[1]#ff"},
      {"mul", {"i64[1](4611686018427387904)", "i64[1](2)"}, "", "i64[1](-9223372036854775808)"},
      {"neg", {"i32[1](-2147483648)"}, "", "i32[1](-2147483648)"},
      {"abs", {"i8[1]#80"}, "", "i8[1]#80"},
      {"div",
       {"i32[4](7,0,-2147483648,-7)", "i32[4](0,0,-1,2)"},
       "",
       "i32[4](-1,-1,-2147483648,-3)"},
      {"div", {"u8[1]#07", "u8[1]#00"}, "", "u8[1]#ff"},
      {"div", {"i64[1](-9223372036854775808)", "i64[1](-1)"}, "", "i64[1](-9223372036854775808)"},
      {"rem", {"i32[3](7,-7,-2147483648)", "i32[3](0,2,-1)"}, "", "i32[3](7,-1,0)"},
      {"mod", {"i32[4](7,-7,7,-7)", "i32[4](0,2,-2,-2)"}, "", "i32[4](7,1,-1,-1)"},
      {"pow",
       {"i32[6](2,1,-1,3,-1,0)", "i32[6](-1,-5,-3,40,-2,0)"},
       "",
       "i32[6](0,1,-1,689956897,1,1)"},
      {"shl", {"i32[3](1,1,3)", "i32[3](31,32,100)"}, "", "i32[3](-2147483648,0,0)"},
      {"shr", {"i32[3](-8,-8,8)", "i32[3](1,40,40)"}, "", "i32[3](-4,-1,0)"},
      {"shr", {"u8[2]#80ff", "u8[2]#0708"}, "", "u8[2]#0100"},
      {"bit_not", {"bool[2](1,0)"}, "", "bool[2](0,1)"},
      {"reduce", {"i8[2]#7f01"}, "{kind=sum axes=[0] keepDims=false}", "i8[]#80"},
  });
}

TEST(Numerics, NanPropagates) {
  expectFacts({
      {"max",
       {"f32[2]#0000c07f0000803f", "f32[2]#0000803f0000c07f"},
       "",
       "f32[2]#0000c07f0000c07f"},
      {"min",
       {"f32[2]#0000c07f0000803f", "f32[2]#0000803f0000c07f"},
       "",
       "f32[2]#0000c07f0000c07f"},
      {"relu", {"f32[1]#0000c07f"}, "", "f32[1]#0000c07f"},
      {"sign", {"f32[1]#0000c07f"}, "", "f32[1]#0000c07f"},
      {"clamp", {"f32[1]#0000c07f", "f32[1](0)", "f32[1](1)"}, "", "f32[1]#0000c07f"},
      {"reduce",
       {"f32[3]#0000803f0000c07f00000040"},
       "{kind=max axes=[0] keepDims=false}",
       "f32[]#0000c07f"},
      {"reduce",
       {"f32[3]#0000803f0000c07f00000040"},
       "{kind=min axes=[0] keepDims=false}",
       "f32[]#0000c07f"},
      {"pow", {"f32[2]#0000c07f00000000", "f32[2](0,0)"}, "", "f32[2](1,1)"},
      {"pool",
       {"f32[1,1,3]#0000803f0000c07f00000040"},
       "{kind=max window=[2] strides=[1] dilations=[1] padLow=[0] padHigh=[0] countPadding=false "
       "ceilMode=false}",
       "f32[1,1,2]#0000c07f0000c07f"},
  });
}

TEST(Numerics, FloatFunctions) {
  expectFacts({
      {"round", {"f32[4](0.5,1.5,2.5,-0.5)"}, "", "f32[4](0,2,2,-0)"},
      {"log", {"f32[1](0)"}, "", "f32[1](-inf)"},
      {"div", {"f32[2](1,-1)", "f32[2](0,0)"}, "", "f32[2](inf,-inf)"},
      {"rem", {"f32[2](5.5,-5.5)", "f32[2](2,2)"}, "", "f32[2](1.5,-1.5)"},
      {"mod", {"f32[3](5.5,-5.5,5.5)", "f32[3](2,2,-2)"}, "", "f32[3](1.5,0.5,-0.5)"},
      {"copysign", {"f32[1](3)", "f32[1](-0)"}, "", "f32[1](-3)"},
      {"is_inf", {"f32[3](inf,-inf,1)"}, "", "bool[3](1,1,0)"},
      {"eq", {"f32[1](-0)", "f32[1](0)"}, "", "bool[1](1)"},
      {"gelu", {"f32[2](-inf,0)"}, "", "f32[2]#0000c07f00000000"},
  });
}

TEST(Numerics, EmptyReductions) {
  expectFacts({
      {"reduce", {"f32[0,2]()"}, "{kind=sum axes=[0] keepDims=false}", "f32[2](0,0)"},
      {"reduce", {"f32[0,2]()"}, "{kind=prod axes=[0] keepDims=false}", "f32[2](1,1)"},
      {"reduce", {"f32[0]()"}, "{kind=max axes=[0] keepDims=true}", "f32[1](-inf)"},
      {"reduce", {"f32[0]()"}, "{kind=min axes=[0] keepDims=false}", "f32[](inf)"},
      {"reduce", {"i32[0]()"}, "{kind=max axes=[0] keepDims=false}", "i32[](-2147483648)"},
      {"reduce", {"u8[0]#"}, "{kind=max axes=[0] keepDims=false}", "u8[]#00"},
      {"reduce", {"u8[0]#"}, "{kind=min axes=[0] keepDims=false}", "u8[]#ff"},
      {"reduce", {"i64[0]()"}, "{kind=min axes=[0] keepDims=false}", "i64[](9223372036854775807)"},
      {"reduce", {"bool[0]()"}, "{kind=any axes=[0] keepDims=false}", "bool[](0)"},
      {"reduce", {"bool[0]()"}, "{kind=all axes=[0] keepDims=false}", "bool[](1)"},
      {"matmul", {"f32[2,0]()", "f32[0,3]()"}, "", "f32[2,3](0,0,0,0,0,0)"},
      {"linear",
       {"f32[1,0]()", "f32[0,2]()", "f32[2](3,4)"},
       "{transposed=false}",
       "f32[1,2](3,4)"},
      {"sort", {"f32[0]()"}, "{axis=0 descending=false}", "f32[0]() i64[0]()"},
  });
}

TEST(Numerics, MaskedRows) {
  const std::string q = "f32[1,1,1,1](1)", kv = "f32[1,1,2,1](2,3)";
  expectFacts({
      {"softmax", {"f32[2](-inf,-inf)"}, "{axis=0}", "f32[2]#0000c07f0000c07f"},
      {"softmax", {"f32[2](-inf,0)"}, "{axis=0}", "f32[2](0,1)"},
      {"attention", {q, kv, kv, "bool[1,2](0,0)"}, "{scale=1 causal=false}", "f32[1,1,1,1](0)"},
      {"attention",
       {q, kv, kv, "f32[1,2](-inf,-inf)"},
       "{scale=1 causal=false}",
       "f32[1,1,1,1](0)"},
      {"attention", {q, kv, kv, "bool[1,2](1,0)"}, "{scale=1 causal=false}", "f32[1,1,1,1](2)"},
      // More queries than keys: the first query sees none.
      {"attention",
       {"f32[1,1,2,1](1,1)", "f32[1,1,1,1](1)", "f32[1,1,1,1](5)"},
       "{scale=1 causal=true}",
       "f32[1,1,2,1](0,5)"},
      {"pool",
       {"f32[1,1,1](-inf)"},
       "{kind=max window=[2] strides=[1] dilations=[1] padLow=[1] padHigh=[0] countPadding=false "
       "ceilMode=false}",
       "f32[1,1,1](-inf)"},
      {"pool",
       {"f32[1,1,2](2,4)"},
       "{kind=average window=[2] strides=[2] dilations=[1] padLow=[1] padHigh=[1] "
       "countPadding=true ceilMode=false}",
       "f32[1,1,2](1,2)"},
      {"pool",
       {"f32[1,1,2](2,4)"},
       "{kind=average window=[2] strides=[2] dilations=[1] padLow=[1] padHigh=[1] "
       "countPadding=false ceilMode=false}",
       "f32[1,1,2](2,4)"},
  });
}

TEST(Numerics, Casts) {
  expectFacts({
      {"convert",
       {"f32[6](2.9,-2.9,1e10,-1e10,inf,-inf)"},
       "{dtype=i32}",
       "i32[6](2,-2,2147483647,-2147483648,2147483647,-2147483648)"},
      {"convert", {"f32[2]#0000c07f0000003f"}, "{dtype=i64}", "i64[2](0,0)"},
      {"convert", {"f32[4](-1,254.9,256,0.5)"}, "{dtype=u8}", "u8[4]#00feff00"},
      {"convert", {"f32[3](-129,127.9,-0.9)"}, "{dtype=i8}", "i8[3]#807f00"},
      {"convert", {"f64[1](1e30)"}, "{dtype=i64}", "i64[1](9223372036854775807)"},
      {"convert", {"f32[4]#0000c07f000000000000008001000000"}, "{dtype=bool}", "bool[4](1,0,0,1)"},
      {"convert", {"i32[3](300,-1,128)"}, "{dtype=u8}", "u8[3]#2cff80"},
      {"convert", {"i32[3](300,-1,128)"}, "{dtype=i8}", "i8[3]#2cff80"},
      {"convert", {"i64[1](-1)"}, "{dtype=u64}", "u64[1]#ffffffffffffffff"},
      {"convert", {"i32[2](7,0)"}, "{dtype=bool}", "bool[2](1,0)"},
      {"convert", {"i32[2](9,-9)"}, "{dtype=i4}", "i4[2]#79"},
      {"convert", {"f32[3](65504,65519,65520)"}, "{dtype=f16}", "f16[3]#ff7bff7b007c"},
      // One rounding: through f32 it would tie to even and lose the last bit.
      {"convert", {"f64[1](1.0004882812500002)"}, "{dtype=f16}", "f16[1]#013c"},
      {"convert", {"f32[2](1e-08,2e-08)"}, "{dtype=f16}", "f16[2]#00000000"},
      {"convert", {"f32[1](1.00390625)"}, "{dtype=bf16}", "bf16[1]#803f"},
      {"convert", {"i64[1](9007199254740993)"}, "{dtype=f32}", "f32[1](9.007199e+15)"},
  });
}

TEST(Numerics, TotalOrderAndTies) {
  // NaN, inf, -inf, 0, -0
  const std::string x = "f32[5]#0000c07f0000807f000080ff0000000000000080";
  expectFacts({
      {"sort_rank", {x}, "{axis=0 descending=false}", "i32[5](4,3,0,1,2)"},
      {"sort_rank", {x}, "{axis=0 descending=true}", "i32[5](0,1,4,2,3)"},
      {"arg_reduce", {x}, "{kind=max axis=0 keepDims=false selectLast=false}", "i64[](0)"},
      {"arg_reduce", {x}, "{kind=min axis=0 keepDims=false selectLast=false}", "i64[](0)"},
      {"arg_reduce",
       {"f32[4](1,3,3,2)"},
       "{kind=max axis=0 keepDims=false selectLast=false}",
       "i64[](1)"},
      {"arg_reduce",
       {"f32[4](1,3,3,2)"},
       "{kind=max axis=0 keepDims=false selectLast=true}",
       "i64[](2)"},
      {"top_k", {"f32[4](1,3,3,2)"}, "{axis=0 k=3 largest=true}", "f32[3](3,3,2) i64[3](1,2,3)"},
      {"top_k", {"f32[4](1,3,3,2)"}, "{axis=0 k=1 largest=false}", "f32[1](1) i64[1](0)"},
      {"sort", {"i32[4](3,1,3,2)"}, "{axis=0 descending=true}", "i32[4](3,3,2,1) i64[4](0,2,3,1)"},
  });
}

TEST(Numerics, Indices) {
  expectFacts({
      {"gather", {"f32[3](1,2,3)", "i64[2](-1,0)"}, "{axis=0}", "f32[2](3,1)"},
      {"gather",
       {"f32[3](1,2,3)", "i64[1](3)"},
       "{axis=0}",
       "gather: index 3 is outside an axis of extent 3"},
      {"gather",
       {"f32[3](1,2,3)", "i64[1](-4)"},
       "{axis=0}",
       "gather: index -4 is outside an axis of extent 3"},
      {"gather_elements",
       {"f32[2](1,2)", "i32[1](2)"},
       "{axis=0}",
       "gather_elements: index 2 is outside an axis of extent 2"},
      {"gather_nd", {"f32[2,2](1,2,3,4)", "i64[1,2](-1,-2)"}, "{batchDims=0}", "f32[1](3)"},
      {"scatter_elements",
       {"f32[3](0,0,0)", "i64[3](1,1,-3)", "f32[3](4,5,6)"},
       "{axis=0 kind=none}",
       "f32[3](6,5,0)"},
      {"scatter_elements",
       {"f32[3](1,1,1)", "i64[3](1,1,-3)", "f32[3](4,5,6)"},
       "{axis=0 kind=add}",
       "f32[3](7,10,1)"},
      {"scatter_elements",
       {"f32[1](1)", "i64[1](1)", "f32[1](4)"},
       "{axis=0 kind=add}",
       "scatter_elements: index 1 is outside an axis of extent 1"},
      {"scatter_nd",
       {"i32[2](9,9)", "i64[2,1](0,0)", "i32[2](4,7)"},
       "{axis=0 kind=min}",
       "i32[2](4,9)"},
      {"slice", {"f32[4](1,2,3,4)"}, "{start=[3] size=[2] step=[-2]}", "f32[2](4,2)"},
      {"pad", {"f32[3](1,2,3)"}, "{low=[2] high=[4] mode=reflect}", "f32[9](3,2,1,2,3,2,1,2,3)"},
      {"pad", {"f32[3](1,2,3)"}, "{low=[-1] high=[2] mode=wrap}", "f32[4](2,3,1,2)"},
      {"cumulative_scan",
       {"f32[3](1,2,3)"},
       "{kind=sum axis=0 exclusive=true reverse=true}",
       "f32[3](5,3,0)"},
  });
}

TEST(RefTensor, PackedAndNarrowTypesReadBack) {
  for (const DType t :
       {DType::I4, DType::U4, DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2, DType::F4E2M1,
        DType::C64, DType::C128, DType::I8, DType::U16, DType::Bool}) {
    RefTensor x(t, {3});
    for (int64_t k = 0; k < 3; ++k) x.setNumber(k, static_cast<double>(k));
    auto bytes = toBytes(x);
    ASSERT_TRUE(bytes) << name(t);
    EXPECT_EQ(static_cast<int64_t>(bytes->size()), storageBytes(t, 3));
    auto back = fromBytes(t, {3}, *bytes);
    ASSERT_TRUE(back);
    EXPECT_EQ(back->f, x.f) << name(t);
    EXPECT_EQ(back->i, x.i) << name(t);
    EXPECT_FALSE(fromBytes(t, {300}, *bytes));
  }
  EXPECT_EQ(fromBytes(DType::Q4_0, {32}, std::vector<std::byte>(18)).error().code(),
            Errc::Unsupported);
}

Graph parsed(std::string_view text) {
  auto g = parseGraph(text);
  EXPECT_TRUE(g) << g.error().text();
  return *std::move(g);
}

TEST(Interpreter, BindsSymbolsFromInputs) {
  const Graph g = parsed(R"(graph "g" model {
  %0:f32[n,2*n + 1] = input() {name="a" dtype=f32 shape=[n,2*n + 1]}
  %1:f32[n] = input() {name="b" dtype=f32 shape=[n]}
  output "y" = %1
}
)");
  using Types = std::vector<std::pair<DType, std::vector<int64_t>>>;
  const struct {
    Types types;
    Errc code;
    const char* message;
  } cases[] = {
      {{{DType::F16, {3, 7}}, {DType::F32, {3}}},
       Errc::InputType,
       "input 'a' has type f16[3,7], expected f32[n,2*n + 1]"},
      {{{DType::F32, {3}}, {DType::F32, {3}}}, Errc::InputType, "input 'a' has type f32[3]"},
      {{{DType::F32, {3, 7}}, {DType::F32, {4}}},
       Errc::SymbolConflict,
       "symbol 'n' is 3 and, on axis 0 of input 'b', 4"},
      {{{DType::F32, {3, 6}}, {DType::F32, {3}}},
       Errc::InputType,
       "extent 6 on axis 1, expected 2*n + 1 = 7"},
  };
  for (const auto& c : cases) {
    auto b = bindInputs(g, c.types);
    ASSERT_FALSE(b) << c.message;
    EXPECT_EQ(b.error().code(), c.code);
    EXPECT_NE(b.error().message().find(c.message), std::string::npos) << b.error().message();
  }
  auto b = bindInputs(g, {{DType::F32, {3, 7}}, {DType::F32, {3}}});
  ASSERT_TRUE(b);
  EXPECT_EQ(*b->find("n"), 3);
}

TEST(Interpreter, ProvesSymbolicExtentsWhenTheyHaveValues) {
  const struct {
    const char* node;
    int64_t fits, doesNot;
    const char* message;
  } cases[] = {
      {"%1:f32[4] = slice(%0) {start=[2] size=[4] step=[1]}", 6, 5,
       "slice: elements 2 to 5 of axis 0 with extent 5"},
      {"%1:f32[n - 3] = slice(%0) {start=[0] size=[n - 3] step=[1]}", 3, 2,
       "slice: elements 0 to -2"},
      {"%1:f32[n + 1] = pad(%0) {low=[1] high=[0] mode=edge}", 1, 0, "pad: axis 0 is empty"},
      {"%1:f32[n - 2] = pad(%0) {low=[-2] high=[0] mode=constant}", 2, 1,
       "pad: axis 0 would have extent -1"},
      {"%1:i64[] = arg_reduce(%0) {kind=max axis=0 keepDims=false selectLast=false}", 1, 0,
       "an empty axis"},
      {"%1:f32[3], %2:i64[3] = top_k(%0) {axis=0 k=3 largest=true}", 3, 2, "top_k: k is 3"},
  };
  for (const auto& c : cases) {
    const Graph g =
        parsed("graph \"g\" model {\n  %0:f32[n] = input() {name=\"x\" dtype=f32 shape=[n]}\n  " +
               std::string(c.node) + "\n  output \"y\" = %1\n}\n");
    EXPECT_TRUE(interpret(g, std::vector{RefTensor(DType::F32, {c.fits})})) << c.node;
    auto y = interpret(g, std::vector{RefTensor(DType::F32, {c.doesNot})});
    ASSERT_FALSE(y) << c.node;
    EXPECT_NE(y.error().message().find(c.message), std::string::npos) << y.error().message();
  }
}

TEST(Interpreter, RefusesTensorsBeyondItsMemory) {
  const Graph g = parsed(
      "graph \"g\" model {\n  %0:i8[1099511627776] = iota() {dtype=i8 shape=[1099511627776] "
      "axis=0}\n"
      "  output \"y\" = %0\n}\n");
  auto y = interpret(g, {});
  ASSERT_FALSE(y);
  EXPECT_EQ(y.error().code(), Errc::Unsupported);
}

}  // namespace
}  // namespace rlx
