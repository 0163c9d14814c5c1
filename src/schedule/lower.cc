#include "schedule/lower.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <unordered_map>
#include <utility>

#include "ops/op.h"
#include "ops/rule.h"

namespace rlx {
namespace {

using kir::Expr;
using kir::ExprKind;
using kir::LoopKind;
using kir::Stmt;
using kir::StmtKind;

constexpr int64_t kMaxGrid = 65535;
constexpr int64_t kFlatChunk = 4096;  // elements of one group of a flat CPU loop
constexpr int kTile = 4;              // results along a fold's tile axis
// Of a block whose reads lie across its writes: so many cache lines are read, each to its end.
constexpr int64_t kAcross = 8, kAlong = 16;

// A block under construction. Values computed in it are remembered and found from inner frames.
struct Frame {
  std::size_t parent = 0, depth = 0;
  std::vector<Stmt> body;
  struct Known {
    ValueId value;
    Index at;
    Expr guard, result;
  };
  std::vector<Known> known;
  std::vector<std::pair<Expr, Expr>> lets;  // expression, its variable
};

class Region {
 public:
  Region(const Graph& graph, const Residency& residency, ValueId root, const Caps& caps)
      : graph_(graph), residency_(residency), root_(root), caps_(caps) {}

  // In the memory of `under` where that is set: lowerEpilogue.
  Result<LoweredRegion> lower(ValueId under = {}, std::size_t columns = 0);

 private:
  friend class NodeContext;

  // ---- Frames and variables
  // A variable is usable in frames at least as deep as its own; a mutable one never moves outward.
  static constexpr std::size_t kPinned = SIZE_MAX;
  uint32_t newVar(const std::string& stem, DType t, std::size_t depth) {
    kernel_.vars.push_back({stem + std::to_string(kernel_.vars.size()), t});
    varDepth_.push_back(depth);
    return static_cast<uint32_t>(kernel_.vars.size() - 1);
  }
  Expr var(uint32_t id) {
    kir::ExprNode n;
    n.kind = ExprKind::Var;
    n.type = kernel_.vars[id].type;
    n.id = id;
    return Expr(std::make_shared<const kir::ExprNode>(std::move(n)));
  }
  // The innermost frame that an expression depends on.
  std::size_t depthOf(const Expr& x) const {
    if (!x) return 0;
    if (x->kind == ExprKind::Var) return varDepth_[x->id];
    if (x->kind == ExprKind::LocalId || x->kind == ExprKind::GroupId) return 0;
    std::size_t d = 0;
    for (const Expr& a : x->args) d = std::max(d, depthOf(a));
    return d;
  }
  std::size_t depthOf(const Index& at) const {
    std::size_t d = 0;
    for (const Expr& e : at) d = std::max(d, depthOf(e));
    return d;
  }
  std::size_t depth() const { return frames_[current_].depth; }
  // The frame of the current chain at a depth, or the current one when that is not as deep.
  std::size_t ancestor(std::size_t depth) const {
    std::size_t f = current_;
    while (frames_[f].depth > depth) f = frames_[f].parent;
    return f;
  }
  void emit(Stmt s) { frames_[current_].body.push_back(std::move(s)); }
  void push() {
    Frame f;
    f.parent = current_, f.depth = depth() + 1;
    frames_.push_back(std::move(f));
    current_ = frames_.size() - 1;
  }
  std::vector<Stmt> pop() {
    std::vector<Stmt> body = std::move(frames_[current_].body);
    current_ = frames_[current_].parent;
    return body;
  }
  // Names x in frame `f`.
  Expr name_(std::size_t f, const std::string& stem, const Expr& x) {
    const uint32_t id = newVar(stem, x->type, frames_[f].depth);
    Stmt s;
    s.kind = StmtKind::Let, s.var = id, s.value = x;
    frames_[f].body.push_back(std::move(s));
    return var(id);
  }
  // A variable of the current frame: what depends on it stays inside.
  Expr pin(const Expr& x) { return name_(current_, "i", x); }
  Expr let(const Expr& x) {
    if (x->kind == ExprKind::Const || x->kind == ExprKind::Var || x->kind == ExprKind::Param)
      return x;
    const std::size_t home = ancestor(depthOf(x));
    for (std::size_t f = home;; f = frames_[f].parent) {
      for (const auto& [e, v] : frames_[f].lets)
        if (kir::same(e, x)) return v;
      if (f == 0) break;
    }
    const Expr v = name_(home, "t", x);
    frames_[home].lets.emplace_back(x, v);
    return v;
  }
  Expr mutableVar(DType t, const Expr& init) {
    const uint32_t id = newVar("acc", t, kPinned);
    Stmt s;
    s.kind = StmtKind::Mutable, s.var = id, s.value = init;
    emit(std::move(s));
    return var(id);
  }
  void assign(const Expr& v, const Expr& value) {
    Stmt s;
    s.kind = StmtKind::Assign, s.var = v->id, s.value = value;
    emit(std::move(s));
  }
  void accumulate(const Expr& v, ScalarOp op, const Expr& value) {
    Stmt s;
    s.kind = StmtKind::Accumulate, s.var = v->id, s.op = op, s.value = value;
    emit(std::move(s));
  }
  // Opens a loop; the caller builds the body and calls closeLoop.
  struct Loop {
    Stmt stmt;
    Expr index;
  };
  Loop openLoop(const Expr& lo, const Expr& hi, LoopKind kind, int64_t step = 1) {
    Loop l;
    l.stmt.kind = StmtKind::For;
    l.stmt.loop = kind, l.stmt.step = step;
    l.stmt.lo = lo, l.stmt.hi = hi;
    push();
    l.stmt.var = newVar("i", DType::I32, depth());
    l.index = var(l.stmt.var);
    return l;
  }
  void closeLoop(Loop l) {
    l.stmt.body = pop();
    emit(std::move(l.stmt));
  }
  void openIf() { push(); }
  void closeIf(const Expr& condition) {
    Stmt s;
    s.kind = StmtKind::If, s.condition = condition;
    s.body = pop();
    emit(std::move(s));
  }
  void barrier() {
    Stmt s;
    s.kind = StmtKind::Barrier;
    emit(std::move(s));
  }

