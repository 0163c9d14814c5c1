// Kernels by hand and their execution, for the tests of the emitter.
#pragma once
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "backend/cpu/emitter.h"

namespace rlx::cpu {

using kir::Access;
using kir::Buffer;
using kir::Expr;
using kir::ExprKind;
using kir::Kernel;
using kir::LoopKind;
using kir::Space;
using kir::Stmt;
using kir::StmtKind;

constexpr DType kArithmetic[] = {DType::F64, DType::F32, DType::I64, DType::I32,
                                 DType::U64, DType::U32, DType::Bool};
constexpr DType kStorage[] = {DType::F64, DType::F32, DType::F16, DType::BF16, DType::I8,
                              DType::I16, DType::I32, DType::I64, DType::U8,   DType::U16,
                              DType::U32, DType::U64, DType::Bool};

inline std::vector<IsaLevel> isas() {
  const auto best = detectIsa();
  if (!best) return {};
  return *best == IsaLevel::Avx512 ? std::vector{IsaLevel::Avx2, IsaLevel::Avx512}
                                   : std::vector{IsaLevel::Avx2};
}

// A kernel under construction: variables by handle, statements by function.
struct Make {
  Kernel k;
  Make() { k.name = "test"; }
  uint32_t buffer(DType t, Access access = Access::ReadWrite) {
    k.buffers.push_back({"b" + std::to_string(k.buffers.size()), t, Space::Global, access, 0});
    return static_cast<uint32_t>(k.buffers.size() - 1);
  }
  uint32_t array(DType t, int64_t elements) {
    k.buffers.push_back({"local", t, Space::Local, Access::ReadWrite, elements});
    return static_cast<uint32_t>(k.buffers.size() - 1);
  }
  uint32_t var(DType t) {
    k.vars.push_back({"v" + std::to_string(k.vars.size()), t});
    return static_cast<uint32_t>(k.vars.size() - 1);
  }
  Expr get(uint32_t v) const {
    kir::ExprNode n;
    n.kind = ExprKind::Var;
    n.type = k.vars[v].type;
    n.id = v;
    return Expr(std::make_shared<const kir::ExprNode>(n));
  }
  Expr param() {
    kir::ExprNode n;
    n.kind = ExprKind::Param;
    n.type = DType::I32;
    n.id = static_cast<uint32_t>(k.params.size());
    k.params.push_back("p");
    return Expr(std::make_shared<const kir::ExprNode>(n));
  }
};

inline Stmt define(StmtKind kind, uint32_t var, Expr value) {
  Stmt s;
  s.kind = kind;
  s.var = var;
  s.value = std::move(value);
  return s;
}
inline Stmt accumulate(ScalarOp op, uint32_t var, Expr value) {
  Stmt s = define(StmtKind::Accumulate, var, std::move(value));
  s.op = op;
  return s;
}
inline Stmt store(uint32_t buffer, Expr index, Expr value, Expr condition = Expr()) {
  Stmt s;
  s.kind = StmtKind::Store;
  s.buffer = buffer;
  s.index = std::move(index);
  s.value = std::move(value);
  s.condition = std::move(condition);
  return s;
}
inline Stmt loop(LoopKind kind, uint32_t var, Expr lo, Expr hi, std::vector<Stmt> body,
                 int64_t step = 1) {
  Stmt s;
  s.kind = StmtKind::For;
  s.loop = kind;
  s.var = var;
  s.lo = std::move(lo);
  s.hi = std::move(hi);
  s.body = std::move(body);
  s.step = step;
  return s;
}
inline Stmt branch(Expr condition, std::vector<Stmt> body, std::vector<Stmt> otherwise = {}) {
  Stmt s;
  s.kind = StmtKind::If;
  s.condition = std::move(condition);
  s.body = std::move(body);
  s.otherwise = std::move(otherwise);
  return s;
}

struct Code {
  ExecutableMemory memory;
  void operator()(std::vector<void*> globals, std::vector<int32_t> params,
                  std::array<int64_t, 3> grid = {1, 1, 1}) const {
    run(globals, params, grid, 0, grid[0] * grid[1] * grid[2]);
  }
  void run(std::vector<void*>& globals, std::vector<int32_t>& params, std::array<int64_t, 3> grid,
           int64_t begin, int64_t end) const {
    std::vector<std::byte*> g;
    for (void* p : globals) g.push_back(static_cast<std::byte*>(p));
    memory.entry()(g.data(), params.data(), grid.data(), begin, end);
  }
};

inline Code compile(const Kernel& k, IsaLevel isa) {
  auto code = emitKernel(k, isa);
  EXPECT_TRUE(code) << (code ? "" : code.error().text());
  if (!code) return {};
  const auto again = emitKernel(k, isa);
  EXPECT_EQ(*code, *again) << "emission is not deterministic";
  auto memory = ExecutableMemory::create(*code);
  EXPECT_TRUE(memory);
  return {std::move(*memory)};
}

// Element access by dtype, as double or as a wide integer.
inline double asDouble(DType t, const void* p, std::size_t i) {
  const auto at = [&](auto v) {
    std::memcpy(&v, static_cast<const char*>(p) + i * sizeof v, sizeof v);
    return v;
  };
  return t == DType::F32 ? static_cast<double>(at(0.0F)) : at(0.0);
}
inline scalar::Wide asWide(DType t, const void* p, std::size_t i) {
  const auto at = [&](auto v) -> scalar::Wide {
    std::memcpy(&v, static_cast<const char*>(p) + i * sizeof v, sizeof v);
    return v;
  };
  if (t == DType::I64) return at(int64_t{});
  if (t == DType::U64) return at(uint64_t{});
  if (t == DType::I32) return at(int32_t{});
  if (t == DType::U32) return at(uint32_t{});
  if (t == DType::I16) return at(int16_t{});
  if (t == DType::U16) return at(uint16_t{});
  if (t == DType::I8) return at(int8_t{});
  return at(uint8_t{});
}
inline scalar::Wide wrapTo(DType t, scalar::Wide x) {
  if (t == DType::I64) return static_cast<int64_t>(x);
  if (t == DType::U64) return static_cast<uint64_t>(x);
  if (t == DType::I32) return static_cast<int32_t>(x);
  if (t == DType::U32) return static_cast<uint32_t>(x);
  if (t == DType::I16) return static_cast<int16_t>(x);
  if (t == DType::U16) return static_cast<uint16_t>(x);
  if (t == DType::I8) return static_cast<int8_t>(x);
  if (t == DType::U8) return static_cast<uint8_t>(x);
  return x & 1;
}

using Bytes = std::vector<uint64_t>;  // storage aligned for every type

inline void put(DType t, Bytes& b, std::size_t i, double v) {
  char* p = reinterpret_cast<char*>(b.data());
  if (t == DType::F32) {
    const float f = static_cast<float>(v);
    std::memcpy(p + 4 * i, &f, 4);
  } else {
    std::memcpy(p + 8 * i, &v, 8);
  }
}
inline void putBits(DType t, Bytes& b, std::size_t i, uint64_t v) {
  if (t == DType::Bool) v &= 1;
  std::memcpy(reinterpret_cast<char*>(b.data()) + static_cast<std::size_t>(bytes(t)) * i, &v,
              static_cast<std::size_t>(bytes(t)));
}

template <class F>
void everyIsa(F f) {
  for (IsaLevel isa : isas()) {
    SCOPED_TRACE(isa == IsaLevel::Avx512 ? "avx512" : "avx2");
    f(isa);
  }
}

inline std::vector<float> ramp(std::size_t n) {
  std::vector<float> v(n);
  for (std::size_t i = 0; i < n; ++i)
    v[i] = static_cast<float>(static_cast<int>(i * 7 % 31) - 15) / 4;
  return v;
}

}  // namespace rlx::cpu
