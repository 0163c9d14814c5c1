#include "cli/trace_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"

namespace rlx::cli {
namespace {

using nlohmann::json;

json named(const char* what, int thread, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", 0}, {"tid", thread}, {"args", {{"name", name}}}};
}

json toJson(const TraceEvent& e, const Program& program, const std::vector<StepTime>& work,
            double origin) {
  using Kind = TraceEvent::Kind;
  const auto step = static_cast<std::size_t>(e.step);
  json args{{"step", e.step}};
  std::string name = program.steps[step].label, category = "step";
  switch (e.kind) {
    case Kind::Step: args["flops"] = work[step].flops, args["bytes"] = work[step].bytes; break;
    case Kind::ChainStep: args["units"] = {e.begin, e.end}; break;
    case Kind::Chunks: category = "chunks", args["chunks"] = {e.begin, e.end}; break;
    case Kind::Chain: category = "chain", name = "chain of " + name; break;
    case Kind::ChainChunks:
      category = "chunks", name = "parts of the chain of " + name;
      args["parts"] = {e.begin, e.end};
      break;
  }
  return {{"ph", "X"},
          {"name", name},
          {"cat", category},
          {"pid", 0},
          {"tid", e.thread},
          {"ts", e.startUs - origin},
          {"dur", e.endUs - e.startUs},
          {"args", std::move(args)}};
}

}  // namespace

Result<std::vector<NamedTensor>> writeTrace(Executable& executable,
                                            const std::vector<NamedTensor>& inputs,
                                            const std::string& path) {
  Trace trace;
  std::vector<StepTime> work;
  RLX_TRY(std::vector<NamedTensor> outputs, executable.trace(inputs, &trace, &work));
  // Parents before what they contain.
  std::sort(trace.events.begin(), trace.events.end(), [](const TraceEvent& a, const TraceEvent& b) {
    return a.startUs != b.startUs ? a.startUs < b.startUs : a.endUs > b.endUs;
  });
  const double origin = trace.events.empty() ? 0 : trace.events.front().startUs;
  json events = json::array();
  events.push_back(named("process_name", 0, executable.deviceDescription()));
  int threads = 0;
  for (const TraceEvent& e : trace.events) threads = std::max(threads, e.thread);
  for (int t = 0; t <= threads; ++t)
    events.push_back(named("thread_name", t, t == 0 ? "caller" : "worker " + std::to_string(t)));
  for (const TraceEvent& e : trace.events)
    events.push_back(toJson(e, executable.program(), work, origin));
  const std::string text =
      json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}.dump() + "\n";
  RLX_OK(writeFileAtomic(path, text));
  return outputs;
}

}  // namespace rlx::cli
