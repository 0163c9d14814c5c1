// The executable's face: inputs by name, types, symbols; and the dispatch contract on devices that
// lack something.
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "ir/builder.h"
#include "ops/attrs.h"
#include "runtime/executable.h"
#include "runtime/registry.h"

namespace rlx {
namespace {

Graph parsed(const std::string& body) {
  auto g = parseGraph("graph \"g\" model {\n" + body + "}\n");
  EXPECT_TRUE(g) << g.error().text() << body;
  return *std::move(g);
}

Graph twoInputs() {
  return parsed(R"(
  %0:f32[n,2] = input() {name="a" dtype=f32 shape=[n,2]}
  %1:f32[n,2] = input() {name="b" dtype=f32 shape=[n,2]}
  %2:f32[n,2] = sub(%0, %1) @"/difference"
  %3:f32[n] = reduce(%2) {kind=sum axes=[1] keepDims=false}
  output "d" = %2
  output "s" = %3
)");
}

Tensor floats(std::vector<int64_t> shape, std::vector<float> values) {
  return Tensor::of(DType::F32, std::move(shape), values);
}

std::vector<float> values(const Tensor& t) {
  std::vector<float> out(static_cast<std::size_t>(t.elements()));
  if (!out.empty()) std::memcpy(out.data(), t.bytes.data(), t.bytes.size());
  return out;
}

const Backend* cpu() {
  for (const Backend* b : backends())
    if (b->name == "cpu") return b;
  return nullptr;
}

class OnEveryDevice : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    bool built = false;
    for (const Backend* b : backends())
      built = built || (b->name == GetParam() && b->probe().status != DeviceStatus::Unavailable);
    if (!built) GTEST_SKIP() << "not in this build or on this machine: " << GetParam();
  }
  Executable compiled(const Graph& g) {
    CompileOptions o;
    o.device = GetParam();
    auto exe = compile(g, o);
    EXPECT_TRUE(exe) << exe.error().text();
    return *std::move(exe);
  }
};
INSTANTIATE_TEST_SUITE_P(Runtime, OnEveryDevice, testing::Values("reference", "cpu", "vulkan"),
                         [](const auto& p) { return std::string(p.param); });

TEST_P(OnEveryDevice, InputsInAnyOrderResultsInTheirs) {
  Executable exe = compiled(twoInputs());
  auto y = exe.run({{"b", floats({1, 2}, {1, 2})}, {"a", floats({1, 2}, {5, 7})}});
  ASSERT_TRUE(y) << y.error().text();
  ASSERT_EQ(y->size(), 2u);
  EXPECT_EQ((*y)[0].name, "d");
  EXPECT_EQ(values((*y)[0].tensor), (std::vector<float>{4, 5}));
  EXPECT_EQ((*y)[1].name, "s");
  EXPECT_EQ(values((*y)[1].tensor), (std::vector<float>{9}));
}

TEST_P(OnEveryDevice, OneExecutableServesEverySize) {
  Executable exe = compiled(twoInputs());
  for (const int64_t n : {3, 0, 1, 50, 3, 7}) {
    const std::vector<float> a(static_cast<std::size_t>(2 * n), 3),
        b(static_cast<std::size_t>(2 * n), 1);
    auto y = exe.run({{"a", floats({n, 2}, a)}, {"b", floats({n, 2}, b)}});
    ASSERT_TRUE(y) << y.error().text();
    EXPECT_EQ((*y)[1].tensor.shape, (std::vector<int64_t>{n}));
    EXPECT_EQ(values((*y)[1].tensor), std::vector<float>(static_cast<std::size_t>(n), 4));
  }
  EXPECT_EQ(exe.stats().runs, 6);
  EXPECT_EQ(exe.stats().recompiles, 0);
}

