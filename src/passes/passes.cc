#include "passes/passes.h"

#include <algorithm>
#include <unordered_map>

#include "ops/attrs.h"
#include "ops/op.h"

namespace rlx {
namespace {

// Copies `node` into `to` with operands mapped. Types are taken over, not inferred.
void copyNode(Graph& to, const Graph& from, const Node& node, std::vector<ValueId>& map) {
  Node n = node;
  const NodeId id{static_cast<uint32_t>(to.nodes.size())};
  for (ValueId& v : n.inputs)
    if (v) v = map[v.index];
  for (std::size_t k = 0; k < n.results.size(); ++k) {
    const ValueId v{static_cast<uint32_t>(to.values.size())};
    to.values.push_back({from.type(node.results[k]), id, static_cast<uint32_t>(k)});
    map[node.results[k].index] = v;
    n.results[k] = v;
  }
  to.nodes.push_back(std::move(n));
}

Graph shell(const Graph& g) {
  Graph out;
  out.name = g.name;
  out.stage = g.stage;
  return out;
}

void mapPorts(Graph& to, const Graph& from, const std::vector<ValueId>& map) {
  for (const Port& p : from.inputs) to.inputs.push_back({p.name, map[p.value.index]});
  for (const Port& p : from.outputs) to.outputs.push_back({p.name, map[p.value.index]});
}

}  // namespace

Graph removeDead(const Graph& g) {
  std::vector<bool> live(g.nodes.size());
  for (const Port& p : g.outputs) live[g.value(p.value).node.index] = true;
  for (const Port& p : g.inputs) live[g.value(p.value).node.index] = true;
  for (std::size_t n = g.nodes.size(); n-- > 0;)
    if (live[n])
      for (const ValueId v : g.nodes[n].inputs)
        if (v) live[g.value(v).node.index] = true;
  Graph out = shell(g);
  std::vector<ValueId> map(g.values.size());
  for (std::size_t n = 0; n < g.nodes.size(); ++n)
    if (live[n]) copyNode(out, g, g.nodes[n], map);
  mapPorts(out, g, map);
  return out;
}

Graph mergeEqual(const Graph& g) {
  Graph out = shell(g);
  std::vector<ValueId> map(g.values.size());
  std::unordered_map<std::string, uint32_t> seen;  // key: a node of `out`
  for (const Node& n : g.nodes) {
    const bool big =
        n.op == OpKind::Constant && n.attrs.as<ConstantAttrs>().value.bytes.size() > 256;
    if (n.op == OpKind::Input || big || !n.regions.empty()) {
      copyNode(out, g, n, map);
      continue;
    }
    std::string key(name(n.op));
    if (n.op == OpKind::Constant)
      key += toText(n.attrs.as<ConstantAttrs>().value);
    else
      key += n.attrs.text();
    for (const ValueId v : n.inputs) key += v ? "," + std::to_string(map[v.index].index) : ",_";
    const auto [at, fresh] = seen.emplace(std::move(key), static_cast<uint32_t>(out.nodes.size()));
    if (fresh) {
      copyNode(out, g, n, map);
      continue;
    }
    for (std::size_t k = 0; k < n.results.size(); ++k)
      map[n.results[k].index] = out.nodes[at->second].results[k];
  }
  mapPorts(out, g, map);
  return out;
}

Result<Graph> foldConstants(const Graph& g, int64_t maxElements) {
  Graph out = shell(g);
  std::vector<ValueId> map(g.values.size());
  for (const Node& n : g.nodes) {
    bool foldable = n.op != OpKind::Input && n.op != OpKind::Constant && n.regions.empty();
    int64_t operandElements = 0;
    for (const ValueId v : n.inputs) {
      const Node* d = v ? &out.definition(map[v.index]) : nullptr;
      foldable = foldable && (!d || d->op == OpKind::Constant);
      if (foldable && d) operandElements += d->attrs.as<ConstantAttrs>().value.elements();
    }
    for (const ValueId v : n.results) {
      const Dim e = elements(g.type(v).shape);
      foldable =
          foldable && e.isConst() &&
          (e.value() <= maxElements || (opDef(n.op).indexOnly && e.value() <= operandElements));
      for (const Dim& d : g.type(v).shape) foldable = foldable && d.isConst();
      foldable = foldable && isPlain(g.type(v).dtype);
    }
    if (n.op == OpKind::DimValue) foldable = foldable && n.attrs.as<DimAttrs>().value.isConst();
    if (!foldable || operandElements > (int64_t{1} << 22)) {
      copyNode(out, g, n, map);
      continue;
    }
    std::vector<RefTensor> operands;
    operands.reserve(n.inputs.size());
    std::vector<const RefTensor*> in;
    bool readable = true;
    for (const ValueId v : n.inputs) {
      if (!v) {
        in.push_back(nullptr);
        continue;
      }
      auto t = fromLiteral(out.definition(map[v.index]).attrs.as<ConstantAttrs>().value);
      readable = readable && t;
      if (!readable) break;
      operands.push_back(*std::move(t));
      in.push_back(&operands.back());
    }
    std::vector<RefType> results;
    for (const ValueId v : n.results) {
      RefType t{g.type(v).dtype, {}};
      for (const Dim& d : g.type(v).shape) t.shape.push_back(d.value());
      results.push_back(std::move(t));
    }
    const Bindings none;
    auto value = readable ? opDef(n.op).reference(RefContext{n.op, n.attrs, in, results, none})
                          : RefResult(Error(Errc::Unsupported, ""));
    if (!value) {  // an error stays in the graph and is reported when it runs
      copyNode(out, g, n, map);
      continue;
    }
    for (std::size_t k = 0; k < n.results.size(); ++k) {
      RLX_TRY(const std::vector<std::byte> bytes, toBytes((*value)[k]));
      Node c;
      c.op = OpKind::Constant;
      c.name = n.name;
      c.location = n.location;
      c.attrs = Attrs::of(
          ConstantAttrs{n.name, Literal::copy(results[k].dtype, results[k].shape, bytes)});
      const ValueId v{static_cast<uint32_t>(out.values.size())};
      out.values.push_back(
          {g.type(n.results[k]), NodeId{static_cast<uint32_t>(out.nodes.size())}, 0});
      c.results = {v};
      map[n.results[k].index] = v;
      out.nodes.push_back(std::move(c));
    }
  }
  mapPorts(out, g, map);
  return out;
}

Result<Graph> decompose(const Graph& g, const std::vector<bool>& keep,
                        std::vector<uint32_t>* origin) {
  Builder b(g.name, Stage::Model);
  std::vector<Value> map(g.values.size());
  // Round after round would copy large graphs; instead composites inside a decomposition are
  // expanded by running this function on the body until it is all primitive.
  auto expand = [&](auto&& self, OpKind op, std::vector<Value> in, const Attrs& attrs,
                    int depth) -> std::vector<Value> {
    const OpDef& d = opDef(op);
    if (!d.decompose || depth > 16) return b.emitAll(op, std::move(in), attrs);
    Builder body(g.name, Stage::Model);
    std::vector<Value> bodyIn;
    for (std::size_t k = 0; k < in.size(); ++k)
      bodyIn.push_back(in[k] ? body.input("x" + std::to_string(k), in[k].dtype(), in[k].shape())
                             : Value{});
    const std::vector<Value> bodyOut = d.decompose(body, bodyIn, attrs);
    if (body.failed()) {
      b.fail(body.error()->clone());
      return in;
    }
    const Graph& bg = body.graph();
    std::vector<Value> inner(bg.values.size());
    for (std::size_t k = 0; k < in.size(); ++k)
      if (bodyIn[k]) inner[bodyIn[k].id.index] = in[k];
    for (const Node& n : bg.nodes) {
      if (n.op == OpKind::Input) continue;
      std::vector<Value> operands;
      for (const ValueId v : n.inputs) operands.push_back(v ? inner[v.index] : Value{});
      const std::vector<Value> r = self(self, n.op, std::move(operands), n.attrs, depth + 1);
      if (b.failed()) return in;
      for (std::size_t k = 0; k < n.results.size(); ++k) inner[n.results[k].index] = r[k];
    }
    std::vector<Value> out;
    for (const Value& v : bodyOut) out.push_back(inner[v.id.index]);
    return out;
  };
  if (origin) origin->clear();
  for (uint32_t n = 0; n < g.nodes.size(); ++n) {
    const Node& node = g.nodes[n];
    b.setContext(node.name, node.location);
    if (node.op == OpKind::Input) {
      const auto& a = node.attrs.as<InputAttrs>();
      map[node.results[0].index] = b.input(a.name, a.dtype, a.shape);
    } else {
      std::vector<Value> in;
      for (const ValueId v : node.inputs) in.push_back(v ? map[v.index] : Value{});
      const bool kept = n < keep.size() && keep[n];
      const std::vector<Value> r = kept
                                       ? b.emitAll(node.op, std::move(in), node.attrs, node.regions)
                                       : expand(expand, node.op, std::move(in), node.attrs, 0);
      if (b.failed()) break;
      for (std::size_t k = 0; k < node.results.size(); ++k) map[node.results[k].index] = r[k];
    }
    if (origin) origin->resize(b.graph().nodes.size(), n);
  }
  b.setContext({}, {});
  if (!b.failed())
    for (const Port& p : g.outputs) b.output(p.name, map[p.value.index]);
  RLX_TRY(Graph out, std::move(b).finish());
  bool primitive = true;
  for (const Node& n : out.nodes) primitive = primitive && !opInfo(n.op).composite;
  if (primitive) out.stage = Stage::Primitive;
  return out;
}

Result<Graph> specialize(const Graph& g, const std::vector<std::pair<std::string, Dim>>& symbols) {
  Builder b(g.name, g.stage);
  std::vector<Value> map(g.values.size());
  const std::vector<std::string> known = g.symbols();
  for (const auto& [symbol, dim] : symbols)
    if (std::find(known.begin(), known.end(), symbol) == known.end()) {
      std::string list;
      for (const std::string& s : known) list += (list.empty() ? "" : ", ") + s;
      return Error(Errc::InvalidArgument, "the model has no symbol '" + symbol +
                                              "'; it has: " + (list.empty() ? "none" : list));
    }
  for (const Node& node : g.nodes) {
    b.setContext(node.name, node.location);
    if (node.op == OpKind::Input) {
      auto a = node.attrs.as<InputAttrs>();
      for (Dim& d : a.shape) d = d.substitute(symbols);
      map[node.results[0].index] = b.input(a.name, a.dtype, a.shape);
      continue;
    }
    std::vector<Value> in;
    for (const ValueId v : node.inputs) in.push_back(v ? map[v.index] : Value{});
    const OpInfo& info = opInfo(node.op);
    Attrs attrs = node.attrs;
    if (info.substitute) attrs = info.substitute(attrs, symbols);
    const std::vector<Value> r = b.emitAll(node.op, std::move(in), attrs, node.regions);
    if (b.failed()) break;
    for (std::size_t k = 0; k < node.results.size(); ++k) map[node.results[k].index] = r[k];
  }
  b.setContext({}, {});
  if (!b.failed())
    for (const Port& p : g.outputs) b.output(p.name, map[p.value.index]);
  return std::move(b).finish();
}

Result<Graph> simplify(const Graph& g) {
  RLX_TRY(const Graph folded, foldConstants(g));
  return removeDead(mergeEqual(folded));
}

}  // namespace rlx
