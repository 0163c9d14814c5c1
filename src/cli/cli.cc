#include "cli/cli.h"

#include <cmath>
#include <cstdio>
#include <random>

#include "base/env.h"
#include "base/file.h"
#include "base/npy.h"
#include "import/onnx.h"
#include "ops/ref_tensor.h"

namespace rlx::cli {

void addModel(CLI::App& app, ModelOptions& o) {
  app.add_option("FILE", o.file,
                 "Model: .onnx, a folder with config.json and model.safetensors, or .rlx")
      ->required();
  app.add_option("--dim", o.dims, "Fix a symbol: --dim batch=4")->type_name("NAME=N");
}
void addDevice(CLI::App& app, ModelOptions& o) {
  app.add_option("--device,-d", o.device, "Device: see `rlx devices`")->capture_default_str();
  app.add_option("--policy", o.policy, "prefer-native, force-common or force-native")
      ->capture_default_str();
  app.add_option("--op-policy", o.opPolicies,
                 "Policy of one op: --op-policy dot_general=force-common")
      ->type_name("OP=POLICY");
  app.add_option("--allow-host", o.allowHost, "Op that may run on the host when the device cannot")
      ->type_name("OP");
}
void addInputs(CLI::App& app, ModelOptions& o) {
  app.add_option("--input,-i", o.inputs,
                 "NAME=x.npy, NAME=x.pb, NAME=random:SEED or NAME=zeros; the rest is random:0")
      ->type_name("NAME=VALUE");
}

static Result<std::pair<std::string, std::string>> keyValue(const std::string& text,
                                                            const char* option) {
  const std::size_t eq = text.find('=');
  if (eq == text.npos || eq == 0 || eq + 1 == text.size())
    return Error(Errc::Usage, std::string(option) + " takes NAME=VALUE, got '" + text + "'");
  return std::pair(text.substr(0, eq), text.substr(eq + 1));
}

static Result<Policy> parsePolicy(const std::string& p) {
  if (p == "prefer-native") return Policy::PreferNative;
  if (p == "force-common") return Policy::ForceCommon;
  if (p == "force-native") return Policy::ForceNative;
  return Error(Errc::Usage,
               "unknown policy '" + p + "'; prefer-native, force-common or force-native");
}

Result<CompileOptions> compileOptions(const ModelOptions& o, const Common& common) {
  CompileOptions c;
  RLX_TRY(const EnvOptions env, readEnv());
  c.device = o.device;
  c.threads = common.threads > 0 ? common.threads : env.threads;
  RLX_TRY(c.policy, parsePolicy(o.policy));
  for (const std::string& d : o.dims) {
    RLX_TRY(const auto kv, keyValue(d, "--dim"));
    char* end = nullptr;
    const long long v = std::strtoll(kv.second.c_str(), &end, 10);
    if (*end || v < 0 || v > INT32_MAX)
      return Error(Errc::Usage, "--dim " + kv.first + ": '" + kv.second + "' is no extent");
    c.dims.emplace_back(kv.first, v);
  }
  for (const std::string& p : o.opPolicies) {
    RLX_TRY(const auto kv, keyValue(p, "--op-policy"));
    RLX_TRY(const Policy policy, parsePolicy(kv.second));
    if (!parseOpKind(kv.first))
      return Error(Errc::Usage, "--op-policy: no op is called '" + kv.first + "'");
    c.opPolicies.emplace_back(kv.first, policy);
  }
  c.allowHost = o.allowHost;
  for (const std::string& op : c.allowHost)
    if (!parseOpKind(op)) return Error(Errc::Usage, "--allow-host: no op is called '" + op + "'");
  if (!env.cache.empty()) c.cacheDir = joinPath(env.cache, "pipelines");
  return c;
}

namespace {

struct NpyType {
  DType dtype;
  std::string_view npy;
};
constexpr NpyType kNpy[] = {{DType::F64, "<f8"}, {DType::F32, "<f4"},  {DType::F16, "<f2"},
                            {DType::I64, "<i8"}, {DType::I32, "<i4"},  {DType::I16, "<i2"},
                            {DType::I8, "|i1"},  {DType::U64, "<u8"},  {DType::U32, "<u4"},
                            {DType::U16, "<u2"}, {DType::U8, "|u1"},   {DType::Bool, "|b1"},
                            {DType::C64, "<c8"}, {DType::C128, "<c16"}};

}  // namespace

Result<Tensor> readTensor(const std::string& path) {
  if (path.ends_with(".pb")) {
    RLX_TRY(OnnxTensor t, readOnnxTensor(path));
    return std::move(t.value);
  }
  RLX_TRY(const NpyArray a, readNpy(path));
  for (const NpyType& t : kNpy)
    if (t.npy == a.dtype) {
      Tensor v;
      v.dtype = t.dtype, v.shape = a.shape, v.bytes = a.data, v.owner = a.owner;
      return v;
    }
  return Error(Errc::Unsupported, path + ": element type '" + a.dtype + "'");
}

Status writeTensor(const std::string& path, const Tensor& t) {
  for (const NpyType& n : kNpy)
    if (n.dtype == t.dtype) return writeNpy(path, n.npy, t.shape, t.bytes);
  // Types that NumPy lacks are written as f32, which holds every value of them.
  RLX_TRY(const RefTensor r, fromLiteral(t));
  RefTensor f(DType::F32, t.shape);
  for (int64_t k = 0; k < r.elements(); ++k) f.setNumber(k, r.number(k));
  RLX_TRY(const std::vector<std::byte> bytes, toBytes(f));
  return writeNpy(path, "<f4", t.shape, bytes);
}

Result<std::vector<NamedTensor>> makeInputs(const Graph& g, const ModelOptions& o,
                                            const CompileOptions& options) {
  std::vector<std::pair<std::string, std::string>> specs;
  for (const std::string& s : o.inputs) {
    RLX_TRY(auto kv, keyValue(s, "--input"));
    bool known = false;
    std::string names;
    for (const Port& p : g.inputs)
      known |= p.name == kv.first, names += (names.empty() ? "" : ", ") + p.name;
    if (!known)
      return Error(Errc::InputName, "the model has no input '" + kv.first + "'; it has: " + names);
    specs.push_back(std::move(kv));
  }
  Bindings bindings;
  for (const auto& [symbol, value] : options.dims) bindings.set(symbol, value);
  std::vector<NamedTensor> out(g.inputs.size());
  std::vector<std::string> made(g.inputs.size());
  // Files first: they give symbols their values.
  for (std::size_t k = 0; k < g.inputs.size(); ++k) {
    out[k].name = g.inputs[k].name;
    made[k] = "random:0";
    for (const auto& [name, value] : specs)
      if (name == out[k].name) made[k] = value;
    if (made[k] == "zeros" || made[k].rfind("random", 0) == 0) continue;
    RLX_TRY(out[k].tensor, readTensor(made[k]));
    const Shape& want = g.type(g.inputs[k].value).shape;
    for (std::size_t d = 0; d < want.size() && d < out[k].tensor.shape.size(); ++d)
      if (const std::string_view s = want[d].symbolName(); !s.empty())
        bindings.set(s, out[k].tensor.shape[d]);
  }
  for (std::size_t k = 0; k < g.inputs.size(); ++k) {
    if (made[k] != "zeros" && made[k].rfind("random", 0) != 0) continue;
    const TensorType& t = g.type(g.inputs[k].value);
    std::vector<int64_t> shape;
    for (const Dim& d : t.shape) {
      std::vector<std::string> symbols;
      d.symbols(symbols);
      for (const std::string& s : symbols)
        if (!bindings.find(s)) bindings.set(s, 1);  // a symbol nobody fixed: one
      RLX_TRY(const int64_t e, d.evaluate(bindings));
      shape.push_back(e);
    }
    RefTensor r(t.dtype, shape);
    if (made[k] != "zeros") {
      uint32_t seed = 0;
      if (made[k].size() > 7)
        seed = static_cast<uint32_t>(std::strtoul(made[k].c_str() + 7, nullptr, 10));
      std::mt19937 random(seed + static_cast<uint32_t>(k) * 7919u);
      for (int64_t i = 0; i < r.elements(); ++i) {
        const double u = static_cast<double>(random()) / 4294967296.0;
        // Integers stay small: they are usually indices or masks.
        r.setNumber(i, r.isInt() ? std::floor(u * 2) : roundTo(t.dtype, u * 2 - 1));
      }
    }
    RLX_TRY(const std::vector<std::byte> bytes, toBytes(r));
    out[k].tensor = Tensor::copy(t.dtype, shape, bytes);
  }
  return out;
}

std::string head(const Tensor& t, int count) {
  std::string s = std::string(name(t.dtype)) + toText(t.shape) + ":";
  auto r = fromLiteral(t);
  if (!r) return s + " " + r.error().message();
  for (int64_t k = 0; k < std::min<int64_t>(count, r->elements()); ++k) {
    char b[40];
    if (r->isInt())
      std::snprintf(b, sizeof b, " %lld", static_cast<long long>(r->integer(k)));
    else
      std::snprintf(b, sizeof b, " %.7g", r->number(k));
    s += b;
  }
  return s + (r->elements() > count ? " ..." : "");
}

void printJson(const nlohmann::json& j) {
  const std::string s = j.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  std::fwrite(s.data(), 1, s.size(), stdout);
}

int report(const Error& e, const Common& common) {
  if (common.json) {
    nlohmann::json j{{"code", spelling(e.code())},
                     {"title", info(e.code()).title},
                     {"message", e.message()},
                     {"notes", e.notes()}};
    if (!e.hint().empty()) j["hint"] = e.hint();
    if (!e.node().empty()) j["node"] = e.node();
    printJson({{"error", j}});
  }
  std::fprintf(stderr, "%s\n", e.text().c_str());
  if (common.verbose) std::fprintf(stderr, "  at %s:%d\n", e.where().file, e.where().line);
  return info(e.code()).exitCode;
}

int main(int argc, char** argv) {
  CLI::App app{
      "RLX: tensor compiler and runtime. Runs model files on any device and shows where every op "
      "runs.",
      "rlx"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "rlx 0.1.0");
  app.footer("Example: rlx explain model.onnx --device vulkan");
  Common common;
  int exitCode = 0;
  for (const Verb v : verbs()) v(app, common, exitCode);
  for (CLI::App* sub : app.get_subcommands({})) {
    sub->add_flag("--json", common.json, "One JSON document on stdout");
    sub->add_option("--threads", common.threads,
                    "Threads; default: what cgroup and affinity allow");
    sub->add_flag("-q,--quiet", common.quiet, "Results only");
    sub->add_flag("-v,--verbose", common.verbose, "More detail");
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    return code == 0 ? 0 : 1;
  }
  return exitCode;
}

}  // namespace rlx::cli
