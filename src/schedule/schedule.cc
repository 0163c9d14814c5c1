#include "schedule/schedule.h"

#include <algorithm>

#include "ops/attrs.h"
#include "ops/op.h"
#include "schedule/chain.h"
#include "schedule/lower.h"

namespace rlx {
namespace {

constexpr double kRecompute = 6;  // a map this cheap is computed again rather than stored
constexpr double kLongest = 120;  // of a chain of maps in one kernel

class Scheduler {
 public:
  Scheduler(const Graph& g, const Caps& caps, std::span<const NativeKernel* const> natives)
      : graph_(g), caps_(caps), natives_(natives) {}

  Result<Program> run() {
    consumers_.resize(graph_.values.size());
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n)
      for (const ValueId v : graph_.nodes[n].inputs)
        if (v) consumers_[v.index].push_back(n);
    forced_.assign(graph_.values.size(), false);
    redirectResults();
    // Each retry makes at least one more value resident.
    for (std::size_t attempt = 0; attempt <= graph_.values.size(); ++attempt) {
      decide();
      bool retry = false;
      std::vector<LoweredRegion> regions;
      std::vector<ValueId> roots;
      for (uint32_t n = 0; n < graph_.nodes.size() && !retry; ++n) {
        const Node& node = graph_.nodes[n];
        if (node.op == OpKind::Input || node.op == OpKind::Constant) continue;
        for (const ValueId v : node.results) {
          if (!live_[v.index]) continue;
          if (natives_[n] && finishedBy_[v.index]) continue;
          if (natives_[n]) {
            RLX_TRY(LoweredRegion r, native(n));
            regions.push_back(std::move(r));
            roots.push_back(redirected_[v.index] ? redirected_[v.index] : v);
            continue;
          }
          if (!residency_.of(v) || apart_[v.index]) continue;
          LoweredRegion r;
          if (finishes_[v.index]) {
            RLX_TRY(r, finished(v));
          } else {
            RLX_TRY(r, lowerRegion(graph_, residency_, v, caps_));
            limitBindings(r);
          }
          if (!r.violations.empty()) {
            for (const ValueId x : r.violations) forced_[x.index] = true;
            retry = true;
            break;
          }
          regions.push_back(std::move(r));
          roots.push_back(v);
        }
      }
      if (!retry) return assemble(std::move(regions), roots);
    }
    return Error(Errc::Internal, "scheduling does not settle");
  }

 private:
  // The value behind chains that only move elements.
  ValueId behindMoves(ValueId v) const {
    for (;;) {
      const Node& n = graph_.definition(v);
      if (!opDef(n.op).indexOnly || n.inputs.empty() || !n.inputs[0]) return v;
      v = n.inputs[0];
    }
  }
  bool isLeaf(ValueId v) const {
    const OpKind op = graph_.definition(v).op;
    return op == OpKind::Input || op == OpKind::Constant;
  }

  void decide() {
    const std::size_t count = graph_.values.size();
    residency_.resident.assign(count, false);
    live_.assign(count, false);
    root_.assign(count, ValueId{});
    many_.assign(count, false);
    cost_.assign(count, 0);
    finishedBy_.assign(count, ValueId{});
    finishes_.assign(count, ValueId{});
    std::vector<bool>& resident = residency_.resident;
    for (std::size_t v = 0; v < count; ++v) resident[v] = forced_[v];
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n)
      if (natives_[n])
        for (const StridedView& x : operandsOf(n)) resident[x.base.index] = true;
    for (std::size_t v = 0; v < count; ++v)
      if (apart_[v]) resident[v] = true;
    for (const Port& p : graph_.outputs) resident[p.value.index] = live_[p.value.index] = true;
    // Costs of chains, forwards, as if everything cheap were inlined.
    for (const Node& n : graph_.nodes)
      for (const ValueId v : n.results) {
        const OpDef& d = opDef(n.op);
        double c = d.indexOnly || isLeaf(v) ? 0 : d.cost;
        if (d.element)
          for (const ValueId x : n.inputs)
            if (x && opDef(graph_.definition(x).op).element && !resident[x.index])
              c += cost_[x.index];
        cost_[v.index] = c;
        if (c > kLongest) resident[v.index] = true, cost_[v.index] = 0;
      }
    for (uint32_t n = static_cast<uint32_t>(graph_.nodes.size()); n-- > 0;) {
      const Node& node = graph_.nodes[n];
      const OpDef& def = opDef(node.op);
      for (const ValueId v : node.results) {
        for (const uint32_t c : consumers_[v.index])
          for (const ValueId r : graph_.nodes[c].results)
            if (live_[r.index]) live_[v.index] = true;
        if (!live_[v.index]) continue;
        if (isLeaf(v)) {
          resident[v.index] = true;
          continue;
        }
        findRoot(v);
        if (natives_[n] && takesEpilogue(n, v)) {
          finishedBy_[v.index] = root_[v.index];
          finishes_[root_[v.index].index] = v;
        }
        if ((natives_[n] && !redirected_[v.index] && !finishedBy_[v.index]) || def.scanStep)
          resident[v.index] = true;
        if (!resident[v.index] && def.fold && !inlinable(node, v)) resident[v.index] = true;
        if (!resident[v.index] && def.element && many_[v.index] && cost_[v.index] > kRecompute)
          resident[v.index] = true;
        // What this node asks of its operands.
        if (natives_[n])
          for (const StridedView& x : operandsOf(n)) resident[x.base.index] = true;
        else if (def.reuses)
          for (const ValueId x : node.inputs) {
            if (!x) continue;
            const ValueId source = behindMoves(x);
            if (!opDef(graph_.definition(source).op).indexOnly) resident[source.index] = true;
          }
      }
    }
  }

