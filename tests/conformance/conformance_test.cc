// The conformance suite: every sample of every op on one device, natives twice (native, forced
// common), against the float64 interpreter within tolerance(). The device comes from --device=NAME.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <map>

#include "ops/interpreter.h"
#include "ops/op.h"
#include "ops/samples.h"
#include "ops/tolerance.h"
#include "passes/passes.h"
#include "runtime/executable.h"
#include "support/guarded_backends.h"

namespace rlx::conformance {
namespace {

std::string device = "cpu";
Policy policy = Policy::PreferNative;
bool full = true;
bool together = false;  // load the kernels of an op's samples at once
int excluded = 0;
std::map<OpKind, int> excludedAndDiffers;

std::string describe(const OpSample& s, std::size_t output, const Difference& d,
                     const RefTensor& want) {
  char text[256];
  std::snprintf(text, sizeof text,
                "output %zu element %lld: got %.9g, want %.9g, %.3g times the tolerance", output,
                static_cast<long long>(d.at), d.got, d.want, d.worst);
  return s.name + ": " + text + " " + rlx::text(Shape(want.shape.begin(), want.shape.end()));
}

// What a device cannot do, as data with a reason. An op's kind of sample that is listed here and
// agrees in every dtype fails the run.
struct Exclusion {
  std::string_view device;
  OpKind op;
  std::string_view kind;  // the last part of the sample's name
  std::string_view reason;
};
constexpr std::array<Exclusion, 0> kExclusions{};

const Exclusion* exclusion(const OpSample& s) {
  const std::string_view kind = std::string_view(s.name).substr(s.name.rfind('/') + 1);
  for (const Exclusion& e : kExclusions)
    if (e.device == device && e.op == s.op && e.kind == kind) return &e;
  return nullptr;
}

// Ok, or what differs.
std::string difference(const OpSample& s, Executable& exe, const std::vector<RefTensor>& inputs) {
  auto want = interpret(s.graph, inputs);
  if (!want) return s.name + ": reference: " + want.error().text();
  std::vector<NamedTensor> in;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    auto bytes = toBytes(inputs[k]);
    if (!bytes) return s.name + ": " + bytes.error().text();
    in.push_back({s.graph.inputs[k].name, Tensor::copy(inputs[k].dtype, inputs[k].shape, *bytes)});
  }
  auto got = exe.run(in);
  if (!got) return s.name + ": " + got.error().text();
  if (got->size() != want->size()) return s.name + ": number of outputs";
  for (std::size_t k = 0; k < want->size(); ++k) {
    auto g = fromLiteral((*got)[k].tensor);
    if (!g) return s.name + ": " + g.error().text();
    const Difference d =
        compare(*g, (*want)[k], tolerance(s.op, (*want)[k].dtype, s.length), s.scale);
    if (!d.equal) return describe(s, k, d, (*want)[k]);
  }
  return {};
}

// The dtypes that every device has (devices.md); a sample of only these may not be excluded for
// what the device lacks.
bool commonDTypesOnly(const Graph& g) {
  return std::all_of(g.values.begin(), g.values.end(), [](const ValueData& v) {
    const DType t = v.type.dtype;
    return t == DType::F32 || t == DType::I32 || t == DType::U32 || t == DType::Bool;
  });
}

CompileOptions compileOptions() {
  CompileOptions options;
  options.device = device;
  options.policy = policy;
  return options;
}

// A device that holds the kernels of all samples: one that runs a compiler starts it once for them,
// and finds them when they are loaded again.
std::unique_ptr<Device> loadTogether(const std::vector<OpSample>& all) {
  test::collectKernels();
  for (const OpSample& s : all) (void)compile(s.graph, compileOptions());  // check() reports
  const std::vector<Code> codes = test::collectedKernels();
  auto backend = findBackend(device);
  auto holder = backend ? (*backend)->open({}) : std::move(backend).error();
  if (!holder) {
    ADD_FAILURE() << holder.error().text();
    return nullptr;
  }
  auto loaded = (*holder)->loadAll(codes);
  EXPECT_TRUE(loaded) << loaded.error().text();
  return *std::move(holder);
}

void check(const OpSample& s) {
  auto exe = compile(s.graph, compileOptions());
  if (!exe) {
    // What the capability record lacks is an exclusion with that reason; nothing else is.
    const std::string text = exe.error().text();
    if (exe.error().code() == Errc::NotDispatchable && !commonDTypesOnly(s.graph) &&
        text.find("the device has no") != text.npos) {
      ++excluded;
      return;
    }
    ADD_FAILURE() << s.name << ": " << text;
    return;
  }
  std::vector<std::vector<RefTensor>> runs{s.inputs};
  runs.insert(runs.end(), s.more.begin(), s.more.end());
  std::string found;
  for (const auto& inputs : runs) {
    found = difference(s, *exe, inputs);
    if (!found.empty()) break;
  }
  if (exclusion(s)) {
    ++excluded;
    if (!found.empty()) ++excludedAndDiffers[s.op];
    return;
  }
  EXPECT_TRUE(found.empty()) << found;
  EXPECT_EQ(exe->stats().recompiles, 0);
}

class Conformance : public testing::TestWithParam<std::size_t> {};

TEST_P(Conformance, Op) {
  const auto op = static_cast<OpKind>(GetParam());
  const std::vector<OpSample> all = opSamples(op, full ? SampleSet::Full : SampleSet::Quick);
  ASSERT_FALSE(all.empty()) << name(op) << " has no samples";
  const std::unique_ptr<Device> holder = together ? loadTogether(all) : nullptr;
  for (const OpSample& s : all) check(s);
  for (const Exclusion& e : kExclusions) {
    if (e.device != device || e.op != op) continue;
    EXPECT_GT(excludedAndDiffers[op], 0)
        << name(op) << " is excluded (" << e.reason << ") but passes";
  }
  RecordProperty("samples", static_cast<int>(all.size()));
  EXPECT_EQ(test::guardViolation(), "");
  if (device != "reference") {
    EXPECT_GT(test::guardsChecked(), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(, Conformance, testing::Range(std::size_t{0}, kOpCount),
                         [](const auto& p) {
                           return std::string(name(static_cast<OpKind>(p.param)));
                         });

// What needs no device: a decomposition equals the reference, the text form reads back.
TEST(OpTable, DecompositionEqualsReference) {
  for (std::size_t k = 0; k < kOpCount; ++k) {
    const auto op = static_cast<OpKind>(k);
    if (!opDef(op).decompose) continue;
    for (const OpSample& s : opSamples(op, SampleSet::Quick)) {
      auto body = decompose(s.graph, {}, nullptr);
      ASSERT_TRUE(body) << s.name << ": " << body.error().text();
      auto want = interpret(s.graph, s.inputs);
      auto got = interpret(*body, s.inputs);
      ASSERT_TRUE(want && got) << s.name << (got ? "" : got.error().text());
      for (std::size_t i = 0; i < want->size(); ++i) {
        // Literals of a decomposition are rounded to the dtype of its operands.
        const Difference d =
            compare((*got)[i], (*want)[i], tolerance(op, (*want)[i].dtype, s.length), s.scale);
        EXPECT_TRUE(d.equal) << describe(s, i, d, (*want)[i]);
      }
    }
  }
}

TEST(OpTable, PrintThenParseIsTheIdentity) {
  for (std::size_t k = 0; k < kOpCount; ++k)
    for (const OpSample& s : opSamples(static_cast<OpKind>(k), SampleSet::Quick)) {
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
    if (!std::strcmp(argv[k], "--policy=force-common"))
      rlx::conformance::policy = rlx::Policy::ForceCommon;
    if (!std::strcmp(argv[k], "--together")) rlx::conformance::together = true;
    if (!std::strcmp(argv[k], "--quick")) rlx::conformance::full = false;
  }
  const int status = RUN_ALL_TESTS();
  std::printf("%d samples excluded for what the device lacks\n", rlx::conformance::excluded);
  return status;
}
