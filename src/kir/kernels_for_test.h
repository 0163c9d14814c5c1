// Small kernels that the tests of the interpreter, the dialects and the devices share: each with a
// grid, parameters and inputs, so that any two ways of running it can be compared.
#pragma once
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kir/kernel.h"
#include "kir/number.h"

namespace rlx::kir::test {

struct Sample {
  Kernel kernel;
  std::array<int64_t, 3> grid{1, 1, 1};
  std::vector<int32_t> params;
  std::vector<std::vector<std::byte>> globals;
  double ulp = 0;  // how far an F32 result may be off
};

// Builds a kernel statement by statement.
class Maker {
 public:
  Kernel k;
  explicit Maker(std::string name, std::array<int32_t, 3> block = {1, 1, 1}) {
    k.name = std::move(name);
    k.block = block;
    blocks_.push_back(&k.body);
  }
  uint32_t buffer(std::string name, DType t, Access access, Space space = Space::Global,
                  int64_t elements = 0) {
    k.buffers.push_back({std::move(name), t, space, access, elements});
    return static_cast<uint32_t>(k.buffers.size() - 1);
  }
  Expr param(std::string name) {
    k.params.push_back(std::move(name));
    ExprNode n;
    n.kind = ExprKind::Param;
    n.type = DType::I32;
    n.id = static_cast<uint32_t>(k.params.size() - 1);
    return Expr(std::make_shared<const ExprNode>(std::move(n)));
  }
  Expr var(std::string name, DType t) {
    k.vars.push_back({std::move(name), t});
    ExprNode n;
    n.kind = ExprKind::Var;
    n.type = t;
    n.id = static_cast<uint32_t>(k.vars.size() - 1);
    return Expr(std::make_shared<const ExprNode>(std::move(n)));
  }
  Stmt& add(StmtKind kind) {
    blocks_.back()->emplace_back();
    blocks_.back()->back().kind = kind;
    return blocks_.back()->back();
  }
  Expr let(std::string name, const Expr& value, StmtKind kind = StmtKind::Let) {
    Expr v = var(std::move(name), value->type);
    Stmt& s = add(kind);
    s.var = v->id;
    s.value = value;
    return v;
  }
  Expr mut(std::string name, const Expr& value) {
    return let(std::move(name), value, StmtKind::Mutable);
  }
  void assign(const Expr& v, const Expr& value) {
    Stmt& s = add(StmtKind::Assign);
    s.var = v->id;
    s.value = value;
  }
  void accumulate(const Expr& v, ScalarOp op, const Expr& value) {
    Stmt& s = add(StmtKind::Accumulate);
    s.var = v->id;
    s.op = op;
    s.value = value;
  }
  void store(uint32_t buffer, const Expr& at, const Expr& value, const Expr& when = Expr()) {
    Stmt& s = add(StmtKind::Store);
    s.buffer = buffer;
    s.index = at;
    s.value = value;
    s.condition = when;
  }
  Expr loop(std::string name, const Expr& lo, const Expr& hi, int64_t step = 1,
            LoopKind kind = LoopKind::Serial) {
    Expr v = var(std::move(name), DType::I32);
    Stmt& s = add(StmtKind::For);
    s.var = v->id;
    s.lo = lo;
    s.hi = hi;
    s.step = step;
    s.loop = kind;
    blocks_.push_back(&s.body);
    return v;
  }
  void when(const Expr& condition) {
    Stmt& s = add(StmtKind::If);
    s.condition = condition;
    blocks_.push_back(&s.body);
  }
  void barrier() { add(StmtKind::Barrier); }
  void end() { blocks_.pop_back(); }

