// How far a run is from what the machine does at most.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/device.h"
#include "runtime/executable.h"

namespace rlx::cli {

// The larger of the times that the arithmetic and the traffic of a step take at the limits. A
// step's bytes come from the smallest level that holds them: a yardstick, not a simulation.
struct Bound {
  double ms = 0;
  bool memory = false;  // the traffic takes longer
};
Bound boundOf(const StepTime& step, const MachineLimits& limits);

nlohmann::json toJson(const MachineLimits& limits);
// A table for people.
std::string text(const MachineLimits& limits);

}  // namespace rlx::cli
