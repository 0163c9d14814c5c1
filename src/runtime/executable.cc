#include "runtime/executable.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "base/clock.h"
#include "base/text.h"
#include "kir/cost.h"
#include "kir/print.h"
#include "ops/interpreter.h"
#include "ops/tolerance.h"
#include "passes/passes.h"
#include "runtime/call.h"
#include "runtime/registry.h"
#include "schedule/schedule.h"

namespace rlx {
namespace {

constexpr std::size_t kPlans = 32;  // call plans kept per executable

std::string shapeText(const std::vector<int64_t>& s) {
  return text(Shape(s.begin(), s.end()));
}

}  // namespace

struct Executable::State {
  const Backend* backend = nullptr;
  std::unique_ptr<Device> device;
  std::string description;
  CompileOptions options;
  Graph model;
  Program program;
  DispatchReport report;
  ExecutableStats stats;
  std::vector<KernelId> kernels;    // by step
  std::vector<BufferId> fixed;      // by program buffer: constants, inputs, outputs
  std::vector<int64_t> fixedBytes;  // allocated
  BufferId arena = 0;
  int64_t arenaBytes = 0;
  std::vector<std::unique_ptr<CallPlan>> plans;
  // Of the call under way.
  std::vector<const Tensor*> given;  // inputs by port
  struct Written {
    Tensor tensor;
    std::span<std::byte> bytes;
  };
  std::vector<Written> results;  // by port; memory that nobody else holds is used again
  std::vector<std::byte*> bases;
  int64_t callBytes = 0;

  ~State() {
    if (!device) return;
    (void)device->synchronize();  // releasing follows in any case
    for (const BufferId b : fixed)
      if (b) device->release(b);
    if (arena) device->release(arena);
  }

