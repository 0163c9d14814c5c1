// bench, embed, onnx-test, and the table of all verbs.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <optional>

#include "base/clock.h"
#include "base/file.h"
#include "base/npy.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/limits.h"
#include "cli/onnx_suite.h"
#include "cli/trace_file.h"
#include "model/bert.h"
#include "model/load.h"
#include "model/wordpiece.h"
#include "runtime/registry.h"

namespace rlx::cli {

void addModelVerbs(CLI::App& app, Common& common, int& exitCode);
void addDeviceVerbs(CLI::App& app, Common& common, int& exitCode);

namespace {

constexpr double kLimitsMs = 150;  // for measuring the machine

struct BenchOptions {
  int warmup = 5, iterations = 50;
  bool perNode = false, noLimits = false;
  std::string trace;
};

Status bench(const ModelOptions& o, const BenchOptions& b, const Common& common) {
  if (b.iterations < 1 || b.warmup < 0)
    return Error(Errc::Usage, "--iterations must be at least 1, --warmup at least 0");
  RLX_TRY(const Graph g, loadModel(o.file));
  RLX_TRY(const CompileOptions options, compileOptions(o, common));
  RLX_TRY(const std::vector<NamedTensor> inputs, makeInputs(g, o, options));
  RLX_TRY(Executable exe, compile(g, options));
  std::vector<NamedTensor> outputs;
  for (int k = 0; k < b.warmup; ++k) RLX_OK(exe.run(inputs, &outputs));
  std::vector<double> ms;
  for (int k = 0; k < b.iterations; ++k) {
    const double start = nowMs();
    RLX_OK(exe.run(inputs, &outputs));
    ms.push_back(nowMs() - start);
  }
  std::vector<StepTime> steps;
  RLX_OK(exe.profile(inputs, &steps));
  if (!b.trace.empty()) RLX_OK(writeTrace(exe, inputs, b.trace));
  RLX_TRY(const Backend* const backend, findBackend(options.device));
  std::optional<MachineLimits> limits;
  if (!b.noLimits && backend->limits)
    if (auto measured = backend->limits(options.threads, kLimitsMs)) limits = *std::move(measured);
  std::sort(ms.begin(), ms.end());
  double mean = 0, sd = 0, flops = 0, bytes = 0;
  for (const double t : ms) mean += t / static_cast<double>(ms.size());
  for (const double t : ms) sd += (t - mean) * (t - mean) / static_cast<double>(ms.size());
  sd = std::sqrt(sd);
  double boundMs = 0;
  for (const StepTime& s : steps) {
    flops += s.flops, bytes += s.bytes;
    if (limits) boundMs += boundOf(s, *limits).ms;
  }
  const double p50 = ms[ms.size() / 2], p90 = ms[ms.size() * 9 / 10];
  const ExecutableStats& st = exe.stats();
  if (common.json) {
    nlohmann::json j{{"device", options.device},
                     {"description", exe.deviceDescription()},
                     {"compileMs", st.compileMs},
                     {"p50Ms", p50},
                     {"p90Ms", p90},
                     {"minMs", ms[0]},
                     {"meanMs", mean},
                     {"sdMs", sd},
                     {"runsPerSecond", 1000 / p50},
                     {"peakBytes", st.peakBytes},
                     {"arenaBytes", st.arenaBytes},
                     {"constantBytes", st.constantBytes},
                     {"nativeBytes", st.nativeBytes},
                     {"gflops", flops / p50 * 1e-6},
                     {"gbytes", bytes / p50 * 1e-6},
                     {"steps", st.steps},
                     {"kernels", st.kernels},
                     {"plans", st.plans},
                     {"recompiles", st.recompiles},
                     {"iterations", b.iterations}};
    if (limits) {
      j["limits"] = toJson(*limits);
      j["boundMs"] = boundMs;
      j["shareOfBound"] = boundMs / p50;
      j["shareOfGflops"] = flops / p50 * 1e-6 / limits->gflops;
    }
    for (std::size_t k = 0; b.perNode && k < steps.size(); ++k) {
      const StepTime& s = steps[k];
      j["nodes"].push_back({{"label", s.label},
                            {"ms", s.ms},
                            {"gflops", s.flops / s.ms * 1e-6},
                            {"gbytes", s.bytes / s.ms * 1e-6}});
      if (!limits) continue;
      const Bound bound = boundOf(s, *limits);
      j["nodes"].back()["bound"] = bound.memory ? "memory" : "compute";
      j["nodes"].back()["shareOfBound"] = bound.ms / s.ms;
    }
    printJson(j);
    return Ok{};
  }
  std::printf("device      %s\n", exe.deviceDescription().c_str());
  std::printf("compile     %.1f ms, %lld steps, %lld kernels\n", st.compileMs,
              static_cast<long long>(st.steps), static_cast<long long>(st.kernels));
  std::printf("p50         %.3f ms (p90 %.3f, min %.3f, mean %.3f, sd %.3f; %d runs)\n", p50, p90,
              ms[0], mean, sd, b.iterations);
  std::printf("throughput  %.1f runs/s, %.1f GFLOP/s, %.1f GB/s\n", 1000 / p50, flops / p50 * 1e-6,
              bytes / p50 * 1e-6);
  if (limits)
    std::printf(
        "limits      %.0f%% of %.1f GFLOP/s; the steps at their limits would take %.3f ms, "
        "%.0f%% of p50\n",
        flops / p50 * 1e-4 / limits->gflops, limits->gflops, boundMs, 100 * boundMs / p50);
  std::printf("memory      peak %s (weights %s, packed weights %s, temporaries %s)\n",
              humanBytes(static_cast<uint64_t>(st.peakBytes)).c_str(),
              humanBytes(static_cast<uint64_t>(st.constantBytes)).c_str(),
              humanBytes(static_cast<uint64_t>(st.nativeBytes)).c_str(),
              humanBytes(static_cast<uint64_t>(st.arenaBytes)).c_str());
  if (b.perNode) {
    constexpr auto kLeft = Table::Align::Left, kRight = Table::Align::Right;
    Table t(
        {"step", "ms", "GFLOP/s", "GB/s", limits ? "of the limit" : "", limits ? "which is" : ""},
        {kLeft, kRight, kRight, kRight, kRight, kLeft});
    for (const StepTime& s : steps) {
      char x[3][32];
      std::snprintf(x[0], 32, "%.4f", s.ms), std::snprintf(x[1], 32, "%.1f", s.flops / s.ms * 1e-6),
          std::snprintf(x[2], 32, "%.1f", s.bytes / s.ms * 1e-6);
      std::vector<std::string> row{s.label, x[0], x[1], x[2]};
      if (limits) {
        const Bound bound = boundOf(s, *limits);
        row.push_back(std::to_string(std::lround(100 * bound.ms / s.ms)) + "%");
        row.emplace_back(bound.memory ? "memory" : "compute");
      }
      t.row(std::move(row));
    }
    std::printf("%s", t.text().c_str());
  }
  return Ok{};
}

struct EmbedOptions {
  std::vector<std::string> texts;
  bool fromStdin = false;
  std::string npy;
  int batch = 32, maxLength = 256;
};

Status embed(const ModelOptions& o, const EmbedOptions& e, const Common& common) {
  std::vector<std::string> texts = e.texts;
  if (e.fromStdin)
    for (std::string line; std::getline(std::cin, line);) texts.push_back(line);
  if (texts.empty()) return Error(Errc::Usage, "nothing to embed: give TEXT or --stdin");
  if (e.batch < 1) return Error(Errc::Usage, "--batch must be at least 1");
  RLX_TRY(const WordPiece tokenizer, WordPiece::load(o.file));
  RLX_TRY(const Graph g, loadBert(o.file, BertHead::Sentence));
  RLX_TRY(const CompileOptions options, compileOptions(o, common));
  RLX_TRY(Executable exe, compile(g, options));
  const int64_t width = g.type(g.outputs[0].value).shape.back().value();
  std::vector<Encoding> encoded;
  for (const std::string& t : texts) {
    RLX_TRY(Encoding c, tokenizer.encode({t, {}}, {e.maxLength, Padding::None, true}));
    encoded.push_back(std::move(c));
  }
  // Sentences of like length share a batch: padding is work.
  std::vector<std::size_t> order(texts.size());
  for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return encoded[a].ids.size() < encoded[b].ids.size();
  });
  std::vector<float> out(texts.size() * static_cast<std::size_t>(width));
  const bool progress = !common.quiet && isatty(2);
  for (std::size_t at = 0; at < order.size(); at += static_cast<std::size_t>(e.batch)) {
    const std::size_t n = std::min(order.size() - at, static_cast<std::size_t>(e.batch));
    const std::size_t length = encoded[order[at + n - 1]].ids.size();
    std::vector<int64_t> ids(n * length, 0), mask(n * length, 0), types(n * length, 0);
    for (std::size_t r = 0; r < n; ++r) {
      const Encoding& c = encoded[order[at + r]];
      for (std::size_t k = 0; k < c.ids.size(); ++k)
        ids[r * length + k] = c.ids[k], mask[r * length + k] = 1,
                         types[r * length + k] = c.typeIds[k];
    }
    const std::vector<int64_t> shape{static_cast<int64_t>(n), static_cast<int64_t>(length)};
    RLX_TRY(const auto y, exe.run({{"input_ids", Tensor::of(DType::I64, shape, ids)},
                                   {"attention_mask", Tensor::of(DType::I64, shape, mask)},
                                   {"token_type_ids", Tensor::of(DType::I64, shape, types)}}));
    for (std::size_t r = 0; r < n; ++r)
      std::memcpy(out.data() + order[at + r] * static_cast<std::size_t>(width),
                  y[0].tensor.bytes.data() + r * static_cast<std::size_t>(width) * 4,
                  static_cast<std::size_t>(width) * 4);
    if (progress) std::fprintf(stderr, "\rembedded %zu of %zu", at + n, order.size());
  }
  if (progress) std::fprintf(stderr, "\n");
  if (!e.npy.empty()) {
    const int64_t shape[] = {static_cast<int64_t>(texts.size()), width};
    RLX_OK(writeNpy(e.npy, "<f4", shape, std::as_bytes(std::span(out))));
  }
  if (common.json) {
    nlohmann::json j{{"device", options.device},
                     {"width", width},
                     {"recompiles", exe.stats().recompiles},
                     {"embeddings", nlohmann::json::array()}};
    for (std::size_t k = 0; k < texts.size(); ++k)
      j["embeddings"].push_back(
          {{"text", texts[k]},
           {"tokens", encoded[k].ids.size()},
           {"vector",
            std::vector<float>(out.begin() + static_cast<std::ptrdiff_t>(k) * width,
                               out.begin() + static_cast<std::ptrdiff_t>(k + 1) * width)}});
    printJson(j);
    return Ok{};
  }
  if (!e.npy.empty()) {
    std::printf("%zu x %lld embeddings in %s\n", texts.size(), static_cast<long long>(width),
                e.npy.c_str());
    return Ok{};
  }
  if (texts.size() == 1) {
    for (int64_t k = 0; k < width; ++k)
      std::printf("%s%.8g", k ? " " : "", static_cast<double>(out[static_cast<std::size_t>(k)]));
    std::printf("\n");
    return Ok{};
  }
  // Cosine similarities: the rows have unit length.
  const std::size_t shown = std::min<std::size_t>(texts.size(), 20);
  for (std::size_t a = 0; a < shown; ++a) {
    for (std::size_t b = 0; b < shown; ++b) {
      double dot = 0;
      for (std::size_t k = 0; k < static_cast<std::size_t>(width); ++k)
        dot += static_cast<double>(out[a * static_cast<std::size_t>(width) + k]) *
               static_cast<double>(out[b * static_cast<std::size_t>(width) + k]);
      std::printf("%7.4f", dot);
    }
    std::printf("  %s\n", shorten(texts[a], 60).c_str());
  }
  return Ok{};
}

