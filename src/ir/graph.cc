#include "ir/graph.h"

#include <algorithm>

#include "ir/builder.h"

namespace rlx {

std::string text(const TensorType& t) {
  return std::string(name(t.dtype)) + text(t.shape);
}

std::vector<std::string> Graph::symbols() const {
  std::vector<std::string> out;
  for (const Port& p : inputs)
    for (const Dim& d : type(p.value).shape) d.symbols(out);
  return out;
}

Result<std::vector<TensorType>> inferNode(OpKind op, const std::vector<TensorType>& types,
                                          const std::vector<bool>& present, const Attrs& attrs,
                                          const std::vector<Graph>& regions) {
  const OpInfo& d = opInfo(op);
  const auto n = static_cast<int>(types.size());
  if (n < d.minInputs || (d.maxInputs >= 0 && n > d.maxInputs))
    return Error(Errc::InvalidArgument,
                 std::string(d.name) + ": takes " + std::to_string(d.minInputs) +
                     (d.maxInputs == d.minInputs ? ""
                      : d.maxInputs < 0          ? " or more"
                                                 : " to " + std::to_string(d.maxInputs)) +
                     " operands, got " + std::to_string(n));
  for (int i = 0; i < d.minInputs; ++i)
    if (!present[static_cast<std::size_t>(i)])
      return Error(Errc::InvalidArgument,
                   std::string(d.name) + ": operand " + std::to_string(i) + " is absent");
  return d.infer(InferContext{op, types, present, attrs, regions});
}

static std::string place(const Node& n) {
  return std::string(name(n.op)) + (n.name.empty() ? "" : " '" + n.name + "'") +
         (n.location.empty() ? "" : " at " + n.location);
}

static Status verifyNode(const Graph& g, uint32_t index, int depth) {
  const Node& n = g.nodes[index];
  const OpInfo& d = opInfo(n.op);
  auto bad = [&](std::string what) {
    return Error(Errc::BadGraph, place(n) + ": " + std::move(what)).node(n.name);
  };
  if (g.stage == Stage::Primitive && d.composite) return bad("a composite in the primitive stage");
  std::vector<TensorType> types;
  std::vector<bool> present;
  for (const ValueId v : n.inputs) {
    present.push_back(static_cast<bool>(v));
    if (!v) {
      types.emplace_back();
      continue;
    }
    if (v.index >= g.values.size())
      return bad("operand %" + std::to_string(v.index) + " does not exist");
    if (g.value(v).node.index >= index)
      return bad("operand %" + std::to_string(v.index) + " is used before its definition");
    types.push_back(g.type(v));
  }
  for (const Graph& r : n.regions) {
    if (r.stage != g.stage) return bad("a region of another stage");
    if (depth > 32) return bad("regions nested deeper than 32");
    if (auto s = verify(r); !s) return std::move(s).error().note("in a region of " + place(n));
  }
  if (n.attrs.has() != (d.attrs != nullptr)) return bad("attributes missing or not expected");
  auto inferred = inferNode(n.op, types, present, n.attrs, n.regions);
  if (!inferred) return std::move(inferred).error().node(n.name).note("in " + place(n));
  if (inferred->size() != n.results.size())
    return bad("has " + std::to_string(n.results.size()) + " results, its rule gives " +
               std::to_string(inferred->size()));
  for (std::size_t i = 0; i < n.results.size(); ++i) {
    const ValueId v = n.results[i];
    if (v.index >= g.values.size() || g.value(v).node.index != index || g.value(v).result != i)
      return bad("result " + std::to_string(i) + " is not linked back to its node");
    if (g.type(v) != (*inferred)[i])
      return bad("result " + std::to_string(i) + " has type " + text(g.type(v)) +
                 ", its rule gives " + text((*inferred)[i]));
  }
  return Ok{};
}

Status verify(const Graph& g) {
  for (uint32_t i = 0; i < g.nodes.size(); ++i) RLX_OK(verifyNode(g, i, 0));
  std::vector<std::string_view> names;
  auto port = [&](const Port& p, const char* kind) -> Status {
    if (p.value.index >= g.values.size())
      return Error(Errc::BadGraph, std::string(kind) + " '" + p.name + "' has no value");
    if (std::find(names.begin(), names.end(), p.name) != names.end())
      return Error(Errc::BadGraph, std::string(kind) + " name '" + p.name + "' is used twice");
    names.push_back(p.name);
    return Ok{};
  };
  for (const Port& p : g.inputs) {
    RLX_OK(port(p, "input"));
    if (g.definition(p.value).op != OpKind::Input)
      return Error(Errc::BadGraph, "input '" + p.name + "' is not the result of an input node");
  }
  names.clear();
  for (const Port& p : g.outputs) RLX_OK(port(p, "output"));
  return Ok{};
}

Status checkSymbols(const Graph& g) {
  const std::vector<std::string> known = g.symbols();
  for (const Node& n : g.nodes) {
    if (n.op == OpKind::Input || n.op == OpKind::Constant || !opInfo(n.op).symbols) continue;
    std::vector<std::string> used;
    opInfo(n.op).symbols(n.attrs, used);
    for (const std::string& s : used)
      if (!std::binary_search(known.begin(), known.end(), s))
        return Error(Errc::BadGraph, place(n) + ": symbol '" + s + "' is in no input's type")
            .node(n.name);
  }
  return Ok{};
}

}  // namespace rlx
