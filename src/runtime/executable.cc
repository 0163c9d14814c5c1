#include "runtime/executable.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "base/text.h"
#include "base/threads.h"
#include "kir/cost.h"
#include "kir/print.h"
#include "ops/interpreter.h"
#include "ops/tolerance.h"
#include "passes/passes.h"
#include "runtime/registry.h"
#include "schedule/lower.h"
#include "schedule/memory_plan.h"
#include "schedule/schedule.h"

namespace rlx {
namespace {

constexpr std::size_t kPlans = 32;  // call plans kept per executable

double now() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string shapeText(const std::vector<int64_t>& s) {
  return text(Shape(s.begin(), s.end()));
}

}  // namespace

// Everything about one call that depends on symbol values only.
struct CallPlan {
  Bindings bindings;
  MemoryPlan memory;
  struct StepPlan {
    std::array<int64_t, 3> grid{};
    std::vector<int32_t> params;
    std::vector<NativeTensor> operands;  // data filled per call
    std::vector<int64_t> offsets;        // of operands, in elements
    NativeTensor result;
  };
  std::vector<StepPlan> steps;
  std::vector<std::vector<int64_t>> outputShapes;
};

// The epilogue kernel of a native step, over any part of its result.
class StepEpilogue final : public NativeEpilogue {
 public:
  void apply(int64_t rowBegin, int64_t rowEnd, int64_t columnBegin,
             int64_t columnEnd) const override {
    std::array<int32_t, kMostEpilogueParams> params{};
    std::copy(plan->params.begin(), plan->params.end(), params.begin());
    params[0] = static_cast<int32_t>(columnBegin), params[1] = static_cast<int32_t>(columnEnd);
    device->runGroups(kernel, plan->grid, globals.data(), params.data(), rowBegin, rowEnd);
  }

  Device* device = nullptr;
  KernelId kernel = 0;
  const CallPlan::StepPlan* plan = nullptr;
  std::vector<std::byte*> globals;
};

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

  ~State() {
    if (!device) return;
    (void)device->synchronize();  // releasing follows in any case
    for (const BufferId b : fixed)
      if (b) device->release(b);
    if (arena) device->release(arena);
  }

  Result<std::vector<const Tensor*>> match(const std::vector<NamedTensor>& inputs) const;
  Result<CallPlan*> plan(const std::vector<const Tensor*>& inputs);
  Status ensure(std::size_t buffer, int64_t bytes);
  BufferSlice slice(const CallPlan& c, uint32_t b) const {
    const int64_t bytes = c.memory.bytes[b];
    if (c.memory.offset[b] >= 0) return {arena, c.memory.offset[b], bytes};
    return {fixed[b], 0, bytes};
  }
  Status runStep(CallPlan& c, std::size_t s);
  NativeCall nativeCall(const CallPlan& c, std::size_t s) const;  // on unified memory
  StepEpilogue epilogue(const CallPlan& c, std::size_t s) const;
  Result<bool> runChain(CallPlan& c, const Chain& chain);
  Result<std::vector<NamedTensor>> run(const std::vector<NamedTensor>& inputs,
                                       std::vector<StepTime>* times,
                                       std::vector<std::pair<ValueId, Tensor>>* all);
  Result<std::vector<NamedTensor>> runGraph(const std::vector<const Tensor*>& inputs) const;
};

