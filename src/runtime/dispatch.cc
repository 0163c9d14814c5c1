#include "runtime/dispatch.h"

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "ops/op.h"
#include "passes/passes.h"
#include "runtime/host_kernel.h"
#include "schedule/schedule.h"

namespace rlx {
namespace {

Policy policyOf(const CompileOptions& o, const Node& n) {
  for (const auto& [node, p] : o.nodePolicies)
    if (node == n.name) return p;
  for (const auto& [op, p] : o.opPolicies)
    if (op == name(n.op)) return p;
  return o.policy;
}

std::string nodeTypes(const Graph& g, const Node& n) {
  std::string t;
  for (const ValueId v : n.inputs) t += (t.empty() ? "" : ", ") + (v ? text(g.type(v)) : "_");
  t += " -> ";
  for (std::size_t k = 0; k < n.results.size(); ++k)
    t += (k ? ", " : "") + text(g.type(n.results[k]));
  return t;
}

// Whether the op's own lowering is legal on the device: lowers the node alone and emits its
// kernels.
Status tryCommon(const Graph& g, const Node& n, const Backend& backend, const Caps& caps) {
  const OpDef& d = opDef(n.op);
  for (const auto* values : {&n.inputs, &n.results})
    for (const ValueId v : *values)
      if (v && !canStore(caps, g.type(v).dtype))
        return Error(Errc::Unsupported,
                     "the device has no storage of dtype " + std::string(name(g.type(v).dtype)));
  if (!d.element && !d.fold && !d.scanStep)
    return Error(Errc::Unsupported, "the op has no kernel lowering");
  Builder b("probe", Stage::Primitive);
  std::vector<Value> in;
  for (std::size_t k = 0; k < n.inputs.size(); ++k) {
    const TensorType* t = n.inputs[k] ? &g.type(n.inputs[k]) : nullptr;
    in.push_back(t ? b.input("x" + std::to_string(k), t->dtype, t->shape) : Value{});
  }
  const Value y = b.emit(n.op, std::move(in), n.attrs);
  b.output("y", y);
  RLX_TRY(Graph probe, std::move(b).finish());
  const std::vector<const NativeKernel*> none(probe.nodes.size(), nullptr);
  RLX_TRY(const Program p, schedule(std::move(probe), caps, none));
  for (const Step& s : p.steps) RLX_OK(backend.emit(s.kernel, caps));
  return Ok{};
}

// Results of tryCommon are remembered per backend, op, attributes and types.
class Probes {
 public:
  std::string check(const Graph& g, const Node& n, const Backend& backend, const Caps& caps) {
    std::string key = std::string(backend.name) + "|" + std::string(name(n.op)) + n.attrs.text() +
                      nodeTypes(g, n);
    key += "|" + std::to_string(caps.arithmetic) + "," + std::to_string(caps.storage);
    {
      const std::lock_guard lock(mutex_);
      if (const auto at = known_.find(key); at != known_.end()) return at->second;
    }
    auto s = tryCommon(g, n, backend, caps);
    std::string why = s ? "" : s.error().message();
    const std::lock_guard lock(mutex_);
    return known_.emplace(std::move(key), std::move(why)).first->second;
  }
  static Probes& instance() {
    static Probes probes;
    return probes;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::string> known_;  // empty: legal
};

class Dispatcher {
 public:
  Dispatcher(const Backend& backend, const Caps& caps, const CompileOptions& options)
      : backend_(backend), caps_(caps), options_(options) {}

  Decision decide(const Graph& g, uint32_t index, int depth) {
    const Node& n = g.nodes[index];
    const OpDef& def = opDef(n.op);
    Decision d;
    d.op = std::string(name(n.op));
    d.node = n.name;
    d.location = n.location;
    d.type = nodeTypes(g, n);
    if (backend_.runGraph) {
      d.path = DispatchClass::Native;
      d.kernel = std::string(backend_.name);
      return d;
    }
    const Policy policy = policyOf(options_, n);
    if (const NativeKernel* k = findNative(g, {index}, backend_, caps_, options_, &d.reasons)) {
      d.path = DispatchClass::Native;
      d.kernel = std::string(k->name);
      return d;
    }
    if (policy == Policy::ForceNative) {
      d.reasons.push_back("common-IR: forbidden by the policy force-native");
    } else if (!def.info.composite) {
      const std::string why = Probes::instance().check(g, n, backend_, caps_);
      if (why.empty()) {
        d.path = DispatchClass::CommonIr;
        return d;
      }
      d.reasons.push_back("common-IR: " + why);
    } else {
      d.reasons.push_back("common-IR: a composite, it has a decomposition");
    }
    if (def.decompose && depth < 8) {
      if (rewrite(g, n, depth, d)) return d;
    } else if (!def.decompose) {
      d.reasons.push_back("rewritten: no decomposition");
    }
    if (std::find(options_.allowHost.begin(), options_.allowHost.end(), d.op) !=
        options_.allowHost.end()) {
      auto taken = hostKernel().accepts(NativeQuery{g, {index}, caps_, {}});
      if (taken) {
        d.path = DispatchClass::Host;
        d.parts.clear();
        return d;
      }
      d.reasons.push_back("host: " + taken.error().message());
    }
    d.path = DispatchClass::Fail;
    return d;
  }

