#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

namespace rlx {
namespace {

// A folder of its own for each test, removed with what a test puts into it.
class FileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = joinPath(::testing::TempDir(), "rlx_file_XXXXXX");
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
  }
  void TearDown() override {
    const std::string command = "rm -rf '" + dir_ + "'";
    EXPECT_EQ(std::system(command.c_str()), 0);
  }
  std::string path(std::string_view name) const { return joinPath(dir_, name); }
  std::string dir_;
};

TEST_F(FileTest, WritesMapsAndReads) {
  ASSERT_TRUE(writeFileAtomic(path("a.bin"), std::string_view("one\0two", 7)));
  auto mapped = MappedFile::open(path("a.bin"));
  ASSERT_TRUE(mapped);
  EXPECT_EQ((*mapped)->text(), std::string_view("one\0two", 7));
  EXPECT_EQ((*mapped)->size(), 7u);
  EXPECT_EQ((*mapped)->bytes().size(), 7u);
  auto read = readFile(path("a.bin"), 7);
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, (*mapped)->text());

  // A replaced file leaves the old mapping as it is, and nothing temporary behind.
  const std::string_view pieces[] = {"th", "ree"};
  ASSERT_TRUE(writeFileAtomic(path("a.bin"), pieces));
  EXPECT_EQ((*mapped)->text().substr(0, 3), "one");
  EXPECT_EQ(*readFile(path("a.bin"), 100), "three");
  EXPECT_EQ(::rmdir(dir_.c_str()), -1);
  EXPECT_EQ(::unlink(path("a.bin").c_str()), 0);
  EXPECT_EQ(::rmdir(dir_.c_str()), 0);
}

TEST_F(FileTest, EmptyFileMaps) {
  ASSERT_TRUE(writeFileAtomic(path("empty"), ""));
  auto mapped = MappedFile::open(path("empty"));
  ASSERT_TRUE(mapped);
  EXPECT_EQ((*mapped)->size(), 0u);
  EXPECT_EQ(*readFile(path("empty"), 0), "");
}

TEST_F(FileTest, ErrorsCarryPathAndReason) {
  auto missing = MappedFile::open(path("missing"));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), Errc::NotFound);
  EXPECT_NE(missing.error().message().find(path("missing")), std::string::npos);
  EXPECT_NE(missing.error().message().find("No such file"), std::string::npos);

  auto folder = MappedFile::open(dir_);
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().code(), Errc::Io);
  EXPECT_NE(folder.error().message().find("is a folder"), std::string::npos);

  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  auto pipe = readFile(path("pipe"), 10);
  ASSERT_FALSE(pipe);
  EXPECT_NE(pipe.error().message().find("not a regular file"), std::string::npos);

  auto nowhere = writeFileAtomic(path("no/such/folder"), "x");
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code(), Errc::NotFound);
  auto nul = MappedFile::open(std::string("a\0b", 3));
  ASSERT_FALSE(nul);
  EXPECT_EQ(nul.error().code(), Errc::InvalidArgument);
}

TEST_F(FileTest, ReadKeepsTheBudget) {
  ASSERT_TRUE(writeFileAtomic(path("ten"), "0123456789"));
  auto over = readFile(path("ten"), 9);
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code(), Errc::FileBudget);
  // A file whose size the system does not know.
  EXPECT_TRUE(readFile("/proc/self/status", 1 << 20));
  auto status = readFile("/proc/self/status", 10);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Errc::FileBudget);
}

TEST_F(FileTest, ResolveInsideAcceptsFilesBelow) {
  ASSERT_TRUE(makeFolders(path("sub/deep")));
  ASSERT_TRUE(writeFileAtomic(path("sub/deep/w.bin"), "x"));
  EXPECT_EQ(*resolveInside(dir_, "sub/deep/w.bin"), path("sub/deep/w.bin"));
  EXPECT_EQ(*resolveInside(dir_, "./sub//deep/./w.bin"), path("sub/deep/w.bin"));
  EXPECT_EQ(*resolveInside(dir_, "not_there"), path("not_there"));
  EXPECT_EQ(*resolveInside(dir_, "..file"), path("..file"));
  EXPECT_EQ(*resolveInside("", "x"), "./x");
}

TEST_F(FileTest, ResolveInsideRefusesWaysOut) {
  ASSERT_TRUE(makeFolders(path("sub")));
  ASSERT_TRUE(writeFileAtomic(path("secret"), "x"));
  ASSERT_EQ(::symlink("/etc", path("link").c_str()), 0);
  ASSERT_EQ(::symlink("../secret", path("sub/file").c_str()), 0);
  ASSERT_EQ(::symlink("nothing", path("dangling").c_str()), 0);
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const std::string_view cases[] = {"",
                                    "/etc/passwd",
                                    "..",
                                    "../x",
                                    "sub/../../x",
                                    "sub/..",
                                    "link",
                                    "link/passwd",
                                    "sub/file",
                                    "dangling",
                                    "a\\..\\b",
                                    "C:\\x",
                                    ".",
                                    "\\x",
                                    "pipe",
                                    std::string_view("a\0b", 3)};
  for (const std::string_view relative : cases) {
    auto resolved = resolveInside(dir_, relative);
    ASSERT_FALSE(resolved) << relative;
    EXPECT_EQ(resolved.error().code(), Errc::UnsafePath) << relative;
    EXPECT_NE(resolved.error().message().find(dir_), std::string::npos) << relative;
  }
}

TEST_F(FileTest, TheFolderItselfMayBeALink) {
  ASSERT_TRUE(makeFolders(path("real")));
  ASSERT_EQ(::symlink("real", path("alias").c_str()), 0);
  EXPECT_TRUE(resolveInside(path("alias"), "x"));
}

TEST_F(FileTest, FoldersAndKinds) {
  EXPECT_EQ(pathKind(path("a")), PathKind::Missing);
  ASSERT_TRUE(makeFolders(path("a/b/c")));
  ASSERT_TRUE(makeFolders(path("a/b/c/")));
  EXPECT_EQ(pathKind(path("a/b")), PathKind::Folder);
  ASSERT_TRUE(writeFileAtomic(path("f"), ""));
  EXPECT_EQ(pathKind(path("f")), PathKind::File);
  EXPECT_EQ(pathKind("/dev/null"), PathKind::Other);
  EXPECT_FALSE(makeFolders(path("f")));
  EXPECT_FALSE(makeFolders(path("f/x")));
}

TEST(Path, JoinsAndSplits) {
  EXPECT_EQ(joinPath("a", "b"), "a/b");
  EXPECT_EQ(joinPath("a/", "b"), "a/b");
  EXPECT_EQ(joinPath("", "b"), "b");
  EXPECT_EQ(parentPath("a/b/c"), "a/b");
  EXPECT_EQ(parentPath("c"), ".");
  EXPECT_EQ(parentPath("/c"), "/");
  EXPECT_EQ(parentPath("a/b/"), "a");
  EXPECT_EQ(fileName("a/b"), "b");
  EXPECT_EQ(fileName("a/b/"), "b");
  EXPECT_EQ(fileName("b"), "b");
}

TEST(MappedFile, KeepsBytesInMemory) {
  auto file = MappedFile::fromBytes("name", "abc");
  EXPECT_EQ(file->text(), "abc");
  EXPECT_EQ(file->path(), "name");
}

}  // namespace
}  // namespace rlx
