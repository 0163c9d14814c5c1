#include "backend/cpu/cxx_compiler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/env.h"
#include "base/file.h"

namespace rlx::cpu {
namespace {

namespace fs = std::filesystem;

CxxCompiler compiler() {
  auto env = readEnv();
  auto c = findCxxCompiler(env && !env->cxx.empty() ? env->cxx : "c++");
  EXPECT_TRUE(c) << c.error().text();
  return *std::move(c);
}

// Names that a shell would take apart.
std::string freshFolder(const std::string& name) {
  const std::string dir = testing::TempDir() + "rlx $(false); '" + name;
  fs::remove_all(dir);
  return dir;
}

std::string answers(int value) {
  return "extern \"C\" int answer() { return " + std::to_string(value) + "; }\n";
}

int ask(const DynamicLibrary& library) {
  const auto answer = library.function<int (*)()>("answer");
  return answer ? answer() : -1;
}

std::vector<std::string> filesIn(const std::string& folder) {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(folder)) out.push_back(entry.path().string());
  return out;
}

TEST(CxxCompiler, SaysWhatItIs) {
  const CxxCompiler c = compiler();
  EXPECT_TRUE(c.description.starts_with(c.program + " (")) << c.description;
  EXPECT_NE(c.description.find_first_of("0123456789"), std::string::npos);
  const auto has = [&](std::string_view flag) {
    return std::find(c.flags.begin(), c.flags.end(), flag) != c.flags.end();
  };
  EXPECT_TRUE(has("-ffp-contract=off") && has("-fno-math-errno") && has("-fwrapv"));
  EXPECT_FALSE(has("-ffast-math"));
}

TEST(CxxCompiler, SaysWhatToDoWithoutOne) {
  for (const char* program : {"rlx-no-such-compiler", "true", "echo"}) {
    auto c = findCxxCompiler(program);
    ASSERT_FALSE(c) << program;
    EXPECT_EQ(c.error().code(), Errc::NoCompiler);
    EXPECT_NE(c.error().message().find(program), std::string::npos);
    EXPECT_NE(c.error().hint().find("install"), std::string::npos);
    EXPECT_NE(c.error().hint().find("--device reference"), std::string::npos);
  }
}

TEST(CxxCompiler, CompilesOnceAndLeavesOnlyLibraries) {
  const std::string dir = freshFolder("once");
  CxxCompiler c = compiler();
  {
    auto library = compiledLibrary(c, answers(42), dir);
    ASSERT_TRUE(library) << library.error().text();
    EXPECT_EQ(ask(**library), 42);
  }
  EXPECT_EQ(filesIn(dir).size(), 1u);
  c.program = "rlx-no-such-compiler";  // what is there needs none
  auto again = compiledLibrary(c, answers(42), dir);
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(ask(**again), 42);
  EXPECT_FALSE(compiledLibrary(c, answers(43), dir));
  EXPECT_EQ(filesIn(dir).size(), 1u);
  c.fingerprint ^= 1;  // another compiler's is not taken
  EXPECT_FALSE(compiledLibrary(c, answers(42), dir));
}

TEST(CxxCompiler, ReplacesWhatIsNoLibraryOfTheSource) {
  const std::string dir = freshFolder("replaced");
  const CxxCompiler c = compiler();
  ASSERT_TRUE(compiledLibrary(c, answers(1), dir));
  const std::string first = filesIn(dir).at(0);
  ASSERT_TRUE(writeFileAtomic(first, "not a library"));
  {
    auto library = compiledLibrary(c, answers(1), dir);
    ASSERT_TRUE(library) << library.error().text();
    EXPECT_EQ(ask(**library), 1);
  }
  // As if two sources had one hash.
  const std::string other = freshFolder("other");
  ASSERT_TRUE(compiledLibrary(c, answers(2), other));
  fs::copy_file(filesIn(other).at(0), first, fs::copy_options::overwrite_existing);
  auto library = compiledLibrary(c, answers(1), dir);
  ASSERT_TRUE(library) << library.error().text();
  EXPECT_EQ(ask(**library), 1);
}

TEST(CxxCompiler, ReportsWhatTheCompilerSays) {
  auto library = compiledLibrary(compiler(), "no such language\n", freshFolder("refused"));
  ASSERT_FALSE(library);
  EXPECT_EQ(library.error().code(), Errc::Device);
  EXPECT_NE(library.error().message().find("error"), std::string::npos);
}

TEST(CxxCompiler, NamesAFolderThatCannotBeMade) {
  const std::string file = freshFolder("file");
  ASSERT_TRUE(writeFileAtomic(file, ""));
  auto library = compiledLibrary(compiler(), answers(1), joinPath(file, "below"));
  ASSERT_FALSE(library);
  EXPECT_NE(library.error().message().find(file), std::string::npos);
}

TEST(CxxCompiler, RunsNothingThatOthersCanPutThere) {
  const std::string dir = freshFolder("shared");
  ASSERT_TRUE(compiledLibrary(compiler(), answers(1), dir));
  fs::permissions(dir, fs::perms::all);
  auto library = compiledLibrary(compiler(), answers(1), dir);
  ASSERT_FALSE(library);
  EXPECT_EQ(library.error().code(), Errc::Io);
  EXPECT_NE(library.error().message().find(dir), std::string::npos);
}

}  // namespace
}  // namespace rlx::cpu
