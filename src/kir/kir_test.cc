#include <gtest/gtest.h>

#include "kir/cost.h"
#include "kir/interp.h"
#include "kir/kernels_for_test.h"
#include "kir/legalize.h"
#include "kir/parse.h"
#include "kir/print.h"
#include "kir/share.h"
#include "kir/verify.h"

namespace rlx::kir {
namespace {

using test::Maker;
using test::Sample;

std::vector<Sample> everything() {
  auto all = test::samples(8, true, true);
  for (Sample& s : test::functions(8)) all.push_back(std::move(s));
  return all;
}

Status run(const Kernel& k, const Sample& s, std::vector<std::vector<std::byte>>& out) {
  out = s.globals;
  for (auto& g : out) g.resize((g.size() + 3) / 4 * 4);  // packed loads read whole words
  std::vector<std::span<std::byte>> views(out.begin(), out.end());
  auto r = interpret(k, s.grid, views, s.params);
  for (std::size_t i = 0; i < out.size(); ++i) out[i].resize(s.globals[i].size());
  return r;
}

bool sameBlock(const std::vector<Stmt>& a, const std::vector<Stmt>& b) {
  if (a.size() != b.size()) return false;
  auto sameExpr = [](const Expr& x, const Expr& y) { return (!x && !y) || (x && y && same(x, y)); };
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Stmt &x = a[i], &y = b[i];
    if (x.kind != y.kind || x.var != y.var || x.buffer != y.buffer || x.op != y.op ||
        x.loop != y.loop || x.step != y.step || !sameExpr(x.value, y.value) ||
        !sameExpr(x.index, y.index) || !sameExpr(x.condition, y.condition) ||
        !sameExpr(x.lo, y.lo) || !sameExpr(x.hi, y.hi) || !sameBlock(x.body, y.body) ||
        !sameBlock(x.otherwise, y.otherwise))
      return false;
  }
  return true;
}

TEST(Print, parsesBackNodeForNode) {
  for (const Sample& s : everything()) {
    const std::string text = print(s.kernel);
    auto back = parseKernel(text);
    ASSERT_TRUE(back) << back.error().text() << "\n" << text;
    EXPECT_EQ(print(*back), text);
    EXPECT_TRUE(sameBlock(back->body, s.kernel.body)) << text;
    ASSERT_EQ(back->vars.size(), s.kernel.vars.size());
    for (std::size_t i = 0; i < back->vars.size(); ++i) {
      EXPECT_EQ(back->vars[i].name, s.kernel.vars[i].name);
      EXPECT_EQ(back->vars[i].type, s.kernel.vars[i].type);
    }
  }
}

TEST(Print, keepsConstantsAndUnorderedVariables) {
  Maker m("odd");
  const uint32_t y = m.buffer("y", DType::F32, Access::Write);
  const Expr late = m.var("a", DType::F64), early = m.var("a", DType::I64);
  Stmt& first = m.add(StmtKind::Let);
  first.var = early->id;
  first.value = integer(DType::I64, INT64_MIN);
  Stmt& second = m.add(StmtKind::Let);
  second.var = late->id;
  second.value = constant(DType::F64, 0.1);
  m.store(y, index(-3), cast(DType::F32, late + constant(DType::F64, -INFINITY)));
  m.store(y, index(INT32_MIN), constant(DType::F32, NAN));
  m.store(y, index(2), cast(DType::F32, integer(DType::U64, -1)));
  m.store(y, index(1), constant(DType::F32, -0.0));
  const std::string text = print(m.k);
  auto back = parseKernel(text);
  ASSERT_TRUE(back) << back.error().text() << text;
  EXPECT_EQ(print(*back), text);
  EXPECT_TRUE(sameBlock(back->body, m.k.body)) << text;
}

TEST(Parse, saysWhere) {
  const std::string head = "kernel k block(1, 1, 1) {\n  global y: f32 write\n  ";
  struct Case {
    std::string text, message;
  };
  std::string deep = head + "y[0] = ";
  for (int i = 0; i < 300; ++i) deep += "neg(";
  std::string nested = head;
  for (int i = 0; i < 300; ++i) nested += "if true {";
  const Case cases[] = {
      {"", "line 1, column 1: expected 'kernel'"},
      {"kernel k block(1, 1, 99999999999) {", "line 1, column 22: expected a block extent"},
      {head + "y[0] = frob(1:f32)\n}", "line 3, column 14: unknown op 'frob'"},
      {head + "y[0] = %x\n}", "line 3, column 12: unknown variable %x"},
      {head + "y[0] = 1:f33\n}", "line 3, column 15: 'f33' is no type of kernels"},
      {head + "y[0] = 1.2.3:f32\n}", "line 3, column 19: a malformed number"},
      {head + "y[0] = 300:u8\n}", "line 3, column 16: a malformed number, or one outside u8"},
      {head + "y[0] = 1:f32", "line 3, column 15: expected '}'"},
      {head + "z[0] = 1:f32\n}", "line 3, column 3: expected a statement"},
      {deep, "an expression nests deeper than 200"},
      {nested, "statements nest deeper than 200"},
  };
  for (const Case& c : cases) {
    auto k = parseKernel(c.text);
    ASSERT_FALSE(k) << c.text;
    EXPECT_EQ(k.error().code(), Errc::BadText);
    EXPECT_NE(k.error().message().find(c.message), std::string::npos) << k.error().message();
  }
}

// Cut and altered texts never crash the parser or, when they still verify, the interpreter.
TEST(Parse, survivesDamage) {
  uint32_t seed = 12345;
  auto next = [&] { return seed = seed * 1664525u + 1013904223u, seed >> 8; };
  const std::string text = print(test::rowSum(4).kernel);
  for (std::size_t i = 0; i < text.size(); i += 3)
    (void)parseKernel(text.substr(0, i));  // must return
  static constexpr char kBytes[] = "{}[]()%$.,:=-0129 xyif\n\xff";
  for (int round = 0; round < 3000; ++round) {
    std::string t = text;
    for (int edits = 0; edits < 3; ++edits)
      t[next() % t.size()] = kBytes[next() % (sizeof kBytes - 1)];
    auto k = parseKernel(t);
    if (!k || globalCount(*k) != 2 || k->params.size() != 1) continue;
    Sample s = test::rowSum(4);
    std::vector<std::span<std::byte>> views(s.globals.begin(), s.globals.end());
    (void)interpret(*k, s.grid, views, s.params,
                    {.races = true, .maxSteps = 200000});  // must return
  }
}

TEST(Verify, refuses) {
  const std::string head =
      "kernel k block(4, 1, 1) {\n global x: f32 read\n global y: f32 write\n"
      " shared t: f32[4] readwrite\n param n\n";
  struct Case {
    const char *body, *message;
  };
  const Case cases[] = {
      {"x[0] = 1:f32", "store to read-only buffer x"},
      {"t[0] = y[0]", "may only be written"},
      {"y[0] = add(1:f32, 2)", "operands of types f32 and i32"},
      {"y[0] = 1", "has type i32, expected f32"},
      {"y[cast.i64(0)] = 1:f32", "an index has type i64"},
      {"y[0] = bit_and(1:f32, 2:f32)", "bit_and does not accept f32"},
      {"y[0] = cast.f32(add(cast.i8(1), cast.i8(1)))", "arithmetic on i8"},
      {"y[0] = bitcast.f32(1:i64)", "bitcast between i64 and f32"},
      {"if true { let %a: i32 = 1 }\n y[%a] = 1:f32", "outside its scope"},
      {"let %a: i32 = 1\n %a = 2", "not a mutable variable"},
      {"mut %a: f32 = 1:f32\n %a sub= 2:f32", "accumulation by sub"},
      {"let %a: f32 = 1", "of type f32 gets a value of type i32"},
      {"for %i: i32 in 0 .. $n step 1 unroll { }", "constant bounds"},
      {"for %i: i32 in 0 .. $n step 0 { }", "step must be positive"},
      {"if lt(local.0, 2) { barrier }", "divergent control: if lt(local.0, 2)"},
      {"if gt(x[0], 0:f32) { barrier }", "divergent control"},
      {"for %i: i32 in 0 .. local.0 step 1 { barrier }", "bound depends on the lane"},
      {"mut %a: i32 = 0\n if lt(local.0, 2) { %a = 1 }\n if eq(%a, 0) { barrier }", "divergent"},
      {"for %i: i32 in 0 .. 4 step 1 vector { barrier }", "a vector loop"},
  };
  for (const Case& c : cases) {
    auto k = parseKernel(head + c.body + "\n}\n");
    ASSERT_FALSE(k) << c.body;
    EXPECT_EQ(k.error().code(), Errc::BadGraph) << k.error().text();
    EXPECT_NE(k.error().message().find(c.message), std::string::npos)
        << c.body << ": " << k.error().message();
  }
  auto uniform =
      parseKernel(head + "for %i: i32 in 0 .. $n step 1 { if lt(group.0, 2) { barrier } }\n}");
  EXPECT_TRUE(uniform) << uniform.error().text();
}

Status interpretText(const std::string& text, std::size_t floats, int64_t groups = 1) {
  RLX_TRY(const Kernel k, parseKernel(text));
  std::vector<float> y(floats);
  const std::span<std::byte> views[] = {std::as_writable_bytes(std::span(y))};
  return interpret(k, {groups, 1, 1}, views, {});
}

TEST(Interp, findsAccessesOutside) {
  const std::string head = "kernel k block(4, 1, 1) {\n global y: f32 readwrite\n ";
  auto store = interpretText(head + "y[add(local.0, 2)] = 1:f32\n}", 5);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code(), Errc::IndexRange);
  EXPECT_NE(store.error().message().find("store to y[5], which has 5 elements"), std::string::npos)
      << store.error().message();
  auto load = interpretText(head + "y[local.0] = y[-1]\n}", 5);
  ASSERT_FALSE(load);
  EXPECT_NE(load.error().message().find("load from y[-1]"), std::string::npos);
  EXPECT_TRUE(interpretText(head + "y[local.0] = y[-1 if false else 2:f32]\n}", 5));
}

