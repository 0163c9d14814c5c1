#include "backend/cpu/gemm_int8_kernel.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>

#define XBYAK_NO_EXCEPTION
#include <xbyak/xbyak.h>

namespace rlx::cpu {
namespace {

constexpr int kUnroll = 4;  // groups per loop iteration
constexpr int kWord = 4;

// Registers: accumulators 0 .. rows*vectors-1, then one per vector of B, then the broadcast of A,
// then without vpdpbusd the products.
class Generator : public Xbyak::CodeGenerator {
 public:
  Generator(int rows, int vectors, bool wide, Vnni vnni)
      : Xbyak::CodeGenerator(16 * 1024), rows_(rows), vectors_(vectors), wide_(wide), vnni_(vnni) {
    load(pa_, offsetof(Int8Args, a));
    load(row_, offsetof(Int8Args, rowBytes));
    load(pb_, offsetof(Int8Args, b));
    load(groups_, offsetof(Int8Args, groups));
    start();
    // Rows 3 and 6 have pointers of their own.
    lea(pc_, ptr[row_ + row_ * 2]);
    lea(pa3_, ptr[pa_ + pc_]);
    lea(pa6_, ptr[pa3_ + pc_]);
    Xbyak::Label loop, tail, tailLoop, done;
    sub(groups_, kUnroll);
    jl(tail, T_NEAR);
    align(32);
    L(loop);
    for (int u = 0; u < kUnroll; ++u) step(u);
    advance(kUnroll);
    sub(groups_, kUnroll);
    jge(loop, T_NEAR);
    L(tail);
    add(groups_, kUnroll);
    jz(done, T_NEAR);
    L(tailLoop);
    step(0);
    advance(1);
    dec(groups_);
    jnz(tailLoop, T_NEAR);
    L(done);
    load(pc_, offsetof(Int8Args, c));
    load(row_, offsetof(Int8Args, cRowBytes));
    for (int i = 0; i < rows_; ++i) {
      for (int j = 0; j < vectors_; ++j) vmovups(ptr[pc_ + j * bytes()], acc(i, j));
      if (i + 1 < rows_) add(pc_, row_);
    }
    vzeroupper();
    ret();
  }

 private:
  int bytes() const { return wide_ ? 64 : 32; }
  Xbyak::Xmm acc(int i, int j) const { return reg(i * vectors_ + j); }
  Xbyak::Xmm b(int j) const { return reg(rows_ * vectors_ + j); }
  Xbyak::Xmm a() const { return reg(rows_ * vectors_ + vectors_); }
  Xbyak::Xmm products() const { return reg(rows_ * vectors_ + vectors_ + 1); }
  // A Zmm or Ymm; the kind is a value of the register object.
  Xbyak::Xmm reg(int index) const {
    return wide_ ? static_cast<Xbyak::Xmm>(Xbyak::Zmm(index))
                 : static_cast<Xbyak::Xmm>(Xbyak::Ymm(index));
  }

  void load(const Xbyak::Reg64& to, std::size_t field) { mov(to, ptr[args_ + field]); }
  void start() {
    load(pc_, offsetof(Int8Args, columnStart));
    for (int j = 0; j < vectors_; ++j) vmovups(b(j), ptr[pc_ + j * bytes()]);
    load(pc_, offsetof(Int8Args, rowStart));
    for (int i = 0; i < rows_; ++i) {
      vpbroadcastd(a(), ptr[pc_ + i * kWord]);
      for (int j = 0; j < vectors_; ++j) vpaddd(acc(i, j), a(), b(j));
    }
  }
  // One group, `u` behind the pointers.
  void step(int u) {
    for (int j = 0; j < vectors_; ++j) vmovups(b(j), ptr[pb_ + (u * vectors_ + j) * bytes()]);
    for (int i = 0; i < rows_; ++i) {
      const Xbyak::Reg64& base = i < 3 ? pa_ : i < 6 ? pa3_ : pa6_;
      const Xbyak::RegExp first = base + u * kWord;
      vpbroadcastd(a(), ptr[i % 3 == 0 ? first : i % 3 == 1 ? first + row_ : first + row_ * 2]);
      for (int j = 0; j < vectors_; ++j) multiply(acc(i, j), b(j));
    }
  }
  void multiply(const Xbyak::Xmm& sum, const Xbyak::Xmm& right) {
    if (vnni_ == Vnni::Yes)
      return vpdpbusd(sum, a(), right, wide_ ? Xbyak::EvexEncoding : Xbyak::VexEncoding);
    vpmaddwd(products(), a(), right);
    vpaddd(sum, sum, products());
  }
  void advance(int groups) {
    add(pb_, groups * vectors_ * bytes());
    for (const Xbyak::Reg64& p : {pa_, pa3_, pa6_}) add(p, groups * kWord);
  }

