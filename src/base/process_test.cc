#include "base/process.h"

#include <gtest/gtest.h>

#include <vector>

namespace rlx {
namespace {

Result<ProcessResult> run(const std::vector<std::string>& arguments, std::size_t most = 1 << 20) {
  return runProcess(arguments, most);
}

TEST(Process, GivesStatusAndBothStreams) {
  auto r = run({"sh", "-c", "echo out; echo err >&2; exit 3"});
  ASSERT_TRUE(r) << r.error().text();
  EXPECT_EQ(r->status, 3);
  EXPECT_EQ(r->output, "out\nerr\n");
}

TEST(Process, PassesArgumentsAsTheyAre) {
  auto r = run({"printf", "%s|", "a b", "$HOME", "; exit 1", "*", "'\""});
  ASSERT_TRUE(r) << r.error().text();
  EXPECT_EQ(r->status, 0);
  EXPECT_EQ(r->output, "a b|$HOME|; exit 1|*|'\"|");
}

TEST(Process, NamesASignal) {
  auto r = run({"sh", "-c", "kill -9 $$"});
  ASSERT_TRUE(r) << r.error().text();
  EXPECT_EQ(r->status, 128 + 9);
}

TEST(Process, GivesNothingOnStdin) {
  auto r = run({"cat"});
  ASSERT_TRUE(r) << r.error().text();
  EXPECT_EQ(r->output, "");
}

TEST(Process, DropsOutputBeyondTheLimit) {
  auto r = run({"head", "-c", "1000000", "/dev/zero"}, 5000);
  ASSERT_TRUE(r) << r.error().text();
  EXPECT_EQ(r->status, 0);
  EXPECT_EQ(r->output.size(), 5000u);
}

TEST(Process, SaysWhatCannotBeRun) {
  auto missing = run({"rlx-no-such-program"});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), Errc::NotFound);
  EXPECT_NE(missing.error().message().find("'rlx-no-such-program'"), std::string::npos);
  EXPECT_FALSE(run({}));
  EXPECT_FALSE(run({""}));
  EXPECT_FALSE(run({"printf", std::string("a\0b", 3)}));
  EXPECT_FALSE(run({"/"}));
}

}  // namespace
}  // namespace rlx
