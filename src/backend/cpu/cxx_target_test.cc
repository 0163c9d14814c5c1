#include <gtest/gtest.h>

#include <cstdlib>

#include "backend/cpu/target.h"
#include "dialect/dialect.h"
#include "kir/interp.h"
#include "kir/kernels_for_test.h"

namespace rlx::cpu {
namespace {

using kir::test::Sample;

class CxxTarget : public testing::Test {
 protected:
  // Read once: every test here asks for the same.
  void SetUp() override {
    const std::string dir = testing::TempDir() + "rlx_cxx_target";
    ::setenv("RLX_CACHE", dir.c_str(), /*overwrite=*/1);
  }
  static Code emit(const kir::Kernel& kernel) {
    auto code = cxxTarget().emit(kernel, findDialect("cxx")->caps);
    EXPECT_TRUE(code) << code.error().text();
    return code ? *std::move(code) : Code{};
  }
  static std::vector<LoadedKernel> load(const std::vector<Code>& codes) {
    auto loaded = cxxTarget().load(codes);
    EXPECT_TRUE(loaded) << loaded.error().text();
    return loaded ? *std::move(loaded) : std::vector<LoadedKernel>(codes.size());
  }
};

std::vector<std::vector<std::byte>> ran(const LoadedKernel& k, const Sample& s) {
  auto memory = s.globals;
  std::vector<std::byte*> globals;
  for (auto& g : memory) globals.push_back(g.data());
  const int64_t groups = s.grid[0] * s.grid[1] * s.grid[2];
  k.run(globals.data(), s.params.data(), s.grid.data(), groups / 2, groups);
  k.run(globals.data(), s.params.data(), s.grid.data(), 0, groups / 2);
  return memory;
}

TEST_F(CxxTarget, KernelsAgreeWithTheInterpreter) {
  std::vector<Sample> all = kir::test::samples(1, /*i64=*/true, /*f64=*/true);
  for (Sample& s : kir::test::functions(1)) all.push_back(std::move(s));
  std::vector<Code> codes;
  for (const Sample& s : all) codes.push_back(emit(s.kernel));
  const std::vector<LoadedKernel> loaded = load(codes);
  for (std::size_t k = 0; k < all.size(); ++k) {
    const Sample& s = all[k];
    auto want = s.globals;
    std::vector<std::span<std::byte>> views(want.begin(), want.end());
    const auto interpreted = kir::interpret(s.kernel, s.grid, views, s.params);
    ASSERT_TRUE(interpreted) << interpreted.error().text();
    ASSERT_NE(loaded[k].run, nullptr) << s.kernel.name;
    EXPECT_EQ(kir::test::difference(s, want, ran(loaded[k], s)), "");
  }
}

Sample scaled(double factor) {
  return kir::test::map(
      "scale", DType::F32, DType::F32, kir::test::bytesOf(kir::test::ramp(8)),
      [&](const kir::Expr& v) { return v * kir::Expr(factor); }, 1);
}

TEST_F(CxxTarget, KeepsKernelsOfOneNameApart) {
  const Sample one = scaled(1), two = scaled(2);
  const std::vector<LoadedKernel> loaded =
      load({emit(one.kernel), emit(two.kernel), emit(one.kernel)});
  EXPECT_EQ(ran(loaded[0], one)[1], one.globals[0]);
  EXPECT_NE(ran(loaded[1], two)[1], one.globals[0]);
  EXPECT_EQ(loaded[2].run, loaded[0].run);
}

TEST_F(CxxTarget, LoadsAKernelOnceWhileItIsUsed) {
  const Code three = emit(scaled(3).kernel), four = emit(scaled(4).kernel);
  const std::vector<LoadedKernel> first = load({three});
  const std::vector<LoadedKernel> second = load({four, three});
  EXPECT_EQ(second[1].run, first[0].run);
  EXPECT_EQ(second[1].owner, first[0].owner);
  EXPECT_NE(second[0].owner, first[0].owner);
  EXPECT_TRUE(load({}).empty());
}

TEST_F(CxxTarget, TakesItsNameFromTheCompiler) {
  auto name = cxxTarget().describe();
  ASSERT_TRUE(name) << name.error().text();
  EXPECT_TRUE(name->starts_with("C++ kernels compiled by ")) << *name;
}

}  // namespace
}  // namespace rlx::cpu