  // The one resident value that v is computed for, or many.
  void findRoot(ValueId v) {
    for (const uint32_t c : consumers_[v.index]) {
      for (const ValueId r : graph_.nodes[c].results) {
        if (!live_[r.index]) continue;
        const bool ends = residency_.of(r);
        if (!ends && many_[r.index]) many_[v.index] = true;
        const ValueId found = ends ? r : root_[r.index];
        if (root_[v.index] && found && root_[v.index].index != found.index) many_[v.index] = true;
        if (found) root_[v.index] = found;
      }
    }
  }

  bool inlinable(const Node& node, ValueId v) const {
    if (many_[v.index] || !root_[v.index]) return false;
    const ValueId root = root_[v.index];
    const OpDef& rootDef = opDef(graph_.definition(root).op);
    if (rootDef.scanStep) return false;
    if (node.op == OpKind::Reduce) {
      // A row that is reduced and used again: the region checks that it is one.
      if (trailingAxes(graph_, node) > 0) return true;
    }
    return rootDef.element && mapsToRoot(v);
  }

  // Maps of the same element count from here to the root, each used once.
  bool mapsToRoot(ValueId v) const {
    const ValueId root = root_[v.index];
    const Dim n = elements(graph_.type(v).shape);
    ValueId at = v;
    while (at.index != root.index) {
      if (consumers_[at.index].size() != 1) return false;
      const Node& next = graph_.nodes[consumers_[at.index][0]];
      if (!elementwise(next, n)) return false;
      at = next.results[0];
    }
    return true;
  }
  // Maps of the same element count from here to the root along every way.
  bool mapsOnly(ValueId v) const {
    const ValueId root = root_[v.index];
    const Dim n = elements(graph_.type(v).shape);
    std::vector<ValueId> ahead{v};
    std::vector<bool> seen(graph_.values.size());
    while (!ahead.empty()) {
      const ValueId at = ahead.back();
      ahead.pop_back();
      if (at == root || seen[at.index]) continue;
      seen[at.index] = true;
      for (const uint32_t c : consumers_[at.index]) {
        if (!live_[graph_.nodes[c].results[0].index]) continue;
        if (!elementwise(graph_.nodes[c], n)) return false;
        ahead.push_back(graph_.nodes[c].results[0]);
      }
    }
    return true;
  }
  bool elementwise(const Node& node, const Dim& count) const {
    return opDef(node.op).element && node.op != OpKind::Gather &&
           node.op != OpKind::GatherElements && node.op != OpKind::GatherNd &&
           node.op != OpKind::Pad && node.op != OpKind::Concat &&
           elements(graph_.type(node.results[0]).shape) == count;
  }

  // Whether what follows the result v of a native node becomes part of its step.
  bool takesEpilogue(uint32_t n, ValueId v) const {
    const ValueId root = root_[v.index];
    if (!caps_.parts || !natives_[n]->columns || redirected_[v.index] || forced_[v.index] ||
        many_[v.index] || !root || root == v || finishes_[root.index] || apart_[root.index] ||
        !(graph_.type(root) == graph_.type(v)))
      return false;
    for (const Port& p : graph_.outputs)
      if (p.value == v) return false;
    const Node& last = graph_.definition(root);
    return !natives_[graph_.value(root).node.index] && opDef(last.op).element && mapsOnly(v);
  }

