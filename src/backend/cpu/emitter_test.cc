// Every scalar op, cast and statement of the kernel IR through the emitter, against plain C++.
#include "backend/cpu/emitter.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "kir/expand.h"

namespace rlx::cpu {
namespace {

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

std::vector<IsaLevel> isas() {
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

Stmt define(StmtKind kind, uint32_t var, Expr value) {
  Stmt s;
  s.kind = kind;
  s.var = var;
  s.value = std::move(value);
  return s;
}
Stmt accumulate(ScalarOp op, uint32_t var, Expr value) {
  Stmt s = define(StmtKind::Accumulate, var, std::move(value));
  s.op = op;
  return s;
}
Stmt store(uint32_t buffer, Expr index, Expr value, Expr condition = Expr()) {
  Stmt s;
  s.kind = StmtKind::Store;
  s.buffer = buffer;
  s.index = std::move(index);
  s.value = std::move(value);
  s.condition = std::move(condition);
  return s;
}
Stmt loop(LoopKind kind, uint32_t var, Expr lo, Expr hi, std::vector<Stmt> body, int64_t step = 1) {
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
Stmt branch(Expr condition, std::vector<Stmt> body, std::vector<Stmt> otherwise = {}) {
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

Code compile(const Kernel& k, IsaLevel isa) {
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
double asDouble(DType t, const void* p, std::size_t i) {
  const auto at = [&](auto v) {
    std::memcpy(&v, static_cast<const char*>(p) + i * sizeof v, sizeof v);
    return v;
  };
  return t == DType::F32 ? static_cast<double>(at(0.0F)) : at(0.0);
}
scalar::Wide asWide(DType t, const void* p, std::size_t i) {
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
scalar::Wide wrapTo(DType t, scalar::Wide x) {
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

// Distance in units in the last place of the type at the reference, double precision reference.
double ulps(DType t, double got, double want) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got) ? 0 : 1e30;
  if (got == want) return std::signbit(got) == std::signbit(want) ? 0 : 1e30;
  if (t == DType::F32 && static_cast<float>(want) == static_cast<float>(got)) return 0.5;
  if (std::isinf(want) || std::isinf(got)) {
    // Overflow may start half a unit early or late.
    const double big = std::isinf(want) ? got : want;
    return t == DType::F32 && std::fabs(big) > 3.40282e38 ? 1 : 1e30;
  }
  const int mantissa = t == DType::F32 ? 23 : 52, least = t == DType::F32 ? -149 : -1074;
  int e = 0;
  std::frexp(want, &e);
  return std::fabs(got - want) / std::ldexp(1.0, std::max(e - 1 - mantissa, least));
}

std::vector<double> specials() {
  const double inf = std::numeric_limits<double>::infinity();
  return {0.0,    -0.0,  1.0,  -1.0,   0.5,   -0.5,  1.5,    2.5,    -2.5,  inf,   -inf,
          NAN,    1e-40, -1e-40, 1e-45, 3e38, -3e38, 88.7,   88.73,  -87.5, -103.9, -104.5,
          1e-8,   -1e-8, 100,  -100,   1e6,   -1e6,  3.14159, 0.6931, 1e-38, 7.9,   -7.9,
          4194303.5, 8388609, 2147483648.0, -2147483648.0, 0.9999999, 1.0000001, 127.9999, 128.5};
}

using Bytes = std::vector<uint64_t>;  // storage aligned for every type

void put(DType t, Bytes& b, std::size_t i, double v) {
  char* p = reinterpret_cast<char*>(b.data());
  if (t == DType::F32) {
    const float f = static_cast<float>(v);
    std::memcpy(p + 4 * i, &f, 4);
  } else {
    std::memcpy(p + 8 * i, &v, 8);
  }
}
void putBits(DType t, Bytes& b, std::size_t i, uint64_t v) {
  if (t == DType::Bool) v &= 1;
  std::memcpy(reinterpret_cast<char*>(b.data()) + static_cast<std::size_t>(bytes(t)) * i, &v,
              static_cast<std::size_t>(bytes(t)));
}

uint64_t integerSample(std::mt19937_64& rng, DType t) {
  const uint64_t top = uint64_t{1} << (info(t).bits - 1);
  switch (rng() % 8) {
    case 0: return 0;
    case 1: return ~uint64_t{0};
    case 2: return top;
    case 3: return top - 1;
    case 4: return 1;
    case 5: return rng();
    default: return rng() % 200 - 100;
  }
}

void fill(DType t, Bytes& b, std::size_t n, std::mt19937_64& rng, const ScalarInfo* op) {
  const auto special = specials();
  for (std::size_t i = 0; i < n; ++i) {
    if (isFloat(t)) {
      const double u = static_cast<double>(rng() >> 11) * 0x1p-53;
      const double v = op && rng() % 3 != 0 ? op->lo + u * (op->hi - op->lo)
                                            : special[rng() % special.size()];
      put(t, b, i, v);
    } else {
      putBits(t, b, i, integerSample(rng, t == DType::Bool ? DType::U8 : t));
    }
  }
}

bool accepts(const ScalarInfo& op, DType t) {
  if (op.types == "bx") return true;
  const char kind = t == DType::Bool ? 'b' : isFloat(t) ? 'f' : 'i';
  return op.types.find(kind) != std::string_view::npos;
}

void checkOp(ScalarOp op, DType t, IsaLevel isa, LoopKind kind, bool constantB) {
  const ScalarInfo& in = info(op);
  const DType result = in.result == ScalarResult::Bool ? DType::Bool : t;
  Make m;
  const bool select = op == ScalarOp::Select;
  const uint32_t a = m.buffer(select ? DType::Bool : t), b = m.buffer(t), c = m.buffer(t),
                 y = m.buffer(result);
  const Expr n = m.param();
  const uint32_t i = m.var(DType::I32);
  std::mt19937_64 rng(static_cast<uint64_t>(op) * 100 + static_cast<uint64_t>(t));
  const int64_t constant = constantB ? static_cast<int64_t>(rng() % 40) + 1 : 0;
  const Expr at = m.get(i);
  const Expr second = constantB ? kir::integer(t, constant) : kir::load(b, t, at);
  m.k.body = {loop(kind, i, kir::index(0), n,
                   {store(y, at,
                          Expr::apply(op, kir::load(a, select ? DType::Bool : t, at), second,
                                      kir::load(c, t, at)))})};
  const Code code = compile(m.k, isa);
  if (code.memory.entry() == nullptr) return;
  for (std::size_t len = 0; len <= 33; ++len) {
    Bytes x[3], out(40, 0xa5a5a5a5a5a5a5a5U);
    for (int j = 0; j < 3; ++j) {
      x[j].resize(40);
      fill(j == 0 && select ? DType::Bool : t, x[j], len, rng, &in);
    }
    code({x[0].data(), x[1].data(), x[2].data(), out.data()}, {static_cast<int32_t>(len)});
    const std::size_t used = len * static_cast<std::size_t>(bytes(result));
    ASSERT_EQ(reinterpret_cast<unsigned char*>(out.data())[used], 0xa5) << "written past the end";
    for (std::size_t j = 0; j < len; ++j) {
      if (isFloat(t)) {
        const double va = select ? static_cast<double>(asWide(DType::Bool, x[0].data(), j))
                                 : asDouble(t, x[0].data(), j);
        const double vb = asDouble(t, x[1].data(), j), vc = asDouble(t, x[2].data(), j);
        double want = scalar::value(op, va, vb, vc);
        if (result == DType::Bool) {
          ASSERT_EQ(static_cast<double>(asWide(DType::Bool, out.data(), j)), want)
              << in.name << " " << name(t) << " of " << va << " " << vb;
          continue;
        }
        const double got = asDouble(t, out.data(), j);
        if (t == DType::F32 && op == ScalarOp::Fma)
          want = static_cast<double>(std::fma(static_cast<float>(va), static_cast<float>(vb), static_cast<float>(vc)));
        if (want == 0 && got == 0) continue;  // the sign of zero is checked apart
        ASSERT_LE(ulps(t, got, want), in.ulp + 0.5)
            << in.name << " " << name(t) << " length " << len << " of " << va << " " << vb << " "
            << vc << ": got " << got << " want " << want;
      } else {
        const scalar::Wide va = asWide(select ? DType::Bool : t, x[0].data(), j),
                           vb = constantB ? constant : asWide(t, x[1].data(), j),
                           vc = asWide(t, x[2].data(), j);
        const scalar::Wide want = wrapTo(
            result, scalar::integerValue(op, va, vb, vc, t == DType::Bool ? 1 : info(t).bits));
        ASSERT_TRUE(asWide(result, out.data(), j) == want)
            << in.name << " " << name(t) << " length " << len << " of "
            << static_cast<int64_t>(va) << " " << static_cast<int64_t>(vb) << " "
            << static_cast<int64_t>(vc) << ": got "
            << static_cast<int64_t>(asWide(result, out.data(), j)) << " want "
            << static_cast<int64_t>(want);
      }
    }
  }
}

TEST(Emitter, EveryScalarOp) {
  for (IsaLevel isa : isas())
    for (std::size_t o = 0; o < kScalarCount; ++o)
      for (DType t : kArithmetic)
        for (LoopKind kind : {LoopKind::Serial, LoopKind::Vector}) {
          const auto op = static_cast<ScalarOp>(o);
          if (!accepts(info(op), t)) continue;
          SCOPED_TRACE(std::string(info(op).name) + " " + std::string(name(t)) +
                       (kind == LoopKind::Vector ? " vector" : " serial") +
                       (isa == IsaLevel::Avx512 ? " avx512" : " avx2"));
          checkOp(op, t, isa, kind, false);
          if (isInteger(t) && info(op).arity == 2) checkOp(op, t, isa, kind, true);
          if (HasFatalFailure()) return;
        }
}

// Every constant divisor of a kind, at the extremes.
TEST(Emitter, DivisionByConstants) {
  std::vector<int32_t> values = {0, 1, -1, INT32_MIN, INT32_MAX, INT32_MIN + 1, 12345, -12345};
  std::mt19937_64 rng(1);
  while (values.size() < 64) values.push_back(static_cast<int32_t>(rng()));
  for (IsaLevel isa : isas())
    for (LoopKind kind : {LoopKind::Serial, LoopKind::Vector})
      for (ScalarOp op : {ScalarOp::Div, ScalarOp::Rem, ScalarOp::Mod})
        for (int32_t d : {1, 2, 3, 5, 6, 7, 8, 10, 12, 25, 125, 128, 384, 625, 641, 1000, 1152, 65535,
                          65537, 1000003, 1 << 30, INT32_MAX, INT32_MAX - 1}) {
          Make m;
          const uint32_t a = m.buffer(DType::I32), y = m.buffer(DType::I32), i = m.var(DType::I32);
          const Expr at = m.get(i);
          m.k.body = {loop(kind, i, kir::index(0), kir::index(64),
                           {store(y, at, Expr::apply(op, kir::load(a, DType::I32, at),
                                                     kir::index(d), kir::index(0)))})};
          const Code code = compile(m.k, isa);
          std::vector<int32_t> out(64);
          code({values.data(), out.data()}, {});
          for (std::size_t j = 0; j < 64; ++j)
            ASSERT_EQ(out[j], static_cast<int32_t>(scalar::integerValue(op, values[j], d, 0, 32)))
                << values[j] << " " << info(op).name << " " << d;
        }
}

// A fine walk over the floats for the functions with an expansion.
TEST(Emitter, ExpansionsOverTheWholeRange) {
  std::vector<float> x;
  for (uint64_t b = 0; b < (uint64_t{1} << 32); b += 40009)
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(b)));
  for (float f = -105; f < 90; f += 0.0037F) x.push_back(f);
  for (float f = 0.5F; f < 2; f += 0.000071F) x.push_back(f);
  for (float f = -1; f < 1; f += 0.000131F) x.push_back(f);
  for (float f = -151; f < 129; f += 0.0071F) x.push_back(f);
  std::vector<float> y(x.size());
  for (IsaLevel isa : isas())
    for (ScalarOp op :
         {ScalarOp::Exp, ScalarOp::Exp2, ScalarOp::Expm1, ScalarOp::Log, ScalarOp::Log2,
          ScalarOp::Log10, ScalarOp::Log1p, ScalarOp::Tanh, ScalarOp::Erf, ScalarOp::Sin,
          ScalarOp::Cos}) {
      Make m;
      const uint32_t a = m.buffer(DType::F32), out = m.buffer(DType::F32), i = m.var(DType::I32);
      const Expr n = m.param();
      m.k.body = {loop(LoopKind::Vector, i, kir::index(0), n,
                       {store(out, m.get(i),
                              Expr::apply(op, kir::load(a, DType::F32, m.get(i)), 0.0, 0.0))})};
      const Code code = compile(m.k, isa);
      code({x.data(), y.data()}, {static_cast<int32_t>(x.size())});
      double worst = 0;
      float where = 0;
      for (std::size_t j = 0; j < x.size(); ++j) {
        const double want = scalar::value(op, static_cast<double>(x[j]), 0, 0);
        const double e = ulps(DType::F32, static_cast<double>(y[j]), want);
        if (e > worst) worst = e, where = x[j];
      }
      RecordProperty(std::string(info(op).name), std::to_string(worst));
      EXPECT_LE(worst, info(op).ulp) << info(op).name << " at " << where;
    }
}

// What a cast must give, from the written rules.
uint64_t castReference(DType to, DType from, const void* p, std::size_t i) {
  const auto half = [](uint16_t h) {
    const double mag = (h >> 10 & 31) == 0 ? std::ldexp(h & 1023, -24)
                       : (h >> 10 & 31) == 31
                           ? ((h & 1023) != 0 ? NAN : std::numeric_limits<double>::infinity())
                           : std::ldexp(1024 + (h & 1023), (h >> 10 & 31) - 25);
    return std::copysign(mag, (h >> 15) != 0 ? -1.0 : 1.0);
  };
  // Rounds to a format by trying both neighbours.
  const auto round = [](long double v, int mantissa, int least, int greatest) -> long double {
    if (v == 0 || std::isnan(v) || std::isinf(v)) return v;
    int e = 0;
    std::frexp(v, &e);
    const int unit = std::max(e - 1 - mantissa, least);
    const long double r = std::ldexp(std::nearbyint(std::ldexp(v, -unit)), unit);
    return std::fabs(r) >= std::ldexp(1.0L, greatest) ? std::copysign(INFINITY, v) : r;
  };
  long double v = 0;
  scalar::Wide w = 0;
  const bool fromFloat = isFloat(from);
  if (from == DType::F16 || from == DType::BF16) {
    const auto h = static_cast<uint16_t>(asWide(DType::U16, p, i));
    v = from == DType::F16
            ? half(h)
            : static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(h) << 16));
  } else if (fromFloat) {
    v = asDouble(from, p, i);
  } else {
    w = asWide(from, p, i);
    v = static_cast<long double>(w);
  }
  if (to == DType::Bool) return fromFloat ? v != 0 : w != 0;
  if (isInteger(to)) {
    if (!fromFloat) return static_cast<uint64_t>(wrapTo(to, w));
    if (std::isnan(v)) return 0;
    const int bits = info(to).bits;
    const long double high = std::ldexp(1.0L, isSigned(to) ? bits - 1 : bits) - 1;
    const long double low = isSigned(to) ? -high - 1 : 0;
    const long double t = std::trunc(v);
    if (t <= low) return isSigned(to) ? static_cast<uint64_t>(static_cast<int64_t>(low)) : 0;
    if (t >= high) return static_cast<uint64_t>(high);
    return isSigned(to) ? static_cast<uint64_t>(static_cast<int64_t>(t)) : static_cast<uint64_t>(t);
  }
  if (std::isnan(v)) return ~uint64_t{0};
  if (to == DType::F64) return std::bit_cast<uint64_t>(static_cast<double>(v));
  if (to == DType::F32) return std::bit_cast<uint32_t>(static_cast<float>(v));
  if (to == DType::BF16)
    return std::bit_cast<uint32_t>(static_cast<float>(round(v, 7, -133, 128))) >> 16;
  const double r = static_cast<double>(round(v, 10, -24, 16));
  const uint64_t sign = std::signbit(r) ? 0x8000 : 0;
  if (std::isinf(r)) return sign | 0x7c00;
  const double a = std::fabs(r);
  if (a < std::ldexp(1.0, -14)) return sign | static_cast<uint64_t>(std::ldexp(a, 24));
  int e = 0;
  const double f = std::frexp(a, &e);
  return sign | static_cast<uint64_t>((e + 14) << 10) |
         (static_cast<uint64_t>(std::ldexp(f, 11)) & 1023);
}

TEST(Emitter, EveryCast) {
  std::mt19937_64 rng(7);
  const auto special = specials();
  for (IsaLevel isa : isas())
    for (DType from : kStorage)
      for (DType to : kStorage)
        for (LoopKind kind : {LoopKind::Serial, LoopKind::Vector}) {
          SCOPED_TRACE(std::string(name(from)) + " to " + std::string(name(to)) +
                       (kind == LoopKind::Vector ? " vector" : " serial") +
                       (isa == IsaLevel::Avx512 ? " avx512" : " avx2"));
          Make m;
          const uint32_t a = m.buffer(from), y = m.buffer(to), i = m.var(DType::I32);
          const Expr n = m.param();
          m.k.body = {loop(kind, i, kir::index(0), n,
                           {store(y, m.get(i), kir::cast(to, kir::load(a, from, m.get(i))))})};
          const Code code = compile(m.k, isa);
          for (std::size_t len : {0, 1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 333}) {
            Bytes x(400), out(400, 0xa5a5a5a5a5a5a5a5U);
            for (std::size_t j = 0; j < len; ++j) {
              if (from == DType::F32 || from == DType::F64) {
                double v = special[rng() % special.size()];
                if (rng() % 2 == 0)
                  v = std::ldexp(static_cast<double>(static_cast<int64_t>(rng())),
                                 static_cast<int>(rng() % 100) - 80);
                put(from, x, j, v);
              } else {
                putBits(from, x, j,
                        isFloat(from) ? rng() : integerSample(rng, from == DType::Bool ? DType::U8 : from));
              }
            }
            code({x.data(), out.data()}, {static_cast<int32_t>(len)});
            ASSERT_EQ(reinterpret_cast<unsigned char*>(
                          out.data())[len * static_cast<std::size_t>(bytes(to))],
                      0xa5);
            for (std::size_t j = 0; j < len; ++j) {
              const uint64_t mask =
                  bytes(to) == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * bytes(to))) - 1;
              const DType raw = bytes(to) == 8   ? DType::U64
                                : bytes(to) == 4 ? DType::U32
                                : bytes(to) == 2 ? DType::U16
                                                 : DType::U8;
              const auto got = static_cast<uint64_t>(asWide(raw, out.data(), j));
              const uint64_t want = castReference(to, from, x.data(), j) & mask;
              if (isFloat(to) && want == mask) {  // NaN
                const uint64_t quiet = to == DType::F64   ? 0x7ff0000000000000U
                                       : to == DType::F32 ? 0x7f800000U
                                       : to == DType::F16 ? 0x7c00U
                                                          : 0x7f80U;
                ASSERT_TRUE((got & quiet) == quiet && (got & ~quiet & (mask >> 1)) != 0) << j;
              } else {
                ASSERT_EQ(got, want) << "element " << j << " of " << len << ", input bits "
                                     << static_cast<uint64_t>(asWide(
                                            bytes(from) == 8   ? DType::U64
                                            : bytes(from) == 4 ? DType::U32
                                            : bytes(from) == 2 ? DType::U16
                                                               : DType::U8,
                                            x.data(), j));
              }
            }
          }
        }
}


