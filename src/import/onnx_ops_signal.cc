// ONNX transforms of signals, as products with the matrices of cosines and sines; and determinants.
#include <algorithm>

#include "import/onnx_import.h"

namespace rlx::onnx {
namespace {

constexpr double kTwoPi = 6.283185307179586476925286766559;

// Real and imaginary part; imaginary is null for real signals.
struct Complex {
  Value re, im;
};

// The transform along the last axis: `n` points of input, `length` of the full transform, `bins`
// kept. Angles are reduced in integers, so that long transforms keep their accuracy.
Complex transform(Builder& b, const Complex& x, const Dim& length, const Dim& n, const Dim& bins,
                  bool inverse) {
  const DType t = x.re.dtype(), wide = computeType(t);
  const Value turns = apply(
      ScalarOp::Mod, iota(b, DType::I64, {n, Dim(1)}, 0) * iota(b, DType::I64, {Dim(1), bins}, 1),
      dimValue(b, DType::I64, length));
  const Value angle = convert(turns, wide) * b.scalar(wide, kTwoPi) / dimValue(b, wide, length);
  const Value cosine = convert(apply(ScalarOp::Cos, angle), t);
  Value sine = convert(apply(ScalarOp::Sin, angle), t);
  if (!inverse) sine = apply(ScalarOp::Neg, sine);
  // (re + i im) (cos + i sin)
  Complex y{matmul(x.re, cosine), matmul(x.re, sine)};
  if (x.im) y = {y.re - matmul(x.im, sine), y.im + matmul(x.im, cosine)};
  if (inverse) {
    const Value scale = dimValue(b, t, length);
    y = {y.re / scale, y.im / scale};
  }
  return y;
}

// Axis `axis` moved to the end, and back.
std::vector<int64_t> toEnd(int64_t rank, int64_t axis) {
  std::vector<int64_t> perm = range(0, rank);
  perm.erase(perm.begin() + std::min(axis, rank - 1));
  perm.push_back(axis);
  return perm;
}
std::vector<int64_t> fromEnd(int64_t rank, int64_t axis) {
  std::vector<int64_t> perm = range(0, rank - 1);
  perm.insert(perm.begin() + std::min(axis, rank - 1), rank - 1);
  return perm;
}

Value dropLast(Value v) {
  return reshape(v, part(v.shape(), 0, v.shape().size() - 1));
}

// [..., 1 or 2] as parts without the last axis.
Result<Complex> parts(Call& c, Value x) {
  const int64_t last = x.rank() - 1;
  const Dim n = extent(x, last);
  if (!n.is(1) && !n.is(2)) return c.bad("last extent " + n.text() + ", expected 1 or 2");
  Complex out{dropLast(sliceAxis(x, last, Dim(0), Dim(1))), {}};
  if (n.is(2)) out.im = dropLast(sliceAxis(x, last, Dim(1), Dim(1)));
  return out;
}

Value join(const Complex& y) {
  auto column = [](Value v) {
    Shape s = v.shape();
    s.emplace_back(1);
    return reshape(v, s);
  };
  const Value re = column(y.re);
  return concat({re, column(y.im)}, re.rank() - 1);
}

Status dft(Call& c) {
  const Value x = c.in(0);
  if (x.rank() < 2) return c.bad("input of rank " + std::to_string(x.rank()));
  int64_t given = c.attr("axis", int64_t{c.opset < 20 ? 1 : -2});
  if (c.has(2)) {
    RLX_TRY(given, c.integer(2));
  }
  RLX_TRY(const int64_t axis, normalizeAxis(c.node.op, given, x.shape().size()));
  if (axis == x.rank() - 1) return c.bad("a transform over the complex parts");
  const bool inverse = c.attr("inverse", int64_t{0}) != 0,
             half = c.attr("onesided", int64_t{0}) != 0;
  if (inverse && half) return c.unsupported("an inverse transform of half the bins");
  const Dim have = extent(x, axis);
  Dim length = have;
  if (c.has(1)) {
    RLX_TRY(const auto d, c.dims(1));
    if (d.size() != 1) return c.bad("dft_length must be one number");
    length = d[0];
  }
  Dim n = have;
  if (!(length == have)) {
    if (!length.isConst() || !have.isConst() || length.value() < 1)
      return c.unsupported("a symbolic dft_length");
    n = min(length, have);  // more points are zeros, which add nothing
  }
  RLX_TRY(Complex p, parts(c, sliceAxis(x, axis, Dim(0), n)));
  const std::vector<int64_t> away = toEnd(x.rank() - 1, axis), back = fromEnd(x.rank() - 1, axis);
  p.re = transpose(p.re, away);
  if (p.im) p.im = transpose(p.im, away);
  const Dim bins = half ? floorDiv(length, Dim(2)) + Dim(1) : length;
  Complex y = transform(c.b, p, length, n, bins, inverse);
  y = {transpose(y.re, back), transpose(y.im, back)};
  return c.out(0, join(y)), Ok{};
}

Status stft(Call& c) {
  const Value x = c.in(0);
  if (x.rank() != 3) return c.bad("signal of shape " + text(x.shape()));
  RLX_TRY(const int64_t step, c.integer(1));
  Dim length;
  if (c.has(3)) {
    RLX_TRY(const auto d, c.dims(3));
    if (d.size() == 1) length = d[0];
  } else if (c.has(2)) {
    length = extent(c.in(2), 0);
  }
  if (step < 1 || !length.isConst() || length.value() < 1)
    return c.bad("frame_step " + std::to_string(step) + ", frame_length " + length.text());
  const Dim frames = floorDiv(extent(x, 1) - length, Dim(step)) + Dim(1);
  const Value at = iota(c.b, DType::I64, {frames, Dim(1)}, 0) *
                       c.b.constant(Literal::of(DType::I64, {}, std::vector{step})) +
                   iota(c.b, DType::I64, {Dim(1), length}, 1);
  RLX_TRY(Complex p, parts(c, x));
  auto framed = [&](Value v) {
    v = gather(v, at, 1);  // [batch, frames, length]
    return c.has(2) ? v * c.in(2) : v;
  };
  p.re = framed(p.re);
  if (p.im) p.im = framed(p.im);
  const bool half = c.attr("onesided", int64_t{1}) != 0;
  const Dim bins = half ? floorDiv(length, Dim(2)) + Dim(1) : length;
  return c.out(0, join(transform(c.b, p, length, length, bins, false))), Ok{};
}

// By cofactors along the rows, one minor for each set of columns: fit for small matrices.
Status determinant(Call& c) {
  const Value x = c.in(0);
  if (x.rank() < 2) return c.bad("input of rank " + std::to_string(x.rank()));
  const Dim n = extent(x, x.rank() - 1);
  if (!(n == extent(x, x.rank() - 2))) return c.bad("matrices of shape " + text(x.shape()));
  if (!n.isConst() || n.value() < 1 || n.value() > 6)
    return c.unsupported("determinants of " + n.text() + " rows; up to 6 are supported");
  const auto size = static_cast<std::size_t>(n.value());
  const Shape batch = part(x.shape(), 0, x.shape().size() - 2);
  auto element = [&](std::size_t row, std::size_t column) {
    const Value line = sliceAxis(x, x.rank() - 2, Dim(static_cast<int64_t>(row)), Dim(1));
    return reshape(sliceAxis(line, x.rank() - 1, Dim(static_cast<int64_t>(column)), Dim(1)), batch);
  };
  // minors[set] is the determinant of the first |set| rows and the columns of the set.
  std::vector<Value> minors(std::size_t{1} << size);
  for (std::size_t set = 1; set < minors.size(); ++set) {
    const auto row = static_cast<std::size_t>(__builtin_popcountll(set)) - 1;
    std::size_t behind = row;  // columns of the set to the right
    for (std::size_t k = 0; k < size; ++k) {
      if (!(set >> k & 1)) continue;
      const Value minor = minors[set & ~(std::size_t{1} << k)];
      const Value term = minor ? element(row, k) * minor : element(row, k);
      if (!minors[set])
        minors[set] = behind % 2 ? apply(ScalarOp::Neg, term) : term;
      else
        minors[set] = behind % 2 ? minors[set] - term : minors[set] + term;
      --behind;
    }
  }
  return c.out(0, minors.back()), Ok{};
}

constexpr OpRow kOps[] = {
    {"DFT", dft, 1, 3},
    {"STFT", stft, 2, 4},
    {"Det", determinant},
};

}  // namespace

std::span<const OpRow> signalOps() {
  return kOps;
}

}  // namespace rlx::onnx
