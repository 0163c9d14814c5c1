// Other programs, run without a shell: arguments reach them as they are, so that nothing in a path
// or a name is ever interpreted.
#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"

namespace rlx {

struct ProcessResult {
  int status = 0;      // the exit status; 128 + N when signal N ended it
  std::string output;  // stdout and stderr, as they came
};

// Runs arguments[0], looked for in PATH when it has no slash, with the environment of this process
// and nothing on stdin, and waits. Of the output `maxOutput` bytes are kept, the rest is dropped.
// NotFound when there is no such program or it cannot be started; Io with the system's reason. Not
// for processes that ignore SIGCHLD: there the system keeps no exit status.
Result<ProcessResult> runProcess(std::span<const std::string> arguments, std::size_t maxOutput);

}  // namespace rlx