  Status match(const std::vector<NamedTensor>& inputs);
  Result<CallPlan*> plan();
  Status ensure(std::size_t buffer, int64_t bytes);
  BufferSlice slice(const CallPlan& c, uint32_t b) const {
    const int64_t bytes = c.memory.bytes[b];
    if (c.memory.offset[b] >= 0) return {arena, c.memory.offset[b], bytes};
    return {fixed[b], 0, bytes};
  }
  bool direct() const { return device->caps().hostMemory; }  // inputs and results in place
  Status prepareMemory(const CallPlan& c);
  Status placeResults(const CallPlan& c, std::vector<NamedTensor>* outputs);
  Status placeInputs(CallPlan& c);
  Status enqueue(CallPlan& c, std::size_t s);  // on a device without parts
  Status runStep(CallPlan& c, std::size_t s);
  Status runSteps(CallPlan& c, std::vector<StepTime>* times,
                  std::vector<std::pair<ValueId, Tensor>>* all);
  Status traceSteps(CallPlan& c, Trace& trace, std::vector<StepTime>* times);
  StepTime timeOf(const CallPlan& c, std::size_t s, double ms) const;
  Result<Tensor> read(const CallPlan& c, uint32_t buffer);
  // At most one of `trace`, and `times` alone, and `all`.
  Status run(const std::vector<NamedTensor>& inputs, std::vector<NamedTensor>* outputs,
             std::vector<StepTime>* times = nullptr,
             std::vector<std::pair<ValueId, Tensor>>* all = nullptr, Trace* trace = nullptr);
  Result<std::vector<NamedTensor>> runGraph(const std::vector<const Tensor*>& inputs) const;
};

Status Executable::State::match(const std::vector<NamedTensor>& inputs) {
  given.assign(model.inputs.size(), nullptr);
  auto known = [&] {
    std::string s;
    for (const Port& p : model.inputs) s += (s.empty() ? "'" : ", '") + p.name + "'";
    return s.empty() ? std::string("none") : s;
  };
  for (const NamedTensor& t : inputs) {
    std::size_t k = 0;
    while (k < given.size() && model.inputs[k].name != t.name) ++k;
    if (k == given.size())
      return Error(Errc::InputName,
                   "the program has no input '" + t.name + "'; it has: " + known());
    if (given[k]) return Error(Errc::InputName, "input '" + t.name + "' is given twice");
    given[k] = &t.tensor;
  }
  for (std::size_t k = 0; k < given.size(); ++k)
    if (!given[k])
      return Error(Errc::InputName, "input '" + model.inputs[k].name +
                                        "' is missing; the program needs: " + known());
  for (std::size_t k = 0; k < given.size(); ++k) {
    const Tensor& t = *given[k];
    int64_t n = 1;
    for (const int64_t e : t.shape)
      if (e < 0 || __builtin_mul_overflow(n, e, &n))
        return Error(Errc::InputType, "input '" + model.inputs[k].name + "' has impossible shape " +
                                          shapeText(t.shape));
    if (static_cast<int64_t>(t.bytes.size()) != storageBytes(t.dtype, n))
      return Error(Errc::InputType, "input '" + model.inputs[k].name + "' has " +
                                        std::to_string(t.bytes.size()) + " bytes for shape " +
                                        shapeText(t.shape));
  }
  return Ok{};
}

Result<CallPlan*> Executable::State::plan() {
  auto first = [&](std::size_t k) {
    const auto at = plans.begin() + static_cast<std::ptrdiff_t>(k);
    std::rotate(plans.begin(), at, at + 1);
    return plans[0].get();
  };
  auto sameTypes = [&](const CallPlan& c) {
    for (std::size_t k = 0; k < given.size(); ++k)
      if (c.inputs[k].first != given[k]->dtype || c.inputs[k].second != given[k]->shape)
        return false;
    return true;
  };
  for (std::size_t k = 0; k < plans.size(); ++k)
    if (sameTypes(*plans[k])) return first(k);
  std::vector<std::pair<DType, std::vector<int64_t>>> types;
  for (const Tensor* t : given) types.emplace_back(t->dtype, t->shape);
  RLX_TRY(Bindings bindings, bindInputs(model, types));
  RLX_OK(checkExtents(program.graph, bindings));
  RLX_TRY(std::unique_ptr<CallPlan> made,
          makeCallPlan(program, std::move(bindings), *device, kernels));
  made->inputs = std::move(types);
  ++stats.plans;
  plans.insert(plans.begin(), std::move(made));
  if (plans.size() > kPlans) plans.pop_back();
  return plans[0].get();
}

Status Executable::State::ensure(std::size_t b, int64_t bytes) {
  if (fixed[b] && fixedBytes[b] >= bytes) return Ok{};
  if (fixed[b]) device->release(fixed[b]);
  fixed[b] = 0;
  RLX_TRY(fixed[b], device->allocate(std::max<int64_t>(bytes, 4)));
  fixedBytes[b] = bytes;
  return Ok{};
}

// Nothing is enqueued before everything is there.
Status Executable::State::prepareMemory(const CallPlan& c) {
  callBytes = stats.constantBytes;
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const BufferKind kind = program.buffers[b].kind;
    if (kind != BufferKind::Input && kind != BufferKind::Output) continue;
    if (!direct()) RLX_OK(ensure(b, c.memory.bytes[b]));
    callBytes += c.memory.bytes[b];
  }
  if (c.memory.arenaBytes > arenaBytes || !arena) {
    if (arena) device->release(arena);
    arena = 0;
    RLX_TRY(arena, device->allocate(std::max<int64_t>(c.memory.arenaBytes, 4)));
    arenaBytes = c.memory.arenaBytes;
  }
  stats.arenaBytes = c.memory.arenaBytes;
  callBytes += arenaBytes;
  return Ok{};
}

// Tensors for the results. The memory of an earlier call's serves again when only `outputs` and
// this executable hold it.
Status Executable::State::placeResults(const CallPlan& c, std::vector<NamedTensor>* outputs) {
  results.resize(program.graph.outputs.size());
  outputs->resize(results.size());
  for (const ProgramBuffer& buffer : program.buffers) {
    if (buffer.kind != BufferKind::Output) continue;
    const auto port = static_cast<std::size_t>(buffer.port);
    Written& w = results[port];
    NamedTensor& out = (*outputs)[port];
    const int64_t holders = w.tensor.owner && out.tensor.owner == w.tensor.owner ? 2 : 1;
    const bool again = w.tensor.owner && w.tensor.owner.use_count() == holders &&
                       w.tensor.dtype == buffer.dtype && w.tensor.shape == c.outputShapes[port];
    std::atomic_thread_fence(
        std::memory_order_acquire);  // what former holders read, they have read
    if (!again) w.tensor = Tensor::uninitialized(buffer.dtype, c.outputShapes[port], &w.bytes);
    if (out.name != program.graph.outputs[port].name) out.name = program.graph.outputs[port].name;
    out.tensor = w.tensor;
  }
  return Ok{};
}

