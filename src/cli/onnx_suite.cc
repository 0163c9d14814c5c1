#include "cli/onnx_suite.h"

#include <dirent.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/file.h"
#include "import/onnx.h"
#include "ops/interpreter.h"
#include "ops/tolerance.h"
#include "runtime/executable.h"

namespace rlx {
namespace {

constexpr int kMaxRounds = 8;  // of fixing inputs that the importer asks for

std::vector<std::string> entries(const std::string& folder) {
  std::vector<std::string> out;
  if (DIR* d = ::opendir(folder.c_str())) {
    while (const dirent* e = ::readdir(d))
      if (e->d_name[0] != '.') out.emplace_back(e->d_name);
    ::closedir(d);
  }
  std::sort(out.begin(), out.end());
  return out;
}

// Folders that hold model.onnx: the one given, or those inside it.
std::vector<std::string> findTests(const std::string& folder) {
  if (pathKind(joinPath(folder, "model.onnx")) == PathKind::File) return {folder};
  std::vector<std::string> out;
  for (const std::string& name : entries(folder)) {
    const std::string path = joinPath(folder, name);
    if (pathKind(joinPath(path, "model.onnx")) == PathKind::File) out.push_back(path);
  }
  return out;
}

Result<std::vector<Tensor>> readTensors(const std::string& folder, const std::string& stem) {
  std::vector<Tensor> out;
  for (;;) {
    const std::string path = joinPath(folder, stem + std::to_string(out.size()) + ".pb");
    if (pathKind(path) != PathKind::File) return out;
    RLX_TRY(OnnxTensor t, readOnnxTensor(path));
    out.push_back(std::move(t.value));
  }
}

std::string typeText(const Tensor& t) {
  return text(TensorType{t.dtype, Shape(t.shape.begin(), t.shape.end())});
}

// Test data of older suites stores bfloat16 as the bits in uint16.
Tensor retyped(Tensor t, DType declared) {
  if (t.dtype == DType::U16 && declared == DType::BF16) t.dtype = DType::BF16;
  return t;
}
DType declared(const Graph& graph, const std::string& input) {
  for (const Port& p : graph.inputs)
    if (p.name == input) return graph.type(p.value).dtype;
  return DType::F32;
}

// Why the data does not fit the model that it comes with; empty when it does.
std::string misfit(const Graph& graph, const NamedTensor& given) {
  for (const Port& p : graph.inputs) {
    if (p.name != given.name) continue;
    const Shape& s = graph.type(p.value).shape;
    bool fits = s.size() == given.tensor.shape.size();
    for (std::size_t k = 0; fits && k < s.size(); ++k)
      fits = !s[k].isConst() || s[k].is(given.tensor.shape[k]);
    if (!fits)
      return "the data set contradicts the model: input '" + p.name + "' is " +
             typeText(given.tensor) + ", declared " + text(graph.type(p.value));
  }
  return {};
}

// ONNX's own backend runner: |got - want| <= kSuiteAbsolute + kSuiteRelative * |want|.
constexpr double kSuiteRelative = 1e-3, kSuiteAbsolute = 1e-7;
bool withinSuite(const RefTensor& got, const RefTensor& want) {
  for (int64_t k = 0; k < want.elements(); ++k) {
    const double a = got.number(k), b = want.number(k);
    if (want.isInt() ? got.integer(k) != want.integer(k)
                     : !(a == b || (std::isnan(a) && std::isnan(b)) ||
                         std::fabs(a - b) <= kSuiteAbsolute + kSuiteRelative * std::fabs(b)))
      return false;
  }
  return true;
}

// Empty when they agree. The expected values were computed in the dtype themselves, so they may be
// as far from the exact ones as ours: twice the tolerance. Some were computed with less care (pi as
// 3.1415): those may differ by what the suite allows, if ours are right by the float64 interpreter.
Result<std::string> difference(const Tensor& got, const Tensor& want, Tolerance t,
                               const Graph& graph, std::span<const NamedTensor> inputs,
                               std::size_t output) {
  if (got.dtype != want.dtype || got.shape != want.shape)
    return "got " + typeText(got) + ", expected " + typeText(want);
  RLX_TRY(const RefTensor g, fromLiteral(got));
  RLX_TRY(const RefTensor w, fromLiteral(want));
  t.relative *= 2, t.absolute *= 2;
  const Difference d = compare(g, w, t);
  if (d.equal) return std::string();
  if (!w.isInt() && withinSuite(g, w)) {
    std::vector<RefTensor> in;
    for (const NamedTensor& x : inputs) {
      RLX_TRY(RefTensor r, fromLiteral(x.tensor));
      in.push_back(std::move(r));
    }
    RLX_TRY(const std::vector<RefTensor> exact, interpret(graph, in));
    if (compare(g, exact[output], t).equal) return std::string();
  }
  char text[160];
  std::snprintf(text, sizeof text, "element %lld is %.9g, expected %.9g (%.3g times the tolerance)",
                static_cast<long long>(d.at), d.got, d.want, d.worst);
  return std::string(text);
}

OnnxTestResult judge(OnnxTestResult r, const Error& e) {
  const bool unsupported = e.code() == Errc::Unsupported || e.code() == Errc::NotDispatchable;
  r.outcome = unsupported ? OnnxTestResult::Unsupported : OnnxTestResult::Failed;
  r.detail = unsupported ? e.message() : e.text();
  for (std::size_t k = 0; unsupported && k < e.notes().size() && k < 3; ++k)
    r.detail += "; " + e.notes()[k];
  return r;
}

OnnxTestResult runTest(const std::string& folder, const CompileOptions& options) {
  OnnxTestResult r;
  r.name = std::string(fileName(folder));
  const std::string model = joinPath(folder, "model.onnx");
  std::vector<std::string> sets;
  for (const std::string& name : entries(folder))
    if (name.starts_with("test_data_set_")) sets.push_back(joinPath(folder, name));
  if (sets.empty()) {
    r.detail = "no test_data_set folder";
    return r;
  }
  auto names = onnxInputNames(model);
  if (!names) return judge(std::move(r), names.error());
  OnnxOptions importing;
  std::vector<std::string> asked;
  importing.wantedInputs = &asked;
  const auto first = importOnnx(model, importing);
  // Data sets may hold sequences and optionals, which only the model tells apart from tensors.
  if (!first && asked.empty()) return judge(std::move(r), first.error());
  for (const std::string& set : sets) {
    auto inputs = readTensors(set, "input_");
    auto wanted = readTensors(set, "output_");
    for (const auto* read : {&inputs, &wanted})
      if (!*read) return judge(std::move(r), first ? read->error() : first.error());
    importing.fixedInputs.clear();
    asked.clear();
    auto graph = importOnnx(model, importing);
    for (int round = 0; round < kMaxRounds && !graph && !asked.empty(); ++round) {
      if (graph.error().code() != Errc::Unsupported) break;
      const std::size_t before = importing.fixedInputs.size();
      for (const std::string& name : asked)
        for (std::size_t k = 0; k < names->size() && k < inputs->size(); ++k)
          if ((*names)[k] == name) importing.fixedInputs.emplace_back(name, (*inputs)[k]);
      if (importing.fixedInputs.size() == before) break;
      asked.clear();
      graph = importOnnx(model, importing);
    }
    if (!graph) return judge(std::move(r), graph.error());
    std::vector<NamedTensor> given;
    r.detail.clear();
    for (std::size_t k = 0; k < names->size() && k < inputs->size(); ++k) {
      const bool fixed = std::any_of(importing.fixedInputs.begin(), importing.fixedInputs.end(),
                                     [&](const auto& f) { return f.first == (*names)[k]; });
      if (fixed)
        r.detail += (r.detail.empty() ? "fixed at import: '" : ", '") + (*names)[k] + "'";
      else
        given.push_back({(*names)[k], retyped((*inputs)[k], declared(*graph, (*names)[k]))});
    }
    for (const NamedTensor& t : given)
      if (const std::string why = misfit(*graph, t); !why.empty()) {
        r.outcome = OnnxTestResult::Unsupported;
        r.detail = why;
        return r;
      }
    auto exe = compile(*graph, options);
    if (!exe) return judge(std::move(r), exe.error());
    auto got = exe->run(given);
    if (!got) return judge(std::move(r), got.error());
    if (got->size() != wanted->size()) {
      r.detail =
          std::to_string(got->size()) + " outputs, expected " + std::to_string(wanted->size());
      return r;
    }
    const Graph& ran = exe->program().graph.nodes.empty() ? exe->model() : exe->program().graph;
    std::vector<std::pair<DType, std::vector<int64_t>>> types;
    for (const NamedTensor& t : given) types.emplace_back(t.tensor.dtype, t.tensor.shape);
    auto bindings = bindInputs(exe->model(), types);
    if (!bindings) return judge(std::move(r), bindings.error());
    const int64_t length = longestSum(ran, *bindings);
    for (std::size_t k = 0; k < wanted->size(); ++k) {
      const Tensor& out = (*got)[k].tensor;
      const Tolerance t = graphTolerance(out.dtype, static_cast<int64_t>(ran.nodes.size()), length);
      auto d = difference(out, retyped((*wanted)[k], out.dtype), t, *graph, given, k);
      if (!d) return judge(std::move(r), d.error());
      if (d->empty()) continue;
      r.detail = "output '" + (*got)[k].name + "': " + *d;
      return r;
    }
  }
  r.outcome = OnnxTestResult::Passed;
  return r;
}

}  // namespace

Result<std::vector<OnnxTestResult>> runOnnxTests(const std::vector<std::string>& folders,
                                                 const CompileOptions& options) {
  std::vector<OnnxTestResult> out;
  for (const std::string& folder : folders) {
    const std::vector<std::string> tests = findTests(folder);
    if (tests.empty())
      return Error(Errc::NotFound, "'" + folder + "' holds no model.onnx and no folder that does");
    for (const std::string& test : tests) out.push_back(runTest(test, options));
  }
  return out;
}

}  // namespace rlx
