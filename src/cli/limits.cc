#include "cli/limits.h"

#include <algorithm>
#include <cstdio>

#include "base/text.h"

namespace rlx::cli {

Bound boundOf(const StepTime& step, const MachineLimits& limits) {
  const double compute = limits.gflops > 0 ? step.flops / limits.gflops * 1e-6 : 0;
  double memory = 0;
  for (const MachineLimits::Level& l : limits.levels) {
    if (l.readGbs <= 0) continue;
    memory = step.bytes / l.readGbs * 1e-6;
    // Half of a cache was measured.
    if (step.bytes <= 2.0 * static_cast<double>(l.bytes) * limits.threads) break;
  }
  return {std::max(compute, memory), memory > compute};
}

nlohmann::json toJson(const MachineLimits& limits) {
  nlohmann::json j{
      {"threads", limits.threads}, {"gflops", limits.gflops}, {"levels", nlohmann::json::array()}};
  for (const MachineLimits::Level& l : limits.levels)
    j["levels"].push_back(
        {{"name", l.name}, {"bytes", l.bytes}, {"readGbs", l.readGbs}, {"copyGbs", l.copyGbs}});
  return j;
}

std::string text(const MachineLimits& limits) {
  const auto number = [](double value, const char* unit) {
    char text[48];
    std::snprintf(text, sizeof text, "%.1f %s", value, unit);
    return std::string(text);
  };
  constexpr auto kRight = Table::Align::Right;
  Table t({"limit", "data of a thread", "read", "copy"},
          {Table::Align::Left, kRight, kRight, kRight});
  for (const MachineLimits::Level& l : limits.levels)
    t.row({l.name, humanBytes(static_cast<uint64_t>(l.bytes)), number(l.readGbs, "GB/s"),
           number(l.copyGbs, "GB/s")});
  return std::to_string(limits.threads) + (limits.threads == 1 ? " thread: " : " threads: ") +
         number(limits.gflops, "GFLOP/s of f32 multiply-adds") + "\n" + t.text();
}

}  // namespace rlx::cli