TEST_P(OnEveryDevice, BadInputsAreNamed) {
  Executable exe = compiled(twoInputs());
  const Tensor good = floats({1, 2}, {1, 2});
  Tensor shortBytes = good;
  shortBytes.bytes = shortBytes.bytes.first(4);
  Tensor impossible = good;
  impossible.shape = {INT64_MAX, 2};
  Tensor negative = good;
  negative.shape = {-1, -2};
  const struct {
    std::vector<NamedTensor> inputs;
    Errc code;
    const char* message;
  } cases[] = {
      {{{"a", good}}, Errc::InputName, "input 'b' is missing; the program needs: 'a', 'b'"},
      {{{"a", good}, {"b", good}, {"c", good}}, Errc::InputName, "no input 'c'; it has: 'a', 'b'"},
      {{{"a", good}, {"a", good}}, Errc::InputName, "input 'a' is given twice"},
      {{{"a", good}, {"b", floats({2}, {1, 2})}},
       Errc::InputType,
       "input 'b' has type f32[2], expected f32[n,2]"},
      {{{"a", good}, {"b", Tensor::of<int32_t>(DType::I32, {1, 2}, {1, 2})}},
       Errc::InputType,
       "input 'b' has type i32[1,2], expected f32[n,2]"},
      {{{"a", good}, {"b", floats({1, 3}, {1, 2, 3})}},
       Errc::InputType,
       "input 'b' has extent 3 on axis 1, expected 2"},
      {{{"a", good}, {"b", floats({2, 2}, {1, 2, 3, 4})}},
       Errc::SymbolConflict,
       "symbol 'n' is 1 and, on axis 0 of input 'b', 2"},
      {{{"a", good}, {"b", shortBytes}}, Errc::InputType, "input 'b' has 4 bytes for shape [1,2]"},
      {{{"a", good}, {"b", impossible}}, Errc::InputType, "impossible shape"},
      {{{"a", good}, {"b", negative}}, Errc::InputType, "impossible shape"},
  };
  for (const auto& c : cases) {
    auto y = exe.run(c.inputs);
    ASSERT_FALSE(y) << c.message;
    EXPECT_EQ(y.error().code(), c.code) << y.error().text();
    EXPECT_NE(y.error().message().find(c.message), std::string::npos) << y.error().message();
  }
  EXPECT_TRUE(exe.run({{"a", good}, {"b", good}}));
}

