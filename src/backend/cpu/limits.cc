// The loops are machine code, so that they have neither more nor fewer instructions than they need.
#include "backend/cpu/limits.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#define XBYAK_NO_EXCEPTION
#include <xbyak/xbyak.h>

#include "backend/cpu/cpu.h"
#include "base/clock.h"
#include "base/threads.h"

namespace rlx::cpu {
namespace {

constexpr int kAccumulators = 12;  // more than latency times throughput of multiply-adds
constexpr int kUnroll = 8;         // vectors of a turn of the loops over memory

// void(const std::byte* from, std::byte* to, int64_t bytes): bytes is a multiple of a turn. The
// first does as many turns of multiply-adds as there are bytes.
using Loop = void (*)(const std::byte*, std::byte*, int64_t);

class Generator : public Xbyak::CodeGenerator {
 public:
  enum class Kind : uint8_t { MultiplyAdd, Read, Copy };
  Generator(Kind kind, bool wide) : wide_(wide) {
    const int bytes = wide ? 64 : 32;
    const Xbyak::Reg64 from = rdi, to = rsi, count = rdx;
    for (int i = 0; i < kAccumulators + 2; ++i)
      visit(i, [&](const auto& v) { vxorps(Xbyak::Xmm(v.getIdx() % 16), xmm0, xmm0); });
    Xbyak::Label loop;
    align(32);
    L(loop);
    if (kind == Kind::MultiplyAdd) {
      for (int i = 0; i < kAccumulators; ++i)
        visit(i, [&](const auto& v) {
          using V = std::decay_t<decltype(v)>;
          vfmadd231ps(v, V(kAccumulators), V(kAccumulators + 1));
        });
      dec(count);
    } else {
      for (int i = 0; i < kUnroll; ++i)
        visit(i, [&](const auto& v) {
          if (kind == Kind::Read)
            vmaxps(v, v, ptr[from + i * bytes]);
          else
            vmovups(v, ptr[from + i * bytes]);
        });
      for (int i = 0; kind == Kind::Copy && i < kUnroll; ++i)
        visit(i, [&](const auto& v) { vmovups(ptr[to + i * bytes], v); });
      add(from, kUnroll * bytes);
      if (kind == Kind::Copy) add(to, kUnroll * bytes);
      sub(count, kUnroll * bytes);
    }
    jnz(loop, T_NEAR);
    vzeroupper();
    ret();
  }

 private:
  template <class F>
  void visit(int i, F f) {
    if (wide_)
      f(Xbyak::Zmm(i));
    else
      f(Xbyak::Ymm(i));
  }
  bool wide_;
};

Result<ExecutableMemory> make(Generator::Kind kind, IsaLevel isa) {
  const Generator g(kind, isa == IsaLevel::Avx512);
  return ExecutableMemory::create({reinterpret_cast<const std::byte*>(g.getCode()), g.getSize()});
}

struct Freed {
  void operator()(std::byte* p) const { std::free(p); }
};
using Memory = std::unique_ptr<std::byte, Freed>;

// Calls `turn` on threads of their own, all at once, each for so many microseconds; the sum of what
// they did in a microsecond. Not on the pool: there one thread may do the work of a late one.
template <class Turn>
double rate(int threads, double microseconds, double workOfTurn, Turn turn) {
  std::atomic<int> ready{0};
  std::vector<double> rates(static_cast<std::size_t>(threads));
  const auto work = [&](int t) {
    turn(t);  // brings the data near
    ready.fetch_add(1);
    while (ready.load() < threads) std::this_thread::yield();
    // The best of a few stretches: other programs only slow it down.
    constexpr int kStretches = 4;
    for (int k = 0; k < kStretches; ++k) {
      const double start = nowUs();
      double done = 0, now = start;
      for (; now < start + microseconds / kStretches; now = nowUs()) turn(t), done += workOfTurn;
      rates[static_cast<std::size_t>(t)] =
          std::max(rates[static_cast<std::size_t>(t)], done / (now - start));
    }
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(work, t);
  work(0);
  for (std::thread& t : others) t.join();
  double sum = 0;
  for (const double r : rates) sum += r;
  return sum;
}

int64_t cacheBytes(int name, int64_t otherwise) {
  const long bytes = sysconf(name);
  return bytes > 0 ? bytes : otherwise;
}

}  // namespace

Result<MachineLimits> measureLimits(int32_t threads, double milliseconds) {
  RLX_TRY(const IsaLevel isa, activeIsa());
  RLX_TRY(const ExecutableMemory multiplyAdd, make(Generator::Kind::MultiplyAdd, isa));
  RLX_TRY(const ExecutableMemory read, make(Generator::Kind::Read, isa));
  RLX_TRY(const ExecutableMemory copy, make(Generator::Kind::Copy, isa));
  const auto loop = [](const ExecutableMemory& m) {
    return reinterpret_cast<Loop>(reinterpret_cast<void*>(m.entry()));
  };
  MachineLimits limits;
  limits.threads = threads > 0 ? std::min(threads, kMaxThreads) : defaultThreads();
  const auto count = limits.threads;

  constexpr int64_t kFirst = 32 << 10, kSecond = 1 << 20, kThird = 8 << 20;
  constexpr int64_t kMemory = 64 << 20, kMost = 256 << 20;
  const int64_t first = cacheBytes(_SC_LEVEL1_DCACHE_SIZE, kFirst);
  const int64_t second = cacheBytes(_SC_LEVEL2_CACHE_SIZE, kSecond);
  const int64_t third = cacheBytes(_SC_LEVEL3_CACHE_SIZE, kThird);
  // Half of a cache of its own; of a shared one a part, but more than the level below holds.
  limits.levels = {{"L1", first / 2},
                   {"L2", second / 2},
                   {"L3", std::max(2 * second, std::min(third / 2 / count, kThird))},
                   {"memory", std::clamp(2 * third, kMemory, kMost) / count}};
  constexpr int64_t kTurn = 4096;  // a multiple of what a loop does at once, read and copied
  for (MachineLimits::Level& l : limits.levels) l.bytes = l.bytes / kTurn * kTurn;
  const auto largest = static_cast<std::size_t>(limits.levels.back().bytes);
  std::vector<Memory> memory;
  for (int t = 0; t < count; ++t) {
    memory.emplace_back(allocateMemory(largest));
    if (!memory.back())
      return Error(Errc::OutOfMemory, std::to_string(largest) + " bytes for each of " +
                                          std::to_string(count) + " threads");
    std::memset(memory.back().get(), 0, largest);
  }

  const double each =
      milliseconds * 1e3 / (1 + 2 * static_cast<double>(limits.levels.size()));  // microseconds
  constexpr int64_t kTurns = 4096;
  const double lanes = isa == IsaLevel::Avx512 ? 16 : 8;
  limits.gflops = rate(count, each, 2 * lanes * kAccumulators * kTurns,
                       [&](int) { loop(multiplyAdd)(nullptr, nullptr, kTurns); }) *
                  1e-3;
  for (MachineLimits::Level& l : limits.levels) {
    const int64_t half = l.bytes / 2;
    const auto at = [&](int t) { return memory[static_cast<std::size_t>(t)].get(); };
    const auto bytes = static_cast<double>(l.bytes);
    l.readGbs =
        rate(count, each, bytes, [&](int t) { loop(read)(at(t), nullptr, l.bytes); }) * 1e-3;
    l.copyGbs =
        rate(count, each, bytes, [&](int t) { loop(copy)(at(t), at(t) + half, half); }) * 1e-3;
  }
  return limits;
}

}  // namespace rlx::cpu
