// Guard bytes round every buffer of every device. A program that compiles guarded_backends.cc has,
// in place of the registry of the build, the same backends with their devices wrapped: each buffer
// is allocated with guards before and behind it, which are compared after every run, and what a
// program has not written reads as NaN.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/device.h"

namespace rlx::test {

// How many guards have been compared so far, and the first that was found overwritten (empty:
// none).
int64_t guardsChecked();
const std::string& guardViolation();

// From here on kernels are not loaded but kept, so that nothing compiled may run;
// collectedKernels() ends this and returns them.
void collectKernels();
std::vector<Code> collectedKernels();

}  // namespace rlx::test
