#include "dialect/dialect.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "../../tests/support/golden.h"
#include "base/file.h"
#include "kir/interp.h"
#include "kir/kernels_for_test.h"

namespace rlx {
namespace {

using kir::test::Sample;

std::vector<Sample> everything(const Dialect& d) {
  const int32_t lanes = d.caps.groups ? 32 : 1;
  auto all =
      kir::test::samples(lanes, canCompute(d.caps, DType::I64), canCompute(d.caps, DType::F64));
  for (Sample& s : kir::test::functions(lanes)) all.push_back(std::move(s));
  return all;
}

// A fresh folder for the files of one test.
std::string folder(const std::string& name) {
  const std::string dir = testing::TempDir() + "rlx_dialect_" + name;
  std::filesystem::remove_all(dir);
  EXPECT_TRUE(makeFolders(dir));
  return dir;
}

// The exit status and what the command printed.
void expectSuccess(const std::string& command, const std::string& dir) {
  const std::string log = joinPath(dir, "log");
  const int status = std::system((command + " > " + log + " 2>&1").c_str());
  auto said = readFile(log, 1 << 22);
  EXPECT_EQ(status, 0) << command << "\n" << (said ? said->substr(0, 4000) : "");
}

void replaceAll(std::string& text, std::string_view from, const std::string& to) {
  for (std::size_t i = 0; (i = text.find(from, i)) != std::string::npos; i += to.size())
    text.replace(i, from.size(), to);
}

struct Texts {
  std::vector<std::string> names, texts;
  int refused = 0;
};
Texts textsOf(const Dialect& d) {
  Texts all;
  for (const Sample& s : everything(d)) {
    auto text = emitText(s.kernel, d.caps, d);
    if (!text) {
      EXPECT_EQ(text.error().code(), Errc::Unsupported) << text.error().text();
      ++all.refused;
      continue;
    }
    all.names.push_back(s.kernel.name);
    all.texts.push_back(*std::move(text));
  }
  EXPECT_GT(all.texts.size(), 50u) << d.name;
  return all;
}

// All kernels as one translation unit; each has helpers of its own.
std::string joined(const Dialect& d) {
  std::string out;
  const Texts all = textsOf(d);
  for (std::size_t i = 0; i < all.texts.size(); ++i) {
    std::string text = all.texts[i];
    replaceAll(text, "rlx_", "rlx" + std::to_string(i) + "_");
    out += text;
  }
  return out;
}

std::string writeJoined(const Dialect& d, const std::string& dir) {
  const std::string path = joinPath(dir, "all." + std::string(d.extension));
  EXPECT_TRUE(writeFileAtomic(path, joined(d)));
  return path;
}

TEST(Dialect, foundByName) {
  ASSERT_EQ(dialects().size(), 8u);
  for (const Dialect* d : dialects()) EXPECT_EQ(findDialect(d->name), d);
  EXPECT_EQ(findDialect("fortran"), nullptr);
}

TEST(Dialect, golden) {
  for (const Dialect* d : dialects()) {
    std::string text;
    for (const Sample& s : everything(*d)) {
      const std::string& n = s.kernel.name;
      if (n != "row_sum" && n != "to_i32" && n != "maximum" && n != "mod_i32" && n != "f16_f32" &&
          n != "f32_bf16" && n != "bool_f32" && n != "isinf")
        continue;
      auto code = emitText(s.kernel, d->caps, *d);
      text += "=== " + n + "\n" + (code ? *code : code.error().text() + "\n");
    }
    test::expectGolden("dialect/" + std::string(d->name) + ".txt", text);
  }
}

TEST(Dialect, saysWhatItCannotSpell) {
  const auto x = kir::test::bytesOf(std::vector<double>{1});
  const Sample s = kir::test::map(
      "wide", DType::F64, DType::F64, x, [](const kir::Expr& v) { return v + v; }, 32);
  auto text = printKernel(s.kernel, *findDialect("wgsl"));
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code(), Errc::Unsupported);
  EXPECT_NE(text.error().message().find("dialect wgsl has no spelling for"), std::string::npos)
      << text.error().message();
}

// The system compiler takes the C++, and the machine agrees with the interpreter bit for bit but
// for the functions of the C library.
TEST(Cxx, compiledKernelsAgreeWithTheInterpreter) {
  const Dialect& d = *findDialect("cxx");
  const std::string dir = folder("cxx");
  const std::string source = writeJoined(d, dir), library = joinPath(dir, "all.so");
  expectSuccess("c++ -shared -fPIC -Wall -Werror -Wno-tautological-compare -Wno-unused-variable " +
                    std::string(d.flags) + " -O1 -o " + library + " " + source + " -lm",
                dir);
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr) << dlerror();
  for (const Sample& s : everything(d)) {
    auto want = s.globals, got = s.globals;
    std::vector<std::span<std::byte>> views(want.begin(), want.end());
    const auto ran = kir::interpret(s.kernel, s.grid, views, s.params);
    ASSERT_TRUE(ran) << ran.error().text();
    using Fn = void (*)(std::byte* const*, const int32_t*, const int64_t*, long long, long long);
    const auto run = reinterpret_cast<Fn>(dlsym(handle, entryPoint(s.kernel).c_str()));
    ASSERT_NE(run, nullptr) << s.kernel.name;
    std::vector<std::byte*> globals;
    for (auto& g : got) globals.push_back(g.data());
    const int64_t groups = s.grid[0] * s.grid[1] * s.grid[2];
    run(globals.data(), s.params.data(), s.grid.data(), 0, groups / 2);
    run(globals.data(), s.params.data(), s.grid.data(), groups / 2, groups);
    EXPECT_EQ(kir::test::difference(s, want, got), "");
  }
  dlclose(handle);
}