template <class F>
void everyIsa(F f) {
  for (IsaLevel isa : isas()) {
    SCOPED_TRACE(isa == IsaLevel::Avx512 ? "avx512" : "avx2");
    f(isa);
  }
}

std::vector<float> ramp(std::size_t n) {
  std::vector<float> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = static_cast<float>(static_cast<int>(i * 7 % 31) - 15) / 4;
  return v;
}

TEST(Emitter, Reductions) {
  everyIsa([](IsaLevel isa) {
    for (DType t : kArithmetic)
      for (ScalarOp op : {ScalarOp::Add, ScalarOp::Mul, ScalarOp::Max, ScalarOp::Min, ScalarOp::And,
                          ScalarOp::Or}) {
        const bool bits = op == ScalarOp::And || op == ScalarOp::Or;
        if (bits ? isFloat(t) : t == DType::Bool) continue;
        SCOPED_TRACE(std::string(info(op).name) + " " + std::string(name(t)));
        Make m;
        const uint32_t a = m.buffer(t), y = m.buffer(t), i = m.var(DType::I32), s = m.var(t);
        const Expr n = m.param();
        const double start = op == ScalarOp::Mul ? 1 : 3;
        m.k.body = {define(StmtKind::Mutable, s,
                           isFloat(t) ? kir::constant(t, start)
                                      : kir::integer(t, static_cast<int64_t>(start))),
                    loop(LoopKind::Vector, i, kir::index(0), n,
                         {accumulate(op, s, kir::load(a, t, m.get(i)))}),
                    store(y, kir::index(0), m.get(s))};
        const Code code = compile(m.k, isa);
        std::mt19937_64 rng(3);
        for (std::size_t len = 0; len <= 150; len += len < 40 ? 1 : 11) {
          Bytes x(160), out(8);
          double f = start;
          scalar::Wide w = wrapTo(t, static_cast<int64_t>(start));
          for (std::size_t j = 0; j < len; ++j) {
            const auto small = static_cast<int64_t>(rng() % 3) - 1;
            if (isFloat(t)) {
              const double v = op == ScalarOp::Mul ? (small < 0 ? -1.0 : small == 0 ? 0.5 : 2.0)
                                                   : static_cast<double>(small * 4);
              put(t, x, j, v);
              f = scalar::value(op, f, v, 0);
            } else {
              const uint64_t v = bits ? rng() | rng() : static_cast<uint64_t>(small * 3 + 1);
              putBits(t, x, j, v);
              w = wrapTo(t, scalar::integerValue(op, w, asWide(t, x.data(), j), 0, 64));
            }
          }
          code({x.data(), out.data()}, {static_cast<int32_t>(len)});
          if (isFloat(t)) {
            ASSERT_EQ(asDouble(t, out.data(), 0), f) << len;
            if (len == 0 || bits || op == ScalarOp::Mul) continue;
            put(t, x, rng() % len, NAN);  // NaN anywhere comes through
            code({x.data(), out.data()}, {static_cast<int32_t>(len)});
            ASSERT_TRUE(std::isnan(asDouble(t, out.data(), 0))) << len;
          } else {
            ASSERT_TRUE(asWide(t, out.data(), 0) == w) << len;
          }
        }
      }
  });
}