TEST(Interp, findsRaces) {
  const std::string head =
      "kernel k block(4, 1, 1) {\n global y: f32 readwrite\n shared t: f32[4] readwrite\n ";
  struct Case {
    const char* body;
    bool race;
    int64_t groups = 1;
  };
  const Case cases[] = {
      {"y[0] = 1:f32", true},
      {"y[local.0] = 1:f32", false},
      {"y[local.0] = 1:f32", true, 2},
      {"t[local.0] = 1:f32\n y[local.0] = t[sub(3, local.0)]", true},
      {"t[local.0] = 1:f32\n barrier\n y[local.0] = t[sub(3, local.0)]", false},
      {"t[local.0] = 1:f32\n y[local.0] = t[local.0]", false},
      {"let %a: f32 = t[0]\n t[local.0] = %a", true},
      {"t[local.0] = 1:f32\n barrier\n let %a: f32 = t[0]\n barrier\n t[local.0] = %a", false},
      {"t[0] = 1:f32 if eq(local.0, 1)\n barrier\n y[local.0] = t[0]", false},
      {"y[add(local.0, mul(group.0, 4))] = 1:f32\n barrier\n t[local.0] = y[3]", true, 2},
  };
  for (const Case& c : cases) {
    auto r = interpretText(head + c.body + "\n}", 8, c.groups);
    EXPECT_EQ(static_cast<bool>(r), !c.race) << c.body << (r ? "" : ": " + r.error().message());
    if (!r) {
      EXPECT_EQ(r.error().code(), Errc::CheckFailed) << r.error().message();
    }
  }
}