TEST_P(OnEveryDevice, ExtentsThatDoNotFitAreRefusedBeforeAnythingRuns) {
  Executable exe = compiled(parsed(R"(
  %0:f32[n] = input() {name="x" dtype=f32 shape=[n]}
  %1:f32[4] = slice(%0) {start=[2] size=[4] step=[1]}
  %2:f32[4] = neg(%1)
  output "y" = %2
)"));
  EXPECT_TRUE(exe.run({{"x", floats({6}, std::vector<float>(6))}}));
  auto y = exe.run({{"x", floats({5}, std::vector<float>(5))}});
  ASSERT_FALSE(y);
  EXPECT_EQ(y.error().code(), Errc::ShapeMismatch) << y.error().text();
}

TEST(Compile, UnknownDevicesAndSymbolsAreNamed) {
  CompileOptions o;
  o.device = "gpu9";
  auto exe = compile(twoInputs(), o);
  ASSERT_FALSE(exe);
  EXPECT_EQ(exe.error().code(), Errc::DeviceUnavailable);
  EXPECT_NE(exe.error().message().find("no device 'gpu9'; it has: "), std::string::npos);
  o.device = "reference";
  o.dims = {{"batch", 2}};
  exe = compile(twoInputs(), o);
  ASSERT_FALSE(exe);
  EXPECT_EQ(exe.error().message(), "the model has no symbol 'batch'; it has: n");
  o.dims = {{"n", -1}};
  EXPECT_FALSE(compile(twoInputs(), o));
  o.dims = {{"n", 2}};
  exe = compile(twoInputs(), o);
  ASSERT_TRUE(exe) << exe.error().text();
  EXPECT_FALSE(exe->run({{"a", floats({1, 2}, {1, 2})}, {"b", floats({1, 2}, {1, 2})}}));
}

TEST(Compile, AnUnboundSymbolIsAnErrorNotACrash) {
  Builder b("g");
  const Value x = b.input("x", DType::F32, {Dim(2)});
  b.output("y",
           b.emit(OpKind::DimValue, {}, Attrs::of(DimAttrs{DType::I64, Dim::symbol("ghost")})));
  b.output("x2", b.emit(OpKind::Neg, {x}));
  auto g = std::move(b).finish();
  ASSERT_TRUE(g);
  CompileOptions o;
  o.device = "reference";
  auto exe = compile(*g, o);
  ASSERT_FALSE(exe);
  EXPECT_NE(exe.error().message().find("symbol 'ghost' is in no input's type"), std::string::npos);
}

// ---- Dispatch on a CPU with part of its record taken away.

Graph softmaxF16() {
  return parsed(R"(
  %0:f16[n,4] = input() {name="x" dtype=f16 shape=[n,4]}
  %1:f16[n,4] = softmax(%0) {axis=-1} @"/attention/softmax" !"m.onnx:9"
  %2:f32[n,4] = convert(%1) {dtype=f32} @"/out"
  %3:f32[n,4] = neg(%2) @"/fine"
  output "y" = %3
)");
}

Caps without(DType t) {
  Caps c = cpu()->defaultCaps;
  c.storage &= ~bit(t);
  return c;
}

TEST(Dispatch, AMissingDtypeIsReportedWithTheWholeChain) {
  if (!cpu()) GTEST_SKIP();
  auto d = dispatch(softmaxF16(), *cpu(), without(DType::F16), {});
  ASSERT_TRUE(d) << d.error().text();
  EXPECT_EQ(d->report.count(DispatchClass::Fail), 2);
  const Status s = d->report.status();
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().code(), Errc::NotDispatchable);
  EXPECT_EQ(s.error().message(), "2 of 3 nodes cannot run on device 'cpu'");
  // Both failing nodes at once, each with its name, place, types and reasons.
  ASSERT_EQ(s.error().notes().size(), 2u);
  for (const char* part :
       {"softmax '/attention/softmax' (m.onnx:9) f16[n,4] -> f16[n,4]",
        "native: ", "common-IR: a composite, it has a decomposition",
        "rewritten: needs convert f16[n,4] -> f32[n,4]", "the device has no storage of dtype f16"})
    EXPECT_NE(s.error().notes()[0].find(part), std::string::npos) << part << "\n"
                                                                  << s.error().notes()[0];
  EXPECT_NE(s.error().notes()[1].find("convert '/out'"), std::string::npos);
  EXPECT_NE(s.error().hint().find("--allow-host=softmax --allow-host=convert"), std::string::npos)
      << s.error().hint();
}

TEST(Dispatch, TheReportIsTextAndJson) {
  if (!cpu()) GTEST_SKIP();
  auto d = dispatch(softmaxF16(), *cpu(), cpu()->defaultCaps, {});
  ASSERT_TRUE(d);
  EXPECT_TRUE(d->report.status());
  ASSERT_EQ(d->report.nodes.size(), 3u);
  EXPECT_EQ(d->report.nodes[0].path, DispatchClass::Rewritten);
  EXPECT_EQ(d->report.nodes[1].path, DispatchClass::CommonIr);
  EXPECT_EQ(d->report.summary(), "0 native, 2 common-IR, 1 rewritten, 0 host, 0 FAIL");
  EXPECT_NE(d->report.text().find("softmax"), std::string::npos);
  const auto json = nlohmann::json::parse(d->report.json());
  EXPECT_EQ(json["device"], "cpu");
  EXPECT_EQ(json["nodes"][0]["class"], "rewritten");
  EXPECT_EQ(json["nodes"][0]["parts"].size(), d->report.nodes[0].parts.size());
  EXPECT_EQ(json["summary"]["common-IR"], 2);
}

