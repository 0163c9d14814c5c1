#include "ops/rule.h"

#include <algorithm>

namespace rlx {

kir::Expr LowerContext::wide(std::size_t k, const Index& at) {
  return kir::cast(computeType(operands[k]->dtype), operand(k, at));
}

std::vector<int64_t> freeAxes(std::size_t rank, const std::vector<int64_t>& batch,
                              const std::vector<int64_t>& contract) {
  const auto holds = [](const std::vector<int64_t>& v, int64_t x) {
    return std::find(v.begin(), v.end(), x) != v.end();
  };
  std::vector<int64_t> out;
  for (int64_t k = 0; k < static_cast<int64_t>(rank); ++k)
    if (!holds(batch, k) && !holds(contract, k)) out.push_back(k);
  return out;
}

Result<int64_t> normalizeAxis(std::string_view op, int64_t axis, std::size_t rank) {
  const auto r = static_cast<int64_t>(rank);
  if (axis < -r || axis >= r)
    return Error(Errc::BadAttribute, std::string(op) + ": axis " + std::to_string(axis) +
                                         " is outside a tensor of rank " + std::to_string(r));
  return axis < 0 ? axis + r : axis;
}

Result<Shape> broadcastShapes(std::string_view op, const Shape& a, const Shape& b) {
  Shape out = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  for (std::size_t i = 1; i <= shorter.size(); ++i) {
    Dim& o = out[out.size() - i];
    const Dim& s = shorter[shorter.size() - i];
    if (o == s || s.is(1)) continue;
    if (!o.is(1))
      return Error(Errc::ShapeMismatch, std::string(op) + ": shapes " + text(a) + " and " +
                                            text(b) + " do not broadcast: " + o.text() +
                                            " against " + s.text());
    o = s;
  }
  return out;
}

namespace ops {

Status requireKind(const InferContext& c, std::size_t k, std::string_view kinds) {
  const DType t = c.types[k].dtype;
  const char kind = isFloat(t)         ? 'f'
                    : isInteger(t)     ? 'i'
                    : t == DType::Bool ? 'b'
                    : isComplex(t)     ? 'c'
                                       : 'q';
  if (kinds.find(kind) != kinds.npos) return Ok{};
  return typeError(c, "operand " + std::to_string(k) + " has dtype " + std::string(name(t)));
}

Status requireRank(const InferContext& c, std::size_t k, std::size_t rank) {
  if (c.types[k].shape.size() == rank) return Ok{};
  return shapeError(c, "operand " + std::to_string(k) + " has shape " + text(c.types[k].shape) +
                           ", expected rank " + std::to_string(rank));
}

int64_t broadcastOffset(std::span<const int64_t> at, std::span<const int64_t> operand) {
  int64_t offset = 0;
  const std::size_t skip = at.size() - operand.size();
  for (std::size_t k = 0; k < operand.size(); ++k)
    offset = offset * operand[k] + (operand[k] == 1 ? 0 : at[skip + k]);
  return offset;
}

void copyElement(RefTensor& y, int64_t to, const RefTensor& x, int64_t from) {
  const auto t = static_cast<std::size_t>(to), s = static_cast<std::size_t>(from);
  if (isFloat(x.dtype))
    y.f[t] = x.f[s];
  else if (isComplex(x.dtype))
    y.f[2 * t] = x.f[2 * s], y.f[2 * t + 1] = x.f[2 * s + 1];
  else
    y.i[t] = x.i[s];
}

Index broadcastIndex(const Index& at, const Shape& operand) {
  Index out;
  const std::size_t skip = at.size() - operand.size();
  for (std::size_t k = 0; k < operand.size(); ++k)
    out.push_back(operand[k].is(1) ? kir::index(0) : at[skip + k]);
  return out;
}

Index reshapeIndex(LowerContext& c, const Index& at, const Shape& to, const Shape& from) {
  Index out(from.size());
  std::size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    // The smallest groups from[i..i2) and to[j..j2) with provably equal products.
    std::size_t i2 = i, j2 = j;
    Dim pi(1), pj(1);
    auto more = [&] {
      if (i2 == i && j2 == j) return true;
      return !(pi == pj);
    };
    while (more()) {
      Dim q;
      const bool canFrom = i2 < from.size(), canTo = j2 < to.size();
      if (!canFrom && !canTo) break;
      const bool growTo = canTo && (!canFrom || (divideExactly(pi, pj, &q) && !(pi == pj)) ||
                                    (pi == pj && to[j2].is(1) && !from[i2].is(1)));
      if (growTo)
        pj = pj * to[j2++];
      else
        pi = pi * from[i2++];
    }
    if (i2 - i == 1 && j2 - j == 1) {
      out[i] = from[i].is(1) ? kir::index(0) : at[j];
    } else {
      kir::Expr linear = kir::index(0);
      for (std::size_t k = j; k < j2; ++k)
        if (!to[k].is(1)) linear = add(mul(linear, c.dim(to[k])), at[k]);
      std::size_t live = 0;
      for (std::size_t k = i; k < i2; ++k) live += !from[k].is(1);
      if (live > 1) linear = c.let(linear);
      std::size_t seen = 0;
      for (std::size_t k = i; k < i2; ++k) {
        if (from[k].is(1)) {
          out[k] = kir::index(0);
          continue;
        }
        ++seen;
        Dim inner(1);
        for (std::size_t m = k + 1; m < i2; ++m) inner = inner * from[m];
        kir::Expr x = linear;
        if (!inner.is(1)) x = kir::Expr::apply(ScalarOp::Div, x, c.dim(inner), {});
        if (seen > 1) x = kir::Expr::apply(ScalarOp::Rem, x, c.dim(from[k]), {});
        out[k] = x;
      }
    }
    i = i2, j = j2;
  }
  return out;
}

kir::Expr wrapIndex(LowerContext& c, const kir::Expr& i, const kir::Expr& extent) {
  // Saturating, not wrapping: an index of 2^32 must not become 0.
  kir::Expr x = i;
  if (info(x->type).bits == 64) {
    if (isSigned(x->type))
      x = kir::Expr::apply(ScalarOp::Max, x, kir::integer(x->type, INT32_MIN), {});
    x = kir::Expr::apply(ScalarOp::Min, x, kir::integer(x->type, INT32_MAX), {});
  }
  if (x->type == DType::U32)
    x = kir::Expr::apply(ScalarOp::Min, x, kir::integer(x->type, INT32_MAX), {});
  x = c.let(kir::cast(DType::I32, x));
  return choose(less(x, kir::index(0)), add(x, extent), x);
}

kir::Expr clampIndex(LowerContext& c, const kir::Expr& i, const kir::Expr& extent) {
  kir::Expr x = wrapIndex(c, i, extent);
  x = kir::Expr::apply(ScalarOp::Max, x, kir::index(0), {});
  return c.let(kir::Expr::apply(ScalarOp::Min, x, sub(extent, kir::index(1)), {}));
}

}  // namespace ops
}  // namespace rlx
