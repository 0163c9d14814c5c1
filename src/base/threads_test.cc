#include "base/threads.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "base/file.h"

#if defined(__SANITIZE_THREAD__)
#define RLX_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RLX_TSAN 1
#endif
#endif

namespace rlx {
namespace {

TEST(Threads, DefaultIsPositive) {
  EXPECT_GE(defaultThreads(), 1);
  EXPECT_LE(defaultThreads(), 256);
}

// Every chunk exactly once, for many counts; plain writes, so that a race would be seen.
TEST(ThreadPool, CoversEveryChunkOnce) {
  for (const int threads : {0, 1, 2, 3, 8}) {
    for (const int64_t chunks : {0, 1, 2, 3, 7, 64, 1000}) {
      std::vector<int> seen(static_cast<std::size_t>(chunks), 0);
      ThreadPool::parallelFor(threads, chunks, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
      });
      for (const int count : seen) ASSERT_EQ(count, 1) << threads << " threads, " << chunks;
    }
  }
  EXPECT_GE(ThreadPool::workers(), 1);
  EXPECT_LE(ThreadPool::workers(), 7);
}

TEST(ThreadPool, ManyShortCalls) {
  std::vector<int64_t> values(16, 0);
  for (int round = 0; round < 3000; ++round)
    ThreadPool::parallelFor(1 + round % 4, 16, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) values[static_cast<std::size_t>(i)] += i;
    });
  for (int64_t i = 0; i < 16; ++i) EXPECT_EQ(values[static_cast<std::size_t>(i)], 3000 * i);
}

TEST(ThreadPool, WakesWorkersThatSleep) {
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::atomic<int64_t> sum{0};
    ThreadPool::parallelFor(4, 100, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) sum.fetch_add(i, std::memory_order_relaxed);
    });
    EXPECT_EQ(sum.load(), 4950);
  }
}

TEST(ThreadPool, NestedCallsRunInline) {
  std::atomic<int> inner{0};
  ThreadPool::parallelFor(4, 8, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const std::thread::id self = std::this_thread::get_id();
      ThreadPool::parallelFor(4, 10, [&](int64_t from, int64_t to) {
        EXPECT_EQ(std::this_thread::get_id(), self);
        inner.fetch_add(static_cast<int>(to - from));
      });
    }
  });
  EXPECT_EQ(inner.load(), 80);
  // And the next call is parallel again.
  std::atomic<int> parts{0};
  ThreadPool::parallelFor(2, 2, [&](int64_t, int64_t) { parts.fetch_add(1); });
  EXPECT_EQ(parts.load(), 2);
}

TEST(ThreadPool, SeveralCallersAtOnce) {
  std::vector<std::thread> callers;
  std::vector<int64_t> sums(4, 0);
  for (std::size_t c = 0; c < sums.size(); ++c)
    callers.emplace_back([&sums, c] {
      for (int round = 0; round < 500; ++round) {
        std::vector<int64_t> parts(32, 0);
        ThreadPool::parallelFor(3, 32, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) parts[static_cast<std::size_t>(i)] = i;
        });
        for (const int64_t part : parts) sums[c] += part;
      }
    });
  for (std::thread& caller : callers) caller.join();
  for (const int64_t sum : sums) EXPECT_EQ(sum, 500 * 496);
}

TEST(ThreadPool, UnevenWorkIsStolen) {
  std::vector<double> results(64, 0);
  ThreadPool::parallelFor(4, 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      double x = 1;
      for (int64_t k = 0; k < (i < 4 ? 100000 : 10); ++k) x = x * 0.5 + 1;
      results[static_cast<std::size_t>(i)] = x;
    }
  });
  for (const double x : results) EXPECT_NEAR(x, 2.0, 0.01);
}

#ifndef RLX_TSAN
TEST(ThreadPool, WorksInAForkedChild) {
  std::atomic<int64_t> sum{0};
  const auto add = [&](int64_t begin, int64_t end) { sum.fetch_add(end - begin); };
  ThreadPool::parallelFor(3, 30, add);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool fresh = ThreadPool::workers() == 0;
    sum = 0;
    ThreadPool::parallelFor(3, 30, add);
    // Through exit(), so that the child's own workers are joined as well.
    std::exit(fresh && sum.load() == 30 && ThreadPool::workers() == 2 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(ThreadPool, ExitInsideABodyDoesNotHang) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(ThreadPool::parallelFor(2, 2,
                                      [](int64_t begin, int64_t) {
                                        if (begin == 0) std::exit(3);
                                      }),
              ::testing::ExitedWithCode(3), "");
}
#endif

class CgroupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = joinPath(::testing::TempDir(), "rlx_cgroup_XXXXXX");
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    mount_ = pattern;
  }
  void TearDown() override {
    const std::string command = "rm -rf '" + mount_ + "'";
    EXPECT_EQ(std::system(command.c_str()), 0);
  }
  void put(std::string_view path, std::string_view text) const {
    const std::string full = joinPath(mount_, path);
    ASSERT_TRUE(makeFolders(std::string(parentPath(full))));
    ASSERT_TRUE(writeFileAtomic(full, text));
  }
  std::string mount_;
};

TEST_F(CgroupTest, UnifiedTakesTheSmallestQuotaOnTheWayUp) {
  put("a/cpu.max", "150000 100000\n");
  put("a/b/cpu.max", "max 100000\n");
  put("a/c/cpu.max", "50000 100000\n");
  EXPECT_EQ(cgroupThreads("0::/a/b\n", mount_), 2);
  EXPECT_EQ(cgroupThreads("0::/a/c\n", mount_), 1);
  EXPECT_EQ(cgroupThreads("0::/\n", mount_), 0);
  EXPECT_EQ(cgroupThreads("0::/not/visible\n", mount_), 0);
}

TEST_F(CgroupTest, Version1) {
  put("cpu,cpuacct/g/cpu.cfs_quota_us", "400000\n");
  put("cpu,cpuacct/g/cpu.cfs_period_us", "100000\n");
  put("cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  put("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroupThreads("5:memory:/g\n4:cpu,cpuacct:/g\n", mount_), 4);
  EXPECT_EQ(cgroupThreads("4:cpu,cpuacct:/\n", mount_), 0);
  EXPECT_EQ(cgroupThreads("4:cpuset:/g\n", mount_), 0);
}

TEST_F(CgroupTest, IgnoresNonsense) {
  put("cpu.max", "garbage");
  put("z/cpu.max", "100000 0");
  EXPECT_EQ(cgroupThreads("0::/\n", mount_), 0);
  EXPECT_EQ(cgroupThreads("0::/z\n", mount_), 0);
  EXPECT_EQ(cgroupThreads("nonsense\n::\n0::/../x", mount_), 0);
  EXPECT_EQ(cgroupThreads("", mount_), 0);
}

}  // namespace
}  // namespace rlx