 private:
  // Runs the decomposition on a probe graph and asks about every op it emits.
  bool rewrite(const Graph& g, const Node& n, int depth, Decision& d) {
    Builder b("probe", Stage::Model);
    std::vector<Value> in;
    for (std::size_t k = 0; k < n.inputs.size(); ++k) {
      const TensorType* t = n.inputs[k] ? &g.type(n.inputs[k]) : nullptr;
      in.push_back(t ? b.input("x" + std::to_string(k), t->dtype, t->shape) : Value{});
    }
    (void)opDef(n.op).decompose(b, in, n.attrs);
    if (b.failed()) {
      d.reasons.push_back("rewritten: " + b.error()->message());
      return false;
    }
    bool ok = true;
    const Graph& body = b.graph();
    for (uint32_t k = 0; k < body.nodes.size(); ++k) {
      const OpKind op = body.nodes[k].op;
      if (op == OpKind::Input || op == OpKind::Constant) continue;
      d.parts.push_back(decide(body, k, depth + 1));
      if (d.parts.back().path == DispatchClass::Fail) {
        ok = false;
        std::string chain = "rewritten: needs " + d.parts.back().op + " " + d.parts.back().type;
        for (const std::string& r : d.parts.back().reasons) chain += "; " + r;
        d.reasons.push_back(std::move(chain));
      }
    }
    if (ok) d.path = DispatchClass::Rewritten;
    return ok;
  }

