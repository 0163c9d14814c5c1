// ONNX gathers, scatters, one-hot and reversal.
#include <algorithm>

#include "import/onnx_import.h"

namespace rlx::onnx {
namespace {

Status gatherOp(Call& c) {
  const Value x = c.in(0);
  RLX_TRY(const int64_t axis, c.axis("axis", 0, x.rank()));
  return c.out(0, gather(x, c.in(1), axis)), Ok{};
}

Status gatherElementsOp(Call& c) {
  const Value x = c.in(0);
  RLX_TRY(const int64_t axis, c.axis("axis", 0, x.rank()));
  return c.out(0, gatherElements(x, c.in(1), axis)), Ok{};
}

Status gatherNd(Call& c) {
  const GatherNdAttrs a{c.attr("batch_dims", int64_t{0})};
  return c.out(0, c.b.emit(OpKind::GatherNd, {c.in(0), c.in(1)}, Attrs::of(a))), Ok{};
}

Result<ScatterKind> reduction(Call& c) {
  const std::string text = c.attr("reduction", std::string_view("none"));
  const char* const* all = spellings(ScatterKind{});
  for (std::size_t k = 0; all[k]; ++k)
    if (text == all[k]) return static_cast<ScatterKind>(k);
  return c.bad("reduction '" + text + "'");
}

Status scatterElements(Call& c) {
  RLX_TRY(const int64_t axis, c.axis("axis", 0, c.in(0).rank()));
  RLX_TRY(const ScatterKind kind, reduction(c));
  return c.out(0, c.b.emit(OpKind::ScatterElements, {c.in(0), c.in(1), c.in(2)},
                           Attrs::of(ScatterAttrs{axis, kind}))),
         Ok{};
}

Status scatterNd(Call& c) {
  RLX_TRY(const ScatterKind kind, reduction(c));
  return c.out(0, c.b.emit(OpKind::ScatterNd, {c.in(0), c.in(1), c.in(2)},
                           Attrs::of(ScatterAttrs{0, kind}))),
         Ok{};
}

Status oneHot(Call& c) {
  const Value indices = c.in(0), values = c.in(2);
  std::vector<Dim> depth;
  if (const Extents* e = c.extents(1)) {
    depth = e->dims;
  } else {
    RLX_TRY(const double d, c.number(1));
    depth = {Dim(static_cast<int64_t>(std::clamp(d, 0.0, 1e12)))};
  }
  if (depth.size() != 1) return c.bad("depth must be one number");
  RLX_TRY(const int64_t axis, normalizeAxis(c.node.op, c.attr("axis", int64_t{-1}),
                                            static_cast<std::size_t>(indices.rank()) + 1));
  Value at = convert(indices, DType::I64);
  const Value n = dimValue(c.b, DType::I64, depth[0]);
  at = choose(apply(ScalarOp::Lt, at, literal(at, 0)), at + n, at);
  Shape s = at.shape(), line(s.size() + 1, Dim(1));
  s.insert(s.begin() + std::min(axis, static_cast<int64_t>(s.size())), Dim(1));
  line[static_cast<std::size_t>(axis)] = depth[0];
  const Value hit = apply(ScalarOp::Eq, reshape(at, s), iota(c.b, DType::I64, line, axis));
  if (values.rank() != 1) return c.bad("values of rank " + std::to_string(values.rank()));
  const Value off = reshape(sliceAxis(values, 0, Dim(0), Dim(1)), {}),
              on = reshape(sliceAxis(values, 0, Dim(1), Dim(1)), {});
  return c.out(0, choose(hit, on, off)), Ok{};
}

// Element i of a sequence of length n becomes n - 1 - i; what is behind the length stays.
Status reverseSequence(Call& c) {
  const Value x = c.in(0);
  RLX_TRY(const int64_t time, c.axis("time_axis", 0, x.rank()));
  RLX_TRY(const int64_t batch, c.axis("batch_axis", 1, x.rank()));
  if (time == batch) return c.bad("time_axis and batch_axis are the same");
  Shape line(x.shape().size(), Dim(1)), rows = line;
  line[static_cast<std::size_t>(time)] = extent(x, time);
  rows[static_cast<std::size_t>(batch)] = extent(x, batch);
  const Value at = iota(c.b, DType::I64, line, time);
  const Value length = reshape(convert(c.in(1), DType::I64), rows);
  const Value from = choose(apply(ScalarOp::Lt, at, length), length - literal(length, 1) - at, at);
  return c.out(0, gatherElements(x, broadcastTo(from, x.shape()), time)), Ok{};
}

// With a condition that is known at import: a gather.
Status compress(Call& c) {
  Value x = c.in(0);
  RLX_TRY(const auto keep, c.integers(1));
  int64_t axis = 0;
  if (c.hasAttr("axis")) {
    RLX_TRY(axis, c.axis("axis", 0, x.rank()));
  } else {
    x = reshape(x, {elements(x.shape())});
  }
  std::vector<int64_t> at;
  for (std::size_t k = 0; k < keep.size(); ++k)
    if (keep[k]) at.push_back(static_cast<int64_t>(k));
  const auto n = static_cast<int64_t>(at.size());
  return c.out(0, gather(x, constantInts(c.b, {n}, at), axis)), Ok{};
}

// With contents that are known at import: a constant.
Status nonZero(Call& c) {
  const Value x = c.in(0);
  RLX_TRY(const auto v, c.numbers(0));
  std::vector<int64_t> shape;
  for (const Dim& d : x.shape()) shape.push_back(d.isConst() ? d.value() : 0);
  const std::size_t rank = std::max<std::size_t>(shape.size(), 1);
  std::vector<std::vector<int64_t>> found(rank);
  std::vector<int64_t> at(shape.size(), 0);
  for (const double d : v) {
    if (d != 0)
      for (std::size_t k = 0; k < rank; ++k) found[k].push_back(shape.empty() ? 0 : at[k]);
    nextIndex(at, shape);
  }
  std::vector<int64_t> flat;
  for (const auto& f : found) flat.insert(flat.end(), f.begin(), f.end());
  const auto n = static_cast<int64_t>(found[0].size());
  return c.out(0, Literal::of(DType::I64, {static_cast<int64_t>(rank), n}, flat)), Ok{};
}

constexpr OpRow kOps[] = {
    {"Gather", gatherOp, 2, 2},
    {"GatherElements", gatherElementsOp, 2, 2},
    {"GatherND", gatherNd, 2, 2},
    {"Scatter", scatterElements, 3, 3},
    {"ScatterElements", scatterElements, 3, 3},
    {"ScatterND", scatterNd, 3, 3},
    {"OneHot", oneHot, 3, 3},
    {"ReverseSequence", reverseSequence, 2, 2},
    {"Compress", compress, 2, 2},
    {"NonZero", nonZero},
};

}  // namespace

std::span<const OpRow> indexingOps() {
  return kOps;
}

}  // namespace rlx::onnx
