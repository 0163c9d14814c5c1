// Compile a graph for a device, and run it. `Graph -> Program -> Code -> Executable` is the one
// road.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "runtime/dispatch.h"
#include "runtime/options.h"
#include "runtime/trace.h"
#include "schedule/program.h"

namespace rlx {

using Tensor = Literal;  // a host tensor: dtype, shape, bytes

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// Counters of an executable, for `bench`, `explain` and metrics.
struct ExecutableStats {
  double compileMs = 0;
  int64_t kernels = 0;  // distinct kernels loaded
  int64_t steps = 0;
  int64_t runs = 0;
  int64_t plans = 0;          // memory plans made: one per set of symbol values
  int64_t recompiles = 0;     // always 0 for symbolic programs
  int64_t constantBytes = 0;  // on the device
  int64_t arenaBytes = 0;     // of the last run
  int64_t nativeBytes = 0;    // kept by native kernels: packed weights
  int64_t peakBytes = 0;      // all of these, inputs and outputs, of the largest run
};

struct StepTime {
  std::string label;
  double ms = 0;
  double flops = 0, bytes = 0;
};

class Executable {
 public:
  Executable(Executable&&) noexcept;
  Executable& operator=(Executable&&) noexcept;
  ~Executable();

  // Inputs by name, in any order; all of them and no others. Results in output order. Errors name
  // the input, the expected and the given type. One caller at a time.
  Result<std::vector<NamedTensor>> run(const std::vector<NamedTensor>& inputs);
  // The same into `outputs`: where these are tensors that an earlier call of this executable wrote
  // and nobody else holds, their memory is written again. On the CPU a call of known sizes then
  // allocates nothing.
  Status run(const std::vector<NamedTensor>& inputs, std::vector<NamedTensor>* outputs);
  // The same with the time of every step; steps are synchronised one by one.
  Result<std::vector<NamedTensor>> profile(const std::vector<NamedTensor>& inputs,
                                           std::vector<StepTime>* times);
  // The same with what ran when; chains run as in `run`. `times` gets the work of every step, and
  // the time from its start to its end where it is in no chain.
  Result<std::vector<NamedTensor>> trace(const std::vector<NamedTensor>& inputs, Trace* trace,
                                         std::vector<StepTime>* times);
  // After a run: the values of the program's resident buffers are not kept; this runs once more and
  // returns every one of them by value id of `graph()`. For `rlx compare`.
  Result<std::vector<std::pair<ValueId, Tensor>>> runAll(const std::vector<NamedTensor>& inputs);

  const Graph& model() const;  // as compiled: model level
  const Program& program() const;
  const DispatchReport& explain() const;
  const ExecutableStats& stats() const;
  const std::string& deviceDescription() const;

  struct State;

 private:
  friend Result<Executable> compile(const Graph&, const CompileOptions&);
  explicit Executable(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The registered backend of that name; DeviceUnavailable lists the known names.
Result<const Backend*> findBackend(std::string_view device);

// Compiles for the device of the options. NotDispatchable lists every node that cannot run there.
Result<Executable> compile(const Graph& model, const CompileOptions& options);

// The dispatch report alone; it does not fail when nodes do.
Result<DispatchReport> explain(const Graph& model, const CompileOptions& options);

}  // namespace rlx