  const Backend& backend_;
  const Caps& caps_;
  const CompileOptions& options_;
};

void printDecision(const Decision& d, int depth, std::string& out) {
  std::string left = std::string(static_cast<std::size_t>(depth) * 2, ' ') + d.op;
  left.resize(std::max<std::size_t>(left.size(), 20), ' ');
  std::string path(spelling(d.path));
  path.resize(10, ' ');
  out += "  " + left + " " + path + " " + d.type;
  if (!d.kernel.empty()) out += "  [" + d.kernel + "]";
  if (!d.node.empty() && depth == 0) out += "  @" + d.node;
  out += "\n";
  if (d.path == DispatchClass::Fail)
    for (const std::string& r : d.reasons)
      out += "  " + std::string(static_cast<std::size_t>(depth) * 2 + 4, ' ') + r + "\n";
  for (const Decision& p : d.parts) printDecision(p, depth + 1, out);
}

nlohmann::json toJson(const Decision& d) {
  nlohmann::json j{{"op", d.op}, {"class", spelling(d.path)}, {"type", d.type}};
  if (!d.node.empty()) j["node"] = d.node;
  if (!d.location.empty()) j["location"] = d.location;
  if (!d.kernel.empty()) j["kernel"] = d.kernel;
  if (!d.reasons.empty()) j["reasons"] = d.reasons;
  for (const Decision& p : d.parts) j["parts"].push_back(toJson(p));
  return j;
}

}  // namespace

std::string_view spelling(DispatchClass c) {
  switch (c) {
    case DispatchClass::Native: return "native";
    case DispatchClass::CommonIr: return "common-IR";
    case DispatchClass::Rewritten: return "rewritten";
    case DispatchClass::Host: return "host";
    case DispatchClass::Fail: return "FAIL";
  }
  RLX_UNREACHABLE("dispatch class");
}

int64_t DispatchReport::count(DispatchClass c) const {
  return std::count_if(nodes.begin(), nodes.end(), [&](const Decision& d) { return d.path == c; });
}

std::string DispatchReport::summary() const {
  std::string s;
  for (const DispatchClass c : {DispatchClass::Native, DispatchClass::CommonIr,
                                DispatchClass::Rewritten, DispatchClass::Host, DispatchClass::Fail})
    s += (s.empty() ? "" : ", ") + std::to_string(count(c)) + " " + std::string(spelling(c));
  if (!waived.empty()) {
    s += "; host placement waived for";
    for (const std::string& w : waived) s += " " + w;
  }
  return s;
}

std::string DispatchReport::text() const {
  std::string out = "device " + device + "\n";
  for (const Decision& d : nodes) printDecision(d, 0, out);
  return out + "summary: " + summary() + "\n";
}

std::string DispatchReport::json() const {
  nlohmann::json j{{"device", device}, {"nodes", nlohmann::json::array()}, {"waived", waived}};
  for (const Decision& d : nodes) j["nodes"].push_back(toJson(d));
  for (const DispatchClass c : {DispatchClass::Native, DispatchClass::CommonIr,
                                DispatchClass::Rewritten, DispatchClass::Host, DispatchClass::Fail})
    j["summary"][std::string(spelling(c))] = count(c);
  return j.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Status DispatchReport::status() const {
  const int64_t failed = count(DispatchClass::Fail);
  if (failed == 0) return Ok{};
  Error e(Errc::NotDispatchable, std::to_string(failed) + " of " + std::to_string(nodes.size()) +
                                     " nodes cannot run on device '" + device + "'");
  for (const Decision& d : nodes) {
    if (d.path != DispatchClass::Fail) continue;
    std::string line = d.op + (d.node.empty() ? "" : " '" + d.node + "'") +
                       (d.location.empty() ? "" : " (" + d.location + ")") + " " + d.type;
    for (const std::string& r : d.reasons) line += "\n      " + r;
    e = std::move(e).note(std::move(line));
  }
  std::string ops;
  for (const Decision& d : nodes)
    if (d.path == DispatchClass::Fail && ops.find("--allow-host=" + d.op) == ops.npos)
      ops += " --allow-host=" + d.op;
  return std::move(e).hint("choose another device or dtype, or allow host placement:" + ops);
}

const NativeKernel* findNative(const Graph& graph, NodeId node, const Backend& backend,
                               const Caps& caps, const CompileOptions& options,
                               std::vector<std::string>* reasons) {
  const Node& n = graph.node(node);
  if (!backend.natives) {
    if (reasons) reasons->push_back("native: the backend has none");
    return nullptr;
  }
  if (policyOf(options, n) == Policy::ForceCommon) {
    if (reasons) reasons->push_back("native: forbidden by the policy force-common");
    return nullptr;
  }
  bool any = false;
  NativeQuery q{graph, node, caps, {}};
  for (const NativeKernel& k : backend.natives()) {
    if (k.op != n.op) continue;
    any = true;
    q.operands = operandViews(graph, n, k);
    auto s = k.accepts(q);
    if (s) return &k;
    if (reasons) reasons->push_back("native " + std::string(k.name) + ": " + s.error().message());
  }
  if (!any && reasons) reasons->push_back("native: none for this op");
  return nullptr;
}

Result<DispatchResult> dispatch(const Graph& model, const Backend& backend, const Caps& caps,
                                const CompileOptions& options) {
  DispatchResult r;
  r.report.device = std::string(backend.name);
  r.report.waived = options.allowHost;
  Dispatcher d(backend, caps, options);
  std::vector<bool> keep(model.nodes.size());
  for (uint32_t n = 0; n < model.nodes.size(); ++n) {
    const OpKind op = model.nodes[n].op;
    if (op == OpKind::Input || op == OpKind::Constant) continue;
    Decision decision = d.decide(model, n, 0);
    keep[n] = decision.path != DispatchClass::Rewritten;
    r.report.nodes.push_back(std::move(decision));
  }
  if (r.report.count(DispatchClass::Fail) || backend.runGraph) {
    r.graph = model;
    return r;
  }
  RLX_TRY(r.graph, decompose(model, keep, nullptr));
  return r;
}

std::vector<const NativeKernel*> chooseNatives(const Graph& graph, const Backend& backend,
                                               const Caps& caps, const CompileOptions& options) {
  std::vector<const NativeKernel*> out(graph.nodes.size(), nullptr);
  Dispatcher d(backend, caps, options);
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    const OpKind op = graph.nodes[n].op;
    if (op == OpKind::Input || op == OpKind::Constant) continue;
    out[n] = findNative(graph, {n}, backend, caps, options, nullptr);
    if (!out[n] && !options.allowHost.empty() && d.decide(graph, n, 0).path == DispatchClass::Host)
      out[n] = &hostKernel();
  }
  return out;
}

}  // namespace rlx
