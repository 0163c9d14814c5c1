#include "base/threads.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <limits>
#include <mutex>
#include <new>
#include <string_view>

#include "base/clock.h"
#include "base/file.h"

namespace rlx {
namespace {

constexpr int kSpins = 2000;
constexpr std::size_t kLine = 64;

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  asm volatile("yield" ::: "memory");
#endif
}

// A participant's share of the chunks; others take from it when its owner is late.
struct alignas(kLine) Share {
  std::atomic<int64_t> next{0};
  int64_t end = 0;
};

struct Job {
  ThreadPool::Body body = nullptr;
  void* context = nullptr;
  int threads = 0;
  int64_t grain = 1;
  ThreadPool::Observer* observer = nullptr;
};

struct Pool;

struct alignas(kLine) Worker {
  // Counts wake-ups; all ones tells the worker to end.
  std::atomic<uint32_t> signal{0};
  pthread_t thread = {};
  Pool* pool = nullptr;
  int index = 0;
};
constexpr uint32_t kStop = std::numeric_limits<uint32_t>::max();

struct Pool {
  // Held by the thread whose parallelFor uses the workers.
  std::mutex owner;
  std::atomic<int> count{0};
  // Bit 31: the job may be joined. The bits below: workers inside it. The job and the shares are
  // written only while the gate is 0, so a worker that comes late either finds the gate closed or
  // joins a job that is complete in memory.
  alignas(kLine) std::atomic<uint32_t> gate{0};
  Job job;
  Share shares[kMaxThreads];
  Worker workers[kMaxThreads];
};
constexpr uint32_t kOpen = 1u << 31;

constinit std::atomic<Pool*> current{nullptr};
constinit std::atomic<bool> closed{false};
constinit std::atomic<Pool*> retired{nullptr};
constinit thread_local bool insideBody = false;
constinit thread_local int selfIndex = 0;
constinit thread_local ThreadPool::Observer* selfObserver = nullptr;

void runChunks(const Job& job, int64_t begin, int64_t end) {
  if (!job.observer) return job.body(job.context, begin, end);
  const double start = nowUs();
  job.body(job.context, begin, end);
  job.observer->ran(selfIndex, begin, end, start, nowUs());
}

void runShares(Pool& pool, int self) {
  const Job& job = pool.job;
  for (int k = 0; k < job.threads; ++k) {
    Share& share = pool.shares[(self + k) % job.threads];
    for (;;) {
      if (share.next.load(std::memory_order_relaxed) >= share.end) break;
      const int64_t begin = share.next.fetch_add(job.grain, std::memory_order_relaxed);
      if (begin >= share.end) break;
      runChunks(job, begin, std::min(share.end, begin + job.grain));
    }
  }
}

bool join(Pool& pool) {
  uint32_t gate = pool.gate.load(std::memory_order_relaxed);
  while (gate & kOpen)
    if (pool.gate.compare_exchange_weak(gate, gate + 1, std::memory_order_acquire,
                                        std::memory_order_relaxed))
      return true;
  return false;
}

void* workerMain(void* argument) {
  Worker& self = *static_cast<Worker*>(argument);
  Pool& pool = *self.pool;
  insideBody = true;
  selfIndex = self.index;
  uint32_t seen = 0;
  for (;;) {
    uint32_t signal = self.signal.load(std::memory_order_acquire);
    for (int i = 0; i < kSpins && signal == seen; ++i) {
      pause();
      signal = self.signal.load(std::memory_order_acquire);
    }
    if (signal == seen) {
      self.signal.wait(seen, std::memory_order_acquire);
      continue;
    }
    if (signal == kStop) return nullptr;
    seen = signal;
    if (!join(pool)) continue;
    if (self.index < pool.job.threads) runShares(pool, self.index);
    if (pool.gate.fetch_sub(1, std::memory_order_acq_rel) == 1) pool.gate.notify_one();
  }
}

// Workers for `threads` participants, or as many as the system gives.
int ensureWorkers(Pool& pool, int threads) {
  int count = pool.count.load(std::memory_order_relaxed);
  if (count >= threads - 1) return threads;
  // Signals belong to the application's threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  while (count < threads - 1) {
    Worker& worker = pool.workers[count + 1];
    worker.pool = &pool;
    worker.index = count + 1;
    if (pthread_create(&worker.thread, nullptr, &workerMain, &worker) != 0) break;
    pool.count.store(++count, std::memory_order_relaxed);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return std::min(threads, count + 1);
}

// In a forked child only the forking thread exists: the old pool, its locks and its workers are
// left behind.
void forgetPool() {
  current.store(nullptr, std::memory_order_relaxed);
}

// Joins the workers when the process exits or the library is unloaded.
struct Reaper {
  Reaper() { pthread_atfork(nullptr, nullptr, &forgetPool); }
  Reaper(const Reaper&) = delete;
  Reaper& operator=(const Reaper&) = delete;
  ~Reaper() {
    closed.store(true);
    Pool* pool = current.exchange(nullptr);
    // Exit from inside a body, or while another thread is in one: those workers cannot be joined.
    if (!pool || insideBody || !pool->owner.try_lock()) return;
    const int count = pool->count.load();
    for (int i = 1; i <= count; ++i) {
      pool->workers[i].signal.store(kStop, std::memory_order_release);
      pool->workers[i].signal.notify_one();
    }
    for (int i = 1; i <= count; ++i) pthread_join(pool->workers[i].thread, nullptr);
    pool->owner.unlock();
    // A thread that looked the pool up a moment ago may still lock it, and then works alone.
    retired.store(pool);
  }
};

Pool* acquirePool() {
  Pool* pool = current.load(std::memory_order_acquire);
  if (pool) return pool;
  if (closed.load(std::memory_order_relaxed)) return nullptr;
  static Reaper reaper;
  Pool* fresh = new (std::nothrow) Pool;
  if (!fresh) return nullptr;
  if (current.compare_exchange_strong(pool, fresh, std::memory_order_acq_rel)) return fresh;
  delete fresh;
  return pool;
}

}  // namespace