  // The native kernel behind `root` and everything from there to it, as one step.
  Result<LoweredRegion> finished(ValueId root) {
    const ValueId under = finishes_[root.index];
    const uint32_t n = graph_.value(under).node.index;
    NativeQuery q{graph_, {n}, caps_, operandsOf(n)};
    RLX_TRY(LoweredRegion after,
            lowerEpilogue(graph_, residency_, root, under, natives_[n]->columns(q), caps_));
    if (!after.violations.empty()) {
      after.violations = {under};
      return after;
    }
    RLX_TRY(LoweredRegion r, native(n));
    r.reads.pop_back();
    r.reads.insert(r.reads.end(), after.reads.begin(), after.reads.end());
    Step &s = r.step, &a = after.step;
    s.finished = true;
    s.local.resize(s.views.size());
    s.local.insert(s.local.end(), a.local.begin(), a.local.end());
    s.kernel = std::move(a.kernel);
    s.grid = std::move(a.grid);
    s.params = std::move(a.params);
    s.nodes.insert(s.nodes.end(), a.nodes.begin(), a.nodes.end());
    s.label += "+" + a.label;
    return r;
  }

  // Too many buffers for one kernel: its costliest inlined operand moves to memory.
  void limitBindings(LoweredRegion& r) {
    if (!r.violations.empty() || static_cast<int32_t>(r.reads.size()) <= caps_.maxBindings) return;
    ValueId pick;
    for (const NodeId id : r.step.nodes) {
      const ValueId v = graph_.node(id).results[0];
      if (v.index == r.reads.back().index || residency_.of(v)) continue;
      if (!pick || cost_[v.index] > cost_[pick.index]) pick = v;
    }
    if (pick) r.violations.push_back(pick);
  }

