// The dispatch contract, derived from code: for each node of a model and a device, native,
// common-IR, rewritten into ops that are, host where the user waived it, or fail with the chain of
// reasons.
#pragma once
#include <string>
#include <vector>

#include "ir/graph.h"
#include "runtime/device.h"
#include "runtime/options.h"
#include "schedule/native.h"

namespace rlx {

enum class DispatchClass : uint8_t { Native, CommonIr, Rewritten, Host, Fail };
std::string_view spelling(DispatchClass c);  // "native", "common-IR", "rewritten", "host", "FAIL"

struct Decision {
  DispatchClass path = DispatchClass::Fail;
  std::string op, node, location, type;
  std::string kernel;                // the native kernel
  std::vector<std::string> reasons;  // why earlier classes did not apply; on Fail: the whole chain
  std::vector<Decision> parts;       // of a rewrite
};

struct DispatchReport {
  std::string device;
  std::vector<Decision> nodes;  // of the model graph, leaves left out
  std::vector<std::string> waived;
  int64_t count(DispatchClass c) const;
  // One line: "35 native, 12 common-IR, 20 rewritten, 0 host, 0 fail".
  std::string summary() const;
  // The table, with the parts of rewrites indented; and as JSON.
  std::string text() const;
  std::string json() const;
  // NotDispatchable with every failing node, or Ok.
  Status status() const;
};

// What each node of the graph becomes on the backend, and the graph after its rewrites.
struct DispatchResult {
  DispatchReport report;
  Graph graph;
};
Result<DispatchResult> dispatch(const Graph& model, const Backend& backend, const Caps& caps,
                                const CompileOptions& options);

// Native kernels and host placements for every node of a graph that dispatch has rewritten.
std::vector<const NativeKernel*> chooseNatives(const Graph& graph, const Backend& backend,
                                               const Caps& caps, const CompileOptions& options);

// The native kernel for one node of a graph, or null; `reasons` receives why each declined.
const NativeKernel* findNative(const Graph& graph, NodeId node, const Backend& backend,
                               const Caps& caps, const CompileOptions& options,
                               std::vector<std::string>* reasons);

}  // namespace rlx
