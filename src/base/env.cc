#include "base/env.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "base/file.h"
#include "base/threads.h"

namespace rlx {
namespace {

constexpr EnvVariable kVariables[] = {
#define RLX_ENV(member, name, text) {name, text},
#include "base/env.def"
#undef RLX_ENV
};

Status assign(std::string& member, std::string_view, std::string_view value) {
  member = std::string(value);
  return Ok{};
}

Status assign(int& member, std::string_view name, std::string_view value) {
  const char* const end = value.data() + value.size();
  const auto [stop, failure] = std::from_chars(value.data(), end, member);
  if (failure == std::errc() && stop == end && member >= 1 && member <= kMaxThreads) return Ok{};
  return Error(Errc::InvalidArgument, std::string(name) + "='" + std::string(value) +
                                          "': expected a number from 1 to " +
                                          std::to_string(kMaxThreads));
}

}  // namespace

Result<EnvOptions> parseEnv(std::span<const std::string_view> variables) {
  EnvOptions out;
  std::string home;
  for (const std::string_view variable : variables) {
    const std::size_t equals = variable.find('=');
    if (equals == variable.npos) continue;
    const std::string_view name = variable.substr(0, equals);
    const std::string_view value = variable.substr(equals + 1);
    if (name == "HOME") home = std::string(value);
    // An empty variable counts as one that is not set, as in `${RLX_CACHE:-...}`.
    if (!name.starts_with("RLX_") || value.empty()) continue;
#define RLX_ENV(member, spelling, text)      \
  if (name == spelling) {                    \
    RLX_OK(assign(out.member, name, value)); \
    continue;                                \
  }
#include "base/env.def"
#undef RLX_ENV
    out.unknown.emplace_back(name);
  }
  if (out.cache.empty() && !home.empty()) out.cache = joinPath(home, ".cache/rlx");
  std::sort(out.unknown.begin(), out.unknown.end());
  return out;
}

Result<EnvOptions> readEnv() {
  std::vector<std::string_view> variables;
  for (char** at = environ; at && *at; ++at) variables.emplace_back(*at);
  return parseEnv(variables);
}

std::span<const EnvVariable> envVariables() {
  return kVariables;
}

}  // namespace rlx