Status Executable::State::placeInputs(CallPlan& c) {
  if (!direct())
    for (std::size_t b = 0; b < program.buffers.size(); ++b)
      if (program.buffers[b].kind == BufferKind::Input)
        RLX_OK(device->upload(fixed[b], 0,
                              given[static_cast<std::size_t>(program.buffers[b].port)]->bytes));
  if (!device->caps().parts) return Ok{};
  bases.resize(program.buffers.size());
  for (std::size_t b = 0; b < bases.size(); ++b) {
    const ProgramBuffer& buffer = program.buffers[b];
    const auto port = static_cast<std::size_t>(buffer.port);
    if (direct() && buffer.kind == BufferKind::Input) {
      // Kernels only read inputs; the cast gives them the one pointer type they take.
      bases[b] = const_cast<std::byte*>(given[port]->bytes.data());
    } else if (direct() && buffer.kind == BufferKind::Output) {
      bases[b] = results[port].bytes.data();
    } else {
      const BufferSlice at = slice(c, static_cast<uint32_t>(b));
      bases[b] = device->hostPointer(at.buffer) + at.offset;
    }
  }
  setAddresses(program, c, bases);
  return Ok{};
}

Status Executable::State::enqueue(CallPlan& c, std::size_t s) {
  const Step& step = program.steps[s];
  CallPlan::StepPlan& p = c.steps[s];
  if (!step.native) {
    for (std::size_t k = 0; k < step.buffers.size(); ++k) p.slices[k] = slice(c, step.buffers[k]);
    return device->launch(kernels[s], p.grid, p.slices, p.params);
  }
  if (!step.native->onHost)
    return Error(Errc::Internal, "a native kernel of host memory on a device without it");
  NativeCall call = p.call;
  std::vector<std::vector<std::byte>> copies;
  for (std::size_t k = 0; k < call.operands.size(); ++k) {
    const BufferSlice in = slice(c, step.buffers[k]);
    copies.emplace_back(static_cast<std::size_t>(in.bytes));
    RLX_OK(device->download(in.buffer, in.offset, copies.back()));
    call.operands[k].data = copies.back().data() + p.offsets[k];
  }
  const BufferSlice out = slice(c, step.written);
  std::vector<std::byte> result(static_cast<std::size_t>(out.bytes));
  call.result.data = result.data();
  RLX_OK(step.program->run(call));
  return device->upload(out.buffer, out.offset, result);
}

Status Executable::State::runStep(CallPlan& c, std::size_t s) {
  if (!device->caps().parts) return enqueue(c, s);
  return rlx::runStep(program, c, s, *device, kernels[s]);
}

StepTime Executable::State::timeOf(const CallPlan& c, std::size_t s, double ms) const {
  const Step& step = program.steps[s];
  StepTime t;
  t.label = step.label;
  t.ms = ms;
  for (const uint32_t b : step.buffers) t.bytes += static_cast<double>(c.memory.bytes[b]);
  if (step.native)
    t.flops = 2 * static_cast<double>(product(c.steps[s].call.result.shape)) *
              static_cast<double>(
                  termsOf(program.graph, program.graph.node(step.nodes.front()), c.bindings));
  else
    t.flops = kir::cost(step.kernel, c.steps[s].grid, c.steps[s].params).flops;
  return t;
}

Result<Tensor> Executable::State::read(const CallPlan& c, uint32_t b) {
  const ProgramBuffer& buffer = program.buffers[b];
  std::vector<int64_t> shape;
  for (const Dim& d : program.graph.type(buffer.value).shape) {
    RLX_TRY(const int64_t e, d.evaluate(c.bindings));
    shape.push_back(e);
  }
  std::span<std::byte> bytes;
  Tensor t = Tensor::zeros(buffer.dtype, std::move(shape), &bytes);
  if (direct() && buffer.kind == BufferKind::Output) {
    const Tensor& from = results[static_cast<std::size_t>(buffer.port)].tensor;
    std::copy(from.bytes.begin(), from.bytes.end(), bytes.begin());
  } else {
    const BufferSlice from = slice(c, b);
    RLX_OK(device->download(from.buffer, from.offset, bytes));
  }
  return t;
}

