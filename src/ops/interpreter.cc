#include "ops/interpreter.h"

#include "ops/op.h"

namespace rlx {

Result<Bindings> bindInputs(const Graph& g,
                            const std::vector<std::pair<DType, std::vector<int64_t>>>& inputs) {
  RLX_CHECK(inputs.size() == g.inputs.size(), "input count");
  Bindings b;
  auto shapeText = [](const std::vector<int64_t>& s) { return text(Shape(s.begin(), s.end())); };
  // First the bare symbols, then everything that follows from them.
  for (const bool bare : {true, false}) {
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      const TensorType& want = g.type(g.inputs[k].value);
      const auto& [dtype, shape] = inputs[k];
      if (dtype != want.dtype || shape.size() != want.shape.size())
        return Error(Errc::InputType, "input '" + g.inputs[k].name + "' has type " +
                                          std::string(name(dtype)) + shapeText(shape) +
                                          ", expected " + text(want));
      for (std::size_t d = 0; d < shape.size(); ++d) {
        const std::string_view symbol = want.shape[d].symbolName();
        if (bare != !symbol.empty()) continue;
        if (bare) {
          if (const int64_t* have = b.find(symbol); have && *have != shape[d])
            return Error(Errc::SymbolConflict,
                         "symbol '" + std::string(symbol) + "' is " + std::to_string(*have) +
                             " and, on axis " + std::to_string(d) + " of input '" +
                             g.inputs[k].name + "', " + std::to_string(shape[d]));
          b.set(symbol, shape[d]);
          continue;
        }
        auto v = want.shape[d].evaluate(b);
        if (!v) return std::move(v).error().note("in the type of input '" + g.inputs[k].name + "'");
        if (*v != shape[d])
          return Error(Errc::InputType,
                       "input '" + g.inputs[k].name + "' has extent " + std::to_string(shape[d]) +
                           " on axis " + std::to_string(d) + ", expected " + want.shape[d].text() +
                           (want.shape[d].isConst() ? "" : " = " + std::to_string(*v)));
      }
    }
  }
  return b;
}

static bool extentsMatter(OpKind op) {
  return op == OpKind::Slice || op == OpKind::Pad || op == OpKind::Conv || op == OpKind::Pool ||
         op == OpKind::Gather || op == OpKind::GatherElements || op == OpKind::GatherNd ||
         op == OpKind::Embedding || op == OpKind::ArgReduce || op == OpKind::TopK;
}

Status checkExtents(const Graph& g, const Bindings& bindings) {
  std::vector<std::pair<std::string, Dim>> with;
  for (const auto& [symbol, value] : bindings.entries()) with.emplace_back(symbol, Dim(value));
  if (with.empty()) return Ok{};
  for (const Node& n : g.nodes) {
    if (!extentsMatter(n.op)) continue;
    bool symbolic = false;
    std::vector<TensorType> types;
    std::vector<bool> present;
    for (const ValueId v : n.inputs) {
      present.push_back(static_cast<bool>(v));
      types.push_back(v ? g.type(v) : TensorType{});
      for (Dim& d : types.back().shape)
        if (!d.isConst()) d = d.substitute(with), symbolic = true;
    }
    std::vector<std::string> used;
    opInfo(n.op).symbols(n.attrs, used);
    if (!symbolic && used.empty()) continue;
    const Attrs attrs = used.empty() ? n.attrs : opInfo(n.op).substitute(n.attrs, with);
    auto inferred = inferNode(n.op, types, present, attrs, n.regions);
    if (!inferred) return std::move(inferred).error().node(n.name).note("for the given inputs");
  }
  return Ok{};
}

static Result<std::vector<RefTensor>> run(const Graph& g, std::span<const RefTensor> inputs,
                                          bool keepAll) {
  std::vector<std::pair<DType, std::vector<int64_t>>> types;
  for (const RefTensor& t : inputs) types.emplace_back(t.dtype, t.shape);
  RLX_OK(checkSymbols(g));
  RLX_TRY(const Bindings bindings, bindInputs(g, types));
  RLX_OK(checkExtents(g, bindings));
  std::vector<RefTensor> values(g.values.size());
  std::vector<uint32_t> lastUse(g.values.size(), 0);
  for (uint32_t n = 0; n < g.nodes.size(); ++n)
    for (const ValueId v : g.nodes[n].inputs)
      if (v) lastUse[v.index] = n;
  for (const Port& p : g.outputs) lastUse[p.value.index] = UINT32_MAX;
  for (std::size_t k = 0; k < g.inputs.size(); ++k) values[g.inputs[k].value.index] = inputs[k];
  for (uint32_t n = 0; n < g.nodes.size(); ++n) {
    const Node& node = g.nodes[n];
    if (node.op == OpKind::Input) continue;
    std::vector<const RefTensor*> in;
    for (const ValueId v : node.inputs) in.push_back(v ? &values[v.index] : nullptr);
    std::vector<RefType> results;
    for (const ValueId v : node.results) {
      RefType t{g.type(v).dtype, {}};
      for (const Dim& d : g.type(v).shape) {
        RLX_TRY(const int64_t e, d.evaluate(bindings));
        if (e < 0)
          return Error(Errc::ShapeMismatch, std::string(name(node.op)) + ": extent " + d.text() +
                                                " is " + std::to_string(e))
              .node(node.name);
        t.shape.push_back(e);
      }
      int64_t count = 1;
      for (const int64_t e : t.shape)
        if (__builtin_mul_overflow(count, e, &count) || count > INT32_MAX)
          return Error(Errc::Unsupported,
                       std::string(name(node.op)) + ": a tensor of more than 2^31 - 1 elements")
              .node(node.name);
      results.push_back(std::move(t));
    }
    auto out = opDef(node.op).reference(RefContext{node.op, node.attrs, in, results, bindings});
    if (!out) return std::move(out).error().node(node.name);
    for (std::size_t k = 0; k < out->size(); ++k)
      values[node.results[k].index] = std::move((*out)[k]);
    if (!keepAll)
      for (const ValueId v : node.inputs)
        if (v && lastUse[v.index] == n) values[v.index] = RefTensor();
  }
  return values;
}

Result<std::vector<RefTensor>> interpretAll(const Graph& g, std::span<const RefTensor> inputs) {
  return run(g, inputs, true);
}

Result<std::vector<RefTensor>> interpret(const Graph& g, std::span<const RefTensor> inputs) {
  RLX_TRY(std::vector<RefTensor> all, run(g, inputs, false));
  std::vector<RefTensor> out;
  for (const Port& p : g.outputs) out.push_back(all[p.value.index]);
  return out;
}

}  // namespace rlx