// Softmax: two reductions, a division by a reduced value, groups for rows.
TEST(Emitter, SoftmaxOverGroups) {
  everyIsa([](IsaLevel isa) {
    Make m;
    const uint32_t x = m.buffer(DType::F32), y = m.buffer(DType::F32);
    const Expr n = m.param();
    const uint32_t i = m.var(DType::I32), j = m.var(DType::I32), k = m.var(DType::I32);
    const uint32_t top = m.var(DType::F32), sum = m.var(DType::F32);
    const auto at = [&](uint32_t v) { return add(mul(kir::groupId(1), n), m.get(v)); };
    const auto e = [&](uint32_t v) { return exp(kir::load(x, DType::F32, at(v)) - m.get(top)); };
    m.k.body = {
        define(StmtKind::Mutable, top, kir::constant(DType::F32, -INFINITY)),
        loop(LoopKind::Vector, i, kir::index(0), n,
             {accumulate(ScalarOp::Max, top, kir::load(x, DType::F32, at(i)))}),
        define(StmtKind::Mutable, sum, kir::constant(DType::F32, 0)),
        loop(LoopKind::Vector, j, kir::index(0), n, {accumulate(ScalarOp::Add, sum, e(j))}),
        loop(LoopKind::Vector, k, kir::index(0), n, {store(y, at(k), e(k) / m.get(sum))})};
    const Code code = compile(m.k, isa);
    for (int n0 : {1, 5, 16, 37, 100}) {
      const auto rows = std::size_t{6}, cols = static_cast<std::size_t>(n0);
      auto in = ramp(rows * cols), out = std::vector<float>(rows * cols);
      code({in.data(), out.data()}, {n0}, {1, 6, 1});
      for (std::size_t r = 0; r < rows; ++r) {
        double most = -1e9, total = 0;
        for (std::size_t c = 0; c < cols; ++c) most = std::fmax(most, in[r * cols + c]);
        for (std::size_t c = 0; c < cols; ++c) total += std::exp(in[r * cols + c] - most);
        for (std::size_t c = 0; c < cols; ++c)
          ASSERT_NEAR(out[r * cols + c], std::exp(in[r * cols + c] - most) / total, 1e-6);
      }
    }
  });
}

