#include "backend/cpu/gemm_kernel.h"

#include <cstring>
#include <mutex>

#define XBYAK_NO_EXCEPTION
#include <xbyak/xbyak.h>

namespace rlx::cpu {
namespace {

constexpr int kUnroll = 4;                // steps of k per loop iteration
constexpr int kLine = 64, kAhead = 4096;  // B is fetched a page ahead, where hardware stops

constexpr int sumBytes(GemmType t) {
  return t == GemmType::F64 ? 8 : 4;
}
constexpr int panelBytes(GemmType t) {
  return t == GemmType::F64 ? 8 : t == GemmType::F32 ? 4 : 2;
}

// Registers: accumulators 0 .. rows*vectors-1, then one per B vector, then the broadcast of A.
class Generator : public Xbyak::CodeGenerator {
 public:
  Generator(int rows, int vectors, IsaLevel isa, GemmType type)
      : Xbyak::CodeGenerator(16 * 1024), wide_(isa == IsaLevel::Avx512), type_(type) {
    const int bytes = wide_ ? kMaxVectorBytes : kMaxVectorBytes / 2;  // of a vector of sums
    const int bBytes = bytes / sumBytes(type) * panelBytes(type);
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
    mov(bRow, vectors * bBytes);
    mov(bAhead, kAhead);
    L(strided);
    mov(row3, ptr[args + offsetof(GemmArgs, start)]);
    test(row3, row3);
    jz(fromZero, T_NEAR);
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < vectors; ++j) broadcast(acc(i, j), row3 + sumBytes(type) * i);
    jmp(started, T_NEAR);
    L(fromZero);
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < vectors; ++j) zero(acc(i, j));
    L(started);
    lea(row3, ptr[row + row * 2]);
    lea(pa3, ptr[pa + row3]);
    if (rows > 6) lea(pa6, ptr[pa3 + row3]);
    auto step = [&] {
      for (int j = 0; j < vectors; ++j) load(b(j), ptr[pb + j * bBytes]);
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
      for (int at = 0; at < vectors * bBytes; at += kLine) prefetcht0(ptr[pb + bAhead + at]);
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
    Xbyak::Zmm zmm() const { return Xbyak::Zmm(index); }
    Xbyak::Ymm ymm() const { return Xbyak::Ymm(index); }
  };
  Vec vec(int index) const { return {index}; }
  void zero(Vec v) {
    wide_ ? vpxord(v.zmm(), v.zmm(), v.zmm()) : vxorps(v.ymm(), v.ymm(), v.ymm());
  }
  // A vector of B, as sums are.
  void load(Vec v, const Xbyak::Address& at) {
    switch (type_) {
      case GemmType::F32:
      case GemmType::F64: wide_ ? vmovups(v.zmm(), at) : vmovups(v.ymm(), at); return;
      case GemmType::F16Panels: wide_ ? vcvtph2ps(v.zmm(), at) : vcvtph2ps(v.ymm(), at); return;
      case GemmType::BF16Panels:
        wide_ ? vpmovzxwd(v.zmm(), at) : vpmovzxwd(v.ymm(), at);
        wide_ ? vpslld(v.zmm(), v.zmm(), 16) : vpslld(v.ymm(), v.ymm(), 16);
        return;
    }
  }
  void store(const Xbyak::Address& at, Vec v) {
    wide_ ? vmovups(at, v.zmm()) : vmovups(at, v.ymm());
  }
  void broadcast(Vec v, const Xbyak::RegExp& at) {
    if (type_ == GemmType::F64)
      wide_ ? vbroadcastsd(v.zmm(), ptr[at]) : vbroadcastsd(v.ymm(), ptr[at]);
    else
      wide_ ? vbroadcastss(v.zmm(), ptr[at]) : vbroadcastss(v.ymm(), ptr[at]);
  }
  void fma(Vec acc, Vec a, Vec b) {
    if (type_ == GemmType::F64)
      wide_ ? vfmadd231pd(acc.zmm(), a.zmm(), b.zmm()) : vfmadd231pd(acc.ymm(), a.ymm(), b.ymm());
    else
      wide_ ? vfmadd231ps(acc.zmm(), a.zmm(), b.zmm()) : vfmadd231ps(acc.ymm(), a.ymm(), b.ymm());
  }
  bool wide_;
  GemmType type_;
};

}  // namespace

struct GemmKernelFactory {
  static Status make(GemmKernels& k, IsaLevel isa, GemmType type) {
    const bool wide = isa == IsaLevel::Avx512;
    k.sumBytes_ = sumBytes(type);
    k.lanes_ = (wide ? kMaxVectorBytes : kMaxVectorBytes / 2) / k.sumBytes_;
    for (int v = 0; v < kMaxVectors; ++v) {
      // Eight accumulators keep two fused multiply-adds a cycle busy; more rows only add
      // remainders.
      k.rows_[v] = wide || v == 0 ? 8 : 4;
      for (int r = 0; r < k.rows_[v]; ++r) {
        Generator g(r + 1, v + 1, isa, type);
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

Result<const GemmKernels*> GemmKernels::get(IsaLevel isa, GemmType type) {
  static std::mutex mutex;
  static std::unique_ptr<GemmKernels> made[2][kGemmTypes];
  const std::lock_guard lock(mutex);
  std::unique_ptr<GemmKernels>& slot =
      made[static_cast<std::size_t>(isa)][static_cast<std::size_t>(type)];
  if (!slot) {
    auto k = GemmKernelFactory::create();
    RLX_OK(GemmKernelFactory::make(*k, isa, type));
    slot = std::move(k);
  }
  return static_cast<const GemmKernels*>(slot.get());
}

void GemmKernels::run(const GemmArgs& args, int rows, int vectors, int64_t width) const {
  const int64_t nr = int64_t{vectors} * lanes_;
  if (width == nr) return kernel(rows, vectors)(&args);
  alignas(kMaxVectorBytes) std::byte edge[kMaxRows * kMaxVectors * kMaxVectorBytes];
  auto* to = static_cast<std::byte*>(args.c);
  const int64_t rowBytes = args.cRowBytes;
  GemmArgs inside = args;
  inside.c = edge, inside.cRowBytes = nr * sumBytes_;
  kernel(rows, vectors)(&inside);
  for (int r = 0; r < rows; ++r)
    std::memcpy(to + r * rowBytes, edge + r * inside.cRowBytes,
                static_cast<std::size_t>(width * sumBytes_));
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
