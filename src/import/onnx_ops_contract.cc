// ONNX contractions: MatMul, Gemm, Einsum, attention and rotary embedding.
#include <algorithm>
#include <cmath>

#include "import/onnx_import.h"

namespace rlx::onnx {
namespace {

Status matMul(Call& c) {
  return c.out(0, matmul(c.in(0), c.in(1))), Ok{};
}

Status gemm(Call& c) {
  const Value a = c.in(0), w = c.in(1);
  const bool ta = c.attr("transA", int64_t{0}) != 0, tb = c.attr("transB", int64_t{0}) != 0;
  const double alpha = c.attr("alpha", 1.0), beta = c.attr("beta", 1.0);
  if (a.rank() != 2 || w.rank() != 2)
    return c.bad("operands of shapes " + text(a.shape()) + " and " + text(w.shape()));
  const Dim n = extent(w, tb ? 0 : 1);
  Value bias = c.in(2);
  if (bias && beta == 0) bias = {};
  const bool row = bias && (bias.shape() == Shape{n} || bias.shape() == Shape{Dim(1), n});
  if (!ta && isFloat(a.dtype()) && alpha == 1 && (!bias || (beta == 1 && row)))
    return c.out(0, linear(a, w, bias ? reshape(bias, {n}) : bias,
                           tb ? TransposeWeight::Yes : TransposeWeight::No)),
           Ok{};
  Value y = dotGeneral(a, w, {{}, {}, {ta ? 0 : 1}, {tb ? 1 : 0}});
  if (alpha != 1) y = y * literal(y, alpha);
  if (bias) y = y + (beta != 1 ? bias * literal(bias, beta) : bias);
  return c.out(0, y), Ok{};
}

// ---- Einsum
// ----------------------------------------------------------------------------------------

// One letter an axis; digits stand for the axes of an ellipsis, counted from the right.
struct Term {
  Value value;
  std::string axes;
};

Status expandEllipsis(Call& c, std::string& axes, int64_t rank) {
  const auto dots = axes.find("...");
  if (dots == axes.npos) return Ok{};
  const int64_t n = rank - static_cast<int64_t>(axes.size() - 3);
  if (n < 0 || n > 9) return c.bad("an ellipsis over " + std::to_string(n) + " axes");
  std::string digits;
  for (int64_t k = n; k > 0; --k) digits += static_cast<char>('0' + k);
  axes.replace(dots, 3, digits);
  return Ok{};
}

// A repeated letter takes the diagonal: everything else is masked and summed away.
void diagonals(Term& t) {
  for (std::size_t k = 0; k < t.axes.size(); ++k) {
    const auto later = t.axes.find(t.axes[k], k + 1);
    if (later == t.axes.npos) continue;
    if (t.value.builder->failed()) return;
    const auto a = static_cast<int64_t>(k), z = static_cast<int64_t>(later);
    Shape first(t.value.shape().size(), Dim(1)), second = first;
    first[k] = extent(t.value, a), second[later] = extent(t.value, z);
    Builder& b = *t.value.builder;
    const Value hit =
        apply(ScalarOp::Eq, iota(b, DType::I64, first, a), iota(b, DType::I64, second, z));
    t.value = reduce(choose(hit, t.value, literal(t.value, 0)), ReduceKind::Sum, {z}, KeepDims::No);
    t.axes.erase(later, 1);
    --k;
  }
}

// Sums over the axes whose letter is in neither of the strings.
void sumUnused(Term& t, const std::string& a, const std::string& b) {
  std::vector<int64_t> gone;
  std::string left;
  for (std::size_t k = 0; k < t.axes.size(); ++k) {
    if (a.find(t.axes[k]) == a.npos && b.find(t.axes[k]) == b.npos)
      gone.push_back(static_cast<int64_t>(k));
    else
      left += t.axes[k];
  }
  if (!gone.empty()) t.value = reduce(t.value, ReduceKind::Sum, gone, KeepDims::No);
  t.axes = left;
}

Term contract(const Term& x, const Term& y, const std::string& later) {
  DotAttrs a;
  Term out;
  std::string xFree, yFree;
  for (std::size_t k = 0; k < x.axes.size(); ++k) {
    const auto at = y.axes.find(x.axes[k]);
    if (at == y.axes.npos) {
      xFree += x.axes[k];
      continue;
    }
    const bool kept = later.find(x.axes[k]) != later.npos;
    (kept ? a.lhsBatch : a.lhsContract).push_back(static_cast<int64_t>(k));
    (kept ? a.rhsBatch : a.rhsContract).push_back(static_cast<int64_t>(at));
    if (kept) out.axes += x.axes[k];
  }
  for (const char ch : y.axes)
    if (x.axes.find(ch) == x.axes.npos) yFree += ch;
  out.axes += xFree + yFree;
  out.value = dotGeneral(x.value, y.value, std::move(a));
  return out;
}

Status einsum(Call& c) {
  std::string equation;
  for (const char ch : c.attr("equation", std::string_view()))
    if (ch != ' ') equation += ch;
  const auto arrow = equation.find("->");
  std::string left = equation.substr(0, arrow);
  std::vector<Term> terms;
  const std::vector<Value> in = c.all();
  for (std::size_t k = 0; k < in.size(); ++k) {
    const auto comma = left.find(',');
    if ((comma == left.npos) != (k + 1 == in.size()))
      return c.bad("equation '" + equation + "' for " + std::to_string(in.size()) + " operands");
    Term t{in[k], left.substr(0, comma)};
    left.erase(0, comma == left.npos ? comma : comma + 1);
    RLX_OK(expandEllipsis(c, t.axes, t.value.rank()));
    if (static_cast<int64_t>(t.axes.size()) != t.value.rank())
      return c.bad("equation '" + equation + "': operand " + std::to_string(k) + " has shape " +
                   text(t.value.shape()));
    for (const char ch : t.axes)
      if (!((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '1' && ch <= '9')))
        return c.bad("equation '" + equation + "'");
    terms.push_back(std::move(t));
  }
  std::string all, result;
  for (const Term& t : terms) all += t.axes;
  if (arrow != equation.npos) {
    result = equation.substr(arrow + 2);
    if (const auto dots = result.find("..."); dots != result.npos) {
      std::string digits;
      for (char d = '9'; d >= '1'; --d)
        if (all.find(d) != all.npos) digits += d;
      result.replace(dots, 3, digits);
    }
  } else {
    for (char d = '9'; d >= '1'; --d)
      if (all.find(d) != all.npos) result += d;
    std::string once;
    for (const char ch : all)
      if ((ch < '0' || ch > '9') && std::count(all.begin(), all.end(), ch) == 1) once += ch;
    std::sort(once.begin(), once.end());
    result += once;
  }
  for (Term& t : terms) diagonals(t);
  Term y = terms[0];
  for (std::size_t k = 1; k <= terms.size(); ++k) {
    std::string later = result;
    for (std::size_t j = k; j < terms.size(); ++j) later += terms[j].axes;
    sumUnused(y, later, std::string());
    if (k == terms.size()) break;
    std::string behind = result;
    for (std::size_t j = k + 1; j < terms.size(); ++j) behind += terms[j].axes;
    sumUnused(terms[k], behind, y.axes);
    for (const char ch : y.axes) {
      const auto at = terms[k].axes.find(ch), mine = y.axes.find(ch);
      if (at != std::string::npos && !(extent(y.value, static_cast<int64_t>(mine)) ==
                                       extent(terms[k].value, static_cast<int64_t>(at))))
        return c.unsupported("broadcasting axis '" + std::string(1, ch) + "' of '" + equation +
                             "'");
    }
    y = contract(y, terms[k], behind);
  }
  std::vector<int64_t> perm;
  for (const char ch : result) {
    const auto at = y.axes.find(ch);
    if (at == y.axes.npos) return c.bad("equation '" + equation + "': result axis '" + ch + "'");
    perm.push_back(static_cast<int64_t>(at));
  }
  return c.out(0, perm == range(0, y.value.rank()) ? y.value : transpose(y.value, perm)), Ok{};
}

// ---- Attention
// -------------------------------------------------------------------------------------

// [b, s, h * d] as [b, h, s, d].
Value splitHeads(Value x, int64_t heads) {
  const Dim d = floorDiv(extent(x, 2), Dim(heads));
  return transpose(reshape(x, {extent(x, 0), extent(x, 1), Dim(heads), d}), {0, 2, 1, 3});
}

Status attention(Call& c) {
  Value q = c.in(0), k = c.in(1), v = c.in(2);
  const bool flat = q.rank() == 3;
  if (flat) {
    const int64_t heads = c.attr("q_num_heads", int64_t{0}),
                  groups = c.attr("kv_num_heads", int64_t{0});
    if (heads < 1 || groups < 1) return c.bad("q_num_heads and kv_num_heads are needed for rank 3");
    q = splitHeads(q, heads), k = splitHeads(k, groups), v = splitHeads(v, groups);
  }
  if (q.rank() != 4 || k.rank() != 4 || v.rank() != 4)
    return c.bad("q, k and v of shapes " + text(q.shape()) + ", " + text(k.shape()) + " and " +
                 text(v.shape()));
  if (c.attr("softcap", 0.0) != 0) return c.unsupported("softcap");
  if (c.wants(3)) return c.unsupported("the qk_matmul_output output");
  if (c.has(6)) return c.unsupported("nonpad_kv_seqlen");
  if (c.has(4) != c.has(5)) return c.bad("past_key and past_value come together");
  const bool causal = c.attr("is_causal", int64_t{0}) != 0;
  if (c.has(4)) k = concat({c.in(4), k}, 2), v = concat({c.in(5), v}, 2);
  c.out(1, k), c.out(2, v);
  // ONNX aligns causal masks at the first key plus the past; ours aligns at the last.
  const Dim s = extent(q, 2), t = extent(k, 2);
  const Dim past = c.has(4) ? extent(c.in(4), 2) : Dim(0);
  Value mask = c.in(3);
  bool own = causal;
  if (causal && !(t - s == past)) {
    const Value row = iota(c.b, DType::I64, {s, Dim(1)}, 0) + dimValue(c.b, DType::I64, past),
                column = iota(c.b, DType::I64, {Dim(1), t}, 1);
    const Value allowed = apply(ScalarOp::Le, column, row);
    own = false;
    if (!mask)
      mask = allowed;
    else if (mask.dtype() == DType::Bool)
      mask = apply(ScalarOp::And, mask, allowed);
    else
      mask = choose(allowed, mask, literal(mask, -INFINITY));
  }
  if (mask && mask.dtype() != DType::Bool && mask.dtype() != q.dtype())
    mask = convert(mask, q.dtype());
  AttentionAttrs a;
  a.scale = c.attr("scale", 0.0);
  a.causal = own;
  std::vector<Value> in{q, k, v};
  if (mask) in.push_back(mask);
  Value y = c.b.emit(OpKind::Attention, std::move(in), Attrs::of(a));
  if (flat)
    y = reshape(transpose(y, {0, 2, 1, 3}),
                {extent(y, 0), extent(y, 2), extent(y, 1) * extent(y, 3)});
  return c.out(0, y), Ok{};
}

Status rotary(Call& c) {
  Value x = c.in(0), cosines = c.in(1), sines = c.in(2);
  const Shape given = x.shape();
  const bool flat = x.rank() == 3;
  if (flat) {
    const int64_t heads = c.attr("num_heads", int64_t{0});
    if (heads < 1) return c.bad("num_heads is needed for rank 3");
    x = splitHeads(x, heads);
  }
  if (x.rank() != 4) return c.bad("input of shape " + text(given));
  if (c.has(3)) cosines = gather(cosines, c.in(3), 0), sines = gather(sines, c.in(3), 0);
  const int64_t width = c.attr("rotary_embedding_dim", int64_t{0});
  const Dim size = extent(x, 3), turned = width > 0 ? Dim(width) : size;
  if (cosines.rank() != 3) return c.bad("cos_cache of rank " + std::to_string(cosines.rank()));
  auto perHead = [&](Value v) {
    return reshape(v, {extent(v, 0), Dim(1), extent(v, 1), extent(v, 2)});
  };
  cosines = perHead(cosines), sines = perHead(sines);
  const Dim half = floorDiv(turned, Dim(2));
  const Value head = sliceAxis(x, 3, Dim(0), turned);
  const bool interleaved = c.attr("interleaved", int64_t{0}) != 0;
  Value a, z;
  if (interleaved) {
    const Value pairs = reshape(head, {extent(x, 0), extent(x, 1), extent(x, 2), half, Dim(2)});
    const Shape one{extent(x, 0), extent(x, 1), extent(x, 2), half};
    a = reshape(sliceAxis(pairs, 4, Dim(0), Dim(1)), one);
    z = reshape(sliceAxis(pairs, 4, Dim(1), Dim(1)), one);
  } else {
    a = sliceAxis(head, 3, Dim(0), half), z = sliceAxis(head, 3, half, half);
  }
  const Value real = cosines * a - sines * z, imaginary = sines * a + cosines * z;
  Value y;
  if (interleaved) {
    auto column = [&](Value v) {
      Shape s = v.shape();
      s.emplace_back(1);
      return reshape(v, s);
    };
    y = reshape(concat({column(real), column(imaginary)}, 4), head.shape());
  } else {
    y = concat({real, imaginary}, 3);
  }
  if (!(turned == size)) y = concat({y, sliceAxis(x, 3, turned, size - turned)}, 3);
  if (flat) y = reshape(transpose(y, {0, 2, 1, 3}), given);
  return c.out(0, y), Ok{};
}

constexpr OpRow kOps[] = {
    {"MatMul", matMul, 2, 2},          {"Gemm", gemm, 2, 3},
    {"Einsum", einsum, 1, -1},         {"Attention", attention, 3, 7, 4},
    {"RotaryEmbedding", rotary, 3, 4},
};

}  // namespace

std::span<const OpRow> contractionOps() {
  return kOps;
}

}  // namespace rlx::onnx