void ThreadPool::parallelFor(int threads, int64_t chunks, Body body, void* context) {
  if (chunks <= 0) return;
  threads = static_cast<int>(std::min<int64_t>({threads, chunks, kMaxThreads}));
  Job job{body, context, threads, chunks, insideBody ? nullptr : selfObserver};
  Pool* pool = threads > 1 && !insideBody ? acquirePool() : nullptr;
  if (!pool || !pool->owner.try_lock()) return runChunks(job, 0, chunks);

  const std::lock_guard guard(pool->owner, std::adopt_lock);
  threads = ensureWorkers(*pool, threads);
  if (threads == 1) return runChunks(job, 0, chunks);

  // Four takes a share: few enough to keep neighbours together, enough to even out a late start.
  job.threads = threads;
  job.grain = std::max<int64_t>(1, chunks / threads / 4);
  pool->job = job;
  const int64_t each = chunks / threads;
  const int64_t extra = chunks % threads;
  int64_t begin = 0;
  for (int i = 0; i < threads; ++i) {
    pool->shares[i].next.store(begin, std::memory_order_relaxed);
    begin += each + (i < extra ? 1 : 0);
    pool->shares[i].end = begin;
  }
  pool->gate.store(kOpen, std::memory_order_release);
  for (int i = 1; i < threads; ++i) {
    std::atomic<uint32_t>& signal = pool->workers[i].signal;
    const uint32_t next = signal.load(std::memory_order_relaxed) + 1;
    signal.store(next == kStop ? 1 : next, std::memory_order_release);
    signal.notify_one();
  }

  insideBody = true;
  runShares(*pool, 0);
  insideBody = false;

  // Every chunk is taken now. Shut the gate; those inside finish theirs.
  uint32_t gate = pool->gate.fetch_and(~kOpen, std::memory_order_acquire) & ~kOpen;
  for (int i = 0; gate != 0; ++i) {
    if (i < kSpins) {
      pause();
    } else {
      pool->gate.wait(gate, std::memory_order_acquire);
    }
    gate = pool->gate.load(std::memory_order_acquire);
  }
}

void ThreadPool::observe(Observer* observer) {
  selfObserver = observer;
}