// Rows of accumulators in registers; 10 of them spill on Avx2.
TEST(Emitter, MatrixProduct) {
  everyIsa([](IsaLevel isa) {
    for (int tile : {1, 3, 6, 10, 20})
      for (int n0 : {1, 8, 16, 33, 64, 75}) {
        Make m;
        const uint32_t a = m.buffer(DType::F32), b = m.buffer(DType::F32), c = m.buffer(DType::F32);
        const int k0 = 19;
        const uint32_t n = m.var(DType::I32), k = m.var(DType::I32), bv = m.var(DType::F32);
        const Expr row = mul(kir::groupId(0), kir::index(tile));
        std::vector<Stmt> body, inner, out;
        inner.push_back(define(StmtKind::Let, bv,
                               kir::load(b, DType::F32, add(mul(m.get(k), kir::index(n0)), m.get(n)))));
        for (int r = 0; r < tile; ++r) {
          const uint32_t acc = m.var(DType::F32);
          const Expr at = add(row, kir::index(r));
          body.push_back(define(StmtKind::Mutable, acc, kir::constant(DType::F32, 0)));
          inner.push_back(accumulate(
              ScalarOp::Add, acc,
              mul(kir::load(a, DType::F32, add(mul(at, kir::index(k0)), m.get(k))), m.get(bv))));
          out.push_back(store(c, add(mul(at, kir::index(n0)), m.get(n)), m.get(acc)));
        }
        body.push_back(loop(LoopKind::Serial, k, kir::index(0), kir::index(k0), inner));
        body.insert(body.end(), out.begin(), out.end());
        m.k.body = {loop(LoopKind::Vector, n, kir::index(0), kir::index(n0), body)};
        const Code code = compile(m.k, isa);
        const auto rows = static_cast<std::size_t>(2 * tile), cols = static_cast<std::size_t>(n0);
        auto x = ramp(rows * k0), y = ramp(k0 * cols), z = std::vector<float>(rows * cols + 1, 77);
        code({x.data(), y.data(), z.data()}, {}, {2, 1, 1});
        ASSERT_EQ(z.back(), 77);
        for (std::size_t r = 0; r < rows; ++r)
          for (std::size_t j = 0; j < cols; ++j) {
            float want = 0;
            for (std::size_t q = 0; q < k0; ++q) want += x[r * k0 + q] * y[q * cols + j];
            ASSERT_EQ(z[r * cols + j], want) << tile << " " << n0 << " at " << r << " " << j;
          }
      }
  });
}

