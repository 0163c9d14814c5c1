// Strided views: reshape, transpose, slice and broadcast seen as address arithmetic, and
// conversions that a reader of the view makes itself.
#include "ops/attrs.h"
#include "ops/op.h"
#include "schedule/schedule.h"

namespace rlx {
namespace {

// Strides of a reshaped view, where the reshape only splits axes, merges contiguous ones, or adds
// and drops axes of extent 1.
bool reshapeStrides(const Shape& from, const std::vector<Dim>& strides, const Shape& to,
                    std::vector<Dim>* out) {
  out->assign(to.size(), Dim(0));
  std::size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    if (i < from.size() && from[i].is(1)) {
      ++i;
      continue;
    }
    if (j < to.size() && to[j].is(1)) {
      ++j;
      continue;
    }
    if (i >= from.size() || j >= to.size()) return false;
    std::size_t i2 = i + 1, j2 = j + 1;
    Dim pi = from[i], pj = to[j];
    while (!(pi == pj)) {
      Dim q;
      if (divideExactly(pi, pj, &q) && j2 < to.size())
        pj = pj * to[j2++];
      else if (divideExactly(pj, pi, &q) && i2 < from.size())
        pi = pi * from[i2++];
      else
        return false;
    }
    // Merged source axes must be contiguous with each other.
    for (std::size_t k = i; k + 1 < i2; ++k)
      if (!from[k + 1].is(1) && !(strides[k] == strides[k + 1] * from[k + 1])) return false;
    Dim stride = strides[i2 - 1];
    for (std::size_t k = j2; k-- > j;) {
      (*out)[k] = stride;
      stride = stride * to[k];
    }
    i = i2, j = j2;
  }
  return true;
}

std::vector<Dim> contiguous(const Shape& s) {
  std::vector<Dim> strides(s.size(), Dim(1));
  for (std::size_t k = s.size(); k-- > 1;) strides[k - 1] = strides[k] * s[k];
  return strides;
}

// Whether every value of one float dtype is a value of the other.
bool widensExactly(DType from, DType to) {
  return isFloat(from) && isFloat(to) && info(from).mantissaBits <= info(to).mantissaBits &&
         info(from).exponentBits <= info(to).exponentBits;
}

}  // namespace

void NativeProgram::runPart(const NativeCall&, int64_t, int64_t, int64_t) {
  RLX_UNREACHABLE("a native kernel without leading axes");
}
int64_t NativeProgram::grain(const NativeCall&, int64_t) const {
  return 1;
}

StridedView rowMajorView(const Graph& g, ValueId v) {
  const TensorType& t = g.type(v);
  return {v, t.dtype, Dim(0), t.shape, contiguous(t.shape)};
}

StridedView stridedView(const Graph& g, ValueId v, const std::vector<bool>* resident,
                        uint32_t widens) {
  const Node& n = g.definition(v);
  const TensorType& t = g.type(v);
  StridedView own = rowMajorView(g, v);
  if (resident && (*resident)[v.index]) return own;
  if (n.op == OpKind::Convert) {
    StridedView s = stridedView(g, n.inputs[0], resident);
    const bool seen = (widens & bit(s.dtype)) && widensExactly(s.dtype, t.dtype) &&
                      g.definition(s.base).op == OpKind::Constant;
    return seen ? s : own;
  }
  if (n.op != OpKind::Reshape && n.op != OpKind::Transpose && n.op != OpKind::Slice &&
      n.op != OpKind::Broadcast)
    return own;
  StridedView s = stridedView(g, n.inputs[0], resident, widens);
  const Shape from = s.shape;
  s.shape = t.shape;
  if (n.op == OpKind::Transpose) {
    const auto& perm = n.attrs.as<TransposeAttrs>().perm;
    const std::vector<Dim> strides = s.strides;
    for (std::size_t k = 0; k < perm.size(); ++k)
      s.strides[k] = strides[static_cast<std::size_t>(perm[k])];
    return s;
  }
  if (n.op == OpKind::Slice) {
    const auto& a = n.attrs.as<SliceAttrs>();
    for (std::size_t k = 0; k < from.size(); ++k) {
      s.offset = s.offset + a.start[k] * s.strides[k];
      s.strides[k] = s.strides[k] * Dim(a.step[k]);
    }
    return s;
  }
  if (n.op == OpKind::Broadcast) {
    std::vector<Dim> strides(t.shape.size(), Dim(0));
    const std::size_t skip = t.shape.size() - from.size();
    for (std::size_t k = 0; k < from.size(); ++k)
      if (!from[k].is(1) || t.shape[skip + k].is(1)) strides[skip + k] = s.strides[k];
    s.strides = std::move(strides);
    return s;
  }
  std::vector<Dim> strides;
  if (!reshapeStrides(from, s.strides, t.shape, &strides)) return own;
  s.strides = std::move(strides);
  return s;
}

std::vector<StridedView> operandViews(const Graph& g, const Node& node, const NativeKernel& kernel,
                                      const std::vector<bool>* resident) {
  std::vector<StridedView> out;
  for (std::size_t k = 0; k < node.inputs.size(); ++k)
    if (node.inputs[k])
      out.push_back(stridedView(g, node.inputs[k], resident, k > 0 ? kernel.widens : 0));
  return out;
}

}  // namespace rlx