int ThreadPool::self() {
  return selfIndex;
}

int ThreadPool::workers() {
  const Pool* pool = current.load(std::memory_order_acquire);
  return pool ? pool->count.load(std::memory_order_relaxed) : 0;
}

namespace {

constexpr uint64_t kProcFileBytes = 1 << 16;

// The first two numbers of a text such as "150000 100000"; "max" and anything else is -1.
void parseTwo(std::string_view text, int64_t& first, int64_t& second) {
  const char* at = text.data();
  const char* const end = at + text.size();
  for (int64_t* out : {&first, &second}) {
    *out = -1;
    while (at != end && (*at == ' ' || *at == '\n' || *at == '\t')) ++at;
    const auto [stop, failure] = std::from_chars(at, end, *out);
    if (failure != std::errc()) *out = -1;
    at = stop;
    while (at != end && *at != ' ' && *at != '\n') ++at;
  }
}

int quotaThreads(int64_t quota, int64_t period) {
  if (quota <= 0 || period <= 0) return 0;
  return static_cast<int>(std::clamp<int64_t>((quota - 1) / period + 1, 1, kMaxThreads));
}

int smaller(int a, int b) {
  return a == 0 ? b : b == 0 ? a : std::min(a, b);
}

int groupThreads(const std::string& folder) {
  int64_t quota = -1;
  int64_t period = -1;
  if (auto unified = readFile(joinPath(folder, "cpu.max"), kProcFileBytes)) {
    parseTwo(*unified, quota, period);
    return quotaThreads(quota, period);
  }
  auto quotaText = readFile(joinPath(folder, "cpu.cfs_quota_us"), kProcFileBytes);
  auto periodText = readFile(joinPath(folder, "cpu.cfs_period_us"), kProcFileBytes);
  if (!quotaText || !periodText) return 0;
  int64_t unused = 0;
  parseTwo(*quotaText, quota, unused);
  parseTwo(*periodText, period, unused);
  return quotaThreads(quota, period);
}

// The quotas of `group` and of every group above it, in the hierarchy mounted at `root`.
int hierarchyThreads(const std::string& root, std::string_view group) {
  int limit = 0;
  for (;;) {
    while (!group.empty() && group.back() == '/') group.remove_suffix(1);
    std::string folder = root;
    folder += group;
    limit = smaller(limit, groupThreads(folder));
    if (group.empty()) return limit;
    group = group.substr(0, std::min(group.rfind('/'), group.size()));
  }
}

bool namesCpu(std::string_view controllers) {
  while (!controllers.empty()) {
    const std::size_t comma = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, comma) == "cpu") return true;
    controllers.remove_prefix(std::min(comma + 1, controllers.size()));
  }
  return false;
}

}  // namespace

int cgroupThreads(const std::string& selfCgroup, const std::string& mount) {
  int limit = 0;
  for (std::string_view rest = selfCgroup; !rest.empty();) {
    // "4:cpu,cpuacct:/group", or "0::/group" in the unified hierarchy.
    const std::size_t lineEnd = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, lineEnd);
    rest.remove_prefix(std::min(lineEnd + 1, rest.size()));
    const std::size_t first = line.find(':');
    const std::size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos || line.find("..") != line.npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string_view group = line.substr(second + 1);
    if (controllers.empty()) {
      limit = smaller(limit, hierarchyThreads(mount, group));
    } else if (namesCpu(controllers)) {
      limit = smaller(limit, hierarchyThreads(joinPath(mount, controllers), group));
      if (controllers != "cpu") limit = smaller(limit, hierarchyThreads(mount + "/cpu", group));
    }
  }
  return limit;
}

int defaultThreads() {
  int64_t allowed = sysconf(_SC_NPROCESSORS_ONLN);
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) allowed = CPU_COUNT(&set);
  const int hardware = static_cast<int>(std::clamp<int64_t>(allowed, 1, kMaxThreads));
  auto groups = readFile("/proc/self/cgroup", kProcFileBytes);
  if (!groups) return hardware;
  return smaller(hardware, cgroupThreads(*groups, "/sys/fs/cgroup"));
}

}  // namespace rlx
