#include "import/onnx.h"

#include <algorithm>
#include <limits>

#include "base/text.h"
#include "import/onnx_importer.h"
#include "ops/op.h"

namespace rlx::onnx {
namespace {

constexpr int64_t kLatestOpset = 27;
constexpr std::size_t kMaxListed = 200;
constexpr int64_t kMaxFoldElements = int64_t{1} << 20;
constexpr std::size_t kMaxFoldNodes = 20'000;

std::string quoted(std::string_view name) {
  return "'" + shorten(name, 120) + "'";
}

std::span<const OpRow> (*const kFamilies[])() = {
    elementwiseOps, windowOps,      normalizationOps, reductionOps, movementOps,
    indexingOps,    contractionOps, quantizationOps,  lossOps,      resizeOps,
    visionOps,      signalOps,      trainingOps,      controlOps,
};

std::string opText(const NodeDef& n) {
  return n.domain.empty() ? n.op : n.domain + "::" + n.op;
}

// A symbol that the text of a dim can hold.
std::string identifier(std::string_view name) {
  std::string out;
  for (const char c : name.substr(0, 64))
    out += (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c : '_';
  if (out.empty() || (out[0] >= '0' && out[0] <= '9')) out.insert(0, "d_");
  return out;
}

// Types that only casts, quantisation and moves take: they have no arithmetic and no scalars.
bool isNarrow(DType t) { return !isPlain(t) || (isFloat(t) && info(t).bits <= 8); }
constexpr std::string_view kNarrowOps[] = {
    "Cast",    "CastLike",  "QuantizeLinear", "DequantizeLinear", "Identity",  "If",
    "Reshape", "Transpose", "Flatten",        "Squeeze",          "Unsqueeze", "Shape",
    "Size",    "Concat",    "Gather",         "Slice",            "Split",     "Expand"};

DType dtypeOf(const Item& item) {
  return item.value     ? item.value.dtype()
         : item.literal ? item.literal->dtype
         : item.extents ? item.extents->dtype
                        : DType::F32;
}

// Whether a node's result depends on its operands' contents alone.
bool foldable(const Graph& g, const Node& n) {
  auto fixed = [](const Shape& s) {
    return std::all_of(s.begin(), s.end(), [](const Dim& d) { return d.isConst(); });
  };
  if (n.op == OpKind::DimValue && !n.attrs.as<DimAttrs>().value.isConst()) return false;
  if (n.op == OpKind::Slice && !fixed(n.attrs.as<SliceAttrs>().start)) return false;
  if (n.op == OpKind::Pad && !fixed(n.attrs.as<PadAttrs>().low)) return false;
  for (const ValueId v : n.results) {
    const Shape& s = g.type(v).shape;
    if (!fixed(s) || elements(s).value() > kMaxFoldElements) return false;
  }
  return n.regions.empty();
}

}  // namespace

const OpRow* findOp(std::string_view domain, std::string_view op) {
  for (const auto family : kFamilies)
    for (const OpRow& row : family()) {
      std::string_view name = row.name;
      if (!domain.empty()) {
        if (!name.starts_with(domain)) continue;
        name.remove_prefix(domain.size());
        if (!name.starts_with("::")) continue;
        name.remove_prefix(2);
      }
      if (name == op) return &row;
    }
  return nullptr;
}

Item* Scope::find(const std::string& name) {
  for (Scope* s = this; s; s = s->parent)
    if (const auto it = s->items.find(name); it != s->items.end()) return &it->second;
  return nullptr;
}

// ---- Values
// ----------------------------------------------------------------------------------------

Value Importer::value(Item& item, std::string_view name) {
  if (!item.value) {
    if (item.literal)
      item.value = builder.constant(*item.literal, name);
    else if (item.extents)
      item.value = materialize(builder, *item.extents);
  }
  return item.value;
}

std::shared_ptr<const RefTensor> Importer::fold(Value v) {
  wanted.clear();
  if (builder.failed() || !v) return nullptr;
  const Graph& g = builder.graph();
  std::vector<uint32_t> needed{g.values[v.id.index].node.index};
  std::vector<bool> seen(g.nodes.size());
  seen[needed[0]] = true;
  bool possible = true;
  for (std::size_t k = 0; k < needed.size(); ++k) {
    if (needed.size() > kMaxFoldNodes) return nullptr;
    const Node& n = g.nodes[needed[k]];
    if (n.op == OpKind::Input) {
      wanted.push_back(n.attrs.as<InputAttrs>().name);
      possible = false;
      continue;
    }
    possible = possible && foldable(g, n);
    if (folded_.contains(n.results[0].index)) continue;
    for (const ValueId in : n.inputs) {
      if (!in) continue;
      const uint32_t from = g.values[in.index].node.index;
      if (!seen[from]) seen[from] = true, needed.push_back(from);
    }
  }
  if (!possible) return nullptr;
  std::sort(needed.begin(), needed.end());  // nodes stand in order of definition
  const Bindings none;
  for (const uint32_t index : needed) {
    const Node& n = g.nodes[index];
    if (folded_.contains(n.results[0].index)) continue;
    std::vector<const RefTensor*> in;
    for (const ValueId id : n.inputs) in.push_back(id ? folded_[id.index].get() : nullptr);
    std::vector<RefType> types;
    for (const ValueId id : n.results) {
      RefType t{g.type(id).dtype, {}};
      for (const Dim& d : g.type(id).shape) t.shape.push_back(d.value());
      types.push_back(std::move(t));
    }
    auto r = opDef(n.op).reference(RefContext{n.op, n.attrs, in, types, none});
    if (!r) return nullptr;
    for (std::size_t k = 0; k < n.results.size(); ++k)
      folded_[n.results[k].index] = std::make_shared<const RefTensor>(std::move((*r)[k]));
  }
  return folded_[v.id.index];
}

// ---- Declarations
// ----------------------------------------------------------------------------------

Status Importer::define(Scope& scope, const std::string& name, Item item) {
  if (!scope.items.emplace(name, std::move(item)).second)
    return Error(Errc::BadGraph, "the name " + quoted(name) + " is defined twice");
  return Ok{};
}

Result<Dim> Importer::dim(const DimDef& d, const std::string& fallback) {
  if (d.kind == DimDef::Kind::Extent) return Dim(d.extent);
  const std::string& name = d.kind == DimDef::Kind::Symbol ? d.symbol : fallback;
  if (d.kind == DimDef::Kind::Symbol)
    for (const auto& [theirs, ours] : symbols_)
      if (theirs == name) return Dim::symbol(ours);
  const std::string stem = identifier(name);
  std::string ours = stem;
  auto taken = [&] {
    return std::any_of(symbols_.begin(), symbols_.end(),
                       [&](const auto& s) { return s.second == ours; });
  };
  for (int k = 2; taken(); ++k) ours = stem + "_" + std::to_string(k);
  symbols_.emplace_back(d.kind == DimDef::Kind::Symbol ? name : std::string(), ours);
  return Dim::symbol(ours);
}

Status Importer::declareInitializers(const GraphDef& g, Scope& scope) {
  for (const TensorDef& t : g.initializers) {
    if (t.name.empty()) return Error(Errc::BadGraph, "an initialiser without a name");
    Item item;
    if (t.unsupported.empty())
      item.literal = t.value;
    else
      item.unavailable = true, item.why = "initialiser " + quoted(t.name) + " of " + t.unsupported;
    RLX_OK(define(scope, t.name, std::move(item)));
  }
  return Ok{};
}

Status Importer::declareInputs(const GraphDef& g, Scope& scope) {
  for (const ValueDef& v : g.inputs) {
    if (v.name.empty()) return Error(Errc::BadGraph, "a graph input without a name");
    if (scope.items.contains(v.name)) {
      // Old files list initialisers among the inputs.
      const auto same = [&](const TensorDef& t) { return t.name == v.name; };
      if (std::any_of(g.initializers.begin(), g.initializers.end(), same)) continue;
      return Error(Errc::BadGraph, "the input name " + quoted(v.name) + " is used twice");
    }
    Item item;
    if (!v.unsupported.empty() || !v.hasShape) {
      item.unavailable = true;
      item.why = "input " + quoted(v.name) + " is " +
                 (v.unsupported.empty() ? "a tensor of unknown rank" : v.unsupported);
      refused_.push_back(item.why);
      RLX_OK(define(scope, v.name, std::move(item)));
      continue;
    }
    Shape shape;
    Dim total(1);
    for (std::size_t k = 0; k < v.shape.size(); ++k) {
      RLX_TRY(Dim d, dim(v.shape[k], v.name + "_dim" + std::to_string(k)));
      shape.push_back(std::move(d));
    }
    const auto fixed = std::find_if(options_.fixedInputs.begin(), options_.fixedInputs.end(),
                                    [&](const auto& f) { return f.first == v.name; });
    if (fixed != options_.fixedInputs.end()) {
      const Literal& l = fixed->second;
      bool fits = l.dtype == v.dtype && l.shape.size() == shape.size();
      for (std::size_t k = 0; fits && k < shape.size(); ++k)
        fits = !shape[k].isConst() || shape[k].is(l.shape[k]);
      if (!fits)
        return Error(Errc::InputType, "input " + quoted(v.name) + " is fixed to a " +
                                          std::string(name(l.dtype)) + toText(l.shape) +
                                          ", the model declares " +
                                          text(TensorType{v.dtype, shape}));
      item.literal = l;
    } else {
      item.value = builder.input(v.name, v.dtype, std::move(shape));
      RLX_OK(checkResult(item, "input " + quoted(v.name)));
    }
    RLX_OK(define(scope, v.name, std::move(item)));
  }
  return Ok{};
}

// ---- Nodes
// -----------------------------------------------------------------------------------------

int64_t Importer::opsetOf(const Scope& scope, std::string_view domain) const {
  for (const OpsetDef& o : *scope.opsets)
    if (o.domain == domain) return o.version;
  return domain.empty() && model_.irVersion < 3 ? 1 : 0;
}

const FunctionDef* Importer::findFunction(const NodeDef& node) const {
  for (const FunctionDef& f : model_.functions)
    if (f.name == node.op && f.domain == node.domain) return &f;
  return nullptr;
}

void Importer::refuse(const std::string& label, std::string why,
                      const std::vector<std::string>& inputs) {
  refused_.push_back(label + ": " + std::move(why));
  for (const std::string& w : inputs)
    if (std::find(wantedInputs_.begin(), wantedInputs_.end(), w) == wantedInputs_.end())
      wantedInputs_.push_back(w);
}

// Lists the unknown ops of graphs that are not imported because something before them failed.
void Importer::scan(const std::vector<NodeDef>& nodes) {
  std::vector<const std::vector<NodeDef>*> work{&nodes};
  for (std::size_t k = 0; k < work.size(); ++k)
    for (const NodeDef& n : *work[k]) {
      if (!findFunction(n) && !findOp(n.domain, n.op))
        refused_.push_back("node " + quoted(n.name) + " (" + opText(n) +
                           ") in a nested graph: " + "the op is not supported");
      for (const AttributeDef& a : n.attributes)
        if (a.g) work.push_back(&a.g->nodes);
    }
}

Status Importer::checkResult(const Item& item, const std::string& label) const {
  if (!item.value) return Ok{};
  int64_t n = 1;
  for (const Dim& d : item.value.shape()) {
    if (!d.isConst()) continue;
    if (d.value() < 0) return Error(Errc::ShapeMismatch, label + ": negative extent " + d.text());
    if (__builtin_mul_overflow(n, std::max<int64_t>(d.value(), 1), &n) || n > options_.maxElements)
      return Error(Errc::FileBudget, label + ": shape " + text(item.value.shape()) +
                                         " has more than " + std::to_string(options_.maxElements) +
                                         " elements");
  }
  return Ok{};
}

Status Importer::importNodes(const std::vector<NodeDef>& nodes, Scope& scope) {
  for (std::size_t k = 0; k < nodes.size(); ++k) {
    Scope* const outer = current_;
    current_ = &scope;
    Status s = importNode(nodes[k], k, scope);
    current_ = outer;
    if (!s) {
      // A name that a later node defines: a cycle, or nodes out of order.
      return std::move(s).error();
    }
  }
  return Ok{};
}

Status Importer::importNode(const NodeDef& node, std::size_t index, Scope& scope) {
  const int64_t opset = opsetOf(scope, node.domain);
  std::string name = node.name;
  if (name.empty() && !node.outputs.empty()) name = node.outputs[0];
  name = scope.prefix + name;
  const std::string place = "node " + std::to_string(index) + " " + quoted(name) + " (" +
                            opText(node) + ", opset " + std::to_string(opset) + ")";
  if (++imported_ > options_.maxNodes)
    return Error(Errc::FileBudget, place + ": more than " + std::to_string(options_.maxNodes) +
                                       " nodes after inlining");

  std::vector<Item*> inputs;
  bool unavailable = false;
  for (const std::string& in : node.inputs) {
    if (in.empty()) {
      inputs.push_back(nullptr);
      continue;
    }
    Item* item = scope.find(in);
    if (!item)
      return Error(Errc::BadGraph, place + ": input " + quoted(in) +
                                       " is not defined before the node; a name is missing, the "
                                       "nodes are out of order or form a cycle")
          .node(name);
    if (item->unavailable && !item->why.empty()) {
      refused_.push_back(place + ": " + item->why);
      item->why.clear();
    }
    unavailable = unavailable || item->unavailable;
    inputs.push_back(item->value || item->literal || item->extents || item->unavailable ? item
                                                                                        : nullptr);
  }
  auto poison = [&]() -> Status {
    for (const AttributeDef& a : node.attributes)
      if (a.g) scan(a.g->nodes);
    for (const std::string& out : node.outputs) {
      Item item;
      item.unavailable = true;
      if (!out.empty()) RLX_OK(define(scope, out, std::move(item)));
    }
    return Ok{};
  };
  builder.setContext(name, model_.graph.name + ": " + place);

  const FunctionDef* function = findFunction(node);
  const OpRow* row = function ? nullptr : findOp(node.domain, node.op);
  if (!function && !row) {
    std::string why = "the op is not supported";
    if (node.domain.empty())
      for (const RefusedOp& r : refusedOps())
        if (r.name == node.op) why = std::string(r.why);
    refuse(place, why, {});
    return poison();
  }
  if (unavailable) return poison();
  if (!function && (opset < 1 || opset > kLatestOpset)) {
    refuse(place,
           "opset " + std::to_string(opset) + " is not known, the latest is " +
               std::to_string(kLatestOpset),
           {});
    return poison();
  }

  for (const Item* item : inputs) {
    const bool moves = std::find(std::begin(kNarrowOps), std::end(kNarrowOps), node.op) !=
                       std::end(kNarrowOps);
    if (function || moves || !item || !isNarrow(dtypeOf(*item))) continue;
    refuse(place, "dtype " + std::string(rlx::name(dtypeOf(*item))), {});
    return poison();
  }

  std::vector<Item> results;
  if (function) {
    auto called = callFunction(*function, node, scope, inputs);
    if (!called) return std::move(called).error().note("in " + place);
    results = std::move(*called);
  } else {
    auto present = static_cast<int>(inputs.size());
    while (present > 0 && !inputs[static_cast<std::size_t>(present) - 1]) --present;
    bool missing = present < row->minInputs;
    for (int k = 0; k < row->minInputs && k < present; ++k)
      missing = missing || !inputs[static_cast<std::size_t>(k)];
    if (missing || (row->maxInputs >= 0 && present > row->maxInputs))
      return Error(Errc::BadGraph,
                   place + ": " + std::to_string(present) + " inputs, expected " +
                       std::to_string(row->minInputs) +
                       (row->maxInputs < 0 ? " or more" : " to " + std::to_string(row->maxInputs)))
          .node(name);
    Call call(*this, node, opset, inputs, scope.bindings);
    bool done = false;
    if (node.outputs.size() == 1) {
      if (auto known = shapeRule(call)) call.out(0, std::move(*known)), done = true;
    }
    wanted.clear();
    Status ran = done ? Status(Ok{}) : row->run(call);
    auto sticky = call.takeError();
    if (sticky) ran = std::move(*sticky);
    if (builder.failed()) {
      Error e = builder.error()->clone();
      if (e.code() != Errc::TypeMismatch) return e;
      return Error(Errc::Unsupported, place + ": " + e.message()).node(name);
    }
    if (!ran && ran.error().code() == Errc::Unsupported) {
      refuse(place, ran.error().message(), wanted);
      return poison();
    }
    if (!ran) return std::move(ran).error().note("in " + place).node(name);
    results = std::move(call.results());
  }
  for (std::size_t k = 0; k < node.outputs.size(); ++k) {
    if (node.outputs[k].empty()) continue;
    Item item;
    if (k < results.size()) item = std::move(results[k]);
    if (!item.value && !item.literal && !item.extents && !item.unavailable) {
      refuse(place,
             "output " + std::to_string(k) + " " + quoted(node.outputs[k]) + " is not computed",
             {});
      item.unavailable = true;
    }
    RLX_OK(checkResult(item, place));
    auto defined = define(scope, node.outputs[k], std::move(item));
    if (!defined) return std::move(defined).error().note("in " + place);
  }
  return Ok{};
}

// ---- Functions and nested graphs
// -------------------------------------------------------------------

Result<std::vector<Item>> Importer::callFunction(const FunctionDef& f, const NodeDef& node,
                                                 Scope& scope, const std::vector<Item*>& inputs) {
  if (++depth_ > options_.maxDepth)
    return Error(Errc::FileBudget, "functions nested deeper than " +
                                       std::to_string(options_.maxDepth) + ", or recursive");
  if (inputs.size() > f.inputs.size())
    return Error(Errc::BadGraph, "function " + quoted(f.name) + " takes " +
                                     std::to_string(f.inputs.size()) + " inputs, " +
                                     std::to_string(inputs.size()) + " are given");
  std::vector<AttributeDef> bindings;
  for (const AttributeDef& a : node.attributes) {
    const AttributeDef* from = &a;
    if (!a.reference.empty()) {
      from = nullptr;
      if (scope.bindings)
        for (const AttributeDef& outer : *scope.bindings)
          if (outer.name == a.reference) from = &outer;
    }
    if (!from) continue;
    bindings.push_back(*from);
    bindings.back().name = a.name;
  }
  for (const AttributeDef& d : f.defaults)
    if (std::none_of(bindings.begin(), bindings.end(),
                     [&](const AttributeDef& b) { return b.name == d.name; }))
      bindings.push_back(d);
  Scope inner;
  inner.opsets = &f.opsets;
  inner.bindings = &bindings;
  inner.prefix = scope.prefix + (node.name.empty() ? node.op : node.name) + "/";
  for (std::size_t k = 0; k < f.inputs.size(); ++k)
    RLX_OK(define(inner, f.inputs[k], k < inputs.size() && inputs[k] ? *inputs[k] : Item{}));
  RLX_OK(importNodes(f.nodes, inner));
  std::vector<Item> out;
  for (const std::string& name : f.outputs) {
    const Item* item = inner.find(name);
    if (!item)
      return Error(Errc::BadGraph,
                   "function " + quoted(f.name) + ": output " + quoted(name) + " is not defined");
    out.push_back(*item);
  }
  --depth_;
  return out;
}

Result<std::vector<Item>> Importer::inlineGraph(const GraphDef& g) {
  if (++depth_ > options_.maxDepth)
    return Error(Errc::FileBudget,
                 "graphs nested deeper than " + std::to_string(options_.maxDepth));
  Scope inner;
  inner.parent = current_;
  inner.opsets = current_->opsets;
  inner.bindings = current_->bindings;
  inner.prefix = current_->prefix + (g.name.empty() ? std::string() : g.name + "/");
  RLX_OK(declareInitializers(g, inner));
  RLX_OK(importNodes(g.nodes, inner));
  std::vector<Item> out;
  for (const ValueDef& v : g.outputs) {
    const Item* item = inner.find(v.name);
    if (!item) return Error(Errc::BadGraph, "graph output " + quoted(v.name) + " is not defined");
    out.push_back(*item);
  }
  --depth_;
  return out;
}

// ---- The whole
// -------------------------------------------------------------------------------------

Error Importer::unsupportedList() const {
  Error e(Errc::Unsupported, refused_.size() == 1 ? refused_[0]
                                                  : std::to_string(refused_.size()) +
                                                        " parts of the model are not supported");
  if (refused_.size() == 1) return e;
  for (std::size_t k = 0; k < refused_.size() && k < kMaxListed; ++k)
    e = std::move(e).note(refused_[k]);
  if (refused_.size() > kMaxListed)
    e = std::move(e).note("and " + std::to_string(refused_.size() - kMaxListed) + " more");
  return e;
}

Status Importer::emitOutputs(Scope& scope) {
  builder.setContext({}, {});
  for (const ValueDef& v : model_.graph.outputs) {
    Item* item = scope.find(v.name);
    if (!item) return Error(Errc::BadGraph, "graph output " + quoted(v.name) + " is not defined");
    if (item->unavailable) continue;
    builder.output(v.name, value(*item, v.name));
  }
  return Ok{};
}

Result<Graph> Importer::run() {
  Scope scope;
  scope.opsets = &model_.opsets;
  RLX_OK(declareInitializers(model_.graph, scope));
  RLX_OK(declareInputs(model_.graph, scope));
  RLX_OK(importNodes(model_.graph.nodes, scope));
  if (options_.wantedInputs) *options_.wantedInputs = wantedInputs_;
  if (!refused_.empty()) return unsupportedList();
  RLX_OK(emitOutputs(scope));
  return std::move(builder).finish();
}

}  // namespace rlx::onnx

namespace rlx {

Result<Graph> importOnnx(std::shared_ptr<const MappedFile> file, const std::string& folder,
                         const OnnxOptions& options) {
  auto imported = [&]() -> Result<Graph> {
    RLX_TRY(const onnx::ModelDef model, onnx::readModel(file, folder, options));
    return onnx::Importer(model, options).run();
  }();
  if (!imported) return std::move(imported).error().note("while importing '" + file->path() + "'");
  return imported;
}

Result<Graph> importOnnx(const std::string& path, const OnnxOptions& options) {
  RLX_TRY(auto file, MappedFile::open(path));
  const std::string_view folder = parentPath(path);
  return importOnnx(std::move(file), folder.empty() ? "." : std::string(folder), options);
}

Result<std::vector<std::string>> onnxInputNames(const std::string& path) {
  RLX_TRY(auto file, MappedFile::open(path));
  RLX_TRY(const onnx::ModelDef model, onnx::readModel(file, std::string(parentPath(path)), {}));
  std::vector<std::string> out;
  for (const onnx::ValueDef& v : model.graph.inputs)
    if (std::none_of(model.graph.initializers.begin(), model.graph.initializers.end(),
                     [&](const onnx::TensorDef& t) { return t.name == v.name; }))
      out.push_back(v.name);
  return out;
}

std::vector<std::string> onnxOps() {
  std::vector<std::string> out;
  for (const auto family : onnx::kFamilies)
    for (const onnx::OpRow& row : family()) out.emplace_back(row.name);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace rlx
