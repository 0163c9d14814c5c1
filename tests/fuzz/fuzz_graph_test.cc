// Random graphs: every pass, the text form and every policy of the CPU keep what the interpreter
// says a graph means. A failure names the seed and prints the graph.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "fuzz/random_graph.h"
#include "ops/interpreter.h"
#include "ops/tolerance.h"
#include "passes/passes.h"
#include "runtime/executable.h"
#include "runtime/registry.h"
#include "support/guarded_backends.h"

namespace rlx {
namespace {

using test::RandomGraph;

// RLX_FUZZ_SEED runs one seed, RLX_FUZZ_COUNT more of them than the default.
uint32_t firstSeed() {
  const char* s = std::getenv("RLX_FUZZ_SEED");
  return s ? static_cast<uint32_t>(std::strtoul(s, nullptr, 10)) : 1;
}
uint32_t seedCount(uint32_t usual) {
  if (std::getenv("RLX_FUZZ_SEED")) return 1;
  const char* s = std::getenv("RLX_FUZZ_COUNT");
  return s ? static_cast<uint32_t>(std::strtoul(s, nullptr, 10)) : usual;
}

std::string about(uint32_t seed, const Graph& g) {
  return "\nRLX_FUZZ_SEED=" + std::to_string(seed) + "\n" + print(g);
}

Tolerance allowed(const RandomGraph::Depth& d, DType output) {
  if (!isFloat(output)) return graphTolerance(output, d.ops, d.terms);
  return graphTolerance(d.narrowest, d.ops, d.terms);
}

void expectEqual(const RandomGraph& r, const std::vector<RefTensor>& want,
                 const std::vector<RefTensor>& got, const std::string& what, uint32_t seed,
                 bool exact = false) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t k = 0; k < want.size(); ++k) {
    const Tolerance t = exact ? Tolerance{} : allowed(r.depths[k], want[k].dtype);
    const Difference d = compare(got[k], want[k], t, r.depths[k].scale);
    EXPECT_TRUE(d.equal) << what << ": output " << k << " element " << d.at << ": got " << d.got
                         << ", want " << d.want << ", " << d.worst << " times the tolerance"
                         << about(seed, r.graph);
  }
}

TEST(FuzzGraph, PassesKeepTheMeaning) {
  using Pass = Result<Graph> (*)(const Graph&);
  const struct {
    const char* name;
    Pass pass;
    bool exact;
  } passes[] = {
      {"removeDead", [](const Graph& g) -> Result<Graph> { return removeDead(g); }, true},
      {"mergeEqual", [](const Graph& g) -> Result<Graph> { return mergeEqual(g); }, true},
      // Folding and literals of decompositions round to the dtypes of their values.
      {"foldConstants", [](const Graph& g) { return foldConstants(g); }, false},
      {"decompose", [](const Graph& g) { return decompose(g, {}, nullptr); }, false},
      {"simplify", [](const Graph& g) { return simplify(g); }, false},
  };
  const uint32_t first = firstSeed(), count = seedCount(300);
  for (uint32_t seed = first; seed < first + count && !HasFailure(); ++seed) {
    const RandomGraph r = test::randomGraph(seed);
    auto want = interpret(r.graph, r.inputs);
    ASSERT_TRUE(want) << want.error().text() << about(seed, r.graph);
    for (const auto& p : passes) {
      auto after = p.pass(r.graph);
      ASSERT_TRUE(after) << p.name << ": " << after.error().text() << about(seed, r.graph);
      const Status ok = verify(*after);
      ASSERT_TRUE(ok) << p.name << ": " << ok.error().text() << about(seed, r.graph);
      auto got = interpret(*after, r.inputs);
      ASSERT_TRUE(got) << p.name << ": " << got.error().text() << about(seed, r.graph);
      expectEqual(r, *want, *got, p.name, seed, p.exact);
    }
    // Symbols fixed to the sizes of the inputs.
    std::vector<std::pair<DType, std::vector<int64_t>>> types;
    for (const RefTensor& t : r.inputs) types.emplace_back(t.dtype, t.shape);
    auto bindings = bindInputs(r.graph, types);
    ASSERT_TRUE(bindings);
    std::vector<std::pair<std::string, Dim>> fixed;
    for (const auto& [symbol, value] : bindings->entries()) fixed.emplace_back(symbol, Dim(value));
    auto special = specialize(r.graph, fixed);
    ASSERT_TRUE(special) << special.error().text() << about(seed, r.graph);
    EXPECT_TRUE(special->symbols().empty()) << about(seed, r.graph);
    auto got = interpret(*special, r.inputs);
    ASSERT_TRUE(got) << got.error().text() << about(seed, r.graph);
    expectEqual(r, *want, *got, "specialize", seed, true);
  }
}