TEST(Emitter, FortyLiveValues) {
  everyIsa([](IsaLevel isa) {
    for (DType t : {DType::F32, DType::I32, DType::I64})
      for (LoopKind kind : {LoopKind::Vector, LoopKind::Serial}) {
        Make m;
        const uint32_t a = m.buffer(t), y = m.buffer(t), i = m.var(DType::I32);
        std::vector<Stmt> body;
        std::vector<uint32_t> vars;
        for (int j = 0; j < 40; ++j) {
          vars.push_back(m.var(t));
          body.push_back(define(StmtKind::Let, vars.back(),
                                kir::load(a, t, add(m.get(i), kir::index(j))) * Expr(j + 1.0)));
        }
        Expr sum = m.get(vars[39]);
        for (std::size_t j = 39; j-- > 0;)
          sum = j % 3 == 0 ? max(sum, m.get(vars[j])) : add(sum, m.get(vars[j]));
        for (std::size_t j = 0; j < 40; ++j) sum = j % 2 == 0 ? sum - m.get(vars[j]) : m.get(vars[j]) - sum;
        body.push_back(store(y, m.get(i), sum));
        m.k.body = {loop(kind, i, kir::index(0), kir::index(37), body)};
        const Code code = compile(m.k, isa);
        Bytes x(100), out(50);
        for (std::size_t j = 0; j < 100; ++j)
          isFloat(t) ? put(t, x, j, static_cast<double>(j % 13) - 6) : putBits(t, x, j, j % 13 - 6);
        code({x.data(), out.data()}, {});
        for (std::size_t e = 0; e < 37; ++e) {
          const auto v = [&](std::size_t j) {
            return (static_cast<double>((e + j) % 13) - 6) * static_cast<double>(j + 1);
          };
          double want = v(39);
          for (std::size_t j = 39; j-- > 0;) want = j % 3 == 0 ? std::fmax(want, v(j)) : want + v(j);
          for (std::size_t j = 0; j < 40; ++j) want = j % 2 == 0 ? want - v(j) : v(j) - want;
          ASSERT_EQ(isFloat(t) ? asDouble(t, out.data(), e)
                               : static_cast<double>(asWide(t, out.data(), e)),
                    want);
        }
      }
  });
}

