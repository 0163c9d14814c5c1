#include "backend/cpu/gemm_kernel.h"

#include <cstring>
#include <mutex>

#define XBYAK_NO_EXCEPTION
#include <xbyak/xbyak.h>

namespace rlx::cpu {
namespace {

constexpr int kUnroll = 4;                // steps of k per loop iteration
constexpr int kLine = 64, kAhead = 4096;  // B is fetched a page ahead, where hardware stops

// Registers: accumulators 0 .. rows*vectors-1, then one per B vector, then the broadcast of A.
class Generator : public Xbyak::CodeGenerator {
 public:
  Generator(int rows, int vectors, bool wide) : Xbyak::CodeGenerator(16 * 1024), wide_(wide) {
    const int bytes = wide ? 64 : 32;
    const auto acc = [&](int i, int j) { return vec(i * vectors + j); };
    const auto b = [&](int j) { return vec(rows * vectors + j); };
    const auto a = vec(rows * vectors + vectors);
    const Xbyak::Reg64 args = rdi, pa = rax, row = rcx, col = rdx, pb = rsi, pc = r8, k = r9;
    const Xbyak::Reg64 ahead = pc;  // until the end
    const Xbyak::Reg64 bRow = rbx, bAhead = r12;
    const Xbyak::Reg64 row3 = r10, pa3 = r11, pa6 = rdi;  // rows 3 and 6 have pointers of their own
    mov(pa, ptr[args + offsetof(GemmArgs, a)]);
    mov(row, ptr[args + offsetof(GemmArgs, rowBytes)]);
    mov(col, ptr[args + offsetof(GemmArgs, colBytes)]);
    mov(pb, ptr[args + offsetof(GemmArgs, b)]);
    mov(pc, ptr[args + offsetof(GemmArgs, c)]);
    mov(k, ptr[args + offsetof(GemmArgs, k)]);
    push(qword[args + offsetof(GemmArgs, cRowBytes)]);
    push(pc);
    push(bRow);
    push(bAhead);
    mov(ahead, ptr[args + offsetof(GemmArgs, aheadBytes)]);
    mov(bRow, ptr[args + offsetof(GemmArgs, bRowBytes)]);
    mov(bAhead, ptr[args + offsetof(GemmArgs, bAheadBytes)]);
    Xbyak::Label strided, fromZero, started;
    test(bRow, bRow);
    jnz(strided);
    mov(bRow, vectors * bytes);
    mov(bAhead, kAhead);
    L(strided);
    mov(row3, ptr[args + offsetof(GemmArgs, start)]);
    test(row3, row3);
    jz(fromZero, T_NEAR);
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < vectors; ++j) broadcast(acc(i, j), row3 + 4 * i);
    jmp(started, T_NEAR);
    L(fromZero);
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < vectors; ++j) zero(acc(i, j));
    L(started);
    lea(row3, ptr[row + row * 2]);
    lea(pa3, ptr[pa + row3]);
    if (rows > 6) lea(pa6, ptr[pa3 + row3]);
    auto step = [&] {
      for (int j = 0; j < vectors; ++j) load(b(j), ptr[pb + j * bytes]);
      add(pb, bRow);
      for (int i = 0; i < rows; ++i) {
        const Xbyak::Reg64 base = i < 3 ? pa : i < 6 ? pa3 : pa6;
        const int m = i % 3;
        const Xbyak::RegExp at = m == 0   ? Xbyak::RegExp(base)
                                 : m == 1 ? base + row
                                          : base + row * 2;
        broadcast(a, at);
        for (int j = 0; j < vectors; ++j) fma(acc(i, j), a, b(j));
      }
      add(pa, col);
      add(pa3, col);
      if (rows > 6) add(pa6, col);
    };
    Xbyak::Label loop, tail, tailLoop, done;
    sub(k, kUnroll);
    jl(tail, T_NEAR);
    align(32);
    L(loop);
    for (int u = 0; u < kUnroll; ++u) {
      for (int at = 0; at < vectors * bytes; at += kLine) prefetcht0(ptr[pb + bAhead + at]);
      if (u % 2 == 0) prefetcht0(ptr[pa + ahead]);
      step();
    }
    sub(k, kUnroll);
    jge(loop, T_NEAR);
    L(tail);
    add(k, kUnroll);
    jz(done, T_NEAR);
    L(tailLoop);
    step();
    dec(k);
    jnz(tailLoop, T_NEAR);
    L(done);
    pop(bAhead);
    pop(bRow);
    pop(pc);
    pop(row);
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < vectors; ++j) store(ptr[pc + j * bytes], acc(i, j));
      if (i + 1 < rows) add(pc, row);
    }
    vzeroupper();
    ret();
  }

 private:
  // One register number, used as Zmm or Ymm.
  struct Vec {
    int index;
  };
  Vec vec(int index) const { return {index}; }
  void zero(Vec v) {
    if (wide_)
      vpxord(Xbyak::Zmm(v.index), Xbyak::Zmm(v.index), Xbyak::Zmm(v.index));
    else
      vxorps(Xbyak::Ymm(v.index), Xbyak::Ymm(v.index), Xbyak::Ymm(v.index));
  }
  void load(Vec v, const Xbyak::Address& at) {
    wide_ ? vmovups(Xbyak::Zmm(v.index), at) : vmovups(Xbyak::Ymm(v.index), at);
  }
  void store(const Xbyak::Address& at, Vec v) {
    wide_ ? vmovups(at, Xbyak::Zmm(v.index)) : vmovups(at, Xbyak::Ymm(v.index));
  }
  void broadcast(Vec v, const Xbyak::RegExp& at) {
    wide_ ? vbroadcastss(Xbyak::Zmm(v.index), ptr[at]) : vbroadcastss(Xbyak::Ymm(v.index), ptr[at]);
  }
  void fma(Vec acc, Vec a, Vec b) {
    if (wide_)
      vfmadd231ps(Xbyak::Zmm(acc.index), Xbyak::Zmm(a.index), Xbyak::Zmm(b.index));
    else
      vfmadd231ps(Xbyak::Ymm(acc.index), Xbyak::Ymm(a.index), Xbyak::Ymm(b.index));
  }
  bool wide_;
};

}  // namespace