TEST(FuzzGraph, TextAndBinaryReadBack) {
  const uint32_t first = firstSeed(), count = seedCount(300);
  for (uint32_t seed = first; seed < first + count && !HasFailure(); ++seed) {
    const RandomGraph r = test::randomGraph(seed);
    for (const Graph& g : {r.graph, *simplify(r.graph), *decompose(r.graph, {}, nullptr)}) {
      const std::string text = print(g);
      auto back = parseGraph(text);
      ASSERT_TRUE(back) << back.error().text() << about(seed, g);
      EXPECT_EQ(print(*back), text);
      auto decoded = decodeGraph(encode(g));
      ASSERT_TRUE(decoded) << decoded.error().text() << about(seed, g);
      EXPECT_EQ(print(*decoded), text);
    }
  }
}

void runOn(const char* device, Policy policy, int32_t threads) {
  bool built = false;
  for (const Backend* b : backends()) built = built || b->name == device;
  if (!built) GTEST_SKIP() << "a build without " << device;
  const uint32_t first = firstSeed(), count = seedCount(300);
  for (uint32_t seed = first; seed < first + count && !testing::Test::HasFailure(); ++seed) {
    const RandomGraph r = test::randomGraph(seed);
    auto want = interpret(r.graph, r.inputs);
    ASSERT_TRUE(want) << want.error().text() << about(seed, r.graph);
    CompileOptions options;
    options.device = device;
    options.policy = policy;
    options.threads = threads;
    auto exe = compile(r.graph, options);
    ASSERT_TRUE(exe) << exe.error().text() << about(seed, r.graph);
    std::vector<NamedTensor> in;
    for (std::size_t k = 0; k < r.inputs.size(); ++k) {
      auto bytes = toBytes(r.inputs[k]);
      ASSERT_TRUE(bytes);
      in.push_back(
          {r.graph.inputs[k].name, Tensor::copy(r.inputs[k].dtype, r.inputs[k].shape, *bytes)});
    }
    std::vector<std::vector<std::byte>> firstRun;
    for (int run = 0; run < 2; ++run) {
      auto out = exe->run(in);
      ASSERT_TRUE(out) << out.error().text() << about(seed, r.graph);
      std::vector<RefTensor> got;
      for (std::size_t k = 0; k < out->size(); ++k) {
        EXPECT_EQ((*out)[k].name, r.graph.outputs[k].name);
        auto t = fromLiteral((*out)[k].tensor);
        ASSERT_TRUE(t);
        got.push_back(*std::move(t));
        const auto bytes = (*out)[k].tensor.bytes;
        if (run == 0)
          firstRun.emplace_back(bytes.begin(), bytes.end());
        else
          EXPECT_TRUE(
              std::equal(bytes.begin(), bytes.end(), firstRun[k].begin(), firstRun[k].end()))
              << "a second run gives other bits" << about(seed, r.graph);
      }
      expectEqual(r, *want, got, device, seed);
    }
  }
  EXPECT_EQ(test::guardViolation(), "");
  EXPECT_GT(test::guardsChecked(), 0);
}

TEST(FuzzGraph, CpuPreferNative) {
  runOn("cpu", Policy::PreferNative, 1);
}
TEST(FuzzGraph, CpuForceCommon) {
  runOn("cpu", Policy::ForceCommon, 1);
}
TEST(FuzzGraph, CpuOnTwoThreads) {
  runOn("cpu", Policy::PreferNative, 2);
}

}  // namespace
}  // namespace rlx