Status Executable::State::runSteps(CallPlan& c, std::vector<StepTime>* times,
                                   std::vector<std::pair<ValueId, Tensor>>* all) {
  std::size_t chain = 0;
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    while (chain < program.chains.size() && program.chains[chain].first < s) ++chain;
    // A chain runs as one, unless its steps are looked at one by one.
    if (chain < program.chains.size() && program.chains[chain].first == s && !times && !all &&
        c.chains[chain].parts > 0) {
      RLX_OK(runChain(program, c, chain, *device, kernels, nullptr));
      s = program.chains[chain].last;
      continue;
    }
    const double start = times ? nowMs() : 0;
    if (auto r = runStep(c, s); !r)
      return std::move(r).error().note("in step " + std::to_string(s) + ", " +
                                       program.steps[s].label);
    if (times) {
      RLX_OK(device->synchronize());
      times->push_back(timeOf(c, s, nowMs() - start));
    }
    if (all) {
      RLX_TRY(Tensor t, read(c, program.steps[s].written));
      all->emplace_back(program.buffers[program.steps[s].written].value, std::move(t));
    }
  }
  return Ok{};
}

Status Executable::State::traceSteps(CallPlan& c, Trace& trace, std::vector<StepTime>* times) {
  using Kind = TraceEvent::Kind;
  std::size_t chain = 0;
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    while (chain < program.chains.size() && program.chains[chain].first < s) ++chain;
    const bool chained = chain < program.chains.size() && program.chains[chain].first == s &&
                         c.chains[chain].parts > 0;
    trace.enter(chained ? Kind::ChainChunks : Kind::Chunks, static_cast<int64_t>(s));
    const double start = nowUs();
    RLX_OK(chained ? runChain(program, c, chain, *device, kernels, &trace) : runStep(c, s));
    RLX_OK(device->synchronize());
    const double end = nowUs();
    trace.add({chained ? Kind::Chain : Kind::Step, 0, static_cast<int64_t>(s), 0, 0, start, end});
    times->push_back(timeOf(c, s, chained ? 0 : (end - start) * 1e-3));
    for (; chained && s < program.chains[chain].last; ++s) times->push_back(timeOf(c, s + 1, 0));
  }
  return Ok{};
}

Result<std::vector<NamedTensor>> Executable::State::runGraph(
    const std::vector<const Tensor*>& inputs) const {
  std::vector<RefTensor> in;
  for (const Tensor* t : inputs) {
    RLX_TRY(RefTensor r, fromLiteral(*t));
    in.push_back(std::move(r));
  }
  RLX_TRY(const std::vector<RefTensor> y, backend->runGraph(model, in));
  std::vector<NamedTensor> out;
  for (std::size_t k = 0; k < y.size(); ++k) {
    RLX_TRY(const std::vector<std::byte> bytes, toBytes(y[k]));
    out.push_back({model.outputs[k].name, Tensor::copy(y[k].dtype, y[k].shape, bytes)});
  }
  return out;
}

Status Executable::State::run(const std::vector<NamedTensor>& inputs,
                              std::vector<NamedTensor>* outputs, std::vector<StepTime>* times,
                              std::vector<std::pair<ValueId, Tensor>>* all, Trace* trace) {
  RLX_OK(match(inputs));
  ++stats.runs;
  if (backend->runGraph) {
    std::vector<std::pair<DType, std::vector<int64_t>>> types;
    for (const Tensor* t : given) types.emplace_back(t->dtype, t->shape);
    RLX_OK(bindInputs(model, types));
    RLX_TRY(*outputs, runGraph(given));
    return Ok{};
  }
  RLX_TRY(CallPlan* const c, plan());
  RLX_OK(prepareMemory(*c));
  RLX_OK(placeResults(*c, outputs));
  RLX_OK(placeInputs(*c));
  if (trace) {
    ThreadPool::observe(trace);
    Status traced = traceSteps(*c, *trace, times);
    ThreadPool::observe(nullptr);
    RLX_OK(std::move(traced));
  } else {
    RLX_OK(runSteps(*c, times, all));
  }
  stats.nativeBytes = 0;
  for (const Step& s : program.steps)
    if (s.native) stats.nativeBytes += s.program->memory();
  stats.peakBytes = std::max(stats.peakBytes, callBytes + stats.nativeBytes);
  if (direct()) return Ok{};
  for (std::size_t b = 0; b < program.buffers.size(); ++b)
    if (program.buffers[b].kind == BufferKind::Output)
      RLX_OK(device->download(fixed[b], 0,
                              results[static_cast<std::size_t>(program.buffers[b].port)].bytes));
  return Ok{};
}