TEST(Interp, divergentLoopsAndBranches) {
  auto k = parseKernel(
      "kernel k block(4, 1, 1) {\n global y: i32 write\n mut %a: i32 = 0\n mut %c: bool = true\n"
      " for %i: i32 in 0 .. local.0 step 1 { %a add= add(%i, 10) }\n"
      " if %c { %c = lt(local.0, 2) } else { %a = -1 }\n"
      " if %c { %a = add(%a, 100) } else { %a = add(%a, 200) }\n y[local.0] = %a\n}");
  ASSERT_TRUE(k) << k.error().text();
  std::vector<int32_t> y(4);
  const std::span<std::byte> views[] = {std::as_writable_bytes(std::span(y))};
  ASSERT_TRUE(interpret(*k, {1, 1, 1}, views, {}));
  EXPECT_EQ(y, (std::vector<int32_t>{100, 110, 221, 233}));
}

TEST(Interp, givesUpAtTheStepBudget) {
  auto k = parseKernel("kernel k block(1, 1, 1) {\n for %i: i32 in 0 .. 2000000000 step 1 { }\n}");
  ASSERT_TRUE(k);
  auto r = interpret(*k, {1, 1, 1}, {}, {}, {.races = true, .maxSteps = 1000});
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), Errc::FileBudget);
}

Spelling operators() {
  Spelling s;
  const uint32_t ints = bit(DType::I32) | bit(DType::U32) | bit(DType::I64) | bit(DType::U64);
  const uint32_t floats = bit(DType::F32) | bit(DType::F64);
  for (ScalarOp op :
       {ScalarOp::Add, ScalarOp::Sub, ScalarOp::Mul, ScalarOp::Div, ScalarOp::Neg, ScalarOp::Lt,
        ScalarOp::Le, ScalarOp::Gt, ScalarOp::Ge, ScalarOp::Eq, ScalarOp::Ne, ScalarOp::Rem})
    s.ops[static_cast<std::size_t>(op)] = ints | floats;
  for (ScalarOp op : {ScalarOp::And, ScalarOp::Or, ScalarOp::Xor, ScalarOp::Not})
    s.ops[static_cast<std::size_t>(op)] = ints | bit(DType::Bool);
  for (ScalarOp op : {ScalarOp::Eq, ScalarOp::Ne})
    s.ops[static_cast<std::size_t>(op)] |= bit(DType::Bool);
  for (ScalarOp op : {ScalarOp::Shl, ScalarOp::Shr}) s.ops[static_cast<std::size_t>(op)] = ints;
  for (ScalarOp op : {ScalarOp::Abs, ScalarOp::Floor, ScalarOp::Ceil, ScalarOp::Round,
                      ScalarOp::Trunc, ScalarOp::Sqrt, ScalarOp::Fma})
    s.ops[static_cast<std::size_t>(op)] = floats;
  return s;
}