  // ---- Buffers, params, values
  Expr dim(const Dim& d) {
    if (d.isConst()) return kir::index(d.value());
    for (std::size_t k = 0; k < params_.size(); ++k)
      if (params_[k] == d) return param(k);
    params_.push_back(d);
    kernel_.params.push_back("p" + std::to_string(params_.size() - 1));
    return param(params_.size() - 1);
  }
  static Expr param(std::size_t k) {
    kir::ExprNode n;
    n.kind = ExprKind::Param;
    n.type = DType::I32;
    n.id = static_cast<uint32_t>(k);
    return Expr(std::make_shared<const kir::ExprNode>(std::move(n)));
  }
  uint32_t bufferOf(ValueId v) {
    for (std::size_t k = 0; k < reads_.size(); ++k)
      if (reads_[k] == v) return static_cast<uint32_t>(k);
    reads_.push_back(v);
    kernel_.buffers.push_back({"b" + std::to_string(reads_.size() - 1), graph_.type(v).dtype,
                               kir::Space::Global, kir::Access::Read, 0});
    return static_cast<uint32_t>(reads_.size() - 1);
  }
  Expr flat(const Index& at, const Shape& shape) {
    Expr x = kir::index(0);
    Dim stride(1);
    for (std::size_t k = shape.size(); k-- > 0;) {
      if (!shape[k].is(1)) x = ops::add(ops::mul(at[k], dim(stride)), x);
      stride = stride * shape[k];
    }
    return x;
  }
  // A one-element constant as a literal expression.
  std::optional<Expr> splat(ValueId v) {
    const Node& n = graph_.definition(v);
    if (n.op != OpKind::Constant) return std::nullopt;
    const Literal& l = n.attrs.as<ConstantAttrs>().value;
    if (l.elements() != 1 || !isPlain(l.dtype) || isComplex(l.dtype)) return std::nullopt;
    auto t = fromLiteral(l);
    if (!t) return std::nullopt;
    if (t->isInt()) return kir::integer(l.dtype, t->i[0]);
    const DType c = computeType(l.dtype);
    return kir::cast(l.dtype, kir::constant(c, t->f[0]));
  }
  Expr value(ValueId v, const Index& at);
  Expr inlineFold(const Node& node, ValueId v, const Index& at);
  std::vector<Expr> fold(const Node& node, const std::vector<Index>& ats, LoopKind innermost);
  Expr groupFold(const Node& node, const Index& at);
  void store(const Index& at, const Expr& x, const Expr& condition = {}) {
    storeAt_ = flat(at, graph_.type(root_).shape);
    Stmt s;
    s.kind = StmtKind::Store;
    s.buffer = kOut;
    s.index = storeAt_, s.value = x, s.condition = condition;
    emit(std::move(s));
  }
  void violate(ValueId v) {
    if (std::find(violations_.begin(), violations_.end(), v) == violations_.end())
      violations_.push_back(v);
  }

  // ---- Shapes of kernels
  bool rowRegion(std::size_t* inner) const;
  bool flatRegion() const;
  void lowerRows(std::size_t inner);
  void lowerFlat();
  void lowerLanes();
  std::optional<std::size_t> axisAcross() const;
  void lowerBlocks(std::size_t across);
  void lowerScan();
  void lowerPanel(std::size_t columns);
  bool columnsAsOne(std::size_t columns) const;
  int tileAxisOf(const Node& root, std::size_t lastLaneAxis);
  static Shape tiled(Shape shape, int axis);
  void storeTile(const Node& root, const Index& base, int tileAxis, LoopKind innermost);
  // Splits a linear index into coordinates; `sizes` row-major.
  Index unravel(Expr linear, const std::vector<Dim>& sizes);
  // A linear index of the group (or the lane) below `total`; opens an If when needed.
  Expr linearGroup(const Dim& total);

  // ---- Values of a row kept in the result buffer from pass to pass
  std::vector<ValueId> planPasses();
  bool keptIndex(const Index& at) const;
  double recomputeCost(ValueId v) const;
  void keep(ValueId v, const Index& at, const Expr& x);

  // Buffer ids until the number of globals is known.
  Expr remap(const Expr& x, uint32_t out);
  void remap(std::vector<Stmt>& body, uint32_t out);
  // Keyed by address; the pair keeps the key alive.
  std::unordered_map<const kir::ExprNode*, std::pair<Expr, Expr>> remapped_;

  static constexpr uint32_t kOut = 1u << 30, kShared = 1u << 31;

  const Graph& graph_;
  const Residency& residency_;
  const ValueId root_;
  const Caps& caps_;
  kir::Kernel kernel_;
  std::vector<Frame> frames_ = std::vector<Frame>(1);
  std::size_t current_ = 0;
  std::vector<std::size_t> varDepth_;
  std::vector<Dim> params_;
  std::vector<ValueId> reads_;
  std::vector<ValueId> violations_;
  std::vector<uint32_t> inlined_;  // nodes computed inside
  Expr guard_;
  std::vector<std::pair<uint32_t, Expr>> loads_;
  Expr storeAt_;
  std::array<Dim, 3> grid_{Dim(1), Dim(1), Dim(1)};
  std::vector<DType> sharedTypes_;
  bool rows_ = false;         // folds along memory are emitted at row level
  std::size_t rowFrame_ = 0;  // frame of the row scope
  Expr sharedLane_;           // row regions on groups: the lane id
  // Passes over the row (its inlined reductions and the final one) that need a value, as bits; 0
  // for values that are never kept.
  std::vector<uint32_t> passes_;
  std::size_t rowAxes_ = 0;                             // trailing axes that a pass runs over
  Index rowAt_;                                         // coordinates of the row
  std::unordered_map<uint32_t, std::size_t> passVars_;  // loop variables of passes: their axis
  std::vector<uint32_t> reachesOut_;  // buffers read at other leading coordinates than the group's
  ValueId under_;                     // what a native kernel left in the memory of the root
  std::vector<Expr> underLoads_;      // where it is read
  ValueId kept_;                      // the value whose row the result buffer holds now
  std::size_t keptLoads_ = 0;         // loads before the first one was kept
};

class NodeContext final : public LowerContext {
 public:
  NodeContext(Region& region, const Node& n) : region_(region) {
    node = &n;
    for (const ValueId v : n.inputs) operands.push_back(v ? &region.graph_.type(v) : nullptr);
    for (const ValueId v : n.results) results.push_back(&region.graph_.type(v));
  }
  Expr operand(std::size_t k, const Index& at) override {
    return region_.value(node->inputs[k], at);
  }
  Expr operandIf(std::size_t k, const Index& at, const Expr& when, const Expr& otherwise) override {
    int64_t known = 0;
    if (kir::isInteger(when, &known)) return known ? operand(k, at) : otherwise;
    const Expr saved = region_.guard_;
    region_.guard_ = saved ? region_.let(ops::both(saved, when)) : region_.let(when);
    const Expr condition = region_.guard_;
    const Expr x = operand(k, at);
    region_.guard_ = saved;
    return region_.let(ops::choose(condition, x, otherwise));
  }
  Expr dim(const Dim& d) override { return region_.dim(d); }
  Expr let(const Expr& x) override { return region_.let(x); }