Executable::Executable(std::unique_ptr<State> state) : state_(std::move(state)) {}
Executable::Executable(Executable&&) noexcept = default;
Executable& Executable::operator=(Executable&&) noexcept = default;
Executable::~Executable() = default;

Result<std::vector<NamedTensor>> Executable::run(const std::vector<NamedTensor>& inputs) {
  std::vector<NamedTensor> out;
  RLX_OK(state_->run(inputs, &out));
  return out;
}
Status Executable::run(const std::vector<NamedTensor>& inputs, std::vector<NamedTensor>* outputs) {
  return state_->run(inputs, outputs);
}
Result<std::vector<NamedTensor>> Executable::profile(const std::vector<NamedTensor>& inputs,
                                                     std::vector<StepTime>* times) {
  std::vector<NamedTensor> out;
  RLX_OK(state_->run(inputs, &out, times));
  return out;
}
Result<std::vector<NamedTensor>> Executable::trace(const std::vector<NamedTensor>& inputs,
                                                   Trace* trace, std::vector<StepTime>* times) {
  std::vector<NamedTensor> out;
  RLX_OK(state_->run(inputs, &out, times, nullptr, trace));
  return out;
}
Result<std::vector<std::pair<ValueId, Tensor>>> Executable::runAll(
    const std::vector<NamedTensor>& inputs) {
  std::vector<NamedTensor> out;
  std::vector<std::pair<ValueId, Tensor>> all;
  RLX_OK(state_->run(inputs, &out, nullptr, &all));
  return all;
}
const Graph& Executable::model() const {
  return state_->model;
}
const Program& Executable::program() const {
  return state_->program;
}
const DispatchReport& Executable::explain() const {
  return state_->report;
}
const ExecutableStats& Executable::stats() const {
  return state_->stats;
}
const std::string& Executable::deviceDescription() const {
  return state_->description;
}

Result<std::vector<KernelId>> Device::loadAll(std::span<const Code> codes) {
  std::vector<KernelId> ids;
  for (const Code& code : codes) {
    RLX_TRY(const KernelId id, load(code));
    ids.push_back(id);
  }
  return ids;
}

void Device::runGroups(KernelId, const std::array<int64_t, 3>&, std::byte* const*, const int32_t*,
                       int64_t, int64_t) {
  RLX_UNREACHABLE("a device without parts");
}

Result<const Backend*> findBackend(std::string_view device) {
  std::string names;
  for (const Backend* b : backends()) {
    if (b->name == device) return b;
    names += (names.empty() ? "" : ", ") + std::string(b->name);
  }
  return Error(Errc::DeviceUnavailable,
               "this build has no device '" + std::string(device) + "'; it has: " + names);
}

static Result<std::pair<const Backend*, std::unique_ptr<Device>>> openDevice(
    const CompileOptions& o) {
  RLX_TRY(const Backend* const backend, findBackend(o.device));
  std::unique_ptr<Device> device;
  if (!backend->runGraph) {
    RLX_TRY(device, backend->open(OpenOptions{o.threads, o.cacheDir, o.deviceIndex}));
  }
  return std::pair(backend, std::move(device));
}

static Result<Graph> prepare(const Graph& model, const CompileOptions& o) {
  RLX_OK(verify(model));
  RLX_OK(checkSymbols(model));
  std::vector<std::pair<std::string, Dim>> dims;
  for (const auto& [symbol, value] : o.dims) {
    if (value < 0)
      return Error(Errc::InvalidArgument,
                   "symbol '" + symbol + "' cannot be " + std::to_string(value));
    dims.emplace_back(symbol, Dim(value));
  }
  Graph g = model;
  if (!dims.empty()) {
    RLX_TRY(g, specialize(model, dims));
  }
  return simplify(g);
}