Result<std::vector<const Tensor*>> Executable::State::match(
    const std::vector<NamedTensor>& inputs) const {
  std::vector<const Tensor*> out(model.inputs.size(), nullptr);
  auto known = [&] {
    std::string s;
    for (const Port& p : model.inputs) s += (s.empty() ? "'" : ", '") + p.name + "'";
    return s.empty() ? std::string("none") : s;
  };
  for (const NamedTensor& t : inputs) {
    std::size_t k = 0;
    while (k < out.size() && model.inputs[k].name != t.name) ++k;
    if (k == out.size())
      return Error(Errc::InputName,
                   "the program has no input '" + t.name + "'; it has: " + known());
    if (out[k]) return Error(Errc::InputName, "input '" + t.name + "' is given twice");
    out[k] = &t.tensor;
  }
  for (std::size_t k = 0; k < out.size(); ++k)
    if (!out[k])
      return Error(Errc::InputName, "input '" + model.inputs[k].name +
                                        "' is missing; the program needs: " + known());
  for (std::size_t k = 0; k < out.size(); ++k) {
    const Tensor& t = *out[k];
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
  return out;
}

Result<CallPlan*> Executable::State::plan(const std::vector<const Tensor*>& inputs) {
  std::vector<std::pair<DType, std::vector<int64_t>>> types;
  for (const Tensor* t : inputs) types.emplace_back(t->dtype, t->shape);
  RLX_TRY(Bindings bindings, bindInputs(model, types));
  for (std::size_t k = 0; k < plans.size(); ++k)
    if (plans[k]->bindings == bindings) {
      std::rotate(plans.begin(), plans.begin() + static_cast<std::ptrdiff_t>(k),
                  plans.begin() + static_cast<std::ptrdiff_t>(k) + 1);
      return plans[0].get();
    }
  RLX_OK(checkExtents(program.graph, bindings));
  auto c = std::make_unique<CallPlan>();
  c->bindings = std::move(bindings);
  RLX_TRY(c->memory, planMemory(program, c->bindings));
  auto concrete = [&](const std::vector<Dim>& dims) -> Result<std::vector<int64_t>> {
    std::vector<int64_t> out;
    for (const Dim& d : dims) {
      RLX_TRY(const int64_t v, d.evaluate(c->bindings));
      out.push_back(v);
    }
    return out;
  };
  for (const Step& s : program.steps) {
    CallPlan::StepPlan p;
    if (s.native) {
      for (const StridedView& v : s.views) {
        NativeTensor t;
        RLX_TRY(t.shape, concrete(v.shape));
        RLX_TRY(t.strides, concrete(v.strides));
        RLX_TRY(const int64_t offset, v.offset.evaluate(c->bindings));
        p.operands.push_back(std::move(t));
        p.offsets.push_back(offset);
      }
      RLX_TRY(p.result.shape, concrete(s.result.shape));
      RLX_TRY(p.result.strides, concrete(s.result.strides));
    }
    if (!s.native || s.finished) {
      for (std::size_t k = 0; k < 3; ++k) {
        RLX_TRY(p.grid[k], s.grid[k].evaluate(c->bindings));
      }
      for (const Dim& d : s.params) {
        RLX_TRY(const int64_t v, d.evaluate(c->bindings));
        if (v < INT32_MIN || v > INT32_MAX)
          return Error(Errc::Unsupported,
                       "size " + d.text() + " = " + std::to_string(v) + " is beyond 2^31");
        p.params.push_back(static_cast<int32_t>(v));
      }
    }
    c->steps.push_back(std::move(p));
  }
  for (const Port& p : program.graph.outputs) {
    RLX_TRY(std::vector<int64_t> shape, concrete(program.graph.type(p.value).shape));
    for (const int64_t e : shape)
      if (e < 0)
        return Error(Errc::InputType,
                     "output '" + p.name + "' would have shape " + shapeText(shape));
    c->outputShapes.push_back(std::move(shape));
  }
  ++stats.plans;
  plans.insert(plans.begin(), std::move(c));
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

NativeCall Executable::State::nativeCall(const CallPlan& c, std::size_t s) const {
  const Step& step = program.steps[s];
  const CallPlan::StepPlan& p = c.steps[s];
  NativeCall call;
  call.operands = p.operands;
  call.result = p.result;
  call.threads = device->caps().threads;
  for (std::size_t k = 0; k < call.operands.size(); ++k) {
    const BufferSlice in = slice(c, step.buffers[k]);
    call.operands[k].data =
        device->hostPointer(in.buffer) + in.offset + p.offsets[k] * bytes(step.views[k].dtype);
  }
  const BufferSlice out = slice(c, step.written);
  call.result.data = device->hostPointer(out.buffer) + out.offset;
  return call;
}

StepEpilogue Executable::State::epilogue(const CallPlan& c, std::size_t s) const {
  const Step& step = program.steps[s];
  StepEpilogue e;
  e.device = device.get(), e.kernel = kernels[s], e.plan = &c.steps[s];
  for (std::size_t k = step.views.size(); k < step.buffers.size(); ++k) {
    const BufferSlice in = slice(c, step.buffers[k]);
    e.globals.push_back(device->hostPointer(in.buffer) + in.offset);
  }
  return e;
}

// False, and nothing done, where the work is too small to share out along the chain's dims: then
// each step finds its own way to use the threads.
Result<bool> Executable::State::runChain(CallPlan& c, const Chain& chain) {
  struct Link {
    NativeCall call;
    StepEpilogue after;
    std::vector<std::byte*> globals;
    int64_t groups = 0;
  };
  int64_t units = 1;
  for (const Dim& d : chain.over) {
    RLX_TRY(const int64_t e, d.evaluate(c.bindings));
    units *= e;
  }
  if (units == 0) return false;
  std::vector<Link> links(chain.last - chain.first + 1);
  int64_t grain = 1;
  for (uint32_t s = chain.first; s <= chain.last; ++s) {
    const Step& step = program.steps[s];
    Link& l = links[s - chain.first];
    if (step.native) {
      l.call = nativeCall(c, s);
      if (step.finished) {
        l.after = epilogue(c, s);
        l.call.epilogue = &l.after;
      }
      grain = std::max(grain, step.program->grain(l.call, units));
      continue;
    }
    for (const uint32_t b : step.buffers) {
      const BufferSlice in = slice(c, b);
      l.globals.push_back(device->hostPointer(in.buffer) + in.offset);
    }
    const std::array<int64_t, 3>& grid = c.steps[s].grid;
    l.groups = grid[0] * grid[1] * grid[2];
    if (l.groups % units != 0) return Error(Errc::Internal, "a chain does not divide its kernels");
  }
  // Few parts, because each reads all the weights; none so large that what it touches leaves the
  // cache.
  const int threads = device->caps().threads;
  const int64_t whole = units / grain;
  if (threads > 1 && whole < threads) return false;
  constexpr int64_t kLargestPart = 4;  // in grains
  int64_t parts = std::min<int64_t>(whole, threads);
  parts = std::max({parts, (whole + kLargestPart - 1) / kLargestPart, int64_t{1}});
  for (uint32_t s = chain.first; s <= chain.last; ++s) {
    if (!program.steps[s].native) continue;
    RLX_OK(program.steps[s].program->prepare(links[s - chain.first].call));
    links[s - chain.first].call.threads = 1;
  }
  ThreadPool::parallelFor(threads, parts, [&](int64_t first, int64_t end) {
    for (int64_t p = first; p < end; ++p) {
      const int64_t from = whole * p / parts * grain;
      const int64_t to = p + 1 == parts ? units : whole * (p + 1) / parts * grain;
      for (uint32_t s = chain.first; s <= chain.last; ++s) {
        Link& l = links[s - chain.first];
        const int64_t each = l.groups / units;
        if (program.steps[s].native)
          program.steps[s].program->runPart(l.call, units, from, to);
        else
          device->runGroups(kernels[s], c.steps[s].grid, l.globals.data(), c.steps[s].params.data(),
                            from * each, to * each);
      }
    }
  });
  return true;
}

Status Executable::State::runStep(CallPlan& c, std::size_t s) {
  const Step& step = program.steps[s];
  CallPlan::StepPlan& p = c.steps[s];
  if (!step.native) {
    std::vector<BufferSlice> slices;
    slices.reserve(step.buffers.size());
    for (const uint32_t b : step.buffers) slices.push_back(slice(c, b));
    return device->launch(kernels[s], p.grid, slices, p.params);
  }
  if (device->caps().unifiedMemory) {
    NativeCall call = nativeCall(c, s);
    if (!step.finished) return step.program->run(call);
    const StepEpilogue after = epilogue(c, s);
    call.epilogue = &after;
    return step.program->run(call);
  }
  NativeCall call;
  call.operands = p.operands;
  call.result = p.result;
  const BufferSlice out = slice(c, step.written);
  if (!step.native->onHost)
    return Error(Errc::Internal, "a native kernel of host memory on a device without it");
  std::vector<std::vector<std::byte>> copies;
  for (std::size_t k = 0; k < call.operands.size(); ++k) {
    const BufferSlice in = slice(c, step.buffers[k]);
    copies.emplace_back(static_cast<std::size_t>(in.bytes));
    RLX_OK(device->download(in.buffer, in.offset, copies.back()));
    call.operands[k].data = copies.back().data() + p.offsets[k] * bytes(step.views[k].dtype);
  }
  std::vector<std::byte> result(static_cast<std::size_t>(out.bytes));
  call.result.data = result.data();
  RLX_OK(step.program->run(call));
  return device->upload(out.buffer, out.offset, result);
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

Result<std::vector<NamedTensor>> Executable::State::run(
    const std::vector<NamedTensor>& inputs, std::vector<StepTime>* times,
    std::vector<std::pair<ValueId, Tensor>>* all) {
  RLX_TRY(const std::vector<const Tensor*> in, match(inputs));
  ++stats.runs;
  if (backend->runGraph) {
    std::vector<std::pair<DType, std::vector<int64_t>>> types;
    for (const Tensor* t : in) types.emplace_back(t->dtype, t->shape);
    RLX_OK(bindInputs(model, types));
    return runGraph(in);
  }
  RLX_TRY(CallPlan* const c, plan(in));
  // Memory first: nothing is enqueued before everything is there.
  int64_t total = stats.constantBytes;
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const BufferKind kind = program.buffers[b].kind;
    if (kind == BufferKind::Input || kind == BufferKind::Output) {
      RLX_OK(ensure(b, c->memory.bytes[b]));
      total += c->memory.bytes[b];
    }
  }
  if (c->memory.arenaBytes > arenaBytes || !arena) {
    if (arena) device->release(arena);
    arena = 0;
    RLX_TRY(arena, device->allocate(std::max<int64_t>(c->memory.arenaBytes, 4)));
    arenaBytes = c->memory.arenaBytes;
  }
  stats.arenaBytes = c->memory.arenaBytes;
  for (std::size_t b = 0; b < program.buffers.size(); ++b)
    if (program.buffers[b].kind == BufferKind::Input)
      RLX_OK(device->upload(fixed[b], 0,
                            in[static_cast<std::size_t>(program.buffers[b].port)]->bytes));
  std::size_t nextChain = 0;
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    const double start = times ? now() : 0;
    // A chain runs as one, unless its steps are looked at one by one.
    if (nextChain < program.chains.size() && program.chains[nextChain].first == s && !times &&
        !all) {
      const Chain& chain = program.chains[nextChain++];
      RLX_TRY(const bool ran, runChain(*c, chain));
      if (ran) {
        s = chain.last;
        continue;
      }
    }
    if (auto r = runStep(*c, s); !r)
      return std::move(r).error().note("in step " + std::to_string(s) + ", " +
                                       program.steps[s].label);
    if (times) {
      RLX_OK(device->synchronize());
      StepTime t;
      t.label = program.steps[s].label;
      t.ms = now() - start;
      for (const uint32_t b : program.steps[s].buffers)
        t.bytes += static_cast<double>(c->memory.bytes[b]);
      if (!program.steps[s].native) {
        const kir::Cost k =
            kir::cost(program.steps[s].kernel, c->steps[s].grid, c->steps[s].params);
        t.flops = k.flops;
      } else {
        const Node& node = program.graph.node(program.steps[s].nodes.front());
        t.flops = 2 * static_cast<double>(product(c->steps[s].result.shape)) *
                  static_cast<double>(termsOf(program.graph, node, c->bindings));
      }
      times->push_back(std::move(t));
    }
    if (all) {
      const uint32_t b = program.steps[s].written;
      const ProgramBuffer& buffer = program.buffers[b];
      std::vector<int64_t> shape;
      for (const Dim& d : program.graph.type(buffer.value).shape) {
        RLX_TRY(const int64_t e, d.evaluate(c->bindings));
        shape.push_back(e);
      }
      std::span<std::byte> bytes;
      Tensor t = Tensor::zeros(buffer.dtype, std::move(shape), &bytes);
      const BufferSlice from = slice(*c, b);
      RLX_OK(device->download(from.buffer, from.offset, bytes));
      all->emplace_back(buffer.value, std::move(t));
    }
  }
  stats.nativeBytes = 0;
  for (const Step& s : program.steps)
    if (s.native) stats.nativeBytes += s.program->memory();
  stats.peakBytes = std::max(stats.peakBytes, total + arenaBytes + stats.nativeBytes);
  std::vector<NamedTensor> out(program.graph.outputs.size());
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const ProgramBuffer& buffer = program.buffers[b];
    if (buffer.kind != BufferKind::Output) continue;
    const auto port = static_cast<std::size_t>(buffer.port);
    std::span<std::byte> bytes;
    out[port].name = program.graph.outputs[port].name;
    out[port].tensor = Tensor::zeros(buffer.dtype, c->outputShapes[port], &bytes);
    RLX_OK(device->download(fixed[b], 0, bytes));
  }
  return out;
}

