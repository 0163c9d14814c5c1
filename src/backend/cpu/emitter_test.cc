// Loops, branches, memory and groups of the kernel IR through the emitter, against plain C++.
#include <sys/mman.h>
#include <unistd.h>

#include "backend/cpu/emitter_testing.h"

namespace rlx::cpu {
namespace {

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
              const double v = op == ScalarOp::Mul ? (small < 0    ? -1.0
                                                      : small == 0 ? 0.5
                                                                   : 2.0)
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
    m.k.body = {define(StmtKind::Mutable, top, kir::constant(DType::F32, -INFINITY)),
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
        inner.push_back(
            define(StmtKind::Let, bv,
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
        for (std::size_t j = 0; j < 40; ++j)
          sum = j % 2 == 0 ? sum - m.get(vars[j]) : m.get(vars[j]) - sum;
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
          for (std::size_t j = 39; j-- > 0;)
            want = j % 3 == 0 ? std::fmax(want, v(j)) : want + v(j);
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
    base_ =
        static_cast<char*>(mmap(nullptr, 3 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
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
              char* px = s < 0 ? in.start()
                               : in.end(size * (count * static_cast<std::size_t>(stride) -
                                                static_cast<std::size_t>(stride) + 1));
              char* py = out.end(size * count);
              for (std::size_t j = 0; j < size * (count * static_cast<std::size_t>(stride) -
                                                  static_cast<std::size_t>(stride) + 1);
                   ++j)
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
        const uint32_t x = m.buffer(t), p = m.buffer(DType::I32), q = m.buffer(DType::I32),
                       y = m.buffer(t), i = m.var(DType::I32);
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
          for (auto& b : in)
            b = static_cast<unsigned char>(t == DType::Bool ? rng() % 2 : rng() % 100);
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
          loop(
              kind, i, kir::index(0), n,
              {define(StmtKind::Mutable, v, value),
               branch(lt(value, kir::constant(DType::F32, 0)),
                      {define(StmtKind::Assign, v, -m.get(v)),
                       accumulate(ScalarOp::Add, count, kir::index(1)),
                       branch(lt(value, kir::constant(DType::F32, -2)),
                              {define(StmtKind::Assign, v, m.get(v) * Expr(10.0))},
                              {accumulate(ScalarOp::Add, v, kir::constant(DType::F32, 100))})},
                      {loop(LoopKind::Serial, k, kir::index(0), flag,
                            {accumulate(ScalarOp::Add, v, value)})}),
               branch(gt(flag, kir::index(2)), {define(StmtKind::Assign, v, m.get(v) + Expr(1.0))}),
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
    const Expr code3 =
        add(add(mul(kir::groupId(2), kir::index(10000)), mul(kir::groupId(1), kir::index(100))),
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
          ASSERT_EQ(out[g * 13 + 12 - q], in[q * 15 + g] + want)
              << g << " " << q << " kind " << static_cast<int>(kind);
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
        m.k.body = {
            loop(kind, i, kir::index(0), n,
                 {define(StmtKind::Let, x, select(odd, kir::load(a, t, at), kir::load(b, t, at))),
                  define(StmtKind::Mutable, c, at),
                  define(StmtKind::Let, old, kir::cast(DType::U32, m.get(c))),
                  define(StmtKind::Assign, c, mul(m.get(c), kir::index(3))),
                  store(z, at, add(kir::cast(DType::I32, m.get(old)), m.get(c))),
                  store(y, at, m.get(x))})};
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
    m.k.body = {loop(LoopKind::Vector, i, kir::index(0), n,
                     {store(y, at, kir::load(x, DType::F32, from))})};
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
    for (std::size_t j = 0; j < 37; ++j)
      in[j] = j % 5 == 0 ? 1e7F + 31.0F * static_cast<float>(j) : static_cast<float>(j);
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