Result<DispatchReport> explain(const Graph& model, const CompileOptions& o) {
  RLX_TRY(const Graph g, prepare(model, o));
  RLX_TRY(const auto opened, openDevice(o));
  const Caps caps = opened.second ? opened.second->caps() : opened.first->defaultCaps;
  RLX_TRY(DispatchResult d, dispatch(g, *opened.first, caps, o));
  return std::move(d.report);
}

// Emits and loads each distinct kernel once: transformer layers share theirs. Gives the kernel of
// every step, 0 where there is none, and returns how many there are.
static Result<int64_t> loadKernels(const Program& program, const Backend& backend, Device& device,
                                   std::vector<KernelId>& kernels) {
  std::unordered_map<std::string, std::size_t> places;
  std::vector<Code> codes;
  std::vector<std::size_t> placeOf;  // in codes, by step
  for (const Step& step : program.steps) {
    placeOf.push_back(SIZE_MAX);
    if (step.native && !step.finished) continue;
    const auto [at, isNew] = places.emplace(kir::print(step.kernel), codes.size());
    placeOf.back() = at->second;
    if (!isNew) continue;
    auto code = backend.emit(step.kernel, device.caps());
    if (!code) return std::move(code).error().note("in the kernel of " + step.label);
    codes.push_back(*std::move(code));
  }
  RLX_TRY(const std::vector<KernelId> ids, device.loadAll(codes));
  kernels.clear();
  for (const std::size_t k : placeOf) kernels.push_back(k == SIZE_MAX ? 0 : ids[k]);
  return static_cast<int64_t>(codes.size());
}

Result<Executable> compile(const Graph& model, const CompileOptions& options) {
  const double start = nowMs();
  auto s = std::make_unique<Executable::State>();
  s->options = options;
  RLX_TRY(s->model, prepare(model, options));
  {
    RLX_TRY(auto opened, openDevice(options));
    s->backend = opened.first;
    s->device = std::move(opened.second);
  }
  const Caps caps = s->device ? s->device->caps() : s->backend->defaultCaps;
  s->description = s->device ? s->device->description() : "float64 reference interpreter";
  RLX_TRY(DispatchResult d, dispatch(s->model, *s->backend, caps, options));
  s->report = std::move(d.report);
  RLX_OK(s->report.status());
  if (s->backend->runGraph) {
    s->program.graph = s->model;
    s->stats.compileMs = nowMs() - start;
    return Executable(std::move(s));
  }
  RLX_TRY(Graph primitive, simplify(d.graph));
  const std::vector<const NativeKernel*> natives =
      chooseNatives(primitive, *s->backend, caps, options);
  RLX_TRY(s->program, schedule(std::move(primitive), caps, natives));
  RLX_TRY(s->stats.kernels, loadKernels(s->program, *s->backend, *s->device, s->kernels));
  const std::size_t n = s->program.buffers.size();
  s->fixed.assign(n, 0);
  s->fixedBytes.assign(n, 0);
  for (std::size_t b = 0; b < n; ++b) {
    if (s->program.buffers[b].kind != BufferKind::Constant) continue;
    const Node& node = s->program.graph.definition(s->program.buffers[b].value);
    const Literal& v = node.attrs.as<ConstantAttrs>().value;
    RLX_TRY(BufferId id, s->device->adopt(v.bytes));
    if (!id) {
      RLX_TRY(id, s->device->allocate(std::max<int64_t>(static_cast<int64_t>(v.bytes.size()), 4)));
      s->fixed[b] = id;
      RLX_OK(s->device->upload(id, 0, v.bytes));
    }
    s->fixed[b] = id;
    s->fixedBytes[b] = static_cast<int64_t>(v.bytes.size());
    s->stats.constantBytes += s->fixedBytes[b];
  }
  s->stats.steps = static_cast<int64_t>(s->program.steps.size());
  s->stats.compileMs = nowMs() - start;
  return Executable(std::move(s));
}

}  // namespace rlx
