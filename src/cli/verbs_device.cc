// devices, doctor, dispatch, explain-error.
#include <cstdio>
#include <thread>

#include "base/env.h"
#include "base/file.h"
#include "base/text.h"
#include "base/threads.h"
#include "cli/cli.h"
#include "cli/limits.h"
#include "ops/op.h"
#include "ops/samples.h"
#include "runtime/registry.h"

namespace rlx::cli {
namespace {

std::string_view spelling(DeviceStatus s) {
  switch (s) {
    case DeviceStatus::Native: return "native";
    case DeviceStatus::Simulated: return "simulated";
    case DeviceStatus::Compiled: return "compiled";
    case DeviceStatus::Printed: return "printed";
    case DeviceStatus::Unavailable: return "unavailable";
  }
  RLX_UNREACHABLE("device status");
}

std::string dtypeList(uint32_t bits) {
  std::string s;
  for (std::size_t k = 0; k < kDTypeCount; ++k)
    if (bits & (uint32_t{1} << k)) s += (s.empty() ? "" : " ") + std::string(kDTypes[k].name);
  return s;
}

int devices(const Common& common) {
  nlohmann::json all = nlohmann::json::array();
  Table t({"device", "status", "detail"});
  for (const Backend* b : backends()) {
    const DeviceReport r = b->probe();
    all.push_back({{"name", b->name},
                   {"status", spelling(r.status)},
                   {"detail", r.detail},
                   {"library", r.library},
                   {"dialect", b->dialect},
                   {"arithmetic", dtypeList(r.caps.arithmetic)},
                   {"storage", dtypeList(r.caps.storage)},
                   {"lanes", r.caps.maxLanes},
                   {"sharedBytes", r.caps.sharedBytes},
                   {"maxBinding", r.caps.maxBinding},
                   {"threads", r.caps.threads}});
    t.row({std::string(b->name), std::string(spelling(r.status)), r.detail});
  }
  if (common.json)
    printJson(all);
  else
    std::printf("%s", t.text().c_str());
  return 0;
}

struct Finding {
  std::string what, state, advice;  // advice: empty where all is well
};

// Files that the kernel writes; empty where there is none.
std::string firstLine(const std::string& path) {
  constexpr uint64_t kMostBytes = 4096;
  auto text = readFile(path, kMostBytes);
  return text ? text->substr(0, text->find('\n')) : std::string();
}

Finding threadsFound() {
  const auto all = static_cast<int>(std::thread::hardware_concurrency());
  const int used = defaultThreads();
  return {"threads", std::to_string(used) + " of " + std::to_string(all),
          used < all ? "CPU affinity, the control group or RLX_THREADS allows no more" : ""};
}

Finding hugePagesFound() {
  const std::string pages = firstLine("/sys/kernel/mm/transparent_hugepage/enabled");
  const bool never = pages.empty() || pages.find("[never]") != pages.npos;
  return {"huge pages", pages.empty() ? "none" : pages,
          never ? "weights cost more address translations; allow them with: echo madvise > "
                  "/sys/kernel/mm/transparent_hugepage/enabled"
                : ""};
}

Finding cacheFound() {
  auto env = readEnv();
  if (!env) return {"environment", "wrong", env.error().message()};
  const std::string& folder = env->cache;
  if (folder.empty()) return {"cache", "none", "set RLX_CACHE or HOME"};
  const std::string probe = joinPath(folder, "doctor.probe");
  Status written = makeFolders(folder);
  if (written) written = writeFileAtomic(probe, "");
  if (!written) return {"cache", folder, written.error().message()};
  std::remove(probe.c_str());
  return {"cache", folder, ""};
}

Finding unknownVariables() {
  auto env = readEnv();
  std::string names;
  for (const std::string& n : env ? env->unknown : std::vector<std::string>())
    names += (names.empty() ? "" : " ") + n;
  return {"environment", names.empty() ? "clean" : names,
          names.empty() ? "" : "RLX knows no such variables: are they misspelt?"};
}

int doctor(const Common& common) {
  std::vector<Finding> all{threadsFound(), hugePagesFound(), cacheFound(), unknownVariables()};
  for (const Backend* b : backends()) {
    const DeviceReport r = b->probe();
    const bool usable = r.status != DeviceStatus::Unavailable;
    all.push_back({"device " + std::string(b->name),
                   usable ? std::string(spelling(r.status)) + ": " + r.detail : "unavailable",
                   usable ? "" : r.detail});
  }
  nlohmann::json j = nlohmann::json::array();
  Table t({"what", "found", "advice"});
  for (const Finding& f : all) {
    j.push_back({{"what", f.what}, {"found", f.state}, {"advice", f.advice}});
    t.row({f.what, f.state, f.advice});
  }
  if (common.json)
    printJson(j);
  else
    std::printf("%s", t.text().c_str());
  return 0;
}

Status limitsOf(const std::string& device, const Common& common) {
  RLX_TRY(const Backend* const b, findBackend(device));
  if (!b->limits)
    return Error(Errc::Unsupported, "the limits of device '" + device + "' are not measured");
  constexpr double kMilliseconds = 2000;
  RLX_TRY(const MachineLimits limits, b->limits(common.threads, kMilliseconds));
  if (common.json)
    printJson(toJson(limits));
  else
    std::printf("%s", text(limits).c_str());
  return Ok{};
}

// The class of an op on a backend: that of its first sample of the dtype, dispatched with the caps
// of the record, so that the matrix does not depend on the machine.
std::string dispatchCell(const Backend& b, const OpSample& sample) {
  if (b.runGraph) return "native";
  CompileOptions o;
  o.device = std::string(b.name);
  auto d = dispatch(sample.graph, b, b.defaultCaps, o);
  if (!d) return "FAIL";
  for (const Decision& n : d->report.nodes)
    if (n.op == name(sample.op)) return std::string(rlx::spelling(n.path));
  return "";
}

int dispatchAll(const std::string& device, bool markdown, const Common& common) {
  std::vector<const Backend*> chosen;
  for (const Backend* b : backends())
    if (device.empty() || b->name == device) chosen.push_back(b);
  nlohmann::json all = nlohmann::json::array();
  std::string out;
  std::vector<std::string> titles{"op", "dtype"};
  for (const Backend* b : chosen) titles.emplace_back(b->name);
  Table t(titles);
  if (markdown) {
    out +=
        "# Dispatch: op x dtype x device\n\nGenerated by `rlx dispatch --all --markdown` from the "
        "op table and the capability records of the\n"
        "backends (not of a machine); do not edit. native: a kernel of that backend alone; "
        "common-IR: the op's own\n"
        "lowering; rewritten: by a decomposition into ops that run; FAIL: compilation reports "
        "why.\n\n|";
    for (const std::string& s : titles) out += " " + s + " |";
    out += "\n|";
    for (std::size_t k = 0; k < titles.size(); ++k) out += "---|";
    out += "\n";
  }
  for (std::size_t k = 0; k < kOpCount; ++k) {
    const auto op = static_cast<OpKind>(k);
    if (op == OpKind::Input || op == OpKind::Constant) continue;
    std::vector<DType> seen;
    for (const OpSample& s : opSamples(op, SampleSet::Full)) {
      const DType type = s.dtype;
      if (std::find(seen.begin(), seen.end(), type) != seen.end()) continue;
      seen.push_back(type);
      std::vector<std::string> row{std::string(name(op)), std::string(name(type))};
      for (const Backend* b : chosen) row.push_back(dispatchCell(*b, s));
      if (markdown) {
        out += "|";
        for (const std::string& cell : row) out += " " + cell + " |";
        out += "\n";
      } else if (common.json) {
        nlohmann::json j{{"op", row[0]}, {"dtype", row[1]}};
        for (std::size_t d = 0; d < chosen.size(); ++d)
          j["devices"][std::string(chosen[d]->name)] = row[d + 2];
        all.push_back(j);
      } else {
        t.row(row);
      }
    }
  }
  if (common.json)
    printJson(all);
  else
    std::printf("%s", markdown ? out.c_str() : t.text().c_str());
  return 0;
}

int explainError(const std::string& code, const Common& common) {
  const ErrcInfo* e = findErrc(code);
  if (!e) return report(Error(Errc::Usage, "no error code '" + code + "'"), common);
  if (common.json)
    printJson({{"code", rlx::spelling(e->code)},
               {"title", e->title},
               {"text", e->text},
               {"exitCode", e->exitCode}});
  else
    std::printf("%s: %s (exit code %d)\n%s\n", rlx::spelling(e->code).c_str(),
                std::string(e->title).c_str(), e->exitCode, std::string(e->text).c_str());
  return 0;
}

}  // namespace

void addDeviceVerbs(CLI::App& app, Common& common, int& exitCode) {
  {
    CLI::App* s = app.add_subcommand("devices",
                                     "Every device of this build, and whether it can be used here");
    s->footer("Example: rlx devices --json");
    s->callback([&] { exitCode = devices(common); });
  }
  {
    auto limits = std::make_shared<bool>(false);
    auto device = std::make_shared<std::string>("cpu");
    CLI::App* s =
        app.add_subcommand("doctor", "What of this machine RLX can use, and what is amiss");
    s->footer("Example: rlx doctor --limits --threads 1");
    s->add_flag("--limits", *limits, "Measure arithmetic and bandwidth instead, for two seconds");
    s->add_option("--device,-d", *device, "Whose limits")->capture_default_str();
    s->callback([=, &common, &exitCode] {
      if (!*limits) {
        exitCode = doctor(common);
      } else if (const Status r = limitsOf(*device, common); !r) {
        exitCode = report(r.error(), common);
      }
    });
  }
  {
    auto all = std::make_shared<bool>(false);
    auto markdown = std::make_shared<bool>(false);
    auto device = std::make_shared<std::string>();
    CLI::App* s = app.add_subcommand("dispatch", "The op x device matrix, derived from code");
    s->footer("Example: rlx dispatch --all --markdown > docs/generated/dispatch.md");
    s->add_flag("--all", *all, "Every op")->required();
    s->add_flag("--markdown", *markdown, "As a Markdown table");
    s->add_option("--device,-d", *device, "One device only");
    s->callback([=, &common, &exitCode] { exitCode = dispatchAll(*device, *markdown, common); });
  }
  {
    auto code = std::make_shared<std::string>();
    CLI::App* s = app.add_subcommand("explain-error", "What an error code means");
    s->footer("Example: rlx explain-error E0412");
    s->add_option("CODE", *code, "For example E0412")->required();
    s->callback([=, &common, &exitCode] { exitCode = explainError(*code, common); });
  }
}

}  // namespace rlx::cli