Executable::Executable(std::unique_ptr<State> state) : state_(std::move(state)) {}
Executable::Executable(Executable&&) noexcept = default;
Executable& Executable::operator=(Executable&&) noexcept = default;
Executable::~Executable() = default;

Result<std::vector<NamedTensor>> Executable::run(const std::vector<NamedTensor>& inputs) {
  return state_->run(inputs, nullptr, nullptr);
}
Result<std::vector<NamedTensor>> Executable::profile(const std::vector<NamedTensor>& inputs,
                                                     std::vector<StepTime>* times) {
  return state_->run(inputs, times, nullptr);
}
Result<std::vector<std::pair<ValueId, Tensor>>> Executable::runAll(
    const std::vector<NamedTensor>& inputs) {
  std::vector<std::pair<ValueId, Tensor>> all;
  RLX_OK(state_->run(inputs, nullptr, &all));
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

Result<Executable> compile(const Graph& model, const CompileOptions& options) {
  const double start = now();
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
    s->stats.compileMs = now() - start;
    return Executable(std::move(s));
  }
  RLX_TRY(Graph primitive, simplify(d.graph));
  const std::vector<const NativeKernel*> natives =
      chooseNatives(primitive, *s->backend, caps, options);
  RLX_TRY(s->program, schedule(std::move(primitive), caps, natives));
  // One load per distinct kernel: transformer layers share theirs.
  std::unordered_map<std::string, KernelId> loaded;
  for (const Step& step : s->program.steps) {
    if (step.native && !step.finished) {
      s->kernels.push_back(0);
      continue;
    }
    std::string key = kir::print(step.kernel);
    auto at = loaded.find(key);
    if (at == loaded.end()) {
      auto code = s->backend->emit(step.kernel, caps);
      if (!code) return std::move(code).error().note("in the kernel of " + step.label);
      RLX_TRY(const KernelId id, s->device->load(*code));
      at = loaded.emplace(std::move(key), id).first;
    }
    s->kernels.push_back(at->second);
  }
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
  s->stats.kernels = static_cast<int64_t>(loaded.size());
  s->stats.steps = static_cast<int64_t>(s->program.steps.size());
  s->stats.compileMs = now() - start;
  return Executable(std::move(s));
}

}  // namespace rlx