  // A native result that is only transposed, and then seen in a way that needs the transposed order
  // in memory, is written in that order at once.
  void redirectResults() {
    redirected_.assign(graph_.values.size(), ValueId{});
    apart_.assign(graph_.values.size(), false);
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      if (!natives_[n] || !natives_[n]->writes) continue;
      const ValueId v = graph_.nodes[n].results[0];
      if (consumers_[v.index].size() != 1 || isOutput(v)) continue;
      const Node& move = graph_.nodes[consumers_[v.index][0]];
      if (move.op != OpKind::Transpose) continue;
      const ValueId t = move.results[0];
      bool copied = false;
      for (const uint32_t c : consumers_[t.index]) {
        if (graph_.nodes[c].op != OpKind::Reshape) continue;
        const ValueId y = graph_.nodes[c].results[0];
        copied = copied || stridedView(graph_, y).base == y;
      }
      NativeQuery q{graph_, {n}, caps_, operandsOf(n)};
      if (!copied || !natives_[n]->writes(q, transposedResult(n, t))) continue;
      redirected_[v.index] = t;
      apart_[t.index] = true;
      if (allAccept()) continue;
      redirected_[v.index] = ValueId{};
      apart_[t.index] = false;
    }
  }
  // Natives were chosen by the views of row-major results.
  bool allAccept() const {
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      if (!natives_[n]) continue;
      NativeQuery q{graph_, {n}, caps_, operandsOf(n)};
      bool changed = false;
      for (const StridedView& x : q.operands) changed = changed || apart_[x.base.index];
      if (changed && !natives_[n]->accepts(q)) return false;
    }
    return true;
  }
  bool isOutput(ValueId v) const {
    return std::any_of(graph_.outputs.begin(), graph_.outputs.end(),
                       [&](const Port& p) { return p.value == v; });
  }
  // The result of node n inside the buffer of its transpose t.
  StridedView transposedResult(uint32_t n, ValueId t) const {
    StridedView s = rowMajorView(graph_, t);
    const std::vector<Dim> to = s.strides;
    const auto& perm = graph_.definition(t).attrs.as<TransposeAttrs>().perm;
    s.shape = graph_.type(graph_.nodes[n].results[0]).shape;
    s.strides.resize(s.shape.size());
    for (std::size_t k = 0; k < perm.size(); ++k)
      s.strides[static_cast<std::size_t>(perm[k])] = to[k];
    return s;
  }

  // Of a node with a native kernel.
  std::vector<StridedView> operandsOf(uint32_t n) const {
    return operandViews(graph_, graph_.nodes[n], *natives_[n], &apart_);
  }

  Result<LoweredRegion> native(uint32_t n) {
    const Node& node = graph_.nodes[n];
    LoweredRegion r;
    NativeQuery q{graph_, {n}, caps_, operandsOf(n)};
    for (const StridedView& v : q.operands) r.reads.push_back(v.base);
    const ValueId v = node.results[0], to = redirected_[v.index];
    r.step.result = to ? transposedResult(n, to) : rowMajorView(graph_, v);
    r.reads.push_back(to ? to : v);
    if (natives_[n]->leading && caps_.parts) {
      const Shape& s = graph_.type(v).shape;
      r.step.leading.assign(s.begin(),
                            s.begin() + static_cast<std::ptrdiff_t>(natives_[n]->leading(q)));
    }
    r.step.native = natives_[n];
    RLX_TRY(std::unique_ptr<NativeProgram> made, natives_[n]->make(q));
    r.step.program = std::move(made);
    r.step.views = std::move(q.operands);
    r.step.local.assign(r.reads.size(), false);
    r.step.local.front() = r.step.local.back() = true;
    r.step.nodes = {NodeId{n}};
    r.step.label = std::string(name(node.op)) + " (" + std::string(natives_[n]->name) + ")";
    return r;
  }

  Result<Program> assemble(std::vector<LoweredRegion> regions, const std::vector<ValueId>& roots) {
    Program p;
    std::vector<int32_t> bufferOf(graph_.values.size(), -1);
    auto add = [&](ValueId v) {
      int32_t& b = bufferOf[v.index];
      if (b >= 0) return static_cast<uint32_t>(b);
      b = static_cast<int32_t>(p.buffers.size());
      ProgramBuffer buffer;
      buffer.value = v;
      buffer.dtype = graph_.type(v).dtype;
      buffer.elements = elements(graph_.type(v).shape);
      const Node& n = graph_.definition(v);
      if (n.op == OpKind::Constant) buffer.kind = BufferKind::Constant;
      for (std::size_t k = 0; k < graph_.inputs.size(); ++k)
        if (graph_.inputs[k].value.index == v.index)
          buffer.kind = BufferKind::Input, buffer.port = static_cast<int32_t>(k);
      for (std::size_t k = 0; k < graph_.outputs.size(); ++k)
        if (graph_.outputs[k].value.index == v.index)
          buffer.kind = BufferKind::Output, buffer.port = static_cast<int32_t>(k);
      p.buffers.push_back(std::move(buffer));
      return static_cast<uint32_t>(b);
    };
    for (const Port& in : graph_.inputs) add(in.value);
    for (std::size_t k = 0; k < regions.size(); ++k) {
      LoweredRegion& r = regions[k];
      for (const ValueId v : r.reads) r.step.buffers.push_back(add(v));
      r.step.written = add(roots[k]);
      p.steps.push_back(std::move(r.step));
    }
    return p;
  }

  const Graph& graph_;
  const Caps& caps_;
  std::span<const NativeKernel* const> natives_;
  std::vector<std::vector<uint32_t>> consumers_;
  Residency residency_;
  std::vector<bool> forced_, live_, many_;
  std::vector<ValueId> redirected_;  // by native result: the value that is written in its place
  std::vector<bool> apart_;          // values that are written by such a step
  // By native result: the root of the epilogue that runs over it; by that root: the native result.
  std::vector<ValueId> finishedBy_, finishes_;
  std::vector<ValueId> root_;
  std::vector<double> cost_;
};

// Outputs must be results of their own: one that is an input, a constant or another output is
// copied.
void separateOutputs(Graph& g) {
  std::vector<bool> taken(g.values.size());
  for (Port& p : g.outputs) {
    const OpKind op = g.definition(p.value).op;
    if (op != OpKind::Input && op != OpKind::Constant && !taken[p.value.index]) {
      taken[p.value.index] = true;
      continue;
    }
    Node n;
    n.op = OpKind::Reshape;
    n.inputs = {p.value};
    n.attrs = Attrs::of(ShapeAttrs{g.type(p.value).shape});
    n.name = p.name;
    const ValueId v{static_cast<uint32_t>(g.values.size())};
    n.results = {v};
    g.values.push_back({g.type(p.value), NodeId{static_cast<uint32_t>(g.nodes.size())}, 0});
    g.nodes.push_back(std::move(n));
    p.value = v;
    taken.push_back(true);
  }
}

}  // namespace

Result<Program> schedule(Graph graph, const Caps& caps,
                         std::span<const NativeKernel* const> natives) {
  std::vector<const NativeKernel*> chosen(natives.begin(), natives.end());
  separateOutputs(graph);
  chosen.resize(graph.nodes.size(), nullptr);
  Program p;
  { RLX_TRY(p, Scheduler(graph, caps, chosen).run()); }
  p.graph = std::move(graph);
  if (caps.parts) p.chains = findChains(p);
  return p;
}

}  // namespace rlx