  int rows_, vectors_;
  bool wide_;
  Vnni vnni_;
  const Xbyak::Reg64 args_ = rdi, pa_ = rax, row_ = rcx, pb_ = rsi, pc_ = r8, groups_ = r9,
                     pa3_ = r10, pa6_ = r11;
};

}  // namespace

Int8Kernels::Int8Kernels(IsaLevel isa, Vnni vnni)
    : wide_(isa == IsaLevel::Avx512), vnni_(vnni), lanes_(wide_ ? 16 : 8) {
  const int registers = wide_ ? 32 : 16, broadcast = vnni == Vnni::Yes ? 1 : 2;
  // With 16 registers, three vectors leave too few rows for the products to pay for B.
  mostVectors_ = wide_ || vnni == Vnni::Yes ? kMaxVectors : 2;
  for (int v = 1; v <= mostVectors_; ++v)
    rows_[v - 1] = std::min(kMaxRows, (registers - v - broadcast) / v);
}

Status Int8Kernels::make(int rows, int vectors) {
  Generator g(rows, vectors, wide_, vnni_);
  if (Xbyak::GetError() != Xbyak::ERR_NONE)
    return Error(Errc::Internal, std::string("8-bit micro-kernel generation: ") +
                                     Xbyak::ConvertErrorToString(Xbyak::GetError()));
  ExecutableMemory& memory = memory_[rows - 1][vectors - 1];
  RLX_TRY(memory,
          ExecutableMemory::create({reinterpret_cast<const std::byte*>(g.getCode()), g.getSize()}));
  kernels_[rows - 1][vectors - 1] =
      reinterpret_cast<Int8Fn>(reinterpret_cast<void*>(memory.entry()));
  return Ok{};
}

Result<const Int8Kernels*> Int8Kernels::get(IsaLevel isa, Vnni vnni) {
  static std::mutex mutex;
  static std::unique_ptr<Int8Kernels> made[2][2];
  const std::lock_guard lock(mutex);
  std::unique_ptr<Int8Kernels>& slot =
      made[static_cast<std::size_t>(isa)][static_cast<std::size_t>(vnni)];
  if (!slot) {
    std::unique_ptr<Int8Kernels> k(new Int8Kernels(isa, vnni));
    for (int v = 1; v <= k->mostVectors_; ++v)
      for (int r = 1; r <= k->rows(v); ++r) RLX_OK(k->make(r, v));
    slot = std::move(k);
  }
  return static_cast<const Int8Kernels*>(slot.get());
}

void Int8Kernels::run(const Int8Args& args, int rows, int vectors, int64_t width) const {
  const Int8Fn kernel = kernels_[rows - 1][vectors - 1];
  const int64_t nr = int64_t{vectors} * lanes_;
  if (width == nr) return kernel(&args);
  int32_t edge[kMaxRows * kMaxVectors * kMaxLanes];
  Int8Args inside = args;
  inside.c = edge, inside.cRowBytes = nr * kWord;
  kernel(&inside);
  auto* const to = reinterpret_cast<std::byte*>(args.c);
  for (int r = 0; r < rows; ++r)
    std::memcpy(to + r * args.cRowBytes, edge + r * nr, static_cast<std::size_t>(width) * kWord);
}

}  // namespace rlx::cpu
