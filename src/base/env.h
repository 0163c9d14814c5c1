// The environment variables, read once into a struct that is then passed on: nothing else in RLX
// looks at the environment. The table env.def is the only list of them.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rlx {

struct EnvOptions {
  std::string data;
  std::string cache;
  int threads = 0;  // 0: not set
  std::string cpuIsa;
  std::string cxx;
  // Variables that begin with RLX_ and mean nothing here: likely misspelt.
  std::vector<std::string> unknown;
};

// From "NAME=value" strings. InvalidArgument names the variable and the value.
Result<EnvOptions> parseEnv(std::span<const std::string_view> variables);
// From this process.
Result<EnvOptions> readEnv();

struct EnvVariable {
  std::string_view name;
  std::string_view text;
};
// The table, for help and documentation.
std::span<const EnvVariable> envVariables();

}  // namespace rlx
