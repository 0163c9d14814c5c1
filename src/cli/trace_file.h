// Traces as the JSON trace events that Perfetto and chrome://tracing open.
#pragma once
#include <string>

#include "runtime/executable.h"

namespace rlx::cli {

// Runs once and writes what ran when, on which thread, into a file; the outputs of the run. The
// float64 interpreter has no steps and gives a trace without events.
Result<std::vector<NamedTensor>> writeTrace(Executable& executable,
                                            const std::vector<NamedTensor>& inputs,
                                            const std::string& path);

}  // namespace rlx::cli