// An array whose end, and start, lie at pages that may not be touched.
class Edge {
 public:
  Edge() : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    base_ = static_cast<char*>(
        mmap(nullptr, 3 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_EQ(mprotect(base_ + page_, page_, PROT_READ | PROT_WRITE), 0);
  }
  ~Edge() { munmap(base_, 3 * page_); }
  Edge(const Edge&) = delete;
  Edge& operator=(const Edge&) = delete;
  char* end(std::size_t bytes) const { return base_ + 2 * page_ - bytes; }
  char* start() const { return base_ + page_; }

 private:
  std::size_t page_;
  char* base_;
};

TEST(Emitter, NothingOutsideIsTouched) {
  everyIsa([](IsaLevel isa) {
    for (DType t : kStorage)
      for (LoopKind kind : {LoopKind::Vector, LoopKind::Serial})
        for (int stride : {1, 3}) {
          // y[i] = x[stride * (i + shift)] where that is inside, zero elsewhere; stored where odd.
          Make m;
          const uint32_t x = m.buffer(t), y = m.buffer(t), i = m.var(DType::I32);
          const Expr n = m.param(), shift = m.param();
          const Expr from = add(m.get(i), shift);
          const Expr inside = bit_and(ge(from, kir::index(0)), lt(from, n));
          const Expr zero = isFloat(t) ? kir::constant(t, 0) : kir::integer(t, 0);
          const Expr value = kir::loadIf(x, t, mul(from, kir::index(stride)), inside, zero);
          const Expr odd = ne(bit_and(m.get(i), kir::index(1)), kir::index(0));
          m.k.body = {loop(kind, i, kir::index(0), n, {store(y, m.get(i), value, odd)})};
          const Code code = compile(m.k, isa);
          const auto size = static_cast<std::size_t>(bytes(t));
          Edge in, out;
          for (int n0 = 1; n0 <= 35; ++n0)
            for (int s : {-2, 0, 1, 40}) {
              const auto count = static_cast<std::size_t>(n0);
              char* px = s < 0 ? in.start() : in.end(size * (count * static_cast<std::size_t>(stride) - static_cast<std::size_t>(stride) + 1));
              char* py = out.end(size * count);
              for (std::size_t j = 0; j < size * (count * static_cast<std::size_t>(stride) - static_cast<std::size_t>(stride) + 1); ++j)
                px[j] = static_cast<char>(t == DType::Bool ? j % 2 : j % 0x3b);
              std::memset(py, 0x2a, size * count);
              code({px, py}, {n0, s});
              for (int j = 0; j < n0; ++j) {
                char want[8] = {};
                if (j % 2 == 0)
                  std::memset(want, 0x2a, 8);
                else if (j + s >= 0 && j + s < n0)
                  std::memcpy(want, px + size * static_cast<std::size_t>((j + s) * stride), size);
                ASSERT_EQ(std::memcmp(py + size * static_cast<std::size_t>(j), want, size), 0)
                    << name(t) << " n " << n0 << " shift " << s << " at " << j;
              }
            }
        }
  });
}

TEST(Emitter, GatherAndScatter) {
  everyIsa([](IsaLevel isa) {
    for (DType t : kStorage)
      for (LoopKind kind : {LoopKind::Vector, LoopKind::Serial}) {
        // y[p[i]] = x[q[i]]: later lanes win.
        Make m;
        const uint32_t x = m.buffer(t), p = m.buffer(DType::I32), q = m.buffer(DType::I32), y = m.buffer(t),
                       i = m.var(DType::I32);
        const Expr n = m.param();
        m.k.body = {loop(kind, i, kir::index(0), n,
                         {store(y, kir::load(p, DType::I32, m.get(i)),
                                kir::load(x, t, kir::load(q, DType::I32, m.get(i))))})};
        const Code code = compile(m.k, isa);
        const auto size = static_cast<std::size_t>(bytes(t));
        std::mt19937 rng(5);
        for (int n0 = 0; n0 <= 40; ++n0) {
          std::vector<unsigned char> in(50 * size), out(50 * size, 1), want(50 * size, 1);
          std::vector<int32_t> to(50), from(50);
          for (auto& b : in) b = static_cast<unsigned char>(t == DType::Bool ? rng() % 2 : rng() % 100);
          for (std::size_t j = 0; j < 50; ++j) {
            to[j] = static_cast<int32_t>(rng() % 50);
            from[j] = static_cast<int32_t>(rng() % 50);
          }
          for (std::size_t j = 0; j < static_cast<std::size_t>(n0); ++j)
            std::memcpy(want.data() + static_cast<std::size_t>(to[j]) * size,
                        in.data() + static_cast<std::size_t>(from[j]) * size, size);
          code({in.data(), to.data(), from.data(), out.data()}, {n0});
          ASSERT_EQ(out, want) << name(t) << " " << n0;
        }
      }
  });
}

TEST(Emitter, BranchesInsideLoops) {
  everyIsa([](IsaLevel isa) {
    for (LoopKind kind : {LoopKind::Vector, LoopKind::Serial}) {
      Make m;
      const uint32_t x = m.buffer(DType::F32), y = m.buffer(DType::F32), s = m.buffer(DType::I32);
      const uint32_t i = m.var(DType::I32), v = m.var(DType::F32), count = m.var(DType::I32);
      const uint32_t k = m.var(DType::I32);
      const Expr n = m.param(), flag = m.param();
      const Expr value = kir::load(x, DType::F32, m.get(i));
      m.k.body = {
          define(StmtKind::Mutable, count, kir::index(0)),
          loop(kind, i, kir::index(0), n,
               {define(StmtKind::Mutable, v, value),
                branch(lt(value, kir::constant(DType::F32, 0)),
                       {define(StmtKind::Assign, v, -m.get(v)),
                        accumulate(ScalarOp::Add, count, kir::index(1)),
                        branch(lt(value, kir::constant(DType::F32, -2)),
                               {define(StmtKind::Assign, v, m.get(v) * Expr(10.0))},
                               {accumulate(ScalarOp::Add, v, kir::constant(DType::F32, 100))})},
                       {loop(LoopKind::Serial, k, kir::index(0), flag,
                             {accumulate(ScalarOp::Add, v, value)})}),
                branch(gt(flag, kir::index(2)),
                       {define(StmtKind::Assign, v, m.get(v) + Expr(1.0))}),
                store(y, m.get(i), m.get(v))}),
          store(s, kir::index(0), m.get(count))};
      const Code code = compile(m.k, isa);
      for (int n0 = 0; n0 <= 40; ++n0)
        for (int flag0 : {0, 1, 3}) {
          auto in = ramp(40), out = std::vector<float>(41, 77);
          int32_t negative = -1, want = 0;
          code({in.data(), out.data(), &negative}, {n0, flag0});
          ASSERT_EQ(out[static_cast<std::size_t>(n0)], 77);
          for (std::size_t j = 0; j < static_cast<std::size_t>(n0); ++j) {
            float r = in[j];
            if (r < 0) {
              ++want;
              r = r < -2 ? -r * 10 : -r + 100;
            } else {
              r += static_cast<float>(flag0) * r;
            }
            if (flag0 > 2) r += 1;
            ASSERT_EQ(out[j], r) << n0 << " " << flag0 << " at " << j;
          }
          ASSERT_EQ(negative, want);
        }
    }
  });
}

TEST(Emitter, GroupsAreCountedFromAnyStart) {
  everyIsa([](IsaLevel isa) {
    Make m;
    const uint32_t y = m.buffer(DType::I32);
    const Expr w = m.param(), h = m.param();
    const Expr at = add(mul(add(mul(kir::groupId(2), h), kir::groupId(1)), w), kir::groupId(0));
    const Expr code3 = add(add(mul(kir::groupId(2), kir::index(10000)), mul(kir::groupId(1), kir::index(100))),
                           add(kir::groupId(0), kir::localId(0)));
    m.k.body = {store(y, at, code3)};
    const Code code = compile(m.k, isa);
    const std::array<int64_t, 3> grid{3, 5, 2};
    for (int64_t begin = 0; begin <= 30; begin += 7)
      for (int64_t end = begin; end <= 30; end += 3) {
        std::vector<int32_t> out(30, -1);
        std::vector<void*> globals{out.data()};
        std::vector<int32_t> params{3, 5};
        code.run(globals, params, grid, begin, end);
        for (int64_t g = 0; g < 30; ++g)
          ASSERT_EQ(out[static_cast<std::size_t>(g)],
                    g >= begin && g < end ? g / 15 * 10000 + g / 3 % 5 * 100 + g % 3 : -1);
      }
  });
}

// Unrolled and strided loops, a local array, a transposed read, runtime strides.
TEST(Emitter, LoopsArraysAndStrides) {
  everyIsa([](IsaLevel isa) {
    for (LoopKind kind : {LoopKind::Vector, LoopKind::Serial, LoopKind::Unroll}) {
      Make m;
      const uint32_t x = m.buffer(DType::F32), y = m.buffer(DType::F32);
      const uint32_t tmp = m.array(DType::F32, 64);
      const uint32_t i = m.var(DType::I32), j = m.var(DType::I32), r = m.var(DType::I32);
      const Expr stride = m.param();
      // tmp[i] = x[i * stride + g] for i in 0..13; y[g * 13 + 12 - j] = tmp[j] + sum of even tmp
      const uint32_t sum = m.var(DType::F32);
      m.k.body = {
          loop(kind, i, kir::index(0), kir::index(13),
               {store(tmp, m.get(i),
                      kir::load(x, DType::F32, add(mul(m.get(i), stride), kir::groupId(0))))}),
          define(StmtKind::Mutable, sum, kir::constant(DType::F32, 0)),
          loop(LoopKind::Serial, r, kir::index(0), kir::index(13),
               {accumulate(ScalarOp::Add, sum, kir::load(tmp, DType::F32, m.get(r)))}, 2),
          loop(kind, j, kir::index(0), kir::index(13),
               {store(y, add(mul(kir::groupId(0), kir::index(13)), sub(kir::index(12), m.get(j))),
                      kir::load(tmp, DType::F32, m.get(j)) + m.get(sum))})};
      const Code code = compile(m.k, isa);
      auto in = ramp(200), out = std::vector<float>(5 * 13);
      code({in.data(), out.data()}, {15}, {5, 1, 1});
      for (std::size_t g = 0; g < 5; ++g) {
        float want = 0;
        for (std::size_t q = 0; q < 13; q += 2) want += in[q * 15 + g];
        for (std::size_t q = 0; q < 13; ++q)
          ASSERT_EQ(out[g * 13 + 12 - q], in[q * 15 + g] + want) << g << " " << q << " kind " << static_cast<int>(kind);
      }
    }
  });
}

// A Let keeps the value of its time, also through a cast that changes nothing.
TEST(Emitter, LetsAndSelects) {
  everyIsa([](IsaLevel isa) {
    for (DType t : kStorage)
      for (LoopKind kind : {LoopKind::Vector, LoopKind::Serial}) {
        Make m;
        const uint32_t a = m.buffer(t), b = m.buffer(t), y = m.buffer(t), z = m.buffer(DType::I32);
        const uint32_t i = m.var(DType::I32), x = m.var(t), c = m.var(DType::I32),
                       old = m.var(DType::U32);
        const Expr n = m.param(), at = m.get(i);
        const Expr odd = ne(bit_and(at, kir::index(1)), kir::index(0));
        m.k.body = {loop(
            kind, i, kir::index(0), n,
            {define(StmtKind::Let, x, select(odd, kir::load(a, t, at), kir::load(b, t, at))),
             define(StmtKind::Mutable, c, at), define(StmtKind::Let, old, kir::cast(DType::U32, m.get(c))),
             define(StmtKind::Assign, c, mul(m.get(c), kir::index(3))),
             store(z, at, add(kir::cast(DType::I32, m.get(old)), m.get(c))), store(y, at, m.get(x))})};
        const Code code = compile(m.k, isa);
        const auto size = static_cast<std::size_t>(bytes(t));
        std::vector<unsigned char> p(40 * size, 0), q(40 * size, 1), out(40 * size, 7);
        std::vector<int32_t> sum(40);
        for (int n0 : {0, 1, 8, 19, 37}) {
          code({p.data(), q.data(), out.data(), sum.data()}, {n0});
          for (int j = 0; j < n0; ++j) {
            ASSERT_EQ(out[static_cast<std::size_t>(j) * size], j % 2 == 0 ? 1 : 0) << name(t);
            ASSERT_EQ(sum[static_cast<std::size_t>(j)], 4 * j);
          }
        }
      }
  });
}

// Index arithmetic by division: gathers by computed lanes.
TEST(Emitter, DividedIndices) {
  everyIsa([](IsaLevel isa) {
    Make m;
    const uint32_t x = m.buffer(DType::F32), y = m.buffer(DType::F32), i = m.var(DType::I32);
    const Expr n = m.param();
    const Expr at = m.get(i);
    const Expr from = add(mul(rem(at, kir::index(7)), kir::index(11)), div(at, kir::index(7)));
    m.k.body = {loop(LoopKind::Vector, i, kir::index(0), n, {store(y, at, kir::load(x, DType::F32, from))})};
    const Code code = compile(m.k, isa);
    auto in = ramp(77), out = std::vector<float>(77);
    code({in.data(), out.data()}, {77});
    for (std::size_t j = 0; j < 77; ++j) ASSERT_EQ(out[j], in[j % 7 * 11 + j / 7]);
  });
}

// Sines of large arguments come from the library; live values survive the call.
TEST(Emitter, LargeTrigonometricArguments) {
  everyIsa([](IsaLevel isa) {
    Make m;
    const uint32_t x = m.buffer(DType::F32), y = m.buffer(DType::F32), i = m.var(DType::I32);
    const Expr v = kir::load(x, DType::F32, m.get(i));
    m.k.body = {loop(LoopKind::Vector, i, kir::index(0), kir::index(37),
                     {store(y, m.get(i), sin(v) + cos(v) * v + pow(abs(v), Expr(0.5)))})};
    const Code code = compile(m.k, isa);
    std::vector<float> in(37), out(37);
    for (std::size_t j = 0; j < 37; ++j) in[j] = j % 5 == 0 ? 1e7F + 31.0F * static_cast<float>(j) : static_cast<float>(j);
    code({in.data(), out.data()}, {});
    for (std::size_t j = 0; j < 37; ++j) {
      const double d = static_cast<double>(in[j]);
      const double want = std::sin(d) + std::cos(d) * d + std::sqrt(d);
      ASSERT_NEAR(out[j], want, 1e-6 * (std::fabs(d) + 3));
    }
  });
}

TEST(Emitter, UnsupportedIsNamed) {
  Make m;
  const uint32_t y = m.buffer(DType::Q4_0);
  m.k.body = {};
  const auto r = emitKernel(m.k, IsaLevel::Avx2);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), Errc::Unsupported);
  EXPECT_NE(r.error().message().find("q4_0"), std::string::npos) << y;
}

}  // namespace
}  // namespace rlx::cpu
