// The expansions of functions and of the fused multiply-add for a target that spells only operators
// (legalize.h): against long double, within scalar.def, at every magnitude.
#include <gtest/gtest.h>

#include <bit>
#include <cstdio>
#include <numbers>
#include <random>
#include <type_traits>

#include "kir/interp.h"
#include "kir/kernels_for_test.h"
#include "kir/legalize.h"

namespace rlx::kir {
namespace {

Caps wideCaps() {
  Caps c;
  c.arithmetic = c.storage = ~0u;
  c.groups = true;
  c.maxLanes = 256;
  return c;
}

// What GLSL spells of floats, and no fused fma.
Spelling operatorsOnly() {
  Spelling s;
  s.fusedFma = false;
  const uint32_t ints = bit(DType::I32) | bit(DType::U32) | bit(DType::I64) | bit(DType::U64);
  const uint32_t floats = bit(DType::F32) | bit(DType::F64);
  auto set = [&](std::initializer_list<ScalarOp> ops, uint32_t types) {
    for (const ScalarOp op : ops) s.ops[static_cast<std::size_t>(op)] |= types;
  };
  set({ScalarOp::Add, ScalarOp::Sub, ScalarOp::Mul, ScalarOp::Div, ScalarOp::Neg, ScalarOp::Lt,
       ScalarOp::Le, ScalarOp::Gt, ScalarOp::Ge, ScalarOp::Eq, ScalarOp::Ne},
      ints | floats);
  set({ScalarOp::And, ScalarOp::Or, ScalarOp::Xor, ScalarOp::Not, ScalarOp::Eq, ScalarOp::Ne},
      ints | bit(DType::Bool));
  set({ScalarOp::Shl, ScalarOp::Shr}, ints);
  set({ScalarOp::Abs, ScalarOp::Floor, ScalarOp::Ceil, ScalarOp::Round, ScalarOp::Trunc,
       ScalarOp::Sqrt},
      floats);
  return s;
}

template <class T>
constexpr DType kType = std::is_same_v<T, double> ? DType::F64 : DType::F32;

// op over the operands, expanded and interpreted.
template <class T>
std::vector<T> evaluate(ScalarOp op, const std::vector<std::vector<T>>& operands) {
  test::Maker m("k", {64, 1, 1});
  const std::size_t count = operands[0].size();
  std::vector<std::vector<std::byte>> memory;
  std::array<Expr, 3> x{Expr(0.0), Expr(0.0), Expr(0.0)};
  const Expr n = m.param("n");
  std::vector<uint32_t> buffers;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    buffers.push_back(m.buffer("x" + std::to_string(k), kType<T>, Access::Read));
    memory.push_back(test::bytesOf(operands[k]));
  }
  const uint32_t out = m.buffer("y", kType<T>, Access::Write);
  memory.push_back(test::zeros(count * sizeof(T)));
  const Expr i = m.let("i", groupId(0) * index(64) + localId(0));
  m.when(lt(i, n));
  for (std::size_t k = 0; k < operands.size(); ++k) x[k] = load(buffers[k], kType<T>, i);
  m.store(out, i, Expr::apply(op, x[0], x[1], x[2]));
  m.end();
  auto legal = legalize(m.k, wideCaps(), operatorsOnly());
  EXPECT_TRUE(legal) << (legal ? "" : legal.error().text());
  std::vector<T> y(count);
  if (!legal) return y;
  std::vector<std::span<std::byte>> views(memory.begin(), memory.end());
  const std::vector<int32_t> params{static_cast<int32_t>(count)};
  const auto ran = interpret(*legal, {static_cast<int64_t>((count + 63) / 64), 1, 1}, views, params,
                             {.races = false});
  EXPECT_TRUE(ran) << (ran ? "" : ran.error().text());
  std::memcpy(y.data(), memory.back().data(), memory.back().size());
  return y;
}

std::vector<double> specialValues() {
  const double inf = std::numeric_limits<double>::infinity();
  std::vector<double> v{
      0, inf, std::numeric_limits<double>::quiet_NaN(), 0x1p-1074, 3e-310, 0x1p-1022, 1e-200, 1e-20,
      1e-8, 0.5, 1, 2, 3, 22, 60, 708, 709.78, 709.79, 710, 745, 745.13, 746, 1023.5, 1024, 1074,
      1075, 1e9, 1e16, 9007199254740991.0, 9007199254740993.0, 1e300, 0x1.fffffffffffffp1023,
      1 - 0x1p-53, 1 + 0x1p-52, 0x1.6a09e667f3bcdp-1, 0x1.6a09e667f3bccp-1,
      // Close to multiples of pi/2.
      0x1.921fb54442d18p0, 0x1.921fb54442d18p1, 0x1.6ac5b262ca1ffp849, 0x1.36e51f6d63c09p+62};
  for (std::size_t k = v.size(); k-- > 0;) v.push_back(-v[k]);
  return v;
}

// Values of [lo, hi], around 0 and 1, and of every exponent.
std::vector<double> arguments(double lo, double hi) {
  std::mt19937_64 random(7);
  std::vector<double> v = specialValues();
  std::uniform_real_distribution<double> dense(lo, hi), unit(-1, 1), exponent(-1074, 1024);
  for (int k = 0; k < 6000; ++k) {
    v.push_back(dense(random));
    v.push_back(unit(random));
    if (k % 3 == 0) v.push_back(1 + unit(random) * std::exp2(-40 * std::fabs(unit(random))));
    if (k % 2 == 0) v.push_back(std::copysign(std::exp2(exponent(random)), unit(random)));
    if (k % 3 == 0) v.push_back(unit(random) * 750);
  }
  return v;
}

using Real = long double (*)(long double);
struct Function {
  ScalarOp op;
  Real exact;
};
#define RLX_EXACT(Id, fn)                                  \
  Function {                                               \
    ScalarOp::Id, [](long double v) { return std::fn(v); } \
  }
const Function kFunctions[] = {
    RLX_EXACT(Exp, exp),     RLX_EXACT(Exp2, exp2),   RLX_EXACT(Expm1, expm1),
    RLX_EXACT(Log, log),     RLX_EXACT(Log2, log2),   RLX_EXACT(Log10, log10),
    RLX_EXACT(Log1p, log1p), RLX_EXACT(Sin, sin),     RLX_EXACT(Cos, cos),
    RLX_EXACT(Tan, tan),     RLX_EXACT(Asin, asin),   RLX_EXACT(Acos, acos),
    RLX_EXACT(Atan, atan),   RLX_EXACT(Sinh, sinh),   RLX_EXACT(Cosh, cosh),
    RLX_EXACT(Tanh, tanh),   RLX_EXACT(Asinh, asinh), RLX_EXACT(Acosh, acosh),
    RLX_EXACT(Atanh, atanh), RLX_EXACT(Erf, erf),     RLX_EXACT(Cbrt, cbrt)};
#undef RLX_EXACT

// Units of epsilon relative to the exact value, or of the least number; infinite where NaN,
// infinity or the sign of zero disagree.
template <class T>
double unitsOff(T got, long double exact) {
  const T want = static_cast<T>(exact);
  if (std::isnan(want) || std::isnan(got))
    return std::isnan(want) && std::isnan(got) ? 0 : HUGE_VAL;
  if (got == want) return std::signbit(got) == std::signbit(want) ? 0 : HUGE_VAL;
  if (std::isinf(got) || std::isinf(want)) {
    // At the border of overflow, a value within a unit of it.
    const T finite = std::isinf(got) ? want : got;
    return std::fabs(finite) >=
                   std::numeric_limits<T>::max() * (1 - 8 * std::numeric_limits<T>::epsilon())
               ? 1
               : HUGE_VAL;
  }
  const long double error = std::fabs(static_cast<long double>(got) - exact);
  const long double unit =
      std::max(std::fabs(exact) * static_cast<long double>(std::numeric_limits<T>::epsilon()),
               static_cast<long double>(std::numeric_limits<T>::denorm_min()));
  return static_cast<double>(error / unit);
}

// The worst error, for --gtest_output.
template <class T>
void report(ScalarOp op, double worst, T at) {
  char text[64];
  std::snprintf(text, sizeof text, "%.2f at %a", worst, static_cast<double>(at));
  testing::Test::RecordProperty(std::string(info(op).name) + "_" + std::string(name(kType<T>)),
                                text);
}

template <class T>
std::vector<T> narrowed(const std::vector<double>& v) {
  return std::vector<T>(v.begin(), v.end());
}

template <class T>
void unaryFunctions() {
  for (const Function& f : kFunctions) {
    const ScalarInfo& s = info(f.op);
    const std::vector<T> x = narrowed<T>(arguments(s.lo, s.hi));
    const std::vector<T> y = evaluate<T>(f.op, {x});
    double worst = 0;
    T at = 0;
    for (std::size_t k = 0; k < x.size(); ++k) {
      const double off = unitsOff(y[k], f.exact(x[k]));
      if (off > worst) worst = off, at = x[k];
      EXPECT_LE(off, s.ulp) << s.name << " of " << x[k] << ": " << y[k];
      if (off > s.ulp) break;
    }
    report(f.op, worst, at);
  }
}

template <class T>
void powAndAtan2() {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> unit(-1, 1), exponent(-1074, 1024);
  std::vector<double> wideA, wideB;
  for (const double x : specialValues())
    for (const double y : specialValues()) wideA.push_back(x), wideB.push_back(y);
  const double scale = std::is_same_v<T, float> ? 1.0 / 8 : 1;
  for (int k = 0; k < 20000; ++k) {
    const double x = k % 2 ? std::exp2(scale * exponent(random)) : 1 + 0.9 * unit(random);
    wideA.push_back(x);
    // The power anywhere in the range of the type.
    wideB.push_back(k % 5 == 0 ? std::floor(20 * unit(random))
                               : scale * unit(random) * 1074 / std::log2(x));
    if (k % 15 == 0) wideA.back() = -x;
  }
  const std::vector<T> a = narrowed<T>(wideA), b = narrowed<T>(wideB);
  const std::vector<T> p = evaluate<T>(ScalarOp::Pow, {a, b});
  const std::vector<T> t = evaluate<T>(ScalarOp::Atan2, {a, b});
  double worst[2] = {0, 0};
  T at[2] = {0, 0};
  for (std::size_t k = 0; k < a.size(); ++k) {
    const long double x = a[k], y = b[k];
    const double off[2] = {unitsOff(p[k], std::pow(x, y)), unitsOff(t[k], std::atan2(x, y))};
    for (int i = 0; i < 2; ++i)
      if (off[i] > worst[i]) worst[i] = off[i], at[i] = a[k];
    ASSERT_LE(off[0], info(ScalarOp::Pow).ulp) << a[k] << " ^ " << b[k] << ": " << p[k];
    ASSERT_LE(off[1], info(ScalarOp::Atan2).ulp) << a[k] << ", " << b[k] << ": " << t[k];
  }
  report(ScalarOp::Pow, worst[0], at[0]);
  report(ScalarOp::Atan2, worst[1], at[1]);
}

TEST(Expand, unaryFunctionsOfF64) {
  unaryFunctions<double>();
}
TEST(Expand, unaryFunctionsOfF32) {
  unaryFunctions<float>();
}
TEST(Expand, powAndAtan2OfF64) {
  powAndAtan2<double>();
}
TEST(Expand, powAndAtan2OfF32) {
  powAndAtan2<float>();
}

TEST(Expand, trigonometryAtEveryMagnitude) {
  std::mt19937_64 random(5);
  std::vector<float> x{0, 1e30f, 65504, INFINITY, NAN, 1e-40f, 3.40282347e38f, 1e5f,
                       // Among the closest to multiples of pi/2.
                       0x1.921fb6p0f, 0x1.6ac5b2p22f, 0x1.7f6f38p98f};
  for (std::size_t k = x.size(); k-- > 0;) x.push_back(-x[k]);
  for (int k = 0; k < 30000; ++k)
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  std::uniform_real_distribution<float> dense(-8, 8), middle(-1e5f, 1e5f);
  for (int k = 0; k < 15000; ++k) x.push_back(dense(random)), x.push_back(middle(random));
  for (int k = 1; k < 15000; ++k) x.push_back(static_cast<float>(k * std::numbers::pi / 2));
  for (const Function& f : kFunctions) {
    if (f.op != ScalarOp::Sin && f.op != ScalarOp::Cos && f.op != ScalarOp::Tan) continue;
    const std::vector<float> y = evaluate<float>(f.op, {x});
    double worst = 0;
    float at = 0;
    for (std::size_t k = 0; k < x.size(); ++k) {
      const double off = unitsOff(y[k], f.exact(x[k]));
      if (off > worst) worst = off, at = x[k];
      ASSERT_LE(off, info(f.op).ulp) << info(f.op).name << " of " << x[k] << ": " << y[k];
    }
    report(f.op, worst, at);
  }
}

template <class T>
void fusedOnce() {
  using Word = std::conditional_t<std::is_same_v<T, double>, uint64_t, uint32_t>;
  constexpr int kFraction = std::numeric_limits<T>::digits - 1;
  std::mt19937_64 random(11);
  const T least = std::numeric_limits<T>::denorm_min(), most = std::numeric_limits<T>::max();
  const T edges[] = {0,
                     least,
                     3 * least,
                     std::numeric_limits<T>::min(),
                     1,
                     T(1.5),
                     1 + std::numeric_limits<T>::epsilon(),
                     most,
                     most / 2,
                     std::numeric_limits<T>::infinity(),
                     std::numeric_limits<T>::quiet_NaN()};
  std::vector<T> a, b, c;
  auto add = [&](T x, T y, T z) { a.push_back(x), b.push_back(y), c.push_back(z); };
  for (const T x : edges)
    for (const T y : edges)
      for (const T z : edges)
        for (int signs = 0; signs < 8; ++signs)
          add(signs & 1 ? -x : x, signs & 2 ? -y : y, signs & 4 ? -z : z);
  // Any bits; the addend about as large as the product, and few bits set, so that it cancels or
  // ties.
  for (int k = 0; k < 60000; ++k) {
    auto any = [&] { return std::bit_cast<T>(static_cast<Word>(random())); };
    auto few = [&](T v) {
      const int drop = static_cast<int>(random() % kFraction);
      return std::bit_cast<T>(static_cast<Word>(std::bit_cast<Word>(v) >> drop << drop));
    };
    T x = any(), y = any(), z = any();
    if (k % 2) x = few(x), y = few(y);
    if (k % 3 == 0) {
      z = std::scalbn(few(x * y), static_cast<int>(random() % 5) - 2);
      if (random() & 1) z = -z;
    }
    // Products around the least number.
    if (k % 7 == 0 && std::isnormal(x) && std::isnormal(y))
      y = std::scalbn(
          y, std::ilogb(least) - std::ilogb(x) - std::ilogb(y) + static_cast<int>(random() % 60));
    if (k % 21 == 0) z = least * static_cast<T>(random() % 100);
    add(x, y, z);
  }
  const std::vector<T> got = evaluate<T>(ScalarOp::Fma, {a, b, c});
  for (std::size_t k = 0; k < a.size(); ++k) {
    const T want = std::fma(a[k], b[k], c[k]);
    ASSERT_TRUE(std::isnan(want) ? std::isnan(got[k])
                                 : std::bit_cast<Word>(want) == std::bit_cast<Word>(got[k]))
        << std::hexfloat << a[k] << " * " << b[k] << " + " << c[k] << " = " << want << ", got "
        << got[k];
  }
}

TEST(Expand, fmaRoundsOnce) {
  fusedOnce<float>();
  fusedOnce<double>();
}

}  // namespace
}  // namespace rlx::kir