Graph matmul() {
  return parsed(R"(
  %0:f32[8,8] = input() {name="x" dtype=f32 shape=[8,8]}
  %1:f32[8,8] = dot_general(%0, %0) {lhsBatch=[] rhsBatch=[] lhsContract=[1] rhsContract=[0]} @"/mm"
  output "y" = %1
)");
}

TEST(Dispatch, PoliciesByOpAndByNode) {
  if (!cpu()) GTEST_SKIP();
  const Caps caps = cpu()->defaultCaps;
  auto path = [&](const CompileOptions& o) {
    auto d = dispatch(matmul(), *cpu(), caps, o);
    EXPECT_TRUE(d);
    return d->report.nodes[0].path;
  };
  CompileOptions o;
  EXPECT_EQ(path(o), DispatchClass::Native);
  o.policy = Policy::ForceCommon;
  EXPECT_EQ(path(o), DispatchClass::CommonIr);
  o.opPolicies = {{"dot_general", Policy::PreferNative}};
  EXPECT_EQ(path(o), DispatchClass::Native);
  o.nodePolicies = {{"/mm", Policy::ForceCommon}};
  EXPECT_EQ(path(o), DispatchClass::CommonIr);
  CompileOptions native;
  native.policy = Policy::ForceNative;
  EXPECT_EQ(path(native), DispatchClass::Native);
  auto d = dispatch(softmaxF16(), *cpu(), caps, native);
  ASSERT_TRUE(d);
  EXPECT_EQ(d->report.count(DispatchClass::Fail), 3);
  EXPECT_NE(d->report.status().error().notes()[2].find("forbidden by the policy force-native"),
            std::string::npos);
}

TEST(Dispatch, HostPlacementNeedsAWaiverByName) {
  if (!cpu()) GTEST_SKIP();
  // No kernel of the CPU stores f8: a waiver is the only way.
  const Graph g = parsed(R"(
  %0:f8e5m2[n] = input() {name="x" dtype=f8e5m2 shape=[n]}
  %1:f8e5m2[n] = add(%0, %0)
  %2:f32[n] = convert(%1) {dtype=f32}
  output "y" = %2
)");
  CompileOptions o;
  EXPECT_FALSE(compile(g, o));
  o.allowHost = {"add"};
  EXPECT_FALSE(compile(g, o));
  o.allowHost = {"add", "convert"};
  auto exe = compile(g, o);
  ASSERT_TRUE(exe) << exe.error().text();
  EXPECT_EQ(exe->explain().count(DispatchClass::Host), 2);
  EXPECT_NE(exe->explain().summary().find("host placement waived for add convert"),
            std::string::npos);
  // 1, 2 and -0.5 in f8e5m2.
  auto y = exe->run({{"x", Tensor::of<uint8_t>(DType::F8E5M2, {3}, {0x3c, 0x40, 0xb8})}});
  ASSERT_TRUE(y) << y.error().text();
  EXPECT_EQ(values((*y)[0].tensor), (std::vector<float>{2, 4, -1}));
}

TEST(Dispatch, AWaiverTheHostCannotHonourIsReported) {
  if (!cpu()) GTEST_SKIP();
  const Graph g = parsed(R"(
  %0:i4[n] = input() {name="x" dtype=i4 shape=[n]}
  %1:i4[n] = add(%0, %0)
  output "y" = %1
)");
  CompileOptions o;
  o.allowHost = {"add"};
  auto exe = compile(g, o);
  ASSERT_FALSE(exe);
  EXPECT_EQ(exe.error().code(), Errc::NotDispatchable);
  EXPECT_NE(exe.error().notes()[0].find("host: packed dtype"), std::string::npos)
      << exe.error().text();
}