Caps fullCaps() {
  Caps c;
  c.arithmetic = c.storage = ~0u;
  c.groups = true;
  c.maxLanes = 256;
  c.sharedBytes = 1 << 15;
  return c;
}

// The legal kernel means the same, in the least and in the richest profile, fused and not.
TEST(Legalize, keepsTheMeaning) {
  Caps low = fullCaps();
  low.storage = low.arithmetic = bit(DType::F32) | bit(DType::I32) | bit(DType::U32);
  Spelling rich = operators();
  rich.half = true;
  Spelling poor = operators();
  poor.fusedFma = false;
  int refused = 0;
  for (const Sample& s : everything()) {
    std::vector<std::vector<std::byte>> want, got;
    ASSERT_TRUE(run(s.kernel, s, want));
    for (const auto& [caps, spelled] :
         {std::pair(fullCaps(), rich), std::pair(fullCaps(), poor), std::pair(low, poor)}) {
      auto legal = legalize(s.kernel, caps, spelled);
      if (!legal) {
        EXPECT_EQ(legal.error().code(), Errc::Unsupported);
        EXPECT_EQ(caps.storage, low.storage) << legal.error().message();
        ++refused;
        continue;
      }
      const auto ran = run(*legal, s, got);
      ASSERT_TRUE(ran) << ran.error().text() << print(*legal);
      EXPECT_EQ(test::difference(s, want, got), "") << print(*legal);
    }
  }
  EXPECT_GT(refused, 5);
}

TEST(Legalize, saysWhatIsMissing) {
  Caps caps = fullCaps();
  caps.arithmetic &= ~bit(DType::F64);
  const auto x = test::bytesOf(std::vector<double>{1, 2});
  const Sample s = test::map(
      "wide", DType::F64, DType::F64, x, [](const Expr& v) { return v + v; }, 8);
  auto r = legalize(s.kernel, caps, operators());
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().message(), "kernel wide: arithmetic on f64: the device has no f64");
  caps = fullCaps();
  Spelling rootless = operators();
  rootless.ops[static_cast<std::size_t>(ScalarOp::Sqrt)] = 0;
  auto missing =
      legalize(test::map(
                   "e", DType::F64, DType::F64, x, [](const Expr& v) { return sqrt(v); }, 8)
                   .kernel,
               caps, rootless);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message().find("sqrt on f64"), std::string::npos);
  caps.maxLanes = 4;
  EXPECT_FALSE(legalize(s.kernel, caps, operators()));
}

TEST(Legalize, noGuardForAPositiveConstant) {
  const Sample s = test::map(
      "d", DType::I32, DType::I32, test::bytesOf(std::vector<int32_t>{7}),
      [](const Expr& v) { return v / index(3) + shl(v, index(2)); }, 8);
  auto legal = legalize(s.kernel, fullCaps(), operators());
  ASSERT_TRUE(legal);
  EXPECT_EQ(print(*legal).find("select"), std::string::npos) << print(*legal);
}

// A graph of depth 60 with every node used twice: 2^60 nodes as a tree.
TEST(Share, graphsDoNotExplode) {
  Sample s = test::map(
      "dag", DType::F32, DType::F32, test::bytesOf(test::ramp(3)),
      [](const Expr& v) {
        Expr y = v;
        for (int i = 0; i < 60; ++i) y = (y + y) * Expr(0.5);
        return y;
      },
      8);
  std::vector<std::vector<std::byte>> want, got;
  ASSERT_TRUE(run(s.kernel, s, want));
  share(s.kernel);
  ASSERT_TRUE(verify(s.kernel));
  EXPECT_LT(print(s.kernel).size(), 10000u);
  ASSERT_TRUE(run(s.kernel, s, got));
  EXPECT_EQ(test::difference(s, want, got), "");
}

TEST(Cost, countsLoopsByParameters) {
  const Sample s = test::rowSum(8);
  const Cost c = cost(s.kernel, s.grid, s.params);
  // 8 lanes of 5 groups, 5 turns each from the middle lane's view.
  EXPECT_EQ(c.loadBytes, 5.0 * 8 * 5 * 4);
  EXPECT_EQ(c.storeBytes, 5.0 * 8 * 4);
  EXPECT_GE(c.flops, 5.0 * 8 * 5);
}

}  // namespace
}  // namespace rlx::kir