Status onnxTest(const std::vector<std::string>& folders, const std::string& device,
                const std::string& allow, bool list, const Common& common, int& exitCode) {
  ModelOptions o;
  o.device = device;
  RLX_TRY(const CompileOptions options, compileOptions(o, common));
  std::string allowed;
  if (!allow.empty()) {
    RLX_TRY(allowed, readFile(allow, 16u << 20));
    allowed = "\n" + allowed + "\n";
  }
  RLX_TRY(const std::vector<OnnxTestResult> results, runOnnxTests(folders, options));
  int64_t passed = 0, failed = 0, unsupported = 0, expected = 0;
  nlohmann::json all = nlohmann::json::array();
  for (const OnnxTestResult& r : results) {
    const bool excused = allowed.find("\n" + r.name + "\n") != allowed.npos;
    const bool mayFail = allowed.find("\n!" + r.name + "\n") != allowed.npos;
    const char* outcome = "passed";
    std::string detail = r.detail;
    if (r.outcome == OnnxTestResult::Passed && (excused || mayFail)) {
      ++failed, outcome = "failed";
      detail =
          mayFail ? "passes, but the list says it fails" : "passes, but the list says unsupported";
    } else if (r.outcome == OnnxTestResult::Failed && mayFail) {
      ++expected, outcome = "expected to fail";
    } else if (r.outcome == OnnxTestResult::Passed) {
      ++passed;
    } else if (r.outcome == OnnxTestResult::Unsupported) {
      ++unsupported, outcome = "unsupported";
      if (!allow.empty() && !excused) ++failed, --unsupported, outcome = "failed";
    } else {
      ++failed, outcome = "failed";
    }
    if (common.json) all.push_back({{"name", r.name}, {"outcome", outcome}, {"detail", detail}});
    if (!common.json &&
        (std::strcmp(outcome, "passed") != 0 ? list || r.outcome == OnnxTestResult::Failed
                                             : common.verbose))
      std::printf("%s %s: %s\n", outcome, r.name.c_str(), detail.c_str());
  }
  if (common.json)
    printJson({{"tests", all},
               {"passed", passed},
               {"failed", failed},
               {"unsupported", unsupported},
               {"expectedToFail", expected}});
  else
    std::printf("%lld passed, %lld failed, %lld unsupported\n", static_cast<long long>(passed),
                static_cast<long long>(failed), static_cast<long long>(unsupported));
  if (failed) exitCode = 5;
  return Ok{};
}