TEST(Executable, RunAllGivesEveryResidentValue) {
  if (!cpu()) GTEST_SKIP();
  auto exe = compile(twoInputs(), {});
  ASSERT_TRUE(exe);
  std::vector<StepTime> times;
  const std::vector<NamedTensor> in{{"a", floats({1, 2}, {5, 7})}, {"b", floats({1, 2}, {1, 2})}};
  ASSERT_TRUE(exe->profile(in, &times));
  EXPECT_EQ(times.size(), exe->program().steps.size());
  auto all = exe->runAll(in);
  ASSERT_TRUE(all);
  EXPECT_EQ(all->size(), exe->program().steps.size());
  for (const auto& [v, t] : *all) EXPECT_EQ(t.dtype, exe->program().graph.type(v).dtype);
}

// Threads share out rows, columns, pixels, planes or output channels, whichever suits the sizes.
TEST(Executable, SameBitsForEveryNumberOfThreads) {
  if (!cpu() || cpu()->probe().status == DeviceStatus::Unavailable) GTEST_SKIP() << "no cpu";
  const auto conv = [](const std::string& x, const std::string& w, const std::string& y,
                       const std::string& attributes) {
    return "%0:f32" + x + " = input() {name=\"x\" dtype=f32 shape=" + x + "}\n%1:f32" + w +
           " = input() {name=\"w\" dtype=f32 shape=" + w + "}\n%2:f32" + y + " = conv(%0, %1) {" +
           attributes + "}\n%3:f32" + y + " = relu(%2)\noutput \"y\" = %3\n";
  };
  const auto dot = [](const std::string& m, const std::string& n) {
    const std::string x = "[" + m + ",40]", w = "[40," + n + "]", y = "[" + m + "," + n + "]";
    return "%0:f32" + x + " = input() {name=\"x\" dtype=f32 shape=" + x + "}\n%1:f32" + w +
           " = input() {name=\"w\" dtype=f32 shape=" + w + "}\n%2:f32" + y +
           " = dot_general(%0, %1) {lhsBatch=[] rhsBatch=[] lhsContract=[1] "
           "rhsContract=[0]}\n%3:f32" +
           y + " = tanh(%2)\noutput \"y\" = %3\n";
  };
  const std::string near = "strides=[1,1] dilations=[1,1] padLow=[0,0] padHigh=[0,0] groups=1";
  const std::string wide = "strides=[2,2] dilations=[1,1] padLow=[1,1] padHigh=[1,1] groups=2";
  const std::string each = "strides=[1,1] dilations=[1,1] padLow=[1,1] padHigh=[1,1] groups=12";
  const std::string bodies[] = {conv("[1,24,14,14]", "[40,24,1,1]", "[1,40,14,14]", near),
                                conv("[1,90,5,5]", "[70,90,1,1]", "[1,70,5,5]", near),
                                conv("[1,24,31,29]", "[40,24,1,1]", "[1,40,31,29]", near),
                                conv("[2,12,31,29]", "[20,6,3,3]", "[2,20,16,15]", wide),
                                conv("[1,12,31,29]", "[20,6,3,3]", "[1,20,16,15]", wide),
                                conv("[1,12,28,28]", "[12,1,3,3]", "[1,12,28,28]", each),
                                conv("[3,12,24,5]", "[12,1,3,3]", "[3,12,24,5]", each),
                                dot("33", "200"),
                                dot("300", "20"),
                                dot("1", "331")};
  for (const std::string& body : bodies) {
    const Graph g = parsed(body);
    std::vector<NamedTensor> inputs;
    for (const Port& port : g.inputs) {
      std::vector<int64_t> shape;
      int64_t count = 1;
      for (const Dim& d : g.type(port.value).shape) shape.push_back(d.value()), count *= d.value();
      std::vector<float> v(static_cast<std::size_t>(count));
      for (std::size_t k = 0; k < v.size(); ++k)
        v[k] = static_cast<float>(k * 37 % 101) / 50 - 1 + static_cast<float>(k % 7) / 1024;
      inputs.push_back({port.name, floats(std::move(shape), std::move(v))});
    }
    std::vector<float> first;
    for (const int threads : {1, 2, 3, 4}) {
      CompileOptions o;
      o.threads = threads;
      auto exe = compile(g, o);
      ASSERT_TRUE(exe) << exe.error().text();
      auto out = exe->run(inputs);
      ASSERT_TRUE(out) << out.error().text();
      if (threads == 1) first = values((*out)[0].tensor);
      EXPECT_EQ(values((*out)[0].tensor), first) << threads << " threads\n" << body;
    }
  }
}