struct GemmKernelFactory {
  static Status make(GemmKernels& k, IsaLevel isa) {
    const bool wide = isa == IsaLevel::Avx512;
    k.lanes_ = wide ? 16 : 8;
    for (int v = 0; v < kMaxVectors; ++v) {
      // Eight accumulators keep two fused multiply-adds a cycle busy; more rows only add
      // remainders.
      k.rows_[v] = wide || v == 0 ? 8 : 4;
      for (int r = 0; r < k.rows_[v]; ++r) {
        Generator g(r + 1, v + 1, wide);
        if (Xbyak::GetError() != Xbyak::ERR_NONE)
          return Error(Errc::Internal, std::string("micro-kernel generation: ") +
                                           Xbyak::ConvertErrorToString(Xbyak::GetError()));
        RLX_TRY(k.memory_[r][v],
                ExecutableMemory::create(
                    {reinterpret_cast<const std::byte*>(g.getCode()), g.getSize()}));
        k.kernels_[r][v] =
            reinterpret_cast<GemmFn>(reinterpret_cast<void*>(k.memory_[r][v].entry()));
      }
    }
    return Ok{};
  }
  static std::unique_ptr<GemmKernels> create() {
    return std::unique_ptr<GemmKernels>(new GemmKernels());
  }
};

Result<const GemmKernels*> GemmKernels::get(IsaLevel isa) {
  static std::mutex mutex;
  static std::unique_ptr<GemmKernels> made[2];
  const std::lock_guard lock(mutex);
  std::unique_ptr<GemmKernels>& slot = made[static_cast<std::size_t>(isa)];
  if (!slot) {
    auto k = GemmKernelFactory::create();
    RLX_OK(GemmKernelFactory::make(*k, isa));
    slot = std::move(k);
  }
  return static_cast<const GemmKernels*>(slot.get());
}

void GemmKernels::run(const GemmArgs& args, int rows, int vectors, int64_t width) const {
  const int64_t nr = int64_t{vectors} * lanes_;
  if (width == nr) return kernel(rows, vectors)(&args);
  float edge[kMaxRows * kMaxVectors * kMaxLanes];
  auto* to = reinterpret_cast<std::byte*>(args.c);
  const int64_t rowBytes = args.cRowBytes;
  GemmArgs inside = args;
  inside.c = edge, inside.cRowBytes = nr * 4;
  kernel(rows, vectors)(&inside);
  for (int r = 0; r < rows; ++r)
    std::memcpy(to + r * rowBytes, edge + r * nr, static_cast<std::size_t>(width) * 4);
}

int vectorsFor(int64_t n, int lanes) {
  int best = kMaxVectors;
  int64_t bestWidth = INT64_MAX;
  for (int v = kMaxVectors; v >= 1; --v) {
    const int64_t nr = int64_t{v} * lanes, width = (n + nr - 1) / nr * nr;
    // Narrower panels have fewer accumulators; they must save a tenth to be worth it.
    if (bestWidth == INT64_MAX || width * 10 < bestWidth * 9) best = v, bestWidth = width;
  }
  return best;
}

}  // namespace rlx::cpu
