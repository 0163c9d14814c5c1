// The conformance suite: every sample of every op on one device, natives twice (native, forced common),
// against the float64 interpreter within tolerance(). The device comes from --device=NAME.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>

#include "conformance/samples.h"
#include "ops/interpreter.h"
#include "ops/op.h"
#include "ops/tolerance.h"
#include "passes/passes.h"
#include "runtime/executable.h"

namespace rlx::conformance {
namespace {

std::string device = "cpu";
Policy policy = Policy::PreferNative;
bool full = true;

std::string describe(const Sample& s, std::size_t output, const Difference& d, const RefTensor& want) {
  char text[256];
  std::snprintf(text, sizeof text, "output %zu element %lld: got %.9g, want %.9g, %.3g times the tolerance", output,
                static_cast<long long>(d.at), d.got, d.want, d.worst);
  return s.name + ": " + text + " " + rlx::text(Shape(want.shape.begin(), want.shape.end()));
}

void check(const Sample& s) {
  auto want = interpret(s.graph, s.inputs);
  ASSERT_TRUE(want) << s.name << ": " << want.error().text();
  CompileOptions options;
  options.device = device;
  options.policy = policy;
  auto exe = compile(s.graph, options);
  if (!exe) {
    // A dtype outside the device's capability record is an exclusion with that reason; nothing else is.
    const std::string text = exe.error().text();
    if (exe.error().code() == Errc::NotDispatchable && text.find("the device has no") != text.npos) {
      testing::Test::RecordProperty("excluded", s.name);
      return;
    }
    FAIL() << s.name << ": " << text;
  }
  std::vector<NamedTensor> in;
  for (std::size_t k = 0; k < s.inputs.size(); ++k) {
    auto bytes = toBytes(s.inputs[k]);
    ASSERT_TRUE(bytes) << s.name;
    in.push_back({s.graph.inputs[k].name, Tensor::copy(s.inputs[k].dtype, s.inputs[k].shape, *bytes)});
  }
  auto got = exe->run(in);
  ASSERT_TRUE(got) << s.name << ": " << got.error().text();
  ASSERT_EQ(got->size(), want->size()) << s.name;
  for (std::size_t k = 0; k < want->size(); ++k) {
    auto g = fromLiteral((*got)[k].tensor);
    ASSERT_TRUE(g) << s.name;
    const Tolerance t = tolerance(s.op, (*want)[k].dtype, s.length);
    // The device's result is rounded to the dtype: so is the reference.
    RefTensor rounded = (*want)[k];
    const Difference d = compare(*g, rounded, t, s.scale);
    EXPECT_TRUE(d.equal) << describe(s, k, d, (*want)[k]);
  }
}

class Conformance : public testing::TestWithParam<std::size_t> {};

TEST_P(Conformance, Op) {
  const auto op = static_cast<OpKind>(GetParam());
  const std::vector<Sample> all = samples(op, full);
  ASSERT_FALSE(all.empty()) << name(op) << " has no samples";
  for (const Sample& s : all) {
    check(s);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(, Conformance, testing::Range(std::size_t{0}, kOpCount),
                         [](const auto& p) { return std::string(name(static_cast<OpKind>(p.param))); });

// What needs no device: a decomposition equals the reference, the text form reads back.
TEST(OpTable, DecompositionEqualsReference) {
  for (std::size_t k = 0; k < kOpCount; ++k) {
    const auto op = static_cast<OpKind>(k);
    if (!opDef(op).decompose) continue;
    for (const Sample& s : samples(op, false)) {
      auto body = decompose(s.graph, {}, nullptr);
      ASSERT_TRUE(body) << s.name << ": " << body.error().text();
      auto want = interpret(s.graph, s.inputs);
      auto got = interpret(*body, s.inputs);
      ASSERT_TRUE(want && got) << s.name << (got ? "" : got.error().text());
      for (std::size_t i = 0; i < want->size(); ++i) {
        // Literals of a decomposition are rounded to the dtype of its operands.
        const Difference d = compare((*got)[i], (*want)[i], tolerance(op, (*want)[i].dtype, s.length), s.scale);
        EXPECT_TRUE(d.equal) << describe(s, i, d, (*want)[i]);
      }
    }
  }
}

TEST(OpTable, PrintThenParseIsTheIdentity) {
  for (std::size_t k = 0; k < kOpCount; ++k)
    for (const Sample& s : samples(static_cast<OpKind>(k), false)) {
      const std::string text = print(s.graph);
      auto back = parseGraph(text);
      ASSERT_TRUE(back) << s.name << ": " << back.error().text() << "\n" << text;
      EXPECT_EQ(print(*back), text);
      auto decoded = decodeGraph(encode(s.graph));
      ASSERT_TRUE(decoded) << s.name << ": " << decoded.error().text();
      EXPECT_EQ(print(*decoded), text);
    }
}

}  // namespace
}  // namespace rlx::conformance

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int k = 1; k < argc; ++k) {
    if (!std::strncmp(argv[k], "--device=", 9)) rlx::conformance::device = argv[k] + 9;
    if (!std::strcmp(argv[k], "--policy=force-common")) rlx::conformance::policy = rlx::Policy::ForceCommon;
    if (!std::strcmp(argv[k], "--quick")) rlx::conformance::full = false;
  }
  return RUN_ALL_TESTS();
}
