// The yardsticks of bench, and traces as files.
#include "cli/limits.h"

#include <gtest/gtest.h>

#include <set>

#include "base/file.h"
#include "cli/trace_file.h"
#include "runtime/registry.h"

namespace rlx::cli {
namespace {

TEST(Limits, BoundIsTheSlowerOfArithmeticAndTraffic) {
  MachineLimits limits;
  limits.threads = 2;
  limits.gflops = 100;
  limits.levels = {{"L1", 1000, 200, 200}, {"memory", 1 << 20, 10, 10}};
  const auto bound = [&](double flops, double bytes) {
    StepTime s;
    s.flops = flops, s.bytes = bytes;
    return boundOf(s, limits);
  };
  EXPECT_DOUBLE_EQ(bound(1e9, 100).ms, 10);
  EXPECT_FALSE(bound(1e9, 100).memory);
  EXPECT_DOUBLE_EQ(bound(1, 4000).ms, 4000 / 200e6);  // two threads with two halves of a cache
  EXPECT_TRUE(bound(1, 4000).memory);
  EXPECT_DOUBLE_EQ(bound(1, 1e7).ms, 1);
  EXPECT_DOUBLE_EQ(bound(1, 1e12).ms, 1e5);  // more than any level: the last
}

// Twelve layers, so that chains and single steps both occur.
Graph layers() {
  std::string body =
      "graph \"g\" model {\n%0:f32[n,64] = input() {name=\"x\" dtype=f32 shape=[n,64]}\n"
      "%1:f32[64,64] = input() {name=\"w\" dtype=f32 shape=[64,64]}\n";
  int last = 0;
  for (int k = 2; k < 26; k += 2) {
    const std::string a = std::to_string(last), b = std::to_string(k), c = std::to_string(k + 1);
    last = k + 1;
    body += "%" + b + ":f32[n,64] = dot_general(%" + a +
            ", %1) {lhsBatch=[] rhsBatch=[] lhsContract=[1] rhsContract=[0]}\n%" + c +
            ":f32[n,64] = softmax(%" + b + ") {axis=1}\n";
  }
  auto g = parseGraph(body + "output \"y\" = %" + std::to_string(last) + "\n}\n");
  EXPECT_TRUE(g) << g.error().text() << body;
  return *std::move(g);
}

TEST(Trace, HasEveryStepAndNests) {
  CompileOptions options;
  options.threads = 2;
  auto exe = compile(layers(), options);
  if (!exe && exe.error().code() == Errc::DeviceUnavailable) GTEST_SKIP() << exe.error().text();
  ASSERT_TRUE(exe) << exe.error().text();
  std::vector<NamedTensor> inputs;
  for (const auto& [name, rows] : {std::pair("x", int64_t{256}), std::pair("w", int64_t{64})})
    inputs.push_back(
        {name, Tensor::of(DType::F32, {rows, 64},
                          std::vector<float>(static_cast<std::size_t>(rows * 64), 0.5F))});
  const std::string path = testing::TempDir() + "rlx_trace_test.json";
  auto traced = writeTrace(*exe, inputs, path);
  ASSERT_TRUE(traced) << traced.error().text();
  auto plain = exe->run(inputs);
  ASSERT_TRUE(plain);
  EXPECT_TRUE(std::equal((*traced)[0].tensor.bytes.begin(), (*traced)[0].tensor.bytes.end(),
                         (*plain)[0].tensor.bytes.begin(), (*plain)[0].tensor.bytes.end()));

  const nlohmann::json j = nlohmann::json::parse(*readFile(path, 64 << 20));
  std::set<int64_t> steps;
  struct Span {
    double begin, end;
  };
  std::vector<std::vector<Span>> open(64);
  for (const nlohmann::json& e : j["traceEvents"]) {
    if (e["ph"] != "X") continue;
    if (e["cat"] == "step") steps.insert(e["args"]["step"].get<int64_t>());
    const double begin = e["ts"], end = begin + e["dur"].get<double>();
    EXPECT_GE(begin, 0);
    // On one thread an event lies inside another or behind it.
    std::vector<Span>& thread = open.at(e["tid"]);
    while (!thread.empty() && thread.back().end <= begin) thread.pop_back();
    EXPECT_TRUE(thread.empty() || end <= thread.back().end + 1e-3) << e.dump();
    thread.push_back({begin, end});
  }
  EXPECT_EQ(steps.size(), exe->program().steps.size());
  EXPECT_FALSE(writeTrace(*exe, inputs, testing::TempDir() + "no/such/folder/t.json"));
}

TEST(Limits, OfThisMachine) {
  auto cpu = findBackend("cpu");
  if (!cpu || !(*cpu)->limits || (*cpu)->probe().status == DeviceStatus::Unavailable)
    GTEST_SKIP() << "no limits here";
  auto limits = (*cpu)->limits(1, 20);
  if (!limits && limits.error().code() == Errc::Unsupported) GTEST_SKIP() << limits.error().text();
  ASSERT_TRUE(limits) << limits.error().text();
  EXPECT_EQ(limits->threads, 1);
  EXPECT_GT(limits->gflops, 1);
  ASSERT_EQ(limits->levels.size(), 4U);
  for (const MachineLimits::Level& l : limits->levels) {
    EXPECT_GT(l.readGbs, 0.1) << l.name;
    EXPECT_GT(l.copyGbs, 0.1) << l.name;
  }
  for (std::size_t k = 1; k < limits->levels.size(); ++k)
    EXPECT_GT(limits->levels[k].bytes, limits->levels[k - 1].bytes);
}

}  // namespace
}  // namespace rlx::cli