void addWorkVerbs(CLI::App& app, Common& common, int& exitCode) {
  {
    auto o = std::make_shared<ModelOptions>();
    auto b = std::make_shared<BenchOptions>();
    CLI::App* s =
        app.add_subcommand("bench", "Compile and run times, memory, achieved FLOP/s and bytes/s");
    s->footer("Example: rlx bench model.onnx --device cpu --dim seq=128 --threads 2 --per-node");
    addModel(*s, *o), addDevice(*s, *o), addInputs(*s, *o);
    s->add_option("--warmup", b->warmup, "Runs before measuring")->capture_default_str();
    s->add_option("--iterations", b->iterations, "Measured runs")->capture_default_str();
    s->add_flag("--per-node", b->perNode, "The time of every step");
    s->add_flag("--no-limits", b->noLimits, "Do not measure what the machine does at most");
    s->add_option("--trace", b->trace, "File for a trace of one run (JSON, for Perfetto)");
    s->callback([=, &common, &exitCode] {
      if (const Status r = bench(*o, *b, common); !r) exitCode = report(r.error(), common);
    });
  }
  {
    auto o = std::make_shared<ModelOptions>();
    auto e = std::make_shared<EmbedOptions>();
    CLI::App* s = app.add_subcommand("embed", "Sentence embeddings with a BERT folder");
    s->footer("Example: rlx embed $(scripts/models minilm) \"a first text\" \"another one\"");
    s->add_option("MODEL_DIR", o->file,
                  "Folder with config.json, model.safetensors and tokenizer.json")
        ->required();
    s->add_option("TEXT", e->texts, "Texts to embed");
    addDevice(*s, *o);
    s->add_flag("--stdin", e->fromStdin, "One text per line of standard input");
    s->add_option("--npy", e->npy, "Write the embeddings to a .npy file");
    s->add_option("--batch", e->batch, "Texts per run")->capture_default_str();
    s->add_option("--max-length", e->maxLength, "Tokens per text")->capture_default_str();
    s->callback([=, &common, &exitCode] {
      if (const Status r = embed(*o, *e, common); !r) exitCode = report(r.error(), common);
    });
  }
  {
    auto folders = std::make_shared<std::vector<std::string>>();
    auto device = std::make_shared<std::string>("cpu");
    auto allow = std::make_shared<std::string>();
    auto list = std::make_shared<bool>(false);
    CLI::App* s = app.add_subcommand("onnx-test", "Runs ONNX backend test folders");
    s->footer("Example: rlx onnx-test /usr/share/libonnx-testdata/data/node --device cpu");
    s->add_option("DIR", *folders, "Test folders, or folders of them")->required();
    s->add_option("--device,-d", *device, "Device")->capture_default_str();
    s->add_option("--allow", *allow,
                  "File with the names of tests that may be unsupported, and of !tests that are "
                  "known to fail");
    s->add_flag("--list", *list, "Print every test that did not pass");
    s->callback([=, &common, &exitCode] {
      if (const Status r = onnxTest(*folders, *device, *allow, *list, common, exitCode); !r)
        exitCode = report(r.error(), common);
    });
  }
}

}  // namespace

std::span<const Verb> verbs() {
  static constexpr Verb kVerbs[] = {&addModelVerbs, &addDeviceVerbs, &addWorkVerbs};
  return kVerbs;
}

}  // namespace rlx::cli