// What follows a native kernel element by element becomes part of its step, and gives what the
// interpreter gives.
TEST(Epilogue, OfNativeKernels) {
  if (!cpu() || cpu()->probe().status == DeviceStatus::Unavailable) GTEST_SKIP() << "no cpu";
  struct Case {
    const char* body;
    bool finished;
  };
  const Case cases[] = {
      // A bias along the columns, and a value that is used twice.
      {R"(
  %0:f32[n,40] = input() {name="x" dtype=f32 shape=[n,40]}
  %1:f32[40,50] = input() {name="w" dtype=f32 shape=[40,50]}
  %2:f32[50] = input() {name="b" dtype=f32 shape=[50]}
  %3:f32[n,50] = dot_general(%0, %1) {lhsBatch=[] rhsBatch=[] lhsContract=[1] rhsContract=[0]}
  %4:f32[n,50] = broadcast(%2) {shape=[n,50]}
  %5:f32[n,50] = add(%3, %4)
  %6:f32[n,50] = tanh(%5)
  %7:f32[n,50] = mul(%5, %6)
  output "y" = %7
)",
       true},
      // A residual, a value of each channel, and one of all pixels.
      {R"(
  %0:f32[n,6,9,7] = input() {name="x" dtype=f32 shape=[n,6,9,7]}
  %1:f32[8,6,3,3] = input() {name="w" dtype=f32 shape=[8,6,3,3]}
  %2:f32[8,1,1] = input() {name="b" dtype=f32 shape=[8,1,1]}
  %3:f32[n,8,9,7] = input() {name="r" dtype=f32 shape=[n,8,9,7]}
  %4:f32[n,8,9,7] = conv(%0, %1) {strides=[1,1] dilations=[1,1] padLow=[1,1] padHigh=[1,1] groups=1}
  %5:f32[n,8,9,7] = broadcast(%2) {shape=[n,8,9,7]}
  %6:f32[n,8,9,7] = add(%4, %5)
  %7:f32[n,8,9,7] = add(%6, %3)
  %8:f32[n,8,9,7] = abs(%7)
  output "y" = %8
)",
       true},
      // A value of each column alone cannot be seen along rows and columns in one.
      {R"(
  %0:f32[n,6,9,7] = input() {name="x" dtype=f32 shape=[n,6,9,7]}
  %1:f32[8,6,3,3] = input() {name="w" dtype=f32 shape=[8,6,3,3]}
  %2:f32[7] = input() {name="b" dtype=f32 shape=[7]}
  %3:f32[n,8,9,7] = conv(%0, %1) {strides=[1,1] dilations=[1,1] padLow=[1,1] padHigh=[1,1] groups=1}
  %4:f32[n,8,9,7] = broadcast(%2) {shape=[n,8,9,7]}
  %5:f32[n,8,9,7] = add(%3, %4)
  output "y" = %5
)",
       false},
  };
  for (const Case& c : cases) {
    const Graph g = parsed(c.body);
    CompileOptions reference;
    reference.device = "reference";
    auto exe = compile(g, CompileOptions{}), want = compile(g, reference);
    ASSERT_TRUE(exe && want) << (exe ? want.error().text() : exe.error().text());
    bool finished = false;
    for (const Step& s : exe->program().steps) finished = finished || s.finished;
    EXPECT_EQ(finished, c.finished) << print(exe->program());
    for (const int64_t n : {1, 3}) {
      std::vector<NamedTensor> in;
      for (const Port& p : g.inputs) {
        std::vector<int64_t> shape;
        for (const Dim& d : g.type(p.value).shape) shape.push_back(d.isConst() ? d.value() : n);
        int64_t count = 1;
        for (const int64_t e : shape) count *= e;
        std::vector<float> x(static_cast<std::size_t>(count));
        for (std::size_t k = 0; k < x.size(); ++k)
          x[k] = static_cast<float>(static_cast<int>(k * 37 % 19) - 9) / 16;
        in.push_back({p.name, floats(shape, x)});
      }
      auto a = exe->run(in), b = want->run(in);
      ASSERT_TRUE(a && b) << (a ? b.error().text() : a.error().text());
      const std::vector<float> x = values((*a)[0].tensor), y = values((*b)[0].tensor);
      ASSERT_EQ(x.size(), y.size());
      for (std::size_t k = 0; k < x.size(); ++k) ASSERT_NEAR(x[k], y[k], 1e-4) << k;
    }
  }
}