TEST(OpenCl, clangAccepts) {
  const std::string dir = folder("opencl");
  const std::string source = writeJoined(*findDialect("opencl"), dir);
  expectSuccess(
      "clang-14 -x cl -cl-std=CL1.2 -Xclang -finclude-default-header -Wall -Werror "
      "-Wno-unused-function -fsyntax-only " +
          source,
      dir);
}

TEST(Cuda, clangAccepts) {
  const std::string dir = folder("cuda");
  const std::string source = writeJoined(*findDialect("cuda"), dir);
  expectSuccess(
      "clang++-14 -x cuda -nocudainc -nocudalib --cuda-device-only --cuda-gpu-arch=sm_75 "
      "-Wno-unknown-cuda-version -fsyntax-only -include " +
          joinPath(test::sourceDir(), "tests/shim/device.h") + " " + source,
      dir);
}

TEST(Hip, clangAccepts) {
  const std::string dir = folder("hip");
  const std::string source = writeJoined(*findDialect("hip"), dir);
  expectSuccess(
      "clang++-14 -x hip -nogpuinc -nogpulib --cuda-device-only --offload-arch=gfx90a "
      "-fsyntax-only -I" +
          joinPath(test::sourceDir(), "tests/shim") + " " + source,
      dir);
}

TEST(Msl, clangAcceptsWithAShim) {
  const std::string dir = folder("msl");
  const std::string source = writeJoined(*findDialect("msl"), dir);
  expectSuccess(
      "clang++-14 --target=aarch64-linux-gnu -std=c++20 -x c++ -fsyntax-only "
      "-Wno-unknown-attributes -I" +
          joinPath(test::sourceDir(), "tests/shim/metal") + " " + source,
      dir);
}

void glslangAccepts(const Dialect& d, const std::string& options, bool functions) {
  const std::string dir = folder(std::string(d.name));
  const Texts all = textsOf(d);
  // One file a process: several would be linked to one program.
  const std::string command = "cd " + dir + " && for f in *." + std::string(d.extension) +
                              "; do glslangValidator " + options + " $f || exit 1; done";
  for (std::size_t i = 0; i < all.texts.size(); ++i) {
    if (!functions && all.names[i].starts_with("f_")) continue;
    std::string text = all.texts[i];
    replaceAll(text, "void k_" + all.names[i] + "(", "void main(");
    const std::string file = all.names[i] + "." + std::string(d.extension);
    ASSERT_TRUE(writeFileAtomic(joinPath(dir, file), text));
  }
  expectSuccess(command, dir);
}

TEST(Glsl, glslangAccepts) {
  // The functions are compiled by the tests of the Vulkan backend.
  glslangAccepts(*findDialect("glsl"), "-V --target-env vulkan1.1 -S comp", false);
}

TEST(Hlsl, glslangAccepts) {
  glslangAccepts(*findDialect("hlsl"), "-D -V -S comp -e main", true);
}

}  // namespace
}  // namespace rlx
