// The axes of contractions.
#include "backend/cpu/dot_axes.h"

#include <cstring>
#include <numeric>
#include <string>

namespace rlx::cpu {

DotAxes::DotAxes(const NativeQuery& q)
    : attrs(q.get().attrs.as<DotAttrs>()),
      lhsFree(freeAxes(q.operands[0].shape.size(), attrs.lhsBatch, attrs.lhsContract)),
      rhsFree(freeAxes(q.operands[1].shape.size(), attrs.rhsBatch, attrs.rhsContract)),
      resultRows(lhsFree.size()),
      constantRight(q.graph.definition(q.operands[1].base).op == OpKind::Constant &&
                    attrs.rhsBatch.empty()) {
  std::iota(resultRows.begin(), resultRows.end(), static_cast<int64_t>(attrs.lhsBatch.size()));
}

DotMatrices::DotMatrices(const DotAxes& axes, const NativeCall& call) {
  const NativeTensor &a = call.operands[0], &b = call.operands[1];
  m = merged(a, axes.lhsFree);
  n = merged(b, axes.rhsFree);
  ka = merged(a, axes.attrs.lhsContract);
  kb = merged(b, axes.attrs.rhsContract);
  cRow = merged(call.result, axes.resultRows).stride;
  batchAxes = axes.attrs.lhsBatch.size();
  for (std::size_t k = 0; k < batchAxes; ++k) {
    const auto at = static_cast<std::size_t>(axes.attrs.lhsBatch[k]);
    batchExtents[k] = a.shape[at];
    aBatch[k] = a.strides[at];
    bBatch[k] = b.strides[static_cast<std::size_t>(axes.attrs.rhsBatch[k])];
    cBatch[k] = call.result.strides[k];
    batch *= a.shape[at];
  }
}

int64_t DotMatrices::batchOffset(int64_t i, const std::array<int64_t, kBatchAxes>& strides) const {
  int64_t o = 0;
  for (std::size_t k = batchAxes; k-- > 0;) {
    o += i % batchExtents[k] * strides[k];
    i /= batchExtents[k];
  }
  return o;
}

bool DotMatrices::empty(std::byte* result, int64_t elementBytes) const {
  if (m.extent == 0 || n.extent == 0 || batch == 0) return true;
  if (ka.extent != 0) return false;
  for (int64_t i = 0; i < batch; ++i)
    for (int64_t r = 0; r < m.extent; ++r)
      std::memset(result + (batchOffset(i, cBatch) + r * cRow) * elementBytes, 0,
                  static_cast<std::size_t>(n.extent * elementBytes));
  return true;
}

Status acceptsAxes(const NativeQuery& q) {
  const auto& a = q.get().attrs.as<DotAttrs>();
  const StridedView &l = q.operands[0], &r = q.operands[1];
  if (a.lhsBatch.size() > kBatchAxes)
    return Error(Errc::Unsupported, "more than " + std::to_string(kBatchAxes) + " batch axes");
  if (!mergeable(l, freeAxes(l.shape.size(), a.lhsBatch, a.lhsContract)))
    return Error(Errc::Unsupported, "the free axes of the left are not one stride");
  if (!mergeable(r, freeAxes(r.shape.size(), a.rhsBatch, a.rhsContract)))
    return Error(Errc::Unsupported, "the free axes of the right are not one stride");
  if (!mergeable(l, a.lhsContract) || !mergeable(r, a.rhsContract))
    return Error(Errc::Unsupported, "the contracted axes are not one stride");
  return Ok{};
}

// The batch, then rows, only as far as the left operand has these axes in the order of the result.
std::size_t leadingOfDot(const NativeQuery& q) {
  const auto& a = q.get().attrs.as<DotAttrs>();
  const std::size_t batch = a.lhsBatch.size();
  for (std::size_t k = 0; k < batch; ++k)
    if (a.lhsBatch[k] != static_cast<int64_t>(k)) return 0;
  const std::vector<int64_t> rows = freeAxes(q.operands[0].shape.size(), a.lhsBatch, a.lhsContract);
  for (std::size_t k = 0; k < rows.size(); ++k)
    if (rows[k] != static_cast<int64_t>(batch + k)) return batch;
  return batch + rows.size();
}

bool dotWrites(const NativeQuery& q, const StridedView& result) {
  const auto& a = q.get().attrs.as<DotAttrs>();
  const auto batch = static_cast<int64_t>(a.lhsBatch.size());
  const auto rows =
      static_cast<int64_t>(freeAxes(q.operands[0].shape.size(), a.lhsBatch, a.lhsContract).size());
  std::vector<int64_t> m, n;
  for (int64_t k = batch; k < static_cast<int64_t>(result.shape.size()); ++k)
    (k < batch + rows ? m : n).push_back(k);
  return !n.empty() && mergeable(result, m) && mergeable(result, n) &&
         result.strides[static_cast<std::size_t>(n.back())].is(1);
}

std::size_t columnsOfDot(const NativeQuery& q) {
  const auto& a = q.get().attrs.as<DotAttrs>();
  return freeAxes(q.operands[1].shape.size(), a.rhsBatch, a.rhsContract).size();
}

}  // namespace rlx::cpu
