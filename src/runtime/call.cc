#include "runtime/call.h"

#include <algorithm>

#include "base/clock.h"
#include "base/threads.h"
#include "schedule/lower.h"

namespace rlx {
namespace {

Result<std::vector<int64_t>> concrete(const std::vector<Dim>& dims, const Bindings& bindings) {
  std::vector<int64_t> out;
  for (const Dim& d : dims) {
    RLX_TRY(const int64_t v, d.evaluate(bindings));
    out.push_back(v);
  }
  return out;
}

Result<NativeTensor> concrete(const StridedView& v, const Bindings& bindings) {
  NativeTensor t;
  RLX_TRY(t.shape, concrete(v.shape, bindings));
  RLX_TRY(t.strides, concrete(v.strides, bindings));
  return t;
}

Status planNative(const Step& s, const Bindings& bindings, int32_t threads, CallPlan::StepPlan& p) {
  for (const StridedView& v : s.views) {
    RLX_TRY(NativeTensor t, concrete(v, bindings));
    RLX_TRY(const int64_t offset, v.offset.evaluate(bindings));
    p.call.operands.push_back(std::move(t));
    p.offsets.push_back(offset * bytes(v.dtype));
  }
  RLX_TRY(p.call.result, concrete(s.result, bindings));
  p.call.threads = threads;
  return Ok{};
}

Status planKernel(const Step& s, const Bindings& bindings, CallPlan::StepPlan& p) {
  for (std::size_t k = 0; k < 3; ++k) {
    RLX_TRY(p.grid[k], s.grid[k].evaluate(bindings));
  }
  for (const Dim& d : s.params) {
    RLX_TRY(const int64_t v, d.evaluate(bindings));
    if (v < INT32_MIN || v > INT32_MAX)
      return Error(Errc::Unsupported,
                   "size " + d.text() + " = " + std::to_string(v) + " is beyond 2^31");
    p.params.push_back(static_cast<int32_t>(v));
  }
  return Ok{};
}

int64_t groups(const CallPlan::StepPlan& p) {
  return p.grid[0] * p.grid[1] * p.grid[2];
}

// Few parts, because each reads all the weights; none so large that what it touches leaves the
// cache.
Result<CallPlan::ChainPlan> planChain(const Program& program, const CallPlan& plan,
                                      const Chain& chain, int threads) {
  CallPlan::ChainPlan c;
  c.units = 1;
  for (const Dim& d : chain.over) {
    RLX_TRY(const int64_t e, d.evaluate(plan.bindings));
    c.units *= e;
  }
  if (c.units == 0) return c;
  for (uint32_t s = chain.first; s <= chain.last; ++s) {
    const Step& step = program.steps[s];
    if (step.native)
      c.grain = std::max(c.grain, step.program->grain(plan.steps[s].call, c.units));
    else if (groups(plan.steps[s]) % c.units != 0)
      return Error(Errc::Internal, "a chain does not divide its kernels");
  }
  const int64_t whole = c.units / c.grain;
  if (threads > 1 && whole < threads) return c;
  constexpr int64_t kLargestPart = 4;  // in grains
  c.parts = std::min<int64_t>(whole, threads);
  c.parts = std::max({c.parts, (whole + kLargestPart - 1) / kLargestPart, int64_t{1}});
  return c;
}

}  // namespace

void StepEpilogue::apply(int64_t rowBegin, int64_t rowEnd, int64_t columnBegin,
                         int64_t columnEnd) const {
  std::array<int32_t, kMostEpilogueParams> p{};
  std::copy(params.begin(), params.end(), p.begin());
  p[0] = static_cast<int32_t>(columnBegin), p[1] = static_cast<int32_t>(columnEnd);
  device->runGroups(kernel, grid, globals.data(), p.data(), rowBegin, rowEnd);
}

Result<std::unique_ptr<CallPlan>> makeCallPlan(const Program& program, Bindings bindings,
                                               Device& device,
                                               const std::vector<KernelId>& kernels) {
  auto c = std::make_unique<CallPlan>();
  c->bindings = std::move(bindings);
  RLX_TRY(c->memory, planMemory(program, c->bindings));
  const int threads = device.caps().threads;
  for (std::size_t k = 0; k < program.steps.size(); ++k) {
    const Step& s = program.steps[k];
    CallPlan::StepPlan p;
    if (s.native) RLX_OK(planNative(s, c->bindings, threads, p));
    if (!s.native || s.finished) RLX_OK(planKernel(s, c->bindings, p));
    if (s.finished) {
      p.after = std::make_unique<StepEpilogue>();
      p.after->device = &device, p.after->kernel = kernels[k];
      p.after->grid = p.grid, p.after->params = p.params;
      p.after->globals.resize(s.buffers.size() - s.views.size());
      p.call.epilogue = p.after.get();
    } else if (!s.native) {
      p.globals.resize(s.buffers.size());
      p.slices.resize(s.buffers.size());
    }
    c->steps.push_back(std::move(p));
  }
  for (const Port& p : program.graph.outputs) {
    RLX_TRY(std::vector<int64_t> shape, concrete(program.graph.type(p.value).shape, c->bindings));
    for (const int64_t e : shape)
      if (e < 0)
        return Error(Errc::InputType, "output '" + p.name + "' would have shape " +
                                          text(Shape(shape.begin(), shape.end())));
    c->outputShapes.push_back(std::move(shape));
  }
  for (const Chain& chain : program.chains) {
    RLX_TRY(const CallPlan::ChainPlan p, planChain(program, *c, chain, threads));
    c->chains.push_back(p);
  }
  return c;
}

void setAddresses(const Program& program, CallPlan& plan, const std::vector<std::byte*>& bases) {
  if (plan.bases == bases) return;
  plan.bases = bases;
  for (std::size_t k = 0; k < program.steps.size(); ++k) {
    const Step& s = program.steps[k];
    CallPlan::StepPlan& p = plan.steps[k];
    for (std::size_t b = 0; b < s.views.size(); ++b)
      p.call.operands[b].data = bases[s.buffers[b]] + p.offsets[b];
    p.call.result.data = bases[s.written];
    std::vector<std::byte*>& globals = p.after ? p.after->globals : p.globals;
    for (std::size_t b = 0; b < globals.size(); ++b)
      globals[b] = bases[s.buffers[s.views.size() + b]];
  }
}

Status runStep(const Program& program, CallPlan& plan, std::size_t step, Device& device,
               KernelId kernel) {
  const Step& s = program.steps[step];
  const CallPlan::StepPlan& p = plan.steps[step];
  if (s.native) return s.program->run(p.call);
  const int64_t count = groups(p);
  const int threads = device.caps().threads;
  if (count <= 0) return Ok{};
  // A few chunks per thread: a late thread is helped, and a chunk stays long enough to pay for it.
  constexpr int64_t kChunks = 4;
  const int64_t chunks = threads == 1 ? 1 : std::min(count, threads * kChunks);
  ThreadPool::parallelFor(threads, chunks, [&](int64_t begin, int64_t end) {
    device.runGroups(kernel, p.grid, p.globals.data(), p.params.data(), count * begin / chunks,
                     count * end / chunks);
  });
  return Ok{};
}

Status runChain(const Program& program, CallPlan& plan, std::size_t chain, Device& device,
                const std::vector<KernelId>& kernels, Trace* trace) {
  const Chain& over = program.chains[chain];
  const CallPlan::ChainPlan& c = plan.chains[chain];
  const int threads = device.caps().threads;
  for (uint32_t s = over.first; s <= over.last; ++s) {
    if (program.steps[s].native) RLX_OK(program.steps[s].program->prepare(plan.steps[s].call));
  }
  const int64_t whole = c.units / c.grain;
  ThreadPool::parallelFor(threads, c.parts, [&](int64_t first, int64_t end) {
    for (int64_t p = first; p < end; ++p) {
      const int64_t from = whole * p / c.parts * c.grain;
      const int64_t to = p + 1 == c.parts ? c.units : whole * (p + 1) / c.parts * c.grain;
      for (uint32_t s = over.first; s <= over.last; ++s) {
        const CallPlan::StepPlan& step = plan.steps[s];
        const int64_t each = groups(step) / c.units;
        const double start = trace ? nowUs() : 0;
        if (program.steps[s].native)
          program.steps[s].program->runPart(step.call, c.units, from, to);
        else
          device.runGroups(kernels[s], step.grid, step.globals.data(), step.params.data(),
                           from * each, to * each);
        if (trace)
          trace->add(
              {TraceEvent::Kind::ChainStep, ThreadPool::self(), s, from, to, start, nowUs()});
      }
    }
  });
  return Ok{};
}

}  // namespace rlx
