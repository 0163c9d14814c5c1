// Every scalar op and cast through the emitter, against the reference values.
#include "backend/cpu/emitter_testing.h"
#include "kir/expand.h"

namespace rlx::cpu {
namespace {

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
  return {0.0,          -0.0,          1.0,       -1.0,      0.5,      -0.5,      1.5,
          2.5,          -2.5,          inf,       -inf,      NAN,      1e-40,     -1e-40,
          1e-45,        3e38,          -3e38,     88.7,      88.73,    -87.5,     -103.9,
          -104.5,       1e-8,          -1e-8,     100,       -100,     1e6,       -1e6,
          3.14159,      0.6931,        1e-38,     7.9,       -7.9,     4194303.5, 8388609,
          2147483648.0, -2147483648.0, 0.9999999, 1.0000001, 127.9999, 128.5};
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
      const double v =
          op && rng() % 3 != 0 ? op->lo + u * (op->hi - op->lo) : special[rng() % special.size()];
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
          want = static_cast<double>(
              std::fma(static_cast<float>(va), static_cast<float>(vb), static_cast<float>(vc)));
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
            << in.name << " " << name(t) << " length " << len << " of " << static_cast<int64_t>(va)
            << " " << static_cast<int64_t>(vb) << " " << static_cast<int64_t>(vc) << ": got "
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
        for (int32_t d : {1,
                          2,
                          3,
                          5,
                          6,
                          7,
                          8,
                          10,
                          12,
                          25,
                          125,
                          128,
                          384,
                          625,
                          641,
                          1000,
                          1152,
                          65535,
                          65537,
                          1000003,
                          1 << 30,
                          INT32_MAX,
                          INT32_MAX - 1}) {
          Make m;
          const uint32_t a = m.buffer(DType::I32), y = m.buffer(DType::I32), i = m.var(DType::I32);
          const Expr at = m.get(i);
          m.k.body = {loop(kind, i, kir::index(0), kir::index(64),
                           {store(y, at,
                                  Expr::apply(op, kir::load(a, DType::I32, at), kir::index(d),
                                              kir::index(0)))})};
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
    for (ScalarOp op : {ScalarOp::Exp, ScalarOp::Exp2, ScalarOp::Expm1, ScalarOp::Log,
                        ScalarOp::Log2, ScalarOp::Log10, ScalarOp::Log1p, ScalarOp::Tanh,
                        ScalarOp::Erf, ScalarOp::Sin, ScalarOp::Cos}) {
      Make m;
      const uint32_t a = m.buffer(DType::F32), out = m.buffer(DType::F32), i = m.var(DType::I32);
      const Expr n = m.param();
      m.k.body = {loop(
          LoopKind::Vector, i, kir::index(0), n,
          {store(out, m.get(i), Expr::apply(op, kir::load(a, DType::F32, m.get(i)), 0.0, 0.0))})};
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
                        isFloat(from) ? rng()
                                      : integerSample(rng, from == DType::Bool ? DType::U8 : from));
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
                                     << static_cast<uint64_t>(asWide(bytes(from) == 8   ? DType::U64
                                                                     : bytes(from) == 4 ? DType::U32
                                                                     : bytes(from) == 2 ? DType::U16
                                                                                        : DType::U8,
                                                                     x.data(), j));
              }
            }
          }
        }
}

}  // namespace
}  // namespace rlx::cpu