// A constant of 16 bits that is converted to f32 for a contraction stays as it is: neither the
// conversion nor an f32 weight exists.
TEST(Weights, ConvertedConstantsStayNarrow) {
  if (!cpu() || cpu()->probe().status == DeviceStatus::Unavailable) GTEST_SKIP() << "no cpu";
  constexpr int64_t kColumns = 96, kInner = 64;  // whole panels for all vectors
  for (const DType t : {DType::F16, DType::BF16})
    for (const bool transposed : {false, true}) {
      std::vector<uint16_t> bits(kColumns * kInner);
      for (std::size_t k = 0; k < bits.size(); ++k)  // of either dtype between 0.5 and 2
        bits[k] = static_cast<uint16_t>((t == DType::F16 ? 0x3800 : 0x3f00) + k * 37 % 256);
      Builder b("g", Stage::Model);
      const Value x = b.input("x", DType::F32, {Dim::symbol("n"), Dim(kInner)});
      Value w = b.constant(Literal::of(
          t, transposed ? std::vector{kColumns, kInner} : std::vector{kInner, kColumns}, bits));
      w = b.emit(OpKind::Convert, {w}, Attrs::of(ConvertAttrs{DType::F32}));
      const Value y = b.emit(OpKind::DotGeneral, {x, w},
                             Attrs::of(DotAttrs{{}, {}, {1}, {transposed ? 1 : 0}}));
      b.output("y", b.emit(OpKind::Tanh, {y}));
      auto g = std::move(b).finish();
      ASSERT_TRUE(g) << g.error().text();
      CompileOptions reference;
      reference.device = "reference";
      auto exe = compile(*g, CompileOptions{}), want = compile(*g, reference);
      ASSERT_TRUE(exe && want) << (exe ? want.error().text() : exe.error().text());
      EXPECT_EQ(exe->program().steps.size(), 1u) << print(exe->program());
      for (const int64_t n : {1, 5, 70}) {
        std::vector<float> in(static_cast<std::size_t>(n * kInner));
        for (std::size_t k = 0; k < in.size(); ++k)
          in[k] = static_cast<float>(static_cast<int>(k * 29 % 41) - 20) / 256;
        auto got = exe->run({{"x", floats({n, kInner}, in)}});
        auto expected = want->run({{"x", floats({n, kInner}, in)}});
        ASSERT_TRUE(got && expected) << (got ? expected.error().text() : got.error().text());
        const std::vector<float> p = values((*got)[0].tensor), q = values((*expected)[0].tensor);
        ASSERT_EQ(p.size(), q.size());
        for (std::size_t k = 0; k < p.size(); ++k) ASSERT_NEAR(p[k], q[k], 1e-5) << k;
      }
      EXPECT_EQ(exe->stats().nativeBytes, kColumns * kInner * 2);
    }
}

}  // namespace
}  // namespace rlx
