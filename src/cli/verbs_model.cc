// inspect, run, explain, compare, print.
#include <cstdio>
#include <filesystem>

#include "base/file.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/trace_file.h"
#include "dialect/dialect.h"
#include "kir/print.h"
#include "model/load.h"
#include "ops/interpreter.h"
#include "ops/op.h"
#include "ops/tolerance.h"
#include "passes/passes.h"
#include "runtime/registry.h"
#include "schedule/memory_plan.h"

namespace rlx::cli {
namespace {

// Runs `body` when the verb was chosen; its Status becomes the exit code.
template <class F>
void onRun(CLI::App* sub, Common& common, int& exitCode, F body) {
  sub->callback([&common, &exitCode, body] {
    const Status s = body();
    if (!s) exitCode = report(s.error(), common);
  });
}

nlohmann::json portsJson(const Graph& g, const std::vector<Port>& ports) {
  nlohmann::json j = nlohmann::json::array();
  for (const Port& p : ports) {
    nlohmann::json shape = nlohmann::json::array();
    for (const Dim& d : g.type(p.value).shape)
      shape.push_back(d.isConst() ? nlohmann::json(d.value()) : nlohmann::json(d.text()));
    j.push_back({{"name", p.name}, {"dtype", name(g.type(p.value).dtype)}, {"shape", shape}});
  }
  return j;
}

Status inspect(const ModelOptions& o, const Common& common) {
  RLX_TRY(const Graph g, loadModel(o.file));
  RLX_TRY(const CompileOptions options, compileOptions(o, common));
  std::vector<std::pair<std::string, int64_t>> ops;
  std::vector<std::pair<std::string, int64_t>> bytes;
  int64_t parameters = 0;
  auto count = [](std::vector<std::pair<std::string, int64_t>>& list, std::string_view key,
                  int64_t n) {
    for (auto& [k, v] : list)
      if (k == key) {
        v += n;
        return;
      }
    list.emplace_back(key, n);
  };
  for (const Node& n : g.nodes) {
    if (n.op == OpKind::Constant) {
      const Literal& v = n.attrs.as<ConstantAttrs>().value;
      parameters += v.elements();
      count(bytes, name(v.dtype), static_cast<int64_t>(v.bytes.size()));
    } else if (n.op != OpKind::Input) {
      count(ops, name(n.op), 1);
    }
  }
  std::sort(ops.begin(), ops.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  // Peak memory per device, under the given dims and 1 for every other symbol.
  nlohmann::json peak = nlohmann::json::object();
  for (const Backend* b : backends()) {
    if (b->runGraph) continue;
    CompileOptions c = options;
    c.device = std::string(b->name);
    auto exe = compile(g, c);
    if (!exe) {
      peak[std::string(b->name)] = exe.error().message();
      continue;
    }
    Bindings bindings;
    for (const std::string& s : exe->model().symbols()) bindings.set(s, 1);
    auto plan = planMemory(exe->program(), bindings);
    if (!plan) continue;
    int64_t total = exe->stats().constantBytes + plan->arenaBytes;
    for (std::size_t k = 0; k < plan->bytes.size(); ++k)
      if (exe->program().buffers[k].kind == BufferKind::Input ||
          exe->program().buffers[k].kind == BufferKind::Output)
        total += plan->bytes[k];
    peak[std::string(b->name)] = total;
  }
  if (common.json) {
    nlohmann::json j{{"name", g.name},
                     {"inputs", portsJson(g, g.inputs)},
                     {"outputs", portsJson(g, g.outputs)},
                     {"symbols", g.symbols()},
                     {"parameters", parameters},
                     {"peakBytes", peak}};
    for (const auto& [k, v] : ops) j["ops"][k] = v;
    for (const auto& [k, v] : bytes) j["bytes"][k] = v;
    printJson(j);
    return Ok{};
  }
  std::printf("%s\n", g.name.c_str());
  for (const Port& p : g.inputs)
    std::printf("  input   %-24s %s\n", p.name.c_str(), text(g.type(p.value)).c_str());
  for (const Port& p : g.outputs)
    std::printf("  output  %-24s %s\n", p.name.c_str(), text(g.type(p.value)).c_str());
  std::string symbols;
  for (const std::string& s : g.symbols()) symbols += " " + s;
  if (!symbols.empty()) std::printf("  symbols%s\n", symbols.c_str());
  std::printf("  parameters %s\n", groupDigits(static_cast<uint64_t>(parameters)).c_str());
  for (const auto& [k, v] : bytes)
    std::printf("  %-6s %s\n", k.c_str(), humanBytes(static_cast<uint64_t>(v)).c_str());
  for (const auto& [device, v] : peak.items())
    std::printf(
        "  peak memory on %s: %s\n", device.c_str(),
        v.is_number() ? humanBytes(v.get<uint64_t>()).c_str() : v.get<std::string>().c_str());
  Table t({"op", "count"}, {Table::Align::Left, Table::Align::Right});
  for (const auto& [k, v] : ops) t.row({k, std::to_string(v)});
  std::printf("%s", t.text().c_str());
  return Ok{};
}

Status run(const ModelOptions& o, const std::string& outputDir, const std::string& trace,
           const Common& common) {
  RLX_TRY(const Graph g, loadModel(o.file));
  RLX_TRY(const CompileOptions options, compileOptions(o, common));
  RLX_TRY(const std::vector<NamedTensor> inputs, makeInputs(g, o, options));
  RLX_TRY(Executable exe, compile(g, options));
  RLX_TRY(const std::vector<NamedTensor> out,
          trace.empty() ? exe.run(inputs) : writeTrace(exe, inputs, trace));
  if (!outputDir.empty()) {
    RLX_OK(makeFolders(outputDir));
    for (const NamedTensor& t : out) {
      std::string file = t.name;
      for (char& c : file)
        if (!(std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.'))
          c = '_';
      RLX_OK(writeTensor(joinPath(outputDir, file + ".npy"), t.tensor));
    }
  }
  if (common.json) {
    nlohmann::json j{{"device", options.device}, {"outputs", nlohmann::json::array()}};
    for (const NamedTensor& t : out) {
      nlohmann::json o1{
          {"name", t.name}, {"dtype", name(t.tensor.dtype)}, {"shape", t.tensor.shape}};
      if (auto r = fromLiteral(t.tensor)) {
        nlohmann::json values = nlohmann::json::array();
        for (int64_t k = 0; k < std::min<int64_t>(8, r->elements()); ++k)
          values.push_back(r->number(k));
        o1["head"] = values;
      }
      j["outputs"].push_back(o1);
    }
    printJson(j);
    return Ok{};
  }
  for (const NamedTensor& t : out) std::printf("%s %s\n", t.name.c_str(), head(t.tensor).c_str());
  return Ok{};
}

std::string escapeHtml(const std::string& s) {
  std::string out;
  for (const char c : s)
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

Status explainVerb(const ModelOptions& o, const std::string& html, const Common& common) {
  RLX_TRY(const Graph g, loadModel(o.file));
  RLX_TRY(CompileOptions options, compileOptions(o, common));
  nlohmann::json all = nlohmann::json::array();
  std::string page;
  Status failed = Ok{};
  std::string devices = o.device + ",";
  for (std::size_t at = 0, comma; (comma = devices.find(',', at)) != devices.npos; at = comma + 1) {
    options.device = devices.substr(at, comma - at);
    if (options.device.empty()) continue;
    RLX_TRY(const DispatchReport report, explain(g, options));
    if (common.json)
      all.push_back(nlohmann::json::parse(report.json()));
    else if (common.quiet)
      std::printf("device %s: %s\n", report.device.c_str(), report.summary().c_str());
    else
      std::printf("%s", report.text().c_str());
    page += "<h2>" + escapeHtml(report.device) + "</h2><p>" + escapeHtml(report.summary()) +
            "</p><pre>" + escapeHtml(report.text()) + "</pre>";
    if (auto s = report.status(); !s && failed) failed = std::move(s);
  }
  if (common.json) printJson(all);
  if (!html.empty())
    RLX_OK(writeFileAtomic(
        html, "<!doctype html><meta charset=utf-8><title>" + escapeHtml(o.file) +
                  "</title><style>body{font:14px "
                  "sans-serif;margin:2em}pre{background:#f6f6f6;padding:1em}</style><h1>" +
                  escapeHtml(o.file) + "</h1>" + page));
  return failed;
}

Status compareVerb(const ModelOptions& o, const std::string& reference, const Common& common) {
  RLX_TRY(const Graph g, loadModel(o.file));
  RLX_TRY(CompileOptions options, compileOptions(o, common));
  RLX_TRY(const std::vector<NamedTensor> inputs, makeInputs(g, o, options));
  RLX_TRY(Executable exe, compile(g, options));
  RLX_TRY(const auto values, exe.runAll(inputs));
  RLX_TRY(const auto outputs, exe.run(inputs));
  const Graph& primitive = exe.program().graph;
  std::vector<std::pair<DType, std::vector<int64_t>>> types;
  for (const NamedTensor& t : inputs) types.emplace_back(t.tensor.dtype, t.tensor.shape);
  RLX_TRY(const Bindings bindings, bindInputs(exe.model(), types));
  const int64_t length = longestSum(primitive, bindings);
  nlohmann::json rows = nlohmann::json::array();
  std::string firstBad;
  int64_t compared = 0;
  if (reference == "reference") {
    // Node by node against the interpreter of the primitive graph.
    std::vector<RefTensor> in;
    for (const Port& p : primitive.inputs)
      for (const NamedTensor& t : inputs)
        if (t.name == p.name) {
          RLX_TRY(RefTensor r, fromLiteral(t.tensor));
          in.push_back(std::move(r));
        }
    RLX_TRY(const std::vector<RefTensor> want, interpretAll(primitive, in));
    int64_t depth = 0;
    for (const auto& [v, tensor] : values) {
      ++depth;
      RLX_TRY(const RefTensor got, fromLiteral(tensor));
      const Difference d = compare(got, want[v.index], graphTolerance(tensor.dtype, depth, length));
      const Node& n = primitive.definition(v);
      ++compared;
      if (!d.equal && firstBad.empty())
        firstBad = std::string(name(n.op)) + (n.name.empty() ? "" : " '" + n.name + "'");
      rows.push_back({{"op", name(n.op)},
                      {"node", n.name},
                      {"type", text(primitive.type(v))},
                      {"maxAbs", d.maxAbs},
                      {"cosine", d.cosine},
                      {"tolerances", d.worst},
                      {"ok", d.equal}});
    }
  }
  options.device = reference;
  RLX_TRY(Executable other, compile(g, options));
  RLX_TRY(const auto expected, other.run(inputs));
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    RLX_TRY(const RefTensor got, fromLiteral(outputs[k].tensor));
    RLX_TRY(const RefTensor want, fromLiteral(expected[k].tensor));
    const Difference d =
        compare(got, want, graphTolerance(outputs[k].tensor.dtype, exe.stats().steps, length));
    ++compared;
    if (!d.equal && firstBad.empty()) firstBad = "output '" + outputs[k].name + "'";
    rows.push_back({{"op", "output"},
                    {"node", outputs[k].name},
                    {"type", head(outputs[k].tensor, 0)},
                    {"maxAbs", d.maxAbs},
                    {"cosine", d.cosine},
                    {"tolerances", d.worst},
                    {"ok", d.equal}});
  }
  if (common.json) {
    printJson({{"device", o.device},
               {"reference", reference},
               {"equal", firstBad.empty()},
               {"rows", rows}});
  } else {
    Table t({"op", "node", "type", "max abs error", "cosine", "tolerances", ""});
    for (const auto& r : rows) {
      char a[32], b[32], c[32];
      std::snprintf(a, sizeof a, "%.3g", r["maxAbs"].get<double>());
      std::snprintf(b, sizeof b, "%.9f", r["cosine"].get<double>());
      std::snprintf(c, sizeof c, "%.3g",
                    r["tolerances"].is_number() ? r["tolerances"].get<double>() : INFINITY);
      if (common.quiet && r["ok"].get<bool>() && r["op"] != "output") continue;
      t.row({r["op"], r["node"], r["type"], a, b, c, r["ok"].get<bool>() ? "ok" : "DIFFERS"});
    }
    std::printf("%s", t.text().c_str());
    std::printf("%lld values compared on %s against %s: %s\n", static_cast<long long>(compared),
                o.device.c_str(), reference.c_str(),
                firstBad.empty() ? "all within tolerance"
                                 : ("first outside its tolerance: " + firstBad).c_str());
  }
  if (!firstBad.empty())
    return Error(Errc::CheckFailed, "first value outside its tolerance: " + firstBad);
  return Ok{};
}

Status printVerb(const ModelOptions& o, const std::string& stage, int64_t literalBytes,
                 const Common& common) {
  RLX_TRY(const Graph g, loadModel(o.file));
  const PrintOptions print{literalBytes};
  if (stage == "model") {
    std::printf("%s", rlx::print(g, print).c_str());
    return Ok{};
  }
  RLX_TRY(const CompileOptions options, compileOptions(o, common));
  if (stage == "primitive") {
    RLX_TRY(const Graph s, simplify(g));
    RLX_TRY(const Graph p, decompose(s, {}, nullptr));
    RLX_TRY(const Graph q, simplify(p));
    std::printf("%s", rlx::print(q, print).c_str());
    return Ok{};
  }
  const Dialect* dialect = findDialect(stage);
  if (!dialect && stage != "kernel" && stage != "program") {
    std::string names;
    for (const Dialect* d : dialects()) names += ", " + std::string(d->name);
    return Error(Errc::Usage,
                 "no stage '" + stage + "'; model, primitive, kernel, program" + names);
  }
  RLX_TRY(const Executable exe, compile(g, options));
  if (stage == "program") {
    std::printf("%s", rlx::print(exe.program()).c_str());
    return Ok{};
  }
  RLX_TRY(const Backend* const backend, findBackend(options.device));
  std::vector<std::string> seen;
  for (const Step& s : exe.program().steps) {
    if (s.native && !s.finished) continue;
    std::string out = kir::print(s.kernel);
    if (dialect) {
      RLX_TRY(out, emitText(s.kernel, backend->defaultCaps, *dialect));
    }
    if (std::find(seen.begin(), seen.end(), out) != seen.end()) continue;
    std::printf("// %s\n%s\n", s.label.c_str(), out.c_str());
    seen.push_back(std::move(out));
  }
  return Ok{};
}

}  // namespace

void addModelVerbs(CLI::App& app, Common& common, int& exitCode) {
  {
    auto o = std::make_shared<ModelOptions>();
    CLI::App* s =
        app.add_subcommand("inspect", "Inputs, outputs, symbols, ops, parameters, memory");
    s->footer("Example: rlx inspect model.onnx --json");
    addModel(*s, *o);
    onRun(s, common, exitCode, [o, &common] { return inspect(*o, common); });
  }
  {
    auto o = std::make_shared<ModelOptions>();
    auto dir = std::make_shared<std::string>();
    auto trace = std::make_shared<std::string>();
    CLI::App* s = app.add_subcommand("run", "Run once; print (and write) the outputs");
    s->footer(
        "Example: rlx run model.onnx --device vulkan --input x=x.npy --dim batch=4 --output-dir "
        "out");
    addModel(*s, *o), addDevice(*s, *o), addInputs(*s, *o);
    s->add_option("--output-dir,-o", *dir, "Folder for the outputs as .npy");
    s->add_option("--trace", *trace, "File for a trace of the run (JSON, for Perfetto)");
    onRun(s, common, exitCode, [o, dir, trace, &common] { return run(*o, *dir, *trace, common); });
  }
  {
    auto o = std::make_shared<ModelOptions>();
    auto html = std::make_shared<std::string>();
    CLI::App* s =
        app.add_subcommand("explain", "Where every op runs, and why; exit 3 when one cannot");
    s->footer("Example: rlx explain model.onnx --device cpu,vulkan");
    addModel(*s, *o), addDevice(*s, *o);
    s->add_option("--html", *html, "Write the report as a self-contained page");
    onRun(s, common, exitCode, [o, html, &common] { return explainVerb(*o, *html, common); });
  }
  {
    auto o = std::make_shared<ModelOptions>();
    auto reference = std::make_shared<std::string>("reference");
    CLI::App* s = app.add_subcommand(
        "compare", "Run on a device and on a reference; name the first node that differs");
    s->footer("Example: rlx compare model.onnx --device vulkan --dim seq=16");
    addModel(*s, *o), addDevice(*s, *o), addInputs(*s, *o);
    s->add_option("--reference", *reference, "Device to compare with")->capture_default_str();
    onRun(s, common, exitCode,
          [o, reference, &common] { return compareVerb(*o, *reference, common); });
  }
  {
    auto o = std::make_shared<ModelOptions>();
    auto stage = std::make_shared<std::string>("model");
    auto bytes = std::make_shared<int64_t>(1024);
    CLI::App* s = app.add_subcommand(
        "print", "Text of any level: model, primitive, kernel, program or a dialect");
    s->footer("Example: rlx print model.onnx --stage glsl --device vulkan");
    addModel(*s, *o), addDevice(*s, *o);
    s->add_option("--stage", *stage, "model, primitive, kernel, program, or a dialect")
        ->capture_default_str();
    s->add_option("--literal-bytes", *bytes, "Larger constants are elided")->capture_default_str();
    onRun(s, common, exitCode,
          [o, stage, bytes, &common] { return printVerb(*o, *stage, *bytes, common); });
  }
}

}  // namespace rlx::cli