 private:
  std::vector<std::vector<Stmt>*> blocks_;
};

template <class T>
std::vector<std::byte> bytesOf(const std::vector<T>& v) {
  std::vector<std::byte> out(v.size() * sizeof(T));
  if (!v.empty()) std::memcpy(out.data(), v.data(), out.size());
  return out;
}
inline std::vector<std::byte> zeros(std::size_t bytes) {
  return std::vector<std::byte>(bytes);
}

// Values between -8 and 8, the same everywhere.
inline std::vector<float> ramp(std::size_t n) {
  std::vector<float> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = static_cast<float>((i * 37 + 11) % 128) / 8.0f - 8.0f;
  return v;
}
inline std::vector<float> specials() {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  return {nan,   1,     -1,      0,      -0.0f, inf,    -inf,          3e9f,         -3e9f,
          0.5f,  -0.5f, 2.5f,    1e-40f, 300,   -300,   70000,         1e30f,        nan,
          65504, 65520, 5.9e-8f, 1.5f,   -2.5f, 127.6f, 4294967040.0f, 2147483520.0f};
}

// y[i] = f(x[i]), one lane an element, guarded; block of 1 where the target has no groups.
template <class F>
Sample map(std::string name, DType from, DType to, std::vector<std::byte> x, F f, int32_t lanes) {
  Sample s;
  Maker m(std::move(name), {lanes, 1, 1});
  const uint32_t in = m.buffer("x", from, Access::Read), out = m.buffer("y", to, Access::Write);
  const Expr n = m.param("n");
  const Expr i = m.let("i", groupId(0) * index(lanes) + localId(0));
  m.when(lt(i, n));
  m.store(out, i, f(load(in, from, i)));
  m.end();
  s.kernel = std::move(m.k);
  const std::size_t count = x.size() / static_cast<std::size_t>(bytes(from));
  s.params = {static_cast<int32_t>(count)};
  s.grid = {static_cast<int64_t>((count + static_cast<std::size_t>(lanes) - 1) /
                                 static_cast<std::size_t>(lanes)),
            1, 1};
  s.globals = {std::move(x), zeros(count * static_cast<std::size_t>(bytes(to)))};
  return s;
}

// y[i] = f(a[i], b[i]).
template <class F>
Sample zip(std::string name, DType from, DType to, std::vector<std::byte> a,
           std::vector<std::byte> b, F f, int32_t lanes) {
  Sample s;
  Maker m(std::move(name), {lanes, 1, 1});
  const uint32_t ia = m.buffer("a", from, Access::Read), ib = m.buffer("b", from, Access::Read);
  const uint32_t out = m.buffer("y", to, Access::Write);
  const Expr n = m.param("n");
  const Expr i = m.let("i", groupId(0) * index(lanes) + localId(0));
  m.when(lt(i, n));
  m.store(out, i, f(load(ia, from, i), load(ib, from, i)));
  m.end();
  s.kernel = std::move(m.k);
  const std::size_t count = a.size() / static_cast<std::size_t>(bytes(from));
  s.params = {static_cast<int32_t>(count)};
  s.grid = {static_cast<int64_t>((count + static_cast<std::size_t>(lanes) - 1) /
                                 static_cast<std::size_t>(lanes)),
            1, 1};
  s.globals = {std::move(a), std::move(b), zeros(count * static_cast<std::size_t>(bytes(to)))};
  return s;
}

// Row sums of a matrix: one group a row, a tree in shared memory, predicated loads past the end.
inline Sample rowSum(int32_t lanes) {
  Sample s;
  Maker m("row_sum", {lanes, 1, 1});
  const uint32_t x = m.buffer("x", DType::F32, Access::Read);
  const uint32_t y = m.buffer("y", DType::F32, Access::Write);
  const uint32_t tile = m.buffer("tile", DType::F32, Access::ReadWrite, Space::Shared, lanes);
  const Expr n = m.param("n");
  const Expr lane = m.let("lane", localId(0));
  const Expr acc = m.mut("acc", constant(DType::F32, 0));
  const Expr k = m.loop("k", index(0), n, lanes);
  const Expr at = m.let("at", k + lane);
  m.accumulate(acc, ScalarOp::Add,
               loadIf(x, DType::F32, groupId(0) * n + at, lt(at, n), constant(DType::F32, 0)));
  m.end();
  m.store(tile, lane, acc);
  m.barrier();
  for (int32_t half = lanes / 2; half > 0; half /= 2) {
    m.store(tile, lane, load(tile, DType::F32, lane) + load(tile, DType::F32, lane + index(half)),
            lt(lane, index(half)));
    m.barrier();
  }
  m.store(y, groupId(0), load(tile, DType::F32, index(0)), eq(lane, index(0)));
  s.kernel = std::move(m.k);
  s.grid = {5, 1, 1};
  s.params = {37};
  s.globals = {bytesOf(ramp(5 * 37)), zeros(5 * 4)};
  return s;
}

// Shifts, divisions and powers on all pairs of awkward integers.
template <class T>
Sample integers(std::string name, DType t, ScalarOp op, int32_t lanes) {
  using L = std::numeric_limits<T>;
  const std::vector<T> values{T(0),
                              T(1),
                              T(2),
                              T(3),
                              T(7),
                              T(31),
                              T(32),
                              T(64),
                              T(100),
                              L::max(),
                              L::min(),
                              static_cast<T>(-1),
                              static_cast<T>(-2),
                              static_cast<T>(-7)};
  std::vector<T> a, b;
  for (T x : values)
    for (T y : values) a.push_back(x), b.push_back(y);
  return zip(
      std::move(name), t, t, bytesOf(a), bytesOf(b),
      [&](const Expr& x, const Expr& y) { return Expr::apply(op, x, y, Expr(0.0)); }, lanes);
}

template <class T>
std::vector<std::byte> floats(const std::vector<float>& v, DType t) {
  std::vector<T> out;
  for (float x : v) out.push_back(static_cast<T>(fromDouble(t, static_cast<double>(x))));
  return bytesOf(out);
}

struct Named {
  const char* name;
  ScalarOp op;
};

// Everything that every target runs; `lanes` is 1 for targets without groups.
inline std::vector<Sample> samples(int32_t lanes, bool wide64, bool float64) {
  std::vector<Sample> all;
  const auto x = bytesOf(ramp(77));
  const auto special = bytesOf(specials());
  auto unary = [&](const char* name, ScalarOp op, const std::vector<std::byte>& in, double ulp) {
    all.push_back(map(
        name, DType::F32, DType::F32, in,
        [&](const Expr& v) { return Expr::apply(op, v, Expr(0.0), Expr(0.0)); }, lanes));
    all.back().ulp = ulp;
  };
  // a*b + c must not contract.
  all.push_back(map(
      "axpy", DType::F32, DType::F32, x,
      [](const Expr& v) { return v * constant(DType::F32, 1.1) + v / Expr(3.0); }, lanes));
  all.back().ulp = 1;
  unary("round", ScalarOp::Round, special, 0);
  unary("sign", ScalarOp::Sign, special, 0);
  unary("rsqrt", ScalarOp::Rsqrt, x, 4);
  for (const Named& n : {Named{"isnan", ScalarOp::IsNan}, Named{"isinf", ScalarOp::IsInf},
                         Named{"isfinite", ScalarOp::IsFinite}})
    all.push_back(map(
        n.name, DType::F32, DType::Bool, special,
        [&](const Expr& v) { return Expr::apply(n.op, v, Expr(0.0), Expr(0.0)); }, lanes));
  std::vector<float> pa, pb;
  for (float a : specials())
    for (float b : specials()) pa.push_back(a), pb.push_back(b);
  for (const Named& n : {Named{"maximum", ScalarOp::Max}, Named{"minimum", ScalarOp::Min}})
    all.push_back(zip(
        n.name, DType::F32, DType::F32, bytesOf(pa), bytesOf(pb),
        [&](const Expr& a, const Expr& b) { return Expr::apply(n.op, a, b, Expr(0.0)); }, lanes));
  all.push_back(zip(
      "copysign", DType::F32, DType::F32, bytesOf(pa), bytesOf(pb),
      [&](const Expr& a, const Expr& b) { return copysign(a, b); }, lanes));
  all.push_back(zip(
      "fmod", DType::F32, DType::F32, bytesOf(pa), bytesOf(pb),
      [&](const Expr& a, const Expr& b) { return rem(a, b); }, lanes));
  all.push_back(zip(
      "floormod", DType::F32, DType::F32, bytesOf(ramp(99)), bytesOf(ramp(100)),
      [&](const Expr& a, const Expr& b) { return mod(a, b + constant(DType::F32, 0.3)); }, lanes));
  all.back().globals[1].resize(all.back().globals[0].size());
  all.back().ulp = 1;
  for (DType t :
       {DType::I32, DType::U32, DType::I8, DType::U8, DType::I16, DType::U16, DType::Bool})
    all.push_back(map(
        "to_" + std::string(name(t)), DType::F32, t, special,
        [&](const Expr& v) { return cast(t, v); }, lanes));
  if (wide64) {
    for (DType t : {DType::I64, DType::U64})
      all.push_back(map(
          "to_" + std::string(name(t)), DType::F32, t, special,
          [&](const Expr& v) { return cast(t, v); }, lanes));
    all.push_back(integers<int64_t>("div_i64", DType::I64, ScalarOp::Div, lanes));
    all.push_back(integers<int64_t>("mod_i64", DType::I64, ScalarOp::Mod, lanes));
    all.push_back(integers<int64_t>("shl_i64", DType::I64, ScalarOp::Shl, lanes));
    all.push_back(integers<int64_t>("pow_i64", DType::I64, ScalarOp::Pow, lanes));
    all.push_back(integers<uint64_t>("rem_u64", DType::U64, ScalarOp::Rem, lanes));
  }
  if (float64) {
    const std::vector<double> wide{0.1, 1e300, -1e300, 65519.99, 65520, 1.0000000000000002,
                                   NAN, 5e-8};
    all.push_back(map(
        "f64_f16", DType::F64, DType::F16, bytesOf(wide),
        [](const Expr& v) { return cast(DType::F16, v); }, lanes));
    all.push_back(map(
        "f64_max", DType::F64, DType::F64, bytesOf(wide),
        [](const Expr& v) { return max(v, Expr(0.5)) * Expr(1.5); }, lanes));
  }
  for (const Named& n : {Named{"div_i32", ScalarOp::Div}, Named{"rem_i32", ScalarOp::Rem},
                         Named{"mod_i32", ScalarOp::Mod}, Named{"shl_i32", ScalarOp::Shl},
                         Named{"shr_i32", ScalarOp::Shr}, Named{"pow_i32", ScalarOp::Pow},
                         Named{"max_i32", ScalarOp::Max}, Named{"mul_i32", ScalarOp::Mul}})
    all.push_back(integers<int32_t>(n.name, DType::I32, n.op, lanes));
  all.push_back(integers<uint32_t>("mod_u32", DType::U32, ScalarOp::Mod, lanes));
  all.push_back(integers<uint32_t>("shr_u32", DType::U32, ScalarOp::Shr, lanes));
  all.push_back(integers<uint32_t>("div_u32", DType::U32, ScalarOp::Div, lanes));
  all.push_back(map(
      "f32_f16", DType::F32, DType::F16, special, [](const Expr& v) { return cast(DType::F16, v); },
      lanes));
  all.push_back(map(
      "f32_bf16", DType::F32, DType::BF16, special,
      [](const Expr& v) { return cast(DType::BF16, v); }, lanes));
  all.push_back(map(
      "f16_f32", DType::F16, DType::F32, floats<uint16_t>(specials(), DType::F16),
      [](const Expr& v) { return cast(DType::F32, v) + Expr(0.0); }, lanes));
  all.push_back(map(
      "bf16_f32", DType::BF16, DType::F32, floats<uint16_t>(specials(), DType::BF16),
      [](const Expr& v) { return cast(DType::F32, v) * Expr(2.0); }, lanes));
  all.push_back(map(
      "bool_f32", DType::Bool, DType::F32, bytesOf(std::vector<uint8_t>{0, 1, 1, 0, 1}),
      [](const Expr& v) { return cast(DType::F32, v); }, lanes));
  all.push_back(map(
      "i8_i32", DType::I8, DType::I32, bytesOf(std::vector<int8_t>{0, -1, 127, -128, 5}),
      [](const Expr& v) { return cast(DType::I32, v) * index(3); }, lanes));
  all.push_back(map(
      "bits", DType::F32, DType::I32, special, [](const Expr& v) { return bitcast(DType::I32, v); },
      lanes));
  all.push_back(rowSum(lanes));
  all.back().ulp = 8;
  return all;
}

// F32 functions over the range of scalar.def.
inline std::vector<Sample> functions(int32_t lanes) {
  std::vector<Sample> all;
  for (std::size_t o = 0; o < kScalarCount; ++o) {
    const auto op = static_cast<ScalarOp>(o);
    const ScalarInfo& i = info(op);
    if (i.types.find('f') == std::string_view::npos || i.arity == 3 ||
        i.result == ScalarResult::Bool)
      continue;
    std::vector<float> a, b;
    for (int s = 0; s <= 200; ++s) {
      a.push_back(static_cast<float>(i.lo + (i.hi - i.lo) * s / 200));
      b.push_back(static_cast<float>(i.hi - (i.hi - i.lo) * ((s * 77) % 199) / 199));
    }
    all.push_back(zip(
        "f_" + std::string(i.name), DType::F32, DType::F32, bytesOf(a), bytesOf(b),
        [&](const Expr& x, const Expr& y) { return Expr::apply(op, x, y, Expr(0.0)); }, lanes));
    all.back().ulp = i.ulp;
  }
  return all;
}

// The distance of two F32 results in units of the last place of `want`; NaN equals NaN.
inline double ulpError(float want, float got) {
  if (std::isnan(want) || std::isnan(got))
    return std::isnan(want) == std::isnan(got) ? 0 : HUGE_VAL;
  if (want == got) return std::signbit(want) == std::signbit(got) || want == 0 ? 0 : HUGE_VAL;
  if (std::isinf(want) || std::isinf(got)) return HUGE_VAL;
  const float a = std::fabs(want);
  const double unit = a < 1.2e-38f ? 1.4e-45 : std::ldexp(1.0, std::ilogb(a) - 23);
  return std::fabs(static_cast<double>(want) - static_cast<double>(got)) / unit;
}

// Empty when the written buffers agree within the tolerance of the sample.
inline std::string difference(const Sample& s, const std::vector<std::vector<std::byte>>& want,
                              const std::vector<std::vector<std::byte>>& got) {
  for (std::size_t b = 0; b < want.size(); ++b) {
    const DType t = s.kernel.buffers[b].type;
    const auto width = static_cast<std::size_t>(bytes(t));
    for (std::size_t i = 0; i < want[b].size() / width; ++i) {
      Bits w = 0, g = 0;
      std::memcpy(&w, want[b].data() + i * width, width);
      std::memcpy(&g, got[b].data() + i * width, width);
      if (w == g) continue;
      if (isFloat(t)) {
        const double wf = toDouble(t, w), gf = toDouble(t, g);
        if (std::isnan(wf) && std::isnan(gf)) continue;
        if (t == DType::F32 && ulpError(static_cast<float>(wf), static_cast<float>(gf)) <= s.ulp)
          continue;
        return s.kernel.name + ": " + s.kernel.buffers[b].name + "[" + std::to_string(i) + "] is " +
               std::to_string(gf) + ", expected " + std::to_string(wf) + " (" +
               std::to_string(ulpError(static_cast<float>(wf), static_cast<float>(gf))) + " ulp)";
      }
      return s.kernel.name + ": " + s.kernel.buffers[b].name + "[" + std::to_string(i) + "] is " +
             std::to_string(static_cast<int64_t>(g)) + ", expected " +
             std::to_string(static_cast<int64_t>(w));
    }
  }
  return {};
}

}  // namespace rlx::kir::test