 private:
  Region& region_;
};

Expr Region::value(ValueId v, const Index& at) {
  if (auto c = splat(v)) return *c;
  const Node& node = graph_.definition(v);
  const bool resident = residency_.of(v) && v.index != root_.index;
  const std::size_t d = std::max(depthOf(at), depthOf(guard_));
  for (std::size_t f = current_;; f = frames_[f].parent) {
    for (const Frame::Known& k : frames_[f].known) {
      if (k.value.index != v.index || !kir::same(k.guard, guard_)) continue;
      bool equal = true;
      for (std::size_t i = 0; i < at.size() && equal; ++i) equal = kir::same(k.at[i], at[i]);
      if (equal) return k.result;
    }
    if (f == 0) break;
  }
  // Compute it in the outermost frame that has everything it depends on.
  const std::size_t saved = current_;
  current_ = ancestor(d);
  Expr result;
  if (under_ && under_.index == v.index) {
    const Expr where = flat(at, graph_.type(v).shape);
    underLoads_.push_back(where);
    if (guard_) violate(v);
    result = let(kir::load(kOut, graph_.type(v).dtype, where));
  } else if (kept_ && kept_.index == v.index && keptIndex(at)) {
    result = let(kir::load(kOut, graph_.type(v).dtype, flat(at, graph_.type(v).shape)));
  } else if (resident || node.op == OpKind::Input || node.op == OpKind::Constant) {
    const uint32_t b = bufferOf(v);
    const DType t = graph_.type(v).dtype;
    const Expr where = flat(at, graph_.type(v).shape);
    loads_.emplace_back(b, where);
    bool inside = at.size() >= rowAt_.size() && at.size() == graph_.type(root_).shape.size();
    for (std::size_t k = 0; inside && k < rowAt_.size(); ++k)
      inside =
          kir::same(at[k], rowAt_[k]) && graph_.type(v).shape[k] == graph_.type(root_).shape[k];
    if (!inside) reachesOut_.push_back(b);
    result = let(guard_ ? kir::loadIf(b, t, where, guard_, kir::zero(t)) : kir::load(b, t, where));
  } else {
    const auto index = static_cast<uint32_t>(graph_.value(v).node.index);
    if (std::find(inlined_.begin(), inlined_.end(), index) == inlined_.end())
      inlined_.push_back(index);
    const OpDef& def = opDef(node.op);
    if (def.element) {
      NodeContext c(*this, node);
      result = let(def.element(c, at));
      keep(v, at, result);
    } else if (def.fold) {
      result = inlineFold(node, v, at);
    } else {
      violate(v);
      result = kir::zero(graph_.type(v).dtype);
    }
  }
  frames_[current_].known.push_back({v, at, guard_, result});
  current_ = saved;
  return result;
}

// Finds which passes over the row need which values of the row's shape. Returns the reductions that
// are passes, each after those it depends on.
std::vector<ValueId> Region::planPasses() {
  const TensorType& type = graph_.type(root_);
  if (type.dtype != DType::F32 && type.dtype != DType::F64) return {};
  std::vector<uint32_t> passes(graph_.values.size(), 0);
  std::vector<uint32_t> order;  // nodes of the region, users first
  passes[root_.index] = 1;
  uint32_t next = 2;
  const uint32_t last = graph_.value(root_).node.index;
  for (uint32_t n = last + 1; n-- > 0;) {
    const Node& node = graph_.nodes[n];
    if (node.results.empty() || passes[node.results[0].index] == 0) continue;
    const ValueId v = node.results[0];
    const bool leaf = node.op == OpKind::Input || node.op == OpKind::Constant;
    if (leaf || (v.index != root_.index && residency_.of(v))) continue;
    order.push_back(n);
    uint32_t mine = passes[v.index];
    if (node.op == OpKind::Reduce) mine = next, next <<= 1;
    if (mine == 0) return {};  // more reductions than bits
    for (const ValueId x : node.inputs)
      if (x) passes[x.index] |= mine;
  }
  passes_.assign(graph_.values.size(), 0);
  for (const uint32_t n : order) {
    const ValueId v = graph_.nodes[n].results[0];
    const bool several = (passes[v.index] & (passes[v.index] - 1)) != 0;
    if (several && v.index != root_.index && graph_.type(v) == type &&
        opDef(graph_.nodes[n].op).element && !opDef(graph_.nodes[n].op).indexOnly)
      passes_[v.index] = passes[v.index];
  }
  // Of a chain that the same passes need, the last.
  for (const uint32_t n : order) {
    const Node& node = graph_.nodes[n];
    if (node.op == OpKind::Reduce) continue;
    for (const ValueId x : node.inputs)
      if (x && passes[x.index] == passes[node.results[0].index]) passes_[x.index] = 0;
  }
  std::vector<ValueId> out;
  for (std::size_t k = order.size(); k-- > 0;) {
    const Node& node = graph_.nodes[order[k]];
    if (node.op != OpKind::Reduce || trailingAxes(graph_, node) != rowAxes_) continue;
    const Shape &s = graph_.type(node.results[0]).shape, &full = graph_.type(node.inputs[0]).shape;
    bool whole = full == type.shape && s.size() >= rowAt_.size();
    for (std::size_t d = 0; whole && d < rowAt_.size(); ++d) whole = s[d] == type.shape[d];
    if (whole) out.push_back(node.results[0]);
  }
  return out;
}

// True where `at` is the element that a pass has arrived at.
bool Region::keptIndex(const Index& at) const {
  if (guard_ || at.size() != rowAt_.size() + rowAxes_) return false;
  for (std::size_t k = 0; k < at.size(); ++k) {
    if (k < rowAt_.size()) {
      if (!kir::same(at[k], rowAt_[k])) return false;
      continue;
    }
    if (at[k]->kind != ExprKind::Var) return false;
    const auto axis = passVars_.find(at[k]->id);
    if (axis == passVars_.end() || axis->second != k) return false;
  }
  return true;
}

// What one element costs when it is computed again, in additions.
double Region::recomputeCost(ValueId v) const {
  const Node& node = graph_.definition(v);
  if (kept_ && kept_.index == v.index) return 1;
  if (residency_.of(v) || node.op == OpKind::Input) return 1;
  if (node.op == OpKind::Constant || !opDef(node.op).element) return 0;
  double c = opDef(node.op).indexOnly ? 0 : opDef(node.op).cost;
  for (const ValueId x : node.inputs)
    if (x) c += recomputeCost(x);
  return c;
}

// Stores x for later passes over the row where that is cheaper than computing it again. The row of
// the result is free until the last pass, and every lane reads only what it wrote itself.
void Region::keep(ValueId v, const Index& at, const Expr& x) {
  if (passes_.empty() || passes_[v.index] == 0 || !keptIndex(at)) return;
  const int later = std::popcount(passes_[v.index]) - 1;
  if ((recomputeCost(v) - 1) * later < 3) return;
  if (!kept_) keptLoads_ = loads_.size();
  kept_ = v;
  Stmt s;
  s.kind = StmtKind::Store;
  s.buffer = kOut;
  s.index = flat(at, graph_.type(v).shape), s.value = x;
  emit(std::move(s));
}

// A fold inside a region: at row level in a row region; elsewhere only where it is the chain's own
// source (one element of the fold per element of the root).
Expr Region::inlineFold(const Node& node, ValueId v, const Index& at) {
  NodeContext c(*this, node);
  const Expr savedGuard = guard_;
  if (rows_) {
    const Fold f = opDef(node.op).fold(c, at);
    if (depthOf(at) > rowFrame_ || guard_ || f.ordered) {
      violate(v);
      return kir::zero(graph_.type(v).dtype);
    }
    if (caps_.groups) return let(groupFold(node, at));
    return let(fold(node, {at}, f.alongMemory ? LoopKind::Vector : LoopKind::Serial)[0]);
  }
  Expr r = let(fold(node, {at}, LoopKind::Serial)[0]);
  guard_ = savedGuard;
  return r;
}

std::vector<Expr> Region::fold(const Node& node, const std::vector<Index>& ats,
                               LoopKind innermost) {
  NodeContext c(*this, node);
  const OpDef& def = opDef(node.op);
  std::vector<std::vector<Expr>> acc(ats.size());
  Fold f;
  for (std::size_t u = 0; u < ats.size(); ++u) {
    f = def.fold(c, ats[u]);
    for (const Accumulator& a : f.accumulators) acc[u].push_back(mutableVar(a.type, a.init));
  }
  std::vector<Loop> loops;
  Index r;
  for (std::size_t k = 0; k < f.extents.size(); ++k) {
    const bool last = k + 1 == f.extents.size();
    loops.push_back(openLoop(kir::index(0), dim(f.extents[k]),
                             last && !f.ordered ? innermost : LoopKind::Serial));
    r.push_back(loops.back().index);
    if (f.extents.size() == rowAxes_) passVars_[r.back()->id] = rowAt_.size() + k;
  }
  for (std::size_t u = 0; u < ats.size(); ++u) {
    std::vector<Expr> values = acc[u];
    if (!f.ordered) values.assign(acc[u].size(), Expr());
    def.foldStep(c, ats[u], r, values);
    if (f.ordered)
      for (Expr& x : values) x = let(x);
    for (std::size_t k = 0; k < values.size(); ++k) {
      if (f.ordered)
        assign(acc[u][k], values[k]);
      else
        accumulate(acc[u][k], f.accumulators[k].op, values[k]);
    }
  }
  while (!loops.empty()) {
    closeLoop(std::move(loops.back()));
    loops.pop_back();
  }
  std::vector<Expr> out;
  for (std::size_t u = 0; u < ats.size(); ++u) {
    std::vector<Expr> finals;
    // The accumulator is read once after its loops: a Let pins the final value.
    for (const Expr& a : acc[u]) {
      finals.push_back(name_(current_, "r", a));
    }
    out.push_back(def.foldFinish(c, ats[u], finals));
  }
  return out;
}

// A fold of one row by all lanes of a group: strided partial results, then a tree in shared memory.
Expr Region::groupFold(const Node& node, const Index& at) {
  NodeContext c(*this, node);
  const OpDef& def = opDef(node.op);
  const Fold f = def.fold(c, at);
  std::vector<Expr> acc;
  for (const Accumulator& a : f.accumulators) acc.push_back(mutableVar(a.type, a.init));
  std::vector<Loop> loops;
  Index r;
  for (std::size_t k = 0; k < f.extents.size(); ++k) {
    const bool last = k + 1 == f.extents.size();
    loops.push_back(
        last ? openLoop(sharedLane_, dim(f.extents[k]), LoopKind::Serial, kernel_.block[0])
             : openLoop(kir::index(0), dim(f.extents[k]), LoopKind::Serial));
    r.push_back(loops.back().index);
    if (f.extents.size() == rowAxes_) passVars_[r.back()->id] = rowAt_.size() + k;
  }
  std::vector<Expr> values(acc.size());
  def.foldStep(c, at, r, values);
  for (std::size_t k = 0; k < acc.size(); ++k) accumulate(acc[k], f.accumulators[k].op, values[k]);
  while (!loops.empty()) {
    closeLoop(std::move(loops.back()));
    loops.pop_back();
  }
  std::vector<Expr> finals;
  for (std::size_t k = 0; k < acc.size(); ++k) {
    const DType stored =
        f.accumulators[k].type == DType::Bool ? DType::I32 : f.accumulators[k].type;
    auto slot = std::find(sharedTypes_.begin(), sharedTypes_.end(), stored);
    if (slot == sharedTypes_.end()) slot = sharedTypes_.insert(slot, stored);
    const uint32_t shared = kShared + static_cast<uint32_t>(slot - sharedTypes_.begin());
    auto put = [&](const Expr& where, const Expr& x) {
      Stmt s;
      s.kind = StmtKind::Store, s.buffer = shared, s.index = where, s.value = x;
      emit(std::move(s));
    };
    put(sharedLane_, kir::cast(stored, acc[k]));
    barrier();
    for (int32_t half = kernel_.block[0] / 2; half > 0; half /= 2) {
      openIf();
      const Expr other = kir::load(shared, stored, ops::add(sharedLane_, kir::index(half)));
      const Expr mine = kir::load(shared, stored, sharedLane_);
      // Any and All live in I32 slots as 0 and 1, where their bitwise ops agree.
      put(sharedLane_, Expr::apply(f.accumulators[k].op, mine, other, {}));
      closeIf(ops::less(sharedLane_, kir::index(half)));
      barrier();
    }
    const Expr total = name_(current_, "r", kir::load(shared, stored, kir::index(0)));
    finals.push_back(kir::cast(f.accumulators[k].type, total));
    barrier();
  }
  return def.foldFinish(c, at, finals);
}

Index Region::unravel(Expr linear, const std::vector<Dim>& sizes) {
  Index out(sizes.size());
  std::size_t first = 0;
  while (first < sizes.size() && sizes[first].is(1)) ++first;
  for (std::size_t k = sizes.size(); k-- > 0;) {
    if (sizes[k].is(1)) {
      out[k] = kir::index(0);
    } else if (k == first) {
      out[k] = linear;
    } else {
      linear = let(linear);
      out[k] = let(Expr::apply(ScalarOp::Rem, linear, dim(sizes[k]), {}));
      linear = Expr::apply(ScalarOp::Div, linear, dim(sizes[k]), {});
    }
  }
  for (Expr& e : out) e = let(e);
  return out;
}

// True when folds run along the trailing axes of the root (or of a root fold's operand), so that
// one row is reduced and reused: softmax, norms, row sums.
bool Region::rowRegion(std::size_t* inner) const {
  const Node& root = graph_.definition(root_);
  const OpDef& def = opDef(root.op);
  if (def.fold) {
    Region probe(graph_, residency_, root_, caps_);
    NodeContext c(probe, root);
    Index at(graph_.type(root_).shape.size(), kir::index(0));
    *inner = 0;
    const Fold f = def.fold(c, at);
    return f.alongMemory && !f.ordered && !f.extents.empty() && !(caps_.groups && def.reuses);
  }
  // Look for inlined reductions below a map root.
  std::vector<ValueId> stack{root_};
  std::vector<bool> seen(graph_.nodes.size());
  bool found = false;
  while (!stack.empty()) {
    const ValueId v = stack.back();
    stack.pop_back();
    const uint32_t n = graph_.value(v).node.index;
    if (seen[n]) continue;
    seen[n] = true;
    const Node& node = graph_.nodes[n];
    if (v.index != root_.index && residency_.of(v)) continue;
    if (node.op == OpKind::Reduce)
      if (const std::size_t axes = trailingAxes(graph_, node))
        found = true, *inner = std::max(*inner, axes);
    for (const ValueId x : node.inputs)
      if (x) stack.push_back(x);
  }
  return found && *inner <= graph_.type(root_).shape.size();
}

// True when every computed value has the root's shape and every load reads at the root's own index
// (or one element): the nest is one flat loop.
bool Region::flatRegion() const {
  const Shape& shape = graph_.type(root_).shape;
  std::vector<ValueId> stack{root_};
  std::vector<bool> seen(graph_.nodes.size());
  while (!stack.empty()) {
    const ValueId v = stack.back();
    stack.pop_back();
    const Node& node = graph_.definition(v);
    const bool leaf = (v.index != root_.index && residency_.of(v)) || node.op == OpKind::Input ||
                      node.op == OpKind::Constant;
    const Shape& s = graph_.type(v).shape;
    const bool single = elements(s).is(1);
    if (s != shape && !single) return false;
    if (leaf || seen[graph_.value(v).node.index]) continue;
    seen[graph_.value(v).node.index] = true;
    const bool map = static_cast<std::size_t>(node.op) < kScalarCount ||
                     node.op == OpKind::Convert || (node.op == OpKind::DimValue);
    if (!map && !(single && opDef(node.op).element && s != shape)) return false;
    if (!map) return false;
    for (const ValueId x : node.inputs)
      if (x) stack.push_back(x);
  }
  return true;
}

Expr Region::linearGroup(const Dim& total) {
  grid_ = {min(total, Dim(kMaxGrid)), ceilDiv(total, Dim(kMaxGrid)), Dim(1)};
  if (!caps_.groups || (total.isConst() && total.value() <= kMaxGrid)) {
    grid_ = {total, Dim(1), Dim(1)};
    return kir::groupId(0);
  }
  return let(ops::add(ops::mul(kir::groupId(1), kir::index(kMaxGrid)), kir::groupId(0)));
}

void Region::lowerRows(std::size_t inner) {
  const Node& root = graph_.definition(root_);
  const Shape& shape = graph_.type(root_).shape;
  rows_ = true;
  if (caps_.groups) {
    kernel_.block = {caps_.lanes, 1, 1};
    sharedLane_ = let(kir::localId(0));
  }
  const bool isFold = opDef(root.op).fold != nullptr;
  const int tileAxis = isFold && !caps_.groups ? tileAxisOf(root, SIZE_MAX) : -1;
  const Shape tiles = tiled(shape, tileAxis);
  const std::vector<Dim> outer(tiles.begin(), tiles.end() - static_cast<std::ptrdiff_t>(inner));
  const Dim total = elements(outer);
  const Expr row = linearGroup(total);
  const bool checked = caps_.groups && !(total.isConst() && total.value() <= kMaxGrid);
  const Expr condition = checked ? ops::less(row, dim(total)) : Expr();
  if (checked) openIf();
  Index at = unravel(checked ? pin(row) : row, outer);
  rowFrame_ = depth();
  if (tileAxis < 0) rowAt_ = at;
  if (isFold) {
    inlined_.push_back(graph_.value(root_).node.index);
    if (caps_.groups) {
      const Expr x = let(groupFold(root, at));
      store(at, x, ops::equal(sharedLane_, kir::index(0)));
    } else {
      storeTile(root, at, tileAxis, LoopKind::Vector);
    }
  } else {
    rowAxes_ = inner;
    for (const ValueId v : planPasses()) {
      // In the order in which they run: what one pass keeps, the next finds.
      Index where = at;
      where.resize(graph_.type(v).shape.size(), kir::index(0));
      (void)value(v, where);
    }
    std::vector<Loop> loops;
    for (std::size_t k = outer.size(); k < shape.size(); ++k) {
      const bool last = k + 1 == shape.size();
      if (last && caps_.groups)
        loops.push_back(openLoop(sharedLane_, dim(shape[k]), LoopKind::Serial, kernel_.block[0]));
      else
        loops.push_back(
            openLoop(kir::index(0), dim(shape[k]), last ? LoopKind::Vector : LoopKind::Serial));
      at.push_back(loops.back().index);
      passVars_[at.back()->id] = k;
    }
    store(at, value(root_, at));
    while (!loops.empty()) {
      closeLoop(std::move(loops.back()));
      loops.pop_back();
    }
  }
  if (checked) closeIf(condition);
}

void Region::lowerFlat() {
  const Shape& shape = graph_.type(root_).shape;
  const Dim total = elements(shape);
  Index at(shape.size(), kir::index(0));
  std::size_t axis = shape.size();
  for (std::size_t k = 0; k < shape.size(); ++k)
    if (!shape[k].is(1)) axis = k;
  if (caps_.groups) {
    kernel_.block = {caps_.lanes, 1, 1};
    const Expr group = linearGroup(ceilDiv(total, Dim(caps_.lanes)));
    const Expr i = let(ops::add(ops::mul(group, kir::index(caps_.lanes)), kir::localId(0)));
    openIf();
    if (axis < shape.size()) at[axis] = pin(i);
    store(at, value(root_, at));
    closeIf(ops::less(i, dim(total)));
    return;
  }
  grid_ = {ceilDiv(total, Dim(kFlatChunk)), Dim(1), Dim(1)};
  const Expr lo = let(ops::mul(kir::groupId(0), kir::index(kFlatChunk)));
  const Expr hi =
      let(Expr::apply(ScalarOp::Min, ops::add(lo, kir::index(kFlatChunk)), dim(total), {}));
  Loop l = openLoop(lo, hi, LoopKind::Vector);
  if (axis < shape.size()) at[axis] = l.index;
  store(at, value(root_, at));
  closeLoop(std::move(l));
}

// The result axis a root fold is tiled along; none where lanes already go along it.
int Region::tileAxisOf(const Node& root, std::size_t lastLaneAxis) {
  Region probe(graph_, residency_, root_, caps_);
  NodeContext c(probe, root);
  const Shape& shape = graph_.type(root_).shape;
  const int axis = opDef(root.op).fold(c, Index(shape.size(), kir::index(0))).tileAxis;
  if (axis < 0 || static_cast<std::size_t>(axis) + 1 == lastLaneAxis ||
      shape[static_cast<std::size_t>(axis)].is(1))
    return -1;
  return axis;
}

Shape Region::tiled(Shape shape, int axis) {
  if (axis >= 0)
    shape[static_cast<std::size_t>(axis)] =
        ceilDiv(shape[static_cast<std::size_t>(axis)], Dim(kTile));
  return shape;
}

// kTile results of a root fold along its tile axis in one nest, so that they share operand reads.
void Region::storeTile(const Node& root, const Index& base, int tileAxis, LoopKind innermost) {
  std::vector<Index> ats{base};
  std::vector<Expr> valid{Expr()};
  if (tileAxis >= 0) {
    const auto axis = static_cast<std::size_t>(tileAxis);
    const Dim& n = graph_.type(root_).shape[axis];
    const bool whole = n.isConst() && n.value() % kTile == 0;
    ats.clear(), valid.clear();
    const Expr first = let(ops::mul(base[axis], kir::index(kTile)));
    for (int u = 0; u < kTile; ++u) {
      Index at = base;
      const Expr m = let(ops::add(first, kir::index(u)));
      // Rows beyond the end compute the last row again and are not stored.
      at[axis] = whole || u == 0
                     ? m
                     : let(Expr::apply(ScalarOp::Min, m, ops::sub(dim(n), kir::index(1)), {}));
      valid.push_back(whole || u == 0 ? Expr() : let(ops::less(m, dim(n))));
      ats.push_back(std::move(at));
    }
  }
  const std::vector<Expr> y = fold(root, ats, innermost);
  for (std::size_t u = 0; u < ats.size(); ++u) store(ats[u], let(y[u]), valid[u]);
}

// One lane per result element (or per tile of a fold): vector lanes along the last axis on a CPU,
// the lanes of groups over the flat index elsewhere.
void Region::lowerLanes() {
  const Node& root = graph_.definition(root_);
  const Shape& shape = graph_.type(root_).shape;
  const std::size_t rank = shape.size();
  const bool isFold = opDef(root.op).fold != nullptr;
  if (isFold) inlined_.push_back(graph_.value(root_).node.index);
  const int tileAxis = isFold ? tileAxisOf(root, rank) : -1;
  const Shape tiles = tiled(shape, tileAxis);
  auto compute = [&](const Index& base) {
    if (isFold)
      storeTile(root, base, tileAxis, LoopKind::Serial);
    else
      store(base, value(root_, base));
  };
  if (caps_.groups) {
    kernel_.block = {caps_.lanes, 1, 1};
    const Dim total = elements(tiles);
    const Expr group = linearGroup(ceilDiv(total, Dim(caps_.lanes)));
    const Expr i = let(ops::add(ops::mul(group, kir::index(caps_.lanes)), kir::localId(0)));
    openIf();
    compute(unravel(pin(i), tiles));
    closeIf(ops::less(i, dim(total)));
    return;
  }
  if (rank == 0) {
    compute({});
    return;
  }
  const std::vector<Dim> outer(tiles.begin(), tiles.end() - 1);
  const Expr row = linearGroup(elements(outer));
  Index at = unravel(row, outer);
  if (tileAxis < 0) rowAt_ = at;
  Loop l = openLoop(kir::index(0), dim(shape.back()), LoopKind::Vector);
  at.push_back(l.index);
  compute(at);
  closeLoop(std::move(l));
}

// How an index grows with a variable.
enum class Growth : uint8_t { None, ByOne, Other };

Growth growth(const Expr& x, uint32_t var, const std::vector<std::pair<Expr, Expr>>& lets) {
  if (!x) return Growth::None;
  if (x->kind == ExprKind::Var) {
    if (x->id == var) return Growth::ByOne;
    for (const auto& [value, name] : lets)
      if (name->id == x->id) return growth(value, var, lets);
    return Growth::None;
  }
  const bool sum = x->kind == ExprKind::Apply && x->op == ScalarOp::Add;
  Growth all = Growth::None;
  for (const Expr& a : x->args) {
    const Growth g = growth(a, var, lets);
    if (g == Growth::None) continue;
    all = sum && all == Growth::None ? g : Growth::Other;
  }
  return all;
}

// The axis along which some operand lies side by side in memory while the last axis strides over
// it, as under a transpose.
std::optional<std::size_t> Region::axisAcross() const {
  const Shape& shape = graph_.type(root_).shape;
  if (caps_.groups || opDef(graph_.definition(root_).op).fold || shape.size() < 2)
    return std::nullopt;
  Region probe(graph_, residency_, root_, caps_);
  Index at;
  for (std::size_t k = 0; k < shape.size(); ++k)
    at.push_back(shape[k].is(1) ? kir::index(0) : probe.var(probe.newVar("a", DType::I32, 0)));
  if (shape.back().is(1)) return std::nullopt;
  (void)probe.value(root_, at);
  const auto& lets = probe.frames_[0].lets;
  for (const auto& [buffer, where] : probe.loads_) {
    if (growth(where, at.back()->id, lets) != Growth::Other) continue;
    for (std::size_t k = shape.size() - 1; k-- > 0;)
      if (!shape[k].is(1) && growth(where, at[k]->id, lets) == Growth::ByOne) return k;
  }
  return std::nullopt;
}

// One group per kAlong results along the axis `across`: kAcross lanes of the last axis at a time,
// so that each line that is read serves all of them.
void Region::lowerBlocks(std::size_t across) {
  const Shape& shape = graph_.type(root_).shape;
  std::vector<Dim> outer(shape.begin(), shape.end() - 1);
  outer[across] = ceilDiv(shape[across], Dim(kAlong));
  Index at = unravel(linearGroup(elements(outer)), outer);
  const Expr lo = let(ops::mul(at[across], kir::index(kAlong)));
  const Expr hi =
      let(Expr::apply(ScalarOp::Min, ops::add(lo, kir::index(kAlong)), dim(shape[across]), {}));
  const Dim whole = floorDiv(shape.back(), Dim(kAcross)) * Dim(kAcross);
  at.push_back(kir::index(0));
  auto lines = [&](const Expr& first, const Expr& from, const Expr& to) {
    Loop line = openLoop(lo, hi, LoopKind::Serial);
    at[across] = line.index;
    Loop lane = openLoop(from, to, LoopKind::Vector);
    at.back() = first ? let(ops::add(first, lane.index)) : lane.index;
    store(at, value(root_, at));
    closeLoop(std::move(lane));
    closeLoop(std::move(line));
  };
  if (!whole.is(0)) {
    Loop block = openLoop(kir::index(0), dim(whole), LoopKind::Serial, kAcross);
    lines(block.index, kir::index(0), kir::index(kAcross));
    closeLoop(std::move(block));
  }
  if (!(whole == shape.back())) lines({}, dim(whole), dim(shape.back()));
}

// Serial along one axis, lanes over the others.
void Region::lowerScan() {
  const Node& root = graph_.definition(root_);
  const OpDef& def = opDef(root.op);
  const Shape& shape = graph_.type(root_).shape;
  inlined_.push_back(graph_.value(root_).node.index);
  NodeContext c(*this, root);
  const auto axis = static_cast<std::size_t>(def.scanAxis(c));
  Shape lines = shape;
  lines[axis] = Dim(1);
  auto line = [&](Index at) {
    const Expr carry = mutableVar(computeType(graph_.type(root_).dtype), def.scanInit(c));
    const Expr n = dim(shape[axis]);
    Loop l = openLoop(kir::index(0), n, LoopKind::Serial);
    at[axis] = def.scanReverse(c) ? let(ops::sub(ops::sub(n, kir::index(1)), l.index)) : l.index;
    Expr next = carry, out;
    def.scanStep(c, at, next, out);
    out = let(out);
    store(at, out);
    assign(carry, next);
    closeLoop(std::move(l));
  };
  const Dim total = elements(lines);
  if (caps_.groups) {
    kernel_.block = {caps_.lanes, 1, 1};
    const Expr group = linearGroup(ceilDiv(total, Dim(caps_.lanes)));
    const Expr i = let(ops::add(ops::mul(group, kir::index(caps_.lanes)), kir::localId(0)));
    openIf();
    line(unravel(pin(i), lines));
    closeIf(ops::less(i, dim(total)));
    return;
  }
  line(unravel(linearGroup(total), lines));
}

// True when every value is the same along the last `columns` axes or runs along them as the root
// does, so that one index can stand for all of them.
bool Region::columnsAsOne(std::size_t columns) const {
  if (columns <= 1) return true;
  const Shape& shape = graph_.type(root_).shape;
  // 1: runs along all of the axes, 0: along none, -1: anything else.
  auto along = [&](ValueId v) {
    const Shape& s = graph_.type(v).shape;
    bool all = s.size() >= columns, none = true;
    for (std::size_t k = 1; k <= columns; ++k) {
      all = all && s[s.size() - k] == shape[shape.size() - k];
      none = none && (k > s.size() || s[s.size() - k].is(1));
    }
    return all ? 1 : none ? 0 : -1;
  };
  std::vector<ValueId> stack{root_};
  std::vector<bool> seen(graph_.nodes.size());
  while (!stack.empty()) {
    const ValueId v = stack.back();
    stack.pop_back();
    const uint32_t n = graph_.value(v).node.index;
    if (along(v) < 0) return false;
    const Node& node = graph_.nodes[n];
    const bool leaf = (v.index != root_.index && residency_.of(v)) || node.op == OpKind::Input ||
                      node.op == OpKind::Constant || v.index == under_.index;
    if (seen[n] || leaf || along(v) == 0) continue;
    seen[n] = true;
    const bool map = static_cast<std::size_t>(node.op) < kScalarCount ||
                     node.op == OpKind::Convert || node.op == OpKind::Broadcast;
    if (!map) return false;
    for (const ValueId x : node.inputs)
      if (x) stack.push_back(x);
  }
  return true;
}

// One group per row, the columns of a call within it.
void Region::lowerPanel(std::size_t columns) {
  const Shape& shape = graph_.type(root_).shape;
  if (shape.size() < columns || !columnsAsOne(columns)) return violate(under_);
  const std::vector<Dim> outer(shape.begin(), shape.end() - static_cast<std::ptrdiff_t>(columns));
  params_ = {Dim(0), Dim(0)};  // of every call its own
  kernel_.params = {"begin", "end"};
  Index at = unravel(linearGroup(elements(outer)), outer);
  rowAt_ = at;
  std::size_t axis = outer.size();  // the one that stands for all columns
  for (std::size_t k = outer.size(); k < shape.size(); ++k)
    if (!shape[k].is(1)) axis = k;
  at.resize(shape.size(), kir::index(0));
  Loop l = openLoop(param(0), param(1), LoopKind::Vector);
  if (axis < shape.size()) at[axis] = l.index;
  store(at, value(root_, at));
  closeLoop(std::move(l));
  for (const Expr& where : underLoads_)
    if (!kir::same(where, storeAt_)) violate(under_);
  if (params_.size() > kMostEpilogueParams) violate(under_);
}

Expr Region::remap(const Expr& x, uint32_t out) {
  if (!x) return x;
  if (auto at = remapped_.find(x.get()); at != remapped_.end()) return at->second.second;
  kir::ExprNode n = *x;
  bool changed = false;
  for (Expr& a : n.args) {
    Expr b = remap(a, out);
    changed |= b.get() != a.get();
    a = std::move(b);
  }
  if (n.kind == ExprKind::Load && n.id == kOut) n.id = out, changed = true;
  if (n.kind == ExprKind::Load && n.id >= kShared)
    n.id = out + 1 + (n.id - kShared), changed = true;
  Expr y = changed ? Expr(std::make_shared<const kir::ExprNode>(std::move(n))) : x;
  remapped_.emplace(x.get(), std::pair(x, y));
  return y;
}

void Region::remap(std::vector<Stmt>& body, uint32_t out) {
  for (Stmt& s : body) {
    if (s.buffer == kOut) s.buffer = out;
    if (s.buffer >= kShared) s.buffer = out + 1 + (s.buffer - kShared);
    for (Expr* e : {&s.value, &s.index, &s.condition, &s.lo, &s.hi}) *e = remap(*e, out);
    remap(s.body, out);
    remap(s.otherwise, out);
  }
}

Result<LoweredRegion> Region::lower(ValueId under, std::size_t columns) {
  const Node& root = graph_.definition(root_);
  const OpDef& def = opDef(root.op);
  if (!def.element && !def.fold && !def.scanStep)
    return Error(Errc::Unsupported, std::string(name(root.op)) + " has no kernel lowering")
        .node(root.name);
  std::size_t inner = 0;
  under_ = under;
  if (under)
    lowerPanel(columns);
  else if (def.scanStep)
    lowerScan();
  else if (rowRegion(&inner))
    lowerRows(inner);
  else if (!def.fold && flatRegion())
    lowerFlat();
  else if (const auto across = axisAcross())
    lowerBlocks(*across);
  else
    lowerLanes();

  // The written buffer comes last among the globals, shared ones after it.
  const auto out = static_cast<uint32_t>(reads_.size());
  kernel_.buffers.push_back({"out", graph_.type(root_).dtype, kir::Space::Global,
                             kept_ || under_ ? kir::Access::ReadWrite : kir::Access::Write, 0});
  for (std::size_t s = 0; s < sharedTypes_.size(); ++s)
    kernel_.buffers.push_back({"s" + std::to_string(s), sharedTypes_[s], kir::Space::Shared,
                               kir::Access::ReadWrite, kernel_.block[0]});
  kernel_.body = std::move(frames_[0].body);
  remap(kernel_.body, out);

  LoweredRegion r;
  r.reads = reads_;
  r.reads.push_back(root_);
  r.violations = std::move(violations_);
  std::sort(inlined_.begin(), inlined_.end());
  inlined_.erase(std::unique(inlined_.begin(), inlined_.end()), inlined_.end());
  const uint32_t rootNode = graph_.value(root_).node.index;
  std::string label;
  for (const uint32_t n : inlined_) {
    if (n == rootNode) continue;
    r.step.nodes.push_back({n});
    if (!opDef(graph_.nodes[n].op).indexOnly) label += std::string(name(graph_.nodes[n].op)) + "+";
  }
  r.step.nodes.push_back({rootNode});
  r.step.label = label + std::string(name(root.op));
  if (r.step.label.size() > 120) r.step.label = r.step.label.substr(0, 117) + "...";
  kernel_.name = "k_" + std::string(name(root.op));
  // In place: an operand of the same size that is read only at the element about to be written.
  if (!caps_.groups && !def.scanStep && def.element && !under_) {
    for (uint32_t b = 0; b < reads_.size() && r.step.inPlace < 0; ++b) {
      const TensorType& t = graph_.type(reads_[b]);
      bool same = t == graph_.type(root_);
      for (std::size_t k = 0; k < loads_.size(); ++k)
        if (loads_[k].first == b)
          same = same && kir::same(loads_[k].second, storeAt_) && (!kept_ || k < keptLoads_);
      if (same) r.step.inPlace = static_cast<int32_t>(b);
    }
  }
  if (caps_.parts && !rowAt_.empty()) {
    const Shape& shape = graph_.type(root_).shape;
    r.step.leading.assign(shape.begin(),
                          shape.begin() + static_cast<std::ptrdiff_t>(rowAt_.size()));
    r.step.local.assign(r.reads.size(), true);
    for (const uint32_t b : reachesOut_) r.step.local[b] = false;
  }
  r.step.kernel = std::move(kernel_);
  r.step.grid = grid_;
  r.step.params = std::move(params_);
  return r;
}

}  // namespace

std::size_t trailingAxes(const Graph& graph, const Node& reduce) {
  const auto& a = reduce.attrs.as<ReduceAttrs>();
  const auto rank = static_cast<int64_t>(graph.type(reduce.inputs[0]).shape.size());
  const auto count = static_cast<int64_t>(a.axes.size());
  for (const int64_t x : a.axes)
    if ((x < 0 ? x + rank : x) < rank - count) return 0;
  return a.axes.size();
}

Result<LoweredRegion> lowerRegion(const Graph& graph, const Residency& residency, ValueId root,
                                  const Caps& caps) {
  return Region(graph, residency, root, caps).lower();
}

Result<LoweredRegion> lowerEpilogue(const Graph& graph, const Residency& residency, ValueId root,
                                    ValueId under, std::size_t columns, const Caps& caps) {
  return Region(graph, residency, root, caps).lower(under, columns);
}

}  // namespace rlx
